//! Editor for JSON with comments: changes values and keeps every other byte, comments and the
//! spelling of numbers included. It must not know the meaning of a member.

use std::ops::Range;

use jsonc_parser::{
    CollectOptions, ParseOptions, Scanner, ScannerOptions, ast, common::Ranged as _, parse_to_ast,
    tokens::Token,
};
use serde::Serialize as _;
use serde_json::{Value, json};

use super::PlanError;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// A text whose root is an object. A path has names of members, and indexes of list entries.
pub(super) struct JsonDocument {
    /// Without its byte order mark.
    text: String,
    /// True if the text began with a byte order mark.
    marked: bool,
    /// Indentation of one level.
    unit: String,
    /// Line ending.
    line: &'static str,
}

/// An object or a list: byte offsets of its parts in the text.
struct Container {
    /// Offset of the bracket that opens it.
    open: usize,
    /// Offset of the bracket that closes it.
    close: usize,
    is_object: bool,
    /// Byte ranges of the members, names included, or of the entries.
    parts: Vec<Range<usize>>,
}

impl Container {
    fn from_value(value: &ast::Value<'_>) -> Option<Self> {
        let range = |node: &dyn jsonc_parser::common::Ranged| node.start()..node.end();
        let (is_object, parts): (_, Vec<_>) = match value {
            ast::Value::Object(object) => {
                (true, object.properties.iter().map(|part| range(part)).collect())
            }
            ast::Value::Array(list) => {
                (false, list.elements.iter().map(|part| range(part)).collect())
            }
            _ => return None,
        };
        Some(Self { open: value.start(), close: value.end() - 1, is_object, parts })
    }
}

impl JsonDocument {
    /// Parses a text; an empty one is an empty object.
    pub(super) fn parse(text: &str) -> Result<Self, PlanError> {
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let plain = text.strip_prefix(BYTE_ORDER_MARK);
        let (marked, text) = (plain.is_some(), plain.unwrap_or(text));
        let text = if text.trim().is_empty() { format!("{{}}{line}") } else { text.to_owned() };
        let broken = |line: usize| PlanError::Broken(format!("it is no JSON object: line {line}"));
        let root = parse_jsonc(&text).map_err(|error| broken(error.line_display()))?;
        if !matches!(root, Some(ast::Value::Object(_))) {
            return Err(broken(1));
        }
        Ok(Self { unit: indent_unit(&text), text, marked, line })
    }

    pub(super) fn into_text(self) -> String {
        if self.marked { format!("{BYTE_ORDER_MARK}{}", self.text) } else { self.text }
    }

