//! `fork`, `rewind` and `diff`, and the lineage that `show` draws: continuing from an earlier
//! point, looking at one, and the difference between two. None of them removes an event. It must
//! not resolve a point: the server does.

use serde_json::{Value, json};

use super::{
    answer::{number, text},
    args,
    failure::{Failure, Outcome},
    readable::{self, Paper},
    screen::{Screen, one_line, size},
    view,
};
use crate::{
    client::{Client, Request, session_path},
    event::SessionId,
};

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
    screen.line(format!("created {id} from {parent} at position {at}; no event was copied"))?;
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
    let view: Value = serde_json::from_slice(&body).unwrap_or_default();
    let at = number(&view, "position");
    // The server reads a position past the end as the end.
    if wanted.to.parse::<u64>().is_ok_and(|to| to > at) {
        return Err(Failure::Refused {
            code: "point_not_found",
            message: format!("position {} is out of range (tail is {at})", wanted.to),
            action: format!("name a position from 0 to {at}, or `--to end`"),
        });
    }
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    readable::view(args::WhichView::Index, wanted.session.as_str(), &view, &mut paper);
    screen.lines(paper.lines())?;
    screen.flush()?;
    screen.note(format!(
        "Nothing was removed. To go on from here: sessionlog fork {} --at {at}",
        wanted.session
    ));
    Ok(())
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
    let mut paper = Paper::new(screen.columns(), screen.times());
    readable::difference(wanted.session.as_str(), &found, &mut paper);
    Ok(screen.lines(paper.lines())?)
}

/// Who has positions in common with a session.
pub(super) async fn lineage(client: &Client, session: &SessionId) -> Outcome<Value> {
    let body = client.send(Request::get(session_path(session, "/lineage"))).await?.body;
    Ok(serde_json::from_slice(&body).unwrap_or_default())
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
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
    // An ancestor has the position at which its child begins.
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
