//! Parsing of transforms.

use sessionlog::harness::{Compression, Transform, UnitFilter};

#[test]
fn a_transform_with_unknown_name_or_parameters_is_rejected() {
    let all = Compression { whitespace: true, comments: true, elide: Some(100), keep: 3 };
    let none = Compression { whitespace: false, comments: false, elide: None, keep: 3 };
    let types = vec!["a.b".to_owned(), "c.*".to_owned()];
    for (text, expected) in [
        ("compress", Transform::Compress(all)),
        ("compress:keep=1", Transform::Compress(Compression { keep: 1, ..all })),
        ("compress:whitespace", Transform::Compress(Compression { whitespace: true, ..none })),
        ("compress:elide,tokens=7", Transform::Compress(Compression { elide: Some(7), ..none })),
        ("filter", Transform::Filter(UnitFilter { duplicates: true, ..UnitFilter::default() })),
        (
            "filter:types=a.b|c.*",
            Transform::Filter(UnitFilter { types: types.clone(), ..UnitFilter::default() }),
        ),
        (
            "filter:drop=a.b|c.*,duplicates",
            Transform::Filter(UnitFilter {
                drop: types,
                duplicates: true,
                ..UnitFilter::default()
            }),
        ),
        ("reorder", Transform::Reorder { slack: 25 }),
        ("reorder:slack=50", Transform::Reorder { slack: 50 }),
        ("annotate", Transform::Annotate { times: false }),
        ("annotate:times", Transform::Annotate { times: true }),
    ] {
        assert_eq!(Transform::parse(text), Ok(expected), "{text}");
    }
    for text in [
        "",
        "squash",
        "compress:x",
        "compress:keep",
        "compress:tokens=-1",
        "filter:types",
        "filter:x=1",
        "reorder:slack=76",
        "reorder:x",
        "annotate:x",
    ] {
        assert!(Transform::parse(text).is_err(), "{text}");
    }
}
