//! Size of JSON texts, and length of strings.

use sessionlog::event::{
    json::{JsonSize, check, check_levels, measure, string_len},
    limits::{JSON_DEPTH_MAX, JSON_VALUES_MAX},
};

#[test]
fn values_and_nesting_levels_are_counted_without_member_names() {
    for (text, values, depth) in [
        ("", 0, 0),
        ("7", 1, 0),
        ("[]", 1, 1),
        ("[[],[]]", 3, 2),
        (" [ 1 , \"a,[\" , true ] ", 4, 1),
        (r#"{"a":1,"b" : {"c":"x:\"y\"","d":[null,{}]}}"#, 7, 4),
        (r#""a\\""#, 1, 0),
        // Not JSON: a lenient parser finds no more values.
        ("[1 2 \"a\" \"b\":3", 5, 1),
        ("::::[\"", 2, 1),
        ("]]]][", 1, 1),
    ] {
        assert_eq!(measure(text.as_bytes(), usize::MAX), JsonSize { values, depth }, "{text}");
    }
}

#[test]
fn values_below_the_parsed_nesting_levels_are_not_counted() {
    let text = r#"[[1,2,3],{"a":[4,5],"b":6}]"#;
    for (levels, values) in [(0, 1), (1, 3), (2, 8), (3, 10), (usize::MAX, 10)] {
        assert_eq!(measure(text.as_bytes(), levels).values, values, "{levels}");
    }
}

#[test]
fn a_json_text_over_a_limit_is_rejected_and_one_at_it_parses() {
    let wide = |count: usize| format!("[{}]", vec!["[]"; count - 1].join(","));
    let named = |count: usize| format!("{{{}}}", vec!["\"a\":0"; count - 1].join(","));
    for make in [wide, named] {
        assert!(check(&make(JSON_VALUES_MAX)).is_some());
        assert!(check(&make(JSON_VALUES_MAX + 1)).is_none());
    }
    let inner = format!("[{}]", wide(JSON_VALUES_MAX + 1));
    assert!(
        check(&inner).is_none()
            && check_levels(&inner, 1).is_some()
            && check_levels(&inner, 2).is_none()
    );
    let deep = |levels: usize| measure("[".repeat(levels).as_bytes(), usize::MAX).is_small();
    assert!(deep(JSON_DEPTH_MAX) && !deep(JSON_DEPTH_MAX + 1));
}

#[test]
fn a_json_string_ends_at_its_first_unescaped_quote() {
    for (text, length) in [
        (r#""" a"#, Some(2)),
        (r#""a\"b"c"#, Some(6)),
        (r#""a\\": 1"#, Some(5)),
        (r#""ü", 1"#, Some(4)),
        (r#""a"#, None),
        (r#""a\""#, None),
        ("a", None),
        ("", None),
    ] {
        assert_eq!(string_len(text), length, "{text}");
    }
}
