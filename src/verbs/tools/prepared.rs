//! A tool prepared for listing and calls: schemas of its arguments and its answer, built once from
//! the types of its verb and the table of its arguments; the arguments of a call, by part of the
//! request; and the answer under the names of the tool. It must not know a verb.

use indexmap::{IndexMap, IndexSet};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    arguments::{self, ADVICE, MISSING},
    table::{
        AcceptedArgument, ArgumentTarget, RequestPart, ToolShape, ToolTarget, list_point_as_text,
    },
};
use crate::{
    service::{ServiceError, ServiceResult},
    wire::{
        NOTICE, TRUST,
        coerce::{Mismatch, coerce},
        tools::{
            names::{self, ToolNames},
            to_camel_case,
        },
    },
};

/// Members that name the session of an answer, and members that mark recorded text.
const BOUND: [&str; 2] = ["sessionId", "boundBy"];
const MARKS: [&str; 2] = ["trust", "notice"];

/// A tool, ready to be listed and called.
#[derive(Debug)]
pub(super) struct PreparedTool {
    accepted: Vec<AcceptedArgument>,
    pub(super) input: Value,
    pub(super) output: Map<String, Value>,
    pub(super) names: ToolNames,
    pub(super) target: ToolTarget,
    is_marked: bool,
}

impl PreparedTool {
    pub(super) fn new(declared: &ToolShape) -> Self {
        let (target, accepted) = declared.accepted_arguments();
        let properties = accepted.iter().map(|one| (one.name.clone(), one.schema.clone()));
        let properties: Map<String, Value> = properties.collect();
        let mut input = json!({
            "type": "object", "additionalProperties": false, "properties": properties,
        });
        let required = accepted.iter().filter(|one| one.is_required).map(|one| one.name.as_str());
        let required: Vec<&str> = required.collect();
        if let Some(input) = input.as_object_mut().filter(|_| !required.is_empty()) {
            input.insert("required".to_owned(), required.into());
        }
        let mut answer = Value::Object((declared.answer)());
        let names = ToolNames::from_schema(&mut answer, "", declared.changes);
        let first = if target == ToolTarget::Session { &BOUND[..] } else { &[] };
        let last = if declared.is_marked { &MARKS[..] } else { &[] };
        let output = with_text_members(answer, first, last);
        Self { accepted, input, output, names, target, is_marked: declared.is_marked }
    }

    /// Returns the schema of the arguments as it is listed.
    pub(super) fn input_for_listing(&self) -> Value {
        let mut input = self.input.clone();
        let properties = input.get_mut("properties").and_then(Value::as_object_mut);
        properties.into_iter().flat_map(Map::values_mut).for_each(list_point_as_text);
        input
    }

    /// Parses the arguments and assigns them to the parts of the request.
    pub(super) fn parse_arguments(&self, text: &str) -> ServiceResult<GivenArguments<'_>> {
        let text = if text == "null" { "{}" } else { text };
        let coerced = coerce(text, &self.input);
        // A value of another form may still be valid: a point is a text or a number.
        let mismatch = coerced.as_ref().err().cloned();
        let text = coerced.as_ref().map_or(text, |coerced| coerced);
        let refused = |error| mismatch.clone().map_or(error, arguments::mismatch_error);
        let members: IndexMap<String, &RawValue> = serde_json::from_str(text)
            .map_err(|error| refused(ServiceError::invalid("arguments", error).action(ADVICE)))?;
        let mut given = GivenArguments::new(self, mismatch.clone());
        for (name, value) in members {
            let Some(argument) = self.accepted.iter().find(|one| one.is_named(&name)) else {
                return Err(refused(self.unknown_argument(&name)));
            };
            if value.get() == "null" {
                continue;
            }
            let of_call =
                |error| refused(ServiceError::invalid(&argument.name, error).action(ADVICE));
            match argument.to {
                ArgumentTarget::Session => given.session = parse_value(value).map_err(of_call)?,
                ArgumentTarget::Workspace if given.workspace.is_some() => {
                    let problem = format!("{} is given twice, by two names", argument.name);
                    return Err(ServiceError::invalid(&name, problem).action(ADVICE));
                }
                ArgumentTarget::Workspace => {
                    given.workspace = parse_value(value).map_err(of_call)?
                }
                ArgumentTarget::Fence => given.fence = parse_value(value).map_err(of_call)?,
                ArgumentTarget::RequestPart(RequestPart::Params) if !is_scalar(value) => {
                    return Err(of_call(serde::de::Error::custom("a text is expected")));
                }
                ArgumentTarget::RequestPart(part) => {
                    let value = match argument.is_point && !value.get().starts_with('"') {
                        true => Value::from(value.get()).to_string(),
                        false => argument.names.to_verb(value.get()).into_owned(),
                    };
                    given.members.push((part, argument.member.clone(), value));
                }
            }
        }
        let is_lacking = |one: &&AcceptedArgument| match one.to {
            ArgumentTarget::Session => given.session.is_none(),
            ArgumentTarget::Workspace => given.workspace.is_none(),
            ArgumentTarget::RequestPart(_) => {
                !given.members.iter().any(|(_, member, _)| *member == one.member)
            }
            ArgumentTarget::Fence => false,
        };
        match self.accepted.iter().find(|one| one.is_required && is_lacking(one)) {
            Some(one) => Err(refused(ServiceError::invalid(&one.name, MISSING).action(ADVICE))),
            None => Ok(given),
        }
    }

    fn unknown_argument(&self, name: &str) -> ServiceError {
        let known: Vec<String> =
            self.accepted.iter().map(|one| format!("`{}`", one.name)).collect();
        let known = known.join(", ");
        let problem = format!("unknown field `{name}`, expected one of {known}");
        ServiceError::invalid(name, problem).action(ADVICE)
    }

    /// Replaces a member of the verb in the arguments.
    pub(super) fn with_argument(
        &self,
        arguments: String,
        (member, value): (&str, &impl Serialize),
    ) -> String {
        match self.accepted.iter().find(|one| one.member == member) {
            Some(one) => names::replace_member(arguments, &one.name, &one.names, value),
            None => arguments,
        }
    }

    /// Renames the field of a verb's error to the tool's argument, and the members that it quotes.
    pub(super) fn rename_error_field(&self, mut error: ServiceError) -> ServiceError {
        let Some(field) = error.hint.field.as_deref() else { return error };
        let member = field.split(['[', '.']).next().unwrap_or_default();
        let is_it = |one: &&AcceptedArgument| {
            one.member.trim_end_matches("[]") == member || one.name == to_camel_case(member)
        };
        let Some(argument) = self.accepted.iter().find(is_it) else { return error };
        let suffix = field.strip_prefix(&*argument.member).or_else(|| field.strip_prefix(member));
        let renamed = format!("{}{}", argument.name, suffix.unwrap_or_default());
        if let Some(problem) = error.message.strip_prefix(field) {
            error.message = format!("{renamed}{problem}");
        }
        error.message = argument.names.rename_quoted(&error.message);
        error.hint.field = Some(renamed);
        error
    }

    /// Converts a response to the tool's names. `bound`: the session, and how it was found.
    pub(super) fn convert_answer(&self, answer: &str, bound: Option<[&str; 2]>) -> String {
        let text = |text: &str| to_raw_value(text).expect("a text is JSON");
        let bound = BOUND.into_iter().zip(bound.into_iter().flatten());
        let mut all: IndexMap<String, Box<RawValue>> =
            bound.map(|(name, value)| (name.to_owned(), text(value))).collect();
        let answer = self.names.to_tool(answer);
        let own: IndexMap<_, _> = serde_json::from_str(&answer).expect("an answer is an object");
        all.extend(own);
        for (name, value) in MARKS.into_iter().zip([TRUST, NOTICE]).filter(|_| self.is_marked) {
            all.entry(name.to_owned()).or_insert_with(|| text(value));
        }
        serde_json::to_string(&all).expect("members are JSON")
    }
}

