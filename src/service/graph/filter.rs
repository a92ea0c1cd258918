//! Filters and sort orders of rows with members and properties: parsed from a request, then
//! applied. It must not know the type of a row.

use std::{cell::OnceCell, cmp::Ordering, collections::HashSet};

use serde_json::{Map, Value};

use super::order::{OrderKey, PropertyValues, RowMember, compare_numbers};
use crate::{
    api::graph::{Filter, Sort},
    event::pace,
    service::{ServiceError, ServiceResult},
};

/// Limits of filters, sort orders, values in all `in`, and characters of a field name.
const FILTERS_MAX: usize = 32;
const SORTS_MAX: usize = 8;
const VALUES_MAX: usize = 1_000;
const FIELD_CHARS_MAX: usize = 256;
/// Operators, as an error lists them.
const OPS: &str = "eq, ne, lt, lte, gt, gte, in, contains or exists is expected";
/// Prefix for a property with the name of a member.
const PROPERTIES: &str = "properties.";
/// Bytes of properties read between two yields.
const BYTES_OF_A_STEP: usize = 256;
/// Bytes of a row's index entry while sorting, and of the parsed properties of one row, whose text
/// has at most 64 KiB.
const ORDER_BYTES: usize = 2 * size_of::<usize>();
const TREE_BYTES: usize = 8 << 20;

/// A row that can be filtered.
pub(super) trait Row {
    /// Names of the members.
    const MEMBERS: &'static [&'static str];

    fn get_member(&self, name: &str) -> Option<RowMember<'_>>;

    /// Returns the properties: the text of a JSON object.
    fn properties(&self) -> &str;
}

#[derive(PartialEq, Eq)]
enum RowField {
    Member(String),
    Property(String),
}

enum FilterTest {
    Same(Value, bool),
    Ordered(Value, fn(Ordering) -> bool),
    /// Text values in a set, and all other values.
    In(HashSet<String>, Vec<Value>),
    Contains(Value),
    Exists(bool),
}

/// Filters that rows must pass, and their sort order.
pub(super) struct RowFilter {
    tests: Vec<(RowField, FilterTest)>,
    sorts: Vec<(RowField, bool)>,
}

