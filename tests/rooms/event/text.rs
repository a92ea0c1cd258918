//! Message texts, cut and on one line.

use sessionlog::event::text::{clip, one_line};

#[test]
fn a_line_is_cut_between_graphemes_and_marked_as_cut() {
    let family = "👨‍👩‍👧";
    for (text, max, expected) in [
        ("", 5, ""),
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("  two\n\n words\t", 20, "two words"),
        ("a\u{0}b", 20, "a b"),
        ("ééééé", 5, "ééééé"),
        ("e\u{301}e\u{301}e\u{301}", 5, "e\u{301}e\u{301}…"),
        (&format!("ab{family}cd"), 6, "ab…"),
        (&format!("ab{family}cd"), 9, &format!("ab{family}cd")),
        ("four five six", 10, "four five…"),
        ("one two three", 8, "one two…"),
        ("one two three", 7, "one tw…"),
        ("🇩🇪🇫🇷🇮🇹", 4, "🇩🇪…"),
        ("x", 0, "…"),
        (&"\u{301}".repeat(500), 120, "…"),
    ] {
        let line = one_line(text, max);
        assert_eq!(line, expected, "{text:?}");
        assert!(line.chars().count() <= max.max(1), "{text:?}");
    }
}

#[test]
fn a_clipped_text_keeps_its_line_breaks() {
    assert_eq!(clip("a\nb\nc", 4), "a\nb…");
    assert_eq!(clip("a\nb", 4), "a\nb");
    assert_eq!(clip("éé\nb", 4), "éé\nb");
    assert_eq!(clip("👨‍👩‍👧!", 4), "…");
    assert_eq!((clip("", 0), clip("a", 0)), (String::new(), "…".to_owned()));
}
