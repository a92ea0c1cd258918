//! Work of a front end on the files of a workspace: it hashes those of a save and of a restore, and
//! calls the user's extractors. The owner does neither. It must not choose which files are saved or
//! restored.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;

use super::extract::{Extractor, FoundEntity};
use crate::{
    api::handoff::{LooksRequest, NewFile, RestoredAnswer},
    client::{Client, ClientError},
    env::file_check::{CheckRoots, FileCheck},
    secrets::Recogniser,
    verbs::{EntityPath, NoQuery, WorkspacePath, graph::PutEntity, handoff::RecordLooks},
    wire::handoff::{CheckedFile, hash_files, inspect_files},
};

/// Time limit of storing the entities of one extractor.
const STORE_PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of characters of a notice, which may quote a foreign server.
const NOTICE_CHARS: usize = 240;

/// The user's settings for local work.
#[derive(Clone)]
pub struct LocalSettings {
    /// Directories, in addition to the workspace's, whose files may be hashed.
    pub files_roots: Vec<PathBuf>,
    /// The worktree of the workspace that the front end works in, if any.
    pub worktree: Option<PathBuf>,
    /// Servers that extract entities from saved text.
    pub extractors: Vec<Extractor>,
    /// Rules for secrets that must not be sent.
    pub secrets: Arc<Recogniser>,
}

impl Default for LocalSettings {
    fn default() -> Self {
        let secrets = Arc::new(Recogniser::private_spans_only());
        Self { files_roots: Vec::new(), worktree: None, extractors: Vec::new(), secrets }
    }
}

impl fmt::Debug for LocalSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, extractors) = (&self.files_roots, &self.extractors);
        f.debug_tuple("Local").field(roots).field(extractors).finish()
    }
}

impl LocalSettings {
    /// Hashes each file of a save, if the workspace is the front end's own.
    pub fn hash_saved_files(&self, workspace: &str, is_own: bool, files: &mut [NewFile]) {
        if is_own {
            let directory = self.worktree.as_deref().unwrap_or(Path::new(workspace));
            let roots = CheckRoots::new(directory, &self.files_roots);
            self.rebase_files(files);
            hash_files(files, &mut |path| check_file(&roots, path));
        }
    }

    /// Replaces paths in the worktree with paths relative to the workspace.
    fn rebase_files(&self, files: &mut [NewFile]) {
        let Some(worktree) = &self.worktree else { return };
        for file in files {
            let inside = Path::new(&file.path).strip_prefix(worktree).ok();
            if let Some(inside) = inside.map(|inside| inside.display().to_string()) {
                file.path = inside;
            }
        }
    }

    /// Hashes the files of a restored session, and records the results in the session that
    /// continues it, else in the notebook of the workspace. Changes the answer only if they were
    /// recorded.
    ///
    /// # Errors
    /// Those of the call that records the results.
    pub async fn hash_restored_files(
        &self,
        client: &Client,
        is_own: bool,
        answer: &mut RestoredAnswer,
    ) -> Result<(), ClientError> {
        if !is_own {
            return Ok(());
        }
        let workspace = answer.workspace.clone();
        let session_id = answer.session_id.as_ref().map(ToString::to_string);
        let directory = self.worktree.as_deref().unwrap_or(Path::new(&workspace));
        let roots = CheckRoots::new(directory, &self.files_roots);
        let mut files = answer.file_references.clone();
        let looks = inspect_files(&mut files, &mut |path| check_file(&roots, path));
        if !looks.is_empty() {
            let (place, request) =
                (WorkspacePath { workspace }, LooksRequest { session_id, looks });
            client.call::<RecordLooks>(&place, &NoQuery {}, &request).await?;
        }
        answer.file_references = files;
        Ok(())
    }

    /// Calls the extractors with the text of a save, stores the entities found in the workspace's
    /// graph, and returns notices about the outcome.
    pub async fn extract(&self, client: &Client, workspace: &str, said: &[&str]) -> Vec<String> {
        let said = said.join("\n");
        if self.extractors.is_empty() || said.trim().is_empty() {
            return Vec::new();
        }
        let said = self.secrets.mask(&said);
        let answers = join_all(self.extractors.iter().map(|one| one.extract(&said))).await;
        let mut notices = Vec::new();
        for (extractor, answer) in self.extractors.iter().zip(answers) {
            let name = extractor.name();
            let said = match answer {
                Ok((found, left)) => {
                    let mut kept = StoredEntities::default();
                    let keeping = store_entities(client, workspace, found, &mut kept);
                    let is_late = tokio::time::timeout(STORE_PATIENCE, keeping).await.is_err();
                    let late = is_late.then(|| "the others took too long".to_owned());
                    let count = format!("{} entities kept", kept.count);
                    let said = [Some(count), left, kept.refused, late];
                    let said: Vec<String> = said.into_iter().flatten().collect();
                    format!("extractor {name}: {}", said.join("; "))
                }
                Err(why) => format!("extractor {name} is left out: {why}"),
            };
            let words: Vec<&str> = said.split_whitespace().collect();
            notices.push(words.join(" ").chars().take(NOTICE_CHARS).collect());
        }
        notices
    }
}

/// Outcome of storing entities.
#[derive(Default)]
struct StoredEntities {
    count: usize,
    /// Reason why the first of the other entities was not stored.
    refused: Option<String>,
}

/// Stores entities in the graph of a workspace. Stops if the owner cannot be reached.
async fn store_entities(
    client: &Client,
    workspace: &str,
    found: Vec<FoundEntity>,
    kept: &mut StoredEntities,
) {
    for FoundEntity { kind, id, request } in found {
        let place = EntityPath { workspace: workspace.to_owned(), kind, id };
        match client.call::<PutEntity>(&place, &NoQuery {}, &request).await {
            Ok(_) => kept.count += 1,
            Err(error) => {
                let why = format!("{} {:?}: {error}", place.kind, place.id);
                kept.refused.get_or_insert(why);
                if !matches!(error, ClientError::Refused(_)) {
                    return;
                }
            }
        }
    }
}

/// Checks a file: its hash, or why there is none.
fn check_file(roots: &CheckRoots, path: &str) -> CheckedFile {
    match roots.check_file(path) {
        FileCheck::Hash(hash) => CheckedFile::Hash(hash),
        FileCheck::NotHashed => CheckedFile::NotHashed,
        FileCheck::Gone => CheckedFile::Gone,
        FileCheck::Denied => CheckedFile::Denied,
    }
}
