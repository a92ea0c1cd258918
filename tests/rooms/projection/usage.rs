//! Token usage reported by a harness.

use crate::event;
use indexmap::IndexMap;
use sessionlog::{
    event::{Cost, Event, Origin, Position, Range, Timestamp, kinds},
    harness::{CallPairs, build_row},
    projection::{
        ContextLevel, DroppedRanges, Facts, ReportedUsage, SessionFold, Strip,
        usage::{UsageRow, add_shares},
    },
};

fn fold_events(events: &[(&str, &str)]) -> ReportedUsage {
    let mut facts = Facts::default();
    for (position, (kind, body)) in (0..).zip(events) {
        facts.fold(&event(position, kind, *body));
    }
    facts.usage
}

#[test]
fn a_session_has_the_times_of_its_clients_but_none_after_the_stores() {
    let mut facts = Facts::default();
    // An import's event without a time, before the first one with a time, says nothing.
    facts.fold(&Event { origin: Origin::Import, ..event(4, kinds::TRANSCRIPT_ENTRY, "{}") });
    for (position, created_at) in [(5, Some(2)), (6, Some(99)), (7, Some(3)), (8, None)] {
        let created_at = created_at.map(|seconds| Timestamp(seconds * 1_000_000));
        facts.fold(&Event { created_at, ..event(position, kinds::USER_MESSAGE, "{}") });
        let last = if position == 7 { 6 } else { position.max(2) };
        let expected = if position == 5 { (2, 2) } else { (2, last.cast_signed()) };
        let seconds = |(first, last): (Timestamp, Timestamp)| (first.0, last.0);
        let expected = (expected.0 * 1_000_000, expected.1 * 1_000_000);
        assert_eq!(facts.times.range().map(seconds), Some(expected), "position {position}");
    }
}

#[test]
fn an_imported_event_without_a_time_is_shown_at_the_time_of_the_event_before_it() {
    let (mut strip, mut pairs) = (Strip::new(None), CallPairs::new(None, None));
    for (position, created_at) in [(800, Some(2)), (801, None), (802, Some(3))] {
        let created_at = created_at.map(|seconds| Timestamp(seconds * 1_000_000));
        let plain = event(position, kinds::TRANSCRIPT_ENTRY, "{}");
        let event = Event { created_at, origin: Origin::Import, ..plain };
        strip.fold(&event);
        pairs.fold(&event);
        let row = build_row(&event, &pairs, &DroppedRanges::default(), 0);
        let expected = Some(Timestamp(if position == 802 { 3 } else { 2 } * 1_000_000));
        let range = Range::new(event.position, event.position.plus(1));
        let (_, _, buckets) = strip.buckets(range, 1);
        assert_eq!((Some(row.at), buckets[0].at), (expected, expected), "position {position}");
    }
}

#[test]
fn a_usage_report_is_parsed_with_the_field_names_of_each_api() {
    for (body, tokens) in [
        (r#"{"model_usage":{"input_tokens":10,"output_tokens":5}}"#, Some(15)),
        (
            r#"{"model_usage":{"input_tokens":1,"cache_read_input_tokens":90,
                "cache_creation_input_tokens":9,"output_tokens":5}}"#,
            Some(105),
        ),
        (r#"{"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}"#, Some(15)),
        (
            r#"{"usage":{"input_tokens":10,"output_tokens":5,"total_tokens":15,
                "input_tokens_details":{"cached_tokens":8}}}"#,
            Some(15),
        ),
        (r#"{"model_usage":null}"#, None),
        ("not JSON", None),
    ] {
        let usage = fold_events(&[(kinds::SPAN_MODEL_REQUEST_END, body)]);
        assert_eq!(usage.latest.map(|report| report.tokens), tokens, "{body}");
    }
}

