//! A JSON text that is changed at some places and stays to the byte as it is at all others: order,
//! blanks, spelling of numbers, comments where a program allows them. It must not know what the
//! text is about.

use std::ops::Range;

use serde::Serialize as _;
use serde_json::{Value, json};

use super::PlanError;

/// Levels at most: nobody nests settings deeper.
const DEPTH_MAX: usize = 100;

/// A text and where its values are.
pub(super) struct Document {
    text: String,
    /// How a level is indented.
    unit: String,
}

/// A member of an object, or an element of a list.
#[derive(Clone)]
struct Part {
    name: Option<String>,
    whole: Range<usize>,
    value: Range<usize>,
}

/// What is between the brackets of an object or a list.
struct Inside {
    /// Place of the bracket that opens it.
    open: usize,
    /// Place of the bracket that closes it.
    close: usize,
    is_object: bool,
    parts: Vec<Part>,
}

impl Document {
    /// Reads a text; an empty one is an empty object.
    pub(super) fn of(text: &str) -> Result<Self, PlanError> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let mut scan = Scan { text, at: 0 };
        scan.blanks();
        let broken = |at: usize| {
            let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
            PlanError::Broken(format!("it is no JSON object: line {line}"))
        };
        let start = scan.at;
        scan.value(0).ok_or_else(|| broken(scan.at))?;
        scan.blanks();
        if scan.at < text.len() || !text.get(start..).is_some_and(|rest| rest.starts_with('{')) {
            return Err(broken(scan.at));
        }
        let document = Self { text: text.to_owned(), unit: unit(text) };
        Ok(document)
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Names of the members of an object; none when there is no such object.
    pub(super) fn names(&self, path: &[&str]) -> Vec<String> {
        let inside = self.find(path).and_then(|value| self.inside(value.start));
        inside.into_iter().flat_map(|inside| inside.parts).filter_map(|part| part.name).collect()
    }

