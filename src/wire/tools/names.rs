//! Names of members in a verb and in its tool, derived once from the schema of a type: renames the
//! members in the schema and in JSON texts. Numbers and texts keep every byte. It must not know a
//! tool.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};

use super::to_camel_case;

/// Difference of a member's name in the tool from the camelCase of its name in the verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// The member has this name.
    Named(&'static str),
    /// The member is replaced by its own members.
    Spread,
    /// The members inside keep the names of the verb.
    Kept,
}

/// Differences by the path of the member in the verb, such as `blocks.range`. Elements of a list
/// have the path of the list.
pub(crate) type Changes = &'static [(&'static str, NameChange)];

/// For a type that already has the names of its tool.
pub(crate) const AS_IS: Changes = &[("", NameChange::Kept)];

/// Names of an object's members in the verb and in the tool, with those of nested members.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    members: Vec<NamedMember>,
    /// Names inside the elements of a list, or inside the values of a map.
    inner: Option<Box<Self>>,
}

#[derive(Debug)]
struct NamedMember {
    in_verb: String,
    /// `None` if the member is replaced by its own members.
    in_tool: Option<String>,
    names: ToolNames,
}

impl ToolNames {
    /// Reads the names from a schema and renames its members. `path` is the path of the schema.
    pub(crate) fn from_schema(schema: &mut Value, path: &str, changes: Changes) -> Self {
        let mut names = Self::default();
        let at = |path: &str| changes.iter().find(|(at, _)| *at == path).map(|(_, change)| *change);
        let Value::Object(schema) = schema else { return names };
        if at(path) == Some(NameChange::Kept) {
            return names;
        }
        for (keyword, value) in schema.iter_mut() {
            match (keyword.as_str(), value) {
                ("anyOf" | "oneOf" | "allOf", Value::Array(all)) => {
                    for one in all {
                        let of_one = Self::from_schema(one, path, changes);
                        names.members.extend(of_one.members);
                        names.inner = names.inner.or(of_one.inner);
                    }
                }
                ("items" | "additionalProperties", inner) => {
                    let inner = Self::from_schema(inner, path, changes);
                    names.inner = (!inner.is_empty()).then(|| Box::new(inner));
                }
                _ => {}
            }
        }
        let Some(Value::Object(properties)) = schema.get_mut("properties") else { return names };
        let (given, mut all, mut required) = (std::mem::take(properties), Map::new(), Vec::new());
        let needed = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
        for (in_verb, mut inner) in given {
            let path = if path.is_empty() { in_verb.clone() } else { format!("{path}.{in_verb}") };
            let is_needed = needed.iter().any(|name| *name == *in_verb);
            let names_inside = Self::from_schema(&mut inner, &path, changes);
            let in_tool = match at(&path) {
                Some(NameChange::Named(name)) => Some(name.to_owned()),
                Some(NameChange::Spread) => None,
                _ => Some(to_camel_case(in_verb.trim_end_matches("[]"))),
            };
            match &in_tool {
                Some(name) => {
                    required.extend(is_needed.then(|| Value::from(name.as_str())));
                    all.insert(name.clone(), inner);
                }
                None => {
                    let of = |word: &str| inner.get(word).cloned().unwrap_or_default();
                    all.extend(of("properties").as_object().cloned().unwrap_or_default());
                    let inside = of("required").as_array().cloned().unwrap_or_default();
                    required.extend(inside.into_iter().filter(|_| is_needed));
                }
            }
            names.members.push(NamedMember { in_verb, in_tool, names: names_inside });
        }
        schema.insert("properties".to_owned(), Value::Object(all));
        if schema.contains_key("required") {
            schema.insert("required".to_owned(), Value::Array(required));
        }
        names
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty() && self.inner.is_none()
    }

    /// Renames a text of the verb for the tool; null members are left out, except in a client's own
    /// object.
    pub(crate) fn to_tool<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.rename(text, NameSide::Tool)
    }

    /// Renames a text of the tool for the verb.
    pub(crate) fn to_verb<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.rename(text, NameSide::Verb)
    }

    /// Replaces the value of a member of the verb in a text of the tool.
    pub(crate) fn replace_member(
        &self,
        text: String,
        (member, value): (&str, &impl Serialize),
    ) -> String {
        let known = self.members.iter().find(|one| one.in_verb == member);
        match known.and_then(|one| Some((one.in_tool.as_ref()?, &one.names))) {
            Some((name, names)) => replace_member(text, name, names, value),
            None => text,
        }
    }

    /// Renames the members of the verb that an error message quotes in backticks.
    pub(crate) fn rename_quoted(&self, message: &str) -> String {
        let parts = message.split('`').enumerate().map(|(index, part)| match index % 2 {
            1 => self.tool_name(part).unwrap_or(part),
            _ => part,
        });
        parts.collect::<Vec<_>>().join("`")
    }

    /// Returns the name in the tool of a member at any depth.
    fn tool_name(&self, in_verb: &str) -> Option<&str> {
        let own = self.members.iter().find(|one| one.in_verb == in_verb);
        let mut inside = self.members.iter().map(|one| &one.names).chain(self.inner.as_deref());
        own.and_then(|one| one.in_tool.as_deref())
            .or_else(|| inside.find_map(|names| names.tool_name(in_verb)))
    }

    fn rename<'a>(&self, text: &'a str, to: NameSide) -> Cow<'a, str> {
        let inner = |one: &'a RawValue| match &self.inner {
            Some(names) => names.rename(one.get(), to),
            None => one.get().into(),
        };
        if self.is_empty() {
            return text.into();
        }
        if let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) {
            let elements: Vec<_> = elements.into_iter().map(inner).collect();
            return format!("[{}]", elements.join(",")).into();
        }
        let Ok(members) = serde_json::from_str::<IndexMap<String, &RawValue>>(text) else {
            return text.into();
        };
        let mut out = Vec::with_capacity(members.len());
        for (name, value) in members {
            let is_known = |one: &&NamedMember| match to {
                NameSide::Tool => one.in_verb == name,
                NameSide::Verb => one.in_tool.as_deref() == Some(&name),
            };
            let Some(one) = self.members.iter().find(is_known) else {
                out.push(format!("{}:{}", Value::from(name), inner(value)));
                continue;
            };
            if to == NameSide::Tool && value.get() == "null" {
                continue;
            }
            let value = one.names.rename(value.get(), to);
            let name =
                if to == NameSide::Tool { one.in_tool.as_deref() } else { Some(&*one.in_verb) };
            match name {
                Some(name) => out.push(format!("{}:{value}", Value::from(name))),
                None => out.extend(inner_text(&value).map(str::to_owned)),
            }
        }
        format!("{{{}}}", out.join(",")).into()
    }
}

