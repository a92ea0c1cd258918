//! A base as the source and as the target of a migration. It must not decide what is copied, nor
//! read a frame that is encrypted.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::FutureExt;

use super::{
    keys::{NodeKeys, new_store_slot, read_store},
    names::minted_millis,
    plan::{NO_SALT, name_of_batch},
    read::decode_frame,
    row::{Head, new_row, session_name, uid_of},
    sealed::SealedBase,
    store_error,
};
use crate::{
    env::{Clock, Entropy, MasterKeys},
    event::{EventId, Lsn, Position, SessionKey, Timestamp, limits},
    log::{Control, FrameHeader, FrameKind, Record, keyring::OwnKey, record, segment::name_hash},
    store::{
        StoreError, StoreFuture, StoreResult,
        base::{
            Base, CopiedPart, FrameQuery, KnownName, MigrationStatus, MigrationStep, NewFrame,
            RowSelection, SessionRow,
        },
        migrate::{
            MigratedSession, MigrationSource, MigrationTarget, ReadPlace, SessionPart, TargetState,
            records_of,
        },
        rules::{Draw, FrameEffect, names::key_hash},
    },
};

/// Rows read with one statement.
const ROWS_MAX: usize = 500;
/// Frames, and their bytes, read with one statement.
const FRAMES_MAX: usize = 1_024;
const READ_BYTES_MAX: usize = 8 << 20;
/// Bytes of frames, and sessions, written with one statement.
const WRITE_BYTES: usize = 4 << 20;
const WRITE_SESSIONS: usize = 500;

/// Clock, randomness and master keys that a base is opened with.
#[derive(Clone)]
pub(crate) struct BaseAccess {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) keys: Option<Arc<MasterKeys>>,
}

/// A base whose content can be read and written, encrypted or not.
struct OpenBase {
    base: Arc<dyn Base>,
    keys: Arc<NodeKeys>,
}

impl OpenBase {
    fn new(base: Arc<dyn Base>, keys: NodeKeys) -> Self {
        let keys = Arc::new(keys);
        Self { base: SealedBase::wrap(base, &keys), keys }
    }
}

/// A base that is read for a migration.
pub(crate) struct BaseSource {
    opened: OpenBase,
    status: MigrationStatus,
}

impl BaseSource {
    async fn open(base: Arc<dyn Base>, access: &BaseAccess) -> StoreResult<Self> {
        let status = base.migration_status().await.map_err(store_error)?;
        let (entropy, now) = (Arc::clone(&access.entropy), access.clock.now());
        let keys = NodeKeys::open_existing(&*base, entropy, now, access.keys.clone()).await?;
        Ok(Self { opened: OpenBase::new(base, keys.ok_or_else(no_store)?), status })
    }

    /// Connects to a PostgreSQL database that has a store.
    ///
    /// # Errors
    /// Errors of the connection and of the keys; [`StoreError::ReadOnly`] without a schema, and
    /// where a store is being copied into it.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_postgres(
        url: &super::PostgresUrl,
        access: &BaseAccess,
    ) -> StoreResult<Self> {
        let source = Self::open(connect(url, false).await?.ok_or_else(no_store)?, access).await?;
        if source.status.is_target {
            let reason = "a store is being copied into it".to_owned();
            return Err(StoreError::ReadOnly { reason });
        }
        Ok(source)
    }
}

fn no_store() -> StoreError {
    StoreError::ReadOnly { reason: "it has no store".to_owned() }
}

/// Connects to a database; without a schema, makes one if `makes` is true, or returns `None`.
#[cfg(feature = "postgres")]
async fn connect(url: &super::PostgresUrl, makes: bool) -> StoreResult<Option<Arc<dyn Base>>> {
    let base = crate::store::base::postgres::PostgresBase::open(url, makes).await;
    Ok(base.map_err(store_error)?.map(|base| Arc::new(base) as Arc<dyn Base>))
}

impl MigrationSource for BaseSource {
    fn store_id(&self) -> [u8; 16] {
        self.opened.keys.store
    }

    fn own_key(&self) -> Option<&OwnKey> {
        self.opened.keys.own_key()
    }

    fn counted_time(&self) -> Timestamp {
        self.status.counted
    }

