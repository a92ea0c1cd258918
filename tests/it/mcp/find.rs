//! Look-ups by words: every kind of item in a session is found, marked with its status, within the
//! limit of an answer, as of any point.

use serde_json::{Value, json};
use sessionlog::{
    event::{Batch, EventType, NewEvent, Origin, SessionId},
    service::Code,
};

use super::{
    bounds::{ANSWER_BYTES, hostile},
    desk::{Desk, assert_no_null, session_of, step, with},
};

async fn find(desk: &Desk, words: &str) -> Value {
    let answer = desk.ok("get_research_session", json!({ "find": words })).await;
    assert_no_null(&answer);
    assert_eq!(answer["responseMode"], "find");
    assert!(answer.to_string().len() <= ANSWER_BYTES, "{}", answer.to_string().len());
    answer
}

fn matches(answer: &Value) -> &[Value] {
    answer["matches"].as_array().unwrap()
}

/// Creates a session that mentions the Varna manuscript in every kind of item.
async fn desk() -> Desk {
    let desk = Desk::new();
    let told = [
        with(
            step(1),
            json!({"searchStep": "Opened a catalogue. The Varna manuscript was written in 1731.",
                "researchGoal": "who dives?", "knowledgeGap": "who bound the Varna manuscript?",
                "reasoning": "Catalogues name scribes, and the Varna manuscript has two."}),
        ),
        with(
            step(2),
            json!({"rejectedApproaches": ["dating the Varna manuscript by its paper"],
                "closesGap": "g1"}),
        ),
        with(
            step(3),
            json!({"searchStep": "The Varna manuscript was written in 1729, says its colophon.",
                "isRevision": true, "revisesStep": 1}),
        ),
        with(
            step(4),
            json!({"searchStep": "A copy of the Varna manuscript.", "branchId": "aside",
                "branchFromStep": 2}),
        ),
    ];
    for arguments in told {
        desk.ok("sequential_search", arguments).await;
    }
    let source = json!({"url": "https://a.example/7", "title": "On the Varna manuscript"});
    desk.ok("add_sources", json!({ "sources": [source] })).await;
    for event in [
        json!({"type": "user.message", "content": "compare both Varna manuscripts"}),
        json!({"type": "agent.message", "content": "I compared the Varna manuscripts."}),
        json!({"type": "agent.tool_use", "name": "fetch", "call_id": "c1",
            "input": {"page": "varna manuscript"}}),
        json!({"type": "agent.tool_result", "call_id": "c1", "content": "VARNA MANUSCRIPT, 1 copy"}),
        json!({"type": "shelf.moved", "what": "the Varna manuscript"}),
    ] {
        desk.ok("emit_event", json!({ "event": event })).await;
    }
    desk
}

#[tokio::test]
async fn a_look_up_returns_every_kind_of_item_with_position_and_status() {
    let desk = desk().await;
    let found = find(&desk, "Varna manuscript").await;
    let of = |kind: &str| -> Vec<&Value> {
        matches(&found).iter().filter(|one| one["kind"] == kind).collect()
    };
    for (kind, step) in [
        ("reason", Some(1)),
        ("rejected", Some(2)),
        ("gap", Some(1)),
        ("source", Some(4)),
        ("instruction", None),
        ("answer", None),
        ("call", None),
        ("result", None),
        ("event", None),
    ] {
        let all = of(kind);
        assert_eq!(all.len(), 1, "{kind}: {found}");
        assert_eq!(all[0]["stepNumber"].as_u64(), step, "{kind}");
        assert!(all[0]["position"].is_u64());
    }
    let steps: Vec<(u64, Option<u64>)> = of("step")
        .iter()
        .map(|one| (one["stepNumber"].as_u64().unwrap(), one["supersededBy"].as_u64()))
        .collect();
    assert!(steps.contains(&(1, Some(3))) && steps.contains(&(3, None)), "{steps:?}");
    assert_eq!(of("step").iter().find(|one| one["stepNumber"] == 4).unwrap()["branchId"], "aside");
    assert_eq!(of("gap")[0]["closed"], true);
    assert_eq!(of("result")[0]["matched"], json!(["VARNA", "MANUSCRIPT"]));
    assert_eq!(matches(&found)[0]["score"], 1.0);
    let scores: Vec<f64> =
        matches(&found).iter().map(|one| one["score"].as_f64().unwrap()).collect();
    assert!(scores.is_sorted_by(|one, other| one >= other), "{scores:?}");
    assert_eq!((&found["searchedFrom"], &found["truncated"]), (&json!(0), &json!(false)));
    assert_eq!(found["query"], "Varna manuscript");
}

