//! Reads conversations with questions whose evidence is known, from LoCoMo's JSON or from JSON
//! lines of our own format, into the same sets. It must not guess: another format is rejected with
//! its file and location.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::when;
use crate::failure::{Failure, Outcome};
use ::sessionlog::env::files;

const FILE_BYTES_MAX: u64 = 256 << 20;
/// Names of LoCoMo's numbered categories.
const CATEGORIES: [&str; 5] =
    ["1 several hops", "2 time", "3 inference", "4 one hop", "5 adversarial"];

/// A conversation of several sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    /// File name, and number of the conversation in it.
    pub(super) name: String,
    pub(super) sessions: Vec<Session>,
    pub(super) questions: Vec<Question>,
    /// Duplicate names of turns, and names in evidence that no turn has; external data sets have
    /// some.
    pub(super) misfits: Vec<String>,
}

/// A session of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    /// Time of the session, RFC 3339.
    pub(super) at: Option<String>,
    pub(super) turns: Vec<Turn>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) speaker: String,
    /// True if the second of the two speakers speaks.
    pub(super) answers: bool,
    pub(super) text: String,
    /// Caption of a picture that was sent.
    pub(super) caption: Option<String>,
}

/// Location of a turn: its session, and its index there.
pub(super) type Place = (usize, usize);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) text: String,
    /// Turns that contain the answer; none where the question is not counted.
    pub(super) evidence: Vec<Place>,
    pub(super) category: String,
}

/// A line of our own: a conversation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: Option<String>,
    turns: Vec<LineTurn>,
    #[serde(default)]
    questions: Vec<LineQuestion>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineTurn {
    id: String,
    /// Turns of a session follow each other.
    #[serde(default)]
    session: String,
    /// Of its session: RFC 3339.
    at: Option<String>,
    speaker: String,
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LineQuestion {
    question: String,
    evidence: Vec<String>,
    #[serde(default)]
    category: String,
}

/// Reads every conversation of the `.json` and `.jsonl` files of a directory, sorted by name.
///
/// # Errors
/// [`Failure::File`] if a file cannot be read, [`Failure::Shape`] if its format is invalid.
pub(super) fn read(directory: &Path) -> Outcome<Vec<Conversation>> {
    let of_file = |path: &Path, source| Failure::File { path: path.to_path_buf(), source };
    let mut paths: Vec<PathBuf> =
        files::list(directory).map_err(|source| of_file(directory, source))?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let shape: fn(&Bad<'_>, &str) -> Outcome<Vec<Conversation>> =
            match path.extension().and_then(|end| end.to_str()) {
                Some("json") => locomo,
                Some("jsonl") => lines,
                _ => continue,
            };
        let text = files::read_text(&path, FILE_BYTES_MAX).map_err(|e| of_file(&path, e))?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let stem = stem.unwrap_or_default();
        let found = shape(&Bad(&path), &text)?;
        for (number, mut conversation) in (1..).zip(found) {
            if conversation.name.is_empty() {
                conversation.name = format!("{stem}-{number}");
            }
            all.push(conversation);
        }
    }
    match all.is_empty() {
        true => Err(Bad(directory).at("", "no .json or .jsonl file with a conversation")),
        false => Ok(all),
    }
}

/// The file being read, for error messages.
struct Bad<'a>(&'a Path);

impl Bad<'_> {
    fn at(&self, place: &str, problem: impl Into<String>) -> Failure {
        let (path, place) = (self.0.to_path_buf(), place.to_owned());
        Failure::Shape { path, place, problem: problem.into() }
    }
}

/// Parses lines of our own format.
fn lines(bad: &Bad<'_>, text: &str) -> Outcome<Vec<Conversation>> {
    let numbered = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line): (usize, &str)| {
        let place = format!("line {number}");
        let line: Line =
            serde_json::from_str(line).map_err(|error| bad.at(&place, error.to_string()))?;
        parse_line(bad, &place, line)
    };
    numbered.map(read).collect()
}

