//! Builds and sends one call, repeats it while that can help, and reads the answer. It must not
//! interpret an answer beyond success and refusal.

use std::{pin::Pin, sync::atomic::Ordering, time::Duration};

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{Method, header::CONTENT_TYPE};
use serde_json::Value;
use tokio::time::{Sleep, sleep};

use super::{Client, ClientError, ClientTarget, IDEMPOTENCY_KEY, Refusal, error::OUTCOME_UNKNOWN};
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
/// Time for which a call to a server is repeated: this program cannot start one.
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
pub fn escape_path_segment(name: &str) -> String {
    const ESCAPED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(name, ESCAPED).to_string()
}

/// One HTTP call.
#[derive(Clone, Debug)]
pub struct HttpRequest {
    method: Method,
    changes: bool,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(&'static str, String)>,
    body: Option<(Bytes, &'static str)>,
}

impl HttpRequest {
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
    pub fn read_only(self) -> Self {
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

    fn has_idempotency_key(&self) -> bool {
        self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(IDEMPOTENCY_KEY))
    }
}

/// A successful answer.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    /// The HTTP status, 2xx.
    pub status: u16,
    /// Bytes of the body.
    pub body: Bytes,
}

/// Failure of one attempt.
pub(super) enum AttemptError {
    /// Another attempt may succeed.
    Again(ClientError),
    /// Another attempt cannot succeed.
    Final(ClientError),
}

impl AttemptError {
    pub(super) fn into_error(self) -> ClientError {
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
    pub async fn send(&self, mut request: HttpRequest) -> Result<HttpAnswer, ClientError> {
        if request.changes && !request.has_idempotency_key() {
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
                Err(AttemptError::Final(error)) if is_conclusive(&error) => return Err(error),
                Err(AttemptError::Final(error)) => return Err(unknown.unwrap_or(error)),
                Err(AttemptError::Again(error)) => error,
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
    pub async fn text(&self, request: HttpRequest) -> Result<String, ClientError> {
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
    pub async fn json(&self, request: HttpRequest) -> Result<Value, ClientError> {
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
            ClientTarget::Owner(_) => PATIENCE_OWNER,
            ClientTarget::Server(_) => PATIENCE_SERVER,
        };
        Backoff { next: BACKOFF_FIRST, patience, end: None }
    }

    async fn attempt(
        &self,
        request: &HttpRequest,
        sent_before: &mut bool,
    ) -> Result<HttpAnswer, AttemptError> {
        self.find_owner().await?;
        let again = std::mem::replace(sent_before, true);
        match self.send_watched(request).await {
            Err(AttemptError::Final(ClientError::Refused(refusal)))
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
                answer.ok_or(AttemptError::Final(ClientError::Refused(refusal)))
            }
            other => other,
        }
    }

    /// Makes one attempt, and checks periodically that the process still answers: a call may take
    /// long, but must not wait for a stopped process.
    async fn send_watched(&self, request: &HttpRequest) -> Result<HttpAnswer, AttemptError> {
        let mut call = std::pin::pin!(self.send_once(request));
        loop {
            if let Ok(answer) = tokio::time::timeout(SILENCE, &mut call).await {
                return answer;
            }
            if let Err(mut silent @ ClientError::OwnerSilent { .. }) =
                self.fetch_owner_report().await
            {
                if let ClientError::OwnerSilent { in_doubt, .. } = &mut silent {
                    *in_doubt = request.changes;
                }
                return Err(AttemptError::Final(silent));
            }
        }
    }

    /// Makes one attempt, without checking the owner.
    pub(super) async fn send_once(
        &self,
        request: &HttpRequest,
    ) -> Result<HttpAnswer, AttemptError> {
        let response = self.receive_head(request).await?;
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| self.classify_lost(&error))?;
        self.classify_answer(status, body)
    }

    /// Sends a call and returns once the head of the answer is received.
    pub(super) async fn receive_head(
        &self,
        request: &HttpRequest,
    ) -> Result<reqwest::Response, AttemptError> {
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
        builder.send().await.map_err(|error| self.classify_lost(&error))
    }

    pub(super) fn classify_answer(
        &self,
        status: u16,
        body: Bytes,
    ) -> Result<HttpAnswer, AttemptError> {
        if (200..300).contains(&status) {
            return Ok(HttpAnswer { status, body });
        }
        let Some(refusal) = Refusal::parse(status, &body) else {
            let reason = format!("HTTP status {status} without an error we know");
            let error = ClientError::Foreign { address: self.address(), reason };
            return Err(AttemptError::Final(error));
        };
        // An owner that is leaving reports it; the next one does the work. An owner that does not
        // know the outcome of a call may know it at the next attempt, from the call's key.
        let again = matches!(&*refusal.code, "owner_unavailable" | OUTCOME_UNKNOWN);
        let error = ClientError::Refused(Box::new(refusal));
        Err(if again { AttemptError::Again(error) } else { AttemptError::Final(error) })
    }

    /// Classifies an attempt without an answer: another one may follow, as calls are repeatable.
    pub(super) fn classify_lost(&self, error: &reqwest::Error) -> AttemptError {
        let unreachable =
            ClientError::Unreachable { address: self.address(), reason: root_cause(error) };
        if error.is_builder() || error.is_timeout() && !error.is_connect() {
            return AttemptError::Final(unreachable);
        }
        AttemptError::Again(unreachable)
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
