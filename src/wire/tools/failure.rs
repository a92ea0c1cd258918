//! A refused tool call as a model sees it: a sentence, then the same facts as JSON in camelCase. It
//! is built from the error body of every interface, so that a call reads the same with and without
//! an owner in between. It must not omit a fact.

use serde_json::{Map, Value, json};

use crate::{api::error::ErrorBody, service::ServiceError, wire::convert};

/// Refusal or failure of a tool call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFailure {
    /// Error code, one of a closed list.
    pub code: String,
    /// Message, one sentence.
    pub message: String,
    /// True if the same call may succeed later, unchanged.
    pub retryable: bool,
    hint: Map<String, Value>,
}

impl From<&ServiceError> for ToolFailure {
    fn from(error: &ServiceError) -> Self {
        Self::from_body(&convert::error_body(error, None))
    }
}

impl ToolFailure {
    /// Creates the failure from an error body.
    #[must_use]
    pub fn from_body(body: &ErrorBody) -> Self {
        let detail = &body.error;
        let hint = match serde_json::to_value(&detail.recovery_hint).map(rename_to_camel_case) {
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

    /// Creates a failure without facts.
    #[must_use]
    pub fn without_hint(code: &str, message: &str, retryable: bool) -> Self {
        let (code, message) = (code.to_owned(), message.to_owned());
        Self { code, message, retryable, hint: Map::new() }
    }

    /// Removes advice that names tools which the client is not offered. Clauses of an action end
    /// with a semicolon; a quoted name, or a part of an id, names no tool.
    #[must_use]
    pub fn without_hidden_tools(mut self, offered: impl Fn(&str) -> bool) -> Self {
        let mark = |c: char| !c.is_ascii_alphanumeric();
        let call = self.hint.get("call").and_then(|call| call.get("tool")).and_then(Value::as_str);
        if call.is_some_and(|name| !offered(name)) {
            self.hint.remove("call");
        }
        if let Some(Value::String(action)) = self.hint.remove("action") {
            let (own, mut from, mut clauses) = (mask_quotes(&action), 0, Vec::new());
            for clause in own.split("; ") {
                let to = from + clause.len();
                let words = clause.split_whitespace().map(|word| word.trim_matches(mark));
                // The other names are also English words.
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

    /// Formats the failure as text for a model.
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
            // Titles of candidates are recorded text.
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

/// Replaces the content of quotes and backticks by dots of the same length in bytes.
fn mask_quotes(text: &str) -> String {
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

/// Renames the members of a value to camelCase.
fn rename_to_camel_case(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(rename_to_camel_case).collect(),
        Value::Object(members) => {
            let renamed = members
                .into_iter()
                .map(|(name, value)| (to_camel_case(&name), rename_to_camel_case(value)));
            Value::Object(renamed.collect())
        }
        other => other,
    }
}

/// Converts a name to camelCase.
pub(crate) fn to_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
