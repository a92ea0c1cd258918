//! HOOKS: events of an agent's program (Claude Code, Codex), recorded in the agent's session, and
//! context for a model that has none or lost it. It must not make the agent wait for a slow or
//! stopped store: then the event is spooled, and the next front end delivers it. It must not print,
//! nor select the content of a view.

mod context;
mod deliver;
mod delivery;
mod gate;
pub mod install;
mod lenient;
mod payload;
mod recall;
mod recovery;
mod sealed;
mod spool;
pub mod tail;
mod vocabulary;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    client::{Client, ClientError},
    env::{Clock, Entropy, project::Project},
    event::limits,
    secrets::{MaskedText, Recogniser},
};
pub use deliver::{DrainReport, drain};
pub use delivery::Delivery;
pub use gate::{Admission, GlobError, Pause, PauseReason, RecordingGate, WorkSession};
pub use lenient::HookInput;
pub use payload::{Payload, PayloadError};
pub use spool::{Keys, Spool, SpoolError};
pub use tail::Transcripts;

/// Factor of the wait for events that get an answer: a start, a resumption, a compaction's end.
const ANSWER_TIMES: u32 = 3;
/// Divisor of a hook's time: the part in which it starts deliveries of spooled events.
const DRAIN_PART: u32 = 2;
/// Part of the hook's timeout in which it may wait: an event must be spooled before it is over.
const WAIT_PART: f64 = 0.8;
/// The same part at the end of a session, for which Codex gives 3 seconds where the timeout is 10.
const END_WAIT_PART: f64 = 0.25;
/// After a failure no hook tries to deliver for this many times its wait: an agent must not wait at
/// each of its events.
const PAUSE_TIMES: u32 = 4;

/// Settings and connections of a hook.
pub struct Hook {
    /// The owner or server; or the reason for which neither can be reached.
    pub client: Result<Client, String>,
    /// Spool of events that cannot be delivered.
    pub spool: Spool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Source of ids for events without one.
    pub entropy: Arc<dyn Entropy>,
    /// Transcripts of the program, by path.
    pub transcripts: Transcripts,
    /// The project's directory, if the program reports it separately from the current directory.
    pub directory: Option<String>,
    /// Rules for secrets, applied to the model's context: other writers may have stored some.
    pub secrets: Arc<Recogniser>,
    /// Names of the parent processes, and of the machine.
    pub process: Vec<String>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Time for which the agent waits at an event; after it the event is spooled.
    pub wait: Duration,
    /// Time after which the agent's program ends the hook; it bounds the wait.
    pub timeout: Duration,
    /// Maximum tokens of an answer; 0 for no answer.
    pub tokens_max: usize,
    /// Maximum tokens of passages of earlier sessions; 0 for none.
    pub recall_max: usize,
    /// Time for which the agent waited already: for reading the input and removing its secrets.
    pub spent: Duration,
    /// Pause of recording in the session that ended with this event.
    pub gap: Option<Pause>,
}

/// Outcome of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookOutcome {
    /// The agent's session.
    pub session: String,
    /// Number of events recorded now or earlier.
    pub recorded: usize,
    /// Number of spooled events.
    pub spooled: usize,
    /// Answer to the agent's program.
    pub answer: Option<Value>,
    /// Problem to report to the user.
    pub trouble: Option<String>,
}

impl Hook {
    /// Records an event and returns the answer for the agent's program; errors are in the outcome.
    pub async fn run(&self, payload: &Payload) -> HookOutcome {
        let mut salt = [0; 16];
        self.entropy.fill(&mut salt);
        let directory = self.directory.as_deref().or_else(|| payload.text("cwd"));
        let project = |path| Project::from_directory(Path::new(path), self.home.as_deref());
        let fits = |name: &String| name.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        // The home directory and the root are not projects: other work happens there too.
        let own = directory.map(project).filter(|project| !project.shared);
        let workspace = own.map(|project| project.workspace()).filter(fits);
        let at = self.clock.now();
        let mut delivery = vocabulary::build_delivery(payload, workspace.as_deref(), at, salt);
        if payload.name() == "SessionStart" {
            delivery.add_process_names(&self.process);
        }
        let unread = tail::add_outcome(&self.transcripts, payload, &mut delivery).err();
        let mut done =
            HookOutcome { session: delivery.session.to_string(), ..HookOutcome::default() };
        let wanted = recovery::needed_context(payload).filter(|_| self.tokens_max > 0);
        // A prompt gets passages only if that costs the agent no extra wait.
        let is_patient = wanted.is_some_and(|what| what != recovery::ContextKind::Near);
        let wait = if is_patient { self.wait * ANSWER_TIMES } else { self.wait };
        let ends = payload.name() == "SessionEnd" && payload.agent() == payload::HookAgent::Codex;
        let most = self.timeout.mul_f64(if ends { END_WAIT_PART } else { WAIT_PART });
        let wait = wait.min(most.saturating_sub(self.spent));
        let is_late = self.spent >= most;
        let paused = !is_patient
            && self.spool.has_failed_since(at.plus_micros(-self.failure_pause_micros()));
        let begun = self.clock.monotonic();
        let mut drained = DrainReport::default();
        let outcome = match paused || is_late {
            true => Err(None),
            false => {
                let recorded = self.record_with_timeout(wait, payload, &mut delivery, &mut drained);
                recorded.await.map_err(Some)
            }
        };
        match outcome {
            Ok(trouble) => {
                done.recorded = delivery.events.len();
                done.trouble = trouble.or(unread);
            }
            Err(why) => {
                delivery.prepend_event(self.gap.as_ref().map(|gap| gap.gap_event(at)));
                // A hook that delivered something does not pause the others.
                let failed = why.is_some() && drained.delivered == 0;
                self.spool_event(&delivery, why, failed, &mut done);
                if drained.delivered == 0 {
                    return done;
                }
            }
        }
        if drained.unreadable > 0 {
            let before = done.trouble.take().map_or_else(String::new, |trouble| trouble + "; ");
            let aside = format!("{before}unreadable events are in {}/refused now", self.spool);
            done.trouble = Some(aside);
        }
        if let Some(client) = self.client.as_ref().ok().filter(|_| wanted.is_some()) {
            let left = wait.saturating_sub(self.clock.monotonic().saturating_sub(begun));
            let budgets = [self.tokens_max, self.recall_max];
            let asked = recovery::recover(client, budgets, payload, workspace.as_deref());
            match tokio::time::timeout(left, asked).await {
                Ok(Ok(text)) => {
                    done.answer = text.map(|text| context_answer(payload, self.secrets.mask(&text)))
                }
                Ok(Err(error)) => done.trouble = Some(format!("no context for the model: {error}")),
                Err(_) => done.trouble = Some("no context for the model: too slow".to_owned()),
            }
        }
        done
    }

