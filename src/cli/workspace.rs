//! `workspace move`: what a directory that was moved has, under its new path. It must not decide
//! what belongs to a workspace.

use super::{
    args::{Workspace, WorkspaceVerb},
    failure::{Failure, Outcome},
    screen::{Screen, counted, printable},
};
use crate::{
    api::handoff::MoveRequest,
    client::Client,
    verbs::{InWorkspace, NoQuery, handoff::MoveWorkspace},
};

pub(super) async fn run(client: &Client, wanted: Workspace, screen: &mut Screen) -> Outcome {
    let WorkspaceVerb::Move(wanted) = wanted.verb;
    let place = InWorkspace { workspace: wanted.from };
    let asked = MoveRequest { to: wanted.to };
    let moved = client.call::<MoveWorkspace>(&place, &NoQuery {}, &asked).await?;
    if screen.json {
        screen.print(&moved)?;
    } else {
        let many = |count: u64, one| counted(usize::try_from(count).unwrap_or(usize::MAX), one);
        let (sessions, notebooks) =
            (many(moved.sessions, "session"), many(moved.notebooks, "notebook"));
        screen.line(format!("moved to {}: {sessions}, {notebooks}", printable(&asked.to)))?;
        for left in &moved.left {
            screen.note(printable(&format!("{} stays: {}", left.session, left.problem)));
        }
    }
    if moved.left_total == 0 { Ok(()) } else { Err(Failure::Silent(1)) }
}
