//! How many facts that were planted in generated sessions a restore gives at a quarter of the
//! session's tokens, beside a plain window of the same tokens. The seeds are not those on which
//! anything was tuned.

use serde_json::{Value, json};

use super::append;
use crate::{http::house::House, memory::session};

const BIRDS: [&str; 8] =
    ["Heron", "Plover", "Dunlin", "Siskin", "Wigeon", "Godwit", "Linnet", "Curlew"];
const THINGS: [&str; 6] = ["gateway", "ledger", "queue", "archive", "beacon", "scheduler"];
const VERBS: [&str; 5] = ["listens on", "keeps", "waits", "allows", "ends at"];
/// Turns of a session, and one in so many has a fact.
const TURNS: u64 = 300;
const EVERY: u64 = 8;

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

#[derive(Default)]
struct Made {
    events: Vec<Value>,
    items: Vec<Value>,
    facts: Vec<(String, String)>,
    /// Values that a later one took the place of.
    stale: Vec<String>,
}

/// A sentence of the form of a fact that recurs.
fn filler(dice: &mut Dice) -> String {
    let (bird, thing, verb) = (dice.of(&BIRDS), dice.of(&THINGS), dice.of(&VERBS));
    format!(
        "I looked at the {thing} of {bird}, which {verb} what it did in part {}. ",
        dice.below(7)
    )
}

fn made(seed: u64) -> Made {
    let mut dice = Dice(seed);
    let mut made = Made::default();
    for turn in 0..TURNS {
        let (subject, thing) = (format!("{}{turn}", dice.of(&BIRDS)), dice.of(&THINGS));
        let value = format!("{}", 10_000 + dice.below(80_000));
        let fact = format!("The {thing} {subject} {} {value}.", dice.of(&VERBS));
        let is_code = dice.below(2) == 0;
        let call = format!("c{turn}");
        let mut ran = |input: Value, output: &str, is_error: bool| {
            made.events.push(json!({"type": "agent.tool_use", "call_id": call, "name": "Bash",
                "input": input}));
            made.events.push(json!({"type": "agent.tool_result", "call_id": call,
                "content": output, "is_error": is_error}));
        };
        if turn % EVERY == 3 {
            match dice.below(4) {
                0 => {
                    let test = format!("test_{thing}.py::test_{subject}");
                    let command =
                        json!({"command": format!("pytest -q test_{thing}.py -k {subject}")});
                    ran(command, &format!("FAILED {test} - {value} != 0"), true);
                }
                1 => {
                    let item = |value: &str| {
                        json!({"id": subject, "category": "code",
                        "content": format!("let {thing} = open(\"{subject}\", {value});"),
                        "importance": 7})
                    };
                    let old = format!("9{value}");
                    made.items.extend([item(&old), item(&value)]);
                    made.stale.push(old);
                }
                2 => made.events.push(json!({"type": "user.message",
                    "content": format!("From now on: {fact}")})),
                _ => made.events.push(json!({"type": "agent.message",
                    "content": format!("{}{fact} {}", filler(&mut dice), filler(&mut dice))})),
            }
            made.facts.push((subject, value));
        } else if is_code {
            let path = format!("src/{thing}/{}.py", turn % 17);
            let output = filler(&mut dice).repeat(3);
            ran(json!({"command": format!("sed -n 1,40p {path}")}), &output, false);
        } else {
            let content = filler(&mut dice).repeat(2);
            made.events.push(json!({"type": "agent.message", "content": content}));
        }
    }
    made
}

fn strings(value: &Value, all: &mut Vec<String>) {
    match value {
        Value::String(text) => all.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, all)),
        Value::Object(members) => members.values().for_each(|value| strings(value, all)),
        _ => {}
    }
}

/// How many facts stand in one line of an answer.
fn given(answer: &Value, facts: &[(String, String)]) -> usize {
    let mut all = Vec::new();
    strings(answer, &mut all);
    let lines: Vec<&str> = all.iter().flat_map(|text| text.lines()).collect();
    let has = |(subject, value): &&(String, String)| {
        lines.iter().any(|line| line.contains(subject) && line.contains(value))
    };
    facts.iter().filter(has).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quarter_of_the_tokens_has_four_in_five_of_the_planted_facts() {
    let house = House::plain().await;
    let (mut facts, mut restored, mut windows) = (0, 0, 0);
    for seed in [71, 73, 79, 83] {
        let made = made(seed);
        let id = format!("s{seed}");
        session(&house, &id, "shop").await;
        for events in made.events.chunks(500) {
            append(&house, &id, json!(events)).await;
        }
        let saved = json!({"session_id": id, "context_items": made.items});
        let saved = house.post("/v1/workspaces/shop/save", &saved).await;
        assert_eq!(saved.status, 200, "{}", saved.text);
        let window = async |tokens: u64| {
            let path = format!("/v1/sessions/{id}/views/window?tokens_max={tokens}");
            house.get(&path).await.json()
        };
        let whole = window(200_000).await["tokens"].as_u64().unwrap();
        let budget = whole / 4;
        let asked = json!({"session_id": id, "tokens_max": budget, "create": false});
        let answer = house.post("/v1/workspaces/shop/restore", &asked).await.json();
        assert!(answer["tokens"].as_u64() <= Some(budget), "{answer}");
        let (told, plain) =
            (given(&answer, &made.facts), given(&window(budget).await, &made.facts));
        eprintln!("seed {seed}: {told} and {plain} of {}, {budget} tokens", made.facts.len());
        assert!(told >= plain, "seed {seed}: {told} of a restore, {plain} of a window");
        let text = answer.to_string();
        let stale: Vec<&String> = made.stale.iter().filter(|old| text.contains(*old)).collect();
        assert!(stale.is_empty(), "seed {seed}: {stale:?}");
        facts += made.facts.len();
        restored += told;
        windows += plain;
    }
    assert!(10 * restored >= 8 * facts, "{restored} of {facts}, a window {windows}");
}
