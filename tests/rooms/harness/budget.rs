//! Cost of texts in a response.

use sessionlog::harness::{ShortenedText, fit, json_bytes};

#[test]
fn the_cost_of_a_text_is_its_length_as_json() {
    for text in ["", "plain", "quo\"te\\", "nl\n\t\r\u{8}\u{c}", "\u{1}\u{1f}\u{7f}", "é👨‍👩‍👧"]
    {
        let json = serde_json::to_string(text).expect("a string");
        assert_eq!(json_bytes(text), json.len(), "{text:?}");
    }
}

#[test]
fn a_fitted_text_costs_no_more_than_its_budget() {
    let text = "word 👨‍👩‍👧 \"quoted\"\n ".repeat(50);
    for max in [10, 11, 12, 13, 14, 15, 40, 100, 1_000] {
        let cut = fit(&text, max);
        assert!(cut.truncated && cut.text.ends_with('…'));
        assert!(json_bytes(&cut.text) <= max, "{max}: {:?}", cut.text);
    }
    assert_eq!(fit("short", 7), ShortenedText { text: "short".to_owned(), truncated: false });
}
