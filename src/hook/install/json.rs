//! A JSON text that is changed at some places and stays to the byte as it is at all others: order,
//! blanks, spelling of numbers, comments where a program allows them. It must not know what the
//! text is about.

use std::ops::Range;

use serde::Serialize as _;
use serde_json::{Value, json};

use super::PlanError;

/// Levels at most: nobody nests settings deeper.
const DEPTH_MAX: usize = 100;

/// A text and where its values are. A path names members of objects, and numbers entries of lists.
pub(super) struct Document {
    text: String,
    /// How a level is indented.
    unit: String,
    /// How a line ends.
    line: &'static str,
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

impl Inside {
    /// Which part a step of a path means: of several members of a name the last one, which is what
    /// a program reads.
    fn at(&self, step: &str) -> Option<usize> {
        match self.is_object {
            true => self.parts.iter().rposition(|part| part.name.as_deref() == Some(step)),
            false => step.parse().ok().filter(|at| *at < self.parts.len()),
        }
    }
}

impl Document {
    /// Reads a text; an empty one is an empty object.
    pub(super) fn of(text: &str) -> Result<Self, PlanError> {
        let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
        let empty = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty();
        let given = if empty { format!("{}{{}}{line}", text.trim()) } else { text.to_owned() };
        let mut scan = Scan { text: &given, at: 0 };
        scan.blanks();
        let broken = |at: usize| {
            let line = given.get(..at).unwrap_or_default().matches('\n').count() + 1;
            PlanError::Broken(format!("it is no JSON object: line {line}"))
        };
        let start = scan.at;
        scan.value(0).ok_or_else(|| broken(scan.at))?;
        scan.blanks();
        if scan.at < given.len() || !given.get(start..).is_some_and(|rest| rest.starts_with('{')) {
            return Err(broken(scan.at));
        }
        Ok(Self { unit: unit(&given), text: given, line })
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Names of the members of an object; none when there is no such object.
    pub(super) fn names(&self, path: &[&str]) -> Vec<String> {
        let parts = self.inside(path).into_iter().flat_map(|inside| inside.parts);
        parts.filter_map(|part| part.name).collect()
    }

    /// Entries of a list; none when there is no such list.
    pub(super) fn entries(&self, path: &[&str]) -> Vec<Value> {
        let list = self.inside(path).filter(|inside| !inside.is_object);
        let parts = list.into_iter().flat_map(|list| list.parts);
        parts.map(|part| self.read(&part.value)).collect()
    }

    /// Sees to it that what is at a path has a value.
    pub(super) fn put(&mut self, path: &[&str], value: &Value) -> Result<(), PlanError> {
        if let Some(found) = self.find(path) {
            if self.read(&found) != *value {
                let text = self.rendered(value, path.len());
                self.text.replace_range(found, &text);
            }
            return Ok(());
        }
        let Some((name, above)) = path.split_last() else { return Ok(()) };
        if self.find(above).is_none() {
            self.put(above, &json!({}))?;
        }
        self.add(above, Some(name), value)
    }

    /// Adds an entry to the list at a path.
    pub(super) fn put_into_list(&mut self, path: &[&str], value: &Value) -> Result<(), PlanError> {
        if self.find(path).is_none() {
            self.put(path, &json!([]))?;
        }
        self.add(path, None, value)
    }

    /// Takes what is at a path away, and what holds nothing else above it.
    pub(super) fn take(&mut self, path: &[&str]) {
        let Some((step, above)) = path.split_last() else { return };
        let Some(inside) = self.inside(above) else { return };
        let Some(at) = inside.at(step) else { return };
        self.cut(&inside, at);
        let left = self.inside(above).and_then(|left| self.text.get(left.open + 1..left.close));
        if left.is_some_and(|left| left.trim().is_empty()) && !above.is_empty() {
            self.take(above);
        }
    }

    /// The value at a path.
    fn find(&self, path: &[&str]) -> Option<Range<usize>> {
        let mut scan = Scan { text: &self.text, at: 0 };
        scan.blanks();
        let start = scan.at;
        scan.value(0)?;
        let mut found = start..scan.at;
        for step in path {
            let inside = self.inside_at(found.start)?;
            found = inside.parts.get(inside.at(step)?)?.value.clone();
        }
        Some(found)
    }

    /// What is in the object or list at a path.
    fn inside(&self, path: &[&str]) -> Option<Inside> {
        self.inside_at(self.find(path)?.start)
    }

    fn inside_at(&self, open: usize) -> Option<Inside> {
        Scan { text: &self.text, at: open }.inside()
    }

    /// A value, whatever comments and commas are in it.
    fn read(&self, place: &Range<usize>) -> Value {
        let Some(inside) = self.inside_at(place.start) else {
            let text = self.text.get(place.clone()).unwrap_or_default();
            return serde_json::from_str(text).unwrap_or_default();
        };
        let parts = inside.parts.into_iter().map(|part| (part.name, self.read(&part.value)));
        match inside.is_object {
            true => parts.filter_map(|(name, value)| Some((name?, value))).collect(),
            false => parts.map(|(_, value)| value).collect(),
        }
    }

    /// The comma behind a place, blanks and comments aside.
    fn comma(&self, place: usize) -> Option<usize> {
        let mut scan = Scan { text: &self.text, at: place };
        scan.blanks();
        scan.rest().starts_with(',').then_some(scan.at)
    }

    /// Adds behind all that is in the object or list at a path, comments as well.
    fn add(&mut self, path: &[&str], name: Option<&str>, value: &Value) -> Result<(), PlanError> {
        let what = path.last().copied().unwrap_or("the text").to_owned();
        let wanted = if name.is_some() { "an object" } else { "a list" };
        let inside = self.inside(path).filter(|inside| inside.is_object == name.is_some());
        let inside = inside.ok_or(PlanError::Other(what, wanted))?;
        let (level, line) = (path.len() + 1, self.line);
        let indent = self.unit.repeat(level);
        let name = name.map_or_else(String::new, |name| format!("{}: ", json!(name)));
        let own = format!("{line}{indent}{name}{}", self.rendered(value, level));
        let Some(last) = inside.parts.last() else {
            let kept = self.text.get(inside.open + 1..inside.close).unwrap_or_default().trim_end();
            let text = format!("{kept}{own}{line}{}", self.unit.repeat(level - 1));
            self.text.replace_range(inside.open + 1..inside.close, &text);
            return Ok(());
        };
        let before = self.text.get(inside.open + 1..last.whole.start).unwrap_or_default();
        let behind = self.text.get(last.whole.end..inside.close).unwrap_or_default();
        let place = last.whole.end + behind.trim_end().len();
        // Somebody likes it in one line.
        let in_one = !before.contains('\n') && !behind.contains("//");
        let own = if in_one { format!(" {name}{value}") } else { own };
        match self.comma(last.whole.end) {
            Some(_) => self.text.insert_str(place, &format!("{own},")),
            None => {
                self.text.insert_str(place, &own);
                self.text.insert(last.whole.end, ',');
            }
        }
        Ok(())
    }

    /// Takes a part away, with the comma that goes with it; comments around it stay.
    fn cut(&mut self, inside: &Inside, at: usize) {
        let whole = |at: usize| inside.parts.get(at).map(|part| part.whole.clone());
        let Some(own) = whole(at) else { return };
        let text = |place: Range<usize>| self.text.get(place).unwrap_or_default();
        // With the blanks before it.
        let begin = inside.open + 1 + text(inside.open + 1..own.start).trim_end().len();
        let before = at.checked_sub(1).and_then(whole).and_then(|before| self.comma(before.end));
        match (self.comma(own.end), whole(at + 1)) {
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
        // Of what holds nothing any more no blanks are left either.
        if let Some(left) = self.inside_at(inside.open).filter(|left| left.parts.is_empty()) {
            let blank = left.open + 1..left.close;
            if self.text.get(blank.clone()).is_some_and(|text| text.trim().is_empty()) {
                self.text.replace_range(blank, "");
            }
        }
    }

    /// A value as it stands at a level.
    fn rendered(&self, value: &Value, level: usize) -> String {
        let mut bytes = Vec::new();
        let style = serde_json::ser::PrettyFormatter::with_indent(self.unit.as_bytes());
        let mut writer = serde_json::Serializer::with_formatter(&mut bytes, style);
        let written = value.serialize(&mut writer);
        let text = String::from_utf8(bytes).ok().filter(|_| written.is_ok());
        let text = text.unwrap_or_else(|| value.to_string());
        text.replace('\n', &format!("{}{}", self.line, self.unit.repeat(level)))
    }
}

/// How a text is indented: as the least indented of its lines is, or else by two blanks.
fn unit(text: &str) -> String {
    let indented = text.lines().filter_map(|line| {
        let rest = line.trim_start();
        let blanks = line.get(..line.len() - rest.len())?;
        (rest.starts_with(['"', '{', '}', '[', ']']) && !blanks.is_empty()).then_some(blanks)
    });
    indented.min_by_key(|blanks| blanks.len()).unwrap_or("  ").to_owned()
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

    fn with(text: &str) -> Document {
        let mut document = Document::of(text).expect("JSON");
        for event in ["Stop", "Start"] {
            let path = ["hooks", event];
            document.put_into_list(&path, &json!({ "ours": [1, { "a": 2 }] })).expect("put");
        }
        document
    }

    #[test]
    fn what_is_put_in_is_found_and_taken_out_again_to_the_byte() {
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
            let mut document = with(text);
            let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
            assert_eq!(document.text.matches('\n').count(), document.text.matches(line).count());
            for event in ["Stop", "Start"] {
                let entries = document.entries(&["hooks", event]);
                assert_eq!(entries.last(), Some(&json!({ "ours": [1, { "a": 2 }] })), "{text}");
                let last = (entries.len() - 1).to_string();
                document.take(&["hooks", event, &last]);
            }
            assert_eq!(document.text, text);
        }
    }

    #[test]
    fn comments_around_what_is_taken_stay() {
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
            let mut document = Document::of(text).expect("JSON");
            document.take(&["x"]);
            assert_eq!(document.text, expected);
            assert!(Document::of(&document.text).is_ok());
        }
    }

    #[test]
    fn a_value_is_read_and_changed_whatever_comments_are_in_it() {
        let text = "{\"a\": [{/* c */ \"b\": 1, // d\n \"c\": [2,],}]}";
        let mut document = Document::of(text).expect("JSON");
        assert_eq!(document.entries(&["a"]), [json!({ "b": 1, "c": [2] })]);
        document.put(&["a", "0", "b"], &json!("x")).expect("put");
        assert_eq!(document.text, text.replace("\"b\": 1", "\"b\": \"x\""));
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
        for text in ["{\"hooks\": 7}", "{\"hooks\": {\"Stop\": {}}}", "{\"hooks\": []}"] {
            let mut document = Document::of(text).expect("JSON");
            assert!(document.put_into_list(&["hooks", "Stop"], &json!(1)).is_err(), "{text}");
        }
        let deep = "[".repeat(10_000);
        assert!(Document::of(&format!("{{\"a\":{deep}")).is_err());
    }
}
