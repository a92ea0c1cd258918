//! The statements; `sl.` stands for the schema. It must not decide anything about a session.

/// Settings of a connection that commits: the plan of a statement with arrays must not depend on
/// the lengths that they had first.
pub(super) const LANE_SETTINGS: &str = "\
SET synchronous_commit = on;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET lock_timeout = '50ms';
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_mergejoin = off;
SET jit = off;";

/// Settings of a connection whose statements may wait for a lock.
pub(super) const WAITING_SETTINGS: &str = "\
SET synchronous_commit = on;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_mergejoin = off;
SET jit = off;";

/// Settings of a connection that reads.
pub(super) const READER_SETTINGS: &str = "\
SET synchronous_commit = on;
SET default_transaction_isolation = 'read committed';
SET jit = off;";

/// Settings of a connection for reports and hints, which wait for no standby.
pub(super) const REPORT_SETTINGS: &str = "\
SET synchronous_commit = local;
SET default_transaction_isolation = 'read committed';
SET jit = off;";

/// A commit without an effect, and without a row that others wait for: the first one of a
/// connection, and one after a commit in doubt.
pub(super) const PROVE: &str = "SELECT pg_logical_emit_message(true, 'sessionlog', '')";

pub(super) const SCHEMA: &str = "\
CREATE TABLE IF NOT EXISTS sl.store (
  one        bool PRIMARY KEY DEFAULT true CHECK (one),
  format     int4 NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  counted    int8 NOT NULL DEFAULT 0,
  is_target  bool NOT NULL DEFAULT false,
  moved_to   text
);
CREATE TABLE IF NOT EXISTS sl.removal (
  one      bool PRIMARY KEY DEFAULT true CHECK (one),
  removals int8 NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS sl.session (
  created_at int8 NOT NULL,
  revision   int8 NOT NULL,
  tail       int8 NOT NULL,
  next       int8 NOT NULL,
  updated_at int8 NOT NULL,
  used_at    int8 NOT NULL,
  bytes      int8 NOT NULL,
  moved_in   int4 NOT NULL,
  format     int4 NOT NULL,
  stage      int2 NOT NULL,
  unfinished bool NOT NULL,
  name       uuid PRIMARY KEY,
  uid        uuid NOT NULL,
  tenant     uuid NOT NULL,
  scope      uuid NOT NULL,
  workspace  uuid,
  parent     uuid,
  chain         bytea NOT NULL,
  control_chain bytea NOT NULL,
  work       bytea NOT NULL,
  entry      bytea NOT NULL
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE sl.session ALTER entry SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX IF NOT EXISTS session_uid ON sl.session (uid);
CREATE INDEX IF NOT EXISTS session_listed ON sl.session (scope, created_at, name);
CREATE INDEX IF NOT EXISTS session_scope ON sl.session (scope, name);
CREATE INDEX IF NOT EXISTS session_tenant ON sl.session (tenant);
CREATE INDEX IF NOT EXISTS session_moved ON sl.session (moved_in, name);
CREATE INDEX IF NOT EXISTS session_parent ON sl.session (parent) WHERE parent IS NOT NULL;
CREATE TABLE IF NOT EXISTS sl.frame (
  first   int8 NOT NULL,
  number  int8 NOT NULL,
  at      int8 NOT NULL,
  events  int4 NOT NULL,
  noted   bool NOT NULL,
  session uuid NOT NULL,
  attempt uuid NOT NULL,
  frame   bytea NOT NULL,
  PRIMARY KEY (session, first, number)
) WITH (autovacuum_vacuum_insert_scale_factor = 0.2);
ALTER TABLE sl.frame ALTER frame SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS frame_noted ON sl.frame (session, number) WHERE noted;
CREATE TABLE IF NOT EXISTS sl.name (
  position int8 NOT NULL,
  at       int8 NOT NULL,
  events   int4 NOT NULL,
  session  uuid NOT NULL,
  hash     uuid NOT NULL,
  digest   bytea,
  PRIMARY KEY (session, hash)
);
CREATE TABLE IF NOT EXISTS sl.key (
  session uuid PRIMARY KEY,
  slot    bytea NOT NULL
);
CREATE TABLE IF NOT EXISTS sl.node (
  id        uuid PRIMARY KEY,
  seen      timestamptz NOT NULL,
  confirmed int8 NOT NULL,
  place     text NOT NULL,
  about     text NOT NULL
);
INSERT INTO sl.store (format) VALUES (1) ON CONFLICT DO NOTHING;
INSERT INTO sl.removal DEFAULT VALUES ON CONFLICT DO NOTHING;";

/// Rows of many sessions: 1-17 their columns, 18-25 frames, 26-31 names to keep, 32-36 names that
/// must not be there. A session that another node holds is left out, not waited for.
pub(super) const COMMIT_MANY: &str = "\
WITH want AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::int8[], $4::int8[], $5::int8[], $6::int8[],
      $7::int8[], $8::int8[], $9::int2[], $10::bool[], $11::bytea[], $12::bytea[], $13::bytea[],
      $14::bytea[], $15::uuid[], $16::bool[]) WITH ORDINALITY
    w(name, uid, revision, tail, next, updated_at, used_at, bytes, stage, unfinished, chain,
      control_chain, work, entry, workspace, enters, ord)
), held AS MATERIALIZED (
  SELECT name, uid, revision FROM sl.session WHERE name = ANY($1::uuid[])
  FOR NO KEY UPDATE SKIP LOCKED
), clash AS MATERIALIZED (
  SELECT x.owner FROM unnest($32::uuid[], $33::uuid[], $34::uuid[], $35::int8[], $36::int8[])
    x(owner, session, hash, below, live)
  JOIN sl.name n
    ON n.session = x.session AND n.hash = x.hash AND n.position < x.below AND n.at >= x.live
), good AS MATERIALIZED (
  SELECT w.* FROM want w JOIN held h USING (name)
  WHERE h.uid = w.uid AND h.revision = w.revision
    AND NOT EXISTS (SELECT FROM clash c WHERE c.owner = w.uid)
), moved AS (
  UPDATE sl.session s SET revision = s.revision + 1, tail = g.tail, next = g.next,
      updated_at = g.updated_at, used_at = g.used_at, bytes = g.bytes, stage = g.stage,
      unfinished = g.unfinished, chain = g.chain, control_chain = g.control_chain, work = g.work,
      entry = CASE WHEN g.enters THEN g.entry ELSE s.entry END,
      workspace = CASE WHEN g.enters THEN g.workspace ELSE s.workspace END, format = $17,
      moved_in = floor(extract(epoch FROM clock_timestamp()) / 10)::int4
  FROM good g WHERE s.name = g.name AND s.uid = g.uid AND s.revision = g.revision
  RETURNING s.uid
), framed AS (
  INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
  SELECT f.* FROM unnest($18::uuid[], $19::int8[], $20::int8[], $21::int4[], $22::int8[],
      $23::bool[], $24::uuid[], $25::bytea[])
      f(session, first, number, events, at, noted, attempt, frame)
  JOIN moved m ON m.uid = f.session
), named AS (
  INSERT INTO sl.name (session, hash, position, events, digest, at)
  SELECT n.* FROM unnest($26::uuid[], $27::uuid[], $28::int8[], $29::int4[], $30::bytea[],
      $31::int8[]) n(session, hash, position, events, digest, at)
  JOIN moved m ON m.uid = n.session
  ON CONFLICT (session, hash) DO UPDATE
    SET position = excluded.position, events = excluded.events, digest = excluded.digest,
        at = excluded.at
)
SELECT CASE WHEN m.uid IS NOT NULL THEN 0
            WHEN h.uid IS NULL AND EXISTS (SELECT FROM sl.session s WHERE s.name = w.name) THEN 3
            WHEN h.uid IS DISTINCT FROM w.uid OR h.revision <> w.revision THEN 1
            ELSE 2 END
