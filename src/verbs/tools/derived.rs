//! The tool that a verb is. Its arguments are the verb's place, query and body in one object, its
//! answer is the verb's. Both have the names of tools, which are in camelCase, and the session may
//! be left out for the bound one. It must not know a verb.

use std::borrow::Cow;

use futures_util::future::BoxFuture;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer, de::DeserializeOwned, ser::Error as _};
use serde_json::{Map, Value, json};

use super::{
    ToolCall,
    arguments::{self, renamed},
};
use crate::{
    service::{ServiceError, ServiceResult},
    verbs::{Asks, Need, PathParams, Serve, Verb, VerbCall, keyed},
    wire::{
        NOTICE, TRUST,
        fitted::fitted,
        schema,
        tools::{answer::bound_by, camel_name},
    },
};

/// The argument and the member that name the session.
const SESSION: &str = "sessionId";
/// The argument that is the token of the session's lease.
const FENCE: &str = "fencingToken";

/// An answer of a verb under the names of a tool.
pub struct Camel<T>(pub T);

impl<T: Serialize + JsonSchema> Serialize for Camel<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let shape = Value::Object(schema::input::<T>());
        let answer = serde_json::to_value(&self.0).map_err(S::Error::custom)?;
        let mut answer = into_map(named(answer, &shape, NamesOf::Tool));
        answer.entry("trust").or_insert_with(|| json!(TRUST));
        answer.entry("notice").or_insert_with(|| json!(NOTICE));
        answer.serialize(to)
    }
}

impl<T: JsonSchema> JsonSchema for Camel<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OfTool", T::schema_name()).into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut all = into_map(in_camel(Value::Object(schema::input::<T>())));
        if let Some(properties) = all.get_mut("properties").and_then(Value::as_object_mut) {
            for name in ["trust", "notice"] {
                properties.entry(name).or_insert_with(|| json!({ "type": "string" }));
            }
        }
        all.into()
    }
}

/// Kind of the names that an object has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NamesOf {
    Tool,
    Verb,
}

/// Schema of the arguments.
pub(super) fn input<V: Verb>() -> Map<String, Value> {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for part in parts::<V>() {
        let part = in_camel(part);
        let members = |name: &str| part.get(name).cloned().unwrap_or_default();
        properties.extend(members("properties").as_object().cloned().unwrap_or_default());
        required.extend(members("required").as_array().cloned().unwrap_or_default());
    }
    if takes_session::<V>() {
        let session = json!({ "type": "string", "description": "Left out: the bound session." });
        properties.shift_insert(0, SESSION.to_owned(), session);
    }
    if V::ROUTE.need != Need::READ {
        let about = "Token of the session's lease, if any.";
        let fence = json!({ "type": "integer", "minimum": 0, "description": about });
        properties.insert(FENCE.to_owned(), fence);
    }
    let mut all = into_map(json!({
        "type": "object", "properties": properties, "additionalProperties": false,
    }));
    if !required.is_empty() {
        all.insert("required".to_owned(), Value::Array(required));
    }
    all
}

/// Schema of the answer.
pub(super) fn output<V: Verb>() -> Map<String, Value> {
    let mut all = into_map(in_camel(Value::Object(schema::input::<V::Answer>())));
    all.insert("type".to_owned(), json!("object"));
    let properties = all.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        for name in [SESSION, "boundBy", "trust", "notice"] {
            properties.entry(name).or_insert_with(|| json!({ "type": "string" }));
        }
    }
    all
}

/// Carries the verb out.
pub(super) fn serve<V: Serve>(
    call: ToolCall<'_>,
    given: String,
) -> BoxFuture<'_, ServiceResult<String>> {
    Box::pin(async move {
        let fitted = fitted(&given, &Value::Object(input::<V>()));
        let text = fitted.as_ref().map_or(&*given, |fitted| fitted);
        // What is of another form may fit all the same: a point is a text or a number.
        let misfit = fitted.as_ref().err().cloned();
        let misfit = |error| misfit.clone().map_or_else(|| renamed(error), arguments::refused);
        let mut given: Map<String, Value> = arguments::judged(text).map_err(misfit)?;
        let ToolCall { service, owner, who, via, .. } = call;
        let caller = call.holding(taken(&mut given, FENCE)?);
        let mut bound = None;
        if takes_session::<V>() {
            let session: Option<String> = taken(&mut given, SESSION)?;
            let session = call.named(session.as_deref())?;
            bound = Some(service.bound(&caller, via, session.as_ref()).await?);
        }
        let [params, query, body] = parts::<V>();
        let params = of_part(&mut given, &params);
        let (query, body) = (of_part(&mut given, &query), of_part(&mut given, &body));
        if let Some(name) = given.keys().next() {
            return Err(ServiceError::invalid(name, "there is no such argument")
                .action("look at the tool's input schema"));
        }
        let text = |value: Value| match value {
            Value::String(text) => text,
            other => other.to_string(),
        };
        let params = params.into_iter().map(|(name, value)| (name, text(value)));
        let session = bound.iter().map(|(session, _)| ("session".to_owned(), session.to_string()));
        let params: Vec<(String, String)> = params.chain(session).collect();
        let params = V::Params::read(&params).map_err(renamed)?;
        let query = arguments::judged(&Value::Object(query).to_string()).map_err(misfit)?;
        let body = match V::ASKS {
            Asks::Nothing => serde_json::from_str("null").expect("the body of such a verb is ()"),
            Asks::Maybe(_) | Asks::Body(_) => {
                arguments::judged(&Value::Object(body).to_string()).map_err(misfit)?
            }
        };
        let key = V::KEY.and(call.key).cloned();
        let key = key.map(|key| keyed::<V>(key, &params, &query, &body));
        let verb = VerbCall::<V> { service, owner, caller, who, key, params, query, body };
        let answer = V::serve(verb).await.map_err(renamed)?;
        let answer = serde_json::to_value(&answer).expect("an answer is JSON");
        let shape = Value::Object(schema::input::<V::Answer>());
        let mut answer = into_map(named(answer, &shape, NamesOf::Tool));
        if let Some((session, by)) = bound {
            service.bind(call.caller, via, &session);
            answer.shift_insert(0, SESSION.to_owned(), json!(session.as_str()));
            answer.shift_insert(1, "boundBy".to_owned(), json!(bound_by(by)));
        }
        answer.entry("trust").or_insert_with(|| json!(TRUST));
        answer.entry("notice").or_insert_with(|| json!(NOTICE));
        Ok(Value::Object(answer).to_string())
    })
}

