//! `fork`, `rewind` and `diff`, and the lineage that `show` draws: continue from an earlier point,
//! view one, and compare two. None of them removes an event. It must not resolve a point: the
//! server does.

use std::io;

use serde_json::Value;

use super::{
    answer::to_json_tree,
    args,
    failure::{CliError, Outcome},
    readable::{self, LineBuffer, words::number_of},
    screen::{Screen, format_size, one_line},
    view,
};
use crate::{
    api::{
        fork::{ForkRequest, Kin, Lineage},
        sessions::Session,
    },
    client::{Client, HttpRequest},
    env::{Clock as _, clock::SystemClock},
    event::{Point, SessionId},
    verbs::{
        NoQuery, SessionPath,
        forks::{Diff, DiffQuery, Fork, GetLineage},
    },
    wire::json,
};

pub(super) async fn fork(client: &Client, wanted: args::ForkArgs, screen: &mut Screen) -> Outcome {
    let asked =
        ForkRequest { at: wanted.at, id: wanted.id.map(|id| id.to_string()), title: wanted.title };
    create_fork(client, &wanted.session, asked, screen).await
}

async fn create_fork(
    client: &Client,
    parent: &SessionId,
    asked: ForkRequest,
    screen: &mut Screen,
) -> Outcome {
    let place = SessionPath { session: parent.clone() };
    let fork = client.call::<Fork>(&place, &NoQuery {}, &asked).await?;
    let (id, at) = (&fork.id, fork.forked_from.as_ref().map_or(0, |from| from.position));
    screen.print_result(&fork, |screen| {
        screen
            .print_line(format!("created {id} from {parent} at position {at}; no event was copied"))
    })
}

pub(super) async fn rewind(
    client: &Client,
    wanted: args::RewindArgs,
    screen: &mut Screen,
) -> Outcome {
    if let Ok(Point::Time(at)) = Point::parse(&wanted.to)
        && at > SystemClock::new().now()
    {
        let message = format!("{} is in the future", wanted.to);
        let action = "name a time that has passed, or `--to end`";
        return Err(CliError::refusal("point_not_found", message, action));
    }
    if wanted.fork {
        let asked = ForkRequest { at: wanted.to, id: None, title: None };
        return create_fork(client, &wanted.session, asked, screen).await;
    }
    let which = args::WhichView::Index;
    let add = |request: HttpRequest| request.query("at", &wanted.to);
    let body = view::fetch(client, which, &wanted.session, None, add).await?;
    let view: Value = json::parse_lossy(&body).map_err(io::Error::from)?;
    let at = number_of(&view, "position").unwrap_or_default();
    // The server treats a position past the end as the end.
    if wanted.to.parse::<u64>().is_ok_and(|to| to > at) {
        let message = format!("position {} is out of range (tail is {at})", wanted.to);
        let action = format!("name a position from 0 to {at}, or `--to end`");
        return Err(CliError::refusal("point_not_found", message, action));
    }
    if screen.json {
        return Ok(screen.print_answer(&body)?);
    }
    let session = wanted.session.as_str();
    LineBuffer::print(screen, |paper| readable::print_view(which, session, &view, paper))?;
    screen.flush()?;
    screen.print_note(format!(
        "Nothing was removed. To continue from here: sessionlog fork {session} --at {at}"
    ));
    Ok(())
}

pub(super) async fn diff(
    client: &Client,
    mut wanted: args::DiffArgs,
    screen: &mut Screen,
) -> Outcome {
    // Counts tokens of the window a model reads, not of events as stored.
    wanted.plan.format.get_or_insert(args::WindowFormat::Anthropic);
    let query = DiffQuery { from: Some(wanted.from), to: Some(wanted.to), ..DiffQuery::default() };
    let request = HttpRequest::from_verb::<Diff>(
        &SessionPath { session: wanted.session.clone() },
        &query,
        &(),
    );
    let found = client.ask::<Diff>(view::add_window_plan(request, wanted.plan)).await?;
    let (session, facts) = (wanted.session.as_str(), to_json_tree(&found)?);
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| readable::print_difference(session, &facts, paper))
    })
}

