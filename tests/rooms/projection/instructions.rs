//! Instructions of users: the newest whole, earlier ones as lines.

use crate::event;
use sessionlog::{
    event::{Event, Origin, Position},
    projection::{Facts, Instruction, WorkProgress},
};

/// Maximum characters of an instruction kept as a line, and kept whole.
const LINE_CHARS_MAX: usize = 120;
const WHOLE_CHARS_MAX: usize = 2_000;

fn fold_messages(texts: impl IntoIterator<Item = impl AsRef<str>>) -> WorkProgress {
    let mut facts = Facts::default();
    for (position, text) in (0..).zip(texts) {
        let body = serde_json::json!({ "content": text.as_ref() }).to_string();
        facts.fold(&Event { origin: Origin::User, ..event(position, "user.message", body) });
    }
    facts.progress
}

fn texts<'a>(words: impl Iterator<Item = &'a Instruction>) -> Vec<&'a str> {
    words.map(|word| &*word.text).collect()
}

#[test]
fn the_newest_instructions_are_kept_whole_and_earlier_ones_as_lines() {
    let all = fold_messages((0..1_200).map(|n| format!("number {n}\n{}", "x".repeat(3_000))));
    let all = all.instructions();
    assert_eq!(
        (all.recent_instructions().count(), all.older_lines().count(), all.count()),
        (64, 1_000, 1_200)
    );
    let first = all.recent_instructions().next().expect("one");
    assert_eq!(first.position, Position(1_136));
    assert!(first.text.starts_with("number 1136\nx"));
    assert_eq!(first.text.chars().count(), WHOLE_CHARS_MAX);
    let (oldest, last) = (all.older_lines().next().expect("one"), all.older_lines().next_back());
    assert!(oldest.text.starts_with("number 136 x"), "{}", oldest.text);
    assert_eq!(oldest.text.chars().count(), LINE_CHARS_MAX);
    assert_eq!(last.map(|word| word.position), Some(Position(1_135)));
}

#[test]
fn messages_that_only_agree_are_omitted_unless_they_come_first() {
    let all = fold_messages(["ok", "y", "mend it", "yes", "yes, the blue one", "go on", ""]);
    assert_eq!(
        texts(all.instructions().recent_instructions()),
        ["ok", "mend it", "yes, the blue one"]
    );
    assert_eq!(all.instructions().count(), 3);
    assert_eq!(all.task().map(|word| &*word.text), Some("mend it"));
    let thanks = [
        "mend it",
        "Thanks!",
        "thank you",
        "Thank you so much for your help today!",
        "Many thanks",
        "Thanks a lot, that's all I needed.",
        "Great, thank you, that helps!",
        "thx again",
        "Vielen Dank!",
    ];
    assert_eq!(texts(fold_messages(thanks).instructions().recent_instructions()), ["mend it"]);
    assert_eq!(fold_messages(["mend it", "Thanks, now paint it"]).instructions().count(), 2);
    assert_eq!(fold_messages(["hi"]).task().map(|word| &*word.text), Some("hi"));
}
