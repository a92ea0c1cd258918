//! Token usage reported by a harness.

use crate::event;
use sessionlog::{
    event::{Position, kinds},
    projection::{ContextLevel, Facts, ReportedUsage},
};

fn fold_events(events: &[(&str, &str)]) -> ReportedUsage {
    let mut facts = Facts::default();
    for (position, (kind, body)) in (0..).zip(events) {
        facts.fold(&event(position, kind, *body));
    }
    facts.usage
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
    assert_eq!((usage.least_since, usage.requests), (Some(10), 3));
    let usage = fold_events(&[
        (kinds::CONTEXT_THRESHOLD, r#"{"level":"elsewhere"}"#),
        ("user.message", &high),
    ]);
    assert_eq!(usage, ReportedUsage::default());
}
