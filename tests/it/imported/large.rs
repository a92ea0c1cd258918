//! Large content: pictures next to text, and results stored in files next to the transcript.

use std::{fs, os::unix::fs::symlink};

use serde_json::{Value, json};

use super::{SESSION, Transcript, import, messages, taken, typed, view};
use crate::program::Place;

fn picture(bytes: usize) -> Value {
    let data = "iVBORw0KGgo".repeat(bytes / 11 + 1);
    json!({ "type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": data[..bytes / 4 * 4] } })
}

#[test]
fn text_next_to_a_large_picture_and_results_with_one_are_in_every_view() {
    for bytes in [1_600_000, 2_400_000, 5 << 20] {
        let talk = Transcript::default();
        talk.user("Compare the two maps");
        talk.user(json!([
            { "type": "text", "text": "On this map the ferry is missing" }, picture(bytes),
        ]));
        talk.calls("m1", "t1");
        talk.result("t1", json!([picture(bytes), { "type": "text", "text": "map read" }]));
        talk.says("m2", "The ferry is there now.");
        let place = taken(&talk);
        assert_eq!(typed(&place)[1], "On this map the ferry is missing");
        for messages in messages(&place) {
            assert!(messages.contains("the ferry is missing"), "{bytes}");
            assert!(messages.contains("map read"), "{bytes}");
            assert!(!messages.contains("no result was recorded"), "{bytes}");
        }
        let found = place.run(&["search", "ferry"]).ok();
        assert!(found.contains("ferry is missing"), "{found}");
    }
}

const PREVIEW: &str = "brick 1\n...";

fn transcript_with_result_file(path: &str) -> Transcript {
    let talk = Transcript::default();
    talk.user("Count the bricks");
    talk.calls("m1", "t1");
    talk.result(
        "t1",
        format!(
            "<persisted-output>\nOutput too large (80KB). Full output saved to: {path}\n\nPreview \
         (first 2KB):\n{PREVIEW}\n</persisted-output>"
        ),
    );
    talk.says("m2", "They are counted.");
    talk
}

#[test]
fn a_result_file_is_read_only_from_the_transcripts_own_folder() {
    let whole: String = (1..4_000).map(|n| format!("brick {n}\n")).collect();
    let whole = whole + "wall.txt:7: the last brick is missing";
    let named = format!("/elsewhere/.claude/projects/-home/{SESSION}/tool-results/toolu_1.txt");
    let place = Place::new();
    let folder = place.path(SESSION).join("tool-results");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("toolu_1.txt"), &whole).unwrap();
    let (code, report) = import(&place, &transcript_with_result_file(&named).text());
    assert_eq!((code, &report["results_missing"]), (0, &json!(0)), "{report}");
    assert!(place.run(&["search", "missing"]).ok().contains("last brick is missing"));
    let window = view(&place, "window").to_string();
    assert!(window.contains("last brick is missing"), "{window}");
    let text = place.run(&["export", SESSION, "--format", "claude-code"]).ok();
    assert_eq!(text, transcript_with_result_file(&named).text());
    // A path of another session, outside of the folder, through links, or missing.
    let secret = "the key is under the mat";
    for (case, path) in [
        ("absent", named.replace("toolu_1", "toolu_2")),
        ("another session", named.replace(SESSION, "another")),
        ("a path elsewhere", "/etc/hostname".to_owned()),
        ("a step up", format!("/x/{SESSION}/tool-results/../../secret.txt")),
        ("a link", named.clone()),
        ("a folder that is a link", named.clone()),
    ] {
        let place = Place::new();
        let outside = place.write("secret.txt", secret);
        let folder = place.path(SESSION).join("tool-results");
        match case {
            "a folder that is a link" => {
                fs::create_dir_all(place.path("other")).unwrap();
                fs::write(place.path("other").join("toolu_1.txt"), secret).unwrap();
                fs::create_dir_all(place.path(SESSION)).unwrap();
                symlink(place.path("other"), &folder).unwrap();
            }
            "a link" => {
                fs::create_dir_all(&folder).unwrap();
                symlink(&outside, folder.join("toolu_1.txt")).unwrap();
            }
            _ => fs::create_dir_all(&folder).unwrap(),
        }
        let file =
            place.write(&format!("{SESSION}.jsonl"), &transcript_with_result_file(&path).text());
        let ran = place.run(&["import", file.to_str().unwrap()]);
        assert!(ran.code == 0 && ran.err.contains("1 result kept in tool-results"), "{ran:?}");
        let events = place.events(SESSION);
        let texts = json!(events).to_string();
        assert!(texts.contains("brick 1") && !texts.contains("under the mat"), "{case}");
    }
}

#[test]
fn a_conversation_with_a_large_picture_keeps_its_text_and_round_trips() {
    let bytes = 2_400_000;
    let url = format!("data:image/png;base64,{}", "iVBORw0K".repeat(bytes / 8));
    let openai = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "On this map the ferry is missing" },
            { "type": "image_url", "image_url": { "url": url } }] },
        { "role": "assistant", "content": "I see the map." },
    ]);
    let anthropic = json!([
        { "role": "user", "content": [
            { "type": "text", "text": "On this map the ferry is missing" },
            { "type": "tool_result", "tool_use_id": "t0", "content": [picture(bytes)] }] },
        { "role": "assistant", "content": "I see the map." },
    ]);
    for (format, talk) in [("openai", openai), ("anthropic", anthropic)] {
        for line in [json!({ "id": "maps", "messages": talk }), talk.clone()] {
            let place = Place::new();
            let file = place.write("maps.jsonl", &format!("{line}\n"));
            let into = ["import", "--session", "maps", file.to_str().unwrap()];
            assert_eq!(place.run(&into).code, 0, "{format}");
            let view = place.run(&["view", "maps", "continuation"]).ok();
            assert!(view.contains("ferry is missing") && view.contains("I see"), "{format}");
            let back = place.run(&["export", "maps", "--format", format]).json();
            assert!(back == line, "{format}");
            let other = if format == "openai" { "anthropic" } else { "openai" };
            let other = place.run(&["export", "maps", "--format", other]).ok();
            assert!(other.contains("ferry is missing") && other.contains("I see"), "{format}");
            assert!(place.run(&into).ok().contains("0 events added"), "{format}");
        }
    }
}