    fn moved_to(&self) -> Option<String> {
        self.status.moved_to.clone()
    }

    fn sessions<'a>(
        &'a self,
        after: Option<&'a SessionKey>,
    ) -> StoreFuture<'a, Vec<MigratedSession>> {
        async move {
            let names = &self.opened.keys.names;
            let query = RowSelection::All { after: after.map(|key| session_name(names, key)) };
            let rows = self.opened.base.rows(query, ROWS_MAX).await.map_err(store_error)?;
            let read = |row: SessionRow| {
                let head = Head::from_row(names, row, 0)?;
                let damaged = || io::Error::other("the name of a session is damaged");
                MigratedSession::new(head.entry).ok_or_else(|| StoreError::Io {
                    doing: "reading a row of the base",
                    source: damaged(),
                })
            };
            rows.into_iter().map(read).collect()
        }
        .boxed()
    }

    fn read<'a>(
        &'a self,
        session: &'a MigratedSession,
        place: &'a mut ReadPlace,
    ) -> StoreFuture<'a, Option<SessionPart>> {
        async move {
            let query = FrameQuery::All {
                from: place.next.max(Lsn(1)),
                first: place.position,
                frames: FRAMES_MAX,
                bytes: READ_BYTES_MAX,
            };
            let found = self.opened.base.frames(uid_of(session.hash), query).await;
            let found = found.map_err(store_error)?;
            let frames = found.map(|(_, frames)| frames).unwrap_or_default();
            let Some(last) = frames.last() else { return Ok(None) };
            (place.next, place.position) = (Lsn(last.number.0 + 1), last.range.to);
            let mut part = SessionPart::default();
            for stored in &frames {
                match decode_frame(session.hash, stored) {
                    Ok(frame) => part.frames.push(frame),
                    Err(reason) => part.faults.push(reason),
                }
            }
            Ok(Some(part))
        }
        .boxed()
    }

    fn count_users(&self) -> StoreFuture<'_, u64> {
        async move {
            let status = self.opened.base.migration_status().await.map_err(store_error)?;
            Ok(status.nodes)
        }
        .boxed()
    }

    fn mark_moved<'a>(&'a self, place: &'a str) -> StoreFuture<'a, ()> {
        let step = MigrationStep::MarkMoved(place.to_owned());
        async move { run_step(&*self.opened.base, step).await }.boxed()
    }
}

/// Runs a step that the state of the base must allow.
async fn run_step(base: &dyn Base, step: MigrationStep) -> StoreResult<()> {
    if base.migrate(step).await.map_err(store_error)? {
        return Ok(());
    }
    let reason = "another process uses or changed it meanwhile".to_owned();
    Err(StoreError::ReadOnly { reason })
}

/// A base that a store is copied to.
pub(crate) struct BaseTarget {
    /// `None` for a database without a schema, where nothing is to be made.
    base: Option<Arc<dyn Base>>,
    /// The same, once it is a target.
    opened: Option<OpenBase>,
    access: BaseAccess,
    /// Count of time of the source, and wall time then.
    counted: Timestamp,
    began: Timestamp,
    /// Parts to be written, and their bytes.
    parts: Vec<CopiedPart>,
    bytes: usize,
}

impl BaseTarget {
    /// Connects to a PostgreSQL database; makes its schema unless `is_dry` is true.
    ///
    /// # Errors
    /// Errors of the connection.
    #[cfg(feature = "postgres")]
    pub(crate) async fn open_postgres(
        url: &super::PostgresUrl,
        access: BaseAccess,
        is_dry: bool,
    ) -> StoreResult<Self> {
        let (base, opened) = (connect(url, !is_dry).await?, None);
        let (counted, began) = (Timestamp(0), access.clock.now());
        Ok(Self { base, opened, access, counted, began, parts: Vec::new(), bytes: 0 })
    }

    fn base(&self) -> StoreResult<&Arc<dyn Base>> {
        let reason = "it has no schema".to_owned();
        self.base.as_ref().ok_or(StoreError::ReadOnly { reason })
    }

    fn opened(&self) -> StoreResult<&OpenBase> {
        let reason = "no migration was begun".to_owned();
        self.opened.as_ref().ok_or(StoreError::ReadOnly { reason })
    }