fn parse_line(bad: &Bad<'_>, place: &str, line: Line) -> Outcome<Conversation> {
    let mut made = Conversation { name: line.name.unwrap_or_default(), ..Default::default() };
    let mut places = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    let first = line.turns.first().map(|turn| turn.speaker.clone()).unwrap_or_default();
    for (number, turn) in line.turns.into_iter().enumerate() {
        let at = format!("{place}, turns[{number}]");
        if names.last() != Some(&turn.session) {
            if names.contains(&turn.session) {
                return Err(bad.at(&at, format!("session {:?} began before", turn.session)));
            }
            let time = turn.at.as_deref();
            if time.is_some_and(|time| !when::is_instant(time)) {
                return Err(bad.at(&at, "`at` takes RFC 3339"));
            }
            made.sessions.push(Session { at: turn.at, turns: Vec::new() });
            names.push(turn.session);
        }
        let answers = turn.speaker != first;
        let Some(session) = made.sessions.last_mut() else { continue };
        let LineTurn { id, speaker, text, .. } = turn;
        session.turns.push(Turn { speaker, answers, text, caption: None });
        let turn = (names.len() - 1, session.turns.len() - 1);
        if places.insert(id.clone(), turn).is_some() {
            return Err(bad.at(&at, format!("there are two turns {id:?}")));
        }
    }
    for (number, asked) in line.questions.into_iter().enumerate() {
        let at = format!("{place}, questions[{number}]");
        let find = |id: &String| {
            places.get(id).copied().ok_or_else(|| bad.at(&at, format!("there is no turn {id:?}")))
        };
        let evidence = asked.evidence.iter().map(find).collect::<Outcome<Vec<Place>>>()?;
        let (text, category) = (asked.question, asked.category);
        made.questions.push(Question { text, evidence, category });
    }
    Ok(made)
}

/// Parses LoCoMo's conversations: a list of them, or one.
fn locomo(bad: &Bad<'_>, text: &str) -> Outcome<Vec<Conversation>> {
    let all: Value = serde_json::from_str(text).map_err(|error| {
        bad.at(&format!("line {}, column {}", error.line(), error.column()), error.to_string())
    })?;
    match all {
        Value::Array(all) => {
            let read =
                |(number, one): (usize, &Value)| parse_locomo(bad, &format!("[{number}]"), one);
            all.iter().enumerate().map(read).collect()
        }
        Value::Object(_) => Ok(vec![parse_locomo(bad, "", &all)?]),
        _ => Err(bad.at("", "a conversation or a list of them is expected")),
    }
}

fn parse_locomo(bad: &Bad<'_>, place: &str, one: &Value) -> Outcome<Conversation> {
    let place = |more: &str| format!("{place}{more}");
    // The sessions are members of a conversation, or next to its questions.
    let within = if one.get("speaker_a").is_some() { "" } else { ".conversation" };
    let said = if within.is_empty() { Some(one) } else { one.get("conversation") };
    let said = said.and_then(Value::as_object);
    let said = said.ok_or_else(|| bad.at(&place(within), "an object is expected"))?;
    let text = |name: &str| {
        let text = said.get(name).and_then(Value::as_str);
        text.ok_or_else(|| bad.at(&place(&format!("{within}.{name}")), "a text is expected"))
    };
    let (_, second) = (text("speaker_a")?, text("speaker_b")?);
    let name = one.get("sample_id").and_then(Value::as_str).unwrap_or_default();
    let mut made = Conversation { name: name.to_owned(), ..Conversation::default() };
    let mut places = BTreeMap::new();
    for (number, turns) in sessions(said) {
        let name = format!("session_{number}");
        let at = place(&format!("{within}.{name}"));
        let time = text(&format!("{name}_date_time"))?;
        let time = when::read(time)
            .ok_or_else(|| bad.at(&format!("{at}_date_time"), format!("no time: {time:?}")))?;
        let mut session = Session { at: Some(time), turns: Vec::new() };
        for (turn, said) in turns.iter().enumerate() {
            let at = format!("{at}[{turn}]");
            let text = |name: &str| {
                let text = said.get(name).and_then(Value::as_str);
                text.ok_or_else(|| bad.at(&format!("{at}.{name}"), "a text is expected"))
            };
            let id = text("dia_id")?;
            if places.contains_key(id) {
                made.misfits.push(format!("{at}: {id} again"));
            } else {
                places.insert(id.to_owned(), (made.sessions.len(), turn));
            }
            let caption = said.get("blip_caption").and_then(Value::as_str).map(str::to_owned);
            let (speaker, text) = (text("speaker")?.to_owned(), text("text")?.to_owned());
            let answers = speaker == second;
            session.turns.push(Turn { speaker, answers, text, caption });
        }
        made.sessions.push(session);
    }
    let asked = one.get("qa").and_then(Value::as_array);
    let asked = asked.ok_or_else(|| bad.at(&place(".qa"), "a list is expected"))?;
    for (number, asked) in asked.iter().enumerate() {
        let at = place(&format!(".qa[{number}]"));
        made.ask(bad, &at, asked, &places)?;
    }
    Ok(made)
}

