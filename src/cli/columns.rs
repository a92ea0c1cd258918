//! Width of a text on a terminal. It must not print.

use ratatui::text::Span;

/// Columns that a text takes on a terminal.
pub(super) fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}
