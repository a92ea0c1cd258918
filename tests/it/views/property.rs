//! For any recorded events and any options: a window keeps its budget, is a conversation that no
//! API rejects, and names every position it omits.

use proptest::prelude::*;
use serde_json::{Value, json};
use sessionlog::{
    api::window::WindowShape,
    event::{Event, Origin, Position, SessionId, Timestamp},
    harness::{
        Counter as _, RecallCandidate, Tokenizer, Transform, WindowContent, WindowParameters,
        fit_passages, window,
    },
    projection::WithdrawnRanges,
    service::WindowView,
    wire::{json as text, window::build_answer},
};

use super::{judge, real};

pub const TRANSFORMS: &[&str] = &[
    "compress",
    "compress:elide,keep=0,tokens=5",
    "compress:whitespace",
    "filter",
    "filter:drop=agent.tool_use",
    "filter:types=user.*|agent.*",
    "reorder",
    "reorder:slack=60",
    "annotate",
    "annotate:times",
];

fn words_strategy() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n\t ".to_owned()),
        "[a-z]{1,8}( [a-z]{1,8}){0,30}",
        "\\PC{0,60}",
        (1_usize..400).prop_map(|n| "long  words and\n\n\n{ \"json\": [1, 2] } ".repeat(n)),
        (1_usize..40).prop_map(|n| "```sh\n# a comment\nls\n```\n".repeat(n)),
    ]
}

fn content_strategy() -> impl Strategy<Value = Value> {
    let block = prop_oneof![
        words_strategy().prop_map(|text| json!({ "type": "text", "text": text })),
        Just(json!({"type": "image", "source": {"type": "url", "url": "https://x.org/a.png"}})),
        Just(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}})),
        Just(json!({"type": "image", "source": {"type": "file", "file_id": "f"}})),
        words_strategy().prop_map(|text| json!({ "type": "document", "source": { "data": text } })),
        Just(json!(17)),
    ];
    prop_oneof![
        4 => words_strategy().prop_map(Value::String),
        2 => prop::collection::vec(block, 0..4).prop_map(Value::Array),
        1 => Just(Value::Null),
        1 => Just(json!({ "x": 1 })),
    ]
}

/// Generates ids of calls: few, so that they collide, miss and repeat; some that no API accepts.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "c[0-5]",
        1 => Just("functions.read:0".to_owned()),
        1 => Just("x".repeat(50)),
        1 => Just(String::new()),
    ]
}

pub fn event() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => content_strategy().prop_map(|c| json!({ "type": "user.message", "content": c })),
        4 => content_strategy().prop_map(|c| json!({ "type": "agent.message", "content": c })),
        1 => content_strategy().prop_map(|c| json!({ "type": "system.message", "content": c })),
        5 => (id(), words_strategy()).prop_map(|(id, text)| json!({
            "type": "agent.tool_use", "name": "read", "call_id": id,
            "input": { "path": "a.rs", "text": text },
        })),
        1 => id().prop_map(|id| json!({
            "type": "agent.mcp_tool_use", "name": "a tool/with marks", "call_id": id, "input": [1],
        })),
        5 => (id(), content_strategy(), any::<bool>()).prop_map(|(id, c, failed)| json!({
            "type": "agent.tool_result", "call_id": id, "content": c, "is_error": failed,
        })),
        1 => content_strategy().prop_map(|c| json!({
            "type": "agent.tool_result", "name": "read", "content": c,
        })),
        1 => (words_strategy(), 0_u64..20, 0_u64..20).prop_map(|(text, from, to)| json!({
            "type": "context.compacted", "summary": text, "dropped": [{ "from": from, "to": to }],
        })),
        1 => Just(json!({ "type": "agent.thinking", "content": "hm" })),
        1 => words_strategy().prop_map(|text| json!({ "type": "research.goal", "goal": text })),
        1 => Just(json!({ "type": "user.message", "content": 1.5 })),
        1 => Just(json!({ "type": "agent.tool_use" })),
        1 => Just(json!({ "type": "agent.message", "name": [] })),
    ]
}

fn plan() -> impl Strategy<Value = WindowParameters> {
    let shape = prop::sample::select(vec![
        WindowShape::Events,
        WindowShape::Anthropic,
        WindowShape::OpenAi,
    ]);
    let tokenizer = prop::sample::select(Tokenizer::ALL.to_vec());
    let budget = prop_oneof![64_usize..400, 400_usize..5_000];
    let transforms = prop::collection::vec(prop::sample::select(TRANSFORMS), 0..4);
    let passage = prop::option::of(words_strategy());
    let parts = (budget, tokenizer, transforms, shape, passage);
    parts.prop_map(|(tokens_max, tokenizer, names, shape, passage)| WindowParameters {
        tokens_max,
        tokenizer,
        transforms: names.into_iter().map(|name| Transform::parse(name).unwrap()).collect(),
        shape,
        from: Position::ZERO,
        recalled: passage.and_then(|text| {
            let (position, session) = (Position(3), SessionId::new("s").ok());
            let (at, origin, who) = (Timestamp::default(), Origin::Tool.into(), None);
            let one = RecallCandidate { session, position, at, origin, who, text, score: 1.0 };
            fit_passages("", &mut vec![one], tokens_max / 2, &tokenizer)
        }),
        withdrawn: WithdrawnRanges::default(),
    })
}

