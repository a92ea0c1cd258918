//! The fixtures that ask the client something before they answer: requests of the server's in the
//! generations with connections, rounds of `input_required` in the one without. It must not
//! believe a state that comes back: it is sealed.

use std::collections::BTreeMap;

use rmcp::{
    ErrorData,
    model::{ClientCapabilities, InputRequiredResult, ServerRequest},
};
use serde_json::{Value, json};

use super::content::of;

/// Seals states; a fixture's key is no secret.
const KEY: [u8; 32] = [7; 32];

/// Outcome of a round.
pub enum Round {
    /// The client has to answer first.
    Asked(InputRequiredResult),
    /// It answered everything; the words of the result.
    Done(String),
}

/// Parts of a call that the client sent.
pub struct Given<'a> {
    pub responses: Option<&'a BTreeMap<String, Value>>,
    pub state: Option<&'a str>,
    pub capabilities: ClientCapabilities,
}

impl Given<'_> {
    fn response(&self, key: &str) -> Option<&Value> {
        self.responses?.get(key)
    }

    /// The state that came back, or that it was tampered with.
    fn opened(&self) -> Result<Option<&str>, ErrorData> {
        let Some(sealed) = self.state else { return Ok(None) };
        let (state, seal) = sealed.rsplit_once('.').unwrap_or((sealed, ""));
        if seal != seal_of(state) {
            return Err(ErrorData::invalid_params("the request state was tampered with", None));
        }
        Ok(Some(state))
    }
}

fn seal_of(state: &str) -> String {
    blake3::keyed_hash(&KEY, state.as_bytes()).to_hex().to_string()
}

fn form(message: &str, property: &str, kind: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {property: {"type": kind}},
            "required": [property],
        },
    }})
}

fn question(text: &str, tokens_max: u64) -> Value {
    json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        "maxTokens": tokens_max,
    }})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Asks for these, with a state to bring back.
fn asked(requests: &[(&str, Value)], state: Option<&str>) -> Round {
    let requests: serde_json::Map<String, Value> =
        requests.iter().map(|(key, request)| ((*key).to_owned(), request.clone())).collect();
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = json!(format!("{state}.{}", seal_of(state)));
    }
    Round::Asked(of(result))
}

/// The value a form was filled in with.
fn filled<'a>(response: &'a Value, property: &str) -> Option<&'a Value> {
    (response["action"] == "accept").then(|| response["content"].get(property))?
}

/// The round a fixture is in; `None` when it is none of these.
pub fn round(fixture: &str, given: &Given) -> Result<Option<Round>, ErrorData> {
    let name = || form("What is your name?", "name", "string");
    let state = given.opened()?;
    let round = match fixture.strip_prefix("test_input_required_result_") {
        Some("elicitation") => {
            let named = given.response("user_name").and_then(|found| filled(found, "name"));
            match named.and_then(Value::as_str) {
                Some(named) => Round::Done(format!("Hello, {named}!")),
                None => asked(&[("user_name", name())], None),
            }
        }
        Some("sampling") => match given.response("capital_question") {
            Some(answer) => Round::Done(format!("The model said: {}", answer["content"])),
            None => {
                let request = question("What is the capital of France?", 100);
                asked(&[("capital_question", request)], None)
            }
        },
        Some("list_roots") => match given.response("client_roots") {
            Some(found) => Round::Done(format!("The roots are {}", found["roots"])),
            None => asked(&[("client_roots", roots())], None),
        },
        Some(which @ ("request_state" | "tampered_state")) => {
            match (given.response("confirm"), state) {
                (Some(_), Some(state)) if state == which => Round::Done("state-ok".to_owned()),
                _ => {
                    let request = form("Please confirm", "ok", "boolean");
                    asked(&[("confirm", request)], Some(which))
                }
            }
        }
        Some("multiple_inputs") => {
            let all = ["user_name", "greeting", "client_roots"];
            match state {
                Some("several") if all.iter().all(|key| given.response(key).is_some()) => {
                    Round::Done("all three came".to_owned())
                }
                _ => {
                    let greeting = question("Generate a greeting", 50);
                    let roots = ("client_roots", roots());
                    asked(&[("user_name", name()), ("greeting", greeting), roots], Some("several"))
                }
            }
        }
        Some("multi_round") => match (given.response("step1"), given.response("step2"), state) {
            (_, Some(_), Some("second")) => Round::Done("both rounds are done".to_owned()),
            (Some(_), _, Some("first")) => {
                let request = form("Step 2: What is your favorite color?", "color", "string");
                asked(&[("step2", request)], Some("second"))
            }
            _ => {
                let request = form("Step 1: What is your name?", "name", "string");
                asked(&[("step1", request)], Some("first"))
            }
        },
        Some("capabilities") => able(given),
        Some("prompt") => match given.response("user_context") {
            Some(found) => Round::Done(format!("In the context {}", found["content"])),
            None => {
                let request = form("What context should the prompt use?", "context", "string");
                asked(&[("user_context", request)], None)
            }
        },
        _ if fixture == "test_streaming_elicitation" => asked(&[("user_name", name())], None),
        _ => return Ok(None),
    };
    Ok(Some(round))
}

/// Asks only for what the client said it can do.
fn able(given: &Given) -> Round {
    let can = &given.capabilities;
    let requests = [
        ("user_name", form("What is your name?", "name", "string"), can.elicitation.is_some()),
        ("greeting", question("Generate a greeting", 50), can.sampling.is_some()),
        ("client_roots", roots(), can.roots.is_some()),
    ];
    let requests: Vec<_> =
        requests.into_iter().filter(|(.., able)| *able).map(|(key, ask, _)| (key, ask)).collect();
    if requests.iter().all(|(key, _)| given.response(key).is_some()) {
        return Round::Done("everything this client can say was said".to_owned());
    }
    asked(&requests, None)
}

/// The request a fixture sends in the generations with connections, and the form of its result.
pub fn request(fixture: &str, argument: impl Fn(&str) -> String) -> Option<ServerRequest> {
    let elicit = |message: &str, schema: Value| {
        let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
        json!({"method": "elicitation/create", "params": params})
    };
    let request = match fixture {
        "test_sampling" => question(&argument("prompt"), 100),
        "test_elicitation" => elicit(
            &argument("message"),
            json!({
                "type": "object",
                "properties": {
                    "username": {"type": "string", "description": "User's response"},
                    "email": {"type": "string", "description": "User's email address"},
                },
                "required": ["username", "email"],
            }),
        ),
        "test_elicitation_sep1034_defaults" => elicit(
            "Take the defaults, or others",
            json!({"type": "object", "properties": {
                "name": {"type": "string", "default": "John Doe"},
                "age": {"type": "integer", "default": 30},
                "score": {"type": "number", "default": 95.5},
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                },
                "verified": {"type": "boolean", "default": true},
            }}),
        ),
        "test_elicitation_sep1330_enums" => elicit("Choose", choices()),
        _ => return None,
    };
    Some(of(request))
}

/// Every way a form can offer choices.
fn choices() -> Value {
    let titled = |titles: [(&str, &str); 3]| {
        titles.map(|(value, title)| json!({"const": value, "title": title}))
    };
    let of_three =
        [("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")];
    let many =
        [("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")];
    let plain = ["option1", "option2", "option3"];
    json!({"type": "object", "properties": {
        "untitledSingle": {"type": "string", "enum": plain},
        "titledSingle": {"type": "string", "oneOf": titled(of_three)},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": plain}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled(many)}},
    }})
}
