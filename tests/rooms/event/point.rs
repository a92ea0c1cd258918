//! Points, parsed and printed.

use sessionlog::event::Point;

#[test]
fn every_form_of_a_point_round_trips() {
    for text in [
        "17",
        "0",
        "end",
        "-5",
        "event:e 1",
        "time:2026-11-21T10:00:00.000000Z",
        "step:3",
        "step:3@b",
        "checkpoint:x",
        "cursor:me",
        "action:agent.tool_use/2",
    ] {
        let point = Point::parse(text).expect(text);
        assert_eq!(point.to_string(), text);
    }
    assert_eq!(
        Point::parse("action:agent.tool_use"),
        Ok(Point::Action { kind: "agent.tool_use".to_owned(), nth: 1 })
    );
}

#[test]
fn a_text_that_is_not_a_point_is_rejected() {
    for text in [
        "",
        "x",
        "+5",
        "--5",
        "-",
        "1.5",
        "event:",
        "time:now",
        "step:x",
        "step:1@",
        "step:",
        "action:a/0",
        "where:1",
        "99999999999999999999",
        " 1",
    ] {
        assert!(Point::parse(text).is_err(), "{text:?}");
    }
}