FROM want w LEFT JOIN held h USING (name) LEFT JOIN moved m ON m.uid = w.uid
ORDER BY w.ord";

/// The change of one session's row, on the revision that it was planned on: 1-17 its columns.
macro_rules! change_session {
    () => {
        "WITH moved AS (
  UPDATE sl.session s SET revision = s.revision + 1, tail = $4, next = $5, updated_at = $6,
      used_at = $7, bytes = $8, stage = $9, unfinished = $10, chain = $11, control_chain = $12,
      work = $13, entry = CASE WHEN $16 THEN $14 ELSE s.entry END,
      workspace = CASE WHEN $16 THEN $15 ELSE s.workspace END, format = $17,
      moved_in = floor(extract(epoch FROM clock_timestamp()) / 10)::int4
  WHERE s.name = $1 AND s.uid = $2 AND s.revision = $3"
    };
}

/// One frame of one session, without names: 1-17 its columns, 18-24 those of the frame. It has half
/// the executor's work of `COMMIT_ONE`.
pub(super) const COMMIT_FRAME: &str = concat!(
    change_session!(),
    "
  RETURNING s.uid
)
INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
SELECT uid, $18, $19, $20, $21, $22, $23, $24 FROM moved
RETURNING true"
);

/// The change of one session; it waits for a node that holds it. 1-17 its columns, 18-24 frames,
/// 25-29 names to keep, 30-33 names that must not be there, 34 sessions whose revision rises.
pub(super) const COMMIT_ONE: &str = concat!(
    change_session!(),
    "
    AND NOT EXISTS (SELECT FROM unnest($30::uuid[], $31::uuid[], $32::int8[], $33::int8[])
        x(session, hash, below, live)
      JOIN sl.name n
        ON n.session = x.session AND n.hash = x.hash AND n.position < x.below AND n.at >= x.live)
  RETURNING s.uid
), framed AS (
  INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
  SELECT m.uid, f.* FROM moved m, unnest($18::int8[], $19::int8[], $20::int4[], $21::int8[],
      $22::bool[], $23::uuid[], $24::bytea[]) f(first, number, events, at, noted, attempt, frame)
), named AS (
  INSERT INTO sl.name (session, hash, position, events, digest, at)
  SELECT m.uid, n.* FROM moved m, unnest($25::uuid[], $26::int8[], $27::int4[], $28::bytea[],
      $29::int8[]) n(hash, position, events, digest, at)
  ON CONFLICT (session, hash) DO UPDATE
    SET position = excluded.position, events = excluded.events, digest = excluded.digest,
        at = excluded.at
), risen AS (
  UPDATE sl.session a SET revision = a.revision + 1, format = $17
  FROM moved m WHERE a.uid = ANY($34::uuid[])
)
SELECT true FROM moved"
);

