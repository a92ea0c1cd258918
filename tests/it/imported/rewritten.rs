//! A file whose lines differ from the imported ones: the import does not mix two versions.

use serde_json::json;

use super::{SESSION, Transcript, import};
use crate::program::Place;

fn transcript(words: &[&str]) -> String {
    let talk = Transcript::default();
    words.iter().for_each(|words| {
        talk.user(*words);
    });
    talk.text()
}

#[test]
fn a_rewritten_file_is_rejected_whole_and_the_session_is_unchanged() {
    let before = transcript(&["Sow", "Water", "Weed", "Reap"]);
    let summary = json!({ "type": "summary", "summary": "A year", "leafUuid": "n4" });
    let swapped: Vec<&str> = before.lines().collect();
    let swapped = format!("{}\n{}\n{}\n{}\n", swapped[1], swapped[0], swapped[2], swapped[3]);
    let less: String = before.lines().skip(1).map(|line| line.to_owned() + "\n").collect();
    for now in [
        format!("{summary}\n{before}"),
        transcript(&["Sow", "Water a lot", "Weed", "Reap"]),
        transcript(&["Sow", "Water", "Weed", "Reap the oats", "Rest"]),
        swapped,
        less,
    ] {
        let place = Place::new();
        import(&place, &before);
        let file = place.write(&format!("{SESSION}.jsonl"), &now);
        let ran = place.run(&["import", file.to_str().unwrap()]);
        assert_eq!(ran.code, 1, "{ran:?}");
        let says = |words: &str| ran.err.contains(words);
        assert!(says("was rewritten") && says("--session"), "{ran:?}");
        let export =
            |session: &str| place.run(&["export", session, "--format", "claude-code"]).ok();
        assert_eq!(export(SESSION), before);
        // The remedy that the error names.
        place.run(&["import", "--session", "again", file.to_str().unwrap()]).ok();
        assert_eq!(export("again"), now);
    }
    // A shorter or longer version of the same file counts as the same file.
    let place = Place::new();
    import(&place, &before);
    let part: String = before.lines().take(2).map(|line| line.to_owned() + "\n").collect();
    let (code, report) = import(&place, &part);
    assert_eq!((code, &report["added"]), (0, &json!(0)), "{report}");
    let (code, report) = import(&place, &transcript(&["Sow", "Water", "Weed", "Reap", "Rest"]));
    assert_eq!((code, &report["added"]), (0, &json!(1)), "{report}");
}

#[test]
fn a_rewritten_codex_rollout_is_rejected() {
    let line = |n: u32, words: &str| {
        let content = json!([{ "type": "input_text", "text": words }]);
        let payload = json!({ "type": "message", "role": "user", "content": content });
        let time = format!("2026-09-14T08:00:0{n}Z");
        json!({ "timestamp": time, "type": "response_item", "payload": payload }).to_string() + "\n"
    };
    let place = Place::new();
    let run = |text: &str| {
        let file = place.write("rollout.jsonl", text);
        place.run(&["import", "--session", "field", file.to_str().unwrap()])
    };
    let before = line(1, "Sow") + &line(2, "Reap");
    run(&before).ok();
    let ran = run(&(line(1, "Sow") + &line(2, "Reap at night")));
    assert!(ran.code == 1 && ran.err.contains("was rewritten"), "{ran:?}");
    assert_eq!(place.run(&["export", "field", "--format", "codex"]).ok(), before);
}
