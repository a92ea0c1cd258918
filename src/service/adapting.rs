//! Shares of a budget that follow what the last restore of a line kept of what its successor then
//! used. Everything is read in the log: the restore is made again, and its names and numbers are
//! looked for in the successor. It must not keep anything.

use std::collections::{BTreeMap, HashSet};

use super::{
    Service, ServiceResult,
    line::{Link, is_work},
};
use crate::{
    event::{Event, Position, kinds},
    harness::{self, Asked, By, RESTORE_TOKENS_MAX, RESTORE_TOKENS_MIN, Tokenizer, Used},
    projection::body::{self, RestoredBody},
    search::EventText,
    store::SessionInfo,
};

/// First events of a session that are read, and bytes of their bodies.
const EVENTS_MAX: usize = 1_000;
const BYTES_MAX: usize = 4 << 20;
/// Names and numbers of a share that a successor used, below which it is not judged.
const USED_MIN: usize = 5;
/// A share that kept less than so many percent of what was used grows by [`GROWTH`] percent; one
/// that kept more than [`WELL_KEPT`] returns by [`RETURN`] percent. Seed 004 has the first two.
const KEPT: usize = 80;
const GROWTH: usize = 10;
const WELL_KEPT: usize = 90;
const RETURN: usize = 5;
/// Before the name of a share in the record of a restore.
const SHARE: &str = "share.";
/// The name of the threshold there.
pub(super) const THRESHOLD: &str = "threshold";

/// The name of a share in the record of a restore.
pub(super) fn share_name(name: &str) -> String {
    format!("{SHARE}{name}")
}

impl Service {
    /// The shares of the budget for a restore of this session as of a position, by what the last
    /// restore of its line kept of what was used since; empty when there was none.
    pub(super) async fn adapted(
        &self,
        info: &SessionInfo,
        at: Position,
        asked: &Asked,
    ) -> ServiceResult<BTreeMap<String, usize>> {
        let Some(Link { key, to, .. }) = self.line_before(&info.key).await?.pop() else {
            return Ok(BTreeMap::new());
        };
        let events = self.first_events(&info.key, at, (EVENTS_MAX, BYTES_MAX)).await?;
        let begun = |event: &Event| {
            restored(event)
                .filter(|one| one.from.session == key.session.as_str() && one.from.position == to.0)
        };
        let last =
            events.iter().enumerate().rev().find_map(|(at, event)| Some((at, begun(event)?)));
        let Some((begun_at, before)) = last else { return Ok(BTreeMap::new()) };
        let used = events.iter().skip(begun_at + 1).filter(|event| is_work(event));
        let used: Vec<Event> = used.cloned().collect();
        let names = move || -> HashSet<String> {
            used.iter().flat_map(|event| harness::names_of(&EventText::of(event).text)).collect()
        };
        let said = self.computed_again(&key.scope.tenant, names).await?;
        let weight = |name: &str| before.weights.get(name).copied();
        let percents = before.weights.iter().filter_map(|(name, percent)| {
            let name = name.strip_prefix(SHARE)?;
            Some((name.to_owned(), usize::try_from(*percent).ok()?))
        });
        let facts = self.line_facts_at(&key, to).await?;
        let tokens_max = usize::try_from(before.tokens_max).unwrap_or(RESTORE_TOKENS_MAX);
        let asked = Asked {
            tokens_max: tokens_max.clamp(RESTORE_TOKENS_MIN, RESTORE_TOKENS_MAX),
            threshold: weight(THRESHOLD)
                .and_then(|one| one.try_into().ok())
                .unwrap_or(asked.threshold),
            by: By::default(),
            session: key.session.to_string(),
            percents: percents.collect(),
            ..asked.clone()
        };
        let used = move || moved(&harness::used(&facts, &asked, &said, Tokenizer::Claude));
        self.computed_again(&key.scope.tenant, used).await
    }
}

fn restored(event: &Event) -> Option<RestoredBody> {
    let is_it = event.kind.as_str() == kinds::SESSION_RESTORED;
    is_it.then(|| body::read(&event.body)).flatten()
}

/// The shares after what was used of them: between half and double of the recipe's, 100 together.
fn moved(used: &[Used]) -> BTreeMap<String, usize> {
    let grown = |one: &Used| {
        let (percent, usual) = (one.share.percent, one.share.usual);
        let all = one.given + one.missed;
        let back = (percent * RETURN).div_ceil(100);
        match (all >= USED_MIN).then(|| one.given * 100 / all) {
            Some(kept) if kept < KEPT => {
                (percent + (percent * GROWTH).div_ceil(100)).min(2 * usual)
            }
            Some(kept) if kept <= WELL_KEPT => percent,
            // Well kept, or too little was used to judge by.
            _ if percent > usual => percent.saturating_sub(back).max(usual),
            _ => (percent + back).min(usual.max(percent)),
        }
    };
    let wanted: Vec<usize> = used.iter().map(grown).collect();
    let sum = wanted.iter().sum::<usize>().max(1);
    let scaled = used.iter().zip(&wanted);
    let mut shares: Vec<usize> = scaled
        .map(|(one, wanted)| ((wanted * 100 + sum / 2) / sum).max(one.share.usual / 2))
        .collect();
    let over = shares.iter().sum::<usize>();
    if let Some(largest) = shares.iter_mut().max() {
        *largest = (*largest + 100).saturating_sub(over);
    }
    let named = used.iter().zip(shares);
    named.map(|(one, percent)| (one.share.name.to_owned(), percent)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Spent;

    fn of(shares: &[(&'static str, usize, usize, usize, usize)]) -> Vec<usize> {
        let used = shares.iter().map(|(name, percent, usual, given, missed)| Used {
            share: Spent { name, percent: *percent, usual: *usual, tokens: 0 },
            given: *given,
            missed: *missed,
        });
        let used: Vec<Used> = used.collect();
        let moved = moved(&used);
        used.iter().map(|one| *moved.get(one.share.name).unwrap_or(&0)).collect()
    }

    #[test]
    fn a_share_that_kept_too_little_grows_and_one_that_kept_all_returns() {
        let kept = of(&[("code", 60, 60, 10, 0), ("talk", 30, 30, 5, 5), ("rest", 10, 10, 0, 0)]);
        assert_eq!(kept, [58, 32, 10]);
        let back = of(&[("code", 50, 60, 10, 0), ("talk", 40, 30, 10, 0), ("rest", 10, 10, 0, 0)]);
        assert_eq!(back, [52, 38, 10]);
        let unsure = of(&[("code", 60, 60, 0, 4), ("talk", 30, 30, 8, 1), ("rest", 10, 10, 0, 0)]);
        assert_eq!(unsure, [60, 30, 10]);
    }

    #[test]
    fn a_share_stays_between_half_and_double_of_what_is_usual() {
        let mut shares = [60, 30, 10];
        for _ in 0..50 {
            let [code, talk, rest] = shares;
            let moved = of(&[
                ("code", code, 60, 0, 9),
                ("talk", talk, 30, 17, 3),
                ("rest", rest, 10, 17, 3),
            ]);
            shares = [0, 1, 2].map(|at| *moved.get(at).unwrap_or(&0));
            assert_eq!(shares.iter().sum::<usize>(), 100);
        }
        let [code, talk, rest] = shares;
        assert!((61..=120).contains(&code) && talk >= 15 && rest >= 5, "{shares:?}");
    }
}