/// The rest of `CREATE` and `FORK`, with the column that only a fork has and its value.
macro_rules! add_session {
    ($column:literal, $value:literal) => {
        concat!(
            "unchanged AS MATERIALIZED (
  SELECT FROM sl.key WHERE session = '00000000-0000-0000-0000-000000000000' AND slot = $36
  FOR SHARE
), made AS (
  INSERT INTO sl.session (name, uid, revision, tail, next, updated_at, used_at, bytes, stage,
      unfinished, chain, control_chain, work, entry, workspace, format, moved_in, tenant, scope,
      created_at",
            $column,
            ")
  SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $17,
      floor(extract(epoch FROM clock_timestamp()) / 10)::int4, $30, $31, $32",
            $value,
            " WHERE $16 AND ($36::bytea IS NULL OR EXISTS (SELECT FROM unchanged))
  RETURNING uid
), wrapped AS (
  INSERT INTO sl.key (session, slot)
  SELECT m.uid, $35 FROM made m WHERE $35::bytea IS NOT NULL
), framed AS (
  INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
  SELECT m.uid, f.* FROM made m, unnest($18::int8[], $19::int8[], $20::int4[], $21::int8[],
      $22::bool[], $23::uuid[], $24::bytea[]) f(first, number, events, at, noted, attempt, frame)
), named AS (
  INSERT INTO sl.name (session, hash, position, events, digest, at)
  SELECT m.uid, n.* FROM made m, unnest($25::uuid[], $26::int8[], $27::int4[], $28::bytea[],
      $29::int8[]) n(hash, position, events, digest, at)
), keyed AS (
  INSERT INTO sl.name (session, hash, position, events, digest, at)
  SELECT $31, k.hash, 0, 0, uuid_send(m.uid), $34 FROM made m, unnest($33::uuid[]) k(hash)
)
SELECT uid FROM made"
        )
    };
}