    /// Sees to it that the member at a path has a value.
    pub(super) fn put(&mut self, path: &[&'static str], value: &Value) -> Result<(), PlanError> {
        if let Some(found) = self.find(path) {
            if self.read(&found) != Some(value.clone()) {
                let level = path.len();
                self.replace(found, &self.rendered(value, level));
            }
            return Ok(());
        }
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        if self.find(above).is_none() {
            self.put(above, &json!({}))?;
        }
        self.add(above, Some(name), value)
    }

    /// Sees to it that the list at a path has one entry of a kind, and that it is this one.
    pub(super) fn put_into_list(
        &mut self,
        path: &[&'static str],
        value: &Value,
        is_one: fn(&Value) -> bool,
    ) -> Result<(), PlanError> {
        if self.find(path).is_none() {
            self.put(path, &json!([]))?;
        }
        let list = self.list(path)?;
        let ones: Vec<&Part> = list
            .parts
            .iter()
            .filter(|part| self.read(&part.value).as_ref().is_some_and(is_one))
            .collect();
        match ones.as_slice() {
            [] => self.add(path, None, value),
            [one, ..] if self.read(&one.value).as_ref() == Some(value) => Ok(()),
            [one, ..] => {
                let (at, level) = (one.value.clone(), path.len() + 1);
                self.replace(at, &self.rendered(value, level));
                Ok(())
            }
        }
    }

    /// Takes the member at a path away, and what holds nothing else above it.
    pub(super) fn take(&mut self, path: &[&str]) -> Result<(), PlanError> {
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        let Some(inside) = self.find(above).and_then(|value| self.inside(value.start)) else {
            return Ok(());
        };
        let Some(at) = inside.parts.iter().position(|part| part.name.as_deref() == Some(name))
        else {
            return Ok(());
        };
        self.cut(&inside, at);
        if inside.parts.len() == 1 && !above.is_empty() {
            return self.take(above);
        }
        Ok(())
    }

    /// Takes every entry of a kind out of the list at a path, and the list when it was all.
    pub(super) fn take_from_list(
        &mut self,
        path: &[&str],
        is_one: fn(&Value) -> bool,
    ) -> Result<(), PlanError> {
        loop {
            let Some(value) = self.find(path) else { return Ok(()) };
            let Some(list) = self.inside(value.start).filter(|list| !list.is_object) else {
                return Ok(());
            };
            let found = list
                .parts
                .iter()
                .position(|part| self.read(&part.value).as_ref().is_some_and(is_one));
            let Some(at) = found else { return Ok(()) };
            if list.parts.len() == 1 {
                return self.take(path);
            }
            self.cut(&list, at);
        }
    }

    /// The value at a path.
    fn find(&self, path: &[&str]) -> Option<Range<usize>> {
        let mut scan = Scan { text: &self.text, at: 0 };
        scan.blanks();
        let start = scan.at;
        scan.value(0)?;
        let mut found = start..scan.at;
        for name in path {
            let inside = self.inside(found.start).filter(|inside| inside.is_object)?;
            // The last one of a name is what a program reads.
            let part = inside.parts.into_iter().rev().find(|p| p.name.as_deref() == Some(*name))?;
            found = part.value;
        }
        Some(found)
    }

    fn list(&self, path: &[&'static str]) -> Result<Inside, PlanError> {
        let name = path.last().copied().unwrap_or_default();
        let inside = self.find(path).and_then(|value| self.inside(value.start));
        inside.filter(|inside| !inside.is_object).ok_or(PlanError::Other(name, "a list"))
    }

    fn inside(&self, open: usize) -> Option<Inside> {
        Scan { text: &self.text, at: open }.inside()
    }

    fn read(&self, value: &Range<usize>) -> Option<Value> {
        serde_json::from_str(self.text.get(value.clone())?).ok()
    }

    fn replace(&mut self, place: Range<usize>, with: &str) {
        self.text.replace_range(place, with);
    }

    /// Adds behind the last part of the object or list at a path.
    fn add(
        &mut self,
        path: &[&'static str],
        name: Option<&str>,
        value: &Value,
    ) -> Result<(), PlanError> {
        let what = path.last().copied().unwrap_or("the text");
        let inside = self.find(path).and_then(|value| self.inside(value.start));
        let wanted = if name.is_some() { "an object" } else { "a list" };
        let inside = inside
            .filter(|inside| inside.is_object == name.is_some())
            .ok_or(PlanError::Other(what, wanted))?;
        let level = path.len() + 1;
        let name = name.map_or_else(String::new, |name| format!("{}: ", json!(name)));
        let indent = self.unit.repeat(level);
        match inside.parts.last() {
            None => {
                let outer = self.unit.repeat(level - 1);
                let text = format!("\n{indent}{name}{}\n{outer}", self.rendered(value, level));
                self.replace(inside.open + 1..inside.close, &text);
            }
            Some(last) => {
                let between = self.text.get(inside.open + 1..last.whole.start).unwrap_or_default();
                let text = match between.contains('\n') {
                    true => format!(",\n{indent}{name}{}", self.rendered(value, level)),
                    // Somebody likes it in one line.
                    false => format!(", {name}{value}"),
                };
                let end = last.whole.end;
                self.replace(end..end, &text);
            }
        }
        Ok(())
    }

    /// Takes a part away, with the comma that goes with it.
    fn cut(&mut self, inside: &Inside, at: usize) {
        let part = |at: usize| inside.parts.get(at).map(|part| part.whole.clone());
        let Some(own) = part(at) else { return };
        let before = at.checked_sub(1).and_then(part);
        let place = match (before, part(at + 1)) {
            (Some(before), None) => before.end..own.end,
            (_, Some(after)) => own.start..after.start,
            (None, None) => inside.open + 1..inside.close,
        };
        self.replace(place, "");
    }

    /// A value as it stands at a level.
    fn rendered(&self, value: &Value, level: usize) -> String {
        let mut bytes = Vec::new();
        let style = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, style);
        let written = value.serialize(&mut writer);
        let text = String::from_utf8(bytes).ok().filter(|_| written.is_ok());
        let text = text.unwrap_or_else(|| value.to_string());
        text.replace('\n', &format!("\n{}", self.unit.repeat(level)))
    }
}

/// How a text is indented: as its first indented line is, or else by two blanks.
fn unit(text: &str) -> String {
    let indented = text.lines().map(|line| (line, line.trim_start()));
    let found = indented.filter(|(_, rest)| rest.starts_with('"')).find_map(|(line, rest)| {
        let blanks = line.get(..line.len() - rest.len())?;
        (!blanks.is_empty()).then(|| blanks.to_owned())
    });
    found.unwrap_or_else(|| "  ".to_owned())
}

/// A reader of a text that only wants to know where values begin and end.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Passes blanks, and comments where there are any.
    fn blanks(&mut self) {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{feff}']);
            let mut passed = rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                passed += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                passed += trimmed.find("*/").map_or(trimmed.len(), |end| end + 2);
            }
            if passed == 0 {
                return;
            }
            self.at += passed;
        }
    }

    fn takes(&mut self, mark: char) -> bool {
        let found = self.rest().starts_with(mark);
        self.at += if found { mark.len_utf8() } else { 0 };
        found
    }