#[test]
fn a_usage_report_counts_whatever_names_and_types_its_members_have() {
    let counts = r#""prompt_tokens":100,"completion_tokens":20,"total_tokens":120,
        "prompt_tokens_details":{"cached_tokens":10}"#;
    for (body, expected) in [
        (format!(r#"{{"model_usage":{{{counts}}}}}"#), (100, 10, 20)),
        (format!(r#"{{"model_usage":{{{counts},"input_tokens_details":null}}}}"#), (100, 10, 20)),
        (
            format!(r#"{{"usage":{{{counts},"input_tokens_details":{{"cached_tokens":10}}}}}}"#),
            (100, 10, 20),
        ),
        (format!(r#"{{"usage":{{{counts}}},"model_usage":{{{counts}}}}}"#), (100, 10, 20)),
        (format!(r#"{{"usage":{{{counts}}},"model_usage":null}}"#), (100, 10, 20)),
        (format!(r#"{{"usage":{{{counts}}},"model_usage":{{}}}}"#), (100, 10, 20)),
        (format!(r#"{{"usage":{{{counts},"input_tokens":0,"output_tokens":0}}}}"#), (100, 10, 20)),
        (format!(r#"{{"usage":{{{counts},"input_tokens":"many"}}}}"#), (100, 10, 20)),
        (r#"{"usage":{"input_tokens":100.0,"output_tokens":2e1}}"#.to_owned(), (100, 0, 20)),
        (r#"{"usage":{"input_tokens":-1,"output_tokens":20}}"#.to_owned(), (0, 0, 20)),
        (r#"{"usage":{"input_tokens":1.5,"output_tokens":20}}"#.to_owned(), (0, 0, 20)),
        (
            r#"{"usage":{"input_tokens":18446744073709551615,"output_tokens":20}}"#.to_owned(),
            (0, 0, 20),
        ),
    ] {
        let totals = fold_events(&[(kinds::SPAN_MODEL_REQUEST_END, &body)]).totals;
        let found = (totals.input_tokens, totals.cached_tokens, totals.output_tokens);
        assert_eq!((totals.requests, found), (1, expected), "{body}");
    }
}

#[test]
fn costs_that_are_none_are_not_counted_and_the_others_add_up_exactly() {
    for (costs, expected) in [
        (vec!["1e308", "1e308", "1000000.1", "-1", "\"2\"", "null"], None),
        (vec!["1e308", "0.25", "-1"], Some(0.25)),
        (vec!["0.1", "0.2", "0.3"], Some(0.6)),
        (vec!["0"; 3], Some(0.0)),
        (vec!["0.1"; 1_000], Some(100.0)),
        (vec!["1000000"; 3], Some(3e6)),
    ] {
        let body = |cost: &&str| format!(r#"{{"usage":{{}},"cost_usd":{cost}}}"#);
        let bodies: Vec<String> = costs.iter().map(body).collect();
        let events: Vec<_> =
            bodies.iter().map(|body| (kinds::SPAN_MODEL_REQUEST_END, body.as_str())).collect();
        let totals = fold_events(&events).totals;
        assert_eq!(totals.cost_usd.map(Cost::usd), expected, "{:?}", costs.first());
        assert_eq!(totals.requests, costs.len() as u64);
    }
}

#[test]
fn after_a_crossed_level_the_lowest_reported_usage_is_kept() {
    let report = |tokens: u64| format!(r#"{{"usage":{{"total_tokens":{tokens}}}}}"#);
    let (high, low) = (report(90), report(10));
    let crossed = r#"{"level":"threshold","tokens":90,"limit":100}"#;
    let usage =
        fold_events(&[(kinds::SPAN_MODEL_REQUEST_END, &high), (kinds::CONTEXT_THRESHOLD, crossed)]);
    assert_eq!(usage.recorded, Some((ContextLevel::Threshold, Position(1))));
    assert_eq!(usage.least_since, None);
    let usage = fold_events(&[
        (kinds::SPAN_MODEL_REQUEST_END, &high),
        (kinds::CONTEXT_THRESHOLD, crossed),
        (kinds::SPAN_MODEL_REQUEST_END, &low),
        (kinds::SPAN_MODEL_REQUEST_END, &high),
    ]);
    assert_eq!((usage.least_since, usage.totals.requests), (Some(10), 3));
    let usage = fold_events(&[
        (kinds::CONTEXT_THRESHOLD, r#"{"level":"elsewhere"}"#),
        ("user.message", &high),
    ]);
    assert_eq!(usage, ReportedUsage::default());
}

#[test]
fn requests_are_counted_by_model_thread_and_day_and_a_subagent_fills_no_context() {
    let report = |model: &str, more: &str, out: u64| {
        format!(
            r#"{{"model":"{model}","usage":{{"input_tokens":10,"output_tokens":{out}}}{more}}}"#
        )
    };
    let bodies = [
        report("big", "", 1),
        report("small", r#","session_thread_id":"a1","cost_usd":0.25"#, 2),
        report("big", r#","cost_usd":0.5"#, 4),
        r#"{"usage":{"input_tokens":10,"output_tokens":8},"model":7,"session_thread_id":9,"cost_usd":"-"}"#
            .to_owned(),
    ];
    let events: Vec<_> =
        bodies.iter().map(|body| (kinds::SPAN_MODEL_REQUEST_END, body.as_str())).collect();
    let usage = fold_events(&events);
    let row = |row: &UsageRow| {
        (row.day.clone(), row.model.clone(), row.thread.clone(), row.totals.output_tokens)
    };
    let named = |name: &str| Some(name.to_owned());
    let day = || "1970-01-01".to_owned();
    let rows: Vec<_> = usage.rows.iter().map(row).collect();
    assert_eq!(
        rows,
        [
            (day(), named("big"), None, 5),
            (day(), named("small"), named("a1"), 2),
            (day(), named("7"), named("9"), 8),
        ]
    );
    let mut shares = IndexMap::new();
    add_shares(&mut shares, &usage.rows, |row| row.thread.as_deref());
    let outs: Vec<_> = shares.iter().map(|(key, of)| (key.clone(), of.output_tokens)).collect();
    assert_eq!(outs, [(None, 5), (named("a1"), 2), (named("9"), 8)]);
    assert_eq!((usage.totals.requests, usage.totals.output_tokens), (4, 15));
    assert_eq!(
        usage.latest.map(|latest| (latest.position, latest.tokens)),
        Some((Position(2), 14))
    );
    assert_eq!(usage.totals.cost_usd.map(Cost::usd), Some(0.75));
}

#[test]
fn the_rows_of_a_session_with_very_many_days_and_models_are_bounded() {
    let mut facts = Facts::default();
    for n in 0_u64..4_000 {
        let body = format!(r#"{{"model":"m{n}","usage":{{"input_tokens":1}}}}"#);
        let day = Timestamp(86_400_000_000 * (n / 2).cast_signed());
        let event = event(n, kinds::SPAN_MODEL_REQUEST_END, body);
        facts.fold(&Event { created_at: None, processed_at: day, ..event });
    }
    let rows = &facts.usage.rows;
    assert_eq!(rows.len(), 1_024 + 400);
    assert_eq!(rows.iter().map(|row| row.totals.requests).sum::<u64>(), 4_000);
    let without_day: Vec<_> = rows.iter().filter(|row| row.day == "other").collect();
    let [other] = without_day[..] else { panic!("{} rows", without_day.len()) };
    // 1 023 requests have rows of their own, and those of 400 days a row for each day.
    assert_eq!(other.totals.requests, 4_000 - 1_023 - 800 + 1);
}

#[test]
fn requests_beyond_the_longest_list_are_counted_together() {
    let bodies: Vec<String> = (0..2_000)
        .map(|n| format!(r#"{{"model":"m{n}","usage":{{"input_tokens":1,"output_tokens":1}}}}"#))
        .collect();
    let events: Vec<_> =
        bodies.iter().map(|body| (kinds::SPAN_MODEL_REQUEST_END, body.as_str())).collect();
    let usage = fold_events(&events);
    assert_eq!((usage.rows.len(), usage.totals.requests), (1_024, 2_000));
    let mut shares = IndexMap::new();
    add_shares(&mut shares, &usage.rows, |row| row.model.as_deref());
    assert_eq!(shares.len(), 400);
    let other = shares.get(&Some("other".to_owned())).expect("a share");
    assert_eq!(other.requests, 2_000 - 399);
    assert_eq!(shares.values().map(|of| of.requests).sum::<u64>(), 2_000);
}
