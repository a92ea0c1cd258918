//! A query string as pairs, written and parsed.

use serde::{Deserialize, Serialize};
use sessionlog::verbs::{read_query, write_query};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Asked {
    limit: Option<usize>,
    page: Option<String>,
    all: bool,
    #[serde(rename = "types[]")]
    types: Vec<String>,
}

fn pairs(query: &str) -> Vec<(String, String)> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

#[test]
fn a_query_string_round_trips() {
    let types = vec!["a".to_owned(), "b c".to_owned()];
    let asked = Asked { limit: Some(3), page: Some("p".into()), all: true, types };
    for query in [Asked::default(), asked] {
        assert_eq!(read_query::<Asked>(&write_query(&query)).unwrap(), query);
    }
    let same = read_query::<Asked>(&pairs("types=a&types=b%20c&limit=&page=&all=0")).unwrap();
    assert_eq!((same.limit, same.page, same.types.len()), (None, None, 2));
}

#[test]
fn an_invalid_value_is_rejected_with_an_error_naming_it() {
    for (query, name) in [
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("limit=1&limit=2", "limit"),
        ("page=a&page=b", "page"),
        ("all=perhaps", "all"),
    ] {
        let error = read_query::<Asked>(&pairs(query)).unwrap_err();
        assert_eq!(error.hint.field.as_deref(), Some(name), "{query}");
    }
}
