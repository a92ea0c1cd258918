//! The input of a hook: one JSON object. Members that a client may leave out or add are optional.
//! It must not map an event to the log's types.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::{
    gate::{RecordingGate, WorkSession},
    lenient::{self, HookInput, LEVELS_MAX},
};
use crate::{
    event::{ContentId, EventId, HOOK_ID, SessionId, json, limits},
    secrets::{MaskingReport, Recogniser},
};

/// Reason for which an event cannot be recorded at all.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The input is not JSON.
    #[error("standard input is not a hook's event: {0}")]
    Json(#[from] serde_json::Error),
    /// A required member is missing.
    #[error("standard input is not a hook's event: it has no {0}")]
    Lacks(&'static str),
}

/// A hook's event.
#[derive(Clone, Debug)]
pub struct Payload {
    members: Map<String, Value>,
    session: SessionId,
    name: String,
    /// Kinds and numbers of the removed secrets.
    redactions: Option<Value>,
    /// Reason for which the input was read leniently.
    mended: Option<String>,
    /// The original length, if the input was cut.
    cut_from: Option<u64>,
}

/// Program that wrote an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookAgent {
    /// Claude Code, and programs with the same format.
    ClaudeCode,
    /// Codex.
    Codex,
}

impl HookAgent {
    /// Returns the name of the program in metadata.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }
}

const DEEP: &str = "it is nested deeper than the store takes";
const MANY: &str = "it has more values or levels than the store takes";

/// Reason for which the strict parser rejects an input.
#[derive(Debug, thiserror::Error)]
enum StrictError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("{DEEP}")]
    Deep,
    #[error("{MANY}")]
    Many,
}

/// Members that stay when the input and the result of a call are removed.
const OF_A_CALL: [&str; 13] = [
    "session_id",
    "hook_event_name",
    "transcript_path",
    "cwd",
    "permission_mode",
    "model",
    "turn_id",
    "prompt_id",
    "agent_id",
    "agent_type",
    "tool_name",
    "tool_use_id",
    "duration_ms",
];

/// Parses the text with its secrets removed.
fn parse_masked(
    text: &str,
    secrets: &Recogniser,
    report: &mut MaskingReport,
) -> Result<Value, StrictError> {
    let text = json::check(text).ok_or(StrictError::Many)?;
    // Invalid JSON is repaired before the slow secret rules run.
    let _: IgnoredAny = serde_json::from_str(text)?;
    let clean = secrets.mask_json(text, report);
    let value = serde_json::from_str(clean.as_deref().unwrap_or(text))?;
    let depth = json::measure(text.as_bytes(), usize::MAX).depth;
    if depth <= LEVELS_MAX { Ok(value) } else { Err(StrictError::Deep) }
}