    async fn run_step(&self, step: MigrationStep) -> StoreResult<()> {
        run_step(&*self.opened()?.base, step).await
    }

    /// Returns the count of time at which a record was written; `None` if names of then have
    /// expired.
    fn live_count(&self, at: Timestamp) -> Option<Timestamp> {
        let age = self.began.0.saturating_sub(at.0).max(0);
        (age < limits::BATCH_KEY_MICROS).then(|| self.counted.plus_micros(-age))
    }

    /// Adds a part, and writes all once there are enough.
    async fn push(&mut self, part: CopiedPart) -> StoreResult<()> {
        self.bytes += part.frames.iter().map(|frame| frame.bytes.len()).sum::<usize>();
        self.parts.push(part);
        if self.bytes >= WRITE_BYTES || self.parts.len() >= WRITE_SESSIONS {
            self.write_parts().await?;
        }
        Ok(())
    }

    async fn write_parts(&mut self) -> StoreResult<()> {
        self.bytes = 0;
        let parts = std::mem::take(&mut self.parts);
        if parts.is_empty() {
            return Ok(());
        }
        self.run_step(MigrationStep::Copy(parts)).await
    }

    /// Returns the names that a frame gives.
    fn names_of(&self, header: &FrameHeader, records: &[(Lsn, Record)]) -> Vec<NamedHash> {
        let (mut names, mut position) = (Vec::new(), header.first_position);
        for (_, record) in records {
            if record.is_event() {
                let at = record.processed_at();
                let millis = EventId::new(record.id()).ok().and_then(|id| minted_millis(&id));
                if millis != Some(at.0.div_euclid(1_000)) {
                    let known = KnownName { position, events: 0, digest: None, at: self.counted };
                    names.push((name_hash(record.id()), known));
                }
                position = position.plus(1);
            } else if let Some(Control::Batch(batch)) = record.to_control()
                && let Some(at) = self.live_count(record.processed_at())
            {
                names.push((key_hash(&batch.key), name_of_batch(&batch, at)));
            }
        }
        names
    }
}

/// Hash of a name, and what it names.
type NamedHash = ([u8; 16], KnownName);

