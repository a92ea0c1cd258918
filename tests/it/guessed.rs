//! Remains of redacted events: no file and no response contains their text, and no id confirms a
//! guess of it. Through the real program, in plaintext and encrypted.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use sessionlog::{
    client::{Client, ClientError, HttpRequest},
    import::{ConversationIds, JsonMembers, Transcript, TranscriptProgram},
    log::{
        Cipher, KeyNumber, RecordBody, StoreFile,
        keyring::{KeySlot, MasterKey},
    },
};

use crate::{
    bytes::holds,
    program::{Place, Server},
    redacted::frames,
};

const KEY: &str = "0f1e2d3c4b5a69788796a5b4c3d2e1f00112233445566778899aabbccddeeff0";
/// Words of the redacted events, each in no other event.
const WORDS: [&str; 2] = ["heliotrope", "marzipan"];
const SECRET: &str = "The code is heliotrope marzipan";

struct Store {
    place: Place,
    server: Option<Server>,
    client: Client,
    /// The file with its key.
    key: Option<String>,
    runtime: tokio::runtime::Runtime,
}

impl Store {
    fn new(is_encrypted: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let place = Place::new();
        let key = is_encrypted.then(|| {
            let file = place.write("key", KEY);
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
            file.display().to_string()
        });
        let given: Vec<&str> = key.iter().flat_map(|file| ["--key-file", file.as_str()]).collect();
        let server = place.serve_with(&given);
        // One client for all requests: it counts its keys.
        let client = server.client();
        Self { place, server: Some(server), client, key, runtime }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let set = self.key.as_ref().map(|file| ("SESSIONLOG_KEY_FILE", file));
        let output = self.place.command(arguments).envs(set).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn try_ask(&self, request: HttpRequest) -> Result<Value, ClientError> {
        self.runtime.block_on(async { self.client.json(request).await })
    }

    fn stopped(mut self) -> Self {
        assert_eq!(self.server.take().unwrap().stop(), Some(0));
        self
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.try_ask(asked(HttpRequest::post, path).json(body)).unwrap()
    }

    fn get(&self, path: &str) -> Value {
        self.try_ask(asked(HttpRequest::get, path)).unwrap()
    }

    fn redact(&self, session: &str, id: &str) -> Value {
        self.post(&format!("/v1/sessions/{session}/events/{id}/redact"), &json!({}))
    }

    fn events(&self, session: &str) -> Vec<Value> {
        let page = self.get(&format!("/v1/sessions/{session}/events"));
        page["data"].as_array().unwrap().clone()
    }

    /// Returns every file and record of a file that contains one of these parts.
    fn holding(&self, parts: &[Vec<u8>]) -> Vec<String> {
        let ciphers = self.ciphers();
        let has = |bytes: &[u8]| parts.iter().any(|part| holds(bytes, part));
        let mut found = Vec::new();
        for (path, bytes) in tree(&self.place.data_dir(), "") {
            if has(&bytes) {
                found.push(path.clone());
            }
            for frame in frames(&path, &Bytes::from(bytes)) {
                let number = frame.header.encrypted.map(|encrypted| encrypted.key);
                let cipher = number.and_then(|number| ciphers.get(&number));
                let records = frame.decrypt(cipher).and_then(|frame| frame.records());
                for (_, record) in records.unwrap_or_default() {
                    let in_body = match &record.body {
                        RecordBody::Whole { body, .. } => has(body),
                        RecordBody::Redacted { .. } => false,
                    };
                    if in_body || has(record.id().as_bytes()) {
                        found.push(format!("{path}: {} {}", record.name(), record.id()));
                    }
                }
            }
        }
        found
    }

    fn ciphers(&self) -> BTreeMap<KeyNumber, Cipher> {
        if self.key.is_none() {
            return BTreeMap::new();
        }
        let data = self.place.data_dir();
        let store = StoreFile::decode(&fs::read(data.join("STORE")).unwrap()).unwrap().id;
        let bytes: Vec<u8> =
            (0..32).map(|n| u8::from_str_radix(&KEY[2 * n..2 * n + 2], 16).unwrap()).collect();
        let master = MasterKey::new(&bytes.try_into().unwrap());
        let slots = fs::read(data.join("keys/0")).unwrap();
        let key = |(number, slot): (usize, &[u8])| {
            let number = KeyNumber(number as u64);
            let Ok(KeySlot::Key(wrapped)) = KeySlot::decode(number, slot) else { return None };
            let key = master.unwrap(store, &wrapped).ok()?;
            Some((number, Cipher::new(&key, store, number)))
        };
        slots.chunks(128).enumerate().skip(1).filter_map(key).collect()
    }
}

/// Sends a request for a path with its query.
fn asked(of: fn(String) -> HttpRequest, path: &str) -> HttpRequest {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.fold(of(path.to_owned()), |request, (name, value)| request.query(name, value))
}

fn tree(directory: &Path, within: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{within}{}", path.file_name().unwrap().to_str().unwrap());
        if path.is_dir() {
            found.extend(tree(&path, &format!("{name}/")));
        } else if path.is_file() {
            found.push((name, fs::read(&path).unwrap()));
        }
    }
    found
}

