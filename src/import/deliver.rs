//! Events of one conversation into their session: only those that are not there, in batches, each
//! durable before the next. It must not read lines.
//!
//! The id of an imported event names everything before it. So of the ids of a conversation those
//! that are known come first, and where they end is found by halving.

use serde_json::{Map, Value, json};

use super::{Draft, ImportError, openai::About};
use crate::{
    client::{Client, ClientError, Request, session_path},
    event::{SessionId, limits},
};

/// Times a part is tried again because another import of the same conversation went ahead.
const RACES_MAX: u32 = 5;
/// Room in a request for what is around the events.
const BATCH_BYTES: usize = limits::BATCH_BYTES_MAX - (64 << 10);
const TITLE_CHARS: usize = 80;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) added: u64,
    pub(super) known: u64,
}

pub(super) struct Delivery<'a> {
    client: &'a Client,
    session: SessionId,
    line: u64,
    /// Whether the session is there; `None` until asked.
    exists: Option<bool>,
    /// Whether an event was added: none after it can be known.
    adding: bool,
    title: Option<String>,
    metadata: Map<String, Value>,
}

/// Cuts events into what one batch may hold.
pub(super) fn parts(drafts: &[Draft]) -> Vec<&[Draft]> {
    let mut parts = Vec::new();
    let mut rest = drafts;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = rest
            .iter()
            .take(limits::BATCH_EVENTS_MAX)
            .take_while(|draft| {
                bytes += draft.text.len() + 1;
                bytes <= BATCH_BYTES
            })
            .count();
        // One event alone may be too large; the owner says so better than we could.
        let (part, after) = rest.split_at(fits.max(1));
        parts.push(part);
        rest = after;
    }
    if parts.is_empty() {
        parts.push(drafts);
    }
    parts
}

impl<'a> Delivery<'a> {
    pub(super) fn new(client: &'a Client, session: SessionId, line: u64) -> Self {
        Self {
            client,
            session,
            line,
            exists: None,
            adding: false,
            title: None,
            metadata: Map::new(),
        }
    }

    /// Says what a session created for this conversation is told about itself.
    pub(super) fn describe(&mut self, about: About, drafts: &[Draft]) {
        self.metadata =
            about.metadata().into_iter().map(|(k, v)| (k.to_owned(), Value::from(v))).collect();
        self.title = about.title.or_else(|| drafts.iter().find_map(first_words));
    }

    /// Appends what is not there of one part.
    pub(super) async fn deliver(&mut self, drafts: &[Draft]) -> Result<Done, ImportError> {
        for _ in 0..RACES_MAX {
            if !self.look().await? {
                match self.create(drafts).await {
                    Ok(()) => return Ok(Done { added: drafts.len() as u64, known: 0 }),
                    Err(error) if is(&error, "session_exists") => {
                        self.exists = None;
                        continue;
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            let known = if self.adding { 0 } else { self.known(drafts).await? };
            let new = drafts.get(known..).unwrap_or_default();
            match self.append(new).await {
                Err(error) if is(&error, "idempotency_conflict") && known < drafts.len() => {
                    // Somebody added some of them since we looked.
                    self.adding = false;
                }
                Err(error) => return Err(error.into()),
                Ok(()) => {
                    self.adding |= !new.is_empty();
                    return Ok(Done { added: new.len() as u64, known: known as u64 });
                }
            }
        }
        let other = "another import is writing to it; wait for it and import again".to_owned();
        Err(ImportError::Taken { line: self.line, session: self.session.clone(), other })
    }

    /// Whether the session is there; when it is, it must keep this conversation.
    async fn look(&mut self) -> Result<bool, ImportError> {
        if let Some(exists) = self.exists {
            return Ok(exists);
        }
        let found = match self.client.json(Request::get(session_path(&self.session, ""))).await {
            Err(error) if is(&error, "session_not_found") => {
                self.exists = Some(false);
                return Ok(false);
            }
            other => other?,
        };
        let metadata = found.get("metadata").cloned().unwrap_or_default();
        let stale: Map<String, Value> = self
            .metadata
            .iter()
            .filter(|(name, value)| metadata.get(name.as_str()) != Some(*value))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !stale.is_empty() {
            let change = json!({ "metadata": stale });
            self.client.json(Request::post(session_path(&self.session, "")).json(&change)).await?;
        }
        self.exists = Some(true);
        Ok(true)
    }

    async fn create(&mut self, drafts: &[Draft]) -> Result<(), ClientError> {
        let head = json!({
            "id": self.session.as_str(), "title": self.title, "metadata": self.metadata,
        });
        let mut body = head.to_string();
        body.pop();
        body.push_str(",\"initial_events\":");
        body.push_str(&array(drafts));
        body.push('}');
        self.client
            .send(from_here(Request::post("/v1/sessions")).body(body, "application/json"))
            .await?;
        self.exists = Some(true);
        self.adding = true;
        Ok(())
    }

    async fn append(&self, drafts: &[Draft]) -> Result<(), ClientError> {
        if drafts.is_empty() {
            return Ok(());
        }
        let body = format!("{{\"events\":{}}}", array(drafts));
        let request = from_here(Request::post(session_path(&self.session, "/events")));
        self.client.send(request.body(body, "application/json")).await?;
        Ok(())
    }

    /// How many of the first events are there.
    async fn known(&self, drafts: &[Draft]) -> Result<usize, ClientError> {
        match drafts.last() {
            None => return Ok(0),
            Some(last) if self.has(&last.id).await? => return Ok(drafts.len()),
            Some(_) => {}
        }
        let (mut known, mut unknown) = (0, drafts.len() - 1);
        while known < unknown {
            let middle = known.midpoint(unknown);
            match drafts.get(middle) {
                Some(draft) if self.has(&draft.id).await? => known = middle + 1,
                _ => unknown = middle,
            }
        }
        Ok(known)
    }

    async fn has(&self, id: &str) -> Result<bool, ClientError> {
        let request = Request::get(session_path(&self.session, "/events"))
            .query("from", format!("event:{id}"))
            .query("limit", 1);
        match self.client.send(request).await {
            Ok(_) => Ok(true),
            Err(error) if is(&error, "point_not_found") || is(&error, "event_not_found") => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
}

/// Says which door writes these events.
fn from_here(request: Request) -> Request {
    request.header("Sessionlog-Origin", "import")
}

fn is(error: &ClientError, code: &str) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.code == code)
}

fn array(drafts: &[Draft]) -> String {
    let texts: Vec<&str> = drafts.iter().map(|draft| draft.text.as_str()).collect();
    format!("[{}]", texts.join(","))
}

/// A title for people: how the user began.
fn first_words(draft: &Draft) -> Option<String> {
    let event: Value = serde_json::from_str(&draft.text).ok()?;
    if event.get("type")?.as_str()? != "user.message" {
        return None;
    }
    let content = event.get("content")?;
    let text = content.as_str().or_else(|| content.pointer("/0/text")?.as_str())?;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(line.chars().take(TITLE_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_to_the_limits_of_a_batch_and_to_the_order() {
        let draft = |length: usize| Draft { id: String::new(), text: "x".repeat(length) };
        for (drafts, expected) in [
            (vec![], vec![0]),
            (vec![draft(1); 1_000], vec![1_000]),
            (vec![draft(1); 2_001], vec![1_000, 1_000, 1]),
            (vec![draft(6 << 20); 5], vec![2, 2, 1]),
            (vec![draft(20 << 20), draft(1)], vec![1, 1]),
        ] {
            let sizes: Vec<usize> = parts(&drafts).iter().map(|part| part.len()).collect();
            assert_eq!(sizes, expected);
        }
    }
}
