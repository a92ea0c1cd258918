//! Generates each kind of session, records it through the interfaces that agents use, requests
//! views after a loss of context, and counts their content. It must not set a target.

use std::{future::Future, pin::Pin};

use serde_json::{Value, json};

use super::{
    agent::{self, Program},
    coding::{self, Coding},
    conversation::{self, Real},
    desk::{Answer, Desk},
    research::{self, Plan, Session},
    rows::Tally,
    shape, shown,
};
use crate::failure::Outcome;
use sessionlog::event::SessionId;

/// Number of steps whose answers are summed.
const STEPS_ADDED: usize = 30;
/// Number of last steps that an overview should contain in full.
const LAST_STEPS: usize = 3;
/// Number of look-ups after an overview.
const LOOK_UPS: usize = 3;
/// Number of words of a look-up, and the minimum letters of one.
const QUERY_WORDS: usize = 8;
const QUERY_LETTERS: usize = 4;
/// Token budgets of the requested continuations.
const BUDGETS: [u64; 2] = [2_000, 8_000];
/// Views requested of a conversation: the name in rows, the view, its budget.
const VIEWS: [(&str, &str, Option<u64>); 3] = [
    ("2000", "continuation", Some(2_000)),
    ("8000", "continuation", Some(8_000)),
    ("index", "index", None),
];

type Measured<'a> = Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// A kind of session generated for each seed.
pub(super) struct Kind {
    /// Display name.
    pub(super) name: &'static str,
    /// Records the session of a seed and counts the facts in its views.
    pub(super) measure: for<'a> fn(&'a Desk, u64, &'a mut Tally) -> Measured<'a>,
}

/// All kinds, in the order of the report.
pub(super) const KINDS: [Kind; 6] = [
    Kind { name: "research", measure: |desk, seed, found| Box::pin(long(desk, seed, found)) },
    Kind {
        name: "short research",
        measure: |desk, seed, found| Box::pin(short(desk, seed, found)),
    },
    Kind {
        name: "coding, Claude Code",
        measure: |desk, seed, found| Box::pin(coding(desk, Program::ClaudeCode, seed, found)),
    },
    Kind {
        name: "coding, Codex",
        measure: |desk, seed, found| Box::pin(coding(desk, Program::Codex, seed, found)),
    },
    Kind { name: "conversation", measure: |desk, seed, found| Box::pin(talk(desk, seed, found)) },
    Kind { name: "mixed", measure: |desk, seed, found| Box::pin(mixed(desk, seed, found)) },
];

/// Measures 200 steps with 40 facts: the overview, look-ups, and continuations.
async fn long(desk: &Desk, seed: u64, found: &mut Tally) -> Outcome {
    let made = research::session(seed, Plan::long(seed));
    let session = session_id_of("research", seed);
    let answers = record_research(desk, &session, &made).await?;
    let sizes: Vec<u64> = answers.iter().map(|answer| answer.bytes).collect();
    found.put("step.bytes", sizes.iter().copied().max().unwrap_or_default());
    found.put("step.bytes.30", sizes.iter().take(STEPS_ADDED).sum());

    let overview = desk.tool(&session, "get_research_session", &json!({})).await?;
    let strings = shown::strings(&overview.value);
    let last = made.steps().rev().take(LAST_STEPS);
    let whole = last.filter(|step| shown::has_step(&strings, step)).count() as u64;
    let current = shown::current_strings(&overview.value);
    found.put("overview.facts", shown::facts(&strings, &made.facts));
    found.put("overview.last", whole);
    found.put("overview.stale", shown::parts(&current, &made.stale));
    found.put("overview.bytes", overview.bytes);

    let (looked_up, by_words) = make_look_ups(desk, &session, &overview.value, made.goal).await?;
    let more = looked_up.iter().flat_map(shown::strings);
    let all: Vec<&str> = strings.into_iter().chain(more).collect();
    found.put("lookups.facts", shown::facts(&all, &made.facts));
    found.put("lookups.words", by_words);

    for tokens in BUDGETS {
        let view = desk.view(&session, "continuation", Some(tokens)).await?;
        let strings = shown::strings(&view.value);
        let mut put = |row, value| found.put(&format!("continuation.{tokens}.{row}"), value);
        put("facts", shown::facts(&strings, &made.facts));
        put("stale", shown::parts(&shown::current_strings(&view.value), &made.stale));
        put("tokens", number(&view.value, "tokens"));
        put("bytes", view.bytes);
    }
    Ok(())
}

