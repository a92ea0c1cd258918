//! `workspace move`: moves the sessions and memory of a moved directory to its new path. It must
//! not decide what belongs to a workspace.

use super::{
    args::{WorkspaceArgs, WorkspaceVerb},
    failure::{CliError, Outcome, REFUSED},
    screen::{Screen, escaped, with_noun},
};
use crate::{
    api::handoff::MoveRequest,
    client::Client,
    verbs::{NoQuery, WorkspacePath, handoff::MoveWorkspace},
};

pub(super) async fn run(client: &Client, wanted: WorkspaceArgs, screen: &mut Screen) -> Outcome {
    let WorkspaceVerb::Move(wanted) = wanted.verb;
    let place = WorkspacePath { workspace: wanted.from };
    let asked = MoveRequest { to: wanted.to };
    let moved = client.call::<MoveWorkspace>(&place, &NoQuery {}, &asked).await?;
    screen.print_result(&moved, |screen| {
        let (sessions, notebooks) =
            (with_noun(moved.sessions, "session"), with_noun(moved.notebooks, "notebook"));
        screen.print_line(format!("moved to {}: {sessions}, {notebooks}", escaped(&asked.to)))?;
        for left in &moved.left {
            screen.print_note(escaped(&format!("{} stays: {}", left.session, left.problem)));
        }
        Ok(())
    })?;
    if moved.left_total == 0 { Ok(()) } else { Err(CliError::Silent(REFUSED)) }
}
