//! Coercion of JSON from a model to the types in a schema: a number, a flag, a list or an object
//! that was sent as text, and a whole number with a fraction of zero. A value of the right type
//! keeps its text. It must not hold a rule of an argument.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::{Value, value::RawValue};

/// Maximum characters of a value that an error repeats.
const SHOWN_CHARS: usize = 40;
/// Whole numbers below this are exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// A value that cannot be coerced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// JSON path of the value: `limit`, `sources[2].step`.
    pub field: String,
    /// Description of the expected type.
    pub problem: String,
}

/// Coerces JSON text to the types that a schema declares.
///
/// # Errors
/// The first value that cannot be coerced.
pub fn coerce<'a>(text: &'a str, schema: &Value) -> Result<Cow<'a, str>, Mismatch> {
    coerce_value(text.trim(), schema, "")
}

/// Parses a whole number from 0 on, also written with a fraction of zero or an exponent.
#[must_use]
pub fn parse_whole_number(text: &str) -> Option<u64> {
    parse_integer(text)?.parse().ok()
}

fn coerce_value<'a>(text: &'a str, schema: &Value, field: &str) -> Result<Cow<'a, str>, Mismatch> {
    for word in ["anyOf", "oneOf"] {
        if let Some(all) = schema.get(word).and_then(Value::as_array) {
            return first_match(all.iter().map(|one| coerce_value(text, one, field)));
        }
    }
    if text == "null" {
        return Ok(text.into());
    }
    match schema.get("type") {
        Some(Value::String(kind)) => coerce_to_type(text, kind, schema, field),
        Some(Value::Array(kinds)) => {
            let kinds = kinds.iter().filter_map(Value::as_str);
            first_match(kinds.map(|kind| coerce_to_type(text, kind, schema, field)))
        }
        _ => Ok(text.into()),
    }
}

/// Returns the first alternative that the text has already, else the first it can be coerced to.
fn first_match<'a>(
    forms: impl Iterator<Item = Result<Cow<'a, str>, Mismatch>>,
) -> Result<Cow<'a, str>, Mismatch> {
    let mut best = None;
    for form in forms {
        match (form, &best) {
            (Ok(Cow::Borrowed(text)), _) => return Ok(text.into()),
            (Ok(changed), None | Some(Err(_))) => best = Some(Ok(changed)),
            (Err(mismatch), None) => best = Some(Err(mismatch)),
            _ => {}
        }
    }
    best.unwrap_or_else(|| Ok("null".into()))
}

fn coerce_to_type<'a>(
    text: &'a str,
    kind: &str,
    schema: &Value,
    field: &str,
) -> Result<Cow<'a, str>, Mismatch> {
    let expected = |what: &str| {
        let mut shown: String = text.chars().take(SHOWN_CHARS).collect();
        if shown.len() < text.len() {
            shown.push('…');
        }
        let field = if field.is_empty() { "arguments" } else { field };
        Err(Mismatch {
            field: field.to_owned(),
            problem: format!("{what} is expected, not {shown}"),
        })
    };
    // Content of a text, if another type is expected.
    let inside = match text.starts_with('"') && kind != "string" {
        true => serde_json::from_str(text).ok(),
        false => None,
    };
    let inside = inside.as_ref().map_or(text, |inside: &String| inside.trim());
    let is = |first: char| {
        inside.starts_with(first) && serde_json::from_str::<&RawValue>(inside).is_ok()
    };
    let is_from_zero =
        schema.get("minimum").and_then(Value::as_i64).is_some_and(|least| least >= 0);
    let form = match kind {
        "integer" => match parse_integer(inside) {
            Some(number) if number.starts_with('-') && is_from_zero => {
                return expected("a whole number from 0 on");
            }
            Some(number) => number,
            None => return expected("a whole number"),
        },
        "number" if inside.parse().is_ok_and(f64::is_finite) && is_number(inside) => inside.into(),
        "number" => return expected("a number"),
        "boolean" if inside.eq_ignore_ascii_case("true") => "true".into(),
        "boolean" if inside.eq_ignore_ascii_case("false") => "false".into(),
        "boolean" => return expected("true or false"),
        "array" if is('[') => coerce_elements(inside, schema, field)?,
        "array" => return expected("a list"),
        "object" if is('{') => coerce_members(inside, schema, field)?,
        "object" => return expected("an object"),
        "string" if !text.starts_with('"') => return expected("a text"),
        "string" => {
            let known = schema.get("enum").and_then(Value::as_array);
            let said = serde_json::from_str::<Value>(text).unwrap_or_default();
            if let Some(known) = known.filter(|known| !known.contains(&said)) {
                let known: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
                return expected(&format!("one of {}", known.join(", ")));
            }
            text.into()
        }
        _ => text.into(),
    };
    Ok(if form == text { text.into() } else { form.into_owned().into() })
}

