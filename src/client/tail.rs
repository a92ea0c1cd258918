//! Follows a session: server-sent events, resumed at the next position after the owner goes away.
//! It must not buffer more than the event or the line being read.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::{
    Client, ClientError, HttpRequest, Refusal,
    request::{AttemptError, Backoff},
    session_path,
    sse::{SseEvent, SseEvents},
};
use crate::event::SessionId;

/// Maximum bytes of one line: the largest event, fully escaped, is shorter.
const LINE_BYTES_MAX: usize = 32 << 20;

/// An answer being received: server-sent events, lines, or bytes of announced length.
pub struct AnswerStream {
    response: reqwest::Response,
    buffer: BytesMut,
    /// Parser of events, and the parsed events not returned yet.
    events: SseEvents,
    read: VecDeque<SseEvent>,
    address: String,
}

impl AnswerStream {
    /// Returns the next event; `None` once the server ended the stream.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the connection broke, or an event is too long.
    pub async fn next(&mut self) -> Result<Option<SseEvent>, ClientError> {
        loop {
            match self.read.pop_front() {
                Some(event) if event.is_part => {
                    return Err(self.broken_stream("an event that is too long".to_owned()));
                }
                Some(event) if event.is_empty() => continue,
                Some(event) => return Ok(Some(event)),
                None => {}
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.read.extend(self.events.push(&chunk)),
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.broken_stream(error.to_string())),
            }
        }
    }

    /// Returns the next bytes unchanged, at least one and at most `bytes_max`; none at the end of
    /// the answer.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the connection broke.
    pub async fn next_bytes(&mut self, bytes_max: usize) -> Result<Bytes, ClientError> {
        while self.buffer.is_empty() {
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => return Ok(Bytes::new()),
                Err(error) => return Err(self.broken_stream(error.to_string())),
            }
        }
        Ok(self.buffer.split_to(self.buffer.len().min(bytes_max)).freeze())
    }

    /// Returns the next line, without its newline; `None` at the end of the answer.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] if the connection broke, or a line is too long.
    pub async fn next_line(&mut self) -> Result<Option<String>, ClientError> {
        let mut scanned = 0;
        loop {
            let unseen = self.buffer.get(scanned..).unwrap_or_default();
            if let Some(at) = unseen.iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(scanned + at + 1);
                let text = String::from_utf8_lossy(&line);
                return Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()));
            }
            scanned = self.buffer.len();
            if scanned > LINE_BYTES_MAX {
                return Err(
                    self.broken_stream(format!("a line of more than {LINE_BYTES_MAX} bytes"))
                );
            }
            match self.response.chunk().await {
                Ok(Some(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Err(self.broken_stream(error.to_string())),
            }
        }
    }

    fn broken_stream(&self, reason: String) -> ClientError {
        ClientError::Unreachable { address: self.address.clone(), reason }
    }
}

/// Item that a follower of a session receives, each as JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailItem {
    /// An event.
    Event(String),
    /// A range of events that are lost permanently.
    Gap(String),
}

impl TailItem {
    /// Returns the JSON text.
    #[must_use]
    pub fn text(&self) -> &str {
        let (Self::Event(text) | Self::Gap(text)) = self;
        text
    }
}

/// A session followed from a position on: every event once, in order, through crashes and
/// replacements of the owner.
pub struct SessionTail {
    client: Client,
    session: SessionId,
    types: Vec<String>,
    next: u64,
    stream: Option<AnswerStream>,
    backoff: Backoff,
}

