//! Rules against recording: directories that the user excludes, and times while recording is off or
//! paused. Every recorder of other programs passes this one gate. It must not depend on the content
//! recorded, and if it cannot decide it refuses.
//!
//! The list of pauses is a JSON file in the user's state directory, so that it applies to every
//! store and while no owner runs: `[{"why", "from", "to"?, "directory"?, "session"?}]`, times in
//! microseconds since 1970. A pause without a session was set by the user. A refused event adds one
//! for its session, until the user's pause is over or the next event is admitted: the transcript's
//! lines of that time are not read later either.

use std::{
    io,
    path::{Path, PathBuf},
};

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    env::files,
    event::{Timestamp, kinds},
};

/// Maximum number of stored pauses; beyond it the oldest of a session or with an end is removed.
const PAUSES_MAX: usize = 256;
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of strings of a call examined, of words of a command line, and of bytes of a
/// string that may be a path.
const STRINGS_MAX: usize = 10_000;
const WORDS_MAX: usize = 100_000;
const PATH_BYTES_MAX: usize = 4_096;
/// Members of a call that hold a command line.
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];

/// Reason for which an event is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseReason {
    /// The user paused recording.
    Paused,
    /// The setting `record` is off.
    Off,
    /// The directory is excluded.
    Excluded,
}

/// A time range in which nothing is recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The reason.
    pub why: PauseReason,
    from: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<i64>,
    /// The only directory that the pause applies to, with all below it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The only session that the pause applies to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

impl Pause {
    /// Returns the start of the pause.
    #[must_use]
    pub fn from(&self) -> Timestamp {
        Timestamp(self.from)
    }

    /// Returns the end of the pause; `None` if it is not set yet.
    #[must_use]
    pub fn to(&self) -> Option<Timestamp> {
        self.to.map(Timestamp)
    }

    fn is_active_at(&self, at: Timestamp) -> bool {
        self.from <= at.0 && self.to.is_none_or(|to| at.0 < to)
    }

    fn applies_to(&self, who: &WorkSession) -> bool {
        let session = self.session.as_ref().is_none_or(|own| *own == who.session);
        let inside = |directory: &PathBuf| who.directories.iter().any(|d| d.starts_with(directory));
        session && self.directory.as_ref().is_none_or(inside)
    }

    /// Returns the event that reports the pause once it is over.
    #[must_use]
    pub fn gap_event(&self, at: Timestamp) -> Value {
        let why = match self.why {
            PauseReason::Paused => "recording was paused",
            PauseReason::Off => "recording was off",
            PauseReason::Excluded => "the directory was excluded",
        };
        let end = self.to().unwrap_or(at);
        let session = self.session.as_deref().unwrap_or_default();
        let id = blake3::hash(format!("gap {session} {} {}", self.from, end.0).as_bytes());
        json!({
            "id": format!("hook_{:.32}", id.to_hex()),
            "type": kinds::SESSION_ERROR,
            "created_at": at.to_string(),
            "error": {
                "type": "recording_gap", "why": self.why,
                "message": format!("nothing was recorded for a while: {why}"),
                "from": self.from().to_string(), "to": end.to_string(),
            },
        })
    }
}

/// Session and directories of the work.
#[derive(Clone, Debug)]
pub struct WorkSession {
    session: String,
    /// Directories of the work, as named and with links resolved.
    directories: Vec<PathBuf>,
}

impl WorkSession {
    /// Creates the value from a session and its directories.
    #[must_use]
    pub fn new<'a>(session: &str, directories: impl IntoIterator<Item = &'a str>) -> Self {
        let both = |path: &str| {
            let path = PathBuf::from(path);
            [files::canonicalize(&path).ok(), Some(path)]
        };
        let directories = directories.into_iter().flat_map(both).flatten().collect();
        Self { session: session.to_owned(), directories }
    }
}

/// Decision on recording an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The event must not be recorded.
    Refused,
    /// The event may be recorded; holds the pause before it, if this event ended one.
    Admitted(Option<Pause>),
}

/// Error in the exclude setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{glob:?} cannot be used: {problem}")]
pub struct GlobError {
    glob: String,
    problem: &'static str,
}

