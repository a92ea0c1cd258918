//! Research sessions in this process: measures an overview at any number of steps, the first one
//! after a start, and the bytes written for steps. The verbs are called as the interfaces call
//! them. It must not prepare facts: they are folded from what the store reads.

use std::{io, sync::Arc, time::Duration};

use serde_json::{Value, json};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    failure::{Failure, Outcome},
    machine,
    runner::{float, median},
    sample::Samples,
    site::Site,
};
use sessionlog::{
    access::Principal,
    env::Clock,
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId, SessionKey, kinds},
    projection::body::{self, StepBody},
    service::{Caller, ClientIdentity, ResearchOptions, Service},
    store::{
        NewSession, Store,
        local::{LocalStore, StoreOptions},
    },
    verbs::{
        OwnerInfo,
        tools::{self, ToolCall},
    },
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Research,
    figures: &[
        figure("research.overview.few", "get_research_session, 10 steps, server time", "µs"),
        figure("research.overview.many", "the same, a tenth of --sessions steps", "µs"),
        figure("research.overview.most", "the same, ten times --sessions steps", "µs"),
        figure("research.overview.flat", "the last against the one before", "µs/µs"),
        figure("research.overview.bytes", "the largest of these answers", "bytes"),
        figure("research.pages", "answers until every one of the most steps was listed", "answers"),
        figure("research.restart.many", "the first overview after a start, many steps", "ms"),
        figure("research.restart.most", "the same, most steps", "ms"),
        figure("research.written", "bytes handed to write(), for each byte of steps", "bytes/byte"),
    ],
    run,
};

const DATA_DIR: &str = "research";
/// Sizes of the three sessions in steps: ten, a tenth of --sessions, ten times --sessions.
const FEW: usize = 10;
/// Value of --sessions for the targets: `many` is 1 000 steps, `most` 100 000.
const SESSIONS: usize = 10_000;
/// Number of overviews of each size in a round.
const CALLS: usize = 200;
/// Number of steps in one batch while a session is filled.
const BATCH: usize = 500;
/// Maximum number of pages of a list, which would otherwise not end.
const PAGES_MAX: usize = 1_000_000;

/// Returns the number of steps of the middle session.
pub(super) fn many(site: &Site) -> usize {
    (site.settings.sessions / 10).clamp(2 * FEW, 1_000)
}

fn most_steps(site: &Site) -> usize {
    site.settings.sessions * 10
}

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let sizes = [FEW, many(site), most_steps(site)];
    let note =
        format!("research: {} steps are few, {} many, {} most", sizes[0], sizes[1], sizes[2]);
    site.notes.push(note);
    let mut desk = Desk::open(site)?;
    for steps in sizes {
        fill_session(site, &desk.local, steps)?;
    }
    site.bar.set_message(format!("research: all {} steps", sizes[2]));
    let (pages, largest) = site.wait(read_all_pages(&desk, sizes[2]))??;
    let mut found = vec![Vec::new(); 9];
    let mut put = |at: usize, value: f64| found.get_mut(at).into_iter().for_each(|f| f.push(value));
    for _ in 0..site.settings.rounds {
        site.bar.set_message("research: overviews");
        let times = site.wait(measure_overviews(&desk, &*site.clock, sizes))??;
        (0..).zip(times).for_each(|(at, time)| put(at, time));
        put(3, times[2] / times[1]);
        site.bar.set_message("research: a restart");
        site.wait(desk.local.close())?;
        desk = Desk::open(site)?;
        for (at, steps) in [(6, sizes[1]), (7, sizes[2])] {
            let began = site.clock.monotonic();
            site.wait(desk.overview(steps))??;
            put(at, site.clock.monotonic().saturating_sub(began).as_secs_f64() * 1e3);
        }
    }
    put(4, float(largest as u64));
    put(5, float(pages as u64));
    site.wait(desk.local.close())?;
    drop(desk);
    put(8, measure_written_bytes(site, sizes[1])?);
    Ok(ProbeResult { values: found, unjudged: unjudged(site) })
}

