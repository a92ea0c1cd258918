//! A small harness over the HTTP API of sessionlog: an agent that reads every line of a directory
//! in a context window far too small for it. Everything it knows lies in its session, so it keeps
//! no state of its own: kill it at any moment, start it again, and it goes on.
//!
//! ```sh
//! sessionlog serve --token-limit 3000 &
//! cargo run --example agent -- http://127.0.0.1:7717 my-session src
//! ```
//!
//! Its model is a script that sees only what a model would see: the messages of the window. With
//! `ANTHROPIC_API_KEY` set (and `AGENT_MODEL`, a model's name) a real one takes its place, behind
//! `ANTHROPIC_BASE_URL` when that is set.

#![expect(clippy::indexing_slicing, reason = "a member that JSON lacks reads as null")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};

/// What may go wrong; whoever starts the agent again has it go on.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;
type Outcome<T> = Result<T, Failure>;

/// Lines of a file that one call reads.
const CHUNK: usize = 20;
/// Tokens of the continuation that opens each window after the first.
const CONTINUATION_TOKENS: u64 = 800;
/// How often a model that is too busy is asked.
const ASKED_MAX: u32 = 6;
/// What a model is asked before its window is emptied.
const WHERE: &str = "Your context window is nearly full and is emptied now. Say in a few sentences \
                     what you did, what you found, and what is next. You go on from these words.";

#[tokio::main]
async fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, session, directory] = words.as_slice() else {
        eprintln!("usage: agent URL SESSION DIRECTORY");
        std::process::exit(2);
    };
    let agent = Agent::new(url, session, Path::new(directory), Model::of_environment())?;
    println!("{}", agent.run().await?);
    Ok(())
}

/// A harness: where its session is, and where its tools work.
pub struct Agent {
    http: reqwest::Client,
    url: String,
    session: String,
    directory: PathBuf,
    /// A real model; a script takes its place.
    model: Option<Model>,
}

/// A model behind Anthropic's Messages API.
pub struct Model {
    /// The caller's key.
    pub key: String,
    /// The model's name.
    pub name: String,
    /// Where the API is.
    pub base: String,
}

impl Model {
    /// The model that the environment names.
    #[must_use]
    pub fn of_environment() -> Option<Self> {
        let var = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (key, name) = var("ANTHROPIC_API_KEY").zip(var("AGENT_MODEL"))?;
        let base = var("ANTHROPIC_BASE_URL");
        let base = base.unwrap_or_else(|| "https://api.anthropic.com".to_owned());
        Some(Self { key, name, base })
    }
}

/// What the model does next.
pub enum Turn {
    /// It calls a tool, with a word to itself.
    Call {
        /// The word.
        note: String,
        /// The tool.
        name: String,
        /// Its arguments.
        input: Value,
    },
    /// It is done.
    Answer(String),
}

