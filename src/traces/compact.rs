//! Shortens JSON to one line for a reader: `name: value` pairs, of which those with ids and amounts
//! are shortened last; or removes quotation marks and white space. It must not use anything but the
//! value.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use crate::event::{json, text::one_line};

/// Maximum values of a JSON text that are shown.
const VALUES_MAX: usize = 400;
/// Strings that, without quotes, would be read as another type, compared in lower case.
const WORDS: [&str; 4] = ["true", "false", "null", "none"];
/// Maximum bytes of a JSON text whose quotes are removed.
const UNQUOTED_BYTES_MAX: usize = 64 << 10;
/// Minimum characters of each text before whole pairs are dropped.
const TEXT_CHARS_MIN: usize = 24;
/// Minimum characters of each pair.
const PAIR_CHARS_MIN: usize = 8;

/// Shortens a text to one line: a JSON object to `name: value` pairs, a list to the values of its
/// objects in brackets; any other text is only cut.
pub(crate) fn compact(text: &str, chars_max: usize) -> String {
    let trimmed = text.trim();
    let is_json = trimmed.starts_with(['{', '[']);
    let read = json::check(trimmed).filter(|_| is_json);
    match read.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        Some(value) => fit_pairs(&value, chars_max),
        None => one_line(text, chars_max),
    }
}

/// Removes the quotation marks and white space of a JSON object or list: `{name: Ann, seats: [4,
/// "5"]}`. A string keeps its quotes where it could be read as another value. Any other text is
/// returned unchanged.
pub(crate) fn unquoted(text: &str) -> Cow<'_, str> {
    let trimmed = text.trim();
    let is_json = trimmed.starts_with(['{', '['])
        && trimmed.len() <= UNQUOTED_BYTES_MAX
        && serde_json::from_str::<IgnoredAny>(trimmed).is_ok();
    if !is_json {
        return Cow::Borrowed(text);
    }
    let (mut made, mut rest) = (String::with_capacity(trimmed.len()), trimmed);
    while let Some(first) = rest.chars().next() {
        let length = json::string_len(rest).unwrap_or(first.len_utf8());
        let (token, behind) = rest.split_at(length);
        rest = behind;
        match first {
            '"' => made.push_str(without_quotes(token)),
            ':' | ',' => made.extend([first, ' ']),
            first if first.is_whitespace() => {}
            first => made.push(first),
        }
    }
    Cow::Owned(made)
}

/// Strips the quotes of a JSON string unless it could then be read as another value.
fn without_quotes(quoted: &str) -> &str {
    let text = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    let is_plain = !text.is_empty()
        && text.trim() == text
        && !text.contains(['"', '\\', ',', '{', '}', '[', ']'])
        && !text.contains(": ")
        && !text.ends_with(':')
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
        && text.replace('_', "").parse::<f64>().is_err();
    if is_plain { text } else { quoted }
}

/// Fits the pairs into `chars_max` characters: shortens texts, drops pairs without an id or an
/// amount from the last on, reduces lists to ids and amounts, then shortens pairs.
fn fit_pairs(value: &Value, chars_max: usize) -> String {
    let length = |pairs: &[String]| {
        let chars: usize = pairs.iter().map(|pair| pair.chars().count() + 2).sum();
        chars.saturating_sub(2)
    };
    let mut chars = chars_max;
    let mut pairs = format_pairs(value, chars);
    while length(&pairs) > chars_max && chars > TEXT_CHARS_MIN {
        chars = (chars * 2 / 3).max(TEXT_CHARS_MIN);
        pairs = format_pairs(value, chars);
    }
    let plain = |pair: &String| {
        let value = pair.split_once(": ").map_or(&**pair, |(_, value)| value);
        !value.split([' ', ';', ',', '[', ']', '{', '}']).any(is_id_or_amount)
    };
    while length(&pairs) > chars_max
        && let Some(at) = pairs.iter().rposition(plain)
    {
        pairs.remove(at);
    }
    if length(&pairs) > chars_max {
        pairs.iter_mut().for_each(|pair| *pair = keep_ids_and_amounts(pair));
    }
    let mut chars = chars_max;
    while length(&pairs) > chars_max && chars > PAIR_CHARS_MIN {
        chars = chars * 3 / 4;
        pairs.iter_mut().for_each(|pair| *pair = one_line(pair, chars));
    }
    one_line(&pairs.join(", "), chars_max)
}

/// Reduces a pair whose value is a list to the ids and amounts in it.
fn keep_ids_and_amounts(pair: &str) -> String {
    let list =
        pair.split_once(": [").and_then(|(name, list)| Some((name, list.strip_suffix(']')?)));
    let Some((name, list)) = list else { return pair.to_owned() };
    let words = |one: &str| {
        let words: Vec<&str> = one.split(' ').filter(|word| is_id_or_amount(word)).collect();
        words.join(" ")
    };
    format!("{name}: [{}]", list.split("; ").map(words).collect::<Vec<_>>().join("; "))
}