/// Fetches the sessions that share positions with a session.
pub(super) async fn fetch_lineage(client: &Client, session: &SessionId) -> Outcome<Lineage> {
    let place = SessionPath { session: session.clone() };
    Ok(client.call::<GetLineage>(&place, &NoQuery {}, &()).await?)
}

/// Draws a session as a tree: its ancestors, the eldest first, the session, and its forks.
pub(super) fn draw_family_tree(session: &Session, family: &Lineage) -> Vec<String> {
    if family.ancestors.is_empty() && family.children.is_empty() {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let above = family.depth.saturating_sub(family.ancestors.len() as u64);
    if above > 0 {
        lines.push(format!("… {above} more above"));
    }
    // Each ancestor shows the position at which its child begins.
    let mut at = None;
    let mut indent = 0;
    for one in family.ancestors.iter().rev() {
        lines.push(format_branch(indent, at, one, ""));
        at = Some(one.position);
        indent += 1;
    }
    let own = Kin {
        id: session.id.clone(),
        title: session.title.clone(),
        stage: String::new(),
        position: 0,
        tail: session.tail,
        bytes: session.bytes,
    };
    lines.push(format_branch(indent, at, &own, " (this one)"));
    for child in &family.children {
        lines.push(format_branch(indent + 1, Some(child.position), child, ""));
    }
    let more = family.forks.saturating_sub(family.children.len() as u64);
    if more > 0 {
        lines.push(format!("{}… {more} more", "  ".repeat(indent + 1)));
    }
    lines
}

/// Maximum number of indented levels.
const INDENT_MAX: usize = 12;

fn format_branch(indent: usize, at: Option<u64>, one: &Kin, mark: &str) -> String {
    let from = at.map(|at| format!("└ at {at}: ")).unwrap_or_default();
    let stage = match one.stage.as_str() {
        "" | "alive" => String::new(),
        other => format!(", {other}"),
    };
    let title = one_line(one.title.as_deref().unwrap_or_default(), 40);
    let title = if title.is_empty() { title } else { format!("  {title}") };
    let own = format_size(one.bytes);
    let indent = "  ".repeat(indent.min(INDENT_MAX));
    format!("{indent}{from}{}{mark}  to {}, {own} of its own{stage}{title}", one.id, one.tail)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn new_relative(id: &str, position: u64, stage: &str) -> Kin {
        let (id, stage) = (id.to_owned(), stage.to_owned());
        Kin { id, title: None, stage, position, tail: 9, bytes: 2048 }
    }

    #[test]
    fn a_tree_shows_ancestors_first_and_the_position_of_each_fork() {
        let session = json!({
            "id": "me", "type": "session", "status": "idle", "title": "T", "metadata": {},
            "created_at": "", "updated_at": "", "tail": 7, "bytes": 10, "damage": [],
            "receipt": { "position": 7, "chain": "" },
        });
        let session: Session = serde_json::from_value(session).unwrap();
        let mut family = Lineage {
            session: "me".to_owned(),
            ancestors: vec![new_relative("mother", 5, "deleted"), new_relative("root", 3, "alive")],
            depth: 3,
            children: vec![new_relative("kid", 6, "alive")],
            forks: 2,
        };
        assert_eq!(
            draw_family_tree(&session, &family),
            [
                "… 1 more above",
                "root  to 9, 2.00 KiB of its own",
                "  └ at 3: mother  to 9, 2.00 KiB of its own, deleted",
                "    └ at 5: me (this one)  to 7, 10 B of its own  T",
                "      └ at 6: kid  to 9, 2.00 KiB of its own",
                "      … 1 more",
            ]
        );
        (family.ancestors, family.children) = (Vec::new(), Vec::new());
        assert_eq!(draw_family_tree(&session, &family), [""; 0]);
    }
}
