//! A project over several days: a new session receives the results of earlier ones and continues
//! the last one with work, ended or crashed; the user's rules survive compactions; a tiny session
//! displaces nothing; text related to a first prompt is given with it.

use serde_json::{Value, json};

use super::{claude, hook, of, quiet};
use crate::program::Place;

/// One day of an agent in the project.
struct Day<'p>(&'p Place, &'static str);

impl Day<'_> {
    /// Reports an event; returns the text given to the model, which may be empty.
    #[track_caller]
    fn given(&self, event: Value) -> String {
        let ran = hook(self.0, &of(self.1, event));
        assert_eq!(ran.err, "");
        if ran.out.is_empty() {
            return String::new();
        }
        let answer: Value = serde_json::from_str(&ran.out).unwrap();
        answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap().to_owned()
    }

    fn starts(&self) -> String {
        self.given(claude("SessionStart", &json!({ "source": "startup" })))
    }

    fn asks(&self, prompt: &str) -> String {
        let id = blake3::hash(prompt.as_bytes()).to_hex();
        self.given(claude("UserPromptSubmit", &json!({ "prompt": prompt, "prompt_id": &id[..8] })))
    }

    fn calls(&self, tool: &str, input: &Value, response: &Value, failed: bool) {
        let id = blake3::hash(format!("{tool}{input}{response}").as_bytes()).to_hex();
        let mut event = json!({ "tool_name": tool, "tool_use_id": &id[..12], "tool_input": input });
        quiet(self.0, &of(self.1, claude("PreToolUse", &event)));
        let name = if failed { "PostToolUseFailure" } else { "PostToolUse" };
        event[if failed { "error" } else { "tool_response" }] = response.clone();
        quiet(self.0, &of(self.1, claude(name, &event)));
    }

    /// Starts a call whose agent is killed.
    fn begins(&self, command: &str) {
        let input = json!({ "command": command });
        let event = json!({ "tool_name": "Bash", "tool_use_id": "c-begun", "tool_input": input });
        quiet(self.0, &of(self.1, claude("PreToolUse", &event)));
    }

    fn tests(&self, output: &str, failed: bool) {
        let response = match failed {
            true => json!(output),
            false => json!({ "stdout": output, "stderr": "" }),
        };
        self.calls("Bash", &json!({ "command": "pytest -q" }), &response, failed);
    }

    fn edits(&self, path: &str) {
        let path = format!("/home/ada/proj/{path}");
        let input = json!({ "file_path": path, "old_string": "0.0", "new_string": "0" });
        self.calls("Edit", &input, &json!({ "filePath": path }), false);
    }

    fn says(&self, text: &str) {
        quiet(self.0, &of(self.1, claude("Stop", &json!({ "last_assistant_message": text }))));
    }

    fn ends(&self) {
        quiet(self.0, &of(self.1, claude("SessionEnd", &json!({ "reason": "other" }))));
    }

    fn compacts(&self) -> String {
        quiet(self.0, &of(self.1, claude("PreCompact", &json!({ "trigger": "auto" }))));
        self.given(claude("SessionStart", &json!({ "source": "compact" })))
    }
}

#[track_caller]
fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

/// Runs a first day: a task with a rule, a change, a failing test, the end.
fn first_day(place: &Place) {
    let day = Day(place, "day-1");
    assert_eq!(day.starts(), "");
    day.asks("Make the shop count money in cents. Leave stock.py alone, another team owns it.");
    day.edits("price.py");
    day.tests("FAILED test_tax.py::test_tax - AssertionError: 9 != 10\n1 failed, 3 passed", true);
    day.says("Prices are integers now; the tax still rounds down.");
    day.ends();
}

/// Runs the second day, which receives the first one and changes the tax.
fn second_day(place: &Place) -> Day<'_> {
    let day = Day(place, "day-2");
    day.starts();
    day.asks("Round the tax half up");
    day.edits("tax.py");
    day
}

