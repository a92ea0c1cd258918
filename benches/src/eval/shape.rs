//! Research whose steps have given texts: counts how much of its shape (a line of each step, open
//! gaps, sources, the last steps) the overview keeps. It must not plant facts.

use serde_json::{Value, json};

use super::{research::Session, rows::Tally};

/// Numbers of steps at which the shape is counted.
pub(super) const SIZES: [usize; 4] = [12, 30, 60, 150];
/// Number of steps for each open gap, and for each source.
const STEPS_OF_GAP: usize = 5;
const STEPS_OF_SOURCE: usize = 4;
/// Number of last steps that an overview should contain in full.
const LAST_STEPS: usize = 3;
/// Minimum bytes shown of each of the last steps.
const STEP_BYTES: usize = 600;

/// Generates research with `steps` steps, whose descriptions are these texts in turn. Its gaps are
/// worded alike, like those of a single project.
pub(super) fn session(steps: usize, texts: &[String]) -> Session {
    let mut made = Session { goal: "What is promised to the customers", ..Session::default() };
    for (number, text) in (1..=steps).zip(texts.iter().cycle()) {
        let mut call = json!({
            "searchStep": text, "stepNumber": number, "nextStepNeeded": true,
            "responseMode": "summary", "confidence": "medium",
        });
        let mut put = |name: &str, value: Value| {
            call.as_object_mut().expect("arguments are an object").insert(name.to_owned(), value);
        };
        if number == 1 {
            put("researchGoal", json!(made.goal));
        }
        if number % STEPS_OF_GAP == 0 {
            put(
                "knowledgeGap",
                json!(format!(
                    "It is not known yet whether the answer given in conversation {number} holds \
                     for reservations that were changed before"
                )),
            );
        }
        made.calls.push(("sequential_search", call));
        if number % STEPS_OF_SOURCE == 0 {
            let url = format!("https://help.example.org/en/articles/{number}/changes-and-refunds");
            let source = json!({
                "url": url, "relevance": "scraped", "foundInStep": number,
                "title": format!("Changes and refunds, article {number} of the help centre"),
            });
            made.calls.push(("add_sources", json!({ "sources": [source] })));
        }
    }
    made
}

/// Counts the elements of a session's shape that an overview shows.
pub(super) fn count(overview: &Value, made: &Session, steps: usize, found: &mut Tally) {
    let list = |name: &str| overview.get(name).and_then(Value::as_array);
    let length = |name: &str| list(name).map_or(0, |all| all.len() as u64);
    let mut put = |row: &str, value| found.put(&format!("shape.{steps}.{row}"), value);
    put("lines", length("stepIndex"));
    put("gaps", length("gaps"));
    put("sources", length("sources"));
    let is_kept = |step: &&Value| {
        let text =
            |step: &Value, name: &str| step.get(name).and_then(Value::as_str).map_or(0, str::len);
        let shown = list("lastSteps").into_iter().flatten();
        let mut shown = shown.filter(|one| one.get("stepNumber") == step.get("stepNumber"));
        let whole = text(step, "searchStep");
        shown.any(|one| text(one, "description") >= whole.min(STEP_BYTES))
    };
    put("last", made.steps().rev().take(LAST_STEPS).filter(is_kept).count() as u64);
}

/// Counts the elements of the shape that the answer to the last step shows.
pub(super) fn count_of_step(answer: &Value, found: &mut Tally) {
    for (row, member) in [("lines", "stepIndex"), ("gaps", "gaps"), ("sources", "sources")] {
        let length = answer.get(member).and_then(Value::as_array).map_or(0, Vec::len);
        found.put(&format!("shape.step.{row}"), length as u64);
    }
}
