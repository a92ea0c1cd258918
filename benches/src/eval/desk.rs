//! A client of the evaluation's server: records through the interfaces that agents use, and
//! requests views in the same way. It must not read from the store in another way.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::agent::PROJECT;
use crate::failure::{Failure, Outcome};
use sessionlog::{
    api::sessions::CreateSession,
    client::{Client, ClientError, ClientTarget, HttpRequest, session_path},
    env::{clock::SystemClock, entropy::SystemEntropy},
    event::SessionId,
    hook::{Hook, Payload, Spool},
    import::{self, ImportSource},
    secrets::Recogniser,
    verbs::{NoParams, NoQuery, sessions},
};

/// Time for which a hook waits for the server: longer than in production, so that a slow machine
/// does not change what is recorded.
const HOOK_WAIT: Duration = Duration::from_secs(60);
/// Number of events of a batch.
const BATCH: usize = 100;

/// A response and its size.
#[derive(Debug)]
pub(super) struct Answer {
    /// JSON of the response.
    pub(super) value: Value,
    /// Bytes of the JSON as sent.
    pub(super) bytes: u64,
}

/// A client of the server, and the hook of an agent's program.
pub(super) struct Desk {
    client: Client,
    hook: Hook,
    secrets: Arc<Recogniser>,
}

/// Creates a session with that id, in a workspace if one is given.
pub(super) async fn create(
    client: &Client,
    session: &SessionId,
    workspace: Option<String>,
) -> Outcome {
    let id = Some(session.to_string());
    let body = CreateSession { id, workspace, ..Default::default() };
    client.call::<sessions::Create>(&NoParams {}, &NoQuery {}, &body).await?;
    Ok(())
}

/// Appends events to a session.
pub(super) async fn append(client: &Client, session: &SessionId, events: &[Value]) -> Outcome {
    for batch in events.chunks(BATCH) {
        let request = HttpRequest::post(session_path(session, "/events"));
        client.send(request.json(&json!({ "events": batch }))).await?;
    }
    Ok(())
}

impl Desk {
    /// Creates a client; hooks spool in `spool` and return at most `hook_tokens` tokens.
    pub(super) fn new(server: ClientTarget, spool: PathBuf, hook_tokens: usize) -> Outcome<Self> {
        let client = Client::new(server, "eval")?;
        let secrets = Arc::new(Recogniser::default());
        let hook = Hook {
            secrets: Arc::clone(&secrets),
            client: Ok(client.clone()),
            spool: Spool::new(vec![spool], Box::new(|| Ok(None)), Arc::new(SystemEntropy)),
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            transcripts: Box::new(|_, _| Ok(None)),
            directory: Some(PROJECT.to_owned()),
            home: None,
            process: Vec::new(),
            wait: HOOK_WAIT,
            timeout: Duration::MAX,
            tokens_max: hook_tokens,
            // Sessions of other seeds are not evaluated.
            recall_max: 0,
            spent: Duration::ZERO,
            gap: None,
        };
        Ok(Self { client, hook, secrets })
    }

    /// Creates a session with that id.
    pub(super) async fn create(&self, session: &SessionId) -> Outcome {
        create(&self.client, session, None).await
    }

    /// Appends events.
    pub(super) async fn append(&self, session: &SessionId, events: &[Value]) -> Outcome {
        append(&self.client, session, events).await
    }

    /// Imports messages, one a line.
    pub(super) async fn import(&self, session: &SessionId, lines: &str) -> Outcome {
        let source = ImportSource {
            reader: Box::new(lines.as_bytes()),
            name: session.to_string(),
            session: Some(session.clone()),
            subagents: Vec::new(),
            results: Box::new(|_| None),
            around: None,
        };
        let report = import::import(&self.client, source, &mut |_| {}).await?;
        match report.bad.items().first() {
            Some(bad) => Err(Failure::Usage(format!("line {}: {}", bad.place.number, bad.problem))),
            None => Ok(()),
        }
    }

    /// Calls a tool on a session.
    pub(super) async fn tool(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: &Value,
    ) -> Outcome<Answer> {
        let mut members: Map<String, Value> = arguments.as_object().cloned().unwrap_or_default();
        members.insert("sessionId".to_owned(), json!(session.as_str()));
        let request = HttpRequest::post(format!("/v1/tools/{tool}")).json(&Value::Object(members));
        self.answer(request).await
    }

    /// Calls a tool; returns `None` where the server rejects these arguments.
    pub(super) async fn tool_where_known(
        &self,
        session: &SessionId,
        tool: &str,
        arguments: &Value,
    ) -> Outcome<Option<Answer>> {
        match self.tool(session, tool, arguments).await {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::Client(ClientError::Refused(refusal)))
                if refusal.code == "invalid_request" =>
            {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Fetches a view of a session, within a token budget if one is given.
    pub(super) async fn view(
        &self,
        session: &SessionId,
        view: &str,
        tokens_max: Option<u64>,
    ) -> Outcome<Answer> {
        let path = session_path(session, &format!("/views/{view}"));
        self.answer(HttpRequest::get(path).query_opt("tokens_max", tokens_max)).await
    }

    /// Fetches a view of a session as of a position.
    pub(super) async fn view_at(
        &self,
        session: &SessionId,
        view: &str,
        tokens_max: u64,
        at: u64,
        recall: Option<&str>,
    ) -> Outcome<Answer> {
        let path = session_path(session, &format!("/views/{view}"));
        let request = HttpRequest::get(path).query_opt("tokens_max", Some(tokens_max));
        let request = request.query_opt("at", Some(at)).query_opt("recall", recall);
        // Format of a model: ids and times of events could contain a value by chance.
        let format = (view == "window").then_some("openai");
        self.answer(request.query_opt("format", format)).await
    }

    /// Runs the hook on a payload; returns the text given to the model, if any.
    pub(super) async fn hook(&self, payload: &Value) -> Outcome<Option<String>> {
        let input = payload.to_string().into_bytes().into();
        let payload = Payload::read(&input, &self.secrets).map_err(io::Error::other)?;
        let done = self.hook.run(&payload).await;
        if let Some(trouble) = done.trouble {
            return Err(Failure::Ended(
                format!("a hook's event was not recorded: {trouble}"),
                "run the evaluation again on a machine with less load",
            ));
        }
        let text = done.answer.as_ref().and_then(|answer| {
            answer.pointer("/hookSpecificOutput/additionalContext")?.as_str().map(str::to_owned)
        });
        Ok(text)
    }

    async fn answer(&self, request: HttpRequest) -> Outcome<Answer> {
        let text = self.client.text(request).await?;
        let value = serde_json::from_str(&text).map_err(io::Error::other)?;
        Ok(Answer { value, bytes: text.len() as u64 })
    }
}
