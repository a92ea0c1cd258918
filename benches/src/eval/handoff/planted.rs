//! Sessions generated from a seed, with facts of several kinds planted in similar filler, and
//! values that are retracted later. It must not record them, or know the result of a restore.

use serde_json::{Value, json};

use super::super::{
    dice::Dice,
    grammar::{Grammar, Words},
};
use sessionlog::event::kinds;

/// One turn in this many has a fact; of some kinds of facts, one in this many is retracted.
const TURNS_OF_FACT: usize = 8;
const TAKEN_BACK_OF: usize = 3;
/// Number of turns after which a value is retracted.
const TURNS_LATER: usize = 3;

/// Length of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) name: &'static str,
    /// Approximate number of events.
    pub(super) events: usize,
}

/// All sizes.
pub(super) const SIZES: [Size; 4] = [
    Size { name: "small", events: 120 },
    Size { name: "medium", events: 500 },
    Size { name: "large", events: 2_000 },
    Size { name: "huge", events: 10_000 },
];

/// Content type of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    /// Commands and edits, with occasional messages.
    Code,
    /// Messages alone.
    Conversation,
    /// Commands, edits and messages.
    Mixed,
}

impl Type {
    pub(super) const ALL: [Self; 3] = [Self::Code, Self::Conversation, Self::Mixed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Conversation => "conversation",
            Self::Mixed => "mixed",
        }
    }

    /// Returns the percentage of turns that are calls.
    fn calls(self) -> usize {
        match self {
            Self::Code => 80,
            Self::Conversation => 0,
            Self::Mixed => 50,
        }
    }

    fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Conversation => &[Kind::Instruction, Kind::Decision, Kind::Item],
            _ => &Kind::ALL,
        }
    }
}

/// Kind of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Standing instruction of the user.
    Instruction,
    /// Decision in a sentence of the agent.
    Decision,
    /// Saved context item.
    Item,
    /// Test that fails at the end.
    Failure,
    /// Edited file.
    File,
}

impl Kind {
    pub(super) const ALL: [Self; 5] =
        [Self::Instruction, Self::Decision, Self::Item, Self::Failure, Self::File];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Decision => "decision in a message",
            Self::Item => "saved item",
            Self::Failure => "failing test",
            Self::File => "changed file",
        }
    }
}

/// A fact: a line that has both its subject and its value states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) kind: Kind,
    pub(super) subject: String,
    pub(super) value: String,
}

/// A session to be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Made {
    /// Events in order.
    pub(super) events: Vec<Value>,
    /// Context items to be saved at the end.
    pub(super) items: Vec<Value>,
    /// Facts that hold at the end.
    pub(super) facts: Vec<Fact>,
    /// Retracted facts: a replaced item, a test that passes again, a message marked wrong.
    pub(super) stale: Vec<Fact>,
    /// Files that were edited and then checked out again.
    pub(super) reverted: Vec<String>,
    /// Indices of the events whose messages are to be marked wrong.
    pub(super) wrong: Vec<usize>,
}

/// Generates the session of a seed.
pub(super) fn made(seed: u64, size: Size, of: Type) -> Made {
    let mut writer = Writer {
        of,
        dice: Dice::new(seed, of.name()),
        grammar: Grammar { tables: [WORDS, &[]], habits: seed + 1 },
        made: Made::default(),
        turn: 0,
        later: Vec::new(),
    };
    writer.say(kinds::USER_MESSAGE, "Bring the billing of the shop to the new ledger");
    while writer.made.events.len() < size.events {
        writer.turn += 1;
        writer.due();
        if writer.turn % TURNS_OF_FACT == TURNS_OF_FACT / 2 {
            let kind = *writer.dice.of(of.kinds());
            writer.plant(kind);
        } else if writer.dice.percent(of.calls()) {
            writer.routine();
        } else {
            writer.talk();
        }
    }
    writer.turn += TURNS_LATER;
    writer.due();
    writer.made
}

struct Writer {
    of: Type,
    dice: Dice,
    grammar: Grammar,
    made: Made,
    turn: usize,
    /// Commands that retract a fact, with the turn of each.
    later: Vec<(usize, String, String)>,
}

