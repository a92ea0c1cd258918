//! Creates a session, or finds the earlier creation with the same key. It must not validate a
//! creation; `store::rules` does.

use std::sync::Arc;

use super::{
    node::Node,
    plan::{Plan, PlanContext, PlanOutcome},
    read::stored_read,
    row::{Head, new_row, scope_name, session_name, uid_of},
    store_error,
};
use crate::{
    event::{BatchKey, Incarnation, Position, Range, Scope, SessionHash, SessionKey},
    log::{Entry, ForkParent},
    store::{
        AppendResult, ForkPoint, NewSession, SessionInfo, StoreError, StoreResult,
        base::{BaseError, CreateOutcome, Hash16, NewRow, ReclaimStep, RowSelection},
        rules::{
            RequestFacts, WriteKind, WriteRequest, answer_repeated_creation, check_first_ids,
            check_id_is_free, creation_record, mint_session_id, names::key_hash,
        },
    },
};

/// Times that a creation is tried: each failure is the creation, change or end of another session.
const TRIES_MAX: usize = 100;

impl Node {
    /// Creates a session with its first events.
    pub(super) async fn create(
        self: &Arc<Self>,
        scope: &Scope,
        new: NewSession,
    ) -> StoreResult<(SessionInfo, AppendResult)> {
        self.check_writable()?;
        check_first_ids(&new.events)?;
        for _ in 0..TRIES_MAX {
            if let Some(key) = &new.key
                && let Some(head) = self.find_creation(scope, key).await?
            {
                return self.repeat_creation(head, &new).await;
            }
            let mut id = [0; 16];
            self.entropy.fill(&mut id);
            let id = new.id.clone().unwrap_or_else(|| mint_session_id(id));
            let key = SessionKey { scope: scope.clone(), session: id };
            let name = session_name(&self.keys.names, &key);
            let known = self.fetch_rows(vec![name]).await?.pop().map(|(_, known)| known);
            let known = known.transpose().map_err(|damaged| damaged.error(&key.session))?;
            check_id_is_free(known.as_ref().map(|head| &head.entry), &key.session)?;
            let parent = match &new.parent {
                None => None,
                Some(point) => Some(self.fork_point(scope, point).await?),
            };
            if let Some(created) = self.try_create(key, &new, parent).await? {
                return Ok(created);
            }
        }
        Err(StoreError::Busy)
    }

    /// Creates a session, unless another one got its name or key first, or its parent changed.
    async fn try_create(
        self: &Arc<Self>,
        key: SessionKey,
        new: &NewSession,
        parent: Option<(Head, ForkParent)>,
    ) -> StoreResult<Option<(SessionInfo, AppendResult)>> {
        let mut incarnation = [0; 16];
        self.entropy.fill(&mut incarnation);
        let (parent, lineage) = parent.unzip();
        let create = creation_record(&key.scope, &key.session, incarnation, new, lineage);
        let hash = SessionHash::new(&key, Incarnation(incarnation));
        let mut entry = Entry::from_create(&create, hash, self.clock.now());
        if let Some(parent) = &parent {
            // The fork's times must not precede its parent's.
            entry.updated_at = entry.updated_at.max(parent.entry.updated_at);
        }
        let row = new_row(&self.keys.names, &key, hash, &entry);
        let head = Head { row, hash, entry, key, ancestors: Arc::default(), checked: 0 };
        let ask = WriteKind::Create(Box::new(create));
        let mut request =
            WriteRequest::new(ask, new.events.clone(), self.clock.now(), &*self.entropy);
        let mut plan = Plan::new(head);
        let context = PlanContext {
            counted: self.counted_time(),
            keys_live_from: self.keys_live_from(),
            entropy: &*self.entropy,
        };
        let planned = plan.add(&mut request, RequestFacts::default(), &context)?;
        let PlanOutcome::Framed(result) = planned else {
            unreachable!("a creation writes its record");
        };
        let (write, mut after) = plan.finish(&self.keys.names);
        let attempt = write.frames.first().map(|frame| frame.attempt);
        let first = write.frames.first().map(|frame| (frame.first, frame.number));
        after.row.revision = 1;
        let created = Arc::new(NewRow {
            row: after.row.clone(),
            frames: write.frames,
            names: write.names,
            key: new.key.as_ref().map(|key| key_hash(key.as_str())),
            counted: context.counted,
            parent: parent.map(|parent| (parent.row.name, parent.uid())),
            store_slot: None,
        });
        let mut unsure = None;
        let outcome = loop {
            match self.base.create(Arc::clone(&created)).await {
                // The first attempt may have made it.
                Ok(refused @ (CreateOutcome::Taken | CreateOutcome::ParentMoved))
                    if unsure.is_some() =>
                {
                    let (first, number) = first.unwrap_or_default();
                    let stored = self.base.attempt(after.uid(), first, number).await;
                    let stored = stored.map_err(|error| unknown(error.to_string()))?;
                    break if stored.is_some() && stored == attempt {
                        CreateOutcome::Done
                    } else {
                        refused
                    };
                }
                Ok(outcome) => break outcome,
                Err(BaseError::Unsure(reason)) if unsure.is_none() => unsure = Some(reason),
                Err(error) => {
                    return Err(unsure.map_or_else(|| store_error(error), unknown));
                }
            }
        };
        if outcome != CreateOutcome::Done {
            return Ok(None);
        }
        self.record_change(&after);
        Ok(Some((after.info(), result)))
    }

