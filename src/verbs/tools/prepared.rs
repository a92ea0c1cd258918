//! A tool as it is listed and called: the schemas of its arguments and its answer, made once from
//! the types of its verb and the table of its arguments; what is given, taken apart for the verb;
//! and the answer under the names of the tool. It must not know a verb.

use indexmap::{IndexMap, IndexSet};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};

use super::{
    arguments::{self, LOOK, MISSING},
    table::{RequestPart, TakenArgument, To, ToolPlace, ToolShape, list_point_as_text},
};
use crate::{
    service::{ServiceError, ServiceResult},
    wire::{
        NOTICE, TRUST,
        fitted::{Misfit, fitted},
        tools::{
            camel_name,
            names::{self, ToolNames},
        },
    },
};

/// Members that name the session of an answer, and those that mark recorded text.
const BOUND: [&str; 2] = ["sessionId", "boundBy"];
const MARKS: [&str; 2] = ["trust", "notice"];

/// A tool, ready to be listed and called.
#[derive(Debug)]
pub(super) struct Prepared {
    taken: Vec<TakenArgument>,
    pub(super) input: Value,
    pub(super) output: Map<String, Value>,
    pub(super) names: ToolNames,
    pub(super) place: ToolPlace,
    is_marked: bool,
}

impl Prepared {
    pub(super) fn new(declared: &ToolShape) -> Self {
        let (place, taken) = declared.taken();
        let properties = taken.iter().map(|one| (one.name.clone(), one.schema.clone()));
        let properties: Map<String, Value> = properties.collect();
        let mut input = json!({
            "type": "object", "additionalProperties": false, "properties": properties,
        });
        let required = taken.iter().filter(|one| one.is_required).map(|one| one.name.as_str());
        let required: Vec<&str> = required.collect();
        if let Some(input) = input.as_object_mut().filter(|_| !required.is_empty()) {
            input.insert("required".to_owned(), required.into());
        }
        let mut answer = Value::Object((declared.answer)());
        let names = ToolNames::from_schema(&mut answer, "", declared.changes);
        let first = if place == ToolPlace::Session { &BOUND[..] } else { &[] };
        let last = if declared.is_marked { &MARKS[..] } else { &[] };
        let output = with_texts(answer, first, last);
        Self { taken, input, output, names, place, is_marked: declared.is_marked }
    }

    /// Returns the schema of the arguments as it is listed.
    pub(super) fn listed_input(&self) -> Value {
        let mut input = self.input.clone();
        let properties = input.get_mut("properties").and_then(Value::as_object_mut);
        properties.into_iter().flat_map(Map::values_mut).for_each(list_point_as_text);
        input
    }