impl Payload {
    /// Reads an event, with its secrets removed. Input that is not JSON but starts like an object
    /// is read as far as possible.
    ///
    /// # Errors
    /// [`PayloadError`].
    pub fn read(input: &HookInput, secrets: &Recogniser) -> Result<Self, PayloadError> {
        let text = String::from_utf8_lossy(&input.bytes);
        let mut report = MaskingReport::default();
        let (value, mended) = match parse_masked(&text, secrets, &mut report) {
            Ok(value) => {
                let foreign = matches!(text, Cow::Owned(_)).then(|| "it is not UTF-8".to_owned());
                (value, foreign)
            }
            Err(why) => {
                let Some(members) = lenient::parse_object(&text) else {
                    return Err(match why {
                        StrictError::Json(error) => error.into(),
                        StrictError::Deep | StrictError::Many => PayloadError::Lacks("members"),
                    });
                };
                let members = Value::Object(members).to_string();
                report = MaskingReport::default();
                let value = parse_masked(&members, secrets, &mut report);
                (value.map_err(|_| PayloadError::Lacks("members"))?, Some(why.to_string()))
            }
        };
        let is_cut = mended.is_some() || input.cut_from.is_some();
        let value = if is_cut { lenient::drop_cut_ends(value) } else { value };
        let redactions = serde_json::from_str(&report.to_json()).ok();
        let redactions = redactions.filter(|_| !report.is_empty());
        let Value::Object(members) = value else { return Err(PayloadError::Lacks("members")) };
        let text = |name: &'static str| {
            let text = members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or(PayloadError::Lacks(name))
        };
        let (name, session) = (text("hook_event_name")?.to_owned(), text("session_id")?);
        // An invalid session id is replaced with one derived from it.
        let session = SessionId::new(session)
            .or_else(|_| SessionId::new(&format!("hook-{}", blake3::hash(session.as_bytes()))));
        let session = session.map_err(|_| PayloadError::Lacks("session_id"))?;
        let long = mended.is_some() && input.bytes.len() > limits::EVENT_BYTES_MAX;
        let cut_from = input.cut_from.or_else(|| long.then_some(input.bytes.len() as u64));
        Ok(Self { members, session, name, redactions, mended, cut_from })
    }

    /// Returns the session and its directories: the program's directory, and the current one.
    #[must_use]
    pub fn work_session(&self, directory: Option<&str>) -> WorkSession {
        WorkSession::new(self.session.as_str(), directory.into_iter().chain(self.text("cwd")))
    }

    /// Removes input and result of a call that names an excluded path.
    #[must_use]
    pub fn without_excluded_input(mut self, gate: &RecordingGate) -> Self {
        let input = self.get("tool_input");
        if input.is_some() && gate.excludes_call(input, self.text("cwd")) {
            self.members.retain(|name, _| OF_A_CALL.contains(&name.as_str()));
            self.members.insert("withheld".to_owned(), "excluded".into());
            // Both may quote the withheld input.
            (self.redactions, self.mended) = (None, None);
        }
        self
    }

    /// Returns the current directory of the agent.
    #[must_use]
    pub fn directory(&self) -> Option<&str> {
        self.text("cwd")
    }

    /// Returns the agent's session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Returns the name of the event.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Returns the kinds and numbers of the removed secrets.
    pub(super) fn redactions(&self) -> Option<&Value> {
        self.redactions.as_ref()
    }

    /// Returns the reason for which the input was read leniently.
    pub(super) fn lenient_reason(&self) -> Option<&str> {
        self.mended.as_deref()
    }

    /// Returns the original length in bytes, if the input was cut.
    pub(super) fn cut_from(&self) -> Option<u64> {
        self.cut_from
    }

    /// Returns a member that is not null.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Returns a member that is a non-empty string.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns the program that wrote the event: Codex counts turns, Claude Code prompts.
    pub(super) fn agent(&self) -> HookAgent {
        let path = self.text("transcript_path").unwrap_or_default();
        let codex = self.get("turn_id").is_some() || path.contains("rollout-");
        if codex && self.get("prompt_id").is_none() {
            HookAgent::Codex
        } else {
            HookAgent::ClaudeCode
        }
    }

    /// Returns the id of log event number `part`. With an id of the program every report gets the
    /// same id (two settings files may both run this hook); otherwise it is derived from `salt`.
    pub(super) fn event_id(&self, salt: [u8; 16], part: usize) -> EventId {
        let own = match &*self.name {
            "UserPromptSubmit" => self.text("prompt_id").or(self.text("turn_id")),
            _ => self.text("tool_use_id"),
        };
        let mut hash = blake3::Hasher::new();
        let key = own.map_or(&salt[..], str::as_bytes);
        for piece in [self.session.as_str().as_bytes(), self.name.as_bytes(), key] {
            hash.update(&(piece.len() as u64).to_le_bytes()).update(piece);
        }
        if own.is_some() {
            // The same name with other members is another event.
            hash.update(Value::Object(self.members.clone()).to_string().as_bytes());
        }
        let hex = hash.finalize().to_hex();
        let hash = hex.get(..32).unwrap_or_default();
        let part = if part == 0 { String::new() } else { format!("-{part}") };
        let id = ContentId { name: HOOK_ID, hash, part: &part }.to_sent_id();
        EventId::new(&id).expect("letters, digits and lines alone")
    }
}