/// Builds and checks a window; returns it as it is sent.
pub fn check(events: &[Event], at: Position, plan: &WindowParameters) -> Value {
    let made = window(events, at, plan);
    assert_eq!(made, window(events, at, plan), "the same twice");
    assert!(made.tokens <= plan.tokens_max, "{} of {}", made.tokens, plan.tokens_max);
    let view = WindowView { window: made, tokenizer: plan.tokenizer, position: at, recall: None };
    let answer = serde_json::to_value(build_answer(&view, plan.shape)).unwrap();
    let told = view.window.tokens;
    match plan.shape {
        WindowShape::Events => {
            let WindowContent::Events(shown) = &view.window.shown else { panic!("{answer}") };
            let texts = shown.iter().map(|event| plan.tokenizer.count(&text::event_text(event)));
            let cost: usize = texts.sum();
            assert!(cost <= told, "{cost} of {told}: {answer}");
            let positions: Vec<u64> = shown.iter().map(|event| event.position.0).collect();
            check_each_position_once(&positions, &answer, at);
        }
        WindowShape::Anthropic => judge::anthropic(&answer),
        WindowShape::OpenAi => judge::openai(&answer),
    }
    if plan.shape != WindowShape::Events {
        let cost = judge::price(&answer, plan.tokenizer);
        let messages = answer["messages"].as_array().unwrap();
        assert!(messages.is_empty() || cost <= told, "{cost} of {told}: {answer}");
    }
    answer
}

/// Checks that each position is shown or named exactly once.
fn check_each_position_once(shown: &[u64], answer: &Value, at: Position) {
    let mut all = shown.to_vec();
    for range in answer["dropped"].as_array().unwrap() {
        all.extend(range["from"].as_u64().unwrap()..range["to"].as_u64().unwrap());
    }
    all.sort_unstable();
    assert!(all.iter().copied().eq(0..at.0), "{answer}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_window_keeps_its_budget_and_is_accepted_by_every_model_api(
        texts in prop::collection::vec(event(), 0..40),
        plan in plan(),
        from in 0_usize..20,
    ) {
        let texts: Vec<String> = texts.iter().map(Value::to_string).collect();
        let mut events = real::events(&texts);
        let at = Position(events.len() as u64);
        // As if the middle was not read.
        if events.len() > from + 1 {
            events.drain(1..from.max(1));
        }
        check(&events, at, &plan);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_transform_in_every_format_keeps_the_budget_of_a_window(
        texts in prop::collection::vec(event(), 0..25),
    ) {
        let texts: Vec<String> = texts.iter().map(Value::to_string).collect();
        let events = real::events(&texts);
        let at = Position(events.len() as u64);
        let parsed = |name: &&str| Transform::parse(name).unwrap();
        // None, each alone, and all of them in both orders.
        let all: Vec<Transform> = TRANSFORMS.iter().map(parsed).collect();
        let alone = all.iter().map(|one| vec![one.clone()]);
        let back = all.iter().rev().cloned().collect();
        let chains: Vec<Vec<Transform>> = alone.chain([vec![], all.clone(), back]).collect();
        for transforms in chains {
            for shape in [WindowShape::Events, WindowShape::Anthropic, WindowShape::OpenAi] {
                for tokens_max in [64, 300, 2_000] {
                    let (transforms, tokenizer) = (transforms.clone(), Tokenizer::O200k);
                    let (from, recalled) = (Position::ZERO, None);
                    let withdrawn = WithdrawnRanges::default();
                    let plan = WindowParameters {
                        tokens_max, tokenizer, transforms, shape, from, recalled, withdrawn,
                    };
                    check(&events, at, &plan);
                }
            }
        }
    }
}

#[test]
fn windows_over_real_conversations_keep_their_budget_and_are_valid() {
    let Some(conversations) = real::conversations() else { return };
    let plans = [
        ("", WindowShape::Anthropic, 1_000),
        ("compress,reorder", WindowShape::OpenAi, 3_000),
        ("filter,compress,annotate", WindowShape::Anthropic, 2_500),
        ("compress", WindowShape::Events, 4_000),
    ];
    for (events, (names, shape, tokens_max)) in conversations.iter().zip(plans.iter().cycle()) {
        let names = names.split(',').filter(|name| !name.is_empty());
        let transforms = names.map(|name| Transform::parse(name).unwrap()).collect();
        let (tokens_max, shape) = (*tokens_max, *shape);
        let (tokenizer, from) = (Tokenizer::O200k, Position::ZERO);
        let plan = WindowParameters {
            tokens_max,
            tokenizer,
            transforms,
            shape,
            from,
            recalled: None,
            withdrawn: WithdrawnRanges::default(),
        };
        for at in [events.len() / 3, events.len() - 1, events.len()] {
            check(&events[..at], Position(at as u64), &plan);
        }
    }
}
