//! Rows and frames as columns of statements, and back. It must not look into a frame or an entry.

use tokio_postgres::{Row, types::ToSql};
use uuid::Uuid;

use super::{
    super::{BaseError, KnownName, NewFrame, RowStage, RowWrite, SessionRow, StoredFrame},
    column_bytes,
    connect::FORMAT,
};
use crate::{
    event::{Lsn, Position, Range, Timestamp},
    log::ChainValue,
};

/// Parameters of a statement, borrowed.
pub(super) type SqlParams<'a> = Vec<&'a (dyn ToSql + Sync)>;

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The columns of changed rows, in the order of the statements.
pub(super) struct RowColumns<'a> {
    names: Vec<Uuid>,
    uids: Vec<Uuid>,
    revisions: Vec<i64>,
    tails: Vec<i64>,
    nexts: Vec<i64>,
    updated: Vec<i64>,
    used: Vec<i64>,
    bytes: Vec<i64>,
    stages: Vec<i16>,
    unfinished: Vec<bool>,
    chains: Vec<&'a [u8]>,
    control_chains: Vec<&'a [u8]>,
    works: Vec<&'a [u8]>,
    entries: Vec<&'a [u8]>,
    workspaces: Vec<Option<Uuid>>,
    enters: Vec<bool>,
}

impl<'a> RowColumns<'a> {
    pub(super) fn new(writes: impl Iterator<Item = &'a RowWrite> + Clone) -> Self {
        let rows = || writes.clone().map(|write| &write.after);
        Self {
            names: rows().map(|row| Uuid::from_bytes(row.name)).collect(),
            uids: rows().map(|row| Uuid::from_bytes(row.uid)).collect(),
            revisions: writes.clone().map(|write| signed(write.revision)).collect(),
            tails: rows().map(|row| signed(row.tail.0)).collect(),
            nexts: rows().map(|row| signed(row.next.0)).collect(),
            updated: rows().map(|row| row.updated_at.0).collect(),
            used: rows().map(|row| row.used_at.0).collect(),
            bytes: rows().map(|row| signed(row.bytes)).collect(),
            stages: rows().map(|row| row.stage as i16).collect(),
            unfinished: rows().map(|row| row.unfinished).collect(),
            chains: rows().map(|row| &row.chain.0[..]).collect(),
            control_chains: rows().map(|row| &row.control_chain.0[..]).collect(),
            works: rows().map(|row| &row.work[..]).collect(),
            // An entry that stays is not sent.
            entries: writes
                .clone()
                .map(|write| if write.changes_entry { &write.after.entry[..] } else { &[] })
                .collect(),
            workspaces: rows().map(|row| row.workspace.map(Uuid::from_bytes)).collect(),
            enters: writes.map(|write| write.changes_entry).collect(),
        }
    }

    /// Returns the columns of one row.
    pub(super) fn one(write: &'a RowWrite) -> Self {
        Self::new(std::iter::once(write))
    }

    /// Returns the parameters of a statement about many rows.
    pub(super) fn arrays(&self) -> SqlParams<'_> {
        vec![
            &self.names,
            &self.uids,
            &self.revisions,
            &self.tails,
            &self.nexts,
            &self.updated,
            &self.used,
            &self.bytes,
            &self.stages,
            &self.unfinished,
            &self.chains,
            &self.control_chains,
            &self.works,
            &self.entries,
            &self.workspaces,
            &self.enters,
            &FORMAT,
        ]
    }

    /// Returns the parameters of a statement about one row.
    pub(super) fn scalars(&self) -> SqlParams<'_> {
        let columns: [Option<&(dyn ToSql + Sync)>; 16] = [
            first(&self.names),
            first(&self.uids),
            first(&self.revisions),
            first(&self.tails),
            first(&self.nexts),
            first(&self.updated),
            first(&self.used),
            first(&self.bytes),
            first(&self.stages),
            first(&self.unfinished),
            first(&self.chains),
            first(&self.control_chains),
            first(&self.works),
            first(&self.entries),
            first(&self.workspaces),
            first(&self.enters),
        ];
        columns.into_iter().flatten().chain([&FORMAT as &(dyn ToSql + Sync)]).collect()
    }
}

fn first<T: ToSql + Sync>(column: &[T]) -> Option<&(dyn ToSql + Sync)> {
    column.first().map(|value| value as &(dyn ToSql + Sync))
}

