//! Counts the planted facts that an answer states, by kind, and the retracted values. It must not
//! read an answer's members by name, except those that mark a file as reverted.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    super::arguments::scalars,
    planted::{Fact, Kind, Made},
};

/// Number of facts by kind.
pub(super) type Counts = BTreeMap<Kind, usize>;

/// Counts the facts of each kind that an answer states.
pub(super) fn given(answer: &Value, facts: &[Fact]) -> Counts {
    by_kind(stated_facts(answer, facts).into_iter())
}

/// Returns the facts whose subject and value are in one line of an answer.
fn stated_facts<'a>(answer: &Value, facts: &'a [Fact]) -> Vec<&'a Fact> {
    let all = scalars(answer);
    let lines: Vec<&str> = all.iter().flat_map(|text| text.lines()).collect();
    let has = |fact: &&Fact| {
        lines.iter().any(|line| line.contains(&fact.subject) && line.contains(&fact.value))
    };
    facts.iter().filter(has).collect()
}

/// Counts facts by kind.
pub(super) fn by_kind<'a>(facts: impl Iterator<Item = &'a Fact>) -> Counts {
    let mut counts = Counts::new();
    facts.for_each(|fact| *counts.entry(fact.kind).or_default() += 1);
    counts
}

/// Returns the retracted values that an answer still states.
pub(super) fn stale<'a>(answer: &Value, made: &'a Made) -> Vec<&'a str> {
    let values = stated_facts(answer, &made.stale).into_iter().map(|fact| &fact.value);
    let files = answer.get("file_references").and_then(Value::as_array).into_iter().flatten();
    let changed: Vec<&str> = files
        .filter(|file| file.get("change").is_none_or(|change| change == "changed"))
        .filter_map(|file| file.get("path").and_then(Value::as_str))
        .collect();
    let reverted = made.reverted.iter().filter(|path| changed.contains(&path.as_str()));
    values.chain(reverted).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fact_counts_if_one_line_has_its_subject_and_value() {
        let fact = |kind, subject: &str, value: &str| {
            let (subject, value) = (subject.to_owned(), value.to_owned());
            Fact { kind, subject, value }
        };
        let facts = [
            fact(Kind::Decision, "Heron4", "123"),
            fact(Kind::Decision, "Plover9", "456"),
            fact(Kind::Item, "Linnet1", "789"),
        ];
        let answer = json!({
            "context": "the gateway Heron4 keeps 123\nPlover9 does\nsomething with 456",
            "context_items": [{ "content": "open(\"Linnet1\", 789)", "score": 7 }],
        });
        let expected: Counts = [(Kind::Decision, 1), (Kind::Item, 1)].into();
        assert_eq!(given(&answer, &facts), expected);
    }

    #[test]
    fn a_retracted_value_and_a_reverted_file_count_as_stale() {
        let fact = |subject: &str, value: &str| {
            let (subject, value) = (subject.to_owned(), value.to_owned());
            Fact { kind: Kind::Item, subject, value }
        };
        let made = Made {
            stale: vec![fact("Heron4", "91234"), fact("Plover9", "95678"), fact("Siskin2", "9")],
            reverted: vec!["a.py".to_owned(), "b.py".to_owned()],
            ..Made::default()
        };
        let answer = json!({
            "context": "Heron4 keeps 91234\nanother one keeps 95678",
            "file_references": [
                { "path": "a.py", "change": "changed" },
                { "path": "b.py", "change": "reverted" },
            ],
        });
        assert_eq!(stale(&answer, &made), ["91234", "a.py"]);
    }
}
