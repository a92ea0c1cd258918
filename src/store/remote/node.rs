//! A node: one process of several that serve a store. It reports to the base that it is alive,
//! takes over the count of time, learns of changes and removals at other nodes, and serves nothing
//! while it cannot. It must not decide a request.

use std::{
    collections::HashMap,
    iter,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use quick_cache::sync::Cache;
use tokio::{
    sync::{
        Notify,
        broadcast::{self, error::RecvError},
        watch,
    },
    time::MissedTickBehavior,
};
use tokio_util::sync::CancellationToken;

use super::{
    feed::ChangeFeed,
    files::NodeFiles,
    hub::Hub,
    keys::NodeKeys,
    lane::Lane,
    row::{Ancestor, DamagedRow, Head, session_name, uid_of},
    sealed::SealedBase,
    store_error,
};
use crate::{
    env::{Clock, Entropy, MasterKeys, clock::SystemClock, sync::Mutex},
    event::{Position, Range, SessionKey, Timestamp, limits},
    log::{ChainValue, Entry},
    store::{
        Health, KeyReport, Lifetimes, LiveNode, Sharing, StoreError, StoreResult,
        base::{
            Base, BaseStatus, Durability, Hash16, Heartbeat, OtherNode, RowSelection, SessionRow,
        },
        lifetime::{LifetimeClock, LifetimeClockState, micros},
        rules::LifetimeStep,
    },
};

/// Number of lanes.
const LANES: usize = 2;
/// Interval of reports to the base.
const BEAT_EVERY: Duration = Duration::from_secs(2);
/// Interval at which followed sessions are looked at: a hint may be lost.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time without a successful report after which the node serves nothing: others no longer wait for
/// it before they report a removal as finished.
pub(super) const SILENT_MAX: Duration = Duration::from_secs(8);
/// Time to wait for other nodes to let go of removed content: longer than one stays alive to them.
const CONFIRM_MAX: Duration = Duration::from_secs(12);
const CONFIRM_PAUSE: Duration = Duration::from_millis(10);
/// Forks whose ancestors are remembered, and sessions whose last acknowledged state is.
const REMEMBERED_MAX: usize = 16_384;
/// Text before the ids of a node's master keys in its report.
const KEY_IDS: &str = " keys ";
/// The hint that content was removed.
pub(super) const REMOVAL_HINT: Hash16 = [0; 16];

/// Options of a node.
#[derive(Clone, Debug, Default)]
pub struct RemoteOptions {
    /// Lifetimes of sessions; all nodes of a store should have the same.
    pub lifetimes: Lifetimes,
    /// Least durability of the base: below it the node accepts no writes.
    pub required: Option<Durability>,
    /// Master keys; a store that is made with one is encrypted.
    pub keys: Option<Arc<MasterKeys>>,
    /// Machine and process, as `HOST/PID`, for those who look at the nodes of the store.
    pub place: String,
}

/// A node of a store.
pub(super) struct Node {
    pub(super) base: Arc<dyn Base>,
    pub(super) keys: Arc<NodeKeys>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) entropy: Arc<dyn Entropy>,
    /// Clock for waits, which no test sets.
    pub(super) real: SystemClock,
    pub(super) options: RemoteOptions,
    id: Hash16,
    count: LifetimeClock,
    /// Microseconds by which the count of other nodes is ahead of this one's.
    ahead: AtomicI64,
    sequence: AtomicU64,
    lanes: [Lane; LANES],
    ancestors: Cache<Hash16, Arc<[Ancestor]>>,
    /// Last acknowledged revision and tail of sessions.
    acknowledged: Cache<Hash16, Acknowledged>,
    pub(super) hub: Hub,
    pub(super) feed: ChangeFeed,
    pub(super) files: NodeFiles,
    pub(super) removals: watch::Sender<u64>,
    /// Number of removals up to which the derived files have nothing removed.
    cleared: AtomicU64,
    /// Number of removals that the follower confirmed; meaningful once there is one.
    followed: AtomicU64,
    has_follower: AtomicBool,
    /// True from a long silence until the node has let go of what was removed meanwhile.
    lags: AtomicBool,
    status: Mutex<NodeStatus>,
    /// Asks for a report.
    wake: Arc<Notify>,
    /// Asks for a look at removals.
    look: Arc<Notify>,
    stop: CancellationToken,
    pub(super) unsure_commits: AtomicU64,
    /// Sessions that were found at an earlier state than was acknowledged.
    pub(super) set_back: AtomicU64,
    /// Progress of the sweep.
    pub(super) swept_to: Mutex<Option<Hash16>>,
}

