//! Filters and orders of rows that have members and properties: parsed from what a caller sent,
//! then applied. It must not know what a row is.

use std::{cell::OnceCell, cmp::Ordering};

use serde_json::{Map, Number, Value};

use crate::{
    event::pace,
    service::{ServiceError, ServiceResult},
};

/// Filters of a query, orders of it, values of `in`, and characters of a field's name.
const FILTERS_MAX: usize = 32;
const SORTS_MAX: usize = 8;
const VALUES_MAX: usize = 1_000;
const FIELD_CHARS_MAX: usize = 256;
/// The operators, as a refusal names them.
const OPS: &str = "eq, ne, lt, lte, gt, gte, in, contains or exists is expected";
/// Bytes of properties that are read within a step.
const BYTES_OF_A_STEP: usize = 256;
/// How a property is named that has the name of a member.
const PROPERTIES: &str = "properties.";

/// A condition on a member or a property.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GraphFilter {
    /// A member, a property, or a property of one: `settings.theme`.
    pub field: String,
    /// `eq`, `ne`, `lt`, `lte`, `gt`, `gte`, `in`, `contains` or `exists`.
    pub op: String,
    /// What it is compared with.
    pub value: Value,
}

/// An order by a member or a property.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphSort {
    /// The same names as of a filter.
    pub field: String,
    /// `asc`, the default, or `desc`.
    pub order: Option<String>,
}

/// Something that is filtered.
pub(super) trait Row {
    /// Names of its members.
    const MEMBERS: &'static [&'static str];

    /// One of its members.
    fn member(&self, name: &str) -> Option<Value>;

    /// Its properties: the text of a JSON object.
    fn properties(&self) -> &str;
}

enum Field {
    Member(String),
    Property(String),
}

enum Test {
    Same(Value, bool),
    Ordered(Value, fn(Ordering) -> bool),
    In(Vec<Value>),
    Contains(Value),
    Exists(bool),
}

/// What rows must pass, and their order.
pub(super) struct Sieve {
    tests: Vec<(Field, Test)>,
    sorts: Vec<(Field, bool)>,
}

impl Sieve {
    /// The filters and orders, checked.
    pub(super) fn read<R: Row>(
        filters: Vec<GraphFilter>,
        sorts: Vec<GraphSort>,
    ) -> ServiceResult<Self> {
        if filters.len() > FILTERS_MAX {
            return Err(ServiceError::invalid("filters", format!("at most {FILTERS_MAX}")));
        }
        if sorts.len() > SORTS_MAX {
            return Err(ServiceError::invalid("sort", format!("at most {SORTS_MAX}")));
        }
        let test = |(at, filter): (usize, GraphFilter)| {
            let GraphFilter { field, op, value } = filter;
            let name = |member: &str| format!("filters[{at}].{member}");
            let field = Field::read::<R>(field, &name("field"))?;
            Ok((field, Test::read(&op, value, &name)?))
        };
        let sort = |(at, sort): (usize, GraphSort)| {
            let field = Field::read::<R>(sort.field, &format!("sort[{at}].field"))?;
            let is_descending = match sort.order.as_deref() {
                None | Some("asc") => false,
                Some("desc") => true,
                Some(_) => {
                    let name = format!("sort[{at}].order");
                    return Err(ServiceError::invalid(&name, "asc or desc is expected"));
                }
            };
            Ok((field, is_descending))
        };
        Ok(Self {
            tests: filters.into_iter().enumerate().map(test).collect::<ServiceResult<_>>()?,
            sorts: sorts.into_iter().enumerate().map(sort).collect::<ServiceResult<_>>()?,
        })
    }

    /// The rows that pass every filter, in order; equal ones as they came.
    pub(super) fn sift<R: Row>(&self, rows: Vec<R>) -> Vec<R> {
        let keys = |row: R| {
            pace::steps(1 + row.properties().len() / BYTES_OF_A_STEP);
            let properties = OnceCell::new();
            let passes = |(field, test): &(Field, Test)| test.passes(field.of(&row, &properties));
            if !self.tests.iter().all(passes) {
                return None;
            }
            let keys = self.sorts.iter().map(|(field, _)| field.of(&row, &properties));
            let keys: Vec<Option<Value>> = keys.collect();
            Some((keys, row))
        };
        let mut kept: Vec<(Vec<Option<Value>>, R)> = rows.into_iter().filter_map(keys).collect();
        if !self.sorts.is_empty() {
            kept.sort_by(|(one, _), (other, _)| self.order(one, other));
        }
        kept.into_iter().map(|(_, row)| row).collect()
    }

