//! Conversations of a service desk: some generated from a seed, and the real ones of a file joined
//! into one. Each has a current request and earlier changes. It must not record anything.

use std::{collections::BTreeSet, path::Path};

use serde_json::{Value, json};

use super::{
    dice::Dice,
    grammar::{Grammar, Words, capitalised},
    research::{Fact, StepMember},
};
use crate::failure::{Failure, Outcome};
use sessionlog::{env::files, event::kinds};

/// Number of requests in a generated conversation; after the last, the user only says thanks.
const REQUESTS: usize = 16;
/// Number of requests that lead to a change.
const CHANGES: usize = 6;

/// File of real conversations, and the number of them that are joined.
const REAL_FILE: &str = "tau-airline.jsonl";
const REAL_JOINED: usize = 7;
const REAL_FILE_BYTES_MAX: u64 = 64 << 20;
/// Prefixes of the names of calls that change something.
const WRITES: [&str; 4] = ["book_", "update_", "cancel_", "send_"];

/// A generated conversation.
#[derive(Clone, Debug)]
pub(super) struct Conversation {
    /// Events in order.
    pub(super) events: Vec<Value>,
    /// Last request of the user.
    pub(super) request: String,
    /// Changes made: an order and an amount each.
    pub(super) changes: Vec<Fact>,
}

/// Generates the conversation of a seed.
pub(super) fn conversation(seed: u64) -> Conversation {
    let mut talk = Talk { dice: Dice::new(seed, "conversation"), events: Vec::new(), calls: 0 };
    let mut at: Vec<usize> = (0..REQUESTS - 1).collect();
    talk.dice.shuffle(&mut at);
    at.truncate(CHANGES);
    let (mut request, mut changes) = (String::new(), Vec::<Fact>::new());
    for number in 0..REQUESTS {
        let order = talk.slot("order");
        let amount = format!("{}.{:02} EUR", talk.dice.between(20, 4_000), talk.dice.below(100));
        request = format!("{}: {}", capitalised(&talk.slot("request")), talk.slot("detail"));
        request = request.replace("<o>", &order);
        talk.say(kinds::USER_MESSAGE, &request);
        talk.call("get_order", &json!({ "order_id": order }), &format!("{order}: shipped"));
        let answer = talk.slot("answer").replace("<o>", &order);
        talk.say(kinds::AGENT_MESSAGE, &answer);
        if at.contains(&number) && !changes.iter().any(|change| change.subject == order) {
            let word = talk.slot("assent");
            talk.say(kinds::USER_MESSAGE, &word);
            let name = *talk.dice.of(&["refund_order", "update_order", "book_delivery"]);
            let input = json!({ "order_id": order, "amount": amount });
            talk.call(name, &input, &format!("{order} is done, {amount}"));
            talk.say(kinds::AGENT_MESSAGE, &format!("It is done for {order}."));
            changes.push(Fact {
                place: StepMember::Description,
                step: number as u64,
                subject: order,
                value: amount,
            });
        }
        let small = talk.slot("small");
        talk.say(kinds::USER_MESSAGE, &small);
        let small = talk.slot("reply");
        talk.say(kinds::AGENT_MESSAGE, &small);
    }
    Conversation { events: talk.events, request, changes }
}

struct Talk {
    dice: Dice,
    events: Vec<Value>,
    calls: usize,
}

impl Talk {
    fn slot(&mut self, name: &str) -> String {
        GRAMMAR.slot(&mut self.dice, name)
    }

    fn say(&mut self, kind: &str, text: &str) {
        self.events.push(json!({ "type": kind, "content": text }));
    }

    fn call(&mut self, name: &str, input: &Value, result: &str) {
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        self.events.push(
            json!({ "type": kinds::AGENT_TOOL_USE, "name": name, "call_id": id, "input": input }),
        );
        self.events.push(json!({
            "type": kinds::AGENT_TOOL_RESULT, "call_id": id, "content": result, "is_error": false,
        }));
    }
}

const GRAMMAR: Grammar = Grammar { tables: [WORDS, &[]], habits: 0 };

const WORDS: Words = &[
    ("order", &["ORD-{k}", "#{k}-{n}", "R{m}{hex}"]),
    (
        "request",
        &[
            "can you look at order <o>",
            "I need order <o> changed",
            "where is order <o>",
            "please cancel the {thing} of order <o>",
            "my name is {name} and it is about order <o>",
        ],
    ),
    (
        "detail",
        &[
            "the {thing} came {n} days late and {name} signed for it",
            "I ordered {n} and paid for {m}",
            "the {thing} has the number {code} but the invoice says {k}",
            "please send the {thing} to {name}, {m} Mill Road, before {clock}",
            "the {thing} costs {money} now, I paid {money}",
        ],
    ),
    ("thing", &["parcel", "invoice", "warranty", "spare part", "voucher", "pickup", "adapter"]),
    (
        "answer",
        &[
            "Order <o> was handled by {name} at {clock}. Shall I go on?",
            "I see {n} items in <o>, worth {money}. Is that right?",
            "For <o> there is a note of {name}: {code}. Do you want it changed?",
        ],
    ),
    ("assent", &["yes", "Yes please.", "ok, do that", "Yes, go ahead."]),
    ("small", &["thanks", "Thank you!", "ok, thanks", "Great, thank you."]),
    ("reply", &["You are welcome.", "Anything else?", "Gladly."]),
];

