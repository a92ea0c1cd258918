//! Session ids by prefix: a unique prefix stands for the id, and an error for an unknown id lists
//! similar ids; workspaces by the ends of their paths. It must not apply to a verb that creates the
//! session or the workspace it names.

use std::collections::BTreeSet;

use super::{
    args::Verb,
    failure::{CliError, Outcome},
    place::workspace_choice,
    sessions,
};
use crate::{
    client::{Client, ClientError, Refusal},
    event::SessionId,
    verbs::{NoQuery, SessionPath, sessions::GetSession},
    wire::edit_distance,
};

/// Maximum number of ids listed in an error.
const LISTED_MAX: usize = 5;
const NOT_FOUND: &str = "session_not_found";

/// Replaces a unique prefix in a verb's session by the id. Errors other than an unknown session are
/// left to the verb.
pub(super) async fn resolve_session(client: &Client, verb: &mut Verb) -> Outcome {
    match verb.session_mut() {
        Some(session) => resolve_prefix(client, session, false).await,
        None => Ok(()),
    }
}

/// Replaces the name of a workspace, the last components of its path, by that path.
pub(super) async fn resolve_workspace_name(client: &Client, verb: &mut Verb) -> Outcome {
    let name = workspace_choice(verb).and_then(|choice| choice.workspace.as_mut());
    let Some(name) = name.filter(|name| !name.starts_with('/')) else { return Ok(()) };
    let mut all = BTreeSet::new();
    sessions::for_each_session(client, true, |session| all.extend(session.workspace)).await?;
    if all.contains(name) {
        return Ok(());
    }
    let is_named = |workspace: &&String| {
        workspace.strip_suffix(name.as_str()).is_some_and(|rest| rest.ends_with('/'))
    };
    match all.iter().filter(is_named).collect::<Vec<_>>().as_slice() {
        [] => Err(CliError::invalid_request(
            format!("{name:?} is no directory here, and no session is of a workspace of that name"),
            "`sessionlog usage --all --by workspace` and `sessionlog sessions --all` show them",
        )),
        [one] => {
            name.clone_from(one);
            Ok(())
        }
        many => Err(CliError::usage(format!(
            "{name:?} is the name of {} workspaces: {}",
            many.len(),
            format_ids(many)
        ))),
    }
}

/// Replaces a unique prefix by the id; `appends` adds the advice to create the session.
pub(super) async fn resolve_prefix(
    client: &Client,
    session: &mut SessionId,
    appends: bool,
) -> Outcome {
    let place = SessionPath { session: session.clone() };
    let Err(error) = client.call::<GetSession>(&place, &NoQuery {}, &()).await else {
        return Ok(());
    };
    let refusal = match error {
        ClientError::Refused(refusal) if refusal.code == NOT_FOUND => refusal,
        _ => return Ok(()),
    };
    let mut all = Vec::new();
    if sessions::for_each_session(client, false, |session| all.push(session.id)).await.is_err() {
        all.clear();
    }
    let prefix = session.as_str();
    let candidates: Vec<&String> = all.iter().filter(|id| id.starts_with(prefix)).collect();
    match candidates.as_slice() {
        [] => Err(unknown_session_failure(*refusal, prefix, &all, appends)),
        [one] => {
            if let Ok(found) = SessionId::new(one) {
                *session = found;
            }
            Ok(())
        }
        many => Err(CliError::usage(format!(
            "{prefix:?} is the beginning of {} session ids: {}",
            many.len(),
            format_ids(many)
        ))),
    }
}

fn format_ids(ids: &[&String]) -> String {
    let mut text: Vec<&str> = ids.iter().take(LISTED_MAX).map(|id| id.as_str()).collect();
    let more = format!("and {} more", ids.len().saturating_sub(LISTED_MAX));
    if ids.len() > LISTED_MAX {
        text.push(&more);
    }
    text.join(", ")
}

fn unknown_session_failure(
    mut refusal: Refusal,
    asked: &str,
    all: &[String],
    appends: bool,
) -> CliError {
    let allowed = (asked.chars().count() / 3).clamp(1, 4);
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    let asked = letters(asked);
    let near = all.iter().map(|id| (edit_distance(&asked, &letters(id)), id));
    let mut near: Vec<_> = near.filter(|(far, _)| *far <= allowed).collect();
    near.sort_by_key(|(far, _)| *far);
    let near: Vec<&String> = near.into_iter().map(|(_, id)| id).take(3).collect();
    let mut action = match near.as_slice() {
        [] => "`sessionlog sessions` lists the sessions".to_owned(),
        near => format!("did you mean {}?", format_ids(near)),
    };
    if appends {
        action = format!("add --create to create it; {action}");
    }
    let message = refusal.message.clone();
    refusal.reword(message, Some(action));
    ClientError::Refused(Box::new(refusal)).into()
}