    fn order(&self, one: &[Option<Value>], other: &[Option<Value>]) -> Ordering {
        for ((_, is_descending), (one, other)) in self.sorts.iter().zip(one.iter().zip(other)) {
            let order = match (one, other) {
                // Rows without the value are last in either order.
                (None, None) => Ordering::Equal,
                (None, Some(_)) => return Ordering::Greater,
                (Some(_), None) => return Ordering::Less,
                (Some(one), Some(other)) => {
                    let order = compared(one, other);
                    let order = order.unwrap_or_else(|| rank(one).cmp(&rank(other)));
                    if *is_descending { order.reverse() } else { order }
                }
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

impl Field {
    fn read<R: Row>(name: String, field: &str) -> ServiceResult<Self> {
        let chars = name.chars().count();
        if chars == 0 || chars > FIELD_CHARS_MAX {
            return Err(ServiceError::invalid(field, format!("1 to {FIELD_CHARS_MAX} characters")));
        }
        if R::MEMBERS.contains(&name.as_str()) {
            return Ok(Self::Member(name));
        }
        Ok(Self::Property(name.strip_prefix(PROPERTIES).map(str::to_owned).unwrap_or(name)))
    }

    fn of<R: Row>(&self, row: &R, properties: &OnceCell<Map<String, Value>>) -> Option<Value> {
        let name = match self {
            Self::Member(name) => return row.member(name),
            Self::Property(name) => name,
        };
        let read = || serde_json::from_str(row.properties()).unwrap_or_default();
        let properties = properties.get_or_init(read);
        if let Some(value) = properties.get(name) {
            return Some(value.clone());
        }
        let mut names = name.split('.');
        let first = properties.get(names.next()?)?;
        names.try_fold(first, |value, name| value.as_object()?.get(name)).cloned()
    }
}

impl Test {
    fn read(op: &str, value: Value, name: &dyn Fn(&str) -> String) -> ServiceResult<Self> {
        let refused = |problem: &str| Err(ServiceError::invalid(&name("value"), problem));
        let ordered = |is: fn(Ordering) -> bool| match &value {
            Value::Number(_) | Value::String(_) | Value::Bool(_) => {
                Ok(Self::Ordered(value.clone(), is))
            }
            _ => refused("a number, a text or a boolean is expected"),
        };
        match op {
            "eq" => Ok(Self::Same(value, true)),
            "ne" => Ok(Self::Same(value, false)),
            "lt" => ordered(Ordering::is_lt),
            "lte" => ordered(Ordering::is_le),
            "gt" => ordered(Ordering::is_gt),
            "gte" => ordered(Ordering::is_ge),
            "in" => match value {
                Value::Array(values) if values.len() <= VALUES_MAX => Ok(Self::In(values)),
                _ => refused(&format!("a list of at most {VALUES_MAX} values is expected")),
            },
            "contains" => match value {
                Value::Null | Value::Object(_) | Value::Array(_) => {
                    refused("a text, a number or a boolean is expected")
                }
                value => Ok(Self::Contains(value)),
            },
            "exists" => match value {
                Value::Null => Ok(Self::Exists(true)),
                Value::Bool(is) => Ok(Self::Exists(is)),
                _ => refused("true or false is expected"),
            },
            _ => Err(ServiceError::invalid(&name("op"), OPS)),
        }
    }

    /// Whether the value of a field passes; a row without it passes `ne`, and `exists` of false.
    fn passes(&self, found: Option<Value>) -> bool {
        match (self, found) {
            (Self::Exists(wanted), found) => found.is_some() == *wanted,
            (Self::Same(_, wanted), None) => !wanted,
            (_, None) => false,
            (Self::Same(value, wanted), Some(found)) => same(value, &found) == *wanted,
            (Self::Ordered(value, is), Some(found)) => compared(&found, value).is_some_and(is),
            (Self::In(values), Some(found)) => values.iter().any(|value| same(value, &found)),
            (Self::Contains(value), Some(found)) => match (&found, value) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                (Value::Array(values), part) => values.iter().any(|value| same(value, part)),
                (Value::Object(members), Value::String(name)) => members.contains_key(name),
                _ => false,
            },
        }
    }
}

/// Whether values are the same; numbers by what they are worth.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            numbers(one, other).is_some_and(Ordering::is_eq)
        }
        _ => one == other,
    }
}

