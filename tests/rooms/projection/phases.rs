//! The phases of a session.

use crate::event;
use sessionlog::{
    event::{Event, Timestamp},
    projection::{Ended, Facts, Phases},
};

/// Bounds of what is kept.
const PHASES_MAX: usize = 256;

fn folded(events: &[(i64, &str, &str)]) -> Phases {
    let mut facts = Facts::default();
    for (position, (minute, kind, body)) in (0..).zip(events) {
        let processed_at = Timestamp(minute * 60_000_000);
        facts.fold(&Event { processed_at, ..event(position, kind, *body) });
    }
    facts.phases
}

#[test]
fn instructions_finished_steps_compactions_and_quiet_end_a_phase() {
    let phases = folded(&[
        (0, "user.message", r#"{"content":"mend it"}"#),
        (1, "agent.message", r#"{"content":"looking"}"#),
        (2, "plan.updated", r#"{"steps":[{"text":"look at it","state":"done"},"mend it"]}"#),
        (3, "research.step", r#"{"number":1,"description":"The axle of wheel 7 is bent."}"#),
        (4, "context.compacted", "{}"),
        (5, "x.own", "{}"),
        (70, "x.own", "{}"),
        (71, "user.message", r#"{"content":"paint it"}"#),
    ]);
    let ranges: Vec<_> = phases.all().iter().map(|one| (one.from.0, one.to.0, one.ended)).collect();
    assert_eq!(
        ranges,
        [
            (0, 3, Some(Ended::PlanStep)),
            (3, 5, Some(Ended::Compaction)),
            (5, 6, Some(Ended::Quiet)),
            (6, 7, Some(Ended::Instruction)),
            (7, 8, None),
        ]
    );
    let first = phases.all().first().expect("a phase");
    assert_eq!(first.asked.as_deref(), Some("mend it"));
    assert_eq!(first.finished.as_deref(), Some("look at it"));
    assert_eq!(first.last.as_deref(), Some("looking"));
    let second = phases.all().get(1).expect("a phase");
    assert_eq!((second.steps, second.found.len()), (1, 1));
}

#[test]
fn the_oldest_phases_are_joined_and_nothing_of_the_range_is_lost() {
    let texts: Vec<String> = (0..600).map(|n| format!(r#"{{"content":"ask {n}"}}"#)).collect();
    let events: Vec<_> = (0..).zip(&texts).map(|(n, text)| (n, "user.message", &**text)).collect();
    let phases = folded(&events);
    assert_eq!((phases.all().len(), phases.joined()), (PHASES_MAX, 600 - PHASES_MAX as u64));
    let ends = phases.all().windows(2).all(|pair| pair[0].to == pair[1].from);
    assert!(ends && phases.all().first().is_some_and(|one| one.from.0 == 0));
}