    /// Passes a string.
    fn string(&mut self) -> Option<()> {
        if !self.takes('"') {
            return None;
        }
        let mut escaped = false;
        for (at, byte) in self.rest().bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at += at + 1;
                    return Some(());
                }
                _ => {}
            }
        }
        None
    }

    /// Passes a value.
    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.rest().chars().next()? {
            '"' => self.string(),
            '{' | '[' => {
                let inside = self.inside_at(depth)?;
                self.at = inside.close + 1;
                Some(())
            }
            _ => {
                let rest = self.rest();
                let ends = |c: char| c.is_whitespace() || ",]}/".contains(c);
                let word = rest.get(..rest.find(ends).unwrap_or(rest.len()))?;
                serde_json::from_str::<Value>(word).ok()?;
                self.at += word.len();
                Some(())
            }
        }
    }

    fn inside(mut self) -> Option<Inside> {
        self.inside_at(0)
    }

    /// What is in the object or list that begins here.
    fn inside_at(&mut self, depth: usize) -> Option<Inside> {
        let open = self.at;
        let is_object = self.takes('{');
        if !is_object && !self.takes('[') {
            return None;
        }
        let closing = if is_object { '}' } else { ']' };
        let mut parts = Vec::new();
        loop {
            self.blanks();
            // A comma before the end is what some programs put up with.
            if self.takes(closing) {
                return Some(Inside { open, close: self.at - 1, is_object, parts });
            }
            let start = self.at;
            let name = match is_object {
                true => Some(self.name()?),
                false => None,
            };
            let from = self.at;
            self.value(depth + 1)?;
            parts.push(Part { name, whole: start..self.at, value: from..self.at });
            self.blanks();
            if !self.takes(',') && !self.rest().starts_with(closing) {
                return None;
            }
        }
    }

    /// A member's name and what stands before its value.
    fn name(&mut self) -> Option<String> {
        let start = self.at;
        self.string()?;
        let name = serde_json::from_str(self.text.get(start..self.at)?).ok()?;
        self.blanks();
        if !self.takes(':') {
            return None;
        }
        self.blanks();
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: &str = "{\n    \"env\": {\"A\": 1.0e3}, // why\n    \"hooks\": {\n        \"Stop\": [\n            {\"hooks\": [{\"type\": \"command\", \"command\": \"afplay x\"}]}\n        ]\n    }\n}\n";

    fn is_one(value: &Value) -> bool {
        value.get("ours").is_some()
    }

    fn with(text: &str) -> Document {
        let mut document = Document::of(text).expect("JSON");
        for event in ["Stop", "Start"] {
            let path: [&'static str; 2] = ["hooks", event];
            document
                .put_into_list(&path, &json!({ "ours": [1, { "a": 2 }] }), is_one)
                .expect("put");
        }
        document
    }

    #[test]
    fn what_is_put_in_is_found_and_taken_out_again_to_the_byte() {
        for text in
            [OTHERS, "{}\n", "{\"a\":1}", "{\n\t\"a\": [ ]\n}", "{\"hooks\": {\"Stop\": [1]}}"]
        {
            let mut document = with(text);
            assert_eq!(with(&document.text).text, document.text, "twice is once");
            for event in ["Stop", "Start"] {
                let list =
                    document.list(&["hooks", if event == "Stop" { "Stop" } else { "Start" }]);
                let list = list.expect("a list");
                let last = document.read(&list.parts.last().expect("one").value);
                assert_eq!(last, Some(json!({ "ours": [1, { "a": 2 }] })), "{}", document.text);
            }
            for event in document.names(&["hooks"]) {
                document.take_from_list(&["hooks", &event], is_one).expect("taken");
            }
            assert_eq!(document.text, text);
        }
    }

    #[test]
    fn it_looks_as_if_the_owner_had_written_it() {
        let text = with(OTHERS).text;
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
    fn what_is_no_object_or_holds_something_else_is_refused() {
        for text in ["[]", "{", "{\"a\" 1}", "{} x", "nope", "{\"a\": nope}", "{\"a\": \"b}"] {
            assert!(Document::of(text).is_err(), "{text}");
        }
        let mut document = Document::of("{\"hooks\": 7}").expect("JSON");
        assert!(document.put_into_list(&["hooks", "Stop"], &json!(1), is_one).is_err());
        let mut document = Document::of("{\"hooks\": {\"Stop\": {}}}").expect("JSON");
        assert!(document.put_into_list(&["hooks", "Stop"], &json!(1), is_one).is_err());
        let deep = "[".repeat(10_000);
        assert!(Document::of(&format!("{{\"a\":{deep}")).is_err());
    }
}
