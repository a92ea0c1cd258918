//! Finds the sessions that changed a file, with the user requests that led to the changes; reads
//! the newest sessions of the file's workspace. It must not guess: a change that no recorded call
//! names is not shown.

use std::{
    collections::{HashSet, VecDeque},
    path::{Path, PathBuf},
};

use super::{
    Caller, Service, ServiceError, ServiceResult, folds::SLICE_BYTES, memory_budget,
    notebook::exclude_notebooks,
};
use crate::{
    api::changes::{FileChange, FileChanges, FileChangesQuery, RequestLine, SessionChanges},
    env::files,
    event::{Position, Range, SessionId, Timestamp, limits, push_bounded},
    projection::{Edit, Edits, Outline},
    store::{Criterion, Listing, SessionInfo},
};

/// Maximum number of sessions examined, newest first.
const SESSIONS_MAX: usize = 200;
/// Default and maximum number of changes in a response.
const CHANGES_DEFAULT: usize = 100;
const CHANGES_MAX: usize = 1_000;
/// Maximum bytes of a path: no operating system has longer ones.
const PATH_BYTES_MAX: usize = 4096;
/// Maximum number of events in memory at once; other tasks run between slices.
const SLICE_EVENTS: usize = 1_000;

impl Service {
    /// Returns the changes of a file, grouped by session.
    ///
    /// # Errors
    /// `invalid_request` for a relative path or a limit out of bounds, and those of the engine. A
    /// session that was deleted meanwhile or is damaged is omitted.
    pub async fn file_changes(
        &self,
        caller: &Caller,
        query: FileChangesQuery,
    ) -> ServiceResult<FileChanges> {
        let limit = query.limit.unwrap_or(CHANGES_DEFAULT);
        if limit == 0 || limit > CHANGES_MAX {
            let problem = format!("from 1 to {CHANGES_MAX}, not {limit}");
            return Err(ServiceError::invalid("limit", problem));
        }
        let mut files = vec![parse_absolute("file", &query.file)?];
        files.extend(query.also.as_deref().map(|path| parse_absolute("also", path)).transpose()?);
        // A session's workspace is its repository, so only workspaces above the file can match.
        let above = files.iter().flat_map(|file| file.ancestors().skip(1));
        let spellings =
            above.flat_map(|path| [format!("{}", path.display()), format!("{}/", path.display())]);
        let named = spellings.filter(|name| name.chars().count() <= limits::WORKSPACE_CHARS_MAX);
        let named = named.map(|name| Criterion::Workspace(Some(name)));
        let workspaces = named.chain([Criterion::Workspace(None)]).collect();
        let listing = Listing {
            limit: SESSIONS_MAX,
            include_archived: true,
            only: Some(Criterion::All(vec![exclude_notebooks(), Criterion::Any(workspaces)])),
            ..Listing::default()
        };
        let listed = self.store.list(&caller.scope, listing).await?;
        let held = memory_budget::HELD_FOR_A_BYTE * SLICE_BYTES;
        let _memory = self.reserve_memory(&caller.scope.tenant, held).await?;
        let mut answer =
            FileChanges { file: query.file, data: Vec::new(), complete: listed.next.is_none() };
        let mut spelled = Vec::new();
        let listed_ids: HashSet<SessionId> =
            listed.sessions.iter().map(|info| info.key.session.clone()).collect();
        let mut left = limit;
        for info in listed.sessions {
            if left == 0 {
                answer.complete = false;
                break;
            }
            // The changes that a fork inherits are its parent's, where that is listed too.
            let parent = info.forked_from.as_ref();
            let parent = parent.filter(|parent| listed_ids.contains(&parent.session));
            let own = parent.map_or(Position::ZERO, |parent| parent.at);
            let changes = match self.read_changes(&info, own, &files, left).await {
                Ok((changes, is_complete)) => {
                    answer.complete &= is_complete;
                    changes
                }
                Err(error) if error.code.is_gone() || error.code.has_lost_events() => {
                    answer.complete = false;
                    continue;
                }
                Err(error) => return Err(error),
            };
            left -= changes.len();
            if !changes.is_empty() {
                let (are_exact, changes) = changes.into_iter().unzip();
                spelled.push(are_exact);
                answer.data.push(to_session_changes(self.with_title(info).await, changes));
            }
        }
        keep_exact(&mut answer.data, spelled);
        Ok(answer)
    }

