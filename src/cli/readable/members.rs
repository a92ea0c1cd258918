//! Formats a JSON value as lines of member and value. It must not know what the members mean.

use serde_json::{Map, Value};

use super::words::CALL_CHARS;

/// Maximum levels of nested members that are indented.
const DEPTH_MAX: usize = 6;

/// Formats members by name, one a line; those of nested objects are indented.
pub(in crate::cli) fn format_members(value: &Value, but: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    push_outline(value, but, 0, &mut lines);
    lines
}

fn push_outline(value: &Value, but: &[&str], depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    let put = |label: String, value: &Value, lines: &mut Vec<String>| match value {
        Value::Null => {}
        Value::Object(all) if label == "- " && format_flat(all).is_some() => {
            lines.push(format!("{indent}{label}{}", format_flat(all).unwrap_or_default()));
        }
        Value::Array(items) if items.iter().all(|item| format_scalar(item).is_some()) => {
            let items: Vec<String> = items.iter().filter_map(format_scalar).collect();
            if !items.is_empty() {
                lines.push(format!("{indent}{label}{}", items.join(", ")));
            }
        }
        Value::Array(_) | Value::Object(_) if depth < DEPTH_MAX => {
            let first = lines.len();
            push_outline(value, &[], depth + 1, lines);
            if lines.len() > first {
                lines.insert(first, format!("{indent}{}", label.trim_end()));
            }
        }
        Value::Array(items) => lines.push(format!("{indent}{label}{} items", items.len())),
        Value::Object(all) => lines.push(format!("{indent}{label}{} members", all.len())),
        _ => {
            let text = format_scalar(value).unwrap_or_default();
            let below = format!("\n{indent}  ");
            lines.push(format!("{indent}{label}{}", text.replace('\n', &below)));
        }
    };
    match value {
        Value::Object(all) => {
            let shown = all.iter().filter(|(name, _)| !but.contains(&name.as_str()));
            for (name, value) in shown {
                put(format!("{}: ", member_label(name)), value, lines);
            }
        }
        Value::Array(items) => {
            for item in items {
                put("- ".to_owned(), item, lines);
            }
        }
        _ => lines.extend(format_scalar(value)),
    }
}

/// Formats a member's name for display.
pub(in crate::cli) fn member_label(name: &str) -> String {
    name.replace('_', " ")
}

/// Formats a scalar value; `None` for a list or an object.
fn format_scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.trim_end().to_owned()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Bool(false) => Some("no".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Formats members on one line if all are short and none is nested.
fn format_flat(all: &Map<String, Value>) -> Option<String> {
    let said = all.iter().filter(|(_, value)| !value.is_null());
    let said = said.map(|(name, value)| {
        let value = format_scalar(value).filter(|text| !text.contains('\n'))?;
        Some(format!("{}: {value}", member_label(name)))
    });
    let said = said.collect::<Option<Vec<_>>>()?.join(", ");
    (!said.is_empty() && said.chars().count() <= CALL_CHARS).then_some(said)
}