/// Real conversations joined into one.
#[derive(Clone, Debug)]
pub(super) struct Real {
    /// Messages in OpenAI's chat format, one a line.
    pub(super) lines: String,
    /// Texts of the agents' messages.
    pub(super) said: Vec<String>,
    /// Number of messages.
    pub(super) turns: usize,
    /// Last message of the user that contains a request.
    pub(super) request: String,
    /// Reservations that calls changed.
    pub(super) ids: Vec<String>,
    /// Payment methods and amounts in the arguments of these calls.
    pub(super) amounts: Vec<Fact>,
}

/// Reads every real conversation of a directory.
pub(super) fn all(directory: &Path) -> Outcome<Vec<Value>> {
    read(&directory.join(REAL_FILE))
}

/// Reads every conversation of a file, one a line.
pub(super) fn read(path: &Path) -> Outcome<Vec<Value>> {
    let text = files::read_text(path, REAL_FILE_BYTES_MAX)
        .map_err(|source| Failure::File { path: path.to_path_buf(), source })?;
    let read = |(at, line)| {
        let shape = |problem: String| Failure::Shape {
            path: path.to_path_buf(),
            place: format!("line {}", at + 1),
            problem,
        };
        let talk: Value = serde_json::from_str(line).map_err(|error| shape(error.to_string()))?;
        let messages = talk.get("messages").and_then(Value::as_array);
        messages.ok_or_else(|| shape("`messages`, a list, is expected".to_owned()))?;
        Ok(talk)
    };
    text.lines().enumerate().map(read).collect()
}

/// Joins the first real conversations of a directory.
pub(super) fn real(directory: &Path) -> Outcome<Real> {
    let mut real = Real {
        lines: String::new(),
        said: Vec::new(),
        turns: 0,
        request: String::new(),
        ids: Vec::new(),
        amounts: Vec::new(),
    };
    let mut ids = BTreeSet::new();
    for conversation in all(directory)?.iter().take(REAL_JOINED) {
        let messages = list(conversation, "messages").filter(|message| role(message) != "system");
        let messages: Vec<&Value> = messages.collect();
        for (at, message) in messages.iter().enumerate() {
            real.lines.push_str(&format!("{message}\n"));
            real.turns += 1;
            let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
            if role(message) == "user" && content.contains('?') {
                content.clone_into(&mut real.request);
            }
            if role(message) == "assistant" && !content.is_empty() {
                real.said.push(content.to_owned());
            }
            let result = messages.get(at + 1).and_then(|next| next.get("content"));
            let result = result.and_then(Value::as_str).unwrap_or_default();
            for call in list(message, "tool_calls") {
                real.change(call, result, &mut ids);
            }
        }
    }
    real.ids = ids.into_iter().collect();
    Ok(real)
}

impl Real {
    /// Records the ids and amounts of a call that changed something.
    fn change(&mut self, call: &Value, result: &str, ids: &mut BTreeSet<String>) {
        let text = |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default();
        let name = text("/function/name");
        if !is_write(name) || result.starts_with("Error") {
            return;
        }
        let arguments: Value =
            serde_json::from_str(text("/function/arguments")).unwrap_or_default();
        let result: Value = serde_json::from_str(result).unwrap_or_default();
        let id = result.get("reservation_id").or(arguments.get("reservation_id"));
        ids.extend(id.and_then(Value::as_str).map(str::to_owned));
        for paid in list(&arguments, "payment_methods") {
            let id = paid.get("payment_id").and_then(Value::as_str).unwrap_or_default();
            let amount = paid.get("amount").map(ToString::to_string).unwrap_or_default();
            let (subject, value) = (id.to_owned(), amount);
            self.amounts.push(Fact { place: StepMember::Description, step: 0, subject, value });
        }
    }
}

/// Returns true if a call of this name changes something.
pub(super) fn is_write(name: &str) -> bool {
    WRITES.iter().any(|begin| name.starts_with(begin))
}

pub(super) fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_ends_with_thanks_and_its_request_comes_once() {
        for seed in 1..=20 {
            let made = conversation(seed);
            let users: Vec<&Value> =
                made.events.iter().filter(|event| event["type"] == "user.message").collect();
            let asked = users.iter().filter(|event| event["content"] == made.request.as_str());
            assert_eq!(asked.count(), 1, "seed {seed}");
            assert_ne!(users[users.len() - 1]["content"], made.request.as_str());
            assert_eq!(made.changes.len(), CHANGES, "seed {seed}");
        }
    }

    #[test]
    fn real_conversations_are_joined_without_their_system_messages() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let call = json!({ "function": { "name": "book_reservation", "arguments": json!({
            "payment_methods": [{ "payment_id": "card_1", "amount": 39 }],
        }).to_string() } });
        let line = json!({ "messages": [
            { "role": "system", "content": "policy?" },
            { "role": "user", "content": "Could you book it?" },
            { "role": "assistant", "tool_calls": [call] },
            { "role": "tool", "content": json!({ "reservation_id": "R1" }).to_string() },
            { "role": "assistant", "tool_calls": [call] },
            { "role": "tool", "content": "Error: no seats" },
            { "role": "user", "content": "Thanks." },
        ]});
        std::fs::write(home.path().join(REAL_FILE), format!("{line}\n")).expect("written");
        let real = real(home.path()).expect("read");
        assert_eq!((real.turns, &*real.request), (6, "Could you book it?"));
        assert_eq!(real.ids, ["R1"]);
        assert_eq!(real.amounts.len(), 1, "a call that failed changed nothing");
        assert!(super::real(&home.path().join("none")).is_err());
    }
}