/// `uid`, revision and tail of a session as last acknowledged.
type Acknowledged = (Hash16, u64, Position);

/// Result of the last reports to the base.
#[derive(Clone, Debug)]
pub(super) struct NodeStatus {
    pub(super) last: BaseStatus,
    /// Start of the last successful report.
    at: Duration,
    error: Option<String>,
}

impl Node {
    /// Connects a node to a base and starts its background task.
    pub(super) async fn open(
        base: Arc<dyn Base>,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        options: RemoteOptions,
    ) -> StoreResult<Arc<Self>> {
        let given = options.keys.clone();
        let keys = NodeKeys::open(&*base, Arc::clone(&entropy), clock.now(), given).await?;
        let keys = Arc::new(keys);
        let base = SealedBase::wrap(base, &keys);
        let mut id = [0; 16];
        entropy.fill(&mut id);
        let real = SystemClock::new();
        let first = Heartbeat {
            node: id,
            counted: Timestamp(0),
            confirmed: u64::MAX,
            place: options.place.clone(),
            about: about(&options, &keys),
            leaves: false,
        };
        let last = base.beat(first).await.map_err(store_error)?;
        let count = match last.counted {
            Timestamp(0) => LifetimeClock::begin(&*clock),
            counted => {
                let state = LifetimeClockState { counted, seen: clock.now() };
                LifetimeClock::resume(&*clock, state, &[])
            }
        };
        let removals = last.removals;
        let hints = base.hints();
        let status = NodeStatus { last, at: real.monotonic(), error: None };
        let node = Arc::new(Self {
            base,
            keys,
            clock,
            entropy,
            real,
            options,
            id,
            count,
            ahead: AtomicI64::new(0),
            sequence: AtomicU64::new(1),
            lanes: Default::default(),
            ancestors: Cache::new(REMEMBERED_MAX),
            acknowledged: Cache::new(REMEMBERED_MAX),
            hub: Hub::default(),
            feed: ChangeFeed::default(),
            files: NodeFiles::default(),
            removals: watch::channel(removals).0,
            cleared: AtomicU64::new(removals),
            followed: AtomicU64::new(removals),
            has_follower: AtomicBool::new(false),
            lags: AtomicBool::new(false),
            status: Mutex::new(crate::env::sync::Rank::LAST, status),
            wake: Arc::default(),
            look: Arc::default(),
            stop: CancellationToken::new(),
            unsure_commits: AtomicU64::new(0),
            set_back: AtomicU64::new(0),
            swept_to: Mutex::default(),
        });
        node.beat().await?;
        if let Err(error) = node.check_writable() {
            node.close().await;
            return Err(error);
        }
        let (weak, stop) = (Arc::downgrade(&node), node.stop.clone());
        tokio::spawn(report(weak.clone(), stop.clone(), Arc::clone(&node.wake)));
        tokio::spawn(follow(weak, stop, Arc::clone(&node.look), hints));
        Ok(node)
    }

    pub(super) fn lane_index(&self, name: Hash16) -> usize {
        usize::from(name[15]) % LANES
    }

    pub(super) fn lane(&self, index: usize) -> &Lane {
        self.lanes.get(index).unwrap_or(&self.lanes[0])
    }

