//! Random calls in any order: a step is recorded once or rejected, answers stay within their
//! limits, and the facts in memory equal those in the log.

use serde_json::{Value, json};
use sessionlog_sim::SeededEntropy;

use super::desk::{Desk, assert_no_null, session_of, step, with};

struct Dice(SeededEntropy);

impl Dice {
    fn below(&self, bound: u64) -> u64 {
        self.0.next() % bound
    }

    fn one<'a>(&self, of: &[&'a str]) -> &'a str {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }

    /// Returns arguments of a step near the next number.
    fn step(&self, last: u64) -> Value {
        let number = match self.below(6) {
            0 => last,
            1 => last + 2,
            _ => last + 1,
        };
        let mut arguments = with(step(number), json!({"nextStepNeeded": self.below(9) > 0}));
        let mut add = |odds: u64, name: &str, value: Value| {
            if self.below(odds) == 0 {
                arguments[name] = value;
            }
        };
        add(3, "searchStep", json!(format!("tried {}", self.below(3))));
        add(4, "branchId", json!(self.one(&["a", "b", "👩‍👩‍👧"])));
        add(9, "branchFromStep", json!(self.below(last + 2)));
        add(6, "revisesStep", json!(self.below(last + 2)));
        add(2, "knowledgeGap", json!(self.one(&["why?", "when?", "who?"])));
        add(5, "closesGap", json!(self.one(&["why?", "when?", "g1", "g2", "g3", "g2@a"])));
        add(4, "rejectedApproaches", json!([self.one(&["x", "y"]), self.one(&["x", "z"])]));
        add(5, "sessionSummary", json!(self.one(&["here", "there", " "])));
        add(4, "confidence", json!(self.one(&["high", "medium", "low"])));
        add(9, "totalStepsEstimate", json!(self.below(50)));
        add(9, "researchGoal", json!(self.one(&["one", "two"])));
        add(3, "delta", json!(true));
        arguments
    }
}

async fn stand(desk: &Desk, session: &str) -> Value {
    desk.ok("get_research_session", json!({ "sessionId": session })).await
}

/// Returns the highest number of the steps shown.
fn latest_step(stand: &Value) -> u64 {
    let lines = stand["stepIndex"].as_array().unwrap().iter();
    lines.filter_map(|line| line["stepNumber"].as_u64()).max().unwrap_or(0)
}

/// Plays a seed; returns the numbers of steps recorded and rejected.
async fn play(seed: u64) -> (u64, u64) {
    let dice = Dice(SeededEntropy::new(seed));
    let mut desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let (mut steps, mut recorded, mut refused) = (1, 0, 0);
    for _ in 0..60 {
        let before = stand(&desk, &session).await;
        match dice.below(8) {
            0 => {
                let event = json!({"type": dice.one(&["user.message", "research.step", "research.gap_closed"]),
                    "number": dice.below(5), "description": "by hand", "content": "hi"});
                let arguments = json!({"sessionId": session, "event": event});
                desk.ok("emit_event", arguments).await;
                steps = stand(&desk, &session).await["stepCount"].as_u64().unwrap();
            }
            1 => desk = desk.restarted().await,
            _ => {
                let mut arguments = dice.step(latest_step(&before));
                arguments["sessionId"] = json!(session);
                let answer = desk.call("sequential_search", arguments.clone()).await;
                let after = stand(&desk, &session).await;
                match answer {
                    Ok(answer) => {
                        assert_no_null(&answer);
                        assert!(answer.to_string().len() <= 10_000);
                        steps += u64::from(answer["repeated"] == false);
                        recorded += 1;
                        let again = desk.ok("sequential_search", arguments.clone()).await;
                        assert_eq!(again["repeated"], true, "seed {seed}: {arguments}");
                        assert_eq!(again["position"], answer["position"]);
                    }
                    Err(error) => {
                        refused += 1;
                        assert_eq!(after, before, "seed {seed}: {} changed it", error.message);
                    }
                }
            }
        }
        let kept = stand(&desk, &session).await;
        assert_eq!(kept["stepCount"], steps, "seed {seed}");
        desk.service.evict_facts();
        assert_eq!(stand(&desk, &session).await, kept, "seed {seed}");
    }
    (recorded, refused)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_random_calls_cached_facts_equal_those_folded_from_the_log() {
    let (mut recorded, mut refused) = (0, 0);
    for seed in 1..=12 {
        let played = play(seed).await;
        (recorded, refused) = (recorded + played.0, refused + played.1);
    }
    assert!(recorded > 100 && refused > 100, "{recorded} recorded, {refused} refused");
}
