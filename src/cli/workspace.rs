//! `workspace move`: what a directory that was moved has, under its new path. It must not decide
//! what belongs to a workspace.

use std::path::Path;

use super::{
    args::{Workspace, WorkspaceVerb},
    failure::{Failure, Outcome},
    screen::{Screen, counted, printable},
};
use crate::{
    client::Client,
    env::files,
    verbs::{InWorkspace, NoQuery, handoff::MoveWorkspace},
    wire::handoff::MoveRequest,
};

pub(super) async fn run(client: &Client, wanted: Workspace, screen: &mut Screen) -> Outcome {
    let WorkspaceVerb::Move(wanted) = wanted.verb;
    let is_path = files::look(Path::new(&wanted.to)).ok().flatten().is_some_and(|to| to.is_dir);
    let place = InWorkspace { workspace: name_of(&wanted.from, is_path)? };
    let asked = MoveRequest { to: name_of(&wanted.to, is_path)? };
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

/// The name of a workspace: a path in the spelling of hooks, though its directory may be gone; or
/// another name as it is.
fn name_of(said: &str, is_path: bool) -> Outcome<String> {
    if !is_path && !said.starts_with('/') {
        return Ok(said.to_owned());
    }
    let path = files::resolved(Path::new(said))
        .map_err(|source| Failure::File { path: said.into(), source })?;
    Ok(path.display().to_string())
}
