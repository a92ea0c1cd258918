//! Forty facts planted in two hundred steps: how many an overview of ten thousand bytes still
//! shows, compared with the rule of the program that clients migrate from, on the same sessions.

use serde_json::{Value, json};
use sessionlog::{
    event::{Event, EventId, EventType, Origin, Position, Timestamp},
    harness::{ANSWER_BYTES, Overview, overview},
    projection::Facts,
};

use super::planted::{FACTS, Fact, Place, SHAPES, STEPS, Session, session};

/// Seeds that were not used for tuning.
const SEEDS: [u64; 5] = [1_101, 2_202, 3_303, 4_404, 5_505];

/// Folds the facts of a session from the events of its calls.
pub fn folded(session: &Session) -> Facts {
    let mut facts = Facts::default();
    events(session).iter().for_each(|event| facts.fold(event));
    facts
}

/// Returns the events of a session's calls.
pub fn events(session: &Session) -> Vec<Event> {
    let mut events = Vec::new();
    for (tool, call) in &session.calls {
        let mut add = |kind: &str, body: Value| {
            let position = Position(events.len() as u64);
            events.push(Event {
                position,
                id: EventId::new(&format!("e{position}")).unwrap(),
                kind: EventType::new(kind).unwrap(),
                origin: Origin::Model,
                created_at: None,
                processed_at: Timestamp(1_000 * position.0.cast_signed()),
                body: body.to_string().into(),
            });
        };
        if *tool == "add_sources" {
            let source = &call["sources"][0];
            add("source.found", json!({"url": source["url"], "title": source["title"]}));
            continue;
        }
        let number = &call["stepNumber"];
        if call["researchGoal"].is_string() {
            add("research.goal", json!({"goal": call["researchGoal"], "step": number}));
        }
        let rejected = call["rejectedApproaches"].as_array().cloned().unwrap_or_default();
        let step = json!({
            "number": number, "description": call["searchStep"], "reasoning": call["reasoning"],
            "confidence": call["confidence"], "rejected": rejected,
            "is_revision": call["isRevision"] == true, "revises": call["revisesStep"],
        });
        add("research.step", step);
        if call["knowledgeGap"].is_string() {
            let gap = format!("g{number}");
            let opened =
                json!({"gap_id": gap, "description": call["knowledgeGap"], "step": number});
            add("research.gap_opened", opened);
        }
        if call["closesGap"].is_string() {
            add("research.gap_closed", json!({"gap_id": call["closesGap"], "step": number}));
        }
    }
    events
}

/// Returns every line that a reader sees.
fn lines(view: &Overview) -> Vec<String> {
    let view = &view.shown;
    let mut lines: Vec<String> = view.summary.lines().map(str::to_owned).collect();
    lines.push(view.goal.clone());
    lines.extend(view.steps.iter().flatten().map(|line| line.line.clone()));
    for step in view.last_steps.iter().flatten() {
        lines.push(step.description.clone());
        lines.extend(step.reasoning.clone());
        lines.extend(step.rejected.clone());
    }
    lines.extend(view.gaps.iter().map(|gap| gap.description.clone()));
    lines.extend(view.rejected.iter().map(|line| line.text.clone()));
    let source = |title: &Option<String>| title.clone().unwrap_or_default();
    lines.extend(view.sources.iter().flatten().map(|line| source(&line.title)));
    lines
}

pub fn told<'a>(lines: &[String], session: &'a Session) -> Vec<&'a Fact> {
    let tells = |fact: &&Fact| {
        let subject = fact.subject.to_lowercase();
        let says =
            |line: &&String| line.contains(&fact.value) && line.to_lowercase().contains(&subject);
        lines.iter().any(|line| says(&line))
    };
    session.facts.iter().filter(tells).collect()
}

fn cut_at(text: &str, bytes: usize) -> String {
    // Cut at a character boundary, which favours the rule.
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text[..end.unwrap()].to_owned()
}

/// Returns the output of that program's rule: the last five descriptions, each cut at eighty bytes.
fn last_five(session: &Session) -> Vec<String> {
    session.descriptions.iter().rev().take(5).map(|text| cut_at(text, 80)).collect()
}

/// Returns that program's whole answer, with four times the length: a line of 120 bytes for every
/// step, the last three in full, every gap, every source.
fn whole_answer(session: &Session) -> Vec<String> {
    let mut lines = last_five(session);
    for (tool, call) in &session.calls {
        if *tool == "add_sources" {
            lines.extend(call["sources"][0]["title"].as_str().map(str::to_owned));
            continue;
        }
        let text = call["searchStep"].as_str().unwrap();
        lines.push(cut_at(text, 120));
        lines.extend(call["knowledgeGap"].as_str().map(str::to_owned));
        if call["stepNumber"].as_u64().unwrap() > STEPS - 3 {
            lines.push(text.to_owned());
            lines.extend(call["reasoning"].as_str().map(str::to_owned));
            let rejected = call["rejectedApproaches"].as_array().into_iter().flatten();
            lines.extend(rejected.filter_map(|text| text.as_str().map(str::to_owned)));
        }
    }
    lines
}

/// Formats the number of facts shown, by place and in total.
fn count(told: &[&Fact]) -> String {
    use Place::{Description, Gap, Reasoning, Rejected, Source};
    let of = |place: Place| told.iter().filter(|fact| fact.place == place).count();
    format!(
        "{:2} (descriptions {:2}, reasons {}, rejected {}, sources {}, gaps {})",
        told.len(),
        of(Description),
        of(Reasoning),
        of(Rejected),
        of(Source),
        of(Gap)
    )
}

#[test]
fn an_overview_shows_most_of_forty_facts_planted_in_two_hundred_steps() {
    let (mut ours, mut alone, mut theirs, mut whole, mut sessions) = (0, 0, 0, 0, 0);
    for shape in &SHAPES {
        for seed in SEEDS {
            let made = session(shape, seed);
            assert_eq!((made.facts.len(), made.descriptions.len()), (FACTS, 200));
            let view = overview(&folded(&made), false, ANSWER_BYTES);
            let all = lines(&view);
            let known = told(&all, &made);
            eprintln!("{:8} {seed}: {}", shape.name, count(&known));
            let summary: Vec<String> = view.shown.summary.lines().map(str::to_owned).collect();
            for stale in &made.stale {
                assert!(!summary.iter().any(|line| line.contains(stale)), "{stale} was taken back");
            }
            assert!(!view.shown.summary.contains('\u{fffd}'));
            let rule = told(&last_five(&made), &made).len();
            assert!(known.len() >= 20, "{} {seed}: {}", shape.name, count(&known));
            (ours, theirs, sessions) = (ours + known.len(), theirs + rule, sessions + 1);
            alone += told(&summary, &made).len();
            whole += told(&whole_answer(&made), &made).len();
        }
    }
    let facts = sessions * FACTS;
    eprintln!("of {facts}: overview {ours}, its summary {alone}; rule {theirs}, answer {whole}");
    assert!(ours * 100 >= facts * 60, "{ours} of {facts}");
    assert!(ours >= 12 * theirs, "{ours} against {theirs}");
}
