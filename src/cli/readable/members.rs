//! A JSON value as lines of member and value. It must not know what the members mean.

use serde_json::{Map, Value};

use super::words::CALL_CHARS;

/// Levels of nested members that are laid out below each other.
const DEPTH_MAX: usize = 6;

/// Members by name, one a line, those of nested objects indented below theirs.
pub(in crate::cli) fn members(value: &Value, but: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    outline(value, but, 0, &mut lines);
    lines
}

fn outline(value: &Value, but: &[&str], depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let put = |label: String, value: &Value, lines: &mut Vec<String>| match value {
        Value::Null => {}
        Value::Object(all) if label == "- " && flat(all).is_some() => {
            lines.push(format!("{indent}{label}{}", flat(all).unwrap_or_default()));
        }
        Value::Array(items) if items.iter().all(|item| scalar(item).is_some()) => {
            let items: Vec<String> = items.iter().filter_map(scalar).collect();
            if !items.is_empty() {
                lines.push(format!("{indent}{label}{}", items.join(", ")));
            }
        }
        Value::Array(_) | Value::Object(_) if depth < DEPTH_MAX => {
            let first = lines.len();
            outline(value, &[], depth + 1, lines);
            if lines.len() > first {
                lines.insert(first, format!("{indent}{}", label.trim_end()));
            }
        }
        Value::Array(items) => lines.push(format!("{indent}{label}{} items", items.len())),
        Value::Object(all) => lines.push(format!("{indent}{label}{} members", all.len())),
        _ => {
            let text = scalar(value).unwrap_or_default();
            let below = format!("\n{indent}  ");
            lines.push(format!("{indent}{label}{}", text.replace('\n', &below)));
        }
    };
    match value {
        Value::Object(all) => {
            let shown = all.iter().filter(|(name, _)| !but.contains(&name.as_str()));
            for (name, value) in shown {
                put(format!("{}: ", named(name)), value, lines);
            }
        }
        Value::Array(items) => {
            for item in items {
                put("- ".to_owned(), item, lines);
            }
        }
        _ => lines.extend(scalar(value)),
    }
}

/// A member's name for a person.
pub(in crate::cli) fn named(name: &str) -> String {
    name.replace('_', " ")
}

/// A value that is one word or text.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim_end().to_owned()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Members on one line, where all of them are short and none is nested.
fn flat(all: &Map<String, Value>) -> Option<String> {
    let said = all.iter().filter(|(_, value)| !value.is_null());
    let said = said.map(|(name, value)| {
        let value = scalar(value).filter(|text| !text.contains('\n'))?;
        Some(format!("{}: {value}", named(name)))
    });
    let said = said.collect::<Option<Vec<_>>>()?.join(", ");
    (!said.is_empty() && said.chars().count() <= CALL_CHARS).then_some(said)
}