/// Returns a note unless the sizes are those of ten thousand sessions, which the targets require.
pub(super) fn unjudged(site: &Site) -> Option<String> {
    let sessions = site.settings.sessions;
    let other = || format!("with --sessions {sessions}; the target speaks of {SESSIONS}");
    (sessions != SESSIONS).then(other)
}

/// A store and the verbs over it, as an owner composes them.
struct Desk {
    local: Arc<LocalStore>,
    service: Service,
    caller: Caller,
}

impl Desk {
    fn open(site: &Site) -> Outcome<Self> {
        let env = site.env(DATA_DIR)?;
        let local = Arc::new(
            LocalStore::open_local(&env, StoreOptions::default()).map_err(io::Error::other)?,
        );
        let service = Service::new(Arc::clone(&local) as Arc<dyn Store>, Arc::clone(&env.clock));
        // Three sessions, one of them very long, must stay in memory.
        let options = ResearchOptions { facts_bytes_max: 1 << 30, ..ResearchOptions::default() };
        let service = service.with_research(options);
        let caller = Caller { scope: Scope::local(), origin: Origin::Model, fence: None };
        Ok(Self { local, service, caller })
    }

    /// Calls a tool; returns the text of its result.
    async fn call(&self, tool: &str, arguments: Value) -> Outcome<String> {
        let via = ClientIdentity::default();
        let (owner, who) = (&OwnerInfo::default(), &Principal::local());
        let (service, caller) = (&self.service, &self.caller);
        let call = ToolCall { service, owner, caller, who, via: &via, key: None };
        let answer = tools::call(call, tool, arguments.to_string()).await;
        Ok(answer.map_err(|why| {
            io::Error::other(format!("{tool}: {} {}", why.code.as_str(), why.message))
        })?)
    }

    async fn overview(&self, steps: usize) -> Outcome<String> {
        self.call("get_research_session", json!({"sessionId": session_name(steps)})).await
    }
}

fn parse_answer(answer: &str) -> Outcome<Value> {
    Ok(serde_json::from_str(answer).map_err(io::Error::other)?)
}

fn session_name(steps: usize) -> String {
    format!("research-{steps}")
}

/// Returns a step of 600 bytes of description, 300 of reasoning and two approaches of 60.
pub(super) fn step(samples: &mut Samples, number: usize) -> StepBody {
    let sample = samples.next();
    let text = std::str::from_utf8(&sample.body).unwrap_or_default().replace(['"', '{', '}'], "");
    let part = |from: usize, bytes: usize| text.get(from..from + bytes).unwrap_or_default();
    StepBody {
        number: number as u64,
        description: format!("step {number}: {}", part(20, 600)),
        reasoning: Some(part(620, 300).to_owned()),
        rejected: vec![
            format!("{number} {}", part(100, 60)),
            format!("{number} {}", part(200, 60)),
        ],
        ..StepBody::default()
    }
}

/// Converts a step to the arguments of a tool call.
pub(super) fn arguments(step: &StepBody, session: Option<&str>) -> Value {
    let mut arguments = json!({
        "searchStep": step.description,
        "stepNumber": step.number,
        "nextStepNeeded": true,
        "reasoning": step.reasoning,
        "rejectedApproaches": step.rejected,
    });
    if let (Some(session), Some(members)) = (session, arguments.as_object_mut()) {
        members.insert("sessionId".to_owned(), json!(session));
    }
    arguments
}