    /// Returns the names of an object's members; none if no object is at the path.
    pub(super) fn member_names(&self, path: &[&str]) -> Vec<String> {
        let names = |value: &ast::Value<'_>| {
            let members = &value.as_object()?.properties;
            Some(members.iter().map(|member| member.name.as_str().to_owned()).collect())
        };
        self.with_value(path, names).flatten().unwrap_or_default()
    }

    /// Returns the entries of a list; none if no list is at the path.
    pub(super) fn entries(&self, path: &[&str]) -> Vec<Value> {
        let entries = |value: &ast::Value<'_>| {
            Some(value.as_array()?.elements.iter().cloned().map(Value::from).collect())
        };
        self.with_value(path, entries).flatten().unwrap_or_default()
    }

    pub(super) fn text_at(&self, path: &[&str]) -> Option<String> {
        let text = |value: &ast::Value<'_>| Value::from(value.clone()).as_str().map(str::to_owned);
        self.with_value(path, text).flatten()
    }

    pub(super) fn number_at(&self, path: &[&str]) -> Option<u64> {
        self.with_value(path, |value: &ast::Value<'_>| Value::from(value.clone()).as_u64())
            .flatten()
    }

    /// Sets the value at a path, and adds missing objects above it.
    pub(super) fn set(&mut self, path: &[&str], value: &Value) -> Result<(), PlanError> {
        let found =
            self.with_value(path, |found| (found.start()..found.end(), Value::from(found.clone())));
        if let Some((range, found)) = found {
            if found != *value {
                let text = self.format_value(value, path.len());
                self.text.replace_range(range, &text);
            }
            return Ok(());
        }
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        if self.with_value(above, |_| ()).is_none() {
            self.set(above, &json!({}))?;
        }
        self.push_part(above, Some(name), value)
    }

    /// Appends an entry to the list at a path.
    pub(super) fn push_entry(&mut self, path: &[&str], value: &Value) -> Result<(), PlanError> {
        if self.with_value(path, |_| ()).is_none() {
            self.set(path, &json!([]))?;
        }
        self.push_part(path, None, value)
    }

    /// Removes the value at a path, and the objects and lists above it that become empty.
    pub(super) fn remove(&mut self, path: &[&str]) {
        let Some((step, above)) = path.split_last() else { return };
        let found = self.with_value(above, |value| {
            Some((Container::from_value(value)?, part_index(value, step)?))
        });
        let Some((container, at)) = found.flatten() else { return };
        self.remove_part(&container, at);
        let Some(left) = self.find_container(above) else { return };
        let inside = left.open + 1..left.close;
        if self.text.get(inside.clone()).is_some_and(|text| text.trim().is_empty()) {
            self.text.replace_range(inside, "");
            if !above.is_empty() {
                self.remove(above);
            }
        }
    }

    /// Applies `read` to the value at a path; `None` if no value is there.
    fn with_value<T>(&self, path: &[&str], read: impl FnOnce(&ast::Value<'_>) -> T) -> Option<T> {
        let root = parse_jsonc(&self.text).ok()??;
        let mut value = &root;
        for step in path {
            let at = part_index(value, step)?;
            value = match value {
                ast::Value::Object(object) => &object.properties.get(at)?.value,
                ast::Value::Array(list) => list.elements.get(at)?,
                _ => return None,
            };
        }
        Some(read(value))
    }

    fn find_container(&self, path: &[&str]) -> Option<Container> {
        self.with_value(path, Container::from_value).flatten()
    }

    /// Returns the offset of the next comma, if only blanks and comments are before it.
    fn next_comma(&self, after: usize) -> Option<usize> {
        let mut scanner = Scanner::new(self.text.get(after..)?, &ScannerOptions::default());
        loop {
            match scanner.scan().ok()?? {
                Token::CommentLine(_) | Token::CommentBlock(_) => {}
                Token::Comma => return Some(after + scanner.token_start()),
                _ => return None,
            }
        }
    }

    /// Adds a part at the end of the object or list at a path, after its comments.
    fn push_part(
        &mut self,
        path: &[&str],
        name: Option<&str>,
        value: &Value,
    ) -> Result<(), PlanError> {
        let what = path.last().copied().unwrap_or("the text").to_owned();
        let wanted = if name.is_some() { "an object" } else { "a list" };
        let inside = self.find_container(path).filter(|inside| inside.is_object == name.is_some());
        let inside = inside.ok_or(PlanError::Other(what, wanted))?;
        let (level, line) = (path.len() + 1, self.line);
        let indent = self.unit.repeat(level);
        let name = name.map_or_else(String::new, |name| format!("{}: ", json!(name)));
        let own = format!("{line}{indent}{name}{}", self.format_value(value, level));
        let Some(last) = inside.parts.last() else {
            let kept = self.text.get(inside.open + 1..inside.close).unwrap_or_default().trim_end();
            let text = format!("{kept}{own}{line}{}", self.unit.repeat(level - 1));
            self.text.replace_range(inside.open + 1..inside.close, &text);
            return Ok(());
        };
        let before = self.text.get(inside.open + 1..last.start).unwrap_or_default();
        let behind = self.text.get(last.end..inside.close).unwrap_or_default();
        let place = last.end + behind.trim_end().len();
        // A container on one line stays on one line.
        let in_one = !before.contains('\n') && !behind.contains("//");
        let own = if in_one { format!(" {name}{value}") } else { own };
        match self.next_comma(last.end) {
            Some(_) => self.text.insert_str(place, &format!("{own},")),
            None => {
                self.text.insert_str(place, &own);
                self.text.insert(last.end, ',');
            }
        }
        Ok(())
    }

    /// Removes a part and one comma; comments around the part stay.
    fn remove_part(&mut self, inside: &Container, at: usize) {
        let whole = |at: usize| inside.parts.get(at).cloned();
        let Some(own) = whole(at) else { return };
        let text = |place: Range<usize>| self.text.get(place).unwrap_or_default();
        // With the blanks before it.
        let begin = inside.open + 1 + text(inside.open + 1..own.start).trim_end().len();
        let before =
            at.checked_sub(1).and_then(whole).and_then(|before| self.next_comma(before.end));
        match (self.next_comma(own.end), whole(at + 1)) {
            (Some(comma), Some(next)) if text(comma + 1..next.start).trim().is_empty() => {
                self.text.replace_range(own.start..next.start, "");
            }
            (Some(comma), _) => self.text.replace_range(begin..=comma, ""),
            (None, _) => {
                self.text.replace_range(begin..own.end, "");
                if let Some(comma) = before {
                    self.text.remove(comma);
                }
            }
        }
    }

    /// Formats a value for a level of indentation.
    fn format_value(&self, value: &Value, level: usize) -> String {
        let mut bytes = Vec::new();
        let style = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, style);
        let written = value.serialize(&mut writer);
        let text = String::from_utf8(bytes).ok().filter(|_| written.is_ok());
        let text = text.unwrap_or_else(|| value.to_string());
        text.replace('\n', &format!("{}{}", self.line, self.unit.repeat(level)))
    }
}