/// Decides which events may be recorded.
#[derive(Clone, Debug)]
pub struct RecordingGate {
    on: bool,
    exclude: Vec<Regex>,
    home: Option<PathBuf>,
    /// The list of pauses; `None` without a state directory.
    file: Option<PathBuf>,
}

impl RecordingGate {
    /// Creates a gate that, if `on`, admits all that no glob matches. Globs are separated by commas
    /// and may have `~`, `*`, `?` and `**`; a relative one matches at any depth, and each also
    /// matches all below it.
    ///
    /// # Errors
    /// [`GlobError`] for a glob that uses `~` without a home directory, or that is too long.
    pub fn new(
        on: bool,
        exclude: &str,
        home: Option<PathBuf>,
        file: Option<PathBuf>,
    ) -> Result<Self, GlobError> {
        let globs = exclude.split(',').map(str::trim).filter(|glob| !glob.is_empty());
        let globs: Vec<String> =
            globs.map(|glob| expand_home(glob, home.as_deref())).collect::<Result<_, _>>()?;
        let links = globs.iter().filter_map(|glob| resolve_links(glob));
        let exclude = globs.iter().cloned().chain(links).map(|glob| compile_glob(&glob));
        Ok(Self { on, exclude: exclude.collect::<Result<_, _>>()?, home, file })
    }

    /// Returns a gate that admits nothing.
    #[must_use]
    pub fn new_closed() -> Self {
        Self { on: false, exclude: Vec::new(), home: None, file: None }
    }

    /// Returns true if recording is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Returns the path of the list of pauses.
    #[must_use]
    pub fn pauses_path(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads all pauses, the oldest first.
    ///
    /// # Errors
    /// The error of the file system; `InvalidData` for a file that is not a list of pauses.
    pub fn read_pauses(&self) -> io::Result<Vec<Pause>> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        match files::read(file, FILE_BYTES_MAX) {
            Err(error) if files::is_absent(&error) => Ok(Vec::new()),
            bytes => serde_json::from_slice(&bytes?)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
        }
    }

    /// Returns the user's pauses that are active at a time.
    ///
    /// # Errors
    /// Those of [`Self::read_pauses`].
    pub fn active_pauses(&self, at: Timestamp) -> io::Result<Vec<Pause>> {
        let pauses = self.read_pauses()?.into_iter();
        Ok(pauses.filter(|pause| pause.session.is_none() && pause.is_active_at(at)).collect())
    }

    /// Starts a pause, of one directory or of all.
    ///
    /// # Errors
    /// The error of the file system; `NotFound` without a state directory.
    pub fn pause(
        &self,
        directory: Option<PathBuf>,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> io::Result<()> {
        let to = to.map(|to| to.0);
        let pause = Pause { why: PauseReason::Paused, from: from.0, to, directory, session: None };
        self.update_pauses(|pauses| pauses.push(pause))
    }

    /// Ends the pauses of a directory, or all; returns their number.
    ///
    /// # Errors
    /// Those of [`Self::pause`].
    pub fn unpause(&self, directory: Option<&Path>, at: Timestamp) -> io::Result<usize> {
        let is_meant = |pause: &&mut Pause| {
            let own = directory.is_none_or(|one| pause.directory.as_deref() == Some(one));
            own && pause.session.is_none() && pause.is_active_at(at)
        };
        self.update_pauses(|pauses| {
            let ended = pauses.iter_mut().filter(is_meant);
            ended.map(|pause| pause.to = Some(at.0)).count()
        })
    }

    /// Changes the list under its file lock.
    fn update_pauses<T>(&self, change: impl FnOnce(&mut Vec<Pause>) -> T) -> io::Result<T> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        if let Some(directory) = file.parent() {
            files::create_dir(directory)?;
        }
        let _locked = files::acquire_file_lock(file)?;
        let mut pauses = self.read_pauses()?;
        let changed = change(&mut pauses);
        while pauses.len() > PAUSES_MAX {
            let is_over = |pause: &Pause| pause.session.is_some() || pause.to.is_some();
            let Some(oldest) = pauses.iter().position(is_over) else { break };
            pauses.remove(oldest);
        }
        let bytes = serde_json::to_vec(&pauses).map_err(io::Error::other)?;
        files::replace(file, &bytes, 0o600)?;
        Ok(changed)
    }

