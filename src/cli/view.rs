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
    let mut request = Request::get(path)
        .query_opt("from", wanted.from)
        .query_opt("at", wanted.at)
        .query_opt("tokens_max", wanted.tokens_max)
        .query_opt("format", wanted.format.map(args::WindowFormat::as_str))
        .query_opt("tokenizer", wanted.tokenizer);
    for transform in wanted.transform {
        request = request.query("transforms[]", transform);
    }
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let view: Value = serde_json::from_slice(&body).unwrap_or_default();
    match wanted.which {
        args::WhichView::Window => window(&view, screen),
        _ => outline("", &view, screen),
    }
}

/// Names and values, those of objects and lists below their names.
fn outline(indent: &str, value: &Value, screen: &mut Screen) -> Outcome {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.replace('_', " "), value)).collect()
        }
        Value::Array(items) => items.iter().map(|value| ("-".to_owned(), value)).collect(),
        _ => Vec::new(),
    };
    for (name, value) in members {
        let head = screen.paint(Tone::Faint, &name);
        match value {
            Value::Null => {}
            Value::Array(items) if items.is_empty() => {}
            Value::Object(_) | Value::Array(_) => {
                screen.line(format!("{indent}{head}"))?;
                outline(&format!("{indent}  "), value, screen)?;
            }
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => {
                let text = printable(text).replace('\n', &format!("\n{indent}  "));
                screen.line(format!("{indent}{head} {text}"))?;
            }
            _ => screen.line(format!("{indent}{head} {value}"))?,
        }
    }
    Ok(())
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

/// What a window shows, line by line, and below it what it leaves out.
fn window(view: &Value, screen: &mut Screen) -> Outcome {
    for event in list(view, "events") {
        screen.line(printable(&event.to_string()))?;
    }
    for block in list(view, "system") {
        said("system", word(block, "text"), screen)?;
    }
    for message in list(view, "messages") {
        let role = word(message, "role");
        match message.get("content") {
            Some(Value::Array(parts)) => {
                for part in parts {
                    let text = part.get("text").and_then(Value::as_str);
                    said(role, &text.map_or_else(|| part.to_string(), str::to_owned), screen)?;
                }
            }
            Some(Value::String(text)) => said(role, text, screen)?,
            _ => {}
        }
        for call in list(message, "tool_calls") {
            said(role, &call.to_string(), screen)?;
        }
    }
    let left_out: u64 =
        list(view, "dropped").iter().map(|range| number(range, "to") - number(range, "from")).sum();
    screen.note(format!(
        "sessionlog: {} of {} tokens by {}; {} not shown, {} in part",
        number(view, "tokens"),
        number(view, "tokens_max"),
        word(view, "tokenizer"),
        counted(usize::try_from(left_out).unwrap_or(usize::MAX), "position"),
        list(view, "shortened").len(),
    ));
    Ok(())
}

fn said(role: &str, text: &str, screen: &mut Screen) -> Outcome {
    let role = screen.paint(Tone::Strong, &format!("{role:<9}"));
    screen.line(format!("{role} {}", printable(text)))?;
    Ok(())
}