/// Makes three look-ups after an overview: by the words of the goal and of two gaps or, where the
/// server does not support that, by three pages of the overview's lists. Returns the answers, and
/// the number of those found by words.
async fn make_look_ups(
    desk: &Desk,
    session: &SessionId,
    overview: &Value,
    goal: &str,
) -> Outcome<(Vec<Value>, u64)> {
    const TOOL: &str = "get_research_session";
    let gaps = overview.get("gaps").and_then(Value::as_array).into_iter().flatten();
    let gaps = gaps.filter_map(|gap| gap.get("description")?.as_str());
    let queries = std::iter::once(goal).chain(gaps).take(LOOK_UPS);
    let mut answers = Vec::new();
    for query in queries {
        let find = json!({ "find": significant_words(query) });
        match desk.tool_where_known(session, TOOL, &find).await? {
            Some(answer) => answers.push(answer.value),
            None => break,
        }
    }
    let by_words = answers.len() as u64;
    let mut cursors: Vec<Value> = overview
        .get("cursors")
        .and_then(Value::as_object)
        .map(|cursors| cursors.values().rev().cloned().collect())
        .unwrap_or_default();
    while answers.len() < LOOK_UPS {
        let Some(cursor) = cursors.pop() else { break };
        let page = desk.tool(session, TOOL, &json!({ "cursor": cursor })).await?.value;
        cursors.extend(page.get("nextCursor").cloned());
        answers.push(page);
    }
    Ok((answers, by_words))
}

/// Returns the significant words of a text.
fn significant_words(text: &str) -> String {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    let long = parts.filter(|word| word.chars().count() >= QUERY_LETTERS);
    long.take(QUERY_WORDS).collect::<Vec<_>>().join(" ")
}

/// Measures twelve short steps with eleven facts.
async fn short(desk: &Desk, seed: u64, found: &mut Tally) -> Outcome {
    let made = research::session(seed, Plan::short());
    let session = session_id_of("short", seed);
    record_research(desk, &session, &made).await?;
    let view = desk.view(&session, "continuation", Some(BUDGETS[0])).await?;
    found.put("short.facts", shown::facts(&shown::strings(&view.value), &made.facts));
    found.put("short.tokens", number(&view.value, "tokens"));
    Ok(())
}