#[tokio::test]
async fn the_answering_sentence_ranks_first_and_a_retracted_one_later() {
    let desk = desk().await;
    let found = find(&desk, "when was the Varna manuscript written?").await;
    let best = &matches(&found)[0];
    assert_eq!(best["text"], "The Varna manuscript was written in 1729, says its colophon.");
    assert_eq!((&best["kind"], &best["stepNumber"]), (&json!("step"), &json!(3)));
    let wrong = matches(&found).iter().find(|one| one["supersededBy"] == 3).unwrap();
    assert!(wrong["score"].as_f64().unwrap() <= 0.6, "{wrong}");
}

#[tokio::test]
async fn a_look_up_as_of_a_point_returns_nothing_later() {
    let desk = desk().await;
    let arguments = json!({"find": "Varna manuscript written", "at": "step:2"});
    let found = desk.ok("get_research_session", arguments).await;
    let texts: Vec<&str> =
        matches(&found).iter().map(|one| one["text"].as_str().unwrap()).collect();
    assert!(texts.iter().any(|text| text.contains("1731")), "{texts:?}");
    assert!(!texts.iter().any(|text| text.contains("1729")), "{texts:?}");
    assert!(matches(&found).iter().all(|one| one.get("supersededBy").is_none()), "{found}");
    assert!(matches(&found).iter().any(|one| one["closed"] == true), "closed by step 2");
    let before = desk.ok("get_research_session", json!({"find": "varna", "at": "0"})).await;
    assert_eq!((&before["matches"], &before["position"]), (&json!([]), &json!(0)));
}

/// Returns words of letters only, unique for each number.
fn name(number: u64) -> String {
    let letters = number.to_string();
    letters.bytes().map(|digit| char::from(b'a' + digit - b'0')).collect::<String>() + "thorpe"
}

