//! What an agent's program writes to a hook: one JSON object. Members that a client may leave out
//! or add are never asked for. It must not know what an event means.

use serde_json::{Map, Value};

use crate::{
    event::{EventId, SessionId},
    secrets::{Recogniser, Report},
};

/// Bytes of an event at most; a tool's answer may be large.
pub const PAYLOAD_BYTES_MAX: u64 = 64 << 20;

/// Why an event cannot be recorded by anybody.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no JSON.
    #[error("standard input is not a hook's event: {0}")]
    Json(#[from] serde_json::Error),
    /// It is JSON without what every event has.
    #[error("standard input is not a hook's event: it has no {0}")]
    Lacks(&'static str),
}

/// A hook's event.
#[derive(Clone, Debug)]
pub struct Payload {
    members: Map<String, Value>,
    session: SessionId,
    name: String,
    /// Which secrets were taken out of it, and how many.
    redactions: Option<Value>,
}

/// Program that wrote an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Agent {
    /// Claude Code, and what writes as it does.
    ClaudeCode,
    /// Codex.
    Codex,
}

impl Agent {
    /// Its name in metadata.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    /// Its name for a person.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
        }
    }
}

impl Payload {
    /// Reads an event. The secrets that are known as such go before anybody sees one.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn read(bytes: &[u8], secrets: Option<&Recogniser>) -> Result<Self, Unreadable> {
        let text = String::from_utf8_lossy(bytes);
        let mut report = Report::default();
        let clean = secrets.and_then(|secrets| secrets.json(&text, &mut report));
        let value: Value = serde_json::from_str(clean.as_deref().unwrap_or(&text))?;
        let redactions = serde_json::from_str(&report.to_json()).ok();
        let redactions = redactions.filter(|_| !report.is_empty());
        let Value::Object(members) = value else { return Err(Unreadable::Lacks("members")) };
        let text = |name: &'static str| {
            let text = members.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            text.ok_or(Unreadable::Lacks(name))
        };
        let (name, session) = (text("hook_event_name")?.to_owned(), text("session_id")?);
        // A name that is none of ours stands for itself under another.
        let session = SessionId::new(session)
            .or_else(|_| SessionId::new(&format!("hook-{}", blake3::hash(session.as_bytes()))));
        let session = session.map_err(|_| Unreadable::Lacks("session_id"))?;
        Ok(Self { members, session, name, redactions })
    }

    /// The agent's session.
    #[must_use]
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// What happened.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Every member.
    pub(super) fn members(&self) -> &Map<String, Value> {
        &self.members
    }

    /// Which secrets were taken out of it, and how many.
    pub(super) fn redactions(&self) -> Option<&Value> {
        self.redactions.as_ref()
    }

    /// A member.
    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// A member that is text, and not empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    /// Who wrote it: Codex counts turns, Claude Code prompts.
    pub(super) fn agent(&self) -> Agent {
        let path = self.text("transcript_path").unwrap_or_default();
        let codex = self.get("turn_id").is_some() || path.contains("rollout-");
        if codex && self.get("prompt_id").is_none() { Agent::Codex } else { Agent::ClaudeCode }
    }

    /// Names of the events made of it. What the program names itself has one name however often it
    /// is told (two files of settings may both name us); anything else has a name by `salt`.
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
            // The same name for something else is something else.
            hash.update(Value::Object(self.members.clone()).to_string().as_bytes());
        }
        let hex = hash.finalize().to_hex();
        let name = hex.get(..32).unwrap_or_default();
        let part = if part == 0 { String::new() } else { format!("-{part}") };
        EventId::new(&format!("hook_{name}{part}")).expect("letters, digits and lines alone")
    }
}