/// Fills a session with steps, many in a batch: the size of batches does not affect reads.
fn fill_session(site: &mut Site, local: &LocalStore, steps: usize) -> Outcome {
    let scope = Scope::local();
    let id = SessionId::new(&session_name(steps)).expect("letters, a dash and digits are an id");
    let key = SessionKey { scope: scope.clone(), session: id.clone() };
    let new = NewSession { id: Some(id), ..NewSession::default() };
    site.wait(local.create(&scope, new))?.map_err(io::Error::other)?;
    let kind = EventType::new(kinds::RESEARCH_STEP).expect("it keeps to the alphabet");
    let mut number = 0;
    while number < steps {
        let to = (number + BATCH).min(steps);
        let event = |number: usize| NewEvent {
            id: None,
            kind: kind.clone(),
            origin: Origin::Model,
            created_at: None,
            position: None,
            body: body::write(&step(&mut site.samples, number)),
        };
        let events = (number + 1..=to).map(event).collect();
        let batch = Batch { events, ..Batch::default() };
        site.wait(local.append(&key, batch))?.map_err(io::Error::other)?;
        site.bar.set_message(format!("research: {to} of {steps} steps"));
        number = to;
    }
    Ok(())
}

/// Returns the median microseconds of an overview of each size, measured in turn.
async fn measure_overviews(desk: &Desk, clock: &dyn Clock, sizes: [usize; 3]) -> Outcome<[f64; 3]> {
    let mut taken = [const { Vec::new() }; 3];
    for call in 0..=CALLS {
        for (steps, taken) in sizes.into_iter().zip(&mut taken) {
            let began = clock.monotonic();
            let text = desk.overview(steps).await?;
            let time: Duration = clock.monotonic().saturating_sub(began);
            // The first one folds the session.
            if call > 0 && !text.is_empty() {
                taken.push(time.as_secs_f64() * 1e6);
            }
        }
    }
    Ok(taken.map(|times| median(&times)))
}

/// Reads the index to its end; returns the number of responses and the bytes of the largest.
async fn read_all_pages(desk: &Desk, steps: usize) -> Outcome<(usize, usize)> {
    let mut text = desk.overview(steps).await?;
    let mut answer = parse_answer(&text)?;
    let mut next = answer.pointer("/cursors/steps").cloned();
    let (mut largest, mut left) = (text.len(), steps as u64);
    for page in 1..PAGES_MAX {
        for line in answer.get("stepIndex").and_then(Value::as_array).into_iter().flatten().rev() {
            if line.get("stepNumber").and_then(Value::as_u64) != Some(left) {
                return Err(Failure::Damaged(format!("paging gave {line} where {left} follows")));
            }
            left -= 1;
        }
        let Some(cursor) = next else {
            return match left {
                0 => Ok((page, largest)),
                left => Err(Failure::Damaged(format!("paging left out {left} steps"))),
            };
        };
        let arguments = json!({"sessionId": session_name(steps), "cursor": cursor});
        text = desk.call("get_research_session", arguments).await?;
        answer = parse_answer(&text)?;
        largest = largest.max(text.len());
        next = answer.get("nextCursor").cloned();
    }
    Err(Failure::Damaged("paging does not end".to_owned()))
}

/// Returns the bytes that this process writes for each byte of the steps' arguments, one call each,
/// until everything is flushed; measured the second time, when the journal's files exist.
fn measure_written_bytes(site: &mut Site, steps: usize) -> Outcome<f64> {
    let desk = Desk::open(site)?;
    site.bar.set_message("research: bytes of steps");
    let mut samples = site.samples.clone();
    let (mut payload, mut session, mut before) = (0, None, None);
    for number in 1..=2 * steps {
        let arguments = arguments(&step(&mut samples, number), session.as_deref());
        if number > steps {
            payload += arguments.to_string().len();
        }
        let answer = parse_answer(&site.wait(desk.call("sequential_search", arguments))??)?;
        session = answer.get("sessionId").and_then(Value::as_str).map(str::to_owned);
        if number == steps {
            desk.local.flush()?;
            before = machine::written_bytes(std::process::id());
        }
    }
    desk.local.flush()?;
    let after = machine::written_bytes(std::process::id());
    site.wait(desk.local.close())?;
    let bytes = after.zip(before).map_or(0, |(after, before)| after.saturating_sub(before));
    Ok(float(bytes) / float(payload as u64))
}