impl Conversation {
    /// Adds a question of LoCoMo's format. Its evidence may have several names in one text.
    fn ask(
        &mut self,
        bad: &Bad<'_>,
        place: &str,
        asked: &Value,
        places: &BTreeMap<String, Place>,
    ) -> Outcome {
        let text = asked.get("question").and_then(Value::as_str);
        let text =
            text.ok_or_else(|| bad.at(&format!("{place}.question"), "a text is expected"))?;
        let evidence = format!("{place}.evidence");
        let names = match asked.get("evidence") {
            None | Some(Value::Null) => &[],
            Some(Value::Array(names)) => names.as_slice(),
            Some(_) => return Err(bad.at(&evidence, "a list is expected")),
        };
        let mut question = Question { text: text.to_owned(), ..Question::default() };
        for name in names {
            let name = name.as_str().ok_or_else(|| bad.at(&evidence, "texts are expected"))?;
            for name in name.split([';', ',', ' ']).filter(|name| !name.is_empty()) {
                match places.get(name) {
                    Some(turn) if question.evidence.contains(turn) => {}
                    Some(turn) => question.evidence.push(*turn),
                    None => self.misfits.push(format!("{evidence}: {name} is no turn")),
                }
            }
        }
        let number = asked.get("category").and_then(Value::as_u64).unwrap_or_default();
        let known = usize::try_from(number).ok().and_then(|n| CATEGORIES.get(n.checked_sub(1)?));
        question.category = known.map_or_else(|| number.to_string(), |name| (*name).to_owned());
        self.questions.push(question);
        Ok(())
    }
}