/// Returns the hash in an id as a recorder sends it, or in one as an earlier version stored it.
fn hash_in(id: &str) -> String {
    let is_hash =
        |part: &&str| part.len() >= 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    id.split(['~', '-', '_', '.']).find(is_hash).unwrap().to_owned()
}

/// Returns a hash as digits and as bytes.
fn hash_forms(hash: &str) -> [Vec<u8>; 2] {
    let byte = |n: usize| u8::from_str_radix(&hash[2 * n..2 * n + 2], 16).unwrap();
    [hash.as_bytes().to_vec(), (0..8).map(byte).collect()]
}

#[test]
fn ids_of_redacted_events_do_not_confirm_a_guess_of_their_body() {
    let mut of_all_stores = BTreeSet::new();
    for is_encrypted in [false, true] {
        let store = Store::new(is_encrypted);
        let message = json!({"role": "user", "content": SECRET}).to_string();
        let chat = format!("{{\"id\":\"chat\",\"messages\":[{message}]}}");
        let chat = store.place.write("chat.jsonl", &chat).display().to_string();
        let line = json!({
            "type": "user", "sessionId": "code", "uuid": "u1",
            "timestamp": "2026-11-20T09:00:00.000Z",
            "message": {"role": "user", "content": SECRET},
        });
        let line = line.to_string();
        let code = store.place.write("code.jsonl", &line).display().to_string();
        store.run(&["import", &chat]);
        store.run(&["import", &code]);
        // The id of the same guess if the store's key is unknown.
        let raw = RawValue::from_string(message).unwrap();
        let mut guesses: Vec<String> =
            ConversationIds::new().add_message(&raw).into_iter().map(|draft| draft.id).collect();
        let members = JsonMembers::read(&line).unwrap();
        let mut transcript = Transcript::new(TranscriptProgram::ClaudeCode);
        guesses
            .extend(transcript.process_line(&members, &line, "").into_iter().map(|draft| draft.id));
        assert_eq!(guesses.len(), 2);
        // Ids of a hook and of a program, in the form of one derived from content.
        let hook = format!("hook_~{}~", blake3::hash(SECRET.as_bytes()).to_hex());
        let sent = json!({"events": [{"id": hook, "type": "user.message", "content": SECRET}]});
        let first = store.post("/v1/sessions/hooked/events?create=true", &sent);
        let again = store.post("/v1/sessions/hooked/events", &sent);
        assert_eq!((&first["data"], &again["repeated"]), (&again["data"], &json!(true)));
        guesses.push(hook);
        // A relation.
        let properties = json!({"note": SECRET});
        let relation =
            json!({"type": "KNOWS", "from_id": "w", "to_id": "chat", "properties": properties});
        let path = "/v1/workspaces/w/relationships";
        let made = store.post(path, &relation);
        assert_eq!(store.post(path, &relation)["id"], made["id"], "the same relation again");
        let content = serde_json::to_vec(&("KNOWS", "w", "chat", &properties)).unwrap();
        let context = "sessionlog v1 id of a relation";
        let plain = blake3::Hasher::new_derive_key(context).update(&content).finalize();
        guesses.push(format!("rel_{:.24}", plain.to_hex()));

        for session in ["chat", "code", "hooked"] {
            for event in store.events(session) {
                if event.to_string().contains("heliotrope") {
                    let id = event["id"].as_str().unwrap();
                    store.redact(session, id);
                    assert!(of_all_stores.insert(id.to_owned()), "{id}: another store has it");
                }
            }
        }
        let notebook = made["session"].as_str().unwrap();
        store.redact(notebook, made["id"].as_str().unwrap());
        // A retry and a repeated import find the existing events, and write nothing.
        let tails = ["chat", "code", "hooked"].map(|session| store.events(session).len());
        let again = store.post("/v1/sessions/hooked/events", &sent);
        assert_eq!(again["repeated"], true);
        store.run(&["import", &chat]);
        store.run(&["import", &code]);
        assert_eq!(tails, ["chat", "code", "hooked"].map(|session| store.events(session).len()));
        // A reader who sends a guess learns nothing of it either.
        for guess in &guesses {
            let path = format!("/v1/sessions/chat/events?from=event:{guess}&limit=1");
            let answer = store.try_ask(asked(HttpRequest::get, &path));
            assert!(answer.is_err(), "{guess}: {answer:?}");
        }
        let store = store.stopped();
        let parts: Vec<Vec<u8>> = guesses.iter().flat_map(|id| hash_forms(&hash_in(id))).collect();
        assert_eq!(store.holding(&parts), Vec::<String>::new(), "{is_encrypted}");
        let words: Vec<Vec<u8>> = WORDS.map(|word| word.as_bytes().to_vec()).into();
        assert_eq!(store.holding(&words), Vec::<String>::new(), "{is_encrypted}");
    }
}