impl Agent {
    /// An agent for a session on a server.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(url: &str, session: &str, directory: &Path, model: Option<Model>) -> Outcome<Self> {
        // The client speaks TLS by whatever provider its program names; one that is named stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Ok(Self {
            http: reqwest::Client::builder().no_proxy().build()?,
            url: url.trim_end_matches('/').to_owned(),
            session: session.to_owned(),
            directory: directory.to_owned(),
            model,
        })
    }

    /// Works until the task is done; answers what the model says then.
    ///
    /// # Errors
    /// Those of the server, the model and the files. Run again, it goes on.
    pub async fn run(&self) -> Outcome<String> {
        self.begin().await?;
        loop {
            let (messages, tail) = self.context().await?;
            if let Some(answer) = answered(&messages) {
                return Ok(answer);
            }
            match self.think(&messages).await? {
                Turn::Answer(text) => {
                    let event = json!({ "type": "agent.message", "content": text });
                    self.emit(tail, vec![event]).await?;
                }
                Turn::Call { note, name, input } => {
                    let id = format!("call-{tail}");
                    let call = json!({ "type": "agent.tool_use", "call_id": id, "name": name,
                        "input": input });
                    let word = json!({ "type": "agent.message", "content": note });
                    let said = if note.is_empty() { vec![call] } else { vec![word, call] };
                    let tail = self.emit(tail, said).await?;
                    let (text, is_error) = match self.tool(&name, &input) {
                        Ok(text) => (text, false),
                        Err(error) => (error.to_string(), true),
                    };
                    let result = json!({ "type": "agent.tool_result", "call_id": id,
                        "content": text, "is_error": is_error });
                    self.emit(tail, vec![result]).await?;
                }
            }
        }
    }

    /// Creates the session with its task, unless it is there.
    async fn begin(&self) -> Outcome<()> {
        let task = "Read every line of every file, in the order of their names, and say how many \
                    lines there are and what their sum is. Tools: first_file(), next_file(path), \
                    read_lines(path, from).";
        let body = json!({ "id": self.session, "initial_events": [
            { "type": "user.message", "content": task },
        ]});
        let made = self.http.post(format!("{}/v1/sessions", self.url)).json(&body).send().await?;
        match made.status().as_u16() {
            201 | 409 => Ok(()),
            status => Err(format!("{status}: {}", made.text().await?).into()),
        }
    }

    /// What the model sees: all of the session while it fits; from the first time on that it did
    /// not, the continuation and what came since. When the token monitor says that the window is
    /// nearly full, what it holds is paged out, and the same session goes on.
    async fn context(&self) -> Outcome<(Vec<Value>, u64)> {
        let continued = self.view("compactions").await?["count"].as_u64().unwrap_or(0) > 0;
        let since = if continued { "&from=action:context.compacted" } else { "" };
        let bounds = self.view("usage").await?;
        let bound = |name: &str| bounds[name].as_u64().unwrap_or(0);
        let taken = bound("margin") + if continued { CONTINUATION_TOKENS } else { 0 };
        let room = bound("limit").saturating_sub(taken);
        let query = format!("window?format=anthropic&tokens_max={room}{since}");
        let window = self.view(&query).await?;
        let mut messages = window["messages"].as_array().cloned().unwrap_or_default();
        let mut tokens = window["tokens"].as_u64().unwrap_or(0);
        let mut tail = window["position"].as_u64().unwrap_or(0);
        if continued {
            let query = format!("continuation?tokens_max={CONTINUATION_TOKENS}");
            let continuation = self.view(&query).await?;
            tokens += continuation["tokens"].as_u64().unwrap_or(0);
            let text = format!("You were interrupted; go on. What you knew: {continuation}");
            // What was said last opens the window; the roles alternate all the same.
            if messages.first().is_some_and(|first| first["role"] == "user") {
                let opening = messages[0]["content"].as_array_mut().ok_or("no content")?;
                let results = opening.iter().take_while(|part| part["type"] == "tool_result");
                let place = results.count();
                opening.insert(place, json!({ "type": "text", "text": text }));
            } else {
                messages.insert(
                    0,
                    json!({ "role": "user", "content": [{ "type": "text", "text": text }] }),
                );
            }
        }
        // The report is what the monitor goes by.
        let report = json!({ "type": "span.model_request_end",
            "model_usage": { "input_tokens": tokens, "output_tokens": 0 } });
        tail = self.emit(tail, vec![report]).await?;
        let level = self.view("usage").await?["level"].clone();
        let fresh = continued && messages.len() <= 2;
        if level == "none" || fresh {
            return Ok((messages, tail));
        }
        self.go_on(&messages).await?;
        Box::pin(self.context()).await
    }

    /// Pages out what the window holds, with the model's own word of where it stands.
    async fn go_on(&self, messages: &[Value]) -> Outcome<()> {
        let next = match &self.model {
            Some(model) => self.stand(model, messages).await?,
            None => format!("Reading the files line by line: {}.", State::of(messages)),
        };
        let body = json!({ "sessionId": self.session, "next": [next], "summary": next,
            "tokensMax": CONTINUATION_TOKENS });
        let url = format!("{}/v1/tools/continue_session", self.url);
        checked(self.http.post(url).json(&body).send().await?).await.map(drop)
    }

    async fn view(&self, view: &str) -> Outcome<Value> {
        let url = format!("{}/v1/sessions/{}/views/{view}", self.url, self.session);
        checked(self.http.get(url).send().await?).await
    }

    /// Appends at exactly this place: an agent that was thought dead and is not writes nothing.
    async fn emit(&self, at: u64, events: Vec<Value>) -> Outcome<u64> {
        let url = format!("{}/v1/sessions/{}/events", self.url, self.session);
        let request = self.http.post(url).header("If-Position", at);
        let answer = checked(request.json(&json!({ "events": events })).send().await?).await?;
        answer["next_position"].as_u64().ok_or_else(|| "no next_position".into())
    }

    fn tool(&self, name: &str, input: &Value) -> Outcome<String> {
        let path = input["path"].as_str().unwrap_or_default();
        let files = files(&self.directory)?;
        match name {
            "first_file" => Ok(files.first().cloned().unwrap_or_default()),
            "next_file" => {
                let next = files.iter().find(|file| file.as_str() > path);
                Ok(next.cloned().unwrap_or_default())
            }
            "read_lines" => {
                let text = std::fs::read_to_string(self.directory.join(path))?;
                let from = usize::try_from(input["from"].as_u64().unwrap_or(0))?;
                let lines = text.lines().enumerate().skip(from).take(CHUNK);
                let lines: Vec<String> =
                    lines.map(|(number, line)| format!("{number}: {line}")).collect();
                Ok(lines.join("\n"))
            }
            _ => Err(format!("there is no tool {name}").into()),
        }
    }

    async fn think(&self, messages: &[Value]) -> Outcome<Turn> {
        match &self.model {
            Some(model) => self.ask(model, messages).await,
            None => Ok(scripted(messages)),
        }
    }

    /// What a real model does next.
    async fn ask(&self, model: &Model, messages: &[Value]) -> Outcome<Turn> {
        // One call at a time, as the loop makes them.
        let choice = json!({ "type": "auto", "disable_parallel_tool_use": true });
        let answer = self.message(model, messages, choice).await?;
        let note = words(&answer);
        let parts = answer["content"].as_array().into_iter().flatten();
        match (answer["stop_reason"].as_str(), parts.last()) {
            (Some("tool_use"), Some(part)) if part["type"] == "tool_use" => {
                let name = part["name"].as_str().unwrap_or_default().to_owned();
                Ok(Turn::Call { note, name, input: part["input"].clone() })
            }
            (Some("end_turn"), _) => Ok(Turn::Answer(format!("DONE {note}"))),
            (stop, _) => Err(format!("the model stopped: {stop:?}").into()),
        }
    }

    /// Where a real model stands, in its own words.
    async fn stand(&self, model: &Model, messages: &[Value]) -> Outcome<String> {
        let mut messages = messages.to_vec();
        let ask = json!({ "type": "text", "text": WHERE });
        match messages.last_mut().filter(|last| last["role"] == "user") {
            Some(last) => last["content"].as_array_mut().ok_or("no content")?.push(ask),
            None => messages.push(json!({ "role": "user", "content": [ask] })),
        }
        Ok(words(&self.message(model, &messages, json!({ "type": "none" })).await?))
    }

    /// An answer of a real model; one that is too busy is asked again.
    async fn message(&self, model: &Model, messages: &[Value], choice: Value) -> Outcome<Value> {
        let tool = |name: &str, input: Value| {
            let schema = json!({ "type": "object", "properties": input });
            json!({ "name": name, "description": name, "input_schema": schema })
        };
        let (path, from) = (json!({ "type": "string" }), json!({ "type": "integer" }));
        let body = json!({
            "model": model.name, "max_tokens": 1_000, "messages": messages, "tool_choice": choice,
            "tools": [
                tool("first_file", json!({})),
                tool("next_file", json!({ "path": path })),
                tool("read_lines", json!({ "path": path, "from": from })),
            ],
        });
        let mut asked = 0;
        loop {
            let request = self.http.post(format!("{}/v1/messages", model.base));
            let request = request.header("x-api-key", &model.key);
            let request = request.header("anthropic-version", "2023-06-01");
            let answer = request.json(&body).send().await?;
            asked += 1;
            let busy = matches!(answer.status().as_u16(), 429 | 500 | 503 | 529);
            if !busy || asked == ASKED_MAX {
                return checked(answer).await;
            }
            let told = answer.headers().get("retry-after").and_then(|told| told.to_str().ok());
            let seconds = told.and_then(|told| told.parse().ok()).unwrap_or(1 << asked);
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
    }
}