    /// Returns the latest `limit` changes of a file in one session from `own` on, each with true if
    /// its path is spelled as wanted; false if there are more, or if events are lost.
    async fn read_changes(
        &self,
        info: &SessionInfo,
        own: Position,
        files: &[PathBuf],
        limit: usize,
    ) -> ServiceResult<(Vec<(bool, FileChange)>, bool)> {
        let withdrawn = |_: &SessionInfo, outline: &Outline| outline.withdrawn().clone();
        let withdrawn = self.peek_fold(&info.key, |cached| &mut cached.outline, withdrawn).await?;
        let mut fold = Edits::new(withdrawn);
        let tenant = &info.key.scope.tenant;
        let mut slot = self.compute.acquire(tenant).await?;
        let (mut found, mut from) = (VecDeque::new(), Position::ZERO);
        let mut is_complete = true;
        while from < info.tail {
            let range = Range::new(from, info.tail);
            let slice = self.read_slice(&info.key, range, SLICE_EVENTS).await?;
            is_complete &= slice.gaps.is_empty();
            if slice.covered.is_empty() {
                is_complete = false;
                break;
            }
            from = slice.covered.to;
            let (files, workspace) = (files.to_vec(), info.workspace.clone());
            let add = move || {
                for event in &slice.events {
                    let edits = fold.fold(event).into_iter();
                    for edit in edits.filter(|edit| edit.position >= own) {
                        let root = fold.root().or(workspace.as_deref()).unwrap_or_default();
                        let path = files::remove_dots(&Path::new(root).join(&*edit.path));
                        let is_exact = files.contains(&path);
                        if is_exact || files.iter().any(|file| is_lower_case_of(file, &path)) {
                            let change = to_file_change(edit, event.happened_at());
                            is_complete &= !push_bounded(&mut found, (is_exact, change), limit);
                        }
                    }
                }
                (fold, found, is_complete)
            };
            (slot, (fold, found, is_complete)) = slot.run(add).await?;
            slot = slot.yield_if_due().await?;
        }
        Ok((found.into(), is_complete))
    }
}

/// Returns true if a path is another's in lower case, as the index of entities names files.
fn is_lower_case_of(lower: &Path, path: &Path) -> bool {
    lower.to_str().zip(path.to_str()).is_some_and(|(lower, path)| path.to_lowercase() == lower)
}

/// Removes what is spelled in another case if anything is spelled as wanted: it is another file.
fn keep_exact(data: &mut Vec<SessionChanges>, spelled: Vec<Vec<bool>>) {
    if !spelled.iter().flatten().any(|is_exact| *is_exact) {
        return;
    }
    for (session, are_exact) in data.iter_mut().zip(spelled) {
        let mut are_exact = are_exact.into_iter();
        session.changes.retain(|_| are_exact.next().unwrap_or(true));
    }
    data.retain(|session| !session.changes.is_empty());
}

fn to_session_changes(info: SessionInfo, changes: Vec<FileChange>) -> SessionChanges {
    SessionChanges {
        session: info.key.session.to_string(),
        updated_at: info.worked_at().to_string(),
        title: info.title,
        workspace: info.workspace,
        changes,
    }
}

fn to_file_change(edit: Edit, at: Timestamp) -> FileChange {
    let asked = edit.asked.map(|(position, text)| RequestLine { position, text: text.into() });
    let (how, tool) = (edit.how.to_owned(), edit.tool.into());
    FileChange { position: edit.position, how, tool, at, asked }
}

fn parse_absolute(name: &str, path: &str) -> ServiceResult<PathBuf> {
    if path.len() > PATH_BYTES_MAX {
        let problem = format!("a path has at most {PATH_BYTES_MAX} bytes");
        return Err(ServiceError::invalid(name, problem));
    }
    let path = files::remove_dots(Path::new(path));
    if !path.has_root() {
        return Err(ServiceError::invalid(name, "it is not an absolute path")
            .action("send the path from the root of the file system on"));
    }
    Ok(path)
}