    /// Returns a number that is higher than all before: what has it was read or sent later.
    pub(super) fn next_sequence(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Checks that the node may serve a request.
    ///
    /// # Errors
    /// [`StoreError::Unreachable`] while the base was not reached for so long that other nodes do
    /// not wait for this one.
    pub(super) fn check_open(&self) -> StoreResult<()> {
        if self.is_closed() {
            let reason = "the store is closed".to_owned();
            return Err(StoreError::ReadOnly { reason });
        }
        if let Some((_, reason)) = self.silence() {
            return Err(StoreError::Unreachable { reason });
        }
        if self.lags.load(Ordering::Acquire) {
            if self.confirmed_removals() < *self.removals.borrow() {
                let reason = "the node lets go of what was removed while it was cut off".to_owned();
                return Err(StoreError::Unreachable { reason });
            }
            self.lags.store(false, Ordering::Release);
        }
        Ok(())
    }

    /// Checks that the node may write.
    ///
    /// # Errors
    /// Those of [`Self::check_open`]; [`StoreError::ReadOnly`] below the required durability, and
    /// if the store was moved.
    pub(super) fn check_writable(&self) -> StoreResult<()> {
        self.check_open()?;
        let BaseStatus { durability, closed, .. } = self.status();
        if let Some(reason) = closed {
            return Err(StoreError::ReadOnly { reason });
        }
        match self.options.required.filter(|required| durability < *required) {
            None => Ok(()),
            Some(required) => Err(StoreError::ReadOnly {
                reason: format!(
                    "the database has durability {}, and {} is required",
                    durability.as_str(),
                    required.as_str()
                ),
            }),
        }
    }

    /// Returns for how long the base was not reached, if that is too long, and the last error.
    fn silence(&self) -> Option<(Duration, String)> {
        let status = self.status.lock();
        let silent = self.real.monotonic().saturating_sub(status.at);
        let reason = || status.error.clone().unwrap_or_else(|| "the node was stopped".to_owned());
        (silent > SILENT_MAX).then(|| (silent, reason()))
    }

    pub(super) fn health(&self) -> Health {
        match self.silence() {
            _ if self.is_closed() => Health::ReadOnly("the store is closed".to_owned()),
            None => Health::Ready,
            Some((silent, _)) => Health::Silent(silent),
        }
    }

    /// Returns the last reply of the base.
    pub(super) fn status(&self) -> BaseStatus {
        self.status.lock().last.clone()
    }

    /// Returns the durability of commits and the nodes that are alive, by the last report.
    pub(super) fn shared(&self) -> Sharing {
        let about = about(&self.options, &self.keys);
        let (place, silent) = (self.options.place.clone(), Duration::ZERO);
        let own = OtherNode { place, about, silent };
        let settings = |node: &OtherNode| node.about.split(KEY_IDS).next().map(str::to_owned);
        let status = self.status.lock();
        let age = self.real.monotonic().saturating_sub(status.at);
        let nodes = iter::once(&own).chain(&status.last.others).map(|node| LiveNode {
            place: node.place.clone(),
            version: node.about.split(' ').next().unwrap_or_default().to_owned(),
            silent: age + node.silent,
            is_alike: settings(node) == settings(&own),
        });
        Sharing { durability: status.last.durability.as_str(), nodes: nodes.collect() }
    }

    /// Continues a rotation of the master key, or begins one: not while a live node lacks the new
    /// key, which could not read what is wrapped under it.
    pub(super) async fn rotate_keys(&self, keys_max: usize) -> StoreResult<KeyReport> {
        if let Some(id) = self.keys.given_ids().first() {
            let others = self.beat().await?.others;
            let id = id.to_string();
            let has_key = |other: &OtherNode| {
                other
                    .about
                    .split_once(KEY_IDS)
                    .is_some_and(|(_, ids)| ids.split(' ').any(|one| one == id))
            };
            if !others.iter().all(has_key) {
                let reason =
                    format!("a running node was not given the key {id}: start each with it");
                return Err(StoreError::ReadOnly { reason });
            }
        }
        self.keys.rotate(&*self.base, keys_max).await
    }

    /// Returns the count of time of the store.
    pub(super) fn counted_time(&self) -> Timestamp {
        self.count.now(&*self.clock).plus_micros(self.ahead.load(Ordering::Acquire))
    }

    /// Returns the count of time before which keys of batches and creations have expired.
    pub(super) fn keys_live_from(&self) -> Timestamp {
        self.counted_time().plus_micros(-limits::BATCH_KEY_MICROS)
    }

    /// Returns true if a session is due to expire.
    pub(super) fn is_due_to_expire(&self, entry: &Entry, counted: Timestamp) -> bool {
        let step = self.options.lifetimes.next_step(entry, counted, || true);
        step == Some(LifetimeStep::Expire)
    }

    /// Reports to the base, and takes over what it replies.
    pub(super) async fn beat(&self) -> StoreResult<BaseStatus> {
        let began = self.real.monotonic();
        let report = Heartbeat {
            node: self.id,
            counted: self.counted_time(),
            confirmed: self.confirmed_removals(),
            place: self.options.place.clone(),
            about: about(&self.options, &self.keys),
            leaves: self.is_closed(),
        };
        match self.base.beat(report).await {
            Ok(status) => {
                // Measured now, not when the report was sent: reports may overlap.
                let own = self.count.now(&*self.clock);
                self.ahead.fetch_max(status.counted.0 - own.0, Ordering::AcqRel);
                self.see_removals(status.removals);
                // By the clock of the base, too: this machine may have been suspended.
                let before = self.status.lock().last.now;
                let away = status.now.0 - before.0 > micros(SILENT_MAX);
                if away || self.silence().is_some() {
                    self.lags.store(true, Ordering::Release);
                }
                let last = status.clone();
                *self.status.lock() = NodeStatus { last, at: began, error: None };
                Ok(status)
            }
            Err(error) => {
                self.status.lock().error = Some(error.to_string());
                Err(store_error(error))
            }
        }
    }

    /// Records the number of removals that a read of the base came with.
    pub(super) fn see_removals(&self, removals: u64) {
        let rises = self.removals.send_if_modified(|known| {
            let rises = removals > *known;
            *known = removals.max(*known);
            rises
        });
        if rises {
            self.look.notify_one();
        }
    }

    /// Returns the number of removals up to which this node keeps nothing derived.
    fn confirmed_removals(&self) -> u64 {
        let cleared = self.cleared.load(Ordering::Acquire);
        match self.has_follower.load(Ordering::Acquire) {
            true => cleared.min(self.followed.load(Ordering::Acquire)),
            false => cleared,
        }
    }

    /// Returns a watch on the number of removals, for a follower that confirms them.
    pub(super) fn follow_removals(&self) -> watch::Receiver<u64> {
        let receiver = self.removals.subscribe();
        if !self.has_follower.swap(true, Ordering::AcqRel) {
            self.followed.fetch_max(*receiver.borrow(), Ordering::AcqRel);
        }
        receiver
    }

    /// Records that the follower keeps nothing of what the first `removals` removals removed.
    pub(super) fn confirm_removals(&self, removals: u64) {
        self.followed.fetch_max(removals, Ordering::AcqRel);
        self.wake.notify_one();
    }

    /// Removes what was derived from removed content.
    async fn clear_removed(&self) {
        let removals = *self.removals.borrow();
        if self.cleared.load(Ordering::Acquire) < removals && self.drop_outdated().await.is_ok() {
            self.cleared.fetch_max(removals, Ordering::AcqRel);
        }
    }

    /// Waits until no live node keeps anything derived from content of that removal.
    ///
    /// # Errors
    /// [`StoreError::Unfinished`] if one does not confirm in time.
    pub(super) async fn wait_until_confirmed(
        &self,
        removals: u64,
        what: &'static str,
    ) -> StoreResult<()> {
        self.see_removals(removals);
        self.base.hint(vec![REMOVAL_HINT]);
        let until = self.real.monotonic() + CONFIRM_MAX;
        loop {
            self.clear_removed().await;
            let others = self.beat().await.map(|status| status.confirmed_by_others);
            let own = self.confirmed_removals();
            if own >= removals && others.as_ref().is_ok_and(|others| *others >= removals) {
                return Ok(());
            }
            if self.real.monotonic() >= until {
                let doing = "waiting for the other nodes to let go of what it removes";
                let reason = match others {
                    Err(error) => error.to_string(),
                    Ok(_) => "a node has not confirmed it".to_owned(),
                };
                let source = std::io::Error::new(std::io::ErrorKind::TimedOut, reason);
                return Err(StoreError::Unfinished { what, doing, source });
            }
            tokio::time::sleep(CONFIRM_PAUSE).await;
        }
    }

    /// Records that the node committed a change of a session.
    pub(super) fn record_commit(&self, head: &Head) {
        let row = &head.row;
        self.acknowledged.insert(row.name, (row.uid, row.revision, row.tail));
        self.hub.announce(row.name, row.tail, !head.entry.stage.is_alive());
        self.feed.record(head);
        self.base.hint(vec![row.name]);
    }

    /// Records a change of a session that was committed outside of its lane.
    pub(super) fn record_change(&self, head: &Head) {
        self.lane(self.lane_index(head.row.name)).mark_moved(head.row.name);
        self.record_commit(head);
    }

    /// Reads sessions by their names, each with the error of a damaged row.
    pub(super) async fn fetch_rows(
        &self,
        names: Vec<Hash16>,
    ) -> StoreResult<Vec<(Hash16, Result<Head, DamagedRow>)>> {
        let (checked, limit) = (self.next_sequence(), names.len());
        // As of before the read: a commit meanwhile is not in it.
        let before = names.iter().filter_map(|name| Some((*name, self.acknowledged.get(name)?)));
        let before: HashMap<Hash16, Acknowledged> = before.collect();
        let rows = self.base.rows(RowSelection::Names(names), limit).await.map_err(store_error)?;
        let mut heads = Vec::with_capacity(rows.len());
        for row in rows {
            self.see_removals(row.removals);
            self.check_not_set_back(&row, before.get(&row.name));
            let (name, tail) = (row.name, row.tail);
            let head = match Head::from_row(&self.keys.names, row, checked) {
                Ok(mut head) => match self.ancestors_of(&head).await {
                    Ok(ancestors) => {
                        head.ancestors = ancestors;
                        Ok(head)
                    }
                    // A damaged row of an ancestor fails this session alone.
                    Err(error @ StoreError::Io { .. }) => Err(error.to_string()),
                    Err(error) => return Err(error),
                },
                Err(error) => Err(error.to_string()),
            };
            heads.push((name, head.map_err(|reason| DamagedRow { tail, reason })));
        }
        Ok(heads)
    }

    /// Reads sessions by their names; damaged rows are left out.
    pub(super) async fn fetch_heads(&self, names: Vec<Hash16>) -> StoreResult<Vec<Head>> {
        let rows = self.fetch_rows(names).await?;
        Ok(rows.into_iter().filter_map(|(_, head)| head.ok()).collect())
    }

    /// Reports a session that ends before what this node acknowledged: the base went back.
    fn check_not_set_back(&self, row: &SessionRow, acknowledged: Option<&Acknowledged>) {
        let Some((uid, revision, tail)) = acknowledged else { return };
        if *uid == row.uid && row.revision < *revision {
            self.set_back.fetch_add(1, Ordering::Relaxed);
            self.acknowledged.insert(row.name, (row.uid, row.revision, row.tail));
            tracing::error!(
                name = ?row.name,
                acknowledged = tail.0,
                found = row.tail.0,
                "a session is behind what was acknowledged: the database lost commits"
            );
        }
    }

    /// Reads a session.
    ///
    /// # Errors
    /// [`StoreError::SessionNotFound`].
    pub(super) async fn fetch_head(&self, key: &SessionKey) -> StoreResult<Head> {
        self.check_open()?;
        let found = self.fetch_rows(vec![session_name(&self.keys.names, key)]).await?.pop();
        let unknown = || StoreError::SessionNotFound { session: key.session.clone() };
        let (_, head) = found.ok_or_else(unknown)?;
        head.map_err(|damaged| damaged.error(&key.session))
    }

    /// Reads a session that is visible to readers.
    pub(super) async fn fetch_visible(&self, key: &SessionKey) -> StoreResult<Head> {
        let head = self.fetch_head(key).await?;
        head.check_visible()?;
        Ok(head)
    }

    /// Returns the sessions that a fork reads from; they do not change.
    async fn ancestors_of(&self, head: &Head) -> StoreResult<Arc<[Ancestor]>> {
        if head.entry.lineage.is_none() {
            return Ok(Arc::default());
        }
        if let Some(known) = self.ancestors.get(&head.uid()) {
            return Ok(known);
        }
        let (mut found, mut bound) = (Vec::new(), head.entry.base());
        let mut up = head.entry.parent(&head.key.scope);
        while let Some((key, hash)) = up {
            let wanted = RowSelection::Uids(vec![uid_of(hash)]);
            let row = self.base.rows(wanted, 1).await.map_err(store_error)?.pop();
            let Some(row) = row else { break };
            let parent = Head::from_row(&self.keys.names, row, 0)?;
            let base = parent.entry.base();
            let range = Range::new(base.min(bound), bound);
            let lineage = parent.entry.lineage.as_ref();
            let origin = lineage.map(|lineage| ChainValue(lineage.chain));
            found.push(Ancestor { key, hash, range, origin });
            bound = bound.min(base);
            up = parent.entry.parent(&parent.key.scope);
        }
        let found: Arc<[Ancestor]> = found.into();
        self.ancestors.insert(head.uid(), Arc::clone(&found));
        Ok(found)
    }

    /// Stops the background task and tells the base.
    pub(super) async fn close(&self) {
        if self.is_closed() {
            return;
        }
        self.stop.cancel();
        if let Err(error) = self.beat().await {
            tracing::warn!(%error, "the base keeps this node as alive for some seconds");
        }
        self.base.close().await;
    }

    /// Looks at followed sessions: announces their tails, and records that watched ones are used.
    async fn poll_followed(&self, names: Vec<Hash16>, counted: Timestamp) {
        if names.is_empty() {
            return;
        }
        let Ok(heads) = self.fetch_heads(names.clone()).await else { return };
        let found: HashMap<Hash16, &Head> =
            heads.iter().map(|head| (head.row.name, head)).collect();
        for name in names {
            match found.get(&name) {
                Some(head) => {
                    self.hub.announce(name, head.row.tail, !head.entry.stage.is_alive());
                }
                None => self.hub.announce_end(name),
            }
        }
        for head in heads {
            if head.entry.stage.is_alive()
                && let Err(error) = self.record_use_soon(head, counted).await
            {
                tracing::debug!(%error, "the use of a watched session is recorded later");
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns the version and settings that nodes compare.
fn about(options: &RemoteOptions, keys: &NodeKeys) -> String {
    let Lifetimes { hot, retention, purge, grace } = options.lifetimes;
    let seconds = [hot, retention, purge, grace].map(|time| time.as_secs().to_string());
    let ids: String = keys.given_ids().iter().map(|id| format!(" {id}")).collect();
    let ids = if ids.is_empty() { ids } else { format!("{KEY_IDS}{}", ids.trim_start()) };
    format!("{} {}{ids}", env!("CARGO_PKG_VERSION"), seconds.join(" "))
}

/// Reports to the base until the node is closed; nothing else delays a report.
async fn report(node: Weak<Node>, stop: CancellationToken, wake: Arc<Notify>) {
    let mut beat = tokio::time::interval(BEAT_EVERY);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    beat.tick().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = beat.tick() => {}
            () = wake.notified() => {}
        }
        let Some(node) = node.upgrade() else { return };
        match node.beat().await {
            Ok(_) => node.look.notify_one(),
            Err(error) => tracing::warn!(%error, "the base did not take the node's report"),
        }
    }
}

/// Follows changes and removals at other nodes until the node is closed.
async fn follow(
    node: Weak<Node>,
    stop: CancellationToken,
    look: Arc<Notify>,
    mut hints: broadcast::Receiver<Hash16>,
) {
    let mut poll = tokio::time::interval(POLL_EVERY);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let mut polled = Vec::new();
        let mut counted = Timestamp(i64::MIN);
        tokio::select! {
            () = stop.cancelled() => return,
            _ = poll.tick() => {
                let Some(node) = node.upgrade() else { return };
                node.feed.poll();
                // Before the look: a session that is followed then was in use at that time.
                counted = node.counted_time();
                polled = node.hub.followed();
            }
            hint = hints.recv() => {
                let Some(node) = node.upgrade() else { return };
                match hint {
                    Ok(REMOVAL_HINT) => node.wake.notify_one(),
                    Ok(name) => {
                        node.feed.record_hint(name);
                        polled.extend(node.hub.is_followed(name).then_some(name));
                    }
                    Err(RecvError::Lagged(_)) => {
                        node.feed.poll();
                        polled = node.hub.followed();
                    }
                    Err(RecvError::Closed) => return,
                }
            }
            () = look.notified() => {}
        }
        let Some(node) = node.upgrade() else { return };
        let before = node.confirmed_removals();
        node.clear_removed().await;
        if node.confirmed_removals() != before {
            node.wake.notify_one();
        }
        node.poll_followed(polled, counted).await;
    }
}