impl Writer {
    fn slot(&mut self, name: &str) -> String {
        self.grammar.slot(&mut self.dice, name)
    }

    fn filler(&mut self, sentences: usize) -> String {
        let said: Vec<String> = (0..sentences).map(|_| self.slot("filler")).collect();
        said.join(" ")
    }

    fn say(&mut self, kind: &str, text: &str) {
        self.made.events.push(json!({ "type": kind, "content": text }));
    }

    fn call(&mut self, name: &str, input: &Value, output: &str, is_error: bool) {
        let id = format!("c{}", self.made.events.len());
        self.made.events.extend([
            json!({ "type": kinds::AGENT_TOOL_USE, "call_id": id, "name": name, "input": input }),
            json!({ "type": kinds::AGENT_TOOL_RESULT, "call_id": id, "content": output,
                "is_error": is_error }),
        ]);
    }

    fn add_command_run(&mut self, command: &str, output: &str, is_error: bool) {
        self.call("Bash", &json!({ "command": command }), output, is_error);
    }

    /// Runs the retractions that are due.
    fn due(&mut self) {
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(turn, _, _)| *turn <= self.turn);
        self.later = later;
        let due: Vec<(usize, String, String)> = due;
        due.iter().for_each(|(_, command, output)| self.add_command_run(command, output, false));
    }

    /// Adds a call without a fact.
    fn routine(&mut self) {
        let (thing, part) = (self.slot("thing"), self.dice.below(17));
        let path = format!("src/{thing}/part{part}.py");
        let output = self.filler(3);
        match self.dice.below(3) {
            0 => self.add_command_run(&format!("sed -n 1,40p {path}"), &output, false),
            1 => self.add_command_run(&format!("grep -rn {thing} docs"), &output, false),
            _ => self.call("Read", &json!({ "file_path": path }), &output, false),
        }
    }

    /// Adds messages without a fact: one of the agent, at times after a question.
    fn talk(&mut self) {
        if self.dice.percent(30) {
            let question = self.slot("question");
            self.say(kinds::USER_MESSAGE, &question);
        }
        let text = self.filler(2);
        self.say(kinds::AGENT_MESSAGE, &text);
    }

    fn plant(&mut self, kind: Kind) {
        let (bird, thing, verb) = (self.slot("bird"), self.slot("thing"), self.slot("verb"));
        let subject = format!("{bird}{}", self.turn);
        let value = (10_000 + self.dice.below(80_000)).to_string();
        let is_taken_back = self.dice.below(TAKEN_BACK_OF) == 0;
        let fact = format!("The {thing} {subject} {verb} {value}.");
        let fact_of = |value: String| Fact { kind, subject: subject.clone(), value };
        match kind {
            Kind::Instruction => {
                let said = self.slot("instruction").replace("<f>", &fact);
                self.say(kinds::USER_MESSAGE, &said);
                self.made.facts.push(fact_of(value));
            }
            Kind::Decision => {
                let said = self.slot("decision").replace("<f>", &fact);
                let text = format!("{} {said} {}", self.filler(1), self.filler(1));
                if is_taken_back {
                    self.made.wrong.push(self.made.events.len());
                    self.made.stale.push(fact_of(value));
                } else {
                    self.made.facts.push(fact_of(value));
                }
                self.say(kinds::AGENT_MESSAGE, &text);
            }
            Kind::Item => {
                let is_code = self.of != Type::Conversation;
                let category = if is_code { "code" } else { "concept" };
                let item = |value: &str| {
                    let content = match is_code {
                        true => format!("let {thing} = open(\"{subject}\", {value});"),
                        false => format!("The {thing} {subject} {verb} {value}."),
                    };
                    json!({ "id": subject, "category": category, "importance": 7,
                        "content": content })
                };
                if is_taken_back {
                    let old = format!("9{value}");
                    self.made.items.push(item(&old));
                    self.made.stale.push(fact_of(old));
                }
                self.made.items.push(item(&value));
                self.made.facts.push(fact_of(value));
                self.talk();
            }
            Kind::Failure => {
                let command = format!("pytest -q test_{thing}.py -k {subject}");
                let output = format!("FAILED test_{thing}.py::test_{subject} - {value} != 0");
                self.add_command_run(&command, &output, true);
                if is_taken_back {
                    self.retract_fact(command, "1 passed in 0.12s");
                    self.made.stale.push(fact_of(value));
                } else {
                    self.made.facts.push(fact_of(value));
                }
            }
            Kind::File => {
                let path = format!("src/{thing}/{subject}.py");
                let (old, new) = (format!("{thing} = 0"), format!("{thing} = {value}"));
                let input = json!({ "file_path": path, "old_string": old, "new_string": new });
                self.call("Edit", &input, "ok", false);
                if is_taken_back {
                    self.retract_fact(format!("git checkout -- {path}"), "");
                    self.made.reverted.push(path);
                } else {
                    self.made.facts.push(Fact { kind, subject, value: path });
                }
            }
        }
    }

    fn retract_fact(&mut self, command: String, output: &str) {
        self.later.push((self.turn + TURNS_LATER, command, output.to_owned()));
    }
}