    /// Parses the arguments and assigns them to the parts of the request.
    pub(super) fn read(&self, text: &str) -> ServiceResult<GivenArguments<'_>> {
        let text = if text == "null" { "{}" } else { text };
        let fitted = fitted(text, &self.input);
        // A value of another form may still be valid: a point is a text or a number.
        let misfit = fitted.as_ref().err().cloned();
        let text = fitted.as_ref().map_or(text, |fitted| fitted);
        let refused = |error| misfit.clone().map_or(error, arguments::refused);
        let members: IndexMap<String, &RawValue> = serde_json::from_str(text)
            .map_err(|error| refused(ServiceError::invalid("arguments", error).action(LOOK)))?;
        let mut given = GivenArguments::new(self, misfit.clone());
        for (name, value) in members {
            let Some(taken) = self.taken.iter().find(|one| one.is_named(&name)) else {
                return Err(refused(self.unknown(&name)));
            };
            if value.get() == "null" {
                continue;
            }
            let of_call = |error| refused(ServiceError::invalid(&taken.name, error).action(LOOK));
            match taken.to {
                To::Session => given.session = parse_value(value).map_err(of_call)?,
                To::Workspace if given.workspace.is_some() => {
                    let problem = format!("{} is given twice, by two names", taken.name);
                    return Err(ServiceError::invalid(&name, problem).action(LOOK));
                }
                To::Workspace => given.workspace = parse_value(value).map_err(of_call)?,
                To::Fence => given.fence = parse_value(value).map_err(of_call)?,
                To::RequestPart(RequestPart::Params) if !is_scalar(value) => {
                    return Err(of_call(serde::de::Error::custom("a text is expected")));
                }
                To::RequestPart(part) => {
                    let value = match taken.is_point && !value.get().starts_with('"') {
                        true => Value::from(value.get()).to_string(),
                        false => taken.names.to_verb(value.get()).into_owned(),
                    };
                    given.members.push((part, taken.member.clone(), value));
                }
            }
        }
        let is_lacking = |one: &&TakenArgument| match one.to {
            To::Session => given.session.is_none(),
            To::Workspace => given.workspace.is_none(),
            To::RequestPart(_) => !given.members.iter().any(|(_, member, _)| *member == one.member),
            To::Fence => false,
        };
        match self.taken.iter().find(|one| one.is_required && is_lacking(one)) {
            Some(one) => Err(refused(ServiceError::invalid(&one.name, MISSING).action(LOOK))),
            None => Ok(given),
        }
    }

    fn unknown(&self, name: &str) -> ServiceError {
        let known: Vec<String> = self.taken.iter().map(|one| format!("`{}`", one.name)).collect();
        let known = known.join(", ");
        let problem = format!("unknown field `{name}`, expected one of {known}");
        ServiceError::invalid(name, problem).action(LOOK)
    }

    /// Replaces a member of the verb in the arguments.
    pub(super) fn with_argument(
        &self,
        arguments: String,
        (member, value): (&str, &impl Serialize),
    ) -> String {
        match self.taken.iter().find(|one| one.member == member) {
            Some(one) => names::with_member(arguments, &one.name, &one.names, value),
            None => arguments,
        }
    }

    /// Renames the field of a verb's error to the tool's argument, and the members that it quotes.
    pub(super) fn renamed(&self, mut error: ServiceError) -> ServiceError {
        let Some(field) = error.hint.field.as_deref() else { return error };
        let member = field.split(['[', '.']).next().unwrap_or_default();
        let is_it = |one: &&TakenArgument| {
            one.member.trim_end_matches("[]") == member || one.name == camel_name(member)
        };
        let Some(taken) = self.taken.iter().find(is_it) else { return error };
        let place = field.strip_prefix(&*taken.member).or_else(|| field.strip_prefix(member));
        let renamed = format!("{}{}", taken.name, place.unwrap_or_default());
        if let Some(problem) = error.message.strip_prefix(field) {
            error.message = format!("{renamed}{problem}");
        }
        error.message = taken.names.rename_quoted(error.message);
        error.hint.field = Some(renamed);
        error
    }

    /// Converts a response to the tool's names. `bound`: the session, and how it was found.
    pub(super) fn answered(&self, answer: &str, bound: Option<[&str; 2]>) -> String {
        let text = |text: &str| to_raw_value(text).expect("a text is JSON");
        let bound = BOUND.into_iter().zip(bound.into_iter().flatten());
        let mut all: IndexMap<String, Box<RawValue>> =
            bound.map(|(name, said)| (name.to_owned(), text(said))).collect();
        let answer = self.names.to_tool(answer);
        let own: IndexMap<_, _> = serde_json::from_str(&answer).expect("an answer is an object");
        all.extend(own);
        for (name, said) in MARKS.into_iter().zip([TRUST, NOTICE]).filter(|_| self.is_marked) {
            all.entry(name.to_owned()).or_insert_with(|| text(said));
        }
        serde_json::to_string(&all).expect("members are JSON")
    }
}

/// Arguments that were given.
pub(super) struct GivenArguments<'a> {
    prepared: &'a Prepared,
    /// The member of a part that each is, and its JSON text.
    members: Vec<(RequestPart, String, String)>,
    misfit: Option<Misfit>,
    pub(super) session: Option<String>,
    pub(super) workspace: Option<String>,
    pub(super) fence: Option<u64>,
}

impl<'a> GivenArguments<'a> {
    fn new(prepared: &'a Prepared, misfit: Option<Misfit>) -> Self {
        let (session, workspace, fence) = (None, None, None);
        Self { prepared, members: Vec::new(), misfit, session, workspace, fence }
    }

    fn members_of(&self, part: RequestPart) -> impl Iterator<Item = (&str, &str)> {
        let of_part = self.members.iter().filter(move |(of, ..)| *of == part);
        of_part.map(|(_, name, value)| (name.as_str(), value.as_str()))
    }

    /// Parses a part of the request.
    pub(super) fn part<T: DeserializeOwned>(&self, part: RequestPart) -> ServiceResult<T> {
        let members =
            self.members_of(part).map(|(name, value)| format!("{}:{value}", Value::from(name)));
        let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        arguments::judged(&text).map_err(|error| match self.misfit.clone() {
            Some(misfit) => arguments::refused(misfit),
            None => self.prepared.renamed(error),
        })
    }

    /// Returns the path parameters as texts.
    pub(super) fn params(&self) -> Vec<(String, String)> {
        let text = |value: &str| serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
        self.members_of(RequestPart::Params)
            .map(|(name, value)| (name.to_owned(), text(value)))
            .collect()
    }
}

/// Returns the schema of a response with text members added before and after its own.
fn with_texts(answer: Value, first: &[&str], last: &[&str]) -> Map<String, Value> {
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
