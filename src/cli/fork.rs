//! `fork`, `rewind` and `diff`, and the lineage that `show` draws: going on from an earlier point,
//! looking at one, and what came between two. Nothing recorded is removed by any of them. It must
//! not resolve a point: the server does.

use serde_json::{Value, json};

use super::{
    args,
    failure::Outcome,
    screen::{Screen, Tone, counted, one_line, size},
    sessions::{number, text},
    view,
};
use crate::{
    client::{Client, Request, session_path},
    event::SessionId,
};

/// Characters of a line of a list.
const LINE_CHARS: usize = 100;

pub(super) async fn fork(client: &Client, wanted: args::Fork, screen: &mut Screen) -> Outcome {
    let asked = Asked { at: &wanted.at, id: wanted.id.as_ref(), title: wanted.title.as_deref() };
    let body = forked(client, &wanted.session, &asked).await?;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let fork: Value = serde_json::from_slice(&body).unwrap_or_default();
    tell_fork(&wanted.session, &fork, screen)
}

struct Asked<'a> {
    at: &'a str,
    id: Option<&'a SessionId>,
    title: Option<&'a str>,
}

async fn forked(client: &Client, parent: &SessionId, asked: &Asked<'_>) -> Outcome<bytes::Bytes> {
    let mut body = json!({ "at": asked.at });
    let named = [("id", asked.id.map(SessionId::as_str)), ("title", asked.title)];
    for (name, text) in named.into_iter().filter_map(|(name, text)| Some((name, text?))) {
        if let Some(members) = body.as_object_mut() {
            members.insert(name.to_owned(), json!(text));
        }
    }
    let request = Request::post(session_path(parent, "/fork")).json(&body);
    Ok(client.send(request).await?.body)
}

fn tell_fork(parent: &SessionId, fork: &Value, screen: &mut Screen) -> Outcome {
    let (id, at) = (text(fork, "id"), fork.pointer("/forked_from/position"));
    let at = at.and_then(Value::as_u64).unwrap_or_default();
    screen.line(format!("{id} goes on from {parent} at position {at}; no event was copied"))?;
    Ok(())
}

pub(super) async fn rewind(client: &Client, wanted: args::Rewind, screen: &mut Screen) -> Outcome {
    if wanted.fork {
        let asked = Asked { at: &wanted.to, id: None, title: None };
        let body = forked(client, &wanted.session, &asked).await?;
        if screen.json {
            return Ok(screen.answer(&body)?);
        }
        let fork: Value = serde_json::from_slice(&body).unwrap_or_default();
        return tell_fork(&wanted.session, &fork, screen);
    }
    let request = Request::get(session_path(&wanted.session, "/views/index"));
    let body = client.send(request.query("at", &wanted.to)).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let view: Value = serde_json::from_slice(&body).unwrap_or_default();
    let at = number(&view, "position");
    let head = format!("{} as of position {at}", wanted.session);
    screen.line(screen.paint(Tone::Strong, &head))?;
    for line in overview_lines(&view) {
        screen.line(line)?;
    }
    screen.note(format!(
        "Nothing was removed. To go on from here: sessionlog fork {} --at {at}",
        wanted.session
    ));
    Ok(())
}