/// Arguments of a call.
pub(super) struct GivenArguments<'a> {
    prepared: &'a PreparedTool,
    /// Part, member and JSON text of each argument.
    members: Vec<(RequestPart, String, String)>,
    mismatch: Option<Mismatch>,
    pub(super) session: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) fence: Option<u64>,
}

impl<'a> GivenArguments<'a> {
    fn new(prepared: &'a PreparedTool, mismatch: Option<Mismatch>) -> Self {
        let (session, workspace, fence) = (None, None, None);
        Self { prepared, members: Vec::new(), mismatch, session, workspace, fence }
    }

    fn members_of(&self, part: RequestPart) -> impl Iterator<Item = (&str, &str)> {
        let of_part = self.members.iter().filter(move |(of, ..)| *of == part);
        of_part.map(|(_, name, value)| (name.as_str(), value.as_str()))
    }

    pub(super) fn parse_part<T: DeserializeOwned>(&self, part: RequestPart) -> ServiceResult<T> {
        let members =
            self.members_of(part).map(|(name, value)| format!("{}:{value}", Value::from(name)));
        let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        arguments::parse_arguments(&text).map_err(|error| match self.mismatch.clone() {
            Some(mismatch) => arguments::mismatch_error(mismatch),
            None => self.prepared.rename_error_field(error),
        })
    }

    /// Returns the path parameters as texts.
    pub(super) fn path_params(&self) -> Vec<(String, String)> {
        let text = |value: &str| serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
        self.members_of(RequestPart::Params)
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect()
    }
}

/// Returns the schema of a response with text members added before and after its own.
fn with_text_members(answer: Value, first: &[&str], last: &[&str]) -> Map<String, Value> {
    let text = |name: &&str| ((*name).to_owned(), json!({ "type": "string" }));
    let mut properties: Map<String, Value> = first.iter().map(text).collect();
    let own = answer.get("properties").and_then(Value::as_object).cloned();
    properties.extend(own.unwrap_or_default());
    for (name, text) in last.iter().map(text) {
        properties.entry(name).or_insert(text);
    }
    let own = answer.get("required").and_then(Value::as_array).into_iter().flatten();
    let names = first.iter().copied().chain(own.filter_map(Value::as_str));
    let required: IndexSet<&str> = names.chain(last.iter().copied()).collect();
    let mut all = Map::from_iter([
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::Object(properties)),
    ]);
    if !required.is_empty() {
        all.insert("required".to_owned(), json!(required));
    }
    all
}

/// Returns true for a string or a number, which a path parameter may be.
fn is_scalar(value: &RawValue) -> bool {
    value.get().starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit())
}

fn parse_value<T: DeserializeOwned>(value: &RawValue) -> serde_json::Result<Option<T>> {
    serde_json::from_str(value.get()).map(Some)
}