/// A new session: 1-17 its columns, 18-24 frames, 25-29 names, 30-32 tenant, scope and time of
/// creation, 33 the key of the creation, 34 the count of time, 35 its slot, 36 that of the store.
pub(super) const CREATE: &str = concat!("WITH ", add_session!("", ""));

/// The same with a parent, 37 its name and 38 its uid, which must be alive and held by no other.
pub(super) const FORK: &str = concat!(
    "WITH parent AS MATERIALIZED (
  SELECT uid FROM sl.session WHERE name = $37 AND uid = $38 AND stage = 0
  FOR SHARE SKIP LOCKED
), ",
    add_session!(", parent", ", p.uid FROM parent p")
);

/// The removal of content: 1-17 the columns of its session, 18-24 frames, 25-27 frames that are
/// written anew, 28 positions whose batches lose their digest.
pub(super) const REMOVE_CONTENT: &str = concat!(
    change_session!(),
    "
  RETURNING s.uid
), framed AS (
  INSERT INTO sl.frame (session, first, number, events, at, noted, attempt, frame)
  SELECT m.uid, f.* FROM moved m, unnest($18::int8[], $19::int8[], $20::int4[], $21::int8[],
      $22::bool[], $23::uuid[], $24::bytea[]) f(first, number, events, at, noted, attempt, frame)
), written AS (
  UPDATE sl.frame o SET frame = x.frame
  FROM moved m, unnest($25::int8[], $26::int8[], $27::bytea[]) x(first, number, frame)
  WHERE o.session = m.uid AND o.first = x.first AND o.number = x.number
), blanked AS (
  UPDATE sl.name n SET digest = NULL FROM moved m, unnest($28::int8[]) p(position)
  WHERE n.session = m.uid AND n.events > 0
    AND n.position <= p.position AND p.position < n.position + n.events
), unwrapped AS (
  DELETE FROM sl.key k USING moved m WHERE k.session = m.uid AND $9 = 4
), counted AS (
  UPDATE sl.removal t SET removals = t.removals + 1 FROM moved m RETURNING t.removals
)
SELECT (SELECT removals FROM counted)"
);

pub(super) const ROWS_BY_NAME: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t WHERE s.name = ANY($1::uuid[]) LIMIT $2";

pub(super) const ROWS_BY_UID: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t WHERE s.uid = ANY($1::uuid[]) LIMIT $2";

pub(super) const ROWS_BY_PARENT: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.parent = $1 AND ($2::uuid IS NULL OR s.name > $2) ORDER BY s.name LIMIT $3";

pub(super) const PAGE_DOWN: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.scope = $1 AND ($2::uuid IS NULL OR s.workspace = $2) AND s.stage = 0
  AND (s.created_at, s.name) < ($3::int8, $4::uuid)
ORDER BY s.created_at DESC, s.name DESC LIMIT $5";

pub(super) const PAGE_UP: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.scope = $1 AND ($2::uuid IS NULL OR s.workspace = $2) AND s.stage = 0
  AND (s.created_at, s.name) > ($3::int8, $4::uuid)
ORDER BY s.created_at, s.name LIMIT $5";

pub(super) const ROWS_OF_SCOPE: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.scope = $1 AND ($2::uuid IS NULL OR s.name > $2) ORDER BY s.name LIMIT $3";

pub(super) const UNFINISHED: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.scope = $1 AND s.unfinished AND s.stage = 0 AND ($2::uuid IS NULL OR s.workspace = $2)
ORDER BY s.updated_at DESC LIMIT $3";

pub(super) const MOVED: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE s.moved_in >= floor(extract(epoch FROM statement_timestamp()) / 10)::int8 - $1::int8
  AND (s.moved_in, s.name) > ($2::int4, $3::uuid)
ORDER BY s.moved_in, s.name LIMIT $4";

pub(super) const ALL_ROWS: &str = "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot
FROM sl.session s, sl.removal t
WHERE $1::uuid IS NULL OR s.name > $1 ORDER BY s.name LIMIT $2";