/// Coerces each element of a list.
fn coerce_elements<'a>(
    text: &'a str,
    schema: &Value,
    field: &str,
) -> Result<Cow<'a, str>, Mismatch> {
    let Some(items) = schema.get("items") else { return Ok(text.into()) };
    let Ok(elements) = serde_json::from_str::<Vec<&RawValue>>(text) else { return Ok(text.into()) };
    let element = |(index, one): (usize, &&'a RawValue)| {
        coerce_value(one.get(), items, &format!("{field}[{index}]"))
    };
    let coerced = elements.iter().enumerate().map(element).collect::<Result<Vec<_>, _>>()?;
    if coerced.iter().all(|one| matches!(one, Cow::Borrowed(_))) {
        return Ok(text.into());
    }
    Ok(format!("[{}]", coerced.join(",")).into())
}

/// Coerces the members of an object; those that the schema does not name keep their text.
fn coerce_members<'a>(
    text: &'a str,
    schema: &Value,
    field: &str,
) -> Result<Cow<'a, str>, Mismatch> {
    let Ok(members) = serde_json::from_str::<IndexMap<String, &RawValue>>(text) else {
        return Ok(text.into());
    };
    let (mut out, mut is_changed) = (Vec::with_capacity(members.len()), false);
    for (name, value) in members {
        let known = schema.get("properties").and_then(|all| all.get(&name));
        let value = match known.or_else(|| schema.get("additionalProperties")) {
            None => value.get().into(),
            Some(schema) if field.is_empty() => coerce_value(value.get(), schema, &name)?,
            Some(schema) => coerce_value(value.get(), schema, &format!("{field}.{name}"))?,
        };
        is_changed |= matches!(value, Cow::Owned(_));
        out.push(format!("{}:{value}", Value::from(name)));
    }
    Ok(if is_changed { format!("{{{}}}", out.join(",")).into() } else { text.into() })
}

fn is_number(text: &str) -> bool {
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

/// Returns the digits of a whole number of 64 bits, also written with a fraction of zero.
fn parse_integer(text: &str) -> Option<Cow<'_, str>> {
    let text = text.trim();
    if !is_number(text) {
        return None;
    }
    if text.parse::<u64>().is_ok() || text.parse::<i64>().is_ok() {
        return Some(text.into());
    }
    let number = text.parse::<f64>().ok()?;
    let is_whole = number.fract() == 0.0 && number.abs() < EXACT_MAX;
    is_whole.then(|| format!("{number:.0}").into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({ "type": "object", "properties": {
            "n": { "type": "integer", "minimum": 0 },
            "on": { "type": "boolean" },
            "mode": { "type": "string", "enum": ["full", "summary"] },
            "words": { "type": "array", "items": { "type": "string" } },
            "of": { "type": "array", "items": {
                "type": "object", "properties": { "step": { "type": "integer" } } } },
            "point": { "anyOf": [{ "type": "string" }, { "type": "integer" }] },
            "any": true,
        } })
    }

    #[test]
    fn a_value_sent_as_text_is_coerced_to_the_type_in_the_schema() {
        for (sent, expected) in [
            (r#"{"n":"1","on":"true"}"#, r#"{"n":1,"on":true}"#),
            (r#"{"n":2.0,"on":"False"}"#, r#"{"n":2,"on":false}"#),
            (r#"{"n":" 3e1 "}"#, r#"{"n":30}"#),
            (r#"{"of":[{"step":"4"},{"step":5.0}]}"#, r#"{"of":[{"step":4},{"step":5}]}"#),
            (r#"{"words":"[\"a\",\"b\"]"}"#, r#"{"words":["a","b"]}"#),
            (r#""{\"n\":\"6\"}""#, r#"{"n":6}"#),
            (
                r#"{"n":"7","any":{"wei":12345678901234567890123}}"#,
                r#"{"n":7,"any":{"wei":12345678901234567890123}}"#,
            ),
            (r#"{ "n" : 8, "point":"9", "x":"1" }"#, r#"{ "n" : 8, "point":"9", "x":"1" }"#),
            (r#"{"n":null}"#, r#"{"n":null}"#),
        ] {
            assert_eq!(coerce(sent, &schema()).as_deref(), Ok(expected), "{sent}");
        }
    }

    #[test]
    fn a_value_of_the_wrong_type_is_reported_with_its_json_path() {
        for (sent, field, problem) in [
            (r#"{"n":"many"}"#, "n", r#"a whole number is expected, not "many""#),
            (r#"{"n":1.5}"#, "n", "a whole number is expected, not 1.5"),
            (r#"{"n":"-1"}"#, "n", r#"a whole number from 0 on is expected, not "-1""#),
            (r#"{"n":1e400}"#, "n", "a whole number is expected, not 1e400"),
            (r#"{"on":"perhaps"}"#, "on", r#"true or false is expected, not "perhaps""#),
            (
                r#"{"of":[{"step":1},{"step":[]}]}"#,
                "of[1].step",
                "a whole number is expected, not []",
            ),
            (r#"{"mode":"all"}"#, "mode", r#"one of full, summary is expected, not "all""#),
            (r#"{"words":7}"#, "words", "a list is expected, not 7"),
            ("[]", "arguments", "an object is expected, not []"),
        ] {
            let mismatch = coerce(sent, &schema()).expect_err(sent);
            assert_eq!((&*mismatch.field, &*mismatch.problem), (field, problem), "{sent}");
        }
    }
}