impl Client {
    /// Opens a stream of server-sent events, repeating the attempt as [`Client::send`] does.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn stream(&self, request: &HttpRequest) -> Result<AnswerStream, ClientError> {
        let mut backoff = self.backoff();
        loop {
            let failure = match self.open_stream(request).await {
                Ok(stream) => return Ok(stream),
                Err(AttemptError::Final(error)) => return Err(error),
                Err(AttemptError::Again(error)) => error,
            };
            self.inner.owner_fits.store(false, std::sync::atomic::Ordering::Release);
            if !backoff.wait().await {
                return Err(failure);
            }
        }
    }

    async fn open_stream(&self, request: &HttpRequest) -> Result<AnswerStream, AttemptError> {
        self.find_owner().await?;
        let response = self.receive_head(request).await?;
        let status = response.status().as_u16();
        if status != 200 {
            let body: Bytes = response.bytes().await.map_err(|error| self.classify_lost(&error))?;
            self.classify_answer(status, body)?;
            let reason = format!("HTTP status {status} where a stream was asked for");
            let error = ClientError::Foreign { address: self.address(), reason };
            return Err(AttemptError::Final(error));
        }
        let (buffer, events, read) = (BytesMut::new(), SseEvents::default(), VecDeque::new());
        Ok(AnswerStream { response, buffer, events, read, address: self.address() })
    }

    /// Follows a session from a point on (its tail if `None`).
    ///
    /// # Errors
    /// [`ClientError`]: an unknown session, a point that does not exist.
    pub async fn tail(
        &self,
        session: &SessionId,
        from: Option<&str>,
        types: &[String],
    ) -> Result<SessionTail, ClientError> {
        // The point is resolved once, so that a resumed stream continues at the same position.
        let request = HttpRequest::get(session_path(session, "/events"))
            .query("from", from.unwrap_or("end"))
            .query("limit", 1);
        let slice = self.json(request).await?;
        let first = slice.pointer("/data/0/position").and_then(Value::as_u64);
        let lost = slice.pointer("/gaps/0/from").and_then(Value::as_u64);
        let next = first.into_iter().chain(lost).min();
        let next = next.or_else(|| slice.get("next_position").and_then(Value::as_u64));
        Ok(SessionTail {
            client: self.clone(),
            session: session.clone(),
            types: types.to_vec(),
            next: next.unwrap_or(0),
            stream: None,
            backoff: self.backoff(),
        })
    }
}

impl SessionTail {
    /// Waits for the next event or gap, and returns it.
    ///
    /// # Errors
    /// [`ClientError`] if the session cannot be followed any more.
    pub async fn next(&mut self) -> Result<TailItem, ClientError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    let mut request =
                        HttpRequest::get(session_path(&self.session, "/events/stream"))
                            .query("from", self.next);
                    for kind in &self.types {
                        request = request.query("types[]", kind);
                    }
                    none.insert(self.client.stream(&request).await?)
                }
            };
            match stream.next().await {
                Ok(Some(event)) => {
                    self.backoff = self.client.backoff();
                    if let Some(item) = self.read_item(event)? {
                        return Ok(item);
                    }
                }
                Ok(None) => self.reopen(None).await?,
                Err(error) => self.reopen(Some(error)).await?,
            }
        }
    }

    /// Returns the position after the last event returned.
    #[must_use]
    pub fn next_position(&self) -> u64 {
        self.next
    }

    async fn reopen(&mut self, error: Option<ClientError>) -> Result<(), ClientError> {
        self.stream = None;
        if self.backoff.wait().await {
            return Ok(());
        }
        Err(error.unwrap_or_else(|| ClientError::Unreachable {
            address: self.client.address(),
            reason: "the stream ends as soon as it begins".to_owned(),
        }))
    }

    /// Returns the session's event in a server-sent one; heartbeats and farewells hold none.
    fn read_item(&mut self, event: SseEvent) -> Result<Option<TailItem>, ClientError> {
        if event.name == "gap" {
            let gap: Value = serde_json::from_str(&event.data).unwrap_or_default();
            let end = gap.get("to").and_then(Value::as_u64).unwrap_or_default();
            let is_news = end > self.next;
            self.next = self.next.max(end);
            return Ok(is_news.then_some(TailItem::Gap(event.data)));
        }
        let Some(position) = event.id.as_deref().and_then(|id| id.parse::<u64>().ok()) else {
            return match (event.name.as_str(), Refusal::parse(0, event.data.as_bytes())) {
                ("error", Some(refusal)) => Err(ClientError::Refused(Box::new(refusal))),
                _ => Ok(None),
            };
        };
        if position < self.next {
            return Ok(None);
        }
        self.next = position + 1;
        Ok(Some(TailItem::Event(event.data)))
    }
}