    fn failure_pause_micros(&self) -> i64 {
        i64::try_from((self.wait * PAUSE_TIMES).as_micros()).unwrap_or(i64::MAX)
    }

    async fn record_with_timeout(
        &self,
        wait: Duration,
        payload: &Payload,
        delivery: &mut Delivery,
        drained: &mut DrainReport,
    ) -> Result<Option<String>, String> {
        let client = self.client.as_ref().map_err(String::clone)?;
        match tokio::time::timeout(wait, self.drain_and_record(client, payload, delivery, drained))
            .await
        {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer for {} ms", wait.as_millis())),
        }
    }

    /// Delivers the spooled events, then this event with the unread part of the transcript.
    async fn drain_and_record(
        &self,
        client: &Client,
        payload: &Payload,
        delivery: &mut Delivery,
        drained: &mut DrainReport,
    ) -> Result<Option<String>, String> {
        if !self.spool.is_empty() {
            let (spool, share) = (&self.spool, self.wait / DRAIN_PART);
            let outcome = deliver::drain(client, spool, &*self.clock, share, drained).await;
            outcome.map_err(|error| error.to_string())?;
            if let Some(why) = drained.stopped.take() {
                return Err(why);
            }
        }
        // Without an owner the transcript stays unread: the next event reads it.
        let transcripts = &self.transcripts;
        let unread =
            tail::add_transcript_events(client, transcripts, payload, delivery).await.err();
        let unknown = tail::add_kept_events(client, transcripts, payload, delivery).await.err();
        let unread = unread.or(unknown);
        delivery.prepend_event(self.gap.as_ref().map(|gap| gap.gap_event(self.clock.now())));
        match deliver::deliver(client, delivery).await {
            Ok(()) => Ok(unread),
            Err(deliver::Undelivered::Later(error)) => Err(error.to_string()),
            Err(deliver::Undelivered::Gone(error)) => Ok(Some(rejected_message(&error))),
            Err(deliver::Undelivered::Refused(error)) => {
                let kept = self.spool.put_rejected(delivery.clone(), &error, self.clock.now());
                kept.map_err(|error| error.to_string())?;
                let message = rejected_message(&error);
                Ok(Some(format!(
                    "{message}; it is in {}/refused: see `sessionlog doctor`",
                    self.spool
                )))
            }
        }
    }

    /// Spools the event; after a failure other hooks pause before they try.
    fn spool_event(
        &self,
        delivery: &Delivery,
        why: Option<String>,
        failed: bool,
        done: &mut HookOutcome,
    ) {
        let place = self.spool.put(delivery, self.clock.now());
        if failed {
            // An error is ignored: the next event tries for itself.
            let _ = self.spool.record_failure(self.clock.now());
        }
        done.trouble = match (place, why) {
            (Ok(place), Some(why)) => {
                Some(format!("not recorded now, the event waits in {}: {why}", place.display()))
            }
            (Ok(_), None) => None,
            (Err(error), why) => {
                let why = why.unwrap_or_default();
                return done.trouble = Some(format!("this event is lost: {error}; {why}"));
            }
        };
        done.spooled = delivery.events.len();
    }
}

fn rejected_message(error: &ClientError) -> String {
    format!("the session does not take this event: {error}")
}

/// Returns the output that gives the model a text as context.
fn context_answer(payload: &Payload, text: MaskedText) -> Value {
    let text = text.into_text();
    json!({
        "hookSpecificOutput": { "hookEventName": payload.name(), "additionalContext": text },
    })
}