impl MigrationTarget for BaseTarget {
    fn state(&mut self) -> StoreFuture<'_, TargetState> {
        async move {
            let Some(base) = &self.base else { return Ok(TargetState::Vacant) };
            let status = base.migration_status().await.map_err(store_error)?;
            let store = read_store(&**base).await?.map(|store| store.id).unwrap_or_default();
            let refuse = |reason| Err(StoreError::ReadOnly { reason });
            match status {
                MigrationStatus { moved_to: Some(place), .. } => {
                    refuse(format!("its own store was moved to {place}"))
                }
                _ if status.has_sessions && !status.is_target => Ok(TargetState::Complete(store)),
                _ if status.nodes > 0 => refuse(format!(
                    "{} node(s) reported within the last 10 seconds: stop them",
                    status.nodes
                )),
                _ if status.is_target => Ok(TargetState::Begun(store)),
                _ => Ok(TargetState::Vacant),
            }
        }
        .boxed()
    }

    fn begin<'a>(&'a mut self, source: &'a dyn MigrationSource) -> StoreFuture<'a, ()> {
        async move {
            let (base, entropy) = (Arc::clone(self.base()?), Arc::clone(&self.access.entropy));
            let (now, given) = (self.access.clock.now(), self.access.keys.clone());
            (self.counted, self.began) = (source.counted_time(), now);
            if !base.migration_status().await.map_err(store_error)?.is_target {
                let store = (source.store_id(), source.own_key());
                let slot = new_store_slot(&*entropy, now, store, given.as_deref());
                run_step(&*base, MigrationStep::Begin(slot)).await?;
            }
            let keys = NodeKeys::open(&*base, entropy, now, given).await?;
            self.opened = Some(OpenBase::new(base, keys));
            Ok(())
        }
        .boxed()
    }

    fn reader(&mut self) -> StoreFuture<'_, Box<dyn MigrationSource>> {
        async move {
            let source = BaseSource::open(Arc::clone(self.base()?), &self.access).await?;
            Ok(Box::new(source) as Box<dyn MigrationSource>)
        }
        .boxed()
    }

    fn remove<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()> {
        async move {
            let names = &self.opened()?.keys.names;
            let (name, uid) = (session_name(names, &session.key), uid_of(session.hash));
            self.run_step(MigrationStep::Remove { name, uid }).await
        }
        .boxed()
    }

    fn write<'a>(
        &'a mut self,
        session: &'a MigratedSession,
        part: SessionPart,
    ) -> StoreFuture<'a, ()> {
        async move {
            let keyed = &self.opened()?.keys.names;
            let row = new_row(keyed, &session.key, session.hash, &session.entry);
            let (mut frames, mut names) = (Vec::new(), Vec::new());
            let mut hidden = part.batches;
            for frame in part.frames {
                let (records, more) = records_of(&frame, &session.entry);
                hidden.extend(more);
                names.extend(self.names_of(&frame.header, &records));
                let attempt = || self.access.entropy.draw_salt();
                frames.extend(request_frames(&frame.header, &records, &attempt));
            }
            for (at, batch) in hidden {
                let at = self.live_count(at);
                let name = at.map(|at| name_of_batch(&batch, at));
                let without_digest = name.map(|name| KnownName { digest: None, ..name });
                names.extend(without_digest.map(|name| (key_hash(&batch.key), name)));
            }
            self.push(CopiedPart { row, frames, names, key: None, is_last: false }).await
        }
        .boxed()
    }

    fn end<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()> {
        async move {
            let keyed = &self.opened()?.keys.names;
            let row = new_row(keyed, &session.key, session.hash, &session.entry);
            let at = self.live_count(Timestamp(session.entry.created_at));
            let key = session.entry.create_key.as_ref().zip(at).map(|(key, at)| {
                let digest = Some(Bytes::copy_from_slice(&row.uid));
                (key_hash(key), KnownName { position: Position::ZERO, events: 0, digest, at })
            });
            let (frames, names) = (Vec::new(), Vec::new());
            self.push(CopiedPart { row, frames, names, key, is_last: true }).await
        }
        .boxed()
    }

    fn flush(&mut self) -> StoreFuture<'_, ()> {
        self.write_parts().boxed()
    }

    fn finish(&mut self, counted: Timestamp) -> StoreFuture<'_, ()> {
        async move { self.run_step(MigrationStep::Finish { counted }).await }.boxed()
    }
}

/// Returns records as frames of requests: consecutive numbers, and one time.
fn request_frames(
    header: &FrameHeader,
    records: &[(Lsn, Record)],
    attempt: &dyn Fn() -> [u8; 16],
) -> Vec<NewFrame> {
    let mut header = *header;
    let (mut frames, mut rest) = (Vec::new(), records);
    while let Some((first, record)) = rest.first() {
        let (mut payload, mut count) = (Vec::new(), 0);
        for (number, next) in rest {
            let follows =
                number.0 == first.0 + count as u64 && next.processed_at() == record.processed_at();
            if !follows || payload.len() >= limits::BATCH_BYTES_MAX / 2 {
                break;
            }
            record::encode(next, &mut payload);
            count += 1;
        }
        let (taken, behind) = rest.split_at(count);
        rest = behind;
        header = FrameHeader {
            kind: FrameKind::Request,
            length: u32::try_from(payload.len()).expect("a request is bounded"),
            compressed: false,
            count: count as u32,
            events: taken.iter().filter(|(_, record)| record.is_event()).count() as u32,
            first_lsn: *first,
            synced_lsn: Lsn(0),
            copy_lsn: Lsn(0),
            encrypted: None,
            ..header
        };
        let mut bytes = Vec::new();
        header.write(NO_SALT, &payload, &mut bytes);
        let effect = FrameEffect::from_records(&header, taken);
        frames.push(NewFrame {
            first: header.first_position,
            number: *first,
            events: header.events,
            at: effect.at,
            noted: effect.controls.iter().any(|(_, one)| matches!(one, Control::Note(_))),
            attempt: attempt(),
            bytes: bytes.into(),
        });
        header.first_position = effect.tail;
        (header.chain, header.control_chain) = (effect.chain, effect.control_chain);
    }
    frames
}
