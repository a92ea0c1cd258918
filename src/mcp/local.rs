//! Work of a front end where the files of a workspace are: it looks at those of a save and of a
//! restore, and asks the extractors of its user. The owner does neither. It must not choose what is
//! saved or restored.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use futures_util::future::join_all;

use super::extract::{Extractor, Found};
use crate::{
    api::handoff::{LooksRequest, NewFile, RestoredAnswer},
    client::{Client, ClientError},
    env::look::{Roots, Seen},
    secrets::Recogniser,
    verbs::{AtEntity, InWorkspace, NoQuery, graph::PutEntity, handoff::RecordLooks},
    wire::handoff::{SeenFile, hash_files, look_at},
};

/// Time limit of keeping what one found.
const KEEP_MAX: Duration = Duration::from_secs(5);
/// Characters of a notice, of which a part may be a foreign server's words.
const NOTICE_CHARS: usize = 240;

/// Settings of the user for it.
#[derive(Clone)]
pub struct Local {
    /// Directories, beside that of a workspace, below which files are looked at.
    pub files_roots: Vec<PathBuf>,
    /// Directory of its own workspace's files: it works in a worktree of that.
    pub worktree: Option<PathBuf>,
    /// Servers that find entities in what is saved.
    pub extractors: Vec<Extractor>,
    /// Rules for secrets that must not leave.
    pub secrets: Arc<Recogniser>,
}

impl Default for Local {
    fn default() -> Self {
        let secrets = Arc::new(Recogniser::of_private_spans());
        Self { files_roots: Vec::new(), worktree: None, extractors: Vec::new(), secrets }
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (roots, extractors) = (&self.files_roots, &self.extractors);
        f.debug_tuple("Local").field(roots).field(extractors).finish()
    }
}

impl Local {
    /// Gives each file of a call that saves its hash. Nothing is looked at when the workspace is
    /// not the front end's own.
    pub fn hash(&self, workspace: &str, is_own: bool, files: &mut [NewFile]) {
        if is_own {
            let place = self.worktree.as_deref().unwrap_or(Path::new(workspace));
            let roots = Roots::new(place, &self.files_roots);
            self.place_files(files);
            hash_files(files, &mut |path| seen_file(&roots, path));
        }
    }

    /// Names the files of its worktree as those of the workspace, of which they are.
    fn place_files(&self, files: &mut [NewFile]) {
        let Some(worktree) = &self.worktree else { return };
        for file in files {
            let inside = Path::new(&file.path).strip_prefix(worktree).ok();
            if let Some(inside) = inside.map(|inside| inside.display().to_string()) {
                file.path = inside;
            }
        }
    }

    /// Looks at the files of a restored session, and records each look: in the session that
    /// continues it, else in the notebook of the workspace. A look that could not be recorded is
    /// in no answer.
    ///
    /// # Errors
    /// Those of the call that records.
    pub async fn look(
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
        let place = self.worktree.as_deref().unwrap_or(Path::new(&workspace));
        let roots = Roots::new(place, &self.files_roots);
        let mut files = answer.file_references.clone();
        let looks = look_at(&mut files, &mut |path| seen_file(&roots, path));
        if !looks.is_empty() {
            let (place, asked) = (InWorkspace { workspace }, LooksRequest { session_id, looks });
            client.call::<RecordLooks>(&place, &NoQuery {}, &asked).await?;
        }
        answer.file_references = files;
        Ok(())
    }

    /// Asks the extractors about what a call saved, keeps what they found as entities of the
    /// workspace, and returns what to know of it.
    pub async fn extract(&self, client: &Client, workspace: &str, said: &[&str]) -> Vec<String> {
        let said = said.join("\n");
        if self.extractors.is_empty() || said.trim().is_empty() {
            return Vec::new();
        }
        let said = self.secrets.masked(&said);
        let answers = join_all(self.extractors.iter().map(|one| one.ask(&said))).await;
        let mut notices = Vec::new();
        for (extractor, answer) in self.extractors.iter().zip(answers) {
            let name = extractor.name();
            let said = match answer {
                Ok((found, left)) => {
                    let mut kept = Kept::default();
                    let keeping = keep(client, workspace, found, &mut kept);
                    let is_late = tokio::time::timeout(KEEP_MAX, keeping).await.is_err();
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

/// Outcome for the entities that were found.
#[derive(Default)]
struct Kept {
    count: usize,
    /// Reason for which the first of the others is not kept.
    refused: Option<String>,
}

/// Keeps entities in the graph of a workspace. It ends where the owner cannot be reached.
async fn keep(client: &Client, workspace: &str, found: Vec<Found>, kept: &mut Kept) {
    for Found { kind, id, asked } in found {
        let place = AtEntity { workspace: workspace.to_owned(), kind, id };
        match client.call::<PutEntity>(&place, &NoQuery {}, &asked).await {
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

/// State of a file.
fn seen_file(roots: &Roots, path: &str) -> SeenFile {
    match roots.look(path) {
        Seen::Hash(hash) => SeenFile::Hash(hash),
        Seen::NotHashed => SeenFile::NotHashed,
        Seen::Gone => SeenFile::Gone,
        Seen::Denied => SeenFile::Denied,
    }
}
