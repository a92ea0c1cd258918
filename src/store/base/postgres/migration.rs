//! The statements of a migration: a base is filled with the sessions of another store, or left for
//! one. It must not look into a frame or an entry.

use std::collections::HashMap;

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{
    super::{
        BaseError, CopiedPart, Hash16, KnownName, MigrationStatus, MigrationStep, NewFrame,
        RowWrite, SessionRow,
    },
    PostgresBase,
    rows::{FrameColumns, NameColumns, RowColumns},
};
use crate::event::Timestamp;

const STATUS: &str = "\
SELECT t.counted, t.is_target, t.moved_to, EXISTS (SELECT FROM sl.session) AS has_sessions,
  (SELECT count(*) FROM sl.node WHERE seen > clock_timestamp() - interval '10 s') AS nodes
FROM sl.store t";

const BEGIN: &str = "\
WITH target AS (
  UPDATE sl.store SET is_target = true, counted = 0
  WHERE NOT EXISTS (SELECT FROM sl.session) AND moved_to IS NULL
    AND NOT EXISTS (SELECT FROM sl.node WHERE seen > clock_timestamp() - interval '10 s')
  RETURNING true
), keyed AS (
  INSERT INTO sl.key (session, slot)
  SELECT '00000000-0000-0000-0000-000000000000', $1 FROM target
  ON CONFLICT (session) DO UPDATE SET slot = excluded.slot
)
SELECT EXISTS (SELECT FROM target)";

/// Parts of many sessions: 1-17 the columns of whole sessions, 18-25 frames, 26-31 names, 32-35
/// tenants, scopes, times of creation, parents and slots of the whole sessions.
const COPY: &str = "\
WITH target AS MATERIALIZED (
  SELECT FROM sl.store WHERE is_target FOR SHARE
), framed AS (
  INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
  SELECT f.* FROM target, unnest($18::uuid[], $19::int8[], $20::int8[], $21::int4[], $22::int8[],
      $23::bool[], $24::uuid[], $25::bytea[])
      f(session, first, number, events, at, noted, attempt, frame)
  ON CONFLICT (session, first, number) DO UPDATE
    SET events = excluded.events, at = excluded.at, noted = excluded.noted, frame = excluded.frame
), named AS (
  INSERT INTO sl.name (session, hash, position, events, digest, at)
  SELECT n.* FROM target, unnest($26::uuid[], $27::uuid[], $28::int8[], $29::int4[], $30::bytea[],
      $31::int8[]) n(session, hash, position, events, digest, at)
  ON CONFLICT (session, hash) DO UPDATE
    SET position = excluded.position, events = excluded.events, digest = excluded.digest,
        at = excluded.at
), whole AS (
  INSERT INTO sl.session (name, uid, revision, tail, next, updated_at, used_at, bytes, stage,
      unfinished, chain, control_chain, work, entry, workspace, format, moved_in, tenant, scope,
      created_at, parent)
  SELECT w.name, w.uid, w.revision, w.tail, w.next, w.updated_at, w.used_at, w.bytes, w.stage,
      w.unfinished, w.chain, w.control_chain, w.work, w.entry, w.workspace, $17,
      floor(extract(epoch FROM clock_timestamp()) / 10)::int4, w.tenant, w.scope, w.created_at,
      w.parent
  FROM target, unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::int8[], $6::int8[],
      $7::int8[], $8::int8[], $9::int2[], $10::bool[], $11::bytea[], $12::bytea[], $13::bytea[],
      $14::bytea[], $15::uuid[], $16::bool[], $32::uuid[], $33::uuid[], $34::int8[], $35::uuid[])
    w(name, uid, revision, tail, next, updated_at, used_at, bytes, stage, unfinished, chain,
      control_chain, work, entry, workspace, enters, tenant, scope, created_at, parent)
  ON CONFLICT DO NOTHING
), keyed AS (
  INSERT INTO sl.key (session, slot)
  SELECT k.* FROM target, unnest($2::uuid[], $36::bytea[]) k(session, slot)
  WHERE k.slot IS NOT NULL
  ON CONFLICT (session) DO UPDATE SET slot = excluded.slot
)
SELECT EXISTS (SELECT FROM target)";

const REMOVE: &str = "\
WITH target AS MATERIALIZED (
  SELECT FROM sl.store WHERE is_target FOR SHARE
), frames AS (
  DELETE FROM sl.frame f USING target WHERE f.session = $2
), names AS (
  DELETE FROM sl.name n USING target WHERE n.session = $2
), slots AS (
  DELETE FROM sl.key k USING target WHERE k.session = $2
), gone AS (
  DELETE FROM sl.session s USING target WHERE s.name = $1 AND s.uid = $2
)
SELECT EXISTS (SELECT FROM target)";

const FINISH: &str = "\
WITH done AS (
  UPDATE sl.store SET is_target = false, counted = $1 WHERE is_target RETURNING true
), frames AS (
  DELETE FROM sl.frame f USING done
  WHERE NOT EXISTS (SELECT FROM sl.session s WHERE s.uid = f.session)
), names AS (
  DELETE FROM sl.name n USING done
  WHERE NOT EXISTS (SELECT FROM sl.session s WHERE s.uid = n.session)
    AND NOT EXISTS (SELECT FROM sl.session s WHERE s.scope = n.session)
)
SELECT EXISTS (SELECT FROM done)";

