//! Parsing of event bodies.

use sessionlog::projection::body::parse_ranges;

#[test]
fn ranges_are_parsed_in_every_notation() {
    for (json, expected) in [
        (r#"[{"from":1,"to":5},{"from":7,"to":7}]"#, &[(1, 5)][..]),
        ("[[1,5],[8,9]]", &[(1, 5), (8, 9)]),
        (r#"{"from":0,"to":2,"x":1}"#, &[(0, 2)]),
        ("[3,4]", &[(3, 4)]),
        (r#"[[1,5],"x",null]"#, &[(1, 5)]),
        ("null", &[]),
        ("17", &[]),
        ("not JSON", &[]),
    ] {
        let read = parse_ranges(json).into_iter().map(|range| (range.from.0, range.to.0));
        assert_eq!(read.collect::<Vec<_>>(), expected, "{json}");
    }
}