impl RowFilter {
    pub(super) fn parse<R: Row>(filters: Vec<Filter>, sorts: Vec<Sort>) -> ServiceResult<Self> {
        if filters.len() > FILTERS_MAX {
            return Err(ServiceError::invalid("filters", format!("at most {FILTERS_MAX}")));
        }
        if sorts.len() > SORTS_MAX {
            return Err(ServiceError::invalid("sort", format!("at most {SORTS_MAX}")));
        }
        let test = |(at, filter): (usize, Filter)| {
            let Filter { field, op, value } = filter;
            let name = |member: &str| format!("filters[{at}].{member}");
            let field = RowField::parse::<R>(field, &name("field"))?;
            Ok((field, FilterTest::parse(&op, value, &name)?))
        };
        let sort = |(at, sort): (usize, Sort)| {
            let field = RowField::parse::<R>(sort.field, &format!("sort[{at}].field"))?;
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
        let values = filters.iter().filter(|filter| filter.op == "in");
        let values =
            values.filter_map(|filter| filter.value.as_array()).map(Vec::len).sum::<usize>();
        let tests = filters.into_iter().enumerate().map(test).collect::<ServiceResult<_>>()?;
        if values > VALUES_MAX {
            let problem = format!("at most {VALUES_MAX} values in all lists");
            return Err(ServiceError::invalid("filters", problem));
        }
        let mut distinct: Vec<(RowField, bool)> = Vec::with_capacity(sorts.len());
        for read in sorts.into_iter().enumerate().map(sort) {
            let (field, is_descending) = read?;
            // Sorting by the same field again has no effect.
            if distinct.iter().all(|(known, _)| *known != field) {
                distinct.push((field, is_descending));
            }
        }
        Ok(Self { tests, sorts: distinct })
    }

    /// Returns the maximum bytes used to sift a number of rows, without the data they share.
    pub(super) fn memory_bytes<R: Row>(&self, rows: usize) -> usize {
        let row = size_of::<R>() + self.sorts.len() * size_of::<OrderKey<'_>>() + ORDER_BYTES;
        rows.saturating_mul(row).saturating_add(TREE_BYTES)
    }

    /// Counts the rows that pass every filter, and returns one page of them in stable order. No
    /// value is copied: a sort key borrows its text from the properties.
    pub(super) fn select_page<R: Row>(
        &self,
        mut rows: Vec<R>,
        (offset, limit): (usize, usize),
    ) -> (usize, Vec<R>) {
        rows.retain(|row| self.matches(row));
        let (total, width) = (rows.len(), self.sorts.len());
        let mut keys: Vec<OrderKey<'_>> = Vec::with_capacity(total * width);
        for row in &rows {
            pace::steps(1 + row.properties().len() / BYTES_OF_A_STEP);
            let members = OnceCell::new();
            keys.extend(self.sorts.iter().map(|(field, _)| field.sort_key(row, &members)));
        }
        let keys_of = |row: usize| keys.get(row * width..).unwrap_or_default();
        let mut order: Vec<usize> = (0..total).collect();
        if width > 0 {
            order.sort_by(|one, other| self.compare_rows(keys_of(*one), keys_of(*other)));
        }
        drop(keys);
        let mut rows: Vec<Option<R>> = rows.into_iter().map(Some).collect();
        let page = order.into_iter().skip(offset).take(limit);
        (total, page.filter_map(|at| rows.get_mut(at)?.take()).collect())
    }

    fn matches<R: Row>(&self, row: &R) -> bool {
        pace::steps(1 + row.properties().len() / BYTES_OF_A_STEP);
        let properties = OnceCell::new();
        let passes =
            |(field, test): &(RowField, FilterTest)| test.matches(field.value(row, &properties));
        self.tests.iter().all(passes)
    }

    fn compare_rows(&self, one: &[OrderKey<'_>], other: &[OrderKey<'_>]) -> Ordering {
        pace::step();
        let keys = one.iter().zip(other).zip(&self.sorts);
        let orders =
            keys.map(|((one, other), (_, is_descending))| one.compare(other, *is_descending));
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl RowField {
    fn parse<R: Row>(name: String, field: &str) -> ServiceResult<Self> {
        let chars = name.chars().count();
        if chars == 0 || chars > FIELD_CHARS_MAX {
            return Err(ServiceError::invalid(field, format!("1 to {FIELD_CHARS_MAX} characters")));
        }
        if R::MEMBERS.contains(&name.as_str()) {
            return Ok(Self::Member(name));
        }
        Ok(Self::Property(name.strip_prefix(PROPERTIES).map(str::to_owned).unwrap_or(name)))
    }

    fn value<R: Row>(&self, row: &R, properties: &OnceCell<Map<String, Value>>) -> Option<Value> {
        let name = match self {
            Self::Member(name) => return row.get_member(name).map(Value::from),
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

    fn sort_key<'r, R: Row>(
        &self,
        row: &'r R,
        members: &OnceCell<PropertyValues<'r>>,
    ) -> OrderKey<'r> {
        match self {
            Self::Member(name) => row.get_member(name).map_or(OrderKey::Absent, OrderKey::from),
            Self::Property(name) => OrderKey::from_member(
                members.get_or_init(|| PropertyValues::parse(row.properties())),
                name,
            ),
        }
    }
}

impl FilterTest {
    fn parse(op: &str, value: Value, name: &dyn Fn(&str) -> String) -> ServiceResult<Self> {
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
                Value::Array(values) if values.len() <= VALUES_MAX => {
                    let (texts, others): (Vec<Value>, Vec<Value>) =
                        values.into_iter().partition(Value::is_string);
                    let texts = texts.iter().filter_map(Value::as_str).map(str::to_owned);
                    Ok(Self::In(texts.collect(), others))
                }
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

    /// Returns true if a field's value passes; a row without it passes `ne` and `exists: false`.
    fn matches(&self, found: Option<Value>) -> bool {
        match (self, found) {
            (Self::Exists(wanted), found) => found.is_some() == *wanted,
            (Self::Same(_, wanted), None) => !wanted,
            (_, None) => false,
            (Self::Same(value, wanted), Some(found)) => is_equal(value, &found) == *wanted,
            (Self::Ordered(value, is), Some(found)) => {
                compare_values(&found, value).is_some_and(is)
            }
            (Self::In(texts, _), Some(Value::String(found))) => texts.contains(&found),
            (Self::In(_, values), Some(found)) => {
                values.iter().any(|value| is_equal(value, &found))
            }
            (Self::Contains(value), Some(found)) => match (&found, value) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                (Value::Array(values), part) => values.iter().any(|value| is_equal(value, part)),
                (Value::Object(members), Value::String(name)) => members.contains_key(name),
                _ => false,
            },
        }
    }
}

/// Returns true if values are equal; numbers are compared by value.
fn is_equal(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => compare_numbers(one, other).is_eq(),
        _ => one == other,
    }
}

/// Compares values of one type; returns `None` for values without an order.
fn compare_values(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => Some(compare_numbers(one, other)),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct TestRow(&'static str, String);

    impl Row for TestRow {
        const MEMBERS: &'static [&'static str] = &["id"];

        fn get_member(&self, _: &str) -> Option<RowMember<'_>> {
            Some(RowMember::Text(self.0))
        }

        fn properties(&self) -> &str {
            &self.1
        }
    }

    fn rows() -> Vec<TestRow> {
        [
            ("a", json!({"n": 1, "path": "src/a.rs", "tags": ["x", 2], "in": {"deep": true}})),
            ("b", json!({"n": 2.5, "path": "src/b.rs", "id": "own", "a.b": "dotted"})),
            ("c", json!({"n": "2", "in": {"deep": false}, "none": null})),
            ("d", json!({})),
        ]
        .map(|(id, properties)| TestRow(id, properties.to_string()))
        .into()
    }

    fn select_ids(filters: Value, sort: Value) -> Result<String, String> {
        let member = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
        let filter = |one: &Value| Filter {
            field: member(one, "field"),
            op: member(one, "op"),
            value: one["value"].clone(),
        };
        let order = |one: &Value| Sort {
            field: member(one, "field"),
            order: one["order"].as_str().map(str::to_owned),
        };
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let filters = list(&filters).iter().map(filter).collect();
        let selection =
            RowFilter::parse::<TestRow>(filters, list(&sort).iter().map(order).collect());
        let selection = selection.map_err(|error| error.hint.field.unwrap_or_default())?;
        Ok(selection.select_page(rows(), (0, 9)).1.iter().map(|thing| thing.0).collect())
    }

    #[test]
    fn filter_operators_compare_only_values_of_the_same_type() {
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
            assert_eq!(
                select_ids(filters, json!([])).as_deref(),
                Ok(expected),
                "{field} {op} {value}"
            );
        }
        let both = json!([{"field": "n", "op": "exists"}, {"field": "in", "op": "exists"}]);
        assert_eq!(select_ids(both, json!([])).as_deref(), Ok("ac"), "every filter holds");
    }