#[tokio::test]
async fn space_left_by_matches_is_filled_with_items_the_overview_omitted() {
    let desk = Desk::new();
    let goal = json!({"researchGoal": "who dives?", "searchStep": "Opened the next page again."});
    desk.ok("sequential_search", with(step(1), goal)).await;
    for number in 2..=150 {
        let name = name(number);
        let said = format!("The {name} register was copied by hand. Opened the next page again.");
        let more = json!({"searchStep": said, "rejectedApproaches": [format!("dating {name}")]});
        desk.ok("sequential_search", with(step(number), more)).await;
    }
    let overview = desk.recover().await.to_string();
    let found = find(&desk, "unheard-of zeppelins").await;
    let beyond: Vec<&str> =
        found["findings"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(beyond.len() > 50, "{found}");
    for line in beyond.iter().filter(|line| line.contains("thorpe")) {
        let (_, words) = line.split_once("] ").unwrap();
        assert!(!overview.contains(words), "{line} is in the overview");
    }
    assert!(beyond.iter().any(|line| line.starts_with("ruled out: [")), "{beyond:?}");

    let found = find(&desk, "registers copied by hand").await;
    let lines = found["findings"].as_array().unwrap();
    assert!(lines.len() > 20 && matches(&found).len() > 20, "{found}");
    for line in lines {
        let (_, words) = line.as_str().unwrap().split_once("] ").unwrap();
        assert!(!matches(&found).iter().any(|one| one["text"] == words), "{words} is there twice");
    }

    // Of equal items those near a match come first.
    let near = find(&desk, &format!("{} register", name(70))).await;
    let lines = near["findings"].to_string();
    for step in [68, 69, 71, 72] {
        assert!(lines.contains(&format!("[{step}] ")), "{step}: {near}");
    }
}

#[tokio::test]
async fn a_look_up_without_hits_is_empty_and_one_without_words_is_rejected() {
    let desk = desk().await;
    let found = find(&desk, "unheard-of zeppelins").await;
    assert_eq!(
        (&found["matches"], &found["searchedFrom"], &found["truncated"]),
        (&json!([]), &json!(0), &json!(false))
    );
    for words in ["", " ?! ", "what is it", &"word ".repeat(70), &"x".repeat(5_000)] {
        let refused = desk.refused("get_research_session", json!({ "find": words })).await;
        assert_eq!(refused.code, Code::InvalidRequest, "{words:?}");
        assert_eq!(refused.hint.field.as_deref(), Some("find"), "{words:?}");
    }
    for (name, value) in
        [("stepId", json!(1)), ("branchId", json!("aside")), ("cursor", json!("steps:1"))]
    {
        let arguments = with(json!({"find": "varna"}), json!({ name: value }));
        let refused = desk.refused("get_research_session", arguments).await;
        assert_eq!(refused.code, Code::InvalidRequest, "{name}");
        assert_eq!(refused.hint.field.as_deref(), Some(name));
    }
}

#[tokio::test]
async fn an_answer_keeps_its_size_limit_and_reports_further_hits() {
    let desk = Desk::new();
    for number in 1..=60 {
        let text = format!("ledger {number}. {} ledger {}", hostile(4_000), hostile(4_000));
        let more = json!({"searchStep": text, "reasoning": text,
            "rejectedApproaches": (0..6).map(|n| format!("{n} {text}")).collect::<Vec<_>>()});
        desk.ok("sequential_search", with(step(number), more)).await;
    }
    let found = find(&desk, &format!("ledger wide {}", "x".repeat(3_000))).await;
    assert_eq!(found["truncated"], true);
    assert!(matches(&found).len() >= 10, "{}", matches(&found).len());
    assert!(found.to_string().len() >= 8_000, "{}", found.to_string().len());
    for one in matches(&found) {
        let text = one["text"].as_str().unwrap();
        assert!(text.len() <= 410 && !text.contains('\u{fffd}'), "{text}");
    }
    let positions: Vec<u64> =
        matches(&found).iter().map(|one| one["position"].as_u64().unwrap()).collect();
    let most = positions.iter().map(|at| positions.iter().filter(|other| *other == at).count());
    assert!(most.max().unwrap() <= 3, "{positions:?}");
}

#[tokio::test]
async fn only_the_newest_ten_thousand_events_are_read_and_the_answer_reports_it() {
    let desk = Desk::model();
    let begun = desk.ok("sequential_search", with(step(1), json!({"searchStep": "ledger"}))).await;
    let session = SessionId::new(&session_of(&begun)).unwrap();
    let event = |number: u32| NewEvent {
        id: None,
        kind: EventType::new("agent.message").unwrap(),
        origin: Origin::Model,
        created_at: None,
        position: None,
        body: format!(r#"{{"content":"word {number}"}}"#).into(),
    };
    for thousand in 0..10 {
        let events = (0..1_000).map(|n| event(1_000 * thousand + n)).collect();
        let batch = Batch { events, ..Batch::default() };
        desk.service.emit(&desk.caller, &session, batch, false).await.unwrap();
    }
    let tail = find(&desk, "9999").await;
    let position = tail["position"].as_u64().unwrap();
    assert_eq!(tail["searchedFrom"], position - 10_000);
    assert_eq!(matches(&tail)[0]["text"], "word 9999");
    assert_eq!(find(&desk, "ledger").await["matches"], json!([]), "it lies before");
    let arguments = json!({"find": "ledger", "at": "100"});
    let earlier = desk.ok("get_research_session", arguments).await;
    assert_eq!((matches(&earlier).len(), &earlier["searchedFrom"]), (1, &json!(0)));
}