/// Checks titles made from an event's text: of a saved session, which is returned, of an import,
/// and of the fork of one.
fn check_titles(store: &Store) -> String {
    let context = json!({"conversation_context": SECRET});
    let saved = store.post("/v1/workspaces/w/save", &context);
    let saved = saved["session_id"].as_str().unwrap().to_owned();
    let message = json!({"role": "user", "content": SECRET});
    let chat = json!({"id": "chat", "messages": [message]}).to_string();
    let chat = store.place.write("chat.jsonl", &chat).display().to_string();
    store.run(&["import", &chat]);
    store.post("/v1/sessions/chat/fork", &json!({"id": "fork", "at": "end"}));
    for session in [&*saved, "chat", "fork"] {
        let title = store.get(&format!("/v1/sessions/{session}"))["title"].clone();
        assert_eq!(title, SECRET, "{session}");
    }
    saved
}

/// Records a result with a source, a repeated response, and an item of memory, in the session
/// `work`; returns the source that the server found.
fn worked(store: &Store) -> String {
    let url = "https://heliotrope.example/marzipan";
    let result = format!("# {SECRET}\n{url}");
    let events = json!({"events": [
        {"id": "call", "type": "agent.tool_use", "call_id": "c", "name": "web_search", "input": {"q": "tides"}},
        {"id": "result", "type": "agent.tool_result", "call_id": "c", "content": result},
    ]});
    store.post("/v1/sessions/work/events?create=true", &events);
    let cached = json!({"events": [{
        "id": "again", "type": "agent.tool_result", "call_id": "c2", "content": SECRET,
        "cached": {"position": 1, "age_ms": 5},
    }]});
    store.post("/v1/sessions/work/events", &cached);
    let item = json!({"events": [{
        "id": "item", "type": "memory.item", "kind": "episodic", "text": SECRET,
        "positions": {"from": 1, "to": 2},
    }]});
    store.post("/v1/sessions/work/events", &item);
    let is_found = |event: &Value| event["type"] == "source.found";
    let found: Vec<Value> = store.events("work").into_iter().filter(is_found).collect();
    assert_eq!(found.len(), 1);
    found[0]["id"].as_str().unwrap().to_owned()
}