    #[test]
    fn rows_sort_by_each_field_in_turn_with_missing_values_last() {
        for (sort, expected) in [
            (json!([{"field": "n"}]), "abcd"),
            (json!([{"field": "n", "order": "desc"}]), "cbad"),
            (json!([{"field": "path", "order": "desc"}]), "bacd"),
            (json!([{"field": "missing"}, {"field": "id", "order": "desc"}]), "dcba"),
        ] {
            assert_eq!(select_ids(json!([]), sort.clone()).as_deref(), Ok(expected), "{sort}");
        }
    }

    /// Returns the order obtained by sorting copied values, to compare with.
    fn sort_copied(rows: &[TestRow], sorts: &[(&str, bool)]) -> String {
        let value = |row: &TestRow, name: &str| {
            let properties: Map<String, Value> = serde_json::from_str(&row.1).unwrap();
            let below = || {
                let mut names = name.split('.');
                let first = properties.get(names.next()?)?;
                names.try_fold(first, |value, name| value.as_object()?.get(name))
            };
            properties.get(name).or_else(below).cloned()
        };
        let rank = |value: &Value| match value {
            Value::Bool(_) => 0,
            Value::Number(_) => 1,
            Value::String(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        };
        let mut rows: Vec<&TestRow> = rows.iter().collect();
        rows.sort_by(|one, other| {
            for (name, is_descending) in sorts {
                let order = match (value(one, name), value(other, name)) {
                    (Some(one), Some(other)) => {
                        let order = compare_values(&one, &other);
                        let order = order.unwrap_or_else(|| rank(&one).cmp(&rank(&other)));
                        if *is_descending { order.reverse() } else { order }
                    }
                    (one, other) => other.is_some().cmp(&one.is_some()),
                };
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        });
        rows.iter().map(|row| row.0).collect()
    }

    #[test]
    fn sorting_rows_gives_the_same_order_as_sorting_copied_values() {
        const IDS: &str = "abcdefghijklmnopqrstuvwxyz";
        let large = "x".repeat(300);
        let values = [
            json!(1),
            json!(1.0),
            json!(-2.5),
            json!(true),
            json!(null),
            json!([1]),
            json!([]),
            json!({"b": "deep"}),
            json!({"b": 3}),
            json!({"b": {"c": "\n"}}),
            json!("a\nb"),
            json!("a\\nb"),
            json!("a\u{1}"),
            json!(format!("{large}\n")),
            json!(format!("{large}\"")),
            json!(format!("{large}é")),
            json!(large),
        ];
        let fields = ["a", "a.b", "a.b.c", "z", "properties.a", "none"];
        let mut state = 7_u64;
        let mut roll = |most: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % most
        };
        for round in 0..300 {
            let row = |at: usize| {
                let mut properties = Map::new();
                for name in ["a", "z", "a.b"] {
                    if roll(4) > 0 {
                        properties.insert(name.to_owned(), values[roll(values.len())].clone());
                    }
                }
                TestRow(&IDS[at..=at], Value::Object(properties).to_string())
            };
            let rows: Vec<TestRow> = (0..IDS.len()).map(row).collect();
            let sorts: Vec<(&str, bool)> =
                (0..=roll(4)).map(|_| (fields[roll(fields.len())], roll(2) == 0)).collect();
            let plain = |field: &&str| field.strip_prefix(PROPERTIES).unwrap_or(field).to_owned();
            let names: Vec<(String, bool)> =
                sorts.iter().map(|(field, is)| (plain(field), *is)).collect();
            let names: Vec<(&str, bool)> = names.iter().map(|(name, is)| (&**name, *is)).collect();
            let expected = sort_copied(&rows, &names);
            let asked = |(field, is_descending): &(&str, bool)| Sort {
                field: (*field).to_owned(),
                order: is_descending.then(|| "desc".to_owned()),
            };
            let selection =
                RowFilter::parse::<TestRow>(Vec::new(), sorts.iter().map(asked).collect());
            let (total, found) = selection.unwrap().select_page(rows, (0, usize::MAX));
            let found: String = found.iter().map(|row| row.0).collect();
            assert_eq!((total, found), (IDS.len(), expected), "{round}: {sorts:?}");
        }
    }

    #[test]
    fn an_invalid_filter_or_sort_is_rejected_with_the_path_of_its_member() {
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
            (
                many(2, json!({"field": "n", "op": "in", "value": many(501, json!(1))})),
                json!([]),
                "filters",
            ),
            (json!([]), many(9, json!({"field": "n"})), "sort"),
            (json!([]), json!([{"field": "n", "order": "up"}]), "sort[0].order"),
            (json!([]), json!([{"field": ""}]), "sort[0].field"),
        ] {
            assert_eq!(select_ids(filters, sort), Err(field.to_owned()));
        }
    }
}