    /// Decides if an event of a session may be recorded. The first refused event starts a pause of
    /// the session, the next admitted one ends it.
    #[must_use]
    pub fn admit(&self, who: &WorkSession, at: Timestamp) -> Admission {
        let Ok(pauses) = self.read_pauses() else { return Admission::Refused };
        let is_own = |pause: &Pause| pause.session.is_some() && pause.applies_to(who);
        let is_open = pauses.iter().any(|pause| is_own(pause) && pause.to.is_none());
        let by_person = |pause: &&Pause| pause.session.is_none() && pause.applies_to(who);
        let paused = pauses.iter().filter(by_person).find(|pause| pause.is_active_at(at));
        let refused = match paused {
            Some(pause) => Some((PauseReason::Paused, pause.from)),
            None if !self.on => Some((PauseReason::Off, at.0)),
            None => {
                let excluded = who.directories.iter().any(|path| self.is_excluded(path));
                excluded.then_some((PauseReason::Excluded, at.0))
            }
        };
        match refused {
            None if !is_open => Admission::Admitted(None),
            None => {
                // One of several concurrent hooks ends it. If none can, its range stays unrecorded.
                let over = |one: &Pause| one.to.filter(|to| by_person(&one) && *to <= at.0);
                let over = pauses.iter().filter_map(over).max();
                let ended = self.update_pauses(|pauses| {
                    let pause = pauses.iter_mut().find(|one| is_own(one) && one.to.is_none())?;
                    // The session's pause ends with the user's pause, not only at the next event.
                    let over =
                        over.filter(|to| pause.why == PauseReason::Paused && pause.from < *to);
                    pause.to = Some(over.unwrap_or(at.0));
                    Some(pause.clone())
                });
                Admission::Admitted(ended.ok().flatten())
            }
            Some(_) if is_open => Admission::Refused,
            Some((why, from)) => {
                let session = Some(who.session.clone());
                let pause = Pause { why, from, to: None, directory: None, session };
                // The event stays refused if the pause cannot be written.
                let _ = self.update_pauses(|pauses| {
                    if !pauses.iter().any(|one| is_own(one) && one.to.is_none()) {
                        pauses.push(pause);
                    }
                });
                Admission::Refused
            }
        }
    }

    /// Returns a filter for the lines of a session's transcript, by time and directory. A line
    /// without a time is not read if the session had a pause.
    pub fn transcript_filter(
        &self,
        who: &WorkSession,
    ) -> impl Fn(Option<Timestamp>, Option<&str>) -> bool + use<> {
        let gate = self.clone();
        let pauses = self.read_pauses().map(|pauses| {
            let own = pauses.into_iter().filter(|pause| pause.applies_to(who));
            own.collect::<Vec<Pause>>()
        });
        move |at, directory| {
            let Ok(pauses) = &pauses else { return false };
            let paused = match at {
                Some(at) => pauses.iter().any(|pause| pause.is_active_at(at)),
                None => !pauses.is_empty(),
            };
            !paused && !directory.is_some_and(|path| gate.is_excluded(Path::new(path)))
        }
    }

    /// Returns true if a path, or a directory above it, is excluded.
    fn is_excluded(&self, path: &Path) -> bool {
        let text = path.to_string_lossy();
        self.exclude.iter().any(|glob| glob.is_match(&text))
    }

    /// Returns true if the input of a call names an excluded path: as one of its strings, or as a
    /// word of a command line. A path that a command computes is not recognised. An input that
    /// cannot be examined counts as naming one.
    #[must_use]
    pub fn excludes_call(&self, input: Option<&Value>, directory: Option<&str>) -> bool {
        if self.exclude.is_empty() {
            return false;
        }
        let Some(input) = input else { return true };
        if directory.is_some_and(|path| self.is_excluded(Path::new(path))) {
            return true;
        }
        let mut left = vec![(input, false)];
        let mut strings = 0;
        while let Some((value, is_command)) = left.pop() {
            match value {
                Value::String(text) => {
                    strings += 1;
                    // Beyond the limit, the input cannot be examined.
                    if strings > STRINGS_MAX
                        || self.names_excluded_path(text, is_command, directory)
                    {
                        return true;
                    }
                }
                Value::Array(values) => left.extend(values.iter().map(|one| (one, is_command))),
                Value::Object(members) => {
                    left.extend(members.iter().map(|(name, value)| {
                        (value, is_command || COMMANDS.contains(&name.as_str()))
                    }))
                }
                _ => {}
            }
        }
        false
    }

