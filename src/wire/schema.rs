//! JSON schemas of arguments, parameters, bodies and answers, from their types. It must not
//! describe anything by hand.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Schema of the arguments of a tool, plain enough for every client: no references, no nulls, no
/// formats of one language.
#[must_use]
pub fn input<T: JsonSchema>() -> Map<String, Value> {
    inline::<T>(SchemaSettings::draft2020_12(), &for_models)
}

/// The schema of arguments without what a model is not helped by: every number from 0 on, and what
/// is empty, zero or false when it is left out.
#[must_use]
pub fn brief(mut schema: Value) -> Map<String, Value> {
    walk(&mut schema, &|members| {
        members.retain(|keyword, value| match keyword.as_str() {
            "minimum" => *value != 0,
            "default" => ![json!([]), json!({}), json!(""), json!(0), json!(false)].contains(value),
            _ => true,
        });
    });
    match schema {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

/// Schema of the answer of a tool, as plain.
#[must_use]
pub fn output<T: JsonSchema>() -> Map<String, Value> {
    inline::<T>(SchemaSettings::draft2020_12().for_serialize(), &|members| {
        require_no_null(members);
        for_models(members);
    })
}

/// Schema of a type whose members are the parameters of a path or a query. A parameter that may be
/// left out is never null.
#[must_use]
pub fn parameters<T: JsonSchema>() -> Map<String, Value> {
    inline::<T>(SchemaSettings::draft2020_12(), &|members| {
        if members.get("format").is_some_and(|format| format == "uint") {
            members.insert("format".to_owned(), "int32".into());
        }
        for_documents(members);
        not_null(members);
    })
}

fn inline<T: JsonSchema>(
    settings: SchemaSettings,
    change: &dyn Fn(&mut Map<String, Value>),
) -> Map<String, Value> {
    let settings = settings.with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    walk(&mut schema, change);
    match schema {
        Value::Object(mut members) => {
            members.shift_remove("description");
            members
        }
        _ => Map::new(),
    }
}

/// Schemas that refer to each other at a place of one document.
pub struct Shapes(SchemaGenerator);

impl Shapes {
    /// None yet, of a document that has them at `path`.
    #[must_use]
    pub fn at(path: &'static str) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = path.into();
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }

    /// The schema of a type, or a reference to it.
    pub fn of<T: JsonSchema>(&mut self) -> Value {
        match published(self.0.subschema_for::<T>().to_value()) {
            // Any value. Generators of clients know it in this form alone.
            Value::Bool(true) => Value::Object(Map::new()),
            schema => schema,
        }
    }

    /// Every schema that was referred to, by its name.
    #[must_use]
    pub fn all(mut self) -> Map<String, Value> {
        let mut all: Vec<(String, Value)> = self.0.take_definitions(true).into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().map(|(name, schema)| (name, published(schema))).collect()
    }
}

fn published(mut schema: Value) -> Value {
    walk(&mut schema, &for_documents);
    schema
}

fn for_models(members: &mut Map<String, Value>) {
    plain(members);
    let of_rust = |format: &str| format.starts_with("uint") || format.starts_with("int");
    members.retain(|keyword, value| keyword != "format" || !value.as_str().is_some_and(of_rust));
    not_null(members);
}

/// Formats as generators of clients know them.
fn for_documents(members: &mut Map<String, Value>) {
    plain(members);
    let Some(Value::String(format)) = members.get_mut("format") else { return };
    match format.as_str() {
        "uint64" => "int64".clone_into(format),
        "uint32" => "int32".clone_into(format),
        "uint" => drop(members.shift_remove("format")),
        _ => {}
    }
}

/// Calls `change` for every object of a schema.
fn walk(schema: &mut Value, change: &dyn Fn(&mut Map<String, Value>)) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, change)),
        Value::Object(members) => {
            change(members);
            members.values_mut().for_each(|value| walk(value, change));
        }
        _ => {}
    }
}

/// Removes titles, which are names of types, and defaults of null.
fn plain(members: &mut Map<String, Value>) {
    members.retain(|keyword, value| match keyword.as_str() {
        "title" => !value.is_string(),
        "default" => !value.is_null(),
        _ => true,
    });
}

/// Takes members that may be null out of those that are required: a tool leaves them out.
fn require_no_null(members: &mut Map<String, Value>) {
    let is_null = |form: &Value| form == "null" || form.get("type").is_some_and(|of| of == "null");
    let admits_null = |schema: &Value| {
        let forms = ["type", "anyOf"].into_iter().filter_map(|word| schema.get(word)?.as_array());
        forms.flatten().any(is_null)
    };
    let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let nullable = properties.filter(|(_, schema)| admits_null(schema)).map(|(name, _)| name);
    let nullable: Vec<String> = nullable.cloned().collect();
    let Some(Value::Array(required)) = members.get_mut("required") else { return };
    required.retain(|name| !nullable.iter().any(|one| name == one));
    if required.is_empty() {
        members.shift_remove("required");
    }
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
