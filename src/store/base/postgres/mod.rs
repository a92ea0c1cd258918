//! PostgreSQL, 13 or later, as a base. It makes its schema itself, and asks of a server what its
//! durability rests on. It must not decide about a session.
//!
//! Connections of a node: one for each lane, some for statements that may wait for a lock, some for
//! reads, which share each, one for reports, one for hints and one to listen: eleven, whatever the
//! number of clients.

mod connect;
mod errors;
mod hints;
mod migration;
mod rows;
mod sql;
mod tls;
mod url;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use tokio::sync::broadcast;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

pub use self::url::{PostgresUrl, UrlError};
use self::{
    connect::{Connection, Connector, Purpose},
    errors::{StatementError, read_error, write_error},
    rows::{FrameColumns, NameColumns, RowColumns, frames_of, known_name, session_row},
};
use super::{
    Base, BaseError, BaseFuture, BaseStatus, ContentRemoval, CreateOutcome, Durability, FrameQuery,
    Hash16, Heartbeat, KnownName, MigrationStatus, MigrationStep, NewRow, OtherNode, ReclaimStep,
    RowSelection, RowWrite, SessionRow, SlotChange, StoredFrame, WriteOutcome,
};
use crate::{
    env::{Clock, MasterKeys},
    event::{Lsn, Position, Range, Timestamp},
    log::StoreFile,
    store::{KeyReport, StoreError, StoreResult, TenantUsage, remote::store_error},
};

const LANES: usize = 2;
const WAITING: usize = 3;
const READERS: usize = 3;
/// Time limit of a commit, after which its outcome is unknown.
const COMMIT_MAX: Duration = Duration::from_secs(30);
/// Time limits of a read and of a report.
const READ_MAX: Duration = Duration::from_secs(30);
const BEAT_MAX: Duration = Duration::from_secs(5);
/// Commits that a report times.
const COMMITS_TIMED: usize = 7;
/// Tries to prove a commit whose wait for a standby was cancelled.
const PROOFS_MAX: usize = 10;
const PROOF_PAUSE: Duration = Duration::from_millis(500);

/// A PostgreSQL database, or a cluster of one primary and standbys.
pub(crate) struct PostgresBase {
    connector: Arc<Connector>,
    lanes: Vec<Connection>,
    waiting: Vec<Connection>,
    readers: Vec<Connection>,
    reports: Connection,
    next: AtomicUsize,
    hints: hints::Hints,
}

impl PostgresBase {
    /// Connects and checks the durability of commits; without a schema, makes one if `makes` is
    /// true, or returns `None`.
    ///
    /// # Errors
    /// Errors of the connection; [`BaseError::ReadOnly`] for a schema of a newer version, and for a
    /// server that may lose what it commits, unless the URL accepts that.
    pub(crate) async fn open(url: &PostgresUrl, makes: bool) -> Result<Option<Self>, BaseError> {
        let connector = Arc::new(Connector::new(url)?);
        if !connector.prepare_schema(makes).await? {
            return Ok(None);
        }
        let make = |count: usize, purpose: Purpose| {
            (0..count).map(|_| Connection::new(&connector, purpose)).collect::<Vec<_>>()
        };
        let base = Self {
            lanes: make(LANES, Purpose::Lane),
            waiting: make(WAITING, Purpose::Waiting),
            readers: make(READERS, Purpose::Read),
            reports: Connection::new(&connector, Purpose::Report),
            next: AtomicUsize::new(0),
            hints: hints::Hints::start(&connector),
            connector,
        };
        let durability = base.durability().await?;
        let accepted = url.accepted_durability();
        if durability < accepted {
            return Err(BaseError::ReadOnly(format!(
                "the database has durability {}: a crash of it may lose what was acknowledged; set \
                 fsync, full_page_writes and synchronous_commit on, or add durability={} to the URL",
                durability.as_str(),
                durability.as_str(),
            )));
        }
        Ok(Some(base))
    }

