//! The query parameters of events: names and values.

use sessionlog::{
    event::Timestamp,
    service::{EventQuery, ServiceResult},
    verbs::{events::EventsQuery, read_query},
};

fn read(query: &str) -> ServiceResult<EventQuery> {
    let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    read_query::<EventsQuery>(&pairs.collect::<Vec<_>>())?.parse()
}

#[test]
fn names_are_the_same_with_and_without_percent_encoding() {
    for query in [
        "types[]=a.b&types[]=c.d&created_at[gte]=2026-11-21T10:00:00Z&beta=true",
        "types%5B%5D=a.b&types%5B%5D=c.d&created_at%5Bgte%5D=2026-11-21T10%3A00%3A00Z&x[y]=1",
        "types=a.b&types=c.d&created_at[gte]=2026-11-21T12:00:00+02:00",
        "types=a.b%2Cc.d&created_at[gte]=2026-11-21T10:00:00Z",
    ] {
        let query = read(query).expect(query);
        assert_eq!(query.types.len(), 2);
        assert_eq!(query.window.from, Timestamp::parse("2026-11-21T10:00:00Z"));
    }
}

#[test]
fn invalid_values_are_rejected_with_errors_naming_them() {
    for (query, name) in [
        ("limit=x", "limit"),
        ("limit=-1", "limit"),
        ("limit=1&limit=2", "limit"),
        ("order=up", "order"),
        ("from=nowhere", "from"),
        ("to=1.5", "to"),
        ("wait_ms=soon", "wait_ms"),
        ("wait_ms=60001", "wait_ms"),
        ("allow_gaps=perhaps", "allow_gaps"),
        ("types[]=a%20b", "types[]"),
        ("created_at[lt]=now", "created_at[lt]"),
        ("before=1", "around"),
        ("around=17&before=x", "before"),
        ("limit=99999999999999999999", "limit"),
    ] {
        let error = read(query).expect_err(query);
        assert_eq!(error.hint.field.as_deref(), Some(name), "{query}");
    }
}
