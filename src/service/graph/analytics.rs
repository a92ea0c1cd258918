//! Activity in a workspace: counts of sessions, events, tokens and the most frequent names, by day.
//! It must not read an event.

use std::collections::HashMap;

use super::names::{self, EntityCounts};
use crate::{
    api::graph::{AnalyticsAnswer, Day, TopEntity},
    event::{Timestamp, pace},
    harness::TRUST,
    projection::Graph,
    search::{DayCounts, EntityKind, NamedEntities},
    service::{Caller, Service, ServiceResult, values::check_workspace},
};

/// Maximum number of names of a kind shown.
const TOP_MAX: usize = 10;
/// Maximum number of days shown, latest first.
const DAYS_MAX: usize = 366;
/// Estimated tokens of a text for each ten of its words that are not among the most common.
const TOKENS_OF_TEN_WORDS: u64 = 22;
/// Microseconds per day.
const DAY_MICROS: i64 = 24 * 3_600 * 1_000_000;

impl Service {
    /// Counts the activity in a workspace since a time, from events with text.
    ///
    /// # Errors
    /// `invalid_request` for an invalid workspace name, or if search is disabled; those of the
    /// engine.
    pub async fn analytics(
        &self,
        caller: &Caller,
        workspace: &str,
        since: Option<Timestamp>,
        wait_ms: u64,
    ) -> ServiceResult<AnalyticsAnswer> {
        let wait = names::check_wait(wait_ms)?;
        check_workspace(workspace)?;
        let index = self.open_index(caller, workspace, wait).await;
        let index = index.ok_or_else(|| names::search_disabled_error("workspace"))?;
        let (_, bytes) = index.weight();
        let _memory = self.reserve_memory(&caller.scope.tenant, bytes).await?;
        let counted = self.count_by_day(&index, since).await?;
        let kinds = EntityKind::ALL.to_vec();
        let found = self.count_names(&index, kinds, since).await?;
        let mut top =
            self.compute_unlimited(&caller.scope.tenant, move || top_entities(found)).await?;
        let sizes = |graph: &Graph| (graph.entities().count(), graph.relations().count());
        let (mut entities, mut relations) = (0, 0);
        for notebook in self.graph_notebooks(caller, workspace).await? {
            let (some, more) = self.with_graph(caller, &notebook, sizes).await?;
            (entities, relations) = (entities + some, relations + more);
        }
        let all = || counted.days.values().chain([&counted.before]);
        let total = |of: fn(&DayCounts) -> u64| all().map(of).sum::<u64>();
        let (events, words) = (total(|day| day.events), total(|day| day.words));
        let skipped = counted.days.len().saturating_sub(DAYS_MAX);
        let days = counted.days.iter().skip(skipped).map(|(day, of)| Day {
            day: format_date(*day),
            sessions: of.sessions,
            events: of.events,
            tokens: estimate_tokens(of.words),
        });
        let mut taken = |kind: EntityKind| top.remove(&kind).unwrap_or_default();
        Ok(AnalyticsAnswer {
            sessions: counted.sessions,
            events,
            tokens: estimate_tokens(words),
            entities: entities as u64,
            relationships: relations as u64,
            files: taken(EntityKind::File),
            urls: taken(EntityKind::Url),
            symbols: taken(EntityKind::Symbol),
            errors: taken(EntityKind::Error),
            commands: taken(EntityKind::Command),
            people: taken(EntityKind::Person),
            packages: taken(EntityKind::Package),
            days: days.collect(),
            complete: index.coverage(),
            trust: TRUST.to_owned(),
        })
    }
}

/// Returns the entities named in most sessions, by kind.
fn top_entities(found: NamedEntities) -> HashMap<EntityKind, Vec<TopEntity>> {
    let mut named: Vec<((EntityKind, String), EntityCounts)> =
        names::counts_by_name(found).into_iter().collect();
    named.sort_by(|(one, of_one), (other, of_other)| {
        pace::step();
        let weight = |seen: &EntityCounts| (seen.sessions, seen.count, seen.last_at);
        weight(of_other).cmp(&weight(of_one)).then_with(|| one.cmp(other))
    });
    let mut top: HashMap<EntityKind, Vec<TopEntity>> = HashMap::new();
    for ((kind, id), EntityCounts { sessions, count, last_at, .. }) in named {
        let of_kind = top.entry(kind).or_default();
        if of_kind.len() < TOP_MAX {
            of_kind.push(TopEntity { id, sessions, count, last_at });
        }
    }
    top
}

fn estimate_tokens(words: u64) -> u64 {
    words.saturating_mul(TOKENS_OF_TEN_WORDS) / 10
}

/// Returns the date of a day number since 1970.
fn format_date(day: i64) -> String {
    let instant = Timestamp(day.saturating_mul(DAY_MICROS)).to_string();
    instant.split('T').next().unwrap_or_default().to_owned()
}