    fn names_excluded_path(&self, text: &str, is_command: bool, directory: Option<&str>) -> bool {
        const QUOTES: [char; 3] = ['\'', '"', '`'];
        let is_path = |text: &str| self.is_excluded_path(text, directory);
        if is_path(text) {
            return true;
        }
        if !is_command {
            return false;
        }
        let home = self.home.as_ref().map(|home| home.display().to_string());
        let text = match &home {
            Some(home) => text.replace("${HOME}", home).replace("$HOME", home),
            None => text.to_owned(),
        };
        let ends = |c: char| c.is_whitespace() || QUOTES.contains(&c) || "=:;|&<>(),{}".contains(c);
        let mut words = text.split(QUOTES).chain(text.split(ends)).filter(|word| !word.is_empty());
        words.by_ref().take(WORDS_MAX).any(is_path) || words.next().is_some()
    }

    fn is_excluded_path(&self, text: &str, directory: Option<&str>) -> bool {
        if text.is_empty() || text.len() > PATH_BYTES_MAX || text.contains('\0') {
            return false;
        }
        let path = match (text.strip_prefix('~'), &self.home) {
            (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
                home.join(rest.trim_start_matches('/'))
            }
            _ => Path::new(text.strip_prefix("file://").unwrap_or(text)).to_path_buf(),
        };
        let path =
            files::remove_dots(&directory.map_or_else(PathBuf::new, PathBuf::from).join(path));
        self.is_excluded(&path)
            || files::canonicalize(&path).is_ok_and(|path| self.is_excluded(&path))
    }
}

/// Replaces `~` in a glob with the home directory.
fn expand_home(glob: &str, home: Option<&Path>) -> Result<String, GlobError> {
    let problem = "there is no home directory";
    let no_home = || GlobError { glob: glob.to_owned(), problem };
    match glob.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            Ok(format!("{}{rest}", home.ok_or_else(no_home)?.display()))
        }
        _ => Ok(glob.to_owned()),
    }
}

/// Resolves the links in a glob's literal prefix; `None` if that changes nothing.
fn resolve_links(glob: &str) -> Option<String> {
    let wild = glob.find(['*', '?']).unwrap_or(glob.len());
    let plain = glob.get(..wild).filter(|plain| plain.starts_with('/'))?;
    let (there, rest) = match wild == glob.len() {
        true => (plain, ""),
        false => {
            let there = plain.rsplit_once('/')?.0;
            (there, glob.get(there.len()..).unwrap_or_default())
        }
    };
    let found = files::resolve(Path::new(there)).ok()?.display().to_string();
    Some(format!("{found}{rest}")).filter(|other| other != glob)
}

/// Compiles a glob to a regular expression.
fn compile_glob(glob: &str) -> Result<Regex, GlobError> {
    let is_absolute = glob.starts_with('/');
    // A directory's content is excluded with it.
    let mut rest = glob.trim_end_matches("/**").trim_end_matches('/');
    let mut body = if is_absolute { String::new() } else { "(?:.*/)?".to_owned() };
    while let Some(next) = rest.chars().next() {
        let (part, length) = match next {
            '/' if rest.starts_with("/**/") => ("(?:/|/.*/)".to_owned(), 4),
            '*' if rest.starts_with("**") => (".*".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            other => (regex::escape(other.encode_utf8(&mut [0; 4])), other.len_utf8()),
        };
        body.push_str(&part);
        rest = rest.get(length..).unwrap_or_default();
    }
    let wrong = |_| GlobError { glob: glob.to_owned(), problem: "it is too long" };
    Regex::new(&format!("(?s)^{body}(?:/.*)?$")).map_err(wrong)
}