    /// Returns a connection of a kind, by turns.
    fn pick<'a>(&self, connections: &'a [Connection]) -> &'a Connection {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        connections.get(turn % connections.len()).expect("the remainder is an index")
    }

    /// Runs a statement that reads.
    async fn read(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, BaseError> {
        self.read_on(self.pick(&self.readers), sql, params).await
    }

    async fn read_on(
        &self,
        connection: &Connection,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, BaseError> {
        let client = connection.client().await.map_err(read_error)?;
        match tokio::time::timeout(READ_MAX, client.query(sql, params)).await {
            Ok(found) => found.map_err(read_error),
            Err(_) => {
                connection.give_up(&client, true);
                Err(BaseError::Unreachable("the database does not reply".to_owned()))
            }
        }
    }

    /// Runs a statement that writes, and proves its commit if the server warned of it.
    async fn write(
        &self,
        connection: &Connection,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, BaseError> {
        let client = connection.client().await.map_err(write_error)?;
        let before = client.warnings();
        let rows = match tokio::time::timeout(COMMIT_MAX, client.query(sql, params)).await {
            Ok(rows) => rows.map_err(write_error)?,
            Err(_) => {
                connection.give_up(&client, false);
                return Err(BaseError::Unsure("the database does not reply".to_owned()));
            }
        };
        if client.warnings() == before {
            return Ok(rows);
        }
        // "Committed locally": a later commit of the same server that waited for the standbys
        // proves this one, because they receive commits in order.
        for _ in 0..PROOFS_MAX {
            let before = client.warnings();
            match tokio::time::timeout(COMMIT_MAX, client.query(sql::PROVE, &[])).await {
                Ok(Ok(_)) if client.warnings() == before => return Ok(rows),
                Ok(Ok(_)) => tokio::time::sleep(PROOF_PAUSE).await,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        let reason = "the commit is on the primary, and no standby has confirmed it";
        Err(BaseError::Unsure(reason.to_owned()))
    }

    async fn commit_one(
        &self,
        connection: &Connection,
        write: &RowWrite,
    ) -> Result<WriteOutcome, BaseError> {
        let row = RowColumns::one(write);
        let frames = FrameColumns::new([write]);
        let names = NameColumns::new([write]);
        let touches: Vec<Uuid> = write.touches.iter().map(|uid| Uuid::from_bytes(*uid)).collect();
        let mut params = row.scalars();
        let is_plain = names.is_empty() && touches.is_empty();
        let sql = match frames.only().filter(|_| is_plain) {
            Some(frame) => {
                params.extend(frame);
                sql::COMMIT_FRAME
            }
            None => {
                params.extend(frames.of_one());
                params.extend(names.of_one());
                params.push(&touches);
                sql::COMMIT_ONE
            }
        };
        let found = self.write(connection, sql, &params).await?;
        // Whatever kept it from being done, the session is to be read again.
        Ok(if found.is_empty() { WriteOutcome::Moved } else { WriteOutcome::Done })
    }

    async fn commit_many(
        &self,
        connection: &Connection,
        writes: &[&RowWrite],
    ) -> Result<Vec<WriteOutcome>, BaseError> {
        let rows = RowColumns::new(writes.iter().copied());
        let frames = FrameColumns::new(writes.iter().copied());
        let names = NameColumns::new(writes.iter().copied());
        let mut params = rows.arrays();
        params.extend(frames.of_many());
        params.extend(names.of_many());
        let found = self.write(connection, sql::COMMIT_MANY, &params).await?;
        let outcome = |row: &tokio_postgres::Row| match row.get::<_, i32>(0) {
            0 => WriteOutcome::Done,
            1 => WriteOutcome::Moved,
            2 => WriteOutcome::Known,
            _ => WriteOutcome::Busy,
        };
        Ok(found.iter().map(outcome).collect())
    }

    /// Asks the server what the durability of a commit rests on.
    async fn durability(&self) -> Result<Durability, BaseError> {
        let found = self.read(sql::SETTINGS, &[]).await?;
        let row = found.first().ok_or_else(|| BaseError::Failed("no settings".to_owned()))?;
        Ok(durability_of(row))
    }
}

/// State of a database, for an operator.
#[derive(Clone, Debug)]
pub struct DatabaseReport {
    /// Product and version of the server.
    pub server: String,
    /// Durability of a commit.
    pub durability: Durability,
    /// Time of a commit: the median of some.
    pub commit: Duration,
    /// Microseconds by which its clock is ahead of this machine's.
    pub clock_offset: i64,
    /// Place of each running node, with its version and lifetimes.
    pub nodes: Vec<(String, String)>,
}

/// Checks that a database has a store; changes nothing.
///
/// # Errors
/// Errors of the connection; [`StoreError::ReadOnly`] without a schema and for one of a newer
/// version.
pub async fn check_has_store(url: &PostgresUrl) -> StoreResult<()> {
    find_store(url).await.map(drop)
}

async fn find_store(url: &PostgresUrl) -> StoreResult<Arc<Connector>> {
    let connector = Arc::new(Connector::new(url).map_err(store_error)?);
    if connector.prepare_schema(false).await.map_err(store_error)? {
        return Ok(connector);
    }
    let schema = &connector.schema;
    let reason = format!("it has no schema \"{schema}\" yet; `serve` makes it");
    Err(StoreError::ReadOnly { reason })
}

/// Examines a database; changes nothing.
///
/// # Errors
/// Errors of the connection; [`StoreError::ReadOnly`] without a schema and for one of a newer
/// version.
pub async fn examine(url: &PostgresUrl, clock: &dyn Clock) -> StoreResult<DatabaseReport> {
    let client = connect_to_store(url).await?;
    let query = async |sql| {
        let found = client.query(sql, &[]).await;
        found.map_err(|error| store_error(read_error(error)))
    };
    let mut commits = Vec::new();
    for _ in 0..COMMITS_TIMED {
        let began = clock.monotonic();
        query(sql::PROVE).await?;
        commits.push(clock.monotonic() - began);
    }
    commits.sort();
    let settings = query(sql::SETTINGS).await?;
    let nodes = query(sql::NODES).await?;
    let now = query(sql::NOW).await?;
    let row = |rows: &[tokio_postgres::Row]| {
        let missing = || store_error(BaseError::Failed("no reply".to_owned()));
        rows.first().cloned().ok_or_else(missing)
    };
    Ok(DatabaseReport {
        durability: durability_of(&row(&settings)?),
        server: row(&now)?.get(1),
        commit: commits.get(commits.len() / 2).copied().unwrap_or_default(),
        clock_offset: row(&now)?.get::<_, i64>(0) - clock.now().0,
        nodes: nodes.iter().map(|row| (row.get(0), row.get(1))).collect(),
    })
}

/// Returns the master keys that a store in a database needs and those given; `None` in plaintext.
/// Changes nothing.
///
/// # Errors
/// Those of [`examine`], and a damaged slot of the store.
pub async fn examine_keys(
    url: &PostgresUrl,
    given: Option<&MasterKeys>,
) -> StoreResult<Option<KeyReport>> {
    let client = connect_to_store(url).await?;
    let found = client.query(sql::SLOTS, &[&None::<Uuid>, &1_i64]).await;
    let found = found.map_err(|error| store_error(read_error(error)))?;
    let Some(row) = found.first() else { return Ok(None) };
    let store = StoreFile::decode(row.get("slot"));
    let damaged = |fault| store_error(BaseError::Failed(format!("the keys of the store: {fault}")));
    let store = store.map_err(damaged)?;
    Ok(store.keys.map(|keys| KeyReport::new(&store, &keys, given)))
}

/// Connects to a database with the schema of a store, without a node.
async fn connect_to_store(url: &PostgresUrl) -> StoreResult<Arc<connect::Prepared>> {
    let connector = find_store(url).await?;
    let connection = Connection::new(&connector, Purpose::Waiting);
    connection.client().await.map_err(|error| store_error(read_error(error)))
}

/// Returns the durability that the settings of a server give.
fn durability_of(row: &tokio_postgres::Row) -> Durability {
    let setting = |name: &str| row.get::<_, Option<String>>(name).unwrap_or_default();
    // Connections that commit set synchronous_commit on.
    if setting("fsync") != "on" || setting("pages") != "on" {
        return Durability::Weak;
    }
    match setting("standbys").trim().is_empty() {
        true => Durability::Single,
        false => Durability::Replicated,
    }
}

fn uuids(hashes: &[Hash16]) -> Vec<Uuid> {
    hashes.iter().map(|hash| Uuid::from_bytes(*hash)).collect()
}

impl Base for PostgresBase {
    fn commit(&self, writes: Arc<[RowWrite]>, waits: bool) -> BaseFuture<'_, Vec<WriteOutcome>> {
        async move {
            let lane = writes.first().map_or(0, |write| usize::from(write.after.name[15]) % LANES);
            let connection = match waits {
                true => self.pick(&self.waiting),
                false => self.lanes.get(lane).unwrap_or_else(|| self.pick(&self.lanes)),
            };
            debug_assert!(
                writes.len() == 1 || writes.iter().all(|write| write.touches.is_empty()),
                "a change that touches other sessions is committed alone"
            );
            let outcomes = match &*writes {
                [one] => self.commit_one(connection, one).await.map(|outcome| vec![outcome]),
                many => self.commit_many(connection, &many.iter().collect::<Vec<_>>()).await,
            };
            match outcomes {
                // Another node holds the rows for longer than a lane waits.
                Err(BaseError::Busy(_)) if !waits => Ok(vec![WriteOutcome::Busy; writes.len()]),
                outcomes => outcomes,
            }
        }
        .boxed()
    }

    fn create(&self, new: Arc<NewRow>) -> BaseFuture<'_, CreateOutcome> {
        async move {
            let write = RowWrite {
                revision: 1,
                after: new.row.clone(),
                changes_entry: true,
                frames: new.frames.clone(),
                names: new.names.clone(),
                absent: Vec::new(),
                touches: Vec::new(),
            };
            let row = RowColumns::one(&write);
            let frames = FrameColumns::new([&write]);
            let names = NameColumns::new([&write]);
            let [tenant, scope] = [new.row.tenant, new.row.scope].map(Uuid::from_bytes);
            let keys: Vec<Uuid> = new.key.map(Uuid::from_bytes).into_iter().collect();
            let created_at = new.row.created_at.0;
            let parent = new.parent.map(|(name, uid)| [name, uid].map(Uuid::from_bytes));
            let mut params = row.scalars();
            params.extend(frames.of_one());
            params.extend(names.of_new());
            let counted = new.counted.0;
            let slots = [&new.row.slot, &new.store_slot].map(|slot| slot.as_deref());
            params.extend([&tenant as &(dyn ToSql + Sync), &scope, &created_at, &keys, &counted]);
            params.extend(slots.iter().map(|slot| slot as &(dyn ToSql + Sync)));
            let connection = self.pick(&self.waiting);
            let created = match &parent {
                None => self.write(connection, sql::CREATE, &params).await,
                Some([name, uid]) => {
                    params.extend([name as &(dyn ToSql + Sync), uid]);
                    self.write(connection, sql::FORK, &params).await
                }
            };
            match created {
                Ok(rows) if rows.is_empty() => Ok(CreateOutcome::ParentMoved),
                Ok(_) => Ok(CreateOutcome::Done),
                Err(BaseError::Failed(reason)) if reason.starts_with(errors::UNIQUE) => {
                    Ok(CreateOutcome::Taken)
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    fn slots(&self, after: Option<Hash16>, limit: usize) -> BaseFuture<'_, Vec<(Hash16, Bytes)>> {
        async move {
            let (after, limit) = (after.map(Uuid::from_bytes), limit as i64);
            let found = self.read(sql::SLOTS, &[&after, &limit]).await?;
            let slot = |row: &tokio_postgres::Row| {
                (row.get::<_, Uuid>("session").into_bytes(), column_bytes(row, "slot"))
            };
            Ok(found.iter().map(slot).collect())
        }
        .boxed()
    }

    fn change_slots(&self, changes: Vec<SlotChange>) -> BaseFuture<'_, u64> {
        async move {
            let sessions: Vec<Hash16> = changes.iter().map(|one| one.session).collect();
            let before: Vec<_> = changes.iter().map(|one| one.before.as_deref()).collect();
            let after: Vec<&[u8]> = changes.iter().map(|one| &one.after[..]).collect();
            let connection = self.pick(&self.waiting);
            let params: [&(dyn ToSql + Sync); 3] = [&uuids(&sessions), &before, &after];
            let found = self.write(connection, sql::CHANGE_SLOTS, &params).await?;
            Ok(found.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
        }
        .boxed()
    }

    fn remove_content(&self, removal: Arc<ContentRemoval>) -> BaseFuture<'_, Option<u64>> {
        async move {
            let write = &removal.write;
            let row = RowColumns::one(write);
            let frames = FrameColumns::new([write]);
            let rewritten = &removal.rewritten;
            let firsts: Vec<i64> = rewritten.iter().map(|(first, ..)| first.0 as i64).collect();
            let numbers: Vec<i64> =
                rewritten.iter().map(|(_, number, _)| number.0 as i64).collect();
            let bytes: Vec<&[u8]> = rewritten.iter().map(|(.., bytes)| &bytes[..]).collect();
            let positions: Vec<i64> = removal.positions.iter().map(|at| at.0 as i64).collect();
            let mut params = row.scalars();
            params.extend(frames.of_one());
            params.extend([&firsts as &(dyn ToSql + Sync), &numbers, &bytes, &positions]);
            let connection = self.pick(&self.waiting);
            let found = self.write(connection, sql::REMOVE_CONTENT, &params).await?;
            Ok(found.first().and_then(|row| row.get::<_, Option<i64>>(0)).map(|n| n as u64))
        }
        .boxed()
    }

    fn rows(&self, query: RowSelection, limit: usize) -> BaseFuture<'_, Vec<SessionRow>> {
        async move {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let uuid = |hash: &Hash16| Uuid::from_bytes(*hash);
            let found = match &query {
                RowSelection::Names(names) => {
                    self.read(sql::ROWS_BY_NAME, &[&uuids(names), &limit]).await
                }
                RowSelection::Uids(uids) => {
                    self.read(sql::ROWS_BY_UID, &[&uuids(uids), &limit]).await
                }
                RowSelection::Children { parent, after } => {
                    let after = after.as_ref().map(uuid);
                    self.read(sql::ROWS_BY_PARENT, &[&uuid(parent), &after, &limit]).await
                }
                RowSelection::Page { scope, workspace, after, ascending } => {
                    let workspace = workspace.as_ref().map(uuid);
                    let edge = if *ascending { i64::MIN } else { i64::MAX };
                    let (time, name) = after.unwrap_or((Timestamp(edge), [0; 16]));
                    let sql = if *ascending { sql::PAGE_UP } else { sql::PAGE_DOWN };
                    let place = (time.0, uuid(&name));
                    self.read(sql, &[&uuid(scope), &workspace, &place.0, &place.1, &limit]).await
                }
                RowSelection::Scope { scope, after } => {
                    let after = after.as_ref().map(uuid);
                    self.read(sql::ROWS_OF_SCOPE, &[&uuid(scope), &after, &limit]).await
                }
                RowSelection::Unfinished { scope, workspace } => {
                    let workspace = workspace.as_ref().map(uuid);
                    self.read(sql::UNFINISHED, &[&uuid(scope), &workspace, &limit]).await
                }
                RowSelection::Moved { seconds, after } => {
                    let seconds = i64::try_from(*seconds).unwrap_or(i64::MAX).min(i64::MAX / 2);
                    let slots = seconds / 10 + 1;
                    let (slot, name) = after.unwrap_or((i32::MIN, [0; 16]));
                    self.read(sql::MOVED, &[&slots, &slot, &uuid(&name), &limit]).await
                }
                RowSelection::All { after } => {
                    let after = after.as_ref().map(uuid);
                    self.read(sql::ALL_ROWS, &[&after, &limit]).await
                }
            };
            found?.iter().map(session_row).collect()
        }
        .boxed()
    }

    fn frames(
        &self,
        uid: Hash16,
        query: FrameQuery,
    ) -> BaseFuture<'_, Option<(SessionRow, Vec<StoredFrame>)>> {
        async move {
            let uid = Uuid::from_bytes(uid);
            let count = |frames: usize| i64::try_from(frames).unwrap_or(i64::MAX);
            let ends =
                |range: Range| [range.from, range.to].map(|at| at.0.min(i64::MAX as u64) as i64);
            let found = match query {
                FrameQuery::Forward { range, frames, bytes } => {
                    let ([from, to], frames, bytes) = (ends(range), count(frames), count(bytes));
                    let params: [&(dyn ToSql + Sync); 5] = [&uid, &from, &to, &frames, &bytes];
                    self.read(sql::FRAMES_FORWARD, &params).await
                }
                FrameQuery::Backward { range, frames, bytes } => {
                    let ([from, to], frames, bytes) = (ends(range), count(frames), count(bytes));
                    let params: [&(dyn ToSql + Sync); 5] = [&uid, &from, &to, &frames, &bytes];
                    self.read(sql::FRAMES_BACKWARD, &params).await
                }
                FrameQuery::Noted { from, frames, bytes } => {
                    let (from, frames, bytes) = (from.0 as i64, count(frames), count(bytes));
                    self.read(sql::FRAMES_NOTED, &[&uid, &from, &frames, &bytes]).await
                }
                FrameQuery::All { from, first, frames, bytes } => {
                    let (from, first) = (from.0 as i64, first.0 as i64);
                    let (frames, bytes) = (count(frames), count(bytes));
                    let params: [&(dyn ToSql + Sync); 5] = [&uid, &from, &frames, &bytes, &first];
                    self.read(sql::FRAMES_ALL, &params).await
                }
            };
            let found = found?;
            let Some(row) = found.first() else { return Ok(None) };
            Ok(Some((session_row(row)?, frames_of(row)?)))
        }
        .boxed()
    }

    fn known(&self, names: Vec<(Hash16, Hash16)>) -> BaseFuture<'_, Vec<Option<KnownName>>> {
        async move {
            let (sessions, hashes): (Vec<Hash16>, Vec<Hash16>) = names.iter().copied().unzip();
            let found = self.read(sql::KNOWN, &[&uuids(&sessions), &uuids(&hashes)]).await?;
            let mut known = vec![None; names.len()];
            for row in found {
                let at = usize::try_from(row.get::<_, i64>(0) - 1).unwrap_or(usize::MAX);
                if let Some(known) = known.get_mut(at) {
                    *known = Some(known_name(&row));
                }
            }
            Ok(known)
        }
        .boxed()
    }

    fn frame_at(
        &self,
        uid: Hash16,
        position: Position,
    ) -> BaseFuture<'_, Option<(Range, Timestamp)>> {
        async move {
            let at = position.0.min(i64::MAX as u64) as i64;
            let found = self.read(sql::FRAME_AT, &[&Uuid::from_bytes(uid), &at]).await?;
            Ok(found.first().map(|row| {
                let first = Position(row.get::<_, i64>(0) as u64);
                let events = row.get::<_, i32>(1) as u64;
                (Range::new(first, first.plus(events)), Timestamp(row.get(2)))
            }))
        }
        .boxed()
    }

    fn attempt(&self, uid: Hash16, first: Position, number: Lsn) -> BaseFuture<'_, Option<Hash16>> {
        async move {
            let (first, number) = (first.0 as i64, number.0 as i64);
            let uid = Uuid::from_bytes(uid);
            // By a connection that commits: it is to the server that takes writes.
            let connection = self.pick(&self.waiting);
            let found = self.read_on(connection, sql::ATTEMPT, &[&uid, &first, &number]).await?;
            if !found.is_empty() {
                // It may be visible before a standby has it.
                self.write(connection, sql::PROVE, &[]).await?;
            }
            Ok(found.first().map(|row| row.get::<_, Uuid>(0).into_bytes()))
        }
        .boxed()
    }

    fn prove(&self) -> BaseFuture<'_, ()> {
        async move { self.write(self.pick(&self.waiting), sql::PROVE, &[]).await.map(drop) }.boxed()
    }

    fn usage(&self, tenant: Hash16, but: Hash16) -> BaseFuture<'_, TenantUsage> {
        async move {
            let [tenant, but] = [tenant, but].map(Uuid::from_bytes);
            let found = self.read(sql::USAGE, &[&tenant, &but]).await?;
            let row = found.first().ok_or_else(|| BaseError::Failed("no usage".to_owned()))?;
            let count = |at: usize| row.get::<_, i64>(at) as u64;
            Ok(TenantUsage { sessions: count(0), bytes: count(1) })
        }
        .boxed()
    }

    fn reclaim(&self, step: ReclaimStep) -> BaseFuture<'_, u64> {
        async move {
            let connection = self.pick(&self.waiting);
            let found = match step {
                ReclaimStep::AwaitForks { name, uid } => {
                    let [name, uid] = [name, uid].map(Uuid::from_bytes);
                    self.write(connection, sql::AWAIT_FORKS, &[&name, &uid]).await
                }
                ReclaimStep::Mark { name, uid, revision } => {
                    let [name, uid] = [name, uid].map(Uuid::from_bytes);
                    self.write(connection, sql::MARK, &[&name, &uid, &(revision as i64)]).await
                }
                ReclaimStep::Delete { uid, rows } => {
                    let (uid, rows) = (Uuid::from_bytes(uid), rows as i64);
                    self.write(connection, sql::DELETE, &[&uid, &rows]).await
                }
                ReclaimStep::Free { name, uid } => {
                    let [name, uid] = [name, uid].map(Uuid::from_bytes);
                    self.write(connection, sql::FREE, &[&name, &uid]).await
                }
                ReclaimStep::Key { scope, hash, at } => {
                    let [scope, hash] = [scope, hash].map(Uuid::from_bytes);
                    self.write(connection, sql::FORGET_KEY, &[&scope, &hash, &at.0]).await
                }
            };
            let found = found?;
            Ok(found.first().map_or(0, |row| row.get::<_, i64>(0) as u64))
        }
        .boxed()
    }

    fn beat(&self, beat: Heartbeat) -> BaseFuture<'_, BaseStatus> {
        async move {
            let confirmed = i64::try_from(beat.confirmed).unwrap_or(i64::MAX);
            let node = Uuid::from_bytes(beat.node);
            let params: [&(dyn ToSql + Sync); 6] =
                [&node, &beat.counted.0, &confirmed, &beat.about, &beat.leaves, &beat.place];
            let client = self.reports.client().await.map_err(read_error)?;
            let report = async {
                let found = client.query(sql::BEAT, &params).await?;
                let others = client.query(sql::OTHERS, &[&node]).await?;
                Ok::<_, StatementError>((found, others))
            };
            let Ok(reply) = tokio::time::timeout(BEAT_MAX, report).await else {
                self.reports.give_up(&client, true);
                return Err(BaseError::Unreachable("the database does not reply".to_owned()));
            };
            let (found, others) = reply.map_err(read_error)?;
            let row = found.first().ok_or_else(|| {
                BaseError::Failed("the schema has no row of its store".to_owned())
            })?;
            let confirmed = others.iter().map(|row| row.get::<_, i64>(0) as u64).min();
            Ok(BaseStatus {
                counted: Timestamp(row.get("counted")),
                removals: row.get::<_, i64>("removals") as u64,
                confirmed_by_others: confirmed.unwrap_or(u64::MAX),
                now: Timestamp(row.get("now")),
                others: others
                    .iter()
                    .map(|row| OtherNode {
                        about: row.get(1),
                        place: row.get(2),
                        silent: Duration::from_micros(row.get::<_, i64>(3).max(0).unsigned_abs()),
                    })
                    .collect(),
                durability: durability_of(row),
                closed: migration::closing_reason(row.get("is_target"), row.get("moved_to")),
            })
        }
        .boxed()
    }

    fn migration_status(&self) -> BaseFuture<'_, MigrationStatus> {
        self.read_migration_status().boxed()
    }

    fn migrate(&self, step: MigrationStep) -> BaseFuture<'_, bool> {
        self.run_migration_step(step).boxed()
    }

    fn hint(&self, moved: Vec<Hash16>) {
        self.hints.send(moved);
    }

    fn hints(&self) -> broadcast::Receiver<Hash16> {
        self.hints.subscribe()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async move {
            self.hints.stop();
            self.connector.close();
            let all = self.lanes.iter().chain(&self.waiting).chain(&self.readers);
            all.chain([&self.reports]).for_each(Connection::close);
        }
        .boxed()
    }
}

/// Bytes of a column.
fn column_bytes(row: &tokio_postgres::Row, name: &str) -> Bytes {
    Bytes::copy_from_slice(row.get::<_, &[u8]>(name))
}
