//! One call: built, sent, repeated while that can help, and its answer read. It must not interpret
//! an answer beyond success and refusal.

use std::{pin::Pin, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, header::CONTENT_TYPE};
use serde_json::Value;
use tokio::time::{Sleep, sleep};

use super::{Client, ClientError, IDEMPOTENCY_KEY, Refusal, Target, error::OUTCOME_UNKNOWN};
use crate::{
    api::sessions::SessionDeleted,
    event::SessionId,
    verbs::{Verb as _, sessions::Delete},
};

const BACKOFF_FIRST: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_millis(250);
/// Time for which a call is repeated after its first failure, while an owner is started or
/// replaced.
const PATIENCE_OWNER: Duration = Duration::from_secs(30);
/// The same for a server, which this program cannot start.
const PATIENCE_SERVER: Duration = Duration::from_secs(3);

/// Time after which the client checks that the process that received the call still answers.
const SILENCE: Duration = Duration::from_secs(5);

/// Returns the path of a session's resource; `rest` starts with `/` or is empty.
#[must_use]
pub fn session_path(session: &SessionId, rest: &str) -> String {
    // The alphabet of a session's id needs no escape in a path.
    format!("/v1/sessions/{session}{rest}")
}

/// Escapes a name as one segment of a path.
#[must_use]
pub fn path_part(name: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, ESCAPED).to_string()
}

/// One HTTP call.
#[derive(Clone, Debug)]
pub struct Request {
    method: Method,
    changes: bool,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<(Bytes, &'static str)>,
}

impl Request {
    /// Creates a call that changes nothing.
    #[must_use]
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// Creates a call that changes something; it is sent with an idempotency key.
    #[must_use]
    pub fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Creates a call that removes something.
    #[must_use]
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub(super) fn new(method: Method, path: impl Into<String>) -> Self {
        let changes = method != Method::GET;
        let path = path.into();
        Self { method, changes, path, query: Vec::new(), headers: Vec::new(), body: None }
    }

    /// Marks the call as one that changes nothing, for any method.
    #[must_use]
    pub fn that_only_reads(self) -> Self {
        Self { changes: false, ..self }
    }

    /// Adds a query parameter.
    #[must_use]
    pub fn query(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.query.push((name.into(), value.to_string()));
        self
    }

    /// Adds a query parameter if it has a value.
    #[must_use]
    pub fn query_opt(self, name: &str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.query(name, value),
            None => self,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body(body.to_string(), "application/json")
    }

    /// Sets a body of a content type.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>, content_type: &'static str) -> Self {
        self.body = Some((body.into(), content_type));
        self
    }

    /// Returns the session that the call deletes.
    fn deleted_session(&self) -> Option<&str> {
        let id = self.path.strip_prefix(Delete::ROUTE.path.strip_suffix("{session}")?)?;
        (self.method == Method::DELETE && !id.contains('/')).then_some(id)
    }

    fn has_key(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY))
    }
}

/// A successful answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// The HTTP status, 2xx.
    pub status: u16,
    /// The body's bytes.
    pub body: Bytes,
}

/// Failure of one attempt.
pub(super) enum Failure {
    /// Another attempt may succeed.
    Again(ClientError),
    /// Another attempt cannot succeed.
    Final(ClientError),
}

impl Failure {
    pub(super) fn error(self) -> ClientError {
        match self {
            Self::Again(error) | Self::Final(error) => error,
        }
    }
}

/// Growing pauses between attempts, until the patience since the first failure is exhausted.
pub(super) struct Backoff {
    next: Duration,
    patience: Duration,
    end: Option<Pin<Box<Sleep>>>,
}

impl Backoff {
    /// Waits before the next attempt; returns false once the patience is exhausted.
    pub(super) async fn wait(&mut self) -> bool {
        let patience = self.patience;
        let end = self.end.get_or_insert_with(|| Box::pin(sleep(patience)));
        let pause = self.next;
        self.next = (self.next * 2).min(BACKOFF_MAX);
        tokio::select! {
            biased;
            () = end => false,
            () = sleep(pause) => true,
        }
    }
}

