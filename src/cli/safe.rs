//! Text made safe for a terminal: control characters are escaped as in JSON. It must not print, nor
//! know what a text is about.

use std::borrow::Cow;

use crate::env::{Entropy as _, entropy::SystemEntropy};

/// Codes that [`StyleMarker::mark`] may turn into styles; a mark contains an index into this list.
const CODES: [&str; 5] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m"];

/// A colour or style of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Off = 0,
    Strong = 1,
    Faint = 2,
    Red = 3,
    Green = 4,
}

/// A private-use character, chosen at random for each run. It marks text that this program styles;
/// recorded text cannot contain it on purpose, so it cannot choose a style.
#[derive(Clone, Copy, Debug)]
pub(super) struct StyleMarker(char);

impl StyleMarker {
    pub(super) fn new() -> Self {
        let mut bytes = [0; 2];
        SystemEntropy.fill(&mut bytes);
        let offset = u32::from(u16::from_le_bytes(bytes)) % 0xfffe;
        Self(char::from_u32(0xf_0000 + offset).unwrap_or('\u{f0000}'))
    }

    /// Returns the mark that [`Self::sanitise`] replaces with the style's code.
    pub(super) fn mark(self, style: Style) -> String {
        format!("{}{}", self.0, style as u8)
    }

    /// Returns a text without the marks.
    pub(super) fn strip_marks(self, text: &str) -> String {
        let mut parts = text.split(self.0);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |plain, part| plain + part.get(1..).unwrap_or_default())
    }

    /// Returns text for a terminal: marks become codes, and every other character that would steer
    /// the terminal is escaped.
    pub(super) fn sanitise(self, text: &str) -> Cow<'_, str> {
        if !text.chars().any(|c| c == self.0 || is_terminal_control(c) && !matches!(c, '\n' | '\t'))
        {
            return Cow::Borrowed(text);
        }
        let mut safe = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let place = chars.peek().filter(|_| c == self.0).and_then(|next| next.to_digit(10));
            let code = place.and_then(|place| CODES.get(place as usize));
            match code {
                Some(code) => {
                    safe.push_str(code);
                    chars.next();
                }
                None => push_escaped(c, &mut safe),
            }
        }
        Cow::Owned(safe)
    }
}

/// Escapes recorded text for a terminal: a character that would move the cursor, change colours or
/// reorder the text is written as in JSON.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        push_escaped(c, &mut safe);
    }
    safe
}

/// Returns true if [`escaped`] would change a text.
pub(super) fn has_controls(text: &str) -> bool {
    text.chars().any(|c| is_terminal_control(c) && !matches!(c, '\n' | '\t'))
}

fn push_escaped(c: char, safe: &mut String) {
    use std::fmt::Write as _;
    match c {
        '\n' | '\t' => safe.push(c),
        '\r' => safe.push_str("\\r"),
        c if is_terminal_control(c) => {
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        }
        c => safe.push(c),
    }
}

/// Returns true if a terminal acts on a character instead of showing it: C0 and C1 controls, DEL,
/// marks of writing direction, the byte order mark.
fn is_terminal_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn control_characters_of_recorded_text_are_escaped_for_a_terminal() {
        assert_eq!(escaped("a\x1b[31mb\r\n\tc"), "a\\u001b[31mb\\r\n\tc");
        let seal = StyleMarker::new();
        let ranges = ['\0'..='\x08', '\x0b'..='\x0c', '\x0e'..='\x1f', '\x7f'..='\u{9f}'];
        let marks = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
        let single = ['\u{61c}'..='\u{61c}', '\u{feff}'..='\u{feff}'];
        for c in ranges.into_iter().chain(marks).chain(single).flatten() {
            let code = format!("\\u{:04x}", u32::from(c));
            let text = format!("x{c}y");
            assert_eq!(escaped(&text), format!("x{code}y"));
            assert_eq!(seal.sanitise(&text), format!("x{code}y"));
            assert!(has_controls(&text), "{code}");
        }
        for kept in ['\u{200d}', '\u{2060}', '\u{300}', 'ـ', '👨', '\n', '\t'] {
            assert_eq!(escaped(&kept.to_string()), kept.to_string());
        }
    }

    #[test]
    fn a_terminal_receives_no_control_characters_except_our_styles() {
        let seal = StyleMarker('\u{f1234}');
        let red = format!("{}red{}", seal.mark(Style::Red), seal.mark(Style::Off));
        assert_eq!(seal.sanitise(&red), "\x1b[31mred\x1b[0m");
        for (text, expected) in [
            ("\x1b[31mred\x1b[0m", "\\u001b[31mred\\u001b[0m"),
            ("\x1b[2Jgone", "\\u001b[2Jgone"),
            ("\x1b]0;title\x07", "\\u001b]0;title\\u0007"),
            ("\u{f1235}3red", "\u{f1235}3red"),
            ("\u{f1234}9", "\u{f1234}9"),
            ("{\"a\":\"\u{9b}2J\u{202e}\"}", "{\"a\":\"\\u009b2J\\u202e\"}"),
            ("plain é\tb", "plain é\tb"),
        ] {
            assert_eq!(seal.sanitise(text), expected);
        }
        let json = seal.sanitise("{\"a\":\"\u{9b}\u{7f}\u{feff}\"}").into_owned();
        let value: Value = serde_json::from_str(&json).expect("JSON that means the same");
        assert_eq!(value["a"], "\u{9b}\u{7f}\u{feff}");
    }
}
