//! Workspaces as a user names them: a path stands for the workspace of its project, any other text
//! is a name. Only this file decides that, for every verb. It must not send a request to a server.

use std::path::{Path, PathBuf};

use super::{
    args::{Verb, WorkspaceArgs, WorkspaceChoice, WorkspaceVerb},
    common::parse_session_id,
    connect,
    failure::{CliError, Outcome},
    values::Environment,
};
use crate::{
    env::{files, project::Project},
    traces::normalize_path,
};

/// Returns true if a text can only be a path.
fn is_path(text: &str) -> bool {
    text.contains('/') || matches!(text, "." | ".." | "~")
}

/// Returns the workspace that a text names: that of a directory's project, or else the text.
fn resolve_workspace(text: &str, environment: &Environment) -> String {
    let home = environment.directory("HOME");
    let below_home = text.strip_prefix("~/").or((text == "~").then_some(""));
    let typed = match (below_home, &home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    };
    let path = std::path::absolute(&typed).unwrap_or(typed);
    if files::path_info(&path).is_ok_and(|found| found.is_some_and(|found| found.is_dir)) {
        return Project::from_directory(&path, home.as_deref()).workspace();
    }
    // It may be a directory of another machine. Only a path with a leading `.` or `~` is changed.
    let plain = normalize_path(&path.display().to_string(), None, None);
    plain.filter(|_| text.starts_with(['.', '~'])).unwrap_or_else(|| text.to_owned())
}

/// Returns the former workspace of a moved directory: its path as hooks recorded it, with links of
/// its parent directories resolved.
fn former_workspace(text: &str, of_path: bool) -> String {
    let path = Some(Path::new(text)).filter(|_| of_path || is_path(text));
    let path = path.and_then(|path| files::resolve(path).ok());
    path.map_or_else(|| text.to_owned(), |path| path.display().to_string())
}

/// Returns the workspace of the working directory; `None` if unrelated programs share it.
pub(super) fn current_workspace(environment: &Environment) -> Option<String> {
    let project = connect::current_project(environment).filter(|project| !project.shared);
    project.map(|project| project.workspace())
}

/// Returns true if a workspace is the working directory, or an ancestor within its repository.
pub(super) fn contains_working_dir(workspace: &str, environment: &Environment) -> bool {
    let Some(project) = connect::current_project(environment) else { return false };
    let top = project.root.as_deref().unwrap_or(&project.directory);
    let place = project.main_checkout_directory();
    let mut own = place.ancestors().take_while(|path| path.starts_with(top));
    own.any(|path| path == Path::new(workspace))
        || current_workspace(environment).as_deref() == Some(workspace)
}

/// Returns the workspace whose sessions a verb reads, of a verb that may read those of all.
pub(super) fn workspace_choice(verb: &mut Verb) -> Option<&mut WorkspaceChoice> {
    match verb {
        Verb::Sessions(verb) => Some(&mut verb.choice),
        Verb::History(verb) => Some(&mut verb.choice),
        Verb::Usage(verb) => Some(&mut verb.choice),
        _ => None,
    }
}

/// Replaces the paths in a verb's arguments by their workspaces. A verb on one workspace defaults
/// to that of the working directory; one on all sessions lists that workspace first.
pub(super) fn resolve_workspaces(verb: &mut Verb, environment: &Environment) -> Outcome {
    if let Verb::Memory(memory) = verb
        && let Some(text) = memory.of.take()
    {
        match is_path(&text) {
            true => memory.workspace = Some(text),
            false => memory.session = Some(parse_session_id(&text).map_err(CliError::Usage)?),
        }
    }
    if let Some(choice) = workspace_choice(verb) {
        choice.workspace = choice.workspace.take().or(choice.of.take());
        match &mut choice.workspace {
            Some(text) => *text = resolve_workspace(text, environment),
            None if !choice.all => choice.here = current_workspace(environment),
            None => {}
        }
        return Ok(());
    }
    if let Verb::Workspace(WorkspaceArgs { verb: WorkspaceVerb::Move(verb) }) = verb {
        let to = resolve_workspace(&verb.to, environment);
        verb.from = former_workspace(&verb.from, to.starts_with('/'));
        verb.to = to;
        return Ok(());
    }
    let is_needed = match verb {
        Verb::Graph(_) | Verb::Handoff(_) => true,
        Verb::Memory(memory) => memory.session.is_none(),
        _ => false,
    };
    let place = match verb {
        Verb::Graph(verb) => &mut verb.workspace,
        Verb::Handoff(verb) => verb.workspace_mut(),
        Verb::Memory(verb) => &mut verb.workspace,
        Verb::Search(verb) => &mut verb.workspace,
        Verb::Erase(verb) => &mut verb.notebook,
        _ => return Ok(()),
    };
    match place {
        Some(text) => *text = resolve_workspace(text, environment),
        None if is_needed => {
            let missing = "this directory is no project: name the workspace";
            *place = Some(current_workspace(environment).ok_or_else(|| CliError::usage(missing))?);
        }
        None => {}
    }
    Ok(())
}
