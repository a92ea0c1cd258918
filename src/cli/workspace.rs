//! `workspace move`: moves the sessions and memory of a moved directory to its new path. It must
//! not decide what belongs to a workspace.

use super::{
    args::{WorkspaceArgs, WorkspaceVerb},
    failure::{Failure, Outcome, REFUSED},
    screen::{Screen, counted, printable},
};
use crate::{
    api::handoff::MoveRequest,
    client::Client,
    verbs::{InWorkspace, NoQuery, handoff::MoveWorkspace},
};

pub(super) async fn run(client: &Client, wanted: WorkspaceArgs, screen: &mut Screen) -> Outcome {
    let WorkspaceVerb::Move(wanted) = wanted.verb;
    let place = InWorkspace { workspace: wanted.from };
    let asked = MoveRequest { to: wanted.to };
    let moved = client.call::<MoveWorkspace>(&place, &NoQuery {}, &asked).await?;
    screen.show(&moved, |screen| {
        let (sessions, notebooks) =
            (counted(moved.sessions, "session"), counted(moved.notebooks, "notebook"));
        screen.line(format!("moved to {}: {sessions}, {notebooks}", printable(&asked.to)))?;
        for left in &moved.left {
            screen.note(printable(&format!("{} stays: {}", left.session, left.problem)));
        }
        Ok(())
    })?;
    if moved.left_total == 0 { Ok(()) } else { Err(Failure::Silent(REFUSED)) }
}