/// Replaces the value of a member in the text of an object; the value has names of the verb.
pub(crate) fn replace_member(
    text: String,
    name: &str,
    names: &ToolNames,
    value: &impl Serialize,
) -> String {
    let value = serde_json::to_string(value).expect("a value of api is JSON");
    let value = RawValue::from_string(names.to_tool(&value).into_owned());
    let members = serde_json::from_str::<IndexMap<String, Box<RawValue>>>(&text);
    let (Ok(mut members), Ok(value)) = (members, value) else { return text };
    members.insert(name.to_owned(), value);
    serde_json::to_string(&members).expect("members are JSON")
}

/// Side whose names a text receives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameSide {
    Tool,
    Verb,
}

/// Returns the members of an object as text; `None` if it has none.
fn inner_text(object: &str) -> Option<&str> {
    let members = object.strip_prefix('{')?.strip_suffix('}')?.trim();
    (!members.is_empty()).then_some(members)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CHANGES: Changes = &[
        ("session", NameChange::Named("sessionId")),
        ("all_blocks.range", NameChange::Spread),
        ("as_is", NameChange::Kept),
    ];

    fn schema() -> Value {
        let number = json!({ "type": "integer" });
        let range = json!({
            "type": "object", "properties": { "from": number, "last_to": number },
            "required": ["from"],
        });
        json!({ "type": "object", "required": ["session", "all_blocks"], "properties": {
            "session": { "type": "string" },
            "all_blocks": { "type": "array", "items": {
                "properties": { "range": range, "row_types[]": { "type": "array" } },
                "required": ["range"],
            } },
            "as_is": { "properties": { "is_kept": { "type": "boolean" } } },
            "free_form": { "type": "object", "additionalProperties": true },
            "by_name": { "additionalProperties": { "properties": { "a_b": number } } },
            "one_of": { "anyOf": [number, { "properties": { "c_d": number } }] },
        } })
    }

    #[test]
    fn from_schema_renames_the_properties_to_the_names_of_the_tool() {
        let mut schema = schema();
        ToolNames::from_schema(&mut schema, "", CHANGES);
        let names = |at: &str| {
            let all = schema.pointer(at).and_then(Value::as_object).expect("an object");
            all.keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("/properties"), "sessionId allBlocks asIs freeForm byName oneOf");
        assert_eq!(names("/properties/allBlocks/items/properties"), "from lastTo rowTypes");
        assert_eq!(names("/properties/asIs/properties"), "is_kept");
        assert_eq!(names("/properties/byName/additionalProperties/properties"), "aB");
        assert_eq!(names("/properties/oneOf/anyOf/1/properties"), "cD");
        assert_eq!(schema["required"], json!(["sessionId", "allBlocks"]));
        assert_eq!(schema["properties"]["allBlocks"]["items"]["required"], json!(["from"]));
    }

    #[test]
    fn to_tool_and_to_verb_rename_members_but_keep_the_clients_own() {
        let names = ToolNames::from_schema(&mut schema(), "", CHANGES);
        let big = r#"{"own_name":12345678901234567890123,"n_l":null}"#;
        for (of_verb, of_tool) in [
            (r#"{"session":"a","x_y":1}"#, r#"{"sessionId":"a","x_y":1}"#),
            (
                r#"{"all_blocks":[{"range":{"from":1,"last_to":2},"row_types[]":[]}]}"#,
                r#"{"allBlocks":[{"from":1,"lastTo":2,"rowTypes":[]}]}"#,
            ),
            (r#"{"all_blocks":[{"range":{}}]}"#, r#"{"allBlocks":[{}]}"#),
            (r#"{"as_is":{"is_kept":null}}"#, r#"{"asIs":{"is_kept":null}}"#),
            (r#"{"by_name":{"k_k":{"a_b":1}}}"#, r#"{"byName":{"k_k":{"aB":1}}}"#),
            (r#"{"one_of":{"c_d":1},"session":null}"#, r#"{"oneOf":{"cD":1}}"#),
            (&format!(r#"{{"free_form":{big}}}"#), &format!(r#"{{"freeForm":{big}}}"#)),
        ] {
            assert_eq!(names.to_tool(of_verb), of_tool);
        }
        let of_tool = format!(r#"{{"byName":{{"k":{{"aB":1}}}},"freeForm":{big},"other":1}}"#);
        let of_verb = format!(r#"{{"by_name":{{"k":{{"a_b":1}}}},"free_form":{big},"other":1}}"#);
        assert_eq!(names.to_verb(&of_tool), of_verb);
    }
}