/// Returns the sessions by their numbers.
fn sessions(said: &Map<String, Value>) -> Vec<(u32, &Vec<Value>)> {
    let number = |name: &str| name.strip_prefix("session_")?.parse::<u32>().ok();
    let found = said.iter().filter_map(|(name, turns)| Some((number(name)?, turns.as_array()?)));
    let mut found: Vec<(u32, &Vec<Value>)> = found.collect();
    found.sort_unstable_by_key(|(number, _)| *number);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PATH: &str = "d/set.json";

    fn one() -> Value {
        json!([{ "conversation": {
            "speaker_a": "Ana", "speaker_b": "Bo",
            "session_2": [{ "speaker": "Bo", "dia_id": "D2:1", "text": "b", "blip_caption": "c" }],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{ "speaker": "Ana", "dia_id": "D1:1", "text": "a" }],
            "session_1_date_time": "9:05 am on 1 May, 2023",
            "session_3_date_time": "9:05 am on 9 May, 2023",
        }, "qa": [
            { "question": "q", "answer": 7, "evidence": ["D2:1; D1:1", "D9:9"], "category": 1 },
            { "question": "r", "evidence": [], "category": 5 },
        ] }])
    }

    #[test]
    fn the_locomo_format_is_read_with_its_irregularities() {
        let found = locomo(&Bad(Path::new(PATH)), &one().to_string()).unwrap().remove(0);
        let times: Vec<_> = found.sessions.iter().map(|one| one.at.as_deref().unwrap()).collect();
        assert_eq!(times, ["2023-05-01T09:05:00Z", "2023-05-08T13:56:00Z"]);
        let turn = &found.sessions[1].turns[0];
        assert!(turn.answers && turn.caption.as_deref() == Some("c"), "{turn:?}");
        assert_eq!(found.questions[0].evidence, [(1, 0), (0, 0)]);
        assert_eq!(found.questions[0].category, "1 several hops");
        assert_eq!(found.misfits, ["[0].qa[0].evidence: D9:9 is no turn"]);
        assert!(found.questions[1].evidence.is_empty());
    }

    #[test]
    fn a_set_of_another_format_is_rejected_with_the_location_of_the_difference() {
        type Change = fn(&mut Value);
        let changes: [(Change, &str); 8] = [
            (|set| *set = json!({}), ".conversation"),
            (|set| *set = json!("set"), ""),
            (|set| set[0]["conversation"] = json!(1), "[0].conversation"),
            (|set| set[0]["conversation"]["speaker_b"] = json!(1), "[0].conversation.speaker_b"),
            (
                |set| set[0]["conversation"]["session_1_date_time"] = json!("noon"),
                "[0].conversation.session_1_date_time",
            ),
            (
                |set| set[0]["conversation"]["session_2"][0]["text"] = json!(null),
                "[0].conversation.session_2[0].text",
            ),
            (|set| set[0]["qa"][1]["evidence"] = json!("D1:1"), "[0].qa[1].evidence"),
            (|set| set[0]["qa"][0]["question"] = json!(1), "[0].qa[0].question"),
        ];
        for (change, expected) in changes {
            let mut set = one();
            change(&mut set);
            let failure = locomo(&Bad(Path::new(PATH)), &set.to_string()).unwrap_err();
            let Failure::Shape { path, place, .. } = failure else { panic!("{failure}") };
            assert_eq!((path.to_str(), place.as_str()), (Some(PATH), expected));
        }
    }

    fn turn(id: &str, session: &str, speaker: &str) -> Value {
        json!({ "id": id, "session": session, "speaker": speaker, "text": id })
    }

    #[test]
    fn a_line_of_our_format_is_one_conversation_and_must_be_complete() {
        let read = |line: Value| lines(&Bad(Path::new("d/set.jsonl")), &format!("\n{line}\n"));
        let turns = json!([turn("a", "1", "Ana"), turn("b", "1", "Bo"), turn("c", "2", "Ana")]);
        let asked = json!([{"question": "q", "evidence": ["c", "b"], "category": "hop"}]);
        let found = read(json!({"turns": turns, "questions": asked})).unwrap().remove(0);
        assert_eq!(found.questions[0].evidence, [(1, 0), (0, 1)]);
        assert!(found.sessions[0].turns[1].answers && !found.sessions[1].turns[0].answers);
        let again = json!([turn("a", "1", "Ana"), turn("b", "2", "Bo"), turn("c", "1", "Ana")]);
        let missing = json!([{"question": "q", "evidence": ["d"]}]);
        for (line, place) in [
            (json!({"turns": again}), "line 2, turns[2]"),
            (json!({"turns": turns, "questions": missing}), "line 2, questions[0]"),
            (json!({"turns": [turn("a", "1", "x"), turn("a", "1", "x")]}), "line 2, turns[1]"),
            (json!({"turns": turns, "answers": 1}), "line 2"),
        ] {
            let failure = read(line).unwrap_err();
            let Failure::Shape { place: found, .. } = failure else { panic!("{failure}") };
            assert_eq!(found, place);
        }
    }
}