/// Records a research session; returns the answer to each step.
async fn record_research(desk: &Desk, session: &SessionId, made: &Session) -> Outcome<Vec<Answer>> {
    desk.create(session).await?;
    let mut answers = Vec::new();
    for (tool, arguments) in &made.calls {
        let answer = desk.tool(session, tool, arguments).await?;
        if *tool == "sequential_search" {
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// Measures research of several lengths over these texts: the shape of its overview, and of the
/// answer to its last step.
pub(super) async fn shapes(desk: &Desk, texts: &[String], found: &mut Tally) -> Outcome {
    for (seed, steps) in (0..).zip(shape::SIZES) {
        let made = shape::session(steps, texts);
        let session = session_id_of("shape", seed);
        let answers = record_research(desk, &session, &made).await?;
        let overview = desk.tool(&session, "get_research_session", &json!({})).await?;
        shape::count(&overview.value, &made, steps, found);
        if let Some(last) = answers.last() {
            shape::count_of_step(&last.value, found);
        }
    }
    Ok(())
}

/// Measures a coding session of a program: the context given to its model after a compaction.
async fn coding(desk: &Desk, program: Program, seed: u64, found: &mut Tally) -> Outcome {
    let made = coding::coding(seed);
    let kind = match program {
        Program::ClaudeCode => "claude",
        Program::Codex => "codex",
    };
    let session = session_id_of(kind, seed);
    for payload in agent::payloads(program, session.as_str(), &made) {
        desk.hook(&payload).await?;
    }
    let text = fetch_restored_context(desk, program, &session).await?;
    count(kind, &text, &made, found);
    found.put(&format!("{kind}.chars"), text.chars().count() as u64);
    Ok(())
}

/// Returns the context given to the model after a compaction.
async fn fetch_restored_context(
    desk: &Desk,
    program: Program,
    session: &SessionId,
) -> Outcome<String> {
    let asked = agent::after_compaction(program, session.as_str());
    Ok(desk.hook(&asked).await?.unwrap_or_default())
}

/// Counts the facts of a coding session in a text.
fn count(kind: &str, text: &str, made: &Coding, found: &mut Tally) {
    let given = shown::given(text);
    let strings = shown::strings(&given);
    let path = |path: &String| {
        let path = path.strip_prefix(agent::PROJECT).unwrap_or(path);
        path.trim_start_matches('/').to_owned()
    };
    let files: Vec<String> = made.edited.iter().map(path).collect();
    let mut put = |row, value| found.put(&format!("{kind}.{row}"), value);
    // An instruction of several lines spans several lines of a text that is not JSON.
    let with_text = [strings.as_slice(), &[text]].concat();
    put("instructions", shown::beginnings(&with_text, &made.instructions));
    put("failing", shown::parts(&strings, &made.failing));
    put("mended", shown::as_failing(&given, &made.mended));
    put("files", shown::parts(&strings, &files));
    put("plan", shown::parts(&strings, &made.open));
}

/// Measures a generated conversation: the current request and the earlier changes.
async fn talk(desk: &Desk, seed: u64, found: &mut Tally) -> Outcome {
    let made = conversation::conversation(seed);
    let session = session_id_of("conversation", seed);
    desk.create(&session).await?;
    desk.append(&session, &made.events).await?;
    for (place, view, tokens) in VIEWS {
        let answer = desk.view(&session, view, tokens).await?;
        let strings = shown::strings(&answer.value);
        let mut put = |row, value| found.put(&format!("talk.{place}.{row}"), value);
        put("request", shown::beginnings(&strings, &[&made.request]));
        put("changes", shown::facts(&strings, &made.changes));
    }
    Ok(())
}

/// Measures seven real conversations joined into one.
pub(super) async fn joined(desk: &Desk, made: &Real, found: &mut Tally) -> Outcome {
    let session = session_id_of("joined", 0);
    desk.import(&session, &made.lines).await?;
    for (place, view, tokens) in VIEWS {
        let answer = desk.view(&session, view, tokens).await?;
        let strings = shown::strings(&answer.value);
        let mut put = |row, value| found.put(&format!("real.{place}.{row}"), value);
        put("request", shown::beginnings(&strings, &[&made.request]));
        put("ids", shown::parts(&strings, &made.ids));
        put("amounts", shown::facts(&strings, &made.amounts));
    }
    Ok(())
}

/// Measures a coding session of Claude Code that contains short research, recorded by the tool in
/// the same session: the context given to its model after a compaction.
async fn mixed(desk: &Desk, seed: u64, found: &mut Tally) -> Outcome {
    let made = coding::coding(seed ^ MIXED);
    let research = research::session(seed ^ MIXED, Plan::short());
    let session = session_id_of("mixed", seed);
    let payloads = agent::payloads(Program::ClaudeCode, session.as_str(), &made);
    let every = payloads.len() / research.calls.len().max(1);
    let mut calls = research.calls.iter();
    for (number, payload) in (1..).zip(&payloads) {
        desk.hook(payload).await?;
        if number % every == 0
            && let Some((tool, arguments)) = calls.next()
        {
            desk.tool(&session, tool, arguments).await?;
        }
    }
    for (tool, arguments) in calls {
        desk.tool(&session, tool, arguments).await?;
    }
    let text = fetch_restored_context(desk, Program::ClaudeCode, &session).await?;
    let given = shown::given(&text);
    found.put("mixed.facts", shown::facts(&shown::strings(&given), &research.facts));
    count("mixed", &text, &made, found);
    Ok(())
}

/// Offset that makes the mixed session of a seed differ from its coding session.
const MIXED: u64 = 1 << 40;

/// Returns the session id of a seed.
fn session_id_of(kind: &str, seed: u64) -> SessionId {
    SessionId::new(&format!("{kind}-{seed}")).expect("letters, a dash and digits are an id")
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}