/// Statement of a session's row and frames of one snapshot, the frames in ascending order: those
/// that a condition chooses, in an order, up to a number of them and of bytes, at least one.
macro_rules! frames {
    ($chosen:expr, $order:literal, $limit:literal, $bytes:literal) => {
        concat!(
            "\
SELECT s.*, t.removals, (SELECT slot FROM sl.key k WHERE k.session = s.uid) AS slot,
  r.firsts, r.events, r.numbers, r.frames
FROM sl.session s CROSS JOIN sl.removal t LEFT JOIN LATERAL (
  SELECT array_agg(b.first ORDER BY b.first, b.number) AS firsts,
    array_agg(b.events ORDER BY b.first, b.number) AS events,
    array_agg(b.number ORDER BY b.first, b.number) AS numbers,
    array_agg(b.frame ORDER BY b.first, b.number) AS frames
  FROM (
    SELECT f.*, sum(length(f.frame)) OVER (ORDER BY ",
            $order,
            ") - length(f.frame) AS before
    FROM (SELECT * FROM sl.frame f WHERE f.session = $1 AND ",
            $chosen,
            " ORDER BY ",
            $order,
            " LIMIT ",
            $limit,
            ") f
  ) b WHERE b.before = 0 OR b.before < ",
            $bytes,
            "
) r ON true WHERE s.uid = $1"
        )
    };
}

/// Condition on the frames with events of `[$2, $3)`.
macro_rules! of_range {
    () => {
        "\
f.events > 0 AND f.first < $3 AND f.first + f.events > $2
            AND f.first >= COALESCE(
              (SELECT p.first FROM sl.frame p
               WHERE p.session = $1 AND p.first <= $2 AND p.events > 0
               ORDER BY p.first DESC, p.number DESC LIMIT 1), 0)"
    };
}

pub(super) const FRAMES_FORWARD: &str = frames!(of_range!(), "f.first, f.number", "$4", "$5");

/// The same from the end of the range backwards.
pub(super) const FRAMES_BACKWARD: &str =
    frames!(of_range!(), "f.first DESC, f.number DESC", "$4", "$5");

pub(super) const FRAMES_NOTED: &str = frames!("f.noted AND f.number >= $2", "f.number", "$3", "$4");

/// All frames from a number on: numbers rise with positions.
pub(super) const FRAMES_ALL: &str =
    frames!("f.first >= $5 AND f.number >= $2", "f.first, f.number", "$3", "$4");

pub(super) const KNOWN: &str = "\
SELECT x.ord, n.position, n.events, n.digest, n.at
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY x(session, hash, ord)
JOIN sl.name n ON n.session = x.session AND n.hash = x.hash";

pub(super) const FRAME_AT: &str = "\
SELECT first, events, at FROM sl.frame WHERE session = $1 AND first <= $2 AND events > 0
ORDER BY first DESC, number DESC LIMIT 1";

pub(super) const ATTEMPT: &str =
    "SELECT attempt FROM sl.frame WHERE session = $1 AND first = $2 AND number = $3";

pub(super) const USAGE: &str = "\
SELECT count(*) FILTER (WHERE stage = 0),
  COALESCE(sum(bytes) FILTER (WHERE stage < 3
    OR EXISTS (SELECT FROM sl.session c WHERE c.parent = s.uid AND c.stage < 3)), 0)::int8
FROM sl.session s WHERE s.tenant = $1 AND s.scope <> $2";

/// The lock conflicts with that of a fork that is being created.
pub(super) const MARK: &str = "\
WITH held AS MATERIALIZED (
  SELECT name, uid FROM sl.session WHERE name = $1 AND uid = $2 AND revision = $3 FOR UPDATE
), marked AS (
  UPDATE sl.session s SET revision = s.revision + 1, stage = 5,
    moved_in = floor(extract(epoch FROM clock_timestamp()) / 10)::int4
  FROM held h WHERE s.name = h.name AND s.uid = h.uid AND s.revision = $3 RETURNING 1
)
SELECT count(*) FROM marked";

/// The lock conflicts with that of a fork that is being created.
pub(super) const AWAIT_FORKS: &str = "\
WITH held AS MATERIALIZED (
  SELECT name FROM sl.session WHERE name = $1 AND uid = $2 AND stage >= 3 FOR UPDATE
)
SELECT count(*) FROM held";

