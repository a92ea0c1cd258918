//! Order of property values as encoded in their JSON; values of any size are compared without a
//! copy. It must not depend on a filter or a row.

use std::{
    borrow::{Borrow, Cow},
    cmp::Ordering,
    collections::BTreeMap,
    fmt,
};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value, value::RawValue};

use crate::event::Timestamp;

/// Number of bytes compared at once.
const BLOCK_BYTES: usize = 256;
/// Rank of types whose values have no order.
const LIST: u8 = 3;
const OBJECT: u8 = 4;
const NULL: u8 = 5;

/// Value of a row's member.
#[derive(Clone, Copy)]
pub(super) enum RowMember<'r> {
    Text(&'r str),
    Count(u64),
    At(Timestamp),
}

impl From<RowMember<'_>> for Value {
    fn from(member: RowMember<'_>) -> Self {
        match member {
            RowMember::Text(text) => text.into(),
            RowMember::Count(count) => count.into(),
            RowMember::At(at) => at.to_string().into(),
        }
    }
}

/// Values of a row's properties, as encoded in their JSON.
#[derive(Default, Deserialize)]
pub(super) struct PropertyValues<'r>(#[serde(borrow)] BTreeMap<MemberName<'r>, &'r RawValue>);

/// Name of a member, copied only if it is escaped.
#[derive(PartialEq, Eq, PartialOrd, Ord, Deserialize)]
struct MemberName<'r>(#[serde(borrow)] Cow<'r, str>);

impl Borrow<str> for MemberName<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'r> PropertyValues<'r> {
    pub(super) fn parse(properties: &'r str) -> Self {
        serde_json::from_str(properties).unwrap_or_default()
    }
}

/// Sort key of a row.
pub(super) enum OrderKey<'r> {
    Bool(bool),
    Number(Number),
    /// JSON text without its quotes.
    Json(&'r str),
    Text(&'r str),
    At(Timestamp),
    /// A list, an object or null.
    Unordered(u8),
    /// Missing value.
    Absent,
}

impl<'r> From<RowMember<'r>> for OrderKey<'r> {
    fn from(member: RowMember<'r>) -> Self {
        match member {
            RowMember::Text(text) => Self::Text(text),
            RowMember::Count(count) => Self::Number(count.into()),
            RowMember::At(at) => Self::At(at),
        }
    }
}

impl<'r> OrderKey<'r> {
    /// Returns the key of a property with that name, or of a nested one: `settings.theme`.
    pub(super) fn from_member(members: &PropertyValues<'r>, name: &str) -> Self {
        let member = |name: &str| members.0.get(name).copied();
        let below = || {
            let (name, path) = name.split_once('.')?;
            let mut json = serde_json::Deserializer::from_str(member(name)?.get());
            PathSeed { path }.deserialize(&mut json).ok().flatten()
        };
        member(name).or_else(below).map_or(Self::Absent, Self::from_json)
    }

    fn from_json(value: &'r RawValue) -> Self {
        let text = value.get();
        match text.as_bytes().first() {
            Some(b'"') => Self::Json(text.get(1..text.len() - 1).unwrap_or_default()),
            Some(b't' | b'f') => Self::Bool(text == "true"),
            Some(b'[') => Self::Unordered(LIST),
            Some(b'{') => Self::Unordered(OBJECT),
            Some(b'n') => Self::Unordered(NULL),
            _ => serde_json::from_str(text).map_or(Self::Absent, Self::Number),
        }
    }

    /// Compares two keys; rows without a value are last in either direction.
    pub(super) fn compare(&self, other: &Self, is_descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Absent, _) | (_, Self::Absent) => return self.rank().cmp(&other.rank()),
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Number(one), Self::Number(other)) => compare_numbers(one, other),
            (Self::Json(one), Self::Json(other)) => compare_texts(one.as_bytes(), other.as_bytes()),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::At(one), Self::At(other)) => one.cmp(other),
            (one, other) => one.rank().cmp(&other.rank()),
        };
        if is_descending { order.reverse() } else { order }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Json(_) | Self::Text(_) | Self::At(_) => 2,
            Self::Unordered(rank) => *rank,
            Self::Absent => u8::MAX,
        }
    }
}