/// The texts of a model's answer.
fn words(answer: &Value) -> String {
    let parts = answer["content"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// An answer that is none of an error.
async fn checked(answer: reqwest::Response) -> Outcome<Value> {
    let status = answer.status();
    let text = answer.text().await?;
    if !status.is_success() {
        return Err(format!("{status}: {text}").into());
    }
    Ok(serde_json::from_str(&text)?)
}

/// The files below a directory, by name.
fn files(directory: &Path) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(&at)? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(directory)?.to_string_lossy().into_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The answer, when the model has given it.
fn answered(messages: &[Value]) -> Option<String> {
    let last = messages.last().filter(|last| last["role"] == "assistant")?;
    let text = last["content"].as_array()?.last()?["text"].as_str()?;
    text.strip_prefix("DONE ").map(str::to_owned)
}

/// What the scripted model knows, as it writes it down in its own words. It has no other memory.
#[derive(Default)]
pub struct State {
    file: String,
    from: usize,
    lines: usize,
    sum: u64,
    /// Whether nothing was written down yet.
    is_new: bool,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { file, from, lines, sum, .. } = self;
        write!(f, "⟦{file}|{from}|{lines}|{sum:016x}⟧")
    }
}

impl State {
    /// The latest that stands in the model's own words, or in what it was told of itself.
    #[must_use]
    pub fn of(messages: &[Value]) -> Self {
        let texts = messages.iter().rev().flat_map(|message| {
            let parts = message["content"].as_array().into_iter().flatten().rev();
            parts.filter_map(|part| part["text"].as_str())
        });
        let marks = texts.flat_map(|text| text.rsplit('⟦').filter_map(|rest| rest.split_once('⟧')));
        let mut found = marks.filter_map(|(mark, _)| {
            let mut parts = mark.split('|');
            Some(Self {
                file: parts.next()?.to_owned(),
                from: parts.next()?.parse().ok()?,
                lines: parts.next()?.parse().ok()?,
                sum: u64::from_str_radix(parts.next()?, 16).ok()?,
                is_new: false,
            })
        });
        found.next().unwrap_or(Self { is_new: true, ..Self::default() })
    }
}

/// The last call that was answered well, and its answer; nothing when the last thing was another.
fn last_result(messages: &[Value]) -> Option<(String, String)> {
    let last = messages.last()?["content"].as_array()?;
    let result = last.iter().find(|part| part["type"] == "tool_result")?;
    if result["is_error"] == true {
        return None;
    }
    let calls = messages.get(messages.len().checked_sub(2)?)?["content"].as_array()?;
    let call = calls.iter().find(|part| part["id"] == result["tool_use_id"])?;
    let text = result["content"][0]["text"].as_str()?;
    let text = if text == "(no output)" { "" } else { text };
    Some((call["name"].as_str()?.to_owned(), text.to_owned()))
}

/// A model that does its task by what it sees, and by nothing else.
#[must_use]
pub fn scripted(messages: &[Value]) -> Turn {
    let mut state = State::of(messages);
    let call = |state: State, name: &str, input: Value| Turn::Call {
        note: format!("So far {state}."),
        name: name.to_owned(),
        input,
    };
    match last_result(messages) {
        Some((name, text)) if name == "read_lines" => {
            let count = text.lines().count();
            for line in text.lines().filter_map(|line| line.split_once(": ")) {
                for byte in line.1.bytes().chain([b'\n']) {
                    state.sum = (state.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            state.lines += count;
            state.from += count;
            if count == CHUNK {
                let input = json!({ "path": state.file, "from": state.from });
                return call(state, "read_lines", input);
            }
            let input = json!({ "path": state.file });
            state.from = usize::MAX;
            call(state, "next_file", input)
        }
        Some((_, file)) if file.is_empty() => {
            Turn::Answer(format!("DONE {} lines, sum {:016x}", state.lines, state.sum))
        }
        Some((_, file)) => {
            (state.file, state.from) = (file, 0);
            let input = json!({ "path": state.file, "from": 0 });
            call(state, "read_lines", input)
        }
        // Nothing was answered, or nothing is seen of it any more: ask again.
        None if state.is_new => call(state, "first_file", json!({})),
        None if state.from == usize::MAX => {
            let input = json!({ "path": state.file });
            call(state, "next_file", input)
        }
        None if state.file.is_empty() => call(state, "first_file", json!({})),
        None => {
            let input = json!({ "path": state.file, "from": state.from });
            call(state, "read_lines", input)
        }
    }
}
