//! A row of a session as text: its line, and what else is known of its call. It must not print.

use super::words::format_span;
use crate::{
    api::rows::{Row, RowKind},
    cli::times::format_duration,
    event::Range,
};

/// Formats the lines that an edit adds and removes: `+9`, `-2`.
pub(in crate::cli) fn format_edit(row: &Row) -> [Option<String>; 2] {
    let sign = |sign: char| move |count: u64| format!("{sign}{count}");
    [row.added.map(sign('+')), row.removed.filter(|removed| *removed > 0).map(sign('-'))]
}

/// Formats the outcome of a call and its duration: `1 failed  68 ms`.
pub(in crate::cli) fn format_outcome(row: &Row) -> String {
    let took = row.duration_ms.and_then(|millis| i64::try_from(millis).ok());
    let took = took.map(|millis| format_duration(millis.saturating_mul(1_000)));
    let failed = (row.failed && row.outcome.is_none()).then(|| "failed".to_owned());
    let said = [row.outcome.clone(), failed, took];
    said.into_iter().flatten().collect::<Vec<_>>().join("  ")
}

/// Formats a row in one line: `Edit wx/report.py  +9  -2  68 ms`.
pub(in crate::cli) fn format_row(row: &Row) -> String {
    let lead = match row.kind {
        RowKind::User => "> ",
        RowKind::Thinking => "(thinking) ",
        _ => "",
    };
    let outcome = Some(format_outcome(row)).filter(|text| !text.is_empty());
    let more = format_edit(row).into_iter().chain([outcome]).flatten();
    more.fold(format!("{lead}{}", row.line), |line, more| format!("{line}  {more}"))
}

/// Formats a half-open range of positions; `-` for an empty one.
pub(in crate::cli) fn format_part(range: Range) -> String {
    if range.is_empty() { "-".to_owned() } else { format_span(range.from.0, range.to.0) }
}
