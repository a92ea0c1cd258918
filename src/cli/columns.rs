//! Width of a text on a terminal. It must not print.

use ratatui::text::Span;

/// Returns the number of terminal columns of a text.
pub(super) fn text_columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}