/// The columns of new frames.
pub(super) struct FrameColumns<'a> {
    sessions: Vec<Uuid>,
    firsts: Vec<i64>,
    numbers: Vec<i64>,
    events: Vec<i32>,
    times: Vec<i64>,
    noted: Vec<bool>,
    attempts: Vec<Uuid>,
    frames: Vec<&'a [u8]>,
}

impl<'a> FrameColumns<'a> {
    pub(super) fn new(writes: impl IntoIterator<Item = &'a RowWrite>) -> Self {
        let frames = writes
            .into_iter()
            .flat_map(|write| write.frames.iter().map(move |frame| (write.after.uid, frame)));
        let all: Vec<(_, &NewFrame)> = frames.collect();
        let frames = || all.iter().map(|(_, frame)| *frame);
        Self {
            sessions: all.iter().map(|(uid, _)| Uuid::from_bytes(*uid)).collect(),
            firsts: frames().map(|frame| signed(frame.first.0)).collect(),
            numbers: frames().map(|frame| signed(frame.number.0)).collect(),
            events: frames().map(|frame| i32::try_from(frame.events).unwrap_or(i32::MAX)).collect(),
            times: frames().map(|frame| frame.at.0).collect(),
            noted: frames().map(|frame| frame.noted).collect(),
            attempts: frames().map(|frame| Uuid::from_bytes(frame.attempt)).collect(),
            frames: frames().map(|frame| &frame.bytes[..]).collect(),
        }
    }

    /// Returns the parameters of a statement about one session.
    pub(super) fn of_one(&self) -> SqlParams<'_> {
        vec![
            &self.firsts,
            &self.numbers,
            &self.events,
            &self.times,
            &self.noted,
            &self.attempts,
            &self.frames,
        ]
    }

    /// Returns the parameters of the only frame.
    pub(super) fn only(&self) -> Option<[&(dyn ToSql + Sync); 7]> {
        let [first] = &*self.firsts else { return None };
        Some([
            first,
            self.numbers.first()?,
            self.events.first()?,
            self.times.first()?,
            self.noted.first()?,
            self.attempts.first()?,
            self.frames.first()?,
        ])
    }

    /// Returns the parameters of a statement about many sessions.
    pub(super) fn of_many(&self) -> SqlParams<'_> {
        let mut params: SqlParams<'_> = vec![&self.sessions];
        params.extend(self.of_one());
        params
    }
}

/// The columns of new names, and of names that must not be there.
pub(super) struct NameColumns<'a> {
    sessions: Vec<Uuid>,
    hashes: Vec<Uuid>,
    positions: Vec<i64>,
    events: Vec<i32>,
    digests: Vec<Option<&'a [u8]>>,
    times: Vec<i64>,
    absent_owners: Vec<Uuid>,
    absent_sessions: Vec<Uuid>,
    absent_hashes: Vec<Uuid>,
    absent_below: Vec<i64>,
    absent_live: Vec<i64>,
}

impl<'a> NameColumns<'a> {
    pub(super) fn new(writes: impl IntoIterator<Item = &'a RowWrite> + Clone) -> Self {
        let names = || {
            let writes = writes.clone().into_iter();
            writes.flat_map(|write| write.names.iter().map(move |name| (write.after.uid, name)))
        };
        let absent = || {
            let writes = writes.clone().into_iter();
            writes.flat_map(|write| write.absent.iter().map(move |name| (write.after.uid, name)))
        };
        let known = || names().map(|(_, (_, name))| name);
        Self {
            sessions: names().map(|(uid, _)| Uuid::from_bytes(uid)).collect(),
            hashes: names().map(|(_, (hash, _))| Uuid::from_bytes(*hash)).collect(),
            positions: known().map(|name| signed(name.position.0)).collect(),
            events: known().map(|name| i32::try_from(name.events).unwrap_or(i32::MAX)).collect(),
            digests: known().map(|name| name.digest.as_deref()).collect(),
            times: known().map(|name| name.at.0).collect(),
            absent_owners: absent().map(|(uid, _)| Uuid::from_bytes(uid)).collect(),
            absent_sessions: absent().map(|(_, one)| Uuid::from_bytes(one.session)).collect(),
            absent_hashes: absent().map(|(_, one)| Uuid::from_bytes(one.hash)).collect(),
            absent_below: absent().map(|(_, one)| signed(one.below.0)).collect(),
            absent_live: absent().map(|(_, one)| one.live_from.0).collect(),
        }
    }