/// Numbers and times of filler are as varied as those of facts; people and documents recur.
const WORDS: Words = &[
    ("who", &["Ada", "Benno", "Carla", "Dmitri", "Esther", "Farid", "Greta", "Hugo"]),
    ("part", &["B-12", "B-14", "C-3", "C-7", "D-21", "D-40", "E-5", "F-9"]),
    ("bird", &["Heron", "Plover", "Dunlin", "Siskin", "Wigeon", "Godwit", "Linnet", "Curlew"]),
    ("thing", &["gateway", "ledger", "queue", "archive", "beacon", "scheduler"]),
    ("verb", &["listens on", "keeps", "waits", "allows", "ends at"]),
    ("instruction", &["From now on: <f>", "Please mind that: <f>", "<f> Keep it so.", "Note: <f>"]),
    ("decision", &["We settled it: <f>", "<f>", "So it is decided. <f>", "Measured again: <f>"]),
    (
        "filler",
        &[
            "I looked at the {thing} of {bird}, which {verb} what it did in part {n}.",
            "The {thing} of {bird} {verb} {m}, as it did before.",
            "Between {clock} and {clock} the {thing} was quiet.",
            "{who} asked about the {thing} of {bird}; nothing there had changed since {clock}.",
            "I compared {n} ways to read the {thing} and kept none of them.",
            "The log of the {thing} has {k} lines without an error.",
            "The part on {bird} and the {thing} is {part} in the manual.",
            "It took {n} minutes to read what {who} wrote on the {thing}.",
            "Next comes the {thing} of {bird}, part {m}.",
        ],
    ),
    (
        "question",
        &[
            "Can you look at the {thing} of {bird} again?",
            "What did {who} say of the {thing}?",
            "How long does the {thing} take?",
            "Is {part} the part on the {thing}?",
            "ok, go on",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_session_and_each_type_has_its_kinds_of_facts() {
        for of in Type::ALL {
            let [_, size, ..] = SIZES;
            let made = made(7, size, of);
            assert_eq!(made, super::made(7, size, of));
            assert!(made.events.len() >= size.events, "{of:?}");
            let mut kinds: Vec<Kind> = made.facts.iter().map(|fact| fact.kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let mut wanted = of.kinds().to_vec();
            wanted.sort_unstable();
            assert_eq!(kinds, wanted, "{of:?}");
            assert!(!made.stale.is_empty(), "{of:?}");
            let text = Value::from(made.events.clone()).to_string();
            let is_said = |fact: &&Fact| fact.kind != Kind::Item;
            for fact in made.facts.iter().filter(is_said) {
                assert!(text.contains(&fact.value), "{fact:?}");
            }
            for at in &made.wrong {
                assert_eq!(made.events[*at]["type"], kinds::AGENT_MESSAGE, "{of:?}");
            }
        }
    }

    #[test]
    fn a_retracted_file_is_checked_out_before_the_end_of_its_session() {
        let [.., size, _] = SIZES;
        let made = made(3, size, Type::Code);
        let commands: Vec<&str> = made
            .events
            .iter()
            .filter_map(|event| event.pointer("/input/command").and_then(Value::as_str))
            .collect();
        assert!(!made.reverted.is_empty());
        for path in &made.reverted {
            let command = format!("git checkout -- {path}");
            assert!(commands.contains(&command.as_str()), "{path}");
        }
    }
}
