//! Views of small and very long sessions: bounded, deterministic, complete when paged.

use std::{
    collections::BTreeSet,
    sync::{Arc, LazyLock},
};

use crate::event;
use sessionlog::{
    api::{
        cursor::{PageCursor, ViewList},
        research::PatternOut,
        step::{StepLine, StepOfView},
    },
    harness::{ANSWER_BYTES, ANSWER_BYTES_MIN, Overview, json_bytes, list_page, overview, summary},
    projection::Facts,
};

/// Returns true if that step of a session of `steps` has a gap, a source and a message: all steps
/// of a usual session do, a few of a very long one.
fn has_more(number: u64, steps: u64) -> bool {
    steps <= 1_000 || number.is_multiple_of(100)
}

/// Builds a session of that many steps, with every kind of content, in the widest characters.
fn session(steps: u64) -> Arc<Facts> {
    static LONG: LazyLock<Arc<Facts>> = LazyLock::new(|| Arc::new(build_views(100_000)));
    if steps == 100_000 { Arc::clone(&LONG) } else { Arc::new(build_views(steps)) }
}

fn build_views(steps: u64) -> Facts {
    let mut facts = Facts::default();
    let wide = "\u{1}👨‍👩‍👧".repeat(if steps > 1_000 { 1 } else { 30 });
    for number in 1..=steps {
        let mut add = |kind: &str, body: serde_json::Value| {
            facts.fold(&event(facts.position.0, kind, body.to_string()));
        };
        let (text, rejected) = (format!("step {number} {wide}"), [format!("rejected in {number}")]);
        add(
            "research.step",
            serde_json::json!({"number": number, "description": text, "reasoning": wide,
                "confidence": "high", "rejected": rejected}),
        );
        if has_more(number, steps) {
            let (gap, text) = (format!("g{number}"), format!("gap {number} {wide}"));
            let opened = serde_json::json!({"gap_id": gap, "step": number, "description": text});
            add("research.gap_opened", opened);
            let url = format!("https://x.org/{number}");
            add("source.found", serde_json::json!({"url": &url, "title": wide}));
            add("user.message", serde_json::json!({"content": wide}));
            let (name, id) = (format!("tool {} {wide}", number % 40), format!("c{number}"));
            let used = serde_json::json!({"name": name, "call_id": id, "input": {"url": url}});
            add("agent.tool_use", used);
            let failed = ["429", "404", "boom"][usize::try_from(number % 3).expect("small")];
            let result = serde_json::json!({"call_id": id, "is_error": true, "content": failed});
            add("agent.tool_result", result);
        }
    }
    facts
}

fn prices(view: &Overview) -> usize {
    let step = |step: &StepOfView| {
        let rejected: usize = step.rejected.iter().map(|text| json_bytes(text) + 1).sum();
        300 + json_bytes(&step.description)
            + json_bytes(step.reasoning.as_deref().unwrap_or_default())
            + rejected
    };
    let line = |line: &StepLine| {
        let confidence = if line.confidence.is_some() { 22 } else { 0 };
        32 + confidence + json_bytes(&line.line)
    };
    let pattern = |line: &PatternOut| {
        let urls: usize = line.affected_urls.iter().map(|url| json_bytes(url) + 1).sum();
        100 + line.suggestion.len() + urls
    };
    let shown = &view.shown;
    let recent = shown.recent.iter().flatten();
    json_bytes(&shown.goal)
        + json_bytes(&shown.summary)
        + shown.steps.iter().flatten().map(line).sum::<usize>()
        + shown.last_steps.iter().flatten().map(step).sum::<usize>()
        + shown.gaps.iter().map(|gap| 40 + json_bytes(&gap.description)).sum::<usize>()
        + shown.sources.iter().flatten().map(|one| 28 + json_bytes(&one.url)).sum::<usize>()
        + shown.rejected.iter().map(|line| 30 + json_bytes(&line.text)).sum::<usize>()
        + view.patterns.iter().map(pattern).sum::<usize>()
        + view.providers.keys().map(|name| 30 + json_bytes(name)).sum::<usize>()
        + recent.map(|line| 80 + json_bytes(&line.text)).sum::<usize>()
}

#[test]
fn an_overview_is_bounded_at_any_number_and_size_of_steps() {
    for steps in [0, 1, 8, 9, 10, 1_000, 100_000] {
        let facts = session(steps);
        for full in [true, false] {
            for budget in [ANSWER_BYTES_MIN, ANSWER_BYTES] {
                let view = overview(&facts, full, budget);
                assert!(prices(&view) <= budget, "{steps} {full} {budget}: {}", prices(&view));
                assert_eq!(view.shown.steps_total, steps);
                assert_eq!(view, overview(&facts, full, budget));
                let whole = if budget == ANSWER_BYTES { 3 } else { 1 };
                let last_steps = view.shown.last_steps.map_or(0, |steps| steps.len());
                assert!(last_steps as u64 >= steps.min(whole), "{steps} {full} {budget}");
            }
        }
    }
}

