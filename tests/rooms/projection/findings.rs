//! The most informative sentences of a session.

use crate::event;
use sessionlog::projection::{Facts, Finding, FindingSource, Findings};

/// Returns the findings of steps, each with its confidence.
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
    findings.sentences().iter().max_by_key(|one| one.score).expect("a finding")
}

#[test]
fn a_recurring_sentence_ranks_below_a_unique_one() {
    let usual = "Opened the next page of results and read the summary.";
    let told = format!("{usual} Kestrel dives were timed by Osgood in Varna. {usual}");
    let mut steps = vec![(usual, None); 60];
    steps.insert(20, (&told, None));
    let findings = found(&steps);
    assert_eq!(&*best(&findings).text, "Kestrel dives were timed by Osgood in Varna.");
    assert_eq!(best(&findings).source, FindingSource::Step(20));
}

#[test]
fn only_the_best_findings_are_kept_beyond_the_maximum() {
    let texts: Vec<String> = (0..2_000)
        .map(|step| match step % 5 {
            0 => format!("alpha{step} beta{step} gamma{step} delta{step} epsilon{step}."),
            _ => format!("we looked again at the list and found nothing new {}", step % 7),
        })
        .collect();
    let steps: Vec<_> = texts.iter().map(|text| (text.as_str(), None)).collect();
    let findings = found(&steps);
    assert_eq!(findings.sentences().len(), 160);
    let is_told = |one: &Finding| matches!(one.source, FindingSource::Step(step) if step % 5 == 0);
    assert!(findings.sentences().iter().all(is_told), "{:?}", findings.sentences());
    assert_eq!(findings.sentences(), found(&steps).sentences());
}

#[test]
fn a_superseded_step_has_no_findings() {
    let mut facts = Facts::default();
    for (position, body) in (0..).zip([
        r#"{"number":1,"description":"Alpha beta gamma delta."}"#,
        r#"{"number":2,"description":"Other words here.","revises":1}"#,
    ]) {
        facts.fold(&event(position, "research.step", body));
    }
    assert!(facts.findings.sentences().iter().all(|one| one.source == FindingSource::Step(1)));
}

#[test]
fn a_finding_of_a_confident_step_ranks_higher() {
    let sure = found(&[
        ("some words said here.", Some("low")),
        ("other things told there.", Some("high")),
        ("third thing.", None),
    ]);
    assert_eq!(best(&sure).source, FindingSource::Step(1));
}
