//! Extracts the strings that a client reads in an answer, and counts the planted facts in them. It
//! must not know which view an answer is of.

use serde_json::Value;

use super::research::Fact;

/// Members by which a view marks a step that a later one revised.
const SUPERSEDED: [&str; 2] = ["supersededBy", "superseded_by"];

/// Maximum bytes of a step that must be shown whole; of a longer one, its beginning and end.
const WHOLE_STEP_BYTES: usize = 1_500;
/// Characters of the beginning and of the end of a longer text.
const BEGIN_CHARS: usize = 200;
const END_CHARS: usize = 100;

/// Returns every string value of an answer.
pub(super) fn strings(answer: &Value) -> Vec<&str> {
    let mut all = Vec::new();
    collect(answer, &|_| true, &mut all);
    all
}

/// Returns the strings of an answer without revised steps.
pub(super) fn current_strings(answer: &Value) -> Vec<&str> {
    let mut all = Vec::new();
    let is_current = |value: &Value| SUPERSEDED.iter().all(|name| value.get(name).is_none());
    collect(answer, &is_current, &mut all);
    all
}

fn collect<'a>(value: &'a Value, wanted: &dyn Fn(&Value) -> bool, all: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => all.push(text),
        Value::Array(values) => values.iter().for_each(|value| collect(value, wanted, all)),
        Value::Object(members) if wanted(value) => {
            members.values().for_each(|value| collect(value, wanted, all));
        }
        _ => {}
    }
}

/// Counts the facts shown: one string has both the subject, in any case, and the value.
pub(super) fn facts(strings: &[&str], facts: &[Fact]) -> u64 {
    let is_shown = |fact: &&Fact| {
        let subject = fact.subject.to_lowercase();
        let says =
            |text: &&str| text.contains(&fact.value) && text.to_lowercase().contains(&subject);
        strings.iter().any(says)
    };
    facts.iter().filter(is_shown).count() as u64
}

/// Counts the texts that are part of a string.
pub(super) fn parts<T: AsRef<str>>(strings: &[&str], texts: &[T]) -> u64 {
    let is_shown = |text: &&T| strings.iter().any(|string| string.contains(text.as_ref()));
    texts.iter().filter(is_shown).count() as u64
}

/// Counts the texts shown as instructions: whole, or their first 200 characters. White space is
/// compared as one blank: a view may break lines elsewhere.
pub(super) fn beginnings<T: AsRef<str>>(strings: &[&str], texts: &[T]) -> u64 {
    let strings: Vec<String> = strings.iter().map(|text| on_one_line(text)).collect();
    let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
    let beginning =
        |text: &T| on_one_line(text.as_ref()).chars().take(BEGIN_CHARS).collect::<String>();
    parts(&strings, &texts.iter().map(beginning).collect::<Vec<_>>())
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if a step, given as its recorded arguments, is shown whole: description, reasoning
/// and each rejected approach; of a step longer than 1 500 bytes the beginning and the end of its
/// description.
pub(super) fn has_step(strings: &[&str], step: &Value) -> bool {
    let texts = step_texts(step);
    let is_shown = |text: &&str| strings.iter().any(|string| string.contains(*text));
    if texts.iter().map(|text| text.len()).sum::<usize>() <= WHOLE_STEP_BYTES {
        return texts.iter().all(is_shown);
    }
    let description = texts.first().copied().unwrap_or_default();
    let begin: String = description.chars().take(BEGIN_CHARS).collect();
    let skipped = description.chars().count().saturating_sub(END_CHARS);
    let end: String = description.chars().skip(skipped).collect();
    strings.iter().any(|text| text.contains(&begin) && text.trim_end().ends_with(&end))
}

fn step_texts(step: &Value) -> Vec<&str> {
    let text = |name: &str| step.get(name).and_then(Value::as_str);
    let rejected = step.get("rejectedApproaches").and_then(Value::as_array).into_iter().flatten();
    let named = ["searchStep", "reasoning"].into_iter().filter_map(text);
    named.chain(rejected.filter_map(Value::as_str)).collect()
}

/// Converts a hook's answer to JSON: the data in its frame, or its lines, with those under a
/// heading about failures separate.
pub(super) fn given(text: &str) -> Value {
    let framed = text.split_once("<sessionlog").and_then(|(_, rest)| rest.split_once('>'));
    let framed = framed.and_then(|(_, rest)| rest.rsplit_once("</sessionlog>"));
    let data = framed.map(|(data, _)| serde_json::from_str::<Value>(data));
    if let Some(Ok(data @ (Value::Object(_) | Value::Array(_)))) = data {
        return data;
    }
    let (mut failing, mut others, mut is_failing) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        if line.trim_end().ends_with(':') || line.starts_with('#') {
            is_failing = line.to_lowercase().contains("fail");
        }
        let list = if is_failing { &mut failing } else { &mut others };
        list.push(Value::from(line));
    }
    serde_json::json!({ "failures": failing, "text": others })
}