#[test]
fn paging_returns_each_step_source_gap_and_rejection_once() {
    for (steps, budget) in [(10, 3_000), (1_000, 10_000), (100_000, 10_000)] {
        let facts = session(steps);
        let research = &facts.research;
        let first = overview(&facts, false, budget).shown;
        let cursor = |list: &str| first.cursors.get(list).copied();
        let index = first.steps.iter().flatten();
        let mut numbers: Vec<u64> = index.rev().map(|line| line.number).collect();
        let mut next = cursor("steps");
        while let Some(PageCursor::List { before, .. }) = next {
            let page = list_page(research, ViewList::Steps, before, budget);
            let (lines, more) = (page.steps, page.next_cursor);
            numbers.extend(lines.iter().rev().map(|line| line.number));
            next = more;
        }
        assert_eq!(numbers, (1..=steps).rev().collect::<Vec<_>>());

        // The lists of an overview are selected from all items, so that a page may repeat them.
        let shown = first.sources.iter().flatten();
        let mut urls: BTreeSet<String> = shown.map(|line| line.url.clone()).collect();
        let mut next = cursor("sources");
        while let Some(PageCursor::List { before, .. }) = next {
            let page = list_page(research, ViewList::Sources, before, budget);
            let (lines, more) = (page.sources, page.next_cursor);
            urls.extend(lines.into_iter().map(|line| line.url));
            next = more;
        }
        let more: Vec<u64> = (1..=steps).rev().filter(|n| has_more(*n, steps)).collect();
        assert_eq!(urls, more.iter().map(|n| format!("https://x.org/{n}")).collect());

        let mut gaps: BTreeSet<String> = first.gaps.iter().map(|line| line.id.clone()).collect();
        let mut next = cursor("gaps");
        while let Some(PageCursor::List { before, .. }) = next {
            let page = list_page(research, ViewList::Gaps, before, budget);
            let (lines, more) = (page.gaps, page.next_cursor);
            gaps.extend(lines.into_iter().map(|line| line.id));
            next = more;
        }
        let shown = first.rejected.iter().map(|line| line.text.clone());
        let mut rejected: BTreeSet<String> = shown.collect();
        let mut next = cursor("rejected");
        while let Some(PageCursor::List { before, .. }) = next {
            let page = list_page(research, ViewList::Rejected, before, budget);
            let (lines, more) = (page.rejected, page.next_cursor);
            rejected.extend(lines.into_iter().map(|line| line.text));
            next = more;
        }
        assert_eq!((gaps.len(), rejected.len() as u64), (more.len(), steps));
    }
}

#[test]
fn steps_appended_between_pages_do_not_change_the_paging() {
    let (before, after) = (session(100), session(120));
    let first = overview(&before, false, 3_000);
    let Some(PageCursor::List { before: from, .. }) = first.shown.cursors.get("steps").copied()
    else {
        panic!("100 steps do not fit 3 kB")
    };
    let page = |facts: &Facts| list_page(&facts.research, ViewList::Steps, from, 3_000);
    assert_eq!(page(&before), page(&after));
}

#[test]
fn a_session_without_research_is_summarised_from_its_messages() {
    let mut facts = Facts::default();
    for (kind, body) in [
        ("user.message", r#"{"content":"change my flight"}"#),
        ("agent.tool_use", r#"{"name":"get_user","input":{"id":7},"call_id":"c1"}"#),
        ("agent.message", r#"{"content":[{"type":"text","text":"which one?"}]}"#),
        ("user.message", r#"{"content":"the one to Oslo"}"#),
    ] {
        facts.fold(&event(facts.position.0, kind, body.to_owned()));
    }
    let view = overview(&facts, false, ANSWER_BYTES);
    let shown = view.shown;
    assert_eq!(shown.goal, "change my flight");
    assert_eq!(shown.steps_total, 0);
    let said: Vec<_> = shown.instructions.iter().map(|quote| quote.text.as_str()).collect();
    assert_eq!(said, ["the one to Oslo"]);
    assert_eq!(shown.summary, "4 events, no research steps.\nThe agent said: which one?");
    let talk = view.talk.expect("four events");
    assert_eq!(talk.counts.first(), Some(&("user.message".to_owned(), 2)));
    let recent = shown.recent.expect("four events");
    assert_eq!(recent.len(), 4);
    assert_eq!(recent.get(1).map(|line| line.text.as_str()), Some(r#"get_user {"id":7}"#));
}

#[test]
fn a_summary_contains_goal_progress_findings_rejections_and_open_gaps() {
    let mut facts = Facts::default();
    for (kind, body) in [
        ("research.goal", r#"{"goal":"find the cheapest","step":1}"#),
        (
            "research.step",
            r#"{"number":1,"description":"A costs 9","confidence":"high","total_steps_estimate":4}"#,
        ),
        ("research.step", r#"{"number":2,"description":"asked B","rejected":["calling C"]}"#),
        ("research.gap_opened", r#"{"description":"price of D"}"#),
        ("research.summary", r#"{"summary":"A leads"}"#),
    ] {
        facts.fold(&event(facts.position.0, kind, body.to_owned()));
    }
    assert_eq!(
        summary(&facts, 2_000),
        "Caller's summary after step 2: A leads\nGoal: find the cheapest\n2 steps of about 4; not \
         complete. Latest: [2] asked B\nFound:\n- [1] A costs 9\nRuled out:\n- [2] calling C\n\
         Open:\n- (p3) price of D"
    );
}