/// Returns the indentation of one level: that of the least indented line, or else two blanks.
fn indent_unit(text: &str) -> String {
    let indented = text.lines().filter_map(|line| {
        let rest = line.trim_start();
        let blanks = line.get(..line.len() - rest.len())?;
        (rest.starts_with(['"', '{', '}', '[', ']']) && !blanks.is_empty()).then_some(blanks)
    });
    indented.min_by_key(|blanks| blanks.len()).unwrap_or("  ").to_owned()
}

/// Parses JSON with comments and trailing commas; no other extension.
fn parse_jsonc(text: &str) -> Result<Option<ast::Value<'_>>, jsonc_parser::errors::ParseError> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    Ok(parse_to_ast(text, &CollectOptions::default(), &options)?.value)
}

/// Returns the index of the part that a step of a path names. Of several members with one name, it
/// is the last, as programs read it.
fn part_index(value: &ast::Value<'_>, step: &str) -> Option<usize> {
    match value {
        ast::Value::Object(object) => {
            object.properties.iter().rposition(|member| member.name.as_str() == step)
        }
        ast::Value::Array(list) => step.parse().ok().filter(|at| *at < list.elements.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "{\n    \"env\": {\"A\": 1.0e3}, // why\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"afplay x\"}]}\n        ]\n    }\n}\n";

    fn with_entries(text: &str) -> JsonDocument {
        let mut document = JsonDocument::parse(text).expect("JSON");
        for event in ["Stop", "Start"] {
            let path = ["hooks", event];
            document.push_entry(&path, &json!({ "ours": [1, { "a": 2 }] })).expect("put");
        }
        document
    }

    #[test]
    fn adding_and_removing_an_entry_restores_the_document_byte_for_byte() {
        for text in [
            OTHERS,
            &OTHERS.replace('\n', "\r\n"),
            "{}\n",
            "\u{feff}{}",
            "{\"a\":1}",
            "{\n\t\"a\": [ ]\n}",
            "{\"hooks\": {\"Stop\": [1]}}",
            "{\"hooks\": {\"Stop\": [1,]},}",
            "{\n  // only a comment\n}",
            "{ /* here */\n}",
            "{\n  \"a\": 1 // why\n  // and more\n}\n",
            "{\n  \"a\": 1, // why\n}\n",
            "{\n  \"hooks\": {\n    // mine\n    \"Stop\": [\n      // first\n      1 /* one */\n      // last\n    ]\n    // end\n  }\n}",
            "{\"hooks\": {\"Start\": [7]}, \"hooks\": {\"Stop\": [8], \"Stop\": [9]}}",
            "{\n\t\"hooks\": {\n\t\t\"Stop\": [\n\t\t\t1\n\t\t]\n\t}\n}",
        ] {
            let mut document = with_entries(text);
            let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
            assert_eq!(document.text.matches('\n').count(), document.text.matches(line).count());
            for event in ["Stop", "Start"] {
                let entries = document.entries(&["hooks", event]);
                assert_eq!(entries.last(), Some(&json!({ "ours": [1, { "a": 2 }] })), "{text}");
                let last = (entries.len() - 1).to_string();
                document.remove(&["hooks", event, &last]);
            }
            assert_eq!(document.into_text(), text);
        }
    }

    #[test]
    fn comments_around_a_removed_value_stay() {
        for (text, expected) in [
            (
                "{\"a\": 1, /* b */ \"x\": 2, /* c */ \"d\": 3}",
                "{\"a\": 1, /* b */ /* c */ \"d\": 3}",
            ),
            ("{\n  \"x\": 2,\n  // of d\n  \"d\": 3\n}", "{\n  // of d\n  \"d\": 3\n}"),
            ("{\n  \"a\": 1, // of a\n  \"x\": 2 // of x\n}", "{\n  \"a\": 1 // of a // of x\n}"),
            ("{\"x\": 2, \"a\": 1}", "{\"a\": 1}"),
            ("{ \"x\": 2 }", "{}"),
        ] {
            let mut document = JsonDocument::parse(text).expect("JSON");
            document.remove(&["x"]);
            assert_eq!(document.text, expected);
            assert!(JsonDocument::parse(&document.text).is_ok());
        }
    }

    #[test]
    fn a_value_with_comments_is_read_and_changed() {
        let text = "{\"a\": [{/* c */ \"b\": 1, // d\n \"c\": [2,],}]}";
        let mut document = JsonDocument::parse(text).expect("JSON");
        assert_eq!(document.entries(&["a"]), [json!({ "b": 1, "c": [2] })]);
        document.set(&["a", "0", "b"], &json!("x")).expect("put");
        assert_eq!(document.text, text.replace("\"b\": 1", "\"b\": \"x\""));
    }

    #[test]
    fn an_added_entry_has_the_indentation_of_its_file() {
        let text = with_entries(OTHERS).text;
        assert!(
            text.contains("\n            },\n") || text.contains("]},\n            {\n"),
            "{text}"
        );
        assert!(
            text.contains("\n        \"Start\": [\n            {\n                \"ours\""),
            "{text}"
        );
        assert!(text.contains("{\"A\": 1.0e3}, // why\n"), "{text}");
    }

    #[test]
    fn invalid_documents_and_paths_of_another_type_are_rejected() {
        for text in ["[]", "{", "{\"a\" 1}", "{} x", "nope", "{\"a\": nope}", "{\"a\": \"b}"] {
            assert!(JsonDocument::parse(text).is_err(), "{text}");
        }
        for text in ["{\"hooks\": 7}", "{\"hooks\": {\"Stop\": {}}}", "{\"hooks\": []}"] {
            let mut document = JsonDocument::parse(text).expect("JSON");
            assert!(document.push_entry(&["hooks", "Stop"], &json!(1)).is_err(), "{text}");
        }
        let deep = "[".repeat(10_000);
        assert!(JsonDocument::parse(&format!("{{\"a\":{deep}")).is_err());
    }
}
