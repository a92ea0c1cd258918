//! A refused tool call as a model sees it: a sentence, then the same facts as JSON in camelCase.
//! Built from the error body that every interface has, so that a call reads the same with and
//! without an owner between. It must not leave out a fact.

use serde_json::{Map, Value, json};

use crate::{api::error::ErrorBody, service::ServiceError, wire::convert};

/// Refusal or failure of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// One of the closed list of codes.
    pub code: String,
    /// A sentence.
    pub message: String,
    /// True if the same call may succeed later, unchanged.
    pub retryable: bool,
    hint: Map<String, Value>,
}

impl From<&ServiceError> for Failure {
    fn from(error: &ServiceError) -> Self {
        Self::of_body(&convert::error(error, None))
    }
}

impl Failure {
    /// The failure of an error body.
    #[must_use]
    pub fn of_body(body: &ErrorBody) -> Self {
        let detail = &body.error;
        let hint = match serde_json::to_value(&detail.recovery_hint).map(camel) {
            Ok(Value::Object(hint)) => hint,
            _ => Map::new(),
        };
        Self {
            code: detail.code.clone(),
            message: detail.message.clone(),
            retryable: detail.recovery_hint.retryable,
            hint,
        }
    }

    /// A failure without facts.
    #[must_use]
    pub fn plain(code: &str, message: &str, retryable: bool) -> Self {
        let (code, message) = (code.to_owned(), message.to_owned());
        Self { code, message, retryable, hint: Map::new() }
    }

    /// The failure without the tools that the client is not offered, by their names. Clauses of an
    /// action end with a semicolon; what is quoted in one, or a part of an id, names no tool.
    #[must_use]
    pub fn offering(mut self, offered: impl Fn(&str) -> bool) -> Self {
        let mark = |c: char| !c.is_ascii_alphanumeric();
        let call = self.hint.get("call").and_then(|call| call.get("tool")).and_then(Value::as_str);
        if call.is_some_and(|name| !offered(name)) {
            self.hint.remove("call");
        }
        if let Some(Value::String(action)) = self.hint.remove("action") {
            let (own, mut from, mut clauses) = (unquoted(&action), 0, Vec::new());
            for clause in own.split("; ") {
                let to = from + clause.len();
                let words = clause.split_whitespace().map(|word| word.trim_matches(mark));
                // The other names are words of English, too.
                if words.filter(|word| word.contains('_')).all(&offered) {
                    clauses.extend(action.get(from..to));
                }
                from = to + "; ".len();
            }
            let action = clauses.join("; ");
            if !action.is_empty() {
                self.hint.insert("action".to_owned(), json!(action));
            }
        }
        self
    }

    /// Text for a model.
    #[must_use]
    pub fn text(&self) -> String {
        let mut hint = self.hint.clone();
        hint.remove("retryable");
        let last_step = hint.remove("lastStep");
        let steps = last_step.as_ref().and_then(Value::as_u64).unwrap_or(0);
        let candidates = hint.get("candidates").and_then(Value::as_array).map_or(0, Vec::len);
        if let Some(last_step) = last_step {
            hint.insert("lastKnownStep".to_owned(), last_step);
        }
        hint.insert("canResume".to_owned(), json!(steps > 0 || candidates > 0));
        if candidates > 0 {
            // Their titles are recorded text.
            hint.insert("trust".to_owned(), json!(super::TRUST));
            hint.insert("notice".to_owned(), json!(super::NOTICE));
        }
        let action = hint.get("action").and_then(Value::as_str);
        let action = action.map(|action| format!(" To continue: {action}.")).unwrap_or_default();
        let facts = json!({ "error": {
            "kind": self.code,
            "message": self.message,
            "retryable": self.retryable,
            "suggestedAction": if self.retryable { "retry" } else { "follow_hint" },
            "recoveryHint": hint,
        } });
        format!("{}.{action}\n\n{facts}", self.message)
    }
}

/// The same text, as long in bytes, with dots for what is between quotes or backticks.
fn unquoted(text: &str) -> String {
    let (mut own, mut quote, mut is_escaped) = (String::with_capacity(text.len()), None, false);
    for c in text.chars() {
        match quote {
            Some(end) => {
                quote = quote.filter(|_| is_escaped || c != end);
                is_escaped = c == '\\' && !is_escaped;
                own.extend(std::iter::repeat_n('.', c.len_utf8()));
            }
            None => {
                quote = Some(c).filter(|c| matches!(c, '"' | '`'));
                own.push(c);
            }
        }
    }
    own
}

/// The same value with camelCase names.
fn camel(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(camel).collect(),
        Value::Object(members) => {
            let renamed =
                members.into_iter().map(|(name, value)| (camel_name(&name), camel(value)));
            Value::Object(renamed.collect())
        }
        other => other,
    }
}

/// A name in camelCase.
pub(crate) fn camel_name(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
