//! An assistant searches, reads and discovers for twelve steps and more; in the middle its context
//! is compacted, the server is replaced, the context is lost again. It continues from what the
//! store returns, without ever having received an id, and ends where an undisturbed run ends.

use serde_json::{Value, json};

use crate::mcp::desk::{Desk, session_of, with};

/// Returns twelve steps of a small research session, with every member a step can have.
fn research() -> Vec<Value> {
    let steps = [
        (
            "searched for X: found A, B and C",
            json!({"researchGoal": "who first described X?",
            "totalStepsEstimate": 15, "knowledgeGap": "is A the oldest?"}),
        ),
        ("read source A: it cites D", json!({"confidence": "medium"})),
        ("searched for D: found E and F", json!({"rejectedApproaches": ["searching by author"]})),
        ("read source E: it names G, 1931", json!({"confidence": "high"})),
        (
            "A is from 1947, so A is not the oldest",
            json!({"closesGap": "is A the oldest?",
            "confidence": "high"}),
        ),
        ("looked for G in the library: not there", json!({"knowledgeGap": "where is G kept?"})),
        ("asked two archives", json!({"reasoning": "libraries lend, archives keep"})),
        ("archive one has no G", json!({"rejectedApproaches": ["archive one"]})),
        ("archive two has G on microfilm", json!({"closesGap": "g6", "confidence": "high"})),
        (
            "E misquotes G: the year is 1929",
            json!({"isRevision": true, "revisesStep": 4,
            "confidence": "high"}),
        ),
        ("looked for anything before 1929", json!({"knowledgeGap": "anything before 1929?"})),
        (
            "found a letter of 1928 in the catalogue",
            json!({"sessionSummary":
            "G (1929) leads; a letter of 1928 must be checked"}),
        ),
    ];
    let call = |(number, (text, more)): (usize, (&str, Value))| {
        let plain = json!({"searchStep": text, "stepNumber": number + 1, "nextStepNeeded": true});
        with(plain, more)
    };
    steps.into_iter().enumerate().map(call).collect()
}

/// Returns the rest of the assistant's work after its recovery.
fn remaining_steps() -> Vec<Value> {
    let steps = ["read the letter of 1928: it is about Y", "so G, 1929, is the first"];
    let call = |(number, text): (usize, &&str)| {
        let last = number + 1 == steps.len();
        json!({"searchStep": text, "stepNumber": number + 13, "nextStepNeeded": !last})
    };
    steps.iter().enumerate().map(call).collect()
}

/// Returns the part that is equal in two runs: everything but names and times.
fn without_names_and_times(answer: &Value) -> Value {
    let mut answer = answer.clone();
    fn strip(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(strip),
            Value::Object(members) => {
                for name in [
                    "sessionId",
                    "boundBy",
                    "startedAt",
                    "updatedAt",
                    "completedAt",
                    "timestamp",
                    "id",
                    "processed_at",
                ] {
                    members.remove(name);
                }
                members.values_mut().for_each(strip);
            }
            _ => {}
        }
    }
    strip(&mut answer);
    answer
}

/// Returns the whole state of a session: the overview, every step in full, every event.
async fn whole_state(desk: &Desk) -> Value {
    let overview = desk.recover().await;
    let mut steps = Vec::new();
    for number in 1..=overview["stepCount"].as_u64().unwrap() {
        steps.push(desk.ok("get_research_session", json!({ "stepId": number })).await);
    }
    let events = desk.ok("get_events", json!({"limit": 1_000, "maxBytes": 1_000_000})).await;
    assert_eq!(events["hasMore"], false);
    without_names_and_times(
        &json!({"overview": overview, "steps": steps, "events": events["events"]}),
    )
}

/// Returns sources found on the way to step four and to step nine.
fn sources(after: usize) -> Option<Value> {
    let source = match after {
        4 => json!({"url": "https://library.example/e?utm_source=x", "title": "E",
            "relevance": "scraped"}),
        9 => json!({"url": "https://archive.example/g#film", "title": "G",
            "relevance": "academic"}),
        _ => return None,
    };
    Some(json!({ "sources": [source] }))
}