impl Client {
    /// Sends a call, repeating it while the owner is absent, starting or being replaced.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn send(&self, mut request: Request) -> Result<HttpAnswer, ClientError> {
        if request.changes && !request.has_key() {
            request = request.header(IDEMPOTENCY_KEY, self.mint_key());
        }
        let mut backoff = self.backoff();
        let mut sent_before = false;
        // An unknown outcome stays unknown until an answer determines it: a later refusal to write
        // does not.
        let mut unknown = None;
        loop {
            let failure = match self.attempt(&request, &mut sent_before).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) if is_conclusive(&error) => return Err(error),
                Err(Failure::Final(error)) => return Err(unknown.unwrap_or(error)),
                Err(Failure::Again(error)) => error,
            };
            self.inner.owner_fits.store(false, Ordering::Release);
            let failure = match unknown.take() {
                Some(unknown) if failure.code() != OUTCOME_UNKNOWN => unknown,
                _ => failure,
            };
            if !backoff.wait().await {
                return Err(failure);
            }
            unknown = Some(failure).filter(|failure| failure.code() == OUTCOME_UNKNOWN);
        }
    }

    /// Sends a call and returns its answer as text.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn text(&self, request: Request) -> Result<String, ClientError> {
        let answer = self.send(request).await?;
        String::from_utf8(answer.body.into()).map_err(|error| ClientError::Foreign {
            address: self.address(),
            reason: format!("its answer is not text ({error})"),
        })
    }

    /// Sends a call and parses its answer as JSON.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn json(&self, request: Request) -> Result<Value, ClientError> {
        let answer = self.send(request).await?;
        if answer.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer.body).map_err(|error| ClientError::Foreign {
            address: self.address(),
            reason: format!("its answer is not JSON ({error})"),
        })
    }

    pub(super) fn backoff(&self) -> Backoff {
        let patience = match self.inner.target {
            Target::Owner(_) => PATIENCE_OWNER,
            Target::Server(_) => PATIENCE_SERVER,
        };
        Backoff { next: BACKOFF_FIRST, patience, end: None }
    }

    async fn attempt(
        &self,
        request: &Request,
        sent_before: &mut bool,
    ) -> Result<HttpAnswer, Failure> {
        self.find_owner().await?;
        let again = std::mem::replace(sent_before, true);
        match self.send_watched(request).await {
            Err(Failure::Final(ClientError::Refused(refusal)))
                if again && refusal.code == "session_deleted" =>
            {
                // The answer to the first attempt was lost; this refusal shows that it succeeded.
                let deleted = request.deleted_session().map(|id| SessionDeleted {
                    id: id.to_owned(),
                    kind: "session_deleted".to_owned(),
                    restorable_until: None,
                });
                let body = deleted.and_then(|deleted| serde_json::to_vec(&deleted).ok());
                let answer = body.map(|body| HttpAnswer { status: 200, body: body.into() });
                answer.ok_or(Failure::Final(ClientError::Refused(refusal)))
            }
            other => other,
        }
    }

    /// Makes one attempt, and checks periodically that the process still answers: a call may take
    /// long, but must not wait for a stopped process.
    async fn send_watched(&self, request: &Request) -> Result<HttpAnswer, Failure> {
        let mut call = std::pin::pin!(self.send_once(request));
        loop {
            if let Ok(answer) = tokio::time::timeout(SILENCE, &mut call).await {
                return answer;
            }
            if let Err(mut silent @ ClientError::OwnerSilent { .. }) = self.owner().await {
                if let ClientError::OwnerSilent { in_doubt, .. } = &mut silent {
                    *in_doubt = request.changes;
                }
                return Err(Failure::Final(silent));
            }
        }
    }

    /// Makes one attempt, without checking the owner.
    pub(super) async fn send_once(&self, request: &Request) -> Result<HttpAnswer, Failure> {
        let response = self.open(request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| self.lost(&error))?;
        self.judge(status, body)
    }

    /// Sends a call and returns once the head of the answer is received.
    pub(super) async fn open(&self, request: &Request) -> Result<reqwest::Response, Failure> {
        let mut url = self.inner.base.clone();
        let path = format!("{}{}", url.path().trim_end_matches('/'), request.path);
        url.set_path(&path);
        let mut builder = self.inner.http.request(request.method.clone(), url);
        if !request.query.is_empty() {
            builder = builder.query(&request.query);
        }
        for (name, value) in &request.headers {
            builder = builder.header(*name, value);
        }
        if let Some((body, content_type)) = &request.body {
            builder = builder.header(CONTENT_TYPE, *content_type).body(body.clone());
        }
        builder.send().await.map_err(|error| self.lost(&error))
    }

    pub(super) fn judge(&self, status: u16, body: Bytes) -> Result<HttpAnswer, Failure> {
        if (200..300).contains(&status) {
            return Ok(HttpAnswer { status, body });
        }
        let Some(refusal) = Refusal::read(status, &body) else {
            let reason = format!("HTTP status {status} without an error we know");
            let error = ClientError::Foreign { address: self.address(), reason };
            return Err(Failure::Final(error));
        };
        // An owner that is leaving reports it; the next one does the work. An owner that does not
        // know the outcome of a call may know it at the next attempt, from the call's key.
        let again = matches!(&*refusal.code, "owner_unavailable" | OUTCOME_UNKNOWN);
        let error = ClientError::Refused(Box::new(refusal));
        Err(if again { Failure::Again(error) } else { Failure::Final(error) })
    }

    /// Classifies an attempt without an answer: another one may follow, as calls are repeatable.
    pub(super) fn lost(&self, error: &reqwest::Error) -> Failure {
        let unreachable =
            ClientError::Unreachable { address: self.address(), reason: root_cause(error) };
        if error.is_builder() || error.is_timeout() && !error.is_connect() {
            return Failure::Final(unreachable);
        }
        Failure::Again(unreachable)
    }
}

/// Returns true if an answer also determines the outcome of earlier attempts of the same call.
fn is_conclusive(error: &ClientError) -> bool {
    matches!(error, ClientError::Refused(refusal) if refusal.status < 500)
}

/// Returns the root cause of an error: the system's message, without the layers above it.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