#[test]
fn a_day_continues_the_previous_one_and_keeps_its_rules_after_a_compaction() {
    let place = Place::new();
    first_day(&place);
    let day = Day(&place, "day-2");
    let told = day.starts();
    has(&told, &["cents", "Leave stock.py alone", "test_tax", "price.py", "day-1"]);
    assert!(!told.contains("{\"") && !told.contains("\\\""), "{told}");
    assert_eq!(day.starts(), "", "a context is told once");
    day.asks("Go on with the tax");
    day.edits("tax.py");
    day.tests("4 passed", false);
    let told = day.compacts();
    has(&told, &["cents", "Leave stock.py alone", "Go on with the tax", "tax.py"]);
    assert_eq!(told.matches("Leave stock.py alone").count(), 1, "{told}");
    assert!(!told.contains("Still failing"), "{told}");
    let chain = place.run(&["handoff", "chain", "/home/ada/proj", "--json"]).json();
    assert_eq!(chain["data"].as_array().unwrap().len(), 2, "{chain}");
    // A user can read the text that the model received.
    let events = place.events("day-2");
    let given = events.iter().find(|event| event["type"] == "context.injected").unwrap();
    has(given["text"].as_str().unwrap(), &["Leave stock.py alone"]);
    assert!(place.run(&["show", "day-2"]).out.len() > 1);
}

#[test]
fn a_start_continues_a_killed_session_and_not_an_older_one() {
    let place = Place::new();
    first_day(&place);
    let day = second_day(&place);
    day.tests("4 passed", false);
    day.says("The tax is rounded half up, all four tests pass.");
    // The agent is killed: no end is reported.
    let told = Day(&place, "day-3").starts();
    has(&told, &["day-2", "rounded half up", "Leave stock.py alone"]);
    assert!(!told.contains("Still failing") && !told.contains("9 != 10"), "{told}");
}

