//! Cursors of lists, printed and parsed.

use sessionlog::api::cursor::PageCursor;

#[test]
fn a_cursor_round_trips_and_any_other_text_is_rejected() {
    for text in ["steps:9", "sources:0", "gaps:1", "rejected:7", "step:3:4096"] {
        assert_eq!(PageCursor::parse(text).expect(text).to_string(), text);
    }
    for text in [
        "",
        "steps",
        "steps:",
        "steps:x",
        "steps:-1",
        "steps:1:2",
        "step:1",
        "x:1",
        "step:1:2:3",
        "steps:99999999999999999999999",
    ] {
        assert_eq!(PageCursor::parse(text), None, "{text}");
    }
}
