//! JSON schemas of arguments and answers, plain enough for every client: no references, no nulls,
//! no formats of one language. It must not describe anything by hand.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// Schema of the arguments of a tool.
pub(super) fn input<T: JsonSchema>() -> Map<String, Value> {
    generate::<T>(SchemaSettings::draft2020_12())
}

/// Schema of the answer of a tool.
pub(super) fn output<T: JsonSchema>() -> Map<String, Value> {
    generate::<T>(SchemaSettings::draft2020_12().for_serialize())
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    match schema {
        Value::Object(mut members) => {
            members.remove("description");
            members
        }
        _ => Map::new(),
    }
}

/// Removes what only some clients understand: nulls (an absent member is absent), titles, number
/// formats, defaults of null.
fn plain(schema: &mut Value) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(plain),
        Value::Object(members) => {
            if members.get("title").is_some_and(Value::is_string) {
                members.remove("title");
            }
            if members.get("format").is_some_and(|format| format.as_str().is_some_and(of_rust)) {
                members.remove("format");
            }
            if members.get("default").is_some_and(Value::is_null) {
                members.remove("default");
            }
            not_null(members);
            members.values_mut().for_each(plain);
        }
        _ => {}
    }
}

fn of_rust(format: &str) -> bool {
    format.starts_with("uint") || format.starts_with("int")
}

fn not_null(members: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = members.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            members.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(any)) = members.get_mut("anyOf") else { return };
    any.retain(|schema| schema.get("type").is_none_or(|name| name != "null"));
    if let [only] = any.as_slice() {
        let only = only.clone();
        members.remove("anyOf");
        if let Value::Object(only) = only {
            for (name, value) in only {
                members.entry(name).or_insert(value);
            }
        }
    }
}
