//! `view`: a view of a session as HTTP answers it, or as text for a person. It must not dress
//! anything: the server has.

use serde_json::Value;

use super::{
    args,
    failure::Outcome,
    screen::{Screen, Tone, counted, printable},
};
use crate::client::{Client, Request, session_path};

pub(super) async fn show(client: &Client, wanted: args::View, screen: &mut Screen) -> Outcome {
    let step = wanted.step.filter(|_| wanted.which == args::WhichView::Step);
    let step = step.map(|number| format!("/{number}")).unwrap_or_default();
    let path = format!("/views/{}{step}", wanted.which.as_str());
    let path = session_path(&wanted.session, &path);
    let request = Request::get(path).query_opt("from", wanted.from).query_opt("at", wanted.at);
    let body = client.send(planned(request, wanted.plan)).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let view: Value = serde_json::from_slice(&body).unwrap_or_default();
    let paint = |name: &str| screen.paint(Tone::Faint, name);
    for line in lines(wanted.which, &view, &paint) {
        screen.line(line)?;
    }
    if wanted.which == args::WhichView::Window {
        screen.note(format!("sessionlog: {}", window_size(&view)));
    }
    Ok(())
}

/// A view for a person; `paint` shows what names something.
pub(super) fn lines(
    which: args::WhichView,
    view: &Value,
    paint: &dyn Fn(&str) -> String,
) -> Vec<String> {
    let mut made = Vec::new();
    match which {
        args::WhichView::Window => window(view, paint, &mut made),
        _ => outline("", view, paint, &mut made),
    }
    made
}

/// The request for a window that is built so.
pub(super) fn planned(request: Request, plan: args::WindowPlan) -> Request {
    let request = request
        .query_opt("tokens_max", plan.tokens_max)
        .query_opt("format", plan.format.map(args::WindowFormat::as_str))
        .query_opt("tokenizer", plan.tokenizer);
    let named = plan.transform.into_iter();
    named.fold(request, |request, transform| request.query("transforms[]", transform))
}

/// Names and values, those of objects and lists below their names.
fn outline(indent: &str, value: &Value, paint: &dyn Fn(&str) -> String, made: &mut Vec<String>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('_', " "), value)).collect()
        }
        Value::Array(items) => items.iter().map(|value| ("-".to_owned(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in members {
        let head = paint(&name);
        match value {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Object(range) if range.len() == 2 && is_range(value) => {
                let (from, to) = (number(value, "from"), number(value, "to"));
                made.push(format!("{indent}{head} {from}..{to}"));
            }
            Value::Object(_) | Value::Array(_) => {
                made.push(format!("{indent}{head}"));
                outline(&format!("{indent}  "), value, paint, made);
            }
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => {
                let text = printable(text).replace('\n', &format!("\n{indent}  "));
                made.extend(format!("{indent}{head} {text}").lines().map(str::to_owned));
            }
            _ => made.push(format!("{indent}{head} {value}")),
        }
    }
}

/// Whether it says positions, from one to before another.
fn is_range(value: &Value) -> bool {
    ["from", "to"].iter().all(|name| value.get(name).is_some_and(Value::is_u64))
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What a window shows, line by line.
fn window(view: &Value, paint: &dyn Fn(&str) -> String, made: &mut Vec<String>) {
    let mut said = |role: &str, text: &str| {
        let told = format!("{} {}", paint(&format!("{role:<9}")), printable(text));
        made.extend(told.lines().map(str::to_owned));
    };
    for event in list(view, "events") {
        said("", &event.to_string());
    }
    for block in list(view, "system") {
        said("system", word(block, "text"));
    }
    for message in list(view, "messages") {
        let role = word(message, "role");
        match message.get("content") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    said(role, &part_text(part));
                }
            }
            Some(Value::String(text)) => said(role, text),
            _ => {}
        }
        for call in list(message, "tool_calls") {
            let of = |name: &str| call.get("function").map_or("", |function| word(function, name));
            said(role, &format!("{} {}", of("name"), of("arguments")));
        }
    }
}

/// What a part of a message says: a text, a call with its arguments, what a call answered.
fn part_text(part: &Value) -> String {
    match word(part, "type") {
        "tool_use" => {
            let input = part.get("input").map(Value::to_string).unwrap_or_default();
            format!("{} {input}", word(part, "name"))
        }
        "tool_result" => {
            let said: Vec<String> = list(part, "content").iter().map(part_text).collect();
            format!("-> {}", said.join("\n"))
        }
        "text" => word(part, "text").to_owned(),
        _ => part.to_string(),
    }
}

/// How large a window is, and how much it leaves out.
pub(super) fn window_size(view: &Value) -> String {
    let dropped = list(view, "dropped").iter();
    let left_out: u64 =
        dropped.map(|range| number(range, "to").saturating_sub(number(range, "from"))).sum();
    format!(
        "{} of {} tokens by {}; {} not shown, {} in part",
        number(view, "tokens"),
        number(view, "tokens_max"),
        word(view, "tokenizer"),
        counted(usize::try_from(left_out).unwrap_or(usize::MAX), "position"),
        list(view, "shortened").len(),
    )
}