/// The schemas of the parameters of its path, but for the session, of its query and its body.
fn parts<V: Verb>() -> [Value; 3] {
    let mut params = schema::input::<V::Params>();
    if let Some(Value::Object(properties)) = params.get_mut("properties") {
        properties.shift_remove("session");
    }
    if let Some(Value::Array(required)) = params.get_mut("required") {
        required.retain(|name| name != "session");
    }
    [params, schema::input::<V::Query>(), schema::input::<V::Body>()].map(Value::Object)
}

fn takes_session<V: Verb>() -> bool {
    V::ROUTE.path.contains("{session}")
}

/// Takes an argument that every such tool has.
fn taken<T: DeserializeOwned>(
    given: &mut Map<String, Value>,
    name: &str,
) -> ServiceResult<Option<T>> {
    let value = given.shift_remove(name).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| ServiceError::invalid(name, error))
}

fn into_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// The name that a member of a verb has in its tool.
fn in_tool(name: &str) -> String {
    camel_name(name.trim_end_matches("[]"))
}

/// Takes the arguments that a schema has, under the verb's names.
fn of_part(given: &mut Map<String, Value>, schema: &Value) -> Map<String, Value> {
    let is_of = |name: &String| property(schema, name, NamesOf::Tool).is_some();
    let names: Vec<String> = given.keys().filter(|name| is_of(name)).cloned().collect();
    let own = names.into_iter().filter_map(|name| given.shift_remove_entry(&name));
    into_map(named(Value::Object(own.collect()), schema, NamesOf::Verb))
}

/// The same schema with the names of a tool.
fn in_camel(schema: Value) -> Value {
    let Value::Object(members) = schema else { return schema };
    let renamed = members.into_iter().map(|(keyword, value)| {
        let value = match (keyword.as_str(), value) {
            ("properties", Value::Object(all)) => {
                all.into_iter().map(|(name, inner)| (in_tool(&name), in_camel(inner))).collect()
            }
            ("required", Value::Array(all)) => {
                all.iter().filter_map(Value::as_str).map(in_tool).collect()
            }
            ("anyOf" | "oneOf" | "allOf", Value::Array(all)) => {
                all.into_iter().map(in_camel).collect()
            }
            ("items" | "additionalProperties", inner) => in_camel(inner),
            (_, value) => value,
        };
        (keyword, value)
    });
    Value::Object(renamed.collect())
}

/// The same value with the names wanted. A member that its schema does not name is the client's
/// own and keeps its name. A tool's answer has no nulls.
fn named(value: Value, schema: &Value, wanted: NamesOf) -> Value {
    let inner = |keyword: &str| schema.get(keyword).unwrap_or(&Value::Null);
    match value {
        Value::Array(items) => {
            items.into_iter().map(|item| named(item, inner("items"), wanted)).collect()
        }
        Value::Object(members) => {
            let from = if wanted == NamesOf::Tool { NamesOf::Verb } else { NamesOf::Tool };
            let renamed = members.into_iter().filter_map(|(name, value)| {
                match property(schema, &name, from) {
                    Some(_) if wanted == NamesOf::Tool && value.is_null() => None,
                    Some((known, schema)) if wanted == NamesOf::Tool => {
                        Some((in_tool(known), named(value, schema, wanted)))
                    }
                    Some((known, schema)) => Some((known.clone(), named(value, schema, wanted))),
                    None => Some((name, named(value, inner("additionalProperties"), wanted))),
                }
            });
            Value::Object(renamed.collect())
        }
        other => other,
    }
}

/// The property of a schema that has a name: its name in the verb, and its schema.
fn property<'a>(schema: &'a Value, name: &str, names: NamesOf) -> Option<(&'a String, &'a Value)> {
    let is = |known: &str| match names {
        NamesOf::Verb => known == name,
        NamesOf::Tool => in_tool(known) == name,
    };
    let own = schema.get("properties").and_then(Value::as_object);
    let own = own.and_then(|all| all.iter().find(|(known, _)| is(known)));
    let all = ["anyOf", "oneOf", "allOf"].iter().filter_map(|word| schema.get(word)?.as_array());
    own.or_else(|| all.flatten().find_map(|one| property(one, name, names)))
}