/// Counts the tests shown as failing: in a member that lists failures, or in a line that reports a
/// failure and not that the test was mended.
pub(super) fn as_failing(answer: &Value, tests: &[String]) -> u64 {
    let is_shown = |test: &&String| shows_failing(answer, test, false);
    tests.iter().filter(is_shown).count() as u64
}

fn shows_failing(value: &Value, test: &str, is_failing: bool) -> bool {
    const MENDED: [&str; 4] = ["mended", "passes", "passed", "fixed"];
    match value {
        Value::String(text) => text.lines().filter(|line| line.contains(test)).any(|line| {
            let around = line.replace(test, "").to_lowercase();
            let says = |words: &[&str]| words.iter().any(|word| around.contains(word));
            (is_failing || says(&["fail", "error"])) && !says(&MENDED)
        }),
        Value::Array(values) => values.iter().any(|value| shows_failing(value, test, is_failing)),
        Value::Object(members) => members.iter().any(|(name, value)| {
            let is_failing = is_failing || matches!(&**name, "failures" | "failed");
            shows_failing(value, test, is_failing)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::research::StepMember, *};

    fn fact(subject: &str, value: &str) -> Fact {
        let (subject, value) = (subject.to_owned(), value.to_owned());
        Fact { place: StepMember::Description, step: 1, subject, value }
    }

    #[test]
    fn a_fact_is_found_in_one_string_that_has_subject_and_value() {
        let answer = json!({"a": ["The edge cache stalls at 7 MiB."], "the": "edge cache", "b": {
            "c": "9 MiB"}});
        let all = strings(&answer);
        assert_eq!(facts(&all, &[fact("the edge cache", "7 MiB")]), 1);
        assert_eq!(facts(&all, &[fact("the edge cache", "9 MiB"), fact("x", "7 MiB")]), 0);
    }

    #[test]
    fn a_retracted_step_is_not_current() {
        let answer = json!([{"line": "old", "supersededBy": 4}, {"line": "new"}]);
        assert_eq!(strings(&answer), ["old", "new"]);
        assert_eq!(current_strings(&answer), ["new"]);
    }

    #[test]
    fn an_instruction_is_found_by_its_beginning_in_any_layout() {
        let long = format!("Do this:\n\n- {}", "and that ".repeat(60));
        let told = format!("[3] Do this: - {}…", "and that ".repeat(30));
        assert_eq!(beginnings(&[&told], &[&long, "Do this: - and that"]), 2);
        assert_eq!(beginnings(&["[3] Do this: - and…"], &[&long]), 0);
    }

    #[test]
    fn a_hook_text_is_parsed_as_framed_data_or_as_lines() {
        let data =
            "Head.\n<sessionlog trust=\"x\">\n{\"failures\":[\"t1\"],\"a\":\"t2\"}\n</sessionlog>";
        let lines = "Tests that fail:\n- t1\nTests:\n- t2 passes\n- t3 FAILED, mended later";
        for text in [data, lines] {
            let tests = ["t1", "t2", "t3"].map(str::to_owned);
            assert_eq!(as_failing(&given(text), &tests), 1, "{text}");
            assert_eq!(as_failing(&given(text), &tests[1..]), 0, "{text}");
        }
        assert_eq!(as_failing(&given("- t3 failed (exit 1)"), &["t3".to_owned()]), 1);
    }

    #[test]
    fn a_step_is_whole_with_all_texts_or_a_long_one_with_both_ends() {
        let step = json!({"searchStep": "Looked.", "reasoning": "Why not.",
            "rejectedApproaches": ["guessing"]});
        assert!(has_step(&["Looked.", "x Why not. y", "guessing"], &step));
        assert!(!has_step(&["Looked.", "x Why not. y"], &step));
        let long = format!("Begin {} end.", "middle ".repeat(300));
        let step = json!({ "searchStep": long });
        let cut = format!("{} [...] {}", &long[..400], &long[long.len() - 300..]);
        assert!(has_step(&[&cut], &step));
        assert!(!has_step(&[&cut[..600]], &step));
    }
}
