//! The difference between two points of a session: events by type, facts, and the content that a
//! model sees at only one of them. The points may come in either order, since nothing recorded is
//! removed. It must not read a body.

use std::collections::BTreeMap;

use super::{Caller, Service, ServiceError, ServiceResult, WindowCall, facts::FACTS_BYTES};
use crate::{
    api::fork::{DiffAnswer, EventsDiff},
    event::{Point, Position, Range, SessionId, SessionKey},
    harness,
    store::{FillDirection, ReadRequest},
};

/// Maximum number of events and body bytes read at once.
const SCAN_EVENTS: usize = 1_000;
const SCAN_BYTES: usize = 4 << 20;
/// Maximum number of types counted by name.
const TYPES_MAX: usize = 200;
/// Maximum total bytes of the lists in a response.
const LISTS_BYTES: usize = 32_000;

impl Service {
    /// Returns the difference between two points of a session; windows are built by `plan`, except
    /// for its points.
    ///
    /// # Errors
    /// `point_not_found`, `invalid_request` for the plan, and those of reading the session.
    pub async fn diff(
        &self,
        caller: &Caller,
        session: &SessionId,
        (one, other): (&Point, &Point),
        plan: WindowCall,
    ) -> ServiceResult<DiffAnswer> {
        let key = caller.key(session);
        let tail = self.store.use_session(&key).await?.tail;
        let mut ends = [Position::ZERO; 2];
        for (end, point) in ends.iter_mut().zip([one, other]) {
            *end = self.resolve_end(&key, point, tail).await?;
            if *end > tail {
                return Err(ServiceError::point_not_found(point, tail));
            }
        }
        ends.sort_unstable();
        let [from, to] = ends;
        let at = |end| WindowCall { from: None, at: Some(Point::At(end)), ..plan.clone() };
        let windows = [
            self.window(caller, session, at(from)).await?,
            self.window(caller, session, at(to)).await?,
        ];
        let of = move || {
            let [old, new] = &windows;
            harness::diff_windows((&old.window, from), (&new.window, to), new.tokenizer)
        };
        let window = self.compute_unlimited(&key.scope.tenant, of).await?;
        let events = self.count_events(&key, Range::new(from, to)).await?;
        let tenant = &key.scope.tenant;
        let mut room = Some(self.reserve_memory(tenant, 2 * FACTS_BYTES).await?);
        let before = self.facts_at(&key, from).await?;
        self.computations.resize(tenant, &mut room, 2 * before.weight())?;
        let mut after = before.clone();
        self.fold_to(&key, &mut after, to).await?;
        self.computations.resize(tenant, &mut room, before.weight() + after.weight())?;
        let compared = move || harness::diff(&before, &after, LISTS_BYTES);
        let facts = self.compute_unlimited(tenant, compared).await?;
        Ok(DiffAnswer { from, to, events, facts, window })
    }

    /// Counts the events of a range by type, and the bytes of their bodies.
    async fn count_events(&self, key: &SessionKey, range: Range) -> ServiceResult<EventsDiff> {
        let Range { from, to } = range;
        let (mut at, mut count, mut bytes, mut slot) = (from, 0, 0, None);
        let (mut types, mut others) = (BTreeMap::<String, u64>::new(), 0);
        while at < to {
            slot = Some(self.compute.yield_or_acquire(&key.scope.tenant, slot).await?);
            let read = ReadRequest {
                range: Range::new(at, to),
                events_max: SCAN_EVENTS,
                bytes_max: SCAN_BYTES,
                fill: FillDirection::Forward,
                allow_gaps: false,
            };
            let slice = self.store.read(key, read).await?;
            for event in &slice.events {
                count += 1;
                bytes += event.body.len() as u64;
                let kind = event.kind.as_str();
                if let Some(count) = types.get_mut(kind) {
                    *count += 1;
                } else if types.len() < TYPES_MAX {
                    types.insert(kind.to_owned(), 1);
                } else {
                    others += 1;
                }
            }
            if slice.covered.is_empty() {
                break;
            }
            at = slice.covered.to;
            tokio::task::yield_now().await;
        }
        Ok(EventsDiff { count, bytes, types, others })
    }
}
