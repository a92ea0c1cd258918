//! JSON schemas of arguments, parameters, bodies and answers, from their types. It must not
//! describe anything by hand.

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// Returns the schema of a tool's arguments, plain enough for every client: no references, no
/// nulls, no formats of one language.
#[must_use]
pub fn input<T: JsonSchema>() -> Map<String, Value> {
    generate_inline::<T>(SchemaSettings::draft2020_12(), &adapt_for_models)
}

/// Removes keywords that do not help a model: a minimum of 0, and defaults that are empty, zero or
/// false.
#[must_use]
pub fn reduce_for_models(mut schema: Value) -> Map<String, Value> {
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

/// Returns the schema of a tool's answer, as plain as that of arguments.
#[must_use]
pub fn output<T: JsonSchema>() -> Map<String, Value> {
    generate_inline::<T>(SchemaSettings::draft2020_12().for_serialize(), &|members| {
        require_no_null(members);
        adapt_for_models(members);
    })
}

/// Returns the schema of a type whose members are the parameters of a path or a query. An optional
/// parameter is never null.
#[must_use]
pub fn parameters<T: JsonSchema>() -> Map<String, Value> {
    generate_inline::<T>(SchemaSettings::draft2020_12(), &|members| {
        if members.get("format").is_some_and(|format| format == "uint") {
            members.insert("format".to_owned(), "int32".into());
        }
        adapt_for_documents(members);
        remove_null(members);
    })
}

fn generate_inline<T: JsonSchema>(
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

/// Generator of schemas that refer to each other in one document.
pub struct SchemaSet(SchemaGenerator);

impl SchemaSet {
    /// Creates a generator for a document that has the schemas at `path`.
    #[must_use]
    pub fn with_path(path: &'static str) -> Self {
        let settings = SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = path.into();
            settings.meta_schema = None;
        });
        Self(settings.into_generator())
    }

    /// Returns the schema of a type, or a reference to it.
    pub fn schema_for<T: JsonSchema>(&mut self) -> Value {
        match to_published(self.0.subschema_for::<T>().to_value()) {
            // Any value. Generators of clients only know this form.
            Value::Bool(true) => Value::Object(Map::new()),
            schema => schema,
        }
    }

    /// Returns every referenced schema by its name.
    #[must_use]
    pub fn into_definitions(mut self) -> Map<String, Value> {
        let mut all: Vec<(String, Value)> = self.0.take_definitions(true).into_iter().collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all.into_iter().map(|(name, schema)| (name, to_published(schema))).collect()
    }
}

fn to_published(mut schema: Value) -> Value {
    walk(&mut schema, &adapt_for_documents);
    schema
}

fn adapt_for_models(members: &mut Map<String, Value>) {
    remove_titles(members);
    let of_rust = |format: &str| format.starts_with("uint") || format.starts_with("int");
    members.retain(|keyword, value| keyword != "format" || !value.as_str().is_some_and(of_rust));
    remove_null(members);
}

/// Replaces formats by those that generators of clients know.
fn adapt_for_documents(members: &mut Map<String, Value>) {
    remove_titles(members);
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
fn remove_titles(members: &mut Map<String, Value>) {
    members.retain(|keyword, value| match keyword.as_str() {
        "title" => !value.is_string(),
        "default" => !value.is_null(),
        _ => true,
    });
}

/// Removes members that may be null from the required ones: a tool omits them.
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

fn remove_null(members: &mut Map<String, Value>) {
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