/// Compares numbers by value, exactly: a sort needs equality to be transitive.
pub(super) fn compare_numbers(one: &Number, other: &Number) -> Ordering {
    let whole_and_part = |whole: i128, part: &Number| {
        let part = part.as_f64().unwrap_or(f64::NAN);
        // Beyond the range of i128 it saturates, which no JSON integer reaches.
        let order = whole.cmp(&(part.trunc() as i128));
        order.then_with(|| 0.0_f64.total_cmp(&(part.fract() + 0.0)))
    };
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(whole), None) => whole_and_part(whole, other),
        (None, Some(whole)) => whole_and_part(whole, one).reverse(),
        (None, None) => one.as_f64().partial_cmp(&other.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Compares two texts as `serde_json` writes them: each character has one encoding, so the first
/// difference decides.
fn compare_texts(one: &[u8], other: &[u8]) -> Ordering {
    let blocks = one.chunks(BLOCK_BYTES).zip(other.chunks(BLOCK_BYTES));
    let same = BLOCK_BYTES * blocks.take_while(|(one, other)| one == other).count();
    let (Some(one_left), Some(other_left)) = (one.get(same..), other.get(same..)) else {
        // The blocks are equal, and so are the lengths.
        return Ordering::Equal;
    };
    let bytes = one_left.iter().zip(other_left);
    let at = same + bytes.take_while(|(one, other)| one == other).count();
    // An escape is compared from its backslash.
    let before = one.iter().take(at).rev();
    let from = at - before.take_while(|byte| **byte == b'\\').count() % 2;
    let first = |text: &[u8]| text.get(from..).and_then(first_decoded_byte);
    first(one).cmp(&first(other))
}

/// Returns the first decoded byte of a text; `None` at its end.
fn first_decoded_byte(text: &[u8]) -> Option<u8> {
    match text {
        [b'\\', b'u', digits @ ..] => {
            let digits = std::str::from_utf8(digits.get(..4)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        }
        [b'\\', b'b', ..] => Some(0x08),
        [b'\\', b't', ..] => Some(b'\t'),
        [b'\\', b'n', ..] => Some(b'\n'),
        [b'\\', b'f', ..] => Some(0x0c),
        [b'\\', b'r', ..] => Some(b'\r'),
        [b'\\', escaped, ..] => Some(*escaped),
        _ => text.first().copied(),
    }
}

/// Finds the value at a path of members and skips all others.
struct PathSeed<'n> {
    path: &'n str,
}

impl<'r> DeserializeSeed<'r> for PathSeed<'_> {
    type Value = Option<&'r RawValue>;

    fn deserialize<D: Deserializer<'r>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'r> Visitor<'r> for PathSeed<'_> {
    type Value = Option<&'r RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'r>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (wanted, below) = match self.path.split_once('.') {
            Some((name, path)) => (name, Some(path)),
            None => (self.path, None),
        };
        let mut found = None;
        while let Some(MemberName(name)) = members.next_key()? {
            match below {
                _ if name != wanted => drop(members.next_value::<IgnoredAny>()?),
                None => found = Some(members.next_value()?),
                Some(path) => found = members.next_value_seed(PathSeed { path })?,
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'r>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        while values.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn properties(value: &Value) -> String {
        json!({"before": ["p", {"p": 0}], "p": value, "q": {"r": value}}).to_string()
    }

    #[test]
    fn json_encoded_texts_sort_like_the_decoded_texts() {
        let ends =
            ["", "\n", "\\n", "\u{1}", "\u{1f}", "\"", "\\", "\\\\", "!", "a", "z\t", "é", "漢"];
        let mut all = Vec::new();
        // The difference is before, at and after a block's end, and in an escape across it.
        for length in [0, 1, BLOCK_BYTES - 6, BLOCK_BYTES - 1, BLOCK_BYTES, BLOCK_BYTES + 1] {
            for end in ends {
                all.push(format!("{}{end}", "x".repeat(length)));
                all.push(format!("{}{end}b", "\\".repeat(length)));
            }
        }
        let json: Vec<String> = all.iter().map(|text| properties(&json!(text))).collect();
        for (one, of_one) in all.iter().zip(&json) {
            for (other, of_other) in all.iter().zip(&json) {
                for name in ["p", "q.r"] {
                    let key = |text| OrderKey::from_member(&PropertyValues::parse(text), name);
                    let (of_one, of_other) = (key(of_one), key(of_other));
                    let order = of_one.compare(&of_other, false);
                    assert_eq!(order, one.cmp(other), "{one:?} {other:?}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_any_size_and_type_sort_by_value() {
        // Equal as floating-point numbers, but not exactly.
        let whole = 9_007_199_254_740_992_u64;
        let all = [
            json!(-1e300),
            json!(i64::MIN),
            json!(-0.5),
            json!(0),
            json!(0.5),
            json!(whole - 1),
            json!(whole),
            json!(whole + 1),
            json!(u64::MAX),
            json!(1e40),
            json!(1e300),
        ];
        let number = |value: &Value| value.as_number().cloned().expect("a number");
        for (at, one) in all.iter().enumerate() {
            for (place, other) in all.iter().enumerate() {
                assert_eq!(
                    compare_numbers(&number(one), &number(other)),
                    at.cmp(&place),
                    "{one} {other}"
                );
            }
        }
        let float = number(&json!(9_007_199_254_740_992.0));
        assert_eq!(compare_numbers(&number(&json!(whole)), &float), Ordering::Equal);
        assert_eq!(compare_numbers(&number(&json!(whole + 1)), &float), Ordering::Greater);
        assert_eq!(compare_numbers(&number(&json!(0)), &number(&json!(-0.0))), Ordering::Equal);
    }

    #[test]
    fn a_property_with_the_whole_name_takes_precedence_over_a_path() {
        let properties = r#"{"a":{"b":1,"c":{"d":"x"}},"a.b":2,"n":null,"l":[{"d":3}]}"#;
        let key = |name: &str| OrderKey::from_member(&PropertyValues::parse(properties), name);
        for (name, rank) in [("a.b", 1), ("a.c.d", 2), ("a.c", OBJECT), ("n", NULL), ("l", LIST)] {
            assert_eq!(key(name).rank(), rank, "{name}");
        }
        assert!(matches!(key("a.b"), OrderKey::Number(n) if n.as_i64() == Some(2)));
        for name in ["b", "a.x", "n.x", "l.d", "a.b.c", "", "."] {
            assert!(matches!(key(name), OrderKey::Absent), "{name}");
        }
        assert!(matches!(
            OrderKey::from_member(&PropertyValues::parse("not JSON"), "a"),
            OrderKey::Absent
        ));
    }
}