/// It counts the rows that it selects, not those that it deletes: another node may be deleting the
/// same ones.
pub(super) const DELETE: &str = "\
WITH ended AS MATERIALIZED (
  SELECT uid FROM sl.session WHERE uid = $1 AND stage >= 3
), frames AS MATERIALIZED (
  SELECT f.first, f.number FROM sl.frame f JOIN ended e ON e.uid = f.session
  WHERE f.session = $1 ORDER BY f.first, f.number LIMIT $2
), names AS MATERIALIZED (
  SELECT n.hash FROM sl.name n JOIN ended e ON e.uid = n.session WHERE n.session = $1 LIMIT $2
), gone_frames AS (
  DELETE FROM sl.frame f USING frames x
  WHERE f.session = $1 AND f.first = x.first AND f.number = x.number
), gone_names AS (
  DELETE FROM sl.name n USING names x WHERE n.session = $1 AND n.hash = x.hash
), unwrapped AS (
  DELETE FROM sl.key k USING ended e WHERE k.session = e.uid
)
SELECT (SELECT count(*) FROM frames) + (SELECT count(*) FROM names)";

pub(super) const FREE: &str = "\
WITH gone AS (
  DELETE FROM sl.session WHERE name = $1 AND uid = $2 AND stage = 5
    AND NOT EXISTS (SELECT FROM sl.session c WHERE c.parent = $2)
    AND NOT EXISTS (SELECT FROM sl.frame f WHERE f.session = $2)
    AND NOT EXISTS (SELECT FROM sl.name n WHERE n.session = $2) RETURNING 1
)
SELECT count(*) FROM gone";

pub(super) const FORGET_KEY: &str = "\
WITH gone AS (DELETE FROM sl.name WHERE session = $1 AND hash = $2 AND at = $3 RETURNING 1)
SELECT count(*) FROM gone";

pub(super) const SLOTS: &str = "\
SELECT session, slot FROM sl.key WHERE $1::uuid IS NULL OR session > $1
ORDER BY session LIMIT $2";

pub(super) const CHANGE_SLOTS: &str = "\
WITH change AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) c(session, before, after)
), made AS (
  INSERT INTO sl.key (session, slot) SELECT session, after FROM change WHERE before IS NULL
  ON CONFLICT DO NOTHING RETURNING 1
), changed AS (
  UPDATE sl.key k SET slot = c.after FROM change c
  WHERE k.session = c.session AND k.slot = c.before RETURNING 1
)
SELECT (SELECT count(*) FROM made) + (SELECT count(*) FROM changed)";

pub(super) const BEAT: &str = "\
WITH t AS (
  UPDATE sl.store SET counted = greatest(counted, $2::int8) RETURNING *
), n AS (
  INSERT INTO sl.node (id, seen, confirmed, about, place)
  SELECT $1, clock_timestamp(), $3, $4, $6 WHERE NOT $5
  ON CONFLICT (id) DO UPDATE
    SET seen = excluded.seen, confirmed = excluded.confirmed, about = excluded.about
), old AS (
  DELETE FROM sl.node WHERE $5 AND id = $1 OR seen < clock_timestamp() - interval '1 hour'
)
SELECT t.counted, t.is_target, t.moved_to, r.removals,
  (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS now,
  current_setting('synchronous_standby_names') AS standbys, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS pages
FROM t, sl.removal r";

pub(super) const OTHERS: &str = "\
SELECT confirmed, about, place,
  (extract(epoch FROM clock_timestamp() - seen) * 1000000)::int8 AS silent
FROM sl.node WHERE id <> $1 AND seen > clock_timestamp() - interval '10 s' ORDER BY place";

pub(super) const SETTINGS: &str = "\
SELECT current_setting('synchronous_standby_names') AS standbys,
  current_setting('fsync') AS fsync, current_setting('full_page_writes') AS pages";

pub(super) const NOTIFY: &str = "SELECT pg_notify($1, $2)";

pub(super) const NODES: &str = "SELECT place, about FROM sl.node WHERE seen > clock_timestamp() - interval '10 s' ORDER BY place";

pub(super) const NOW: &str = "\
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8,
  'PostgreSQL ' || current_setting('server_version')";