/// Returns true if a word may be an id or an amount: it has a digit, and is not a date.
fn is_id_or_amount(word: &str) -> bool {
    let of_date = |c: char| c.is_ascii_digit() || matches!(c, '-' | '/' | ':' | 'T' | 'Z' | '.');
    let is_date = word.len() >= 8 && word.contains(['-', '/', ':']) && word.chars().all(of_date);
    word.contains(|c: char| c.is_ascii_digit()) && !is_date
}

/// Formats the pairs of an object, or any other value as one text.
fn format_pairs(value: &Value, chars: usize) -> Vec<String> {
    let mut left = VALUES_MAX;
    match value {
        Value::Object(members) => {
            let pair = |(name, value): (&String, &Value)| {
                let text = format_value(value, chars, true, &mut left);
                (!text.is_empty()).then(|| format!("{name}: {text}"))
            };
            members.iter().filter_map(pair).collect()
        }
        other => vec![format_value(other, chars, true, &mut left)],
    }
}

/// Formats a value, with or without the names of its members.
fn format_value(value: &Value, chars: usize, named: bool, left: &mut usize) -> String {
    if *left == 0 {
        return String::new();
    }
    *left -= 1;
    let joined = |texts: Vec<String>, between: &str| {
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        texts.join(between)
    };
    match value {
        Value::Null => String::new(),
        Value::String(text) => one_line(text, chars),
        Value::Array(values) => {
            let all = values.iter().map(|value| format_value(value, chars, false, left)).collect();
            if named { format!("[{}]", joined(all, "; ")) } else { joined(all, " ") }
        }
        Value::Object(members) if named => {
            let pair = |(name, value): (&String, &Value)| {
                format!("{name}: {}", format_value(value, chars, true, left))
            };
            format!("{{{}}}", joined(members.iter().map(pair).collect(), ", "))
        }
        Value::Object(members) => {
            let all =
                members.values().map(|value| format_value(value, chars, false, left)).collect();
            joined(all, " ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_json_keeps_every_value_and_its_type() {
        let json = r#"[{"no" : "HAT 1", "on":"05-20", "at": "14:00:00+1", "fee": 5.0, "of": null},
            {"id":"42","zip":"007","is":"True","":"","why":"a, b","so":"a: b","said":"\"x\" \\","é":["ü"]}]"#;
        assert_eq!(
            unquoted(json),
            "[{no: HAT 1, on: 05-20, at: 14:00:00+1, fee: 5.0, of: null}, {id: \"42\", \
             zip: \"007\", is: \"True\", \"\": \"\", why: \"a, b\", so: \"a: b\", said: \"\\\"x\\\" \\\\\", \
             é: [ü]}]"
        );
        for other in ["{not JSON", "just\nwords", "[x] done", "\"text\"", "42"] {
            assert_eq!(unquoted(other), other);
        }
    }

    #[test]
    fn a_json_object_is_shortened_to_name_value_pairs() {
        let json = r#"{"id":"EHGLP3","legs":[{"no":"HAT1","on":"05-20"},{"no":"HAT2","on":"05-25"}],
            "to":{"city":"Ghent"},"fee":5.0,"x":null}"#;
        assert_eq!(
            compact(json, 90),
            "id: EHGLP3, legs: [HAT1 05-20; HAT2 05-25], to: {city: Ghent}, fee: 5.0"
        );
        assert_eq!(compact("[\"a\",\"b\"]", 90), "[a; b]");
        assert_eq!(compact("just\nwords", 90), "just words");
        assert_eq!(compact("{not JSON", 90), "{not JSON");
    }

    #[test]
    fn pairs_without_ids_and_amounts_are_dropped_first() {
        let long = format!(r#"{{"why":"{}","id":"EHGLP3","amount":375}}"#, "because ".repeat(50));
        let short = compact(&long, 60);
        assert!(short.ends_with("id: EHGLP3, amount: 375"), "{short}");
        assert!(short.starts_with("why: because") && short.chars().count() <= 60, "{short}");
        let many: Vec<String> = (0..40).map(|n| format!(r#""w{n}":"words""#)).collect();
        let many = format!(r#"{{"id":"A7",{},"amount":375}}"#, many.join(","));
        let short = compact(&many, 60);
        assert!(
            short.starts_with("id: A7, w0: words") && short.ends_with("amount: 375"),
            "{short}"
        );
        assert!(short.chars().count() <= 60, "{short}");
        let birth = r#"{"no":"HAT1","born":["Ada 1815-12-10","Bob 1816-01-02"],"fee":129}"#;
        assert_eq!(compact(birth, 40), "no: HAT1, fee: 129");
        let legs = r#"{"legs":[["HAT1","2024-05-20"],["HAT2","2024-05-25"]],"fee":129}"#;
        assert_eq!(compact(legs, 30), "legs: [HAT1; HAT2], fee: 129");
        assert!(compact(&"[".repeat(50), 60).chars().count() <= 60);
    }
}