    /// Returns the parameters of a new session, all of whose names are new.
    pub(super) fn of_new(&self) -> SqlParams<'_> {
        vec![&self.hashes, &self.positions, &self.events, &self.digests, &self.times]
    }

    /// Returns the parameters of a statement about one session.
    pub(super) fn of_one(&self) -> SqlParams<'_> {
        let mut params = self.of_new();
        let absent: [&(dyn ToSql + Sync); 4] =
            [&self.absent_sessions, &self.absent_hashes, &self.absent_below, &self.absent_live];
        params.extend(absent);
        params
    }

    /// Returns true if there is no name, neither new nor to be absent.
    pub(super) fn is_empty(&self) -> bool {
        self.hashes.is_empty() && self.absent_hashes.is_empty()
    }

    /// Returns the parameters of many sessions, without names that must not be there.
    pub(super) fn of_copied(&self) -> SqlParams<'_> {
        let mut params: SqlParams<'_> = vec![&self.sessions];
        params.extend(self.of_new());
        params
    }

    /// Returns the parameters of a statement about many sessions.
    pub(super) fn of_many(&self) -> SqlParams<'_> {
        let mut params = self.of_copied();
        params.push(&self.absent_owners);
        params.extend(self.of_one().into_iter().skip(5));
        params
    }
}

fn damaged(what: &str) -> BaseError {
    BaseError::Failed(format!("a row has a damaged {what}"))
}

fn hash_column(row: &Row, name: &str) -> Result<ChainValue, BaseError> {
    let bytes = row.get::<_, &[u8]>(name);
    bytes.try_into().map(ChainValue).map_err(|_| damaged(name))
}

/// Reads a row of a session.
pub(super) fn session_row(row: &Row) -> Result<SessionRow, BaseError> {
    let uuid = |name: &str| row.get::<_, Uuid>(name).into_bytes();
    let maybe = |name: &str| row.get::<_, Option<Uuid>>(name).map(Uuid::into_bytes);
    let count = |name: &str| u64::try_from(row.get::<_, i64>(name)).unwrap_or(0);
    let time = |name: &str| Timestamp(row.get::<_, i64>(name));
    Ok(SessionRow {
        name: uuid("name"),
        uid: uuid("uid"),
        tenant: uuid("tenant"),
        scope: uuid("scope"),
        workspace: maybe("workspace"),
        parent: maybe("parent"),
        created_at: time("created_at"),
        revision: count("revision"),
        tail: Position(count("tail")),
        next: Lsn(count("next")),
        updated_at: time("updated_at"),
        used_at: time("used_at"),
        bytes: count("bytes"),
        stage: RowStage::from_number(row.get("stage")).ok_or_else(|| damaged("stage"))?,
        unfinished: row.get("unfinished"),
        chain: hash_column(row, "chain")?,
        control_chain: hash_column(row, "control_chain")?,
        work: column_bytes(row, "work"),
        entry: column_bytes(row, "entry"),
        moved_in: row.get("moved_in"),
        removals: count("removals"),
        slot: row.get::<_, Option<&[u8]>>("slot").map(bytes::Bytes::copy_from_slice),
    })
}

/// Reads the frames beside a row.
pub(super) fn frames_of(row: &Row) -> Result<Vec<StoredFrame>, BaseError> {
    let Some(firsts) = row.get::<_, Option<Vec<i64>>>("firsts") else { return Ok(Vec::new()) };
    let events = row.get::<_, Vec<i32>>("events");
    let numbers = row.get::<_, Vec<i64>>("numbers");
    let frames = row.get::<_, Vec<&[u8]>>("frames");
    let columns = firsts.into_iter().zip(events).zip(numbers).zip(frames);
    let frame = |(((first, events), number), bytes): (((i64, i32), i64), &[u8])| {
        let first = Position(u64::try_from(first).map_err(|_| damaged("position"))?);
        let events = u64::try_from(events).map_err(|_| damaged("count"))?;
        Ok(StoredFrame {
            range: Range::new(first, first.plus(events)),
            number: Lsn(u64::try_from(number).map_err(|_| damaged("number"))?),
            bytes: bytes::Bytes::copy_from_slice(bytes),
            fault: None,
        })
    };
    columns.map(frame).collect()
}

/// Reads a name.
pub(super) fn known_name(row: &Row) -> KnownName {
    KnownName {
        position: Position(u64::try_from(row.get::<_, i64>("position")).unwrap_or(0)),
        events: u32::try_from(row.get::<_, i32>("events")).unwrap_or(0),
        digest: row.get::<_, Option<&[u8]>>("digest").map(bytes::Bytes::copy_from_slice),
        at: Timestamp(row.get("at")),
    }
}