/// An overview for a person.
pub(super) fn overview_lines(view: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let goal = text(view, "goal");
    if !goal.is_empty() {
        lines.push(format!("goal: {}", one_line(&goal, 2 * LINE_CHARS)));
    }
    lines.extend(text(view, "summary").lines().map(|line| one_line(line, 2 * LINE_CHARS)));
    let lists = [
        ("steps", "steps"),
        ("gaps", "open gaps"),
        ("sources", "sources"),
        ("rejected", "ruled out"),
        ("recent", "latest events"),
    ];
    for (name, list) in lists {
        let rows: Vec<String> = items(view, name).map(row_of).collect();
        if !rows.is_empty() {
            lines.push(format!("{list}:"));
            lines.extend(rows.iter().map(|row| format!("  {}", one_line(row, LINE_CHARS))));
        }
    }
    lines
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// What a line of one of the overview's lists says.
fn row_of(row: &Value) -> String {
    let said = ["line", "text", "description", "title", "url"].map(|name| text(row, name));
    let said = said.into_iter().find(|text| !text.is_empty());
    let said = said.or_else(|| row.as_str().map(str::to_owned)).unwrap_or_default();
    let place = ["number", "position"].map(|name| row.get(name).and_then(Value::as_u64));
    match (place.into_iter().flatten().next(), text(row, "type")) {
        (Some(place), kind) if kind.is_empty() => format!("{place:>4}  {said}"),
        (Some(place), kind) => format!("{place:>4}  {kind}  {said}"),
        (None, _) => said,
    }
}

pub(super) async fn diff(client: &Client, wanted: args::Diff, screen: &mut Screen) -> Outcome {
    let request = Request::get(session_path(&wanted.session, "/diff"))
        .query("from", &wanted.from)
        .query("to", &wanted.to);
    let body = client.send(view::planned(request, wanted.plan)).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let found: Value = serde_json::from_slice(&body).unwrap_or_default();
    let events = found.get("events").unwrap_or(&Value::Null);
    let (from, to) = (number(&found, "from"), number(&found, "to"));
    let count = usize::try_from(number(events, "count")).unwrap_or(usize::MAX);
    let head = format!("positions {from}..{to}: {}", counted(count, "event"));
    screen.line(format!(
        "{}, {}",
        screen.paint(Tone::Strong, &head),
        size(number(events, "bytes"))
    ))?;
    for (kind, count) in events.get("types").and_then(Value::as_object).into_iter().flatten() {
        screen.line(format!("  {count:>6}  {}", one_line(kind, LINE_CHARS)))?;
    }
    let facts = found.get("facts").unwrap_or(&Value::Null);
    for (name, label) in [("goal", "goal"), ("summary", "summary")] {
        let Some(change) = facts.get(name) else { continue };
        for (side, mark) in [("from", '-'), ("to", '+')] {
            let said = one_line(&text(change, side), 2 * LINE_CHARS);
            if !said.is_empty() {
                screen.line(format!("{mark} {label}: {said}"))?;
            }
        }
    }
    if let Some(complete) = facts.get("complete").and_then(Value::as_bool) {
        screen.line(if complete { "+ complete" } else { "- complete" })?;
    }
    for (name, label) in NEWS {
        tell_news(facts, name, label, screen)?;
    }
    tell_window(found.get("window").unwrap_or(&Value::Null), screen)
}

/// What a model sees at one point and not at the other.
fn tell_window(window: &Value, screen: &mut Screen) -> Outcome {
    let size = |side: &str| {
        let of = window.get(side).unwrap_or(&Value::Null);
        let events = usize::try_from(number(of, "events")).unwrap_or(usize::MAX);
        format!("{} ({} tokens)", counted(events, "event"), number(of, "tokens"))
    };
    let head = format!("window of {} tokens", number(window, "tokens_max"));
    let head = screen.paint(Tone::Strong, &head);
    screen.line(format!("{head}: {} -> {}", size("from"), size("to")))?;
    for (name, label) in [("entered", "+"), ("left", "-"), ("shortened", "~ in part:")] {
        let places = window.get(name).unwrap_or(&Value::Null);
        let ranges =
            items(places, "data").map(|range| match number(range, "to").saturating_sub(1) {
                last if last == number(range, "from") => last.to_string(),
                _ => format!("{}..{}", number(range, "from"), number(range, "to")),
            });
        let ranges: Vec<String> = ranges.collect();
        if !ranges.is_empty() {
            screen.line(format!("{label} {}", one_line(&ranges.join(", "), LINE_CHARS)))?;
        }
    }
    Ok(())
}

/// Lists of a difference, and how each line of one begins.
const NEWS: [(&str, &str); 6] = [
    ("steps", "+ step"),
    ("superseded", "~ revised: step"),
    ("gaps_opened", "+ gap"),
    ("gaps_closed", "- gap"),
    ("sources", "+ source"),
    ("rejected", "+ ruled out"),
];

fn tell_news(facts: &Value, name: &str, label: &str, screen: &mut Screen) -> Outcome {
    let Some(news) = facts.get(name) else { return Ok(()) };
    let mut shown = 0;
    for line in items(news, "data") {
        shown += 1;
        let said = ["line", "description", "title", "url", "text"].map(|name| text(line, name));
        let said = said.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        let step = line.get("step").and_then(Value::as_u64).filter(|_| label.ends_with("step"));
        let step = step.map(|step| format!(" {step}")).unwrap_or_default();
        screen.line(format!("{label}{step}: {}", one_line(&said, LINE_CHARS)))?;
    }
    let left = number(news, "total").saturating_sub(shown);
    if left > 0 {
        screen.line(format!("{label}: {left} more"))?;
    }
    Ok(())
}

/// Who has positions in common with a session.
pub(super) async fn lineage(client: &Client, session: &SessionId) -> Outcome<Value> {
    let body = client.send(Request::get(session_path(session, "/lineage"))).await?.body;
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

/// The sessions that one reads from, the eldest first, itself, and its forks, as a tree.
pub(super) fn tree(session: &Value, family: &Value) -> Vec<String> {
    let ancestors: Vec<&Value> = items(family, "ancestors").collect();
    let children: Vec<&Value> = items(family, "children").collect();
    if ancestors.is_empty() && children.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let above = number(family, "depth").saturating_sub(ancestors.len() as u64);
    if above > 0 {
        lines.push(format!("… {above} more above"));
    }
    // Where an ancestor stands, the position is that of the one below it.
    let mut at = None;
    let mut indent = 0;
    for one in ancestors.iter().rev() {
        lines.push(limb(indent, at, one, ""));
        at = Some(number(one, "position"));
        indent += 1;
    }
    lines.push(limb(indent, at, session, " (this one)"));
    for child in &children {
        lines.push(limb(indent + 1, Some(number(child, "position")), child, ""));
    }
    let more = number(family, "forks").saturating_sub(children.len() as u64);
    if more > 0 {
        lines.push(format!("{}… {more} more", "  ".repeat(indent + 1)));
    }
    lines
}

/// Levels that are drawn one to the right of the other.
const INDENT_MAX: usize = 12;

fn limb(indent: usize, at: Option<u64>, one: &Value, mark: &str) -> String {
    let from = at.map(|at| format!("└ at {at}: ")).unwrap_or_default();
    let stage = Some(text(one, "stage")).filter(|stage| !matches!(stage.as_str(), "" | "alive"));
    let stage = stage.map(|stage| format!(", {stage}")).unwrap_or_default();
    let title = one_line(&text(one, "title"), 40);
    let title = if title.is_empty() { title } else { format!("  {title}") };
    let (id, own) = (text(one, "id"), size(number(one, "bytes")));
    let indent = "  ".repeat(indent.min(INDENT_MAX));
    format!("{indent}{from}{id}{mark}  to {}, {own} of its own{stage}{title}", number(one, "tail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(id: &str, position: u64, stage: &str) -> Value {
        json!({
            "id": id, "position": position, "tail": 9, "bytes": 2048, "stage": stage,
            "title": null,
        })
    }

    #[test]
    fn a_tree_shows_the_eldest_first_and_where_each_goes_on() {
        let session = json!({ "id": "me", "tail": 7, "bytes": 10, "title": "T" });
        let family = json!({
            "ancestors": [one("mother", 5, "deleted"), one("root", 3, "alive")], "depth": 3,
            "children": [one("kid", 6, "alive")], "forks": 2,
        });
        assert_eq!(
            tree(&session, &family),
            [
                "… 1 more above",
                "root  to 9, 2.00 KiB of its own",
                "  └ at 3: mother  to 9, 2.00 KiB of its own, deleted",
                "    └ at 5: me (this one)  to 7, 10 B of its own  T",
                "      └ at 6: kid  to 9, 2.00 KiB of its own",
                "      … 1 more",
            ]
        );
        assert_eq!(tree(&session, &json!({ "ancestors": [], "children": [] })), [""; 0]);
    }
}
