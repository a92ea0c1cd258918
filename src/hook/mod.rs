//! HOOKS: what an agent's program (Claude Code, Codex) says of itself at each event, recorded in
//! the agent's session, and what of the session its model is told when it lost or never had it. It
//! must not make the agent wait for a store that is slow or gone: then the event is spooled, and
//! the next front end delivers it. It must not print, nor decide what a session is worth knowing.

mod deliver;
mod delivery;
pub mod install;
mod lenient;
mod payload;
mod recovery;
mod sealed;
mod spool;
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
};
pub use deliver::{Drained, drain};
pub use delivery::Delivery;
pub use lenient::Input;
pub use payload::{Payload, Unreadable};
pub use spool::{Keys, Spool, SpoolError};

/// How much longer than for another event an agent waits where it is answered: at a start, a
/// resumption, the end of a compaction.
const ANSWER_TIMES: u32 = 3;
/// The part of its time in which a hook begins to deliver what others could not.
const DRAIN_PART: u32 = 2;
/// However long somebody wants to wait: the agent's program gives a hook ten seconds, and an event
/// must be in the spool before they are over.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// After a failure nobody tries again for so many times as long as he would wait: an agent must not
/// wait at each of its events.
const PAUSE_TIMES: u32 = 4;

/// What a hook works with.
pub struct Hook {
    /// The owner or server; or why there is no way to one.
    pub client: Result<Client, String>,
    /// Where events wait that cannot be delivered.
    pub spool: Spool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness, for names of events that have none.
    pub entropy: Arc<dyn Entropy>,
    /// The project's directory, when the agent's program says it apart from where it works now.
    pub directory: Option<String>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// How long the agent waits at an event; beyond it the event is spooled.
    pub wait: Duration,
    /// Tokens that an answer pages back in at most; 0 for none.
    pub tokens_max: usize,
}

/// What became of an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// The agent's session.
    pub session: String,
    /// Events recorded or known already.
    pub recorded: usize,
    /// Events that wait in the spool.
    pub spooled: usize,
    /// What the agent's program is answered.
    pub answer: Option<Value>,
    /// What a person may want to know.
    pub trouble: Option<String>,
}

impl Hook {
    /// Records an event and answers what the agent's program is told, whatever the store does.
    pub async fn run(&self, payload: &Payload) -> Done {
        let mut salt = [0; 16];
        self.entropy.fill(&mut salt);
        let directory = self.directory.as_deref().or_else(|| payload.text("cwd"));
        let project = |path| Project::of(Path::new(path), self.home.as_deref());
        let fits = |name: &String| name.chars().count() <= limits::WORKSPACE_CHARS_MAX;
        // The home directory and the root are no project: others work there, too.
        let own = directory.map(project).filter(|project| !project.shared);
        let workspace = own.map(|project| project.workspace()).filter(fits);
        let at = self.clock.now();
        let delivery = vocabulary::delivery(payload, workspace.as_deref(), at, salt);
        let mut done = Done { session: delivery.session.to_string(), ..Done::default() };
        let wants = self.tokens_max > 0 && recovery::wanted(payload).is_some();
        let wait = if wants { self.wait * ANSWER_TIMES } else { self.wait }.min(WAIT_MAX);
        let paused = !wants && self.spool.is_paused(at.plus_micros(-self.pause_micros()));
        let begun = self.clock.monotonic();
        let mut drained = Drained::default();
        let outcome = match paused {
            true => Err(None),
            false => self.record_within(wait, &delivery, &mut drained).await.map_err(Some),
        };
        match outcome {
            Ok(trouble) => {
                done.recorded = delivery.events.len();
                done.trouble = trouble;
            }
            Err(why) => {
                // Whoever delivered something is not the one to stop others from it.
                let failed = why.is_some() && drained.delivered == 0;
                self.spool_it(&delivery, why, failed, &mut done);
                if drained.delivered == 0 {
                    return done;
                }
            }
        }
        if drained.aside > 0 {
            let told = done.trouble.take().map_or_else(String::new, |trouble| trouble + "; ");
            let aside = format!("{told}what nobody can read is in {}/refused now", self.spool);
            done.trouble = Some(aside);
        }
        if let Some(client) = self.client.as_ref().ok().filter(|_| wants) {
            let left = wait.saturating_sub(self.clock.monotonic().saturating_sub(begun));
            let asked = recovery::recover(client, self.tokens_max, payload, workspace.as_deref());
            match tokio::time::timeout(left, asked).await {
                Ok(Ok(text)) => done.answer = text.map(|text| answer(payload, &text)),
                Ok(Err(error)) => {
                    done.trouble = Some(format!("the model is told nothing: {error}"))
                }
                Err(_) => done.trouble = Some("the model is told nothing: too slow".to_owned()),
            }
        }
        done
    }

    fn pause_micros(&self) -> i64 {
        i64::try_from((self.wait * PAUSE_TIMES).as_micros()).unwrap_or(i64::MAX)
    }

    async fn record_within(
        &self,
        wait: Duration,
        delivery: &Delivery,
        drained: &mut Drained,
    ) -> Result<Option<String>, String> {
        let client = self.client.as_ref().map_err(String::clone)?;
        match tokio::time::timeout(wait, self.record(client, delivery, drained)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer for {} ms", wait.as_millis())),
        }
    }

    /// Delivers what waits, and then the event; an event that waits comes first.
    async fn record(
        &self,
        client: &Client,
        delivery: &Delivery,
        drained: &mut Drained,
    ) -> Result<Option<String>, String> {
        if !self.spool.is_empty() {
            let (spool, share) = (&self.spool, self.wait / DRAIN_PART);
            let outcome = deliver::drain(client, spool, &*self.clock, share, drained).await;
            outcome.map_err(|error| error.to_string())?;
            if let Some(why) = drained.stopped.take() {
                return Err(why);
            }
        }
        match deliver::deliver(client, delivery).await {
            Ok(()) => Ok(None),
            Err(deliver::Undelivered::Later(error)) => Err(error.to_string()),
            Err(deliver::Undelivered::Gone(error)) => Ok(Some(not_kept(&error))),
            Err(deliver::Undelivered::Refused(error)) => {
                self.spool.refuse(delivery).map_err(|error| error.to_string())?;
                Ok(Some(not_kept(&error)))
            }
        }
    }

    /// Has the event wait; after a failure others wait for a while before they try.
    fn spool_it(&self, delivery: &Delivery, why: Option<String>, failed: bool, done: &mut Done) {
        let place = self.spool.put(delivery, self.clock.now());
        if failed {
            // Whether it is noted or not: the next event finds out for itself.
            let _ = self.spool.pause(self.clock.now());
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

fn not_kept(error: &ClientError) -> String {
    format!("the session does not take this event: {error}")
}

/// What a hook prints for its program to tell the model.
fn answer(payload: &Payload, text: &str) -> Value {
    json!({
        "hookSpecificOutput": { "hookEventName": payload.name(), "additionalContext": text },
    })
}