/// The order of values of one type; `None` of values that have none.
fn compared(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => numbers(one, other),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

fn numbers(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// The order of types among each other.
fn rank(value: &Value) -> u8 {
    match value {
        Value::Bool(_) => 0,
        Value::Number(_) => 1,
        Value::String(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Thing(&'static str, String);

    impl Row for Thing {
        const MEMBERS: &'static [&'static str] = &["id"];

        fn member(&self, _: &str) -> Option<Value> {
            Some(self.0.into())
        }

        fn properties(&self) -> &str {
            &self.1
        }
    }

    fn things() -> Vec<Thing> {
        [
            ("a", json!({"n": 1, "path": "src/a.rs", "tags": ["x", 2], "in": {"deep": true}})),
            ("b", json!({"n": 2.5, "path": "src/b.rs", "id": "own", "a.b": "dotted"})),
            ("c", json!({"n": "2", "in": {"deep": false}, "none": null})),
            ("d", json!({})),
        ]
        .map(|(id, properties)| Thing(id, properties.to_string()))
        .into()
    }

    fn ids(filters: Value, sort: Value) -> Result<String, String> {
        let member = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let filter = |one: &Value| GraphFilter {
            field: member(one, "field"),
            op: member(one, "op"),
            value: one["value"].clone(),
        };
        let order = |one: &Value| GraphSort {
            field: member(one, "field"),
            order: one["order"].as_str().map(str::to_owned),
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let filters = list(&filters).iter().map(filter).collect();
        let sieve = Sieve::read::<Thing>(filters, list(&sort).iter().map(order).collect());
        let sieve = sieve.map_err(|error| error.hint.field.unwrap_or_default())?;
        Ok(sieve.sift(things()).iter().map(|thing| thing.0).collect())
    }

    #[test]
    fn each_operator_compares_values_of_one_type() {
        for (field, op, value, expected) in [
            ("n", "eq", json!(1.0), "a"),
            ("n", "ne", json!(1), "bcd"),
            ("n", "lt", json!(2.5), "a"),
            ("n", "lte", json!(2.5), "ab"),
            ("n", "gt", json!(1), "b"),
            ("n", "gte", json!("1"), "c"),
            ("path", "gt", json!("src/a.rs"), "b"),
            ("n", "in", json!(["2", 2.5]), "bc"),
            ("n", "in", json!([]), ""),
            ("path", "contains", json!("src/"), "ab"),
            ("tags", "contains", json!(2.0), "a"),
            ("in", "contains", json!("deep"), "ac"),
            ("path", "exists", json!(null), "ab"),
            ("path", "exists", json!(false), "cd"),
            ("none", "exists", json!(true), "c"),
            ("in.deep", "eq", json!(true), "a"),
            ("in.deep.er", "exists", json!(true), ""),
            ("a.b", "eq", json!("dotted"), "b"),
            ("id", "in", json!(["a", "d"]), "ad"),
            ("properties.id", "eq", json!("own"), "b"),
            ("in", "eq", json!({"deep": true}), "a"),
        ] {
            let filters = json!([{"field": field, "op": op, "value": value}]);
            assert_eq!(ids(filters, json!([])).as_deref(), Ok(expected), "{field} {op} {value}");
        }
        let both = json!([{"field": "n", "op": "exists"}, {"field": "in", "op": "exists"}]);
        assert_eq!(ids(both, json!([])).as_deref(), Ok("ac"), "every filter holds");
    }

    #[test]
    fn rows_are_ordered_by_each_field_in_turn_and_those_without_are_last() {
        for (sort, expected) in [
            (json!([{"field": "n"}]), "abcd"),
            (json!([{"field": "n", "order": "desc"}]), "cbad"),
            (json!([{"field": "path", "order": "desc"}]), "bacd"),
            (json!([{"field": "missing"}, {"field": "id", "order": "desc"}]), "dcba"),
        ] {
            assert_eq!(ids(json!([]), sort.clone()).as_deref(), Ok(expected), "{sort}");
        }
    }

    #[test]
    fn a_condition_that_compares_nothing_is_refused_by_its_place() {
        let many = |n: usize, one: Value| Value::Array(vec![one; n]);
        let filter = |op: &str, value: Value| json!([{"field": "n", "op": op, "value": value}]);
        for (filters, sort, field) in [
            (filter("like", json!(1)), json!([]), "filters[0].op"),
            (filter("lt", json!([1])), json!([]), "filters[0].value"),
            (filter("in", json!(1)), json!([]), "filters[0].value"),
            (filter("in", many(1_001, json!(1))), json!([]), "filters[0].value"),
            (filter("contains", json!({})), json!([]), "filters[0].value"),
            (filter("exists", json!("yes")), json!([]), "filters[0].value"),
            (json!([{"field": "", "op": "eq"}]), json!([]), "filters[0].field"),
            (json!([{"field": "x".repeat(257), "op": "eq"}]), json!([]), "filters[0].field"),
            (many(33, json!({"field": "n", "op": "eq"})), json!([]), "filters"),
            (json!([]), many(9, json!({"field": "n"})), "sort"),
            (json!([]), json!([{"field": "n", "order": "up"}]), "sort[0].order"),
            (json!([]), json!([{"field": ""}]), "sort[0].field"),
        ] {
            assert_eq!(ids(filters, sort), Err(field.to_owned()));
        }
    }
}
