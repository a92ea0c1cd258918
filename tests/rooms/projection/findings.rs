//! The most informative sentences of a session.

use crate::event;
use sessionlog::projection::{Facts, Finding, Findings, Said};

/// Steps with how sure each is.
fn found(steps: &[(&str, Option<&str>)]) -> Findings {
    let mut facts = Facts::default();
    for (position, (text, confidence)) in (0..).zip(steps) {
        let number = position + 1;
        let body = serde_json::json!({
            "number": number, "description": text, "confidence": confidence,
        });
        facts.fold(&event(position, "research.step", body.to_string()));
    }
    facts.findings
}

fn best(findings: &Findings) -> &Finding {
    findings.found().iter().max_by_key(|one| one.score).expect("a finding")
}

#[test]
fn a_recurring_sentence_yields_to_one_said_once() {
    let usual = "Opened the next page of results and read the summary.";
    let told = format!("{usual} Kestrel dives were timed by Osgood in Varna. {usual}");
    let mut steps = vec![(usual, None); 60];
    steps.insert(20, (&told, None));
    let findings = found(&steps);
    assert_eq!(&*best(&findings).text, "Kestrel dives were timed by Osgood in Varna.");
    assert_eq!(best(&findings).said, Said::Step(20));
}

#[test]
fn there_are_never_more_than_the_pool_holds_and_they_are_the_best() {
    let texts: Vec<String> = (0..2_000)
        .map(|step| match step % 5 {
            0 => format!("alpha{step} beta{step} gamma{step} delta{step} epsilon{step}."),
            _ => format!("we looked again at the list and found nothing new {}", step % 7),
        })
        .collect();
    let steps: Vec<_> = texts.iter().map(|text| (text.as_str(), None)).collect();
    let findings = found(&steps);
    assert_eq!(findings.found().len(), 160);
    let is_told = |one: &Finding| matches!(one.said, Said::Step(step) if step % 5 == 0);
    assert!(findings.found().iter().all(is_told), "{:?}", findings.found());
    assert_eq!(findings.found(), found(&steps).found());
}

#[test]
fn a_superseded_step_says_nothing() {
    let mut facts = Facts::default();
    for (position, body) in (0..).zip([
        r#"{"number":1,"description":"Alpha beta gamma delta."}"#,
        r#"{"number":2,"description":"Other words here.","revises":1}"#,
    ]) {
        facts.fold(&event(position, "research.step", body));
    }
    assert!(facts.findings.found().iter().all(|one| one.said == Said::Step(1)));
}

#[test]
fn a_sure_step_counts_for_more() {
    let sure = found(&[
        ("some words said here.", Some("low")),
        ("other things told there.", Some("high")),
        ("third thing.", None),
    ]);
    assert_eq!(best(&sure).said, Said::Step(1));
}