const MARK_MOVED: &str = "\
UPDATE sl.store SET moved_to = $1 WHERE NOT is_target AND (moved_to IS NULL OR moved_to = $1)
RETURNING true";

/// Returns the reason why no node may write to a store.
pub(super) fn closing_reason(is_target: bool, moved_to: Option<String>) -> Option<String> {
    let unfinished = || {
        "a store is being copied into it: run the same `sessionlog migrate` again to finish that"
            .to_owned()
    };
    moved_to.map(|place| format!("it was moved to {place}")).or_else(|| is_target.then(unfinished))
}

impl PostgresBase {
    pub(super) async fn read_migration_status(&self) -> Result<MigrationStatus, BaseError> {
        // By a connection that commits: it is to the server that takes writes.
        let found = self.read_on(self.pick(&self.waiting), STATUS, &[]).await?;
        let row = found.first().ok_or_else(|| BaseError::Failed("no row of a store".to_owned()))?;
        Ok(MigrationStatus {
            counted: Timestamp(row.get("counted")),
            is_target: row.get("is_target"),
            moved_to: row.get("moved_to"),
            nodes: row.get::<_, i64>("nodes") as u64,
            has_sessions: row.get("has_sessions"),
        })
    }

    pub(super) async fn run_migration_step(&self, step: MigrationStep) -> Result<bool, BaseError> {
        let connection = self.pick(&self.waiting);
        let found = match step {
            MigrationStep::Begin(slot) => self.write(connection, BEGIN, &[&&slot[..]]).await,
            MigrationStep::Copy(parts) => return self.copy_parts(parts).await,
            MigrationStep::Remove { name, uid } => {
                let [name, uid] = [name, uid].map(Uuid::from_bytes);
                self.write(connection, REMOVE, &[&name, &uid]).await
            }
            MigrationStep::Finish { counted } => {
                self.write(connection, FINISH, &[&counted.0]).await
            }
            MigrationStep::MarkMoved(place) => self.write(connection, MARK_MOVED, &[&place]).await,
        };
        Ok(found?.first().is_some_and(|row| row.get(0)))
    }

    async fn copy_parts(&self, parts: Vec<CopiedPart>) -> Result<bool, BaseError> {
        let wholes: Vec<SessionRow> =
            parts.iter().filter(|part| part.is_last).map(|part| part.row.clone()).collect();
        let uuids = |column: fn(&SessionRow) -> Hash16| -> Vec<Uuid> {
            wholes.iter().map(|row| Uuid::from_bytes(column(row))).collect()
        };
        let (tenants, scopes) = (uuids(|row| row.tenant), uuids(|row| row.scope));
        let created: Vec<i64> = wholes.iter().map(|row| row.created_at.0).collect();
        let parents: Vec<Option<Uuid>> =
            wholes.iter().map(|row| row.parent.map(Uuid::from_bytes)).collect();
        let slots: Vec<Option<&[u8]>> = wholes.iter().map(|row| row.slot.as_deref()).collect();
        let (frames, names) = (frames_by_owner(&parts), names_by_owner(&parts));
        let writes: Vec<RowWrite> =
            wholes.iter().map(|row| row_write(row, row.uid, Vec::new(), Vec::new())).collect();
        let rows = RowColumns::new(writes.iter());
        let frames = FrameColumns::new(&frames);
        let names = NameColumns::new(&names);
        let mut params = rows.arrays();
        params.extend(frames.of_many());
        params.extend(names.of_copied());
        params.extend([&tenants as &(dyn ToSql + Sync), &scopes, &created, &parents, &slots]);
        let found = self.write(self.pick(&self.waiting), COPY, &params).await?;
        Ok(found.first().is_some_and(|row| row.get(0)))
    }
}

fn row_write(
    row: &SessionRow,
    owner: Hash16,
    frames: Vec<NewFrame>,
    names: Vec<(Hash16, KnownName)>,
) -> RowWrite {
    RowWrite {
        revision: row.revision,
        after: SessionRow { uid: owner, ..row.clone() },
        changes_entry: true,
        frames,
        names,
        absent: Vec::new(),
        touches: Vec::new(),
    }
}

fn frames_by_owner(parts: &[CopiedPart]) -> Vec<RowWrite> {
    let write =
        |part: &CopiedPart| row_write(&part.row, part.row.uid, part.frames.clone(), Vec::new());
    parts.iter().map(write).collect()
}

/// Returns the names of sessions, and those of creations under their scopes; a statement must not
/// have one twice.
fn names_by_owner(parts: &[CopiedPart]) -> Vec<RowWrite> {
    let mut owners: HashMap<Hash16, (&SessionRow, HashMap<Hash16, KnownName>)> = HashMap::new();
    for part in parts {
        for (owner, names) in
            [(part.row.uid, &part.names[..]), (part.row.scope, part.key.as_slice())]
        {
            let (_, known) = owners.entry(owner).or_insert_with(|| (&part.row, HashMap::new()));
            known.extend(names.iter().cloned());
        }
    }
    let writes = owners.into_iter().map(|(owner, (row, names))| {
        row_write(row, owner, Vec::new(), names.into_iter().collect())
    });
    writes.collect()
}