/// Redacts one event of a record of a hook, whose last event contains it whole.
fn redact_a_record(store: &Store) {
    let hash = blake3::hash(b"a record").to_hex();
    let stop = json!({"events": [
        {"id": format!("hook_~{hash}~"), "type": "agent.message", "content": SECRET},
        {"id": format!("hook_~{hash}~-1"), "type": "session.status_idle", "raw": {"last": SECRET}},
    ]});
    let stopped = store.post("/v1/sessions/agent/events?create=true", &stop);
    let ids: Vec<&str> =
        stopped["data"].as_array().unwrap().iter().map(|e| e["id"].as_str().unwrap()).collect();
    let redacted = store.redact("agent", ids[0]);
    assert_eq!(redacted["copies"], json!([{"id": ids[1], "position": 1}]), "{redacted}");
}

/// Redacts the result of [`worked`], and then the item of memory, too.
fn redact_the_result(store: &Store, found: &str) {
    let redacted = store.redact("work", "result");
    let copies = redacted["copies"].as_array().unwrap();
    let copies: Vec<&str> = copies.iter().map(|copy| copy["id"].as_str().unwrap()).collect();
    assert_eq!(copies, [found, "again"], "{redacted}");
    let memory = &redacted["memory"][0];
    assert_eq!((&memory["memory_id"], &memory["redacted"]), (&json!("item"), &json!(false)));
    let again = store.redact("work", "result");
    assert_eq!((&again["redacted"], &again["memory"]), (&json!(true), &redacted["memory"]));
    let path = "/v1/sessions/work/events/result/redact?with_memory=true";
    assert_eq!(store.post(path, &json!({}))["memory"][0]["redacted"], true);
}

/// Checks that no response about these sessions contains the words.
fn assert_unsaid(store: &Store, sessions: &[&str]) {
    let mut paths: Vec<String> = ["", "?order=asc"].map(|q| format!("/v1/sessions{q}")).into();
    for session in sessions {
        for verb in [
            "",
            "/events",
            "/export",
            "/views/window",
            "/views/index",
            "/views/summary",
            "/views/continuation",
            "/views/outputs",
            "/memory",
            "/checkpoints",
            "/lineage",
        ] {
            paths.push(format!("/v1/sessions/{session}{verb}"));
        }
    }
    for path in paths {
        let asked = async { store.client.send(asked(HttpRequest::get, &path)).await };
        let said = match store.runtime.block_on(asked) {
            Ok(answer) => String::from_utf8_lossy(&answer.body).into_owned(),
            Err(error) => error.to_string(),
        };
        assert!(WORDS.iter().all(|word| !said.contains(word)), "{path}: {said}");
    }
    let found = store.post("/v1/search", &json!({"q": "heliotrope", "wait_ms": 2000}));
    assert_eq!(found["hits"], json!([]), "{found}");
}

#[test]
fn a_redaction_redacts_events_derived_from_the_event() {
    for is_encrypted in [false, true] {
        let store = Store::new(is_encrypted);
        let saved = check_titles(&store);
        let found = worked(&store);
        redact_a_record(&store);
        redact_the_result(&store, &found);
        for session in [&*saved, "chat"] {
            for event in store.events(session) {
                if event.to_string().contains("heliotrope") {
                    store.redact(session, event["id"].as_str().unwrap());
                }
            }
        }
        assert_unsaid(&store, &[&saved, "chat", "fork", "work", "agent"]);
        let store = store.stopped();
        let words: Vec<Vec<u8>> = WORDS.map(|word| word.as_bytes().to_vec()).into();
        assert_eq!(store.holding(&words), Vec::<String>::new(), "{is_encrypted}");
    }
}