async fn work(desk: &Desk, calls: impl Iterator<Item = Value>) -> String {
    let mut id = String::new();
    for call in calls {
        let number = call["stepNumber"].as_u64().unwrap();
        id = session_of(&desk.ok("sequential_search", call).await);
        if let Some(found) = sources(usize::try_from(number).unwrap()) {
            desk.ok("add_sources", found).await;
        }
    }
    id
}

async fn run_without_loss() -> Value {
    let desk = Desk::new().in_directory("/home/me/history");
    work(&desk, research().into_iter().chain(remaining_steps())).await;
    whole_state(&desk).await
}

#[tokio::test]
async fn a_research_session_survives_the_loss_of_its_context() {
    let desk = Desk::new().in_directory("/home/me/history");
    let id = work(&desk, research().into_iter()).await;

    // The context is compacted: a new connection, no id, only the working directory.
    let after = desk.another().in_directory("/home/me/history");
    let found = after.recover().await;
    assert_eq!((session_of(&found), &found["boundBy"]), (id.clone(), &json!("directory")));
    assert_eq!(found["researchGoal"], "who first described X?");
    assert_eq!((&found["stepCount"], &found["isComplete"]), (&json!(12), &json!(false)));
    let lines = found["stepIndex"].as_array().unwrap();
    assert_eq!(lines.len(), 12);
    assert_eq!(
        (&lines[3]["oneLiner"], &lines[3]["supersededBy"]),
        (&json!("read source E: it names G, 1931"), &json!(10))
    );
    let last: Vec<_> =
        found["lastSteps"].as_array().unwrap().iter().map(|step| &step["stepNumber"]).collect();
    assert_eq!(last, [10, 11, 12]);
    assert_eq!(
        found["gaps"],
        json!([{"gapId": "g11", "description": "anything before 1929?", "foundInStep": 11}])
    );
    let ruled_out: Vec<_> =
        found["rejectedApproaches"].as_array().unwrap().iter().map(|r| &r["approach"]).collect();
    assert_eq!(ruled_out, ["searching by author", "archive one"]);
    let met: Vec<_> =
        found["sources"].as_array().unwrap().iter().map(|source| &source["foundInStep"]).collect();
    assert_eq!(met, [4, 9]);
    let summary = found["summary"].as_str().unwrap();
    assert!(summary.contains("G (1929) leads"), "{summary}");
    assert!(
        lines.iter().any(|line| line["oneLiner"].as_str().unwrap().contains("archive two has G"))
    );
    assert_eq!(found["lastSteps"][0]["description"], "E misquotes G: the year is 1929");
    assert!(!summary.contains("1931"), "a superseded finding is no finding: {summary}");

    // One step in full, by its number.
    let seventh = after.ok("get_research_session", json!({"stepId": 7})).await;
    assert_eq!(seventh["step"]["reasoning"], "libraries lend, archives keep");

    // The work continues; then the server is replaced, and the context is lost again.
    let mut calls = remaining_steps().into_iter();
    let next = calls.next().unwrap();
    let answer = after.ok("sequential_search", next.clone()).await;
    assert_eq!((session_of(&answer), &answer["currentStep"]), (id.clone(), &json!(13)));
    let later = after.restarted().await.another().in_directory("/home/me/history");
    let found = later.recover().await;
    assert_eq!((session_of(&found), &found["stepCount"]), (id.clone(), &json!(13)));
    let repeated = later.ok("sequential_search", next).await;
    assert_eq!(repeated["repeated"], true, "the step whose answer was lost is recorded once");
    work(&later, calls).await;
    let end = whole_state(&later).await;
    assert_eq!(end["overview"]["isComplete"], true);
    assert_eq!(end, run_without_loss().await);
}