    /// Returns the session that an earlier creation with the same key made, while the key is valid;
    /// removes a key that is not.
    async fn find_creation(&self, scope: &Scope, key: &BatchKey) -> StoreResult<Option<Head>> {
        let (scope, hash) = (scope_name(&self.keys.names, scope), key_hash(key.as_str()));
        let found = self.base.known(vec![(scope, hash)]).await.map_err(store_error)?.pop();
        let Some(found) = found.flatten() else { return Ok(None) };
        let checked = self.next_sequence();
        let uid = found.digest.as_deref().and_then(|uid| Hash16::try_from(uid).ok());
        let query = RowSelection::Uids(uid.into_iter().collect());
        let row = self.base.rows(query, 1).await.map_err(store_error)?.pop();
        let head = row.map(|row| Head::from_row(&self.keys.names, row, checked)).transpose()?;
        let head = head.filter(|head| head.entry.create_key.is_some());
        if head.is_some() && found.at >= self.keys_live_from() {
            return Ok(head);
        }
        let step = ReclaimStep::Key { scope, hash, at: found.at };
        self.base.reclaim(step).await.map_err(store_error)?;
        Ok(None)
    }

    /// Repeats the first answer if the content is the same.
    async fn repeat_creation(
        &self,
        head: Head,
        new: &NewSession,
    ) -> StoreResult<(SessionInfo, AppendResult)> {
        let head = self.fetch_visible(&head.key).await?;
        let base = head.entry.base();
        let range = Range::new(base, base.plus(new.events.events.len() as u64));
        let stored = self.read_from(&head, &stored_read(range, usize::MAX)).await?.events;
        self.base.prove().await.map_err(store_error)?;
        let (first, redacted) = (head.entry.create_key.as_deref(), &head.entry.redacted);
        answer_repeated_creation(new, head.info(), first, redacted, &stored)
    }

    /// Returns the parent of a fork, and its lineage.
    async fn fork_point(
        &self,
        scope: &Scope,
        point: &ForkPoint,
    ) -> StoreResult<(Head, ForkParent)> {
        let key = SessionKey { scope: scope.clone(), session: point.session.clone() };
        let parent = self.fetch_visible(&key).await?;
        let tail = Position(parent.entry.tail);
        if point.at > tail {
            return Err(StoreError::PositionConflict { expected: point.at, tail });
        }
        let chain = self.chain_at(&parent, point.at).await?.0;
        let (name, position) = (point.session.as_str().to_owned(), point.at.0);
        let incarnation = parent.entry.incarnation;
        Ok((parent, ForkParent { parent: name, incarnation, position, chain }))
    }
}

fn unknown(reason: String) -> StoreError {
    StoreError::OutcomeUnknown { reason }
}

/// Returns true if two sessions are of one name and life.
pub(super) fn is_same(head: &Head, hash: SessionHash) -> bool {
    head.row.uid == uid_of(hash)
}
