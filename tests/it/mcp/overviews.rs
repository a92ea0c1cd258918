//! Overview of research with ordinary steps: each item once, sources with titles, rejected
//! approaches, lines as long as space allows.

use serde_json::{Value, json};

use super::desk::{Desk, step, with};

/// Limit of the answer to a recorded step in bytes.
const STEP_ANSWER_BYTES: usize = 5_000;

/// Records research of so many steps, each with a gap, a rejected approach, and two sources.
/// Returns the size of the largest answer to a step.
async fn record_research(desk: &Desk, steps: u64) -> usize {
    const TOPICS: [&str; 6] = ["tides", "silt", "dredging", "pilots", "cranes", "storage"];
    let mut largest = 0;
    for number in 1..=steps {
        let topic = TOPICS[(number % 6) as usize];
        let text = format!(
            "Read the harbour report {number} on {topic}; it counts {} moves at berth {number} and \
             finds that the depth falls by {} centimetres a year. The pilots disagree on line {}.",
            number * 13,
            number * 3,
            number * 7,
        );
        let more = json!({
            "searchStep": text, "totalStepsEstimate": steps,
            "researchGoal": "Which berth takes the new ferry?", "confidence": "medium",
            "knowledgeGap": format!("How deep is berth {number} in March?"),
            "rejectedApproaches": [format!("We ruled out option {number} because it costs too much")],
        });
        let answer = desk.ok("sequential_search", with(step(number), more)).await;
        largest = largest.max(answer.to_string().len());
        let source = |n: u64| {
            json!({"url": format!("https://port.test/reports/{number}/{n}/berths"),
                "title": format!("Report {number}.{n} of the harbour master on {topic}")})
        };
        desk.ok("add_sources", json!({"sources": [source(1), source(2)]})).await;
    }
    largest
}

fn all<'a>(answer: &'a Value, list: &str) -> &'a [Value] {
    answer[list].as_array().unwrap()
}

#[tokio::test]
async fn no_answer_to_a_step_exceeds_its_limit_at_any_number_of_shortened_lists() {
    for names in [("s", 1), ("a-session-with-a-name-of-its-own", 2)] {
        let desk = Desk::new().started_for(names.0);
        let largest = record_research(&desk, 70).await;
        assert!(largest <= STEP_ANSWER_BYTES, "{}: {largest}", names.0);
        assert!(largest > STEP_ANSWER_BYTES - 500, "the room is used: {largest}");
    }
}

#[tokio::test]
async fn an_overview_has_each_item_once_with_titles_and_rejected_approaches() {
    for steps in [9, 24] {
        let desk = Desk::new();
        record_research(&desk, steps).await;
        let found = desk.recover().await;
        assert!(found.to_string().len() <= 10_000);
        let sources = all(&found, "sources");
        assert!(!sources.is_empty());
        for source in sources {
            assert!(source["title"].as_str().unwrap().starts_with("Report "), "{source}");
        }
        let rejected = all(&found, "rejectedApproaches").len() as u64;
        assert!(rejected >= 3, "{found}");
        let left = found["leftOut"]["rejectedApproaches"].as_u64().unwrap_or_default();
        assert_eq!(rejected + left, steps, "{found}");
        // The last three steps are shown in full next to it.
        let summary = found["summary"].as_str().unwrap();
        let index = all(&found, "stepIndex");
        assert_eq!(index.len() as u64, steps);
        for line in &index[..index.len() - 3] {
            let line = line["oneLiner"].as_str().unwrap();
            let beginning: String = line.trim_end_matches('…').chars().take(50).collect();
            assert!(!summary.contains(&beginning), "{steps}: {line} is in {summary}");
            assert!(line.chars().count() > 100, "{steps}: there is room: {line}");
        }
    }
}