/// A person looks at old work, and sets a mark, a title and a checkpoint there.
#[test]
fn an_old_session_that_a_person_marks_is_neither_the_last_work_nor_unfinished() {
    let place = Place::new();
    first_day(&place);
    let day = second_day(&place);
    day.says("The tax is rounded half up.");
    day.ends();
    let listed = || {
        let listed = place.run(&["sessions", "--json"]).json();
        let of =
            |one: &Value| (one["id"].clone(), one["updated_at"].clone(), one["status"].clone());
        listed["data"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let before = listed();
    place.run(&["mark", "day-1", "2", "--as", "important"]).ok();
    place.run(&["rename", "day-1", "The first day"]).ok();
    place.run(&["checkpoints", "day-1", "--create", "--at", "3"]).ok();
    assert_eq!(listed(), before);
    let unfinished = place.run(&["history", "--json"]).json().to_string();
    assert!(!unfinished.contains("\"unfinished\":true"), "{unfinished}");
    let told = Day(&place, "day-3").starts();
    let (last, _) = told.split_once("Other sessions").unwrap_or((&told, ""));
    has(last, &["day-2", "rounded half up"]);
}

/// The agent stops after each answer, and runs again with the next request.
#[test]
fn an_agent_is_running_from_each_request_to_its_stop() {
    let place = Place::new();
    let day = Day(&place, "day-1");
    let status = || place.run(&["sessions", "--json"]).json()["data"][0]["status"].clone();
    day.starts();
    day.asks("Count the carts");
    assert_eq!(status(), "running");
    day.says("Three.");
    assert_eq!(status(), "idle");
    day.asks("And the wheels?");
    assert_eq!(status(), "running");
    day.edits("wheels.py");
    assert_eq!(status(), "running");
    day.says("Twelve.");
    assert_eq!(status(), "idle");
    day.ends();
    assert_eq!(status(), "terminated");
}

#[test]
fn a_start_after_a_tiny_session_has_the_work_before_it() {
    let place = Place::new();
    first_day(&place);
    let tiny = Day(&place, "tiny");
    tiny.starts();
    tiny.asks("Write a release note");
    tiny.says("Money is counted in cents from this release on.");
    tiny.ends();
    let told = Day(&place, "day-2").starts();
    has(&told, &["Leave stock.py alone", "test_tax", "tiny", "Write a release note"]);
}

/// Two agents work at once, and only one of them is continued.
#[test]
fn a_start_receives_the_rules_of_a_session_beside_the_continued_one() {
    let place = Place::new();
    first_day(&place);
    let beside = Day(&place, "beside");
    beside.starts();
    let day = second_day(&place);
    beside.asks("Print receipts. Never print the customer's name. Is that clear? It must be late.");
    beside.edits("receipt.py");
    beside.says("Receipts are printed.");
    day.says("The tax is rounded half up.");
    let told = Day(&place, "day-3").starts();
    has(
        &told,
        &["rounded half up", "Your user also said in other sessions", "Leave stock.py alone"],
    );
    let (_, rules) = told.split_once("Your user also said in other sessions").unwrap();
    let (rules, _) = rules.split_once("\n\n").unwrap();
    has(rules, &["UTC: Never print the customer's name."]);
    let is_told_twice = told.matches("Leave stock.py alone").count() > 1;
    let has_noise = rules.contains("clear?") || rules.contains("must be late");
    assert!(!is_told_twice && !has_noise, "{told}");
}

#[test]
fn a_start_receives_items_of_memory_and_no_forgotten_one() {
    let place = Place::new();
    let path = "/home/ada/proj";
    place.run(&["memory", path, "--insert", "Deploy from the branch release alone"]).ok();
    let told = Day(&place, "day-1").starts();
    has(&told, &["Remembered", "Deploy from the branch release alone"]);
    let kept = place.run(&["memory", path, "--json"]).json();
    let id = kept["data"][0]["memory_id"].as_str().unwrap();
    place.run(&["memory", path, "--forget", id]).ok();
    assert_eq!(Day(&place, "day-2").starts(), "");
}

#[test]
fn a_first_prompt_receives_related_text_of_earlier_sessions_once() {
    let place = Place::new();
    first_day(&place);
    let day = Day(&place, "day-2");
    assert_eq!(day.asks("Water the tulips in the northern greenhouse"), "");
    let told = day.asks("Which tax still rounds down after prices became integers?");
    has(&told, &["the tax still rounds down", "day-1"]);
    assert_eq!(day.asks("And which tax rounds down, with prices as integers?"), "");
    let what = |event: &Value| event["what"].as_str().map(str::to_owned);
    let given: Vec<_> = place.events("day-2").iter().filter_map(what).collect();
    assert_eq!(given, ["recalled"]);
}

#[test]
fn a_start_after_an_erased_or_damaged_session_returns_the_readable_work() {
    let place = Place::new();
    first_day(&place);
    let day = second_day(&place);
    day.ends();
    place.run(&["delete", "day-2", "--yes"]).ok();
    let told = Day(&place, "day-3").starts();
    has(&told, &["Leave stock.py alone", "day-1"]);
    assert!(!told.contains("half up"), "{told}");
}

#[test]
fn previewing_a_start_prints_its_text_and_writes_nothing() {
    let place = Place::new();
    first_day(&place);
    let before = place.events("day-1").len();
    let told = place.run(&["handoff", "start", "/home/ada/proj"]).out;
    has(&told, &["Leave stock.py alone", "test_tax"]);
    let told = place.run(&["handoff", "start", "/home/ada/proj", "--json"]).json();
    assert_eq!(told["continues"], "day-1", "{told}");
    assert_eq!(place.events("day-1").len(), before);
    let other = place.run(&["handoff", "start", "/home/ada/other"]);
    assert_eq!((other.code, &*other.out), (0, ""));
    let few = place.run(&["handoff", "start", "/home/ada/proj", "--tokens", "10"]);
    assert!(few.code != 0 && few.err.contains("400"), "{}", few.err);
}

#[test]
fn a_start_names_the_call_during_which_the_last_session_was_killed() {
    let place = Place::new();
    first_day(&place);
    let day = Day(&place, "day-2");
    day.starts();
    day.asks("Round the tax half up, then run soak.sh");
    day.edits("tax.py");
    day.begins("sh soak.sh");
    let told = Day(&place, "day-3").starts();
    has(&told, &["\nBegun, without a result so far:\n- $ sh soak.sh\n", "memory_search"]);
    // The text contains the first day, whose test may have been mended since.
    assert!(!told.contains("Other sessions"), "{told}");
    // From then on it is a call without a recorded outcome.
    let day = Day(&place, "day-3");
    day.asks("Print receipts");
    let left = "- $ sh soak.sh -> no result in the log when the next session began\n";
    has(&day.compacts(), &[left]);
    day.says("Receipts are printed.");
    day.asks("And the tax?");
    has(&day.compacts(), &[left]);
}

#[test]
fn an_item_of_memory_is_injected_after_a_compaction_and_at_a_matching_prompt() {
    let place = Place::new();
    let path = "/home/ada/proj";
    place.run(&["memory", path, "--insert", "Receipts of the shop are printed in CHF"]).ok();
    let day = Day(&place, "day-1");
    let near = day.asks("Which currency has a receipt that the shop has printed?");
    has(&near, &["Receipts of the shop are printed in CHF"]);
    assert!(!near.contains("kind: "), "{near}");
    day.edits("receipt.py");
    has(&day.compacts(), &["\nRemembered:\n- Receipts of the shop are printed in CHF\n"]);
    let view = place.run(&["view", "day-1", "continuation"]).out;
    has(&view, &["\nRemembered:\n- Receipts of the shop"]);
}

#[test]
fn a_prompt_receives_a_rule_about_a_changed_file_and_repeats_nothing() {
    let place = Place::new();
    first_day(&place);
    let day = Day(&place, "day-2");
    day.edits("stock.py");
    let rule = "Leave stock.py alone, another team owns it";
    has(&day.asks("Which team owns stock.py, and who may change it?"), &[rule]);
    let day = Day(&place, "day-3");
    has(&day.starts(), &[rule]);
    let near = day.asks("Which team owns stock.py, and who may change it?");
    assert!(!near.contains(rule), "{near}");
}

#[test]
fn a_continuation_counts_only_events_of_its_session() {
    let place = Place::new();
    first_day(&place);
    let day = second_day(&place);
    let events = place.events("day-2").len();
    let view = place.run(&["view", "day-2", "continuation", "--json"]).json();
    assert_eq!(view["position"], events, "{view}");
    has(&day.compacts(), &["Leave stock.py alone"]);
}

#[test]
fn a_start_says_that_the_session_of_the_last_work_has_not_stopped() {
    let place = Place::new();
    let day = Day(&place, "day-1");
    day.starts();
    day.asks("Round the price");
    day.edits("price.py");
    let running = "That session has not stopped";
    has(&Day(&place, "day-2").starts(), &["Round the price", running]);
    day.says("The price is rounded.");
    let text = Day(&place, "day-3").starts();
    has(&text, &["Round the price"]);
    assert!(!text.contains(running), "{text}");
}

#[test]
fn a_rule_is_given_before_the_short_requests_of_the_sessions_of_a_chain() {
    let place = Place::new();
    let day = Day(&place, "day-1");
    day.starts();
    day.asks("Fix the price rounding. Never touch stock.py: the warehouse team owns it.");
    day.edits("price.py");
    for at in 0..12 {
        day.asks(&format!("Go on with part {at} and say where we are"));
        let long = "It reads the text now, and the sum is right, as far as I can tell. ";
        day.says(&format!("Part {at} is done. {}", long.repeat(6)));
    }
    day.ends();
    let day = Day(&place, "day-2");
    day.starts();
    day.asks("Continue: document the discount");
    day.edits("README.md");
    for at in 0..12 {
        day.asks(&format!("What is left of chapter {at}?"));
        day.says(&format!("Of chapter {at} nothing is left but the {at} examples of discounts."));
    }
    day.ends();
    has(&Day(&place, "day-3").starts(), &["Never touch stock.py"]);
}
