//! Builds an operation of the published description from the declaration of a verb. It must not
//! describe anything that no verb declares.

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::refuse::REFUSALS;
use crate::{
    verbs::{BodyUse, Fencing, Media, Verb},
    wire::schema::{self, SchemaSet},
};

/// JSON pointer of the schemas in the document.
pub(super) const SCHEMAS: &str = "/components/schemas";

/// Builds the OpenAPI operation of a verb.
pub(super) fn describe_operation<V: Verb>(shapes: &mut SchemaSet) -> Value {
    let mut parameters = describe_parameters::<V::Params>("path");
    parameters.extend(describe_parameters::<V::Query>("query"));
    let number = || json!({ "type": "integer", "format": "int64", "minimum": 0 });
    for header in V::HEADERS {
        let schema = if header.is_number { number() } else { json!({ "type": "string" }) };
        parameters.push(describe_parameter(header.name, "header", header.about, false, schema));
    }
    let token =
        |about, required| describe_parameter("Fencing-Token", "header", about, required, number());
    parameters.extend(match V::FENCE {
        Fencing::No => None,
        Fencing::WhenHeld => Some(token("Token of the lease, when one is held", false)),
        Fencing::Needed => Some(token("Token of the lease", true)),
    });
    parameters.extend(V::KEY.map(|about| {
        let key = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
        describe_parameter("Idempotency-Key", "header", about, false, key)
    }));
    let mut operation = Map::new();
    let mut put = |name: &str, value| drop(operation.insert(name.to_owned(), value));
    put("tags", json!([V::TAG]));
    put("summary", json!(V::ABOUT));
    put("operationId", json!(V::ROUTE.id));
    if !parameters.is_empty() {
        put("parameters", Value::Array(parameters));
    }
    if let BodyUse::Maybe(about) | BodyUse::Body(about) = V::ASKS {
        let content = describe_content::<V::Body>(V::TAKES, shapes);
        let required = matches!(V::ASKS, BodyUse::Body(_));
        let body = json!({ "description": about, "content": content, "required": required });
        put("requestBody", body);
    }
    let content = describe_content::<V::Answer>(V::GIVES, shapes);
    let answer = json!({ "description": V::ANSWERS, "content": content });
    let mut responses = Map::from_iter([(V::STATUS.to_string(), answer)]);
    for (status, _) in REFUSALS {
        let shared = format!("#/components/responses/Refusal{status}");
        responses.insert((*status).to_owned(), json!({ "$ref": shared }));
    }
    put("responses", Value::Object(responses));
    Value::Object(operation)
}

/// Builds the schemas of a body or an answer, by media type.
fn describe_content<T: JsonSchema>(forms: &[Media], shapes: &mut SchemaSet) -> Value {
    let forms = forms.iter().map(|form| {
        let (name, schema) = match *form {
            Media::Json => ("application/json", shapes.schema_for::<T>()),
            Media::Text(name) => (name, json!({ "type": "string" })),
            Media::Bytes(name) => (name, json!({})),
        };
        (name.to_owned(), json!({ "schema": schema }))
    });
    Value::Object(forms.collect())
}

/// Builds the parameters for the members of a type.
fn describe_parameters<T: JsonSchema>(location: &str) -> Vec<Value> {
    let schema = schema::parameters::<T>();
    let required = |name: &String| {
        let all = schema.get("required").and_then(Value::as_array);
        all.is_some_and(|all| all.iter().any(|one| one == name))
    };
    let members = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let one = |(name, schema): (&String, &Value)| {
        let mut schema = schema.as_object().cloned().unwrap_or_default();
        schema.shift_remove("default");
        let about = schema.shift_remove("description");
        let about = about.as_ref().and_then(Value::as_str).unwrap_or_default();
        describe_parameter(name, location, about, required(name), Value::Object(schema))
    };
    members.map(one).collect()
}

fn describe_parameter(
    name: &str,
    location: &str,
    about: &str,
    required: bool,
    schema: Value,
) -> Value {
    json!({
        "name": name, "in": location, "description": about, "required": required, "schema": schema,
    })
}
