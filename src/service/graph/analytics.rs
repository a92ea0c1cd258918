//! What was done in a workspace, in numbers: sessions, events, tokens, what they name most, by day.
//! It must not read an event.

use std::time::Duration;

use super::{
    checks::check_workspace,
    seen::{self, Seen},
};
use crate::{
    event::{Timestamp, pace},
    projection::Graph,
    search::{EntityKind, NamedIn, OfDay},
    service::{Caller, Coverage, Service, ServiceResult},
};

/// Names of a kind that are shown.
const TOP_MAX: usize = 10;
/// Days that are shown, the latest.
const DAYS_MAX: usize = 366;
/// Tokens of a text for ten words of it that are not among the most common: an estimate.
const TOKENS_OF_TEN_WORDS: u64 = 22;
/// Microseconds of a day.
const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;

/// What was written on a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The day, by the time in UTC: `2026-11-26`.
    pub day: String,
    /// Sessions that were written to.
    pub sessions: u64,
    /// Events that say something.
    pub events: u64,
    /// Tokens of their texts, about.
    pub tokens: u64,
}

/// What was done in a workspace.
#[derive(Clone, Debug)]
pub struct Analytics {
    /// Sessions that were written to.
    pub sessions: u64,
    /// Events that say something.
    pub events: u64,
    /// Tokens of their texts, about.
    pub tokens: u64,
    /// Entities that callers wrote, and relations.
    pub written: (u64, u64),
    /// What is named in most sessions, of each kind that is asked for.
    pub top: Vec<(EntityKind, Vec<(String, Seen)>)>,
    /// The latest days on which something was written, the oldest first.
    pub days: Vec<Day>,
    /// What the index lacks, and whether it is known what was written before.
    pub complete: (Coverage, bool),
}

impl Service {
    /// What was done in a workspace, since a time: counted of the events that say something.
    ///
    /// # Errors
    /// `invalid_request` for a name that is no workspace, or where searching is turned off; those
    /// of the engine.
    pub async fn analytics(
        &self,
        caller: &Caller,
        workspace: &str,
        since: Option<Timestamp>,
        wait: Duration,
    ) -> ServiceResult<Analytics> {
        check_workspace(workspace)?;
        let looked = self.looked(caller, workspace, wait).await;
        let looked = looked.ok_or_else(|| seen::no_index("workspace"))?;
        let (_, bytes) = looked.weight();
        let _room = self.room(&caller.scope.tenant, bytes).await?;
        let counted = self.days(&looked, since).await?;
        let kinds = EntityKind::ALL.to_vec();
        let found = self.seen(&looked, kinds, since).await?;
        let top = self.computed_again(&caller.scope.tenant, move || top_of(found)).await?;
        let sizes = |graph: &Graph| (graph.entities().count(), graph.relations().count());
        let (mut entities, mut relations) = (0, 0);
        for notebook in self.graphs(caller, workspace).await? {
            let (some, more) = self.with_graph(caller, &notebook, sizes).await?;
            (entities, relations) = (entities + some, relations + more);
        }
        let all = || counted.days.values().chain([&counted.before]);
        let total = |of: fn(&OfDay) -> u64| all().map(of).sum::<u64>();
        let (events, words) = (total(|day| day.events), total(|day| day.words));
        let skipped = counted.days.len().saturating_sub(DAYS_MAX);
        let days = counted.days.iter().skip(skipped).map(|(day, of)| Day {
            day: date(*day),
            sessions: of.sessions,
            events: of.events,
            tokens: tokens(of.words),
        });
        Ok(Analytics {
            sessions: counted.sessions,
            events,
            tokens: tokens(words),
            written: (entities as u64, relations as u64),
            top,
            days: days.collect(),
            complete: looked.coverage(),
        })
    }
}

/// What is named in most sessions, of each kind.
fn top_of(found: NamedIn) -> Vec<(EntityKind, Vec<(String, Seen)>)> {
    let mut named: Vec<((EntityKind, String), Seen)> = seen::by_name(found).into_iter().collect();
    named.sort_by(|(one, of_one), (other, of_other)| {
        pace::step();
        let weight = |seen: &Seen| (seen.sessions, seen.count, seen.last_at);
        weight(of_other).cmp(&weight(of_one)).then_with(|| one.cmp(other))
    });
    let top = EntityKind::ALL.map(|kind| {
        let of_kind = named.iter().filter(|((of, _), _)| *of == kind).take(TOP_MAX);
        (kind, of_kind.map(|((_, name), seen)| (name.clone(), seen.clone())).collect())
    });
    top.into()
}

fn tokens(words: u64) -> u64 {
    words.saturating_mul(TOKENS_OF_TEN_WORDS) / 10
}

/// The date of a day since 1970.
fn date(day: i64) -> String {
    let instant = Timestamp(day.saturating_mul(DAY_MICROS)).to_string();
    instant.split('T').next().unwrap_or_default().to_owned()
}
