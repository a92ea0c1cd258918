//! An encrypted store of nodes: which keys a node needs, what the database has in clear, and what
//! someone who can write to the database but has no key can do. It must not read a sealed value.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::{
        Batch, BatchKey, EventId, NewNote, NoteKind, Position, Scope, SessionHash, SessionId,
        SessionKey, TenantId, UserId, short_hash,
    },
    log::{Frame, FrameHeader, segment::name_hash},
    store::{
        ForkPoint, KeyProblem, LeaseCall, Listing, Maintain, NewSession, SessionUpdate, Store,
        StoreError, StoreResult,
        remote::{MemoryBase, RemoteStore},
    },
};
use sessionlog_sim::{ManualClock, SeededEntropy};

use crate::{
    engines::{
        append, batch, create, event, events_of, everything, key, keyed_postgres_node, master_keys,
        named, open_node,
    },
    servers::{Server, postgres},
};

/// Master keys, the current one first.
fn given(current: u8, previous: Option<u8>) -> Option<Arc<MasterKeys>> {
    let secret = |byte: u8| Secret::new(std::array::from_fn(|n| byte.wrapping_add(n as u8)));
    let (current, previous) = (secret(current), previous.map(secret));
    Some(Arc::new(MasterKeys { current, previous }))
}

/// A schema of the server of the tests.
struct Schema {
    server: &'static Server,
    name: &'static str,
    clock: Arc<ManualClock>,
}

impl Schema {
    fn new(name: &'static str) -> Option<Self> {
        Some(Self { server: postgres()?, name, clock: Arc::default() })
    }

    async fn open(&self, seed: u64, keys: Option<Arc<MasterKeys>>) -> StoreResult<RemoteStore> {
        let address = self.server.address_of(self.name, "");
        keyed_postgres_node(&address, &self.clock, seed, keys).await
    }

    /// Runs a statement in which `sl.` stands for the schema.
    fn run(&self, sql: &str) -> String {
        self.server.run(&sql.replace("sl.", &format!("{}.", self.name)))
    }

    /// Returns every column of every row of these tables; bytes are in hexadecimal digits.
    fn dump(&self, but: &str) -> String {
        let tables = self.run(&format!(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}' AND \
             table_name NOT IN ({but}) ORDER BY 1",
            self.name
        ));
        let rows = |table: &str| {
            let rows = self.run(&format!("SELECT t::text FROM sl.\"{table}\" t ORDER BY 1"));
            format!("{table}\n{rows}\n")
        };
        tables.lines().map(rows).collect()
    }

    /// Returns the `uid` of a session by its place in the order of creation.
    fn uid(&self, place: usize) -> String {
        self.run(&format!(
            "SELECT uid FROM sl.session ORDER BY created_at, uid OFFSET {place} LIMIT 1"
        ))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn problem(opened: StoreResult<RemoteStore>) -> Option<KeyProblem> {
    match opened {
        Err(StoreError::Key(problem)) => Some(problem),
        Err(other) => panic!("{other}"),
        Ok(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_missing_or_unexpected_key_is_refused_and_changes_nothing() {
    let [Some(sealed), Some(plain)] = [Schema::new("keyed"), Schema::new("unkeyed")] else {
        return;
    };
    for (schema, keys) in [(&sealed, given(1, None)), (&plain, None)] {
        let node = schema.open(1, keys).await.unwrap();
        create(&node, "s").await;
        append(&node, &key("s"), batch([event("1")])).await.unwrap();
        node.close().await;
    }
    for (schema, keys, wanted) in [
        (&sealed, None, "no key is set"),
        (&sealed, given(2, None), "the keys given are"),
        (&sealed, given(2, Some(3)), "the keys given are"),
        (&plain, given(1, None), "is in plaintext"),
    ] {
        let before = schema.dump("''");
        let found = problem(schema.open(2, keys.clone()).await).unwrap().to_string();
        assert!(found.contains(wanted), "{wanted}: {found}");
        assert_eq!(schema.dump("''"), before, "{wanted}");
    }
    for (schema, keys) in [(&sealed, given(2, Some(1))), (&sealed, given(1, None)), (&plain, None)]
    {
        let node = schema.open(3, keys).await.unwrap();
        assert_eq!(events_of(&node, &key("s")).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_start_at_once_agree_on_the_keys_of_the_store() {
    for round in ["once0", "once1", "once2", "once3"] {
        let Some(schema) = Schema::new(round) else { return };
        let open = |seed| schema.open(seed, given(1, None));
        let (a, b, c) = tokio::join!(open(1), open(2), open(3));
        let nodes = [a.unwrap(), b.unwrap(), c.unwrap()];
        for (n, node) in nodes.iter().enumerate() {
            create(node, &format!("s{n}")).await;
            append(node, &key(&format!("s{n}")), batch([event("1")])).await.unwrap();
        }
        for node in &nodes {
            for n in 0..3 {
                assert_eq!(events_of(node, &key(&format!("s{n}"))).await.len(), 1);
            }
        }
    }
    // With different keys, and with and without one, either the one or the other is refused.
    for (name, other) in [("once4", given(2, None)), ("once5", None)] {
        let Some(schema) = Schema::new(name) else { return };
        let (a, b) = tokio::join!(schema.open(1, given(1, None)), schema.open(2, other));
        let refused = [problem(a).is_some(), problem(b).is_some()];
        assert_eq!(refused.iter().filter(|refused| **refused).count(), 1, "{name} {refused:?}");
    }
}

/// Writes something of every kind, each with a word that occurs nowhere else; returns the words.
async fn write_canaries(store: &dyn Store) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = |what: &str| {
        let word = format!("canary-{what}-4b1d");
        words.push(word.clone());
        word
    };
    let scope = Scope {
        tenant: TenantId::new(&word("tenant")).unwrap(),
        user: UserId::new(&word("user")).unwrap(),
    };
    let id = SessionId::new(&word("session")).unwrap();
    let session = SessionKey { scope: scope.clone(), session: id.clone() };
    let body = |word: String| format!("\"{word}\"");
    let new = NewSession {
        id: Some(id.clone()),
        title: Some(word("title")),
        metadata: BTreeMap::from([(word("name"), word("value"))]),
        workspace: Some(word("workspace")),
        events: batch([named(&word("first"), &body(word("first-body")))]),
        key: Some(BatchKey::new(&word("creation-key")).unwrap()),
        ..NewSession::default()
    };
    store.create(&scope, new).await.unwrap();
    let mut sent = batch([named(&word("event"), &body(word("body"))), event(&body(word("other")))]);
    sent.key = Some(BatchKey::new(&word("batch-key")).unwrap());
    sent.metadata = BTreeMap::from([(word("later-name"), Some(word("later-value")))]);
    store.append(&session, sent).await.unwrap();
    let note = NewNote {
        kind: NoteKind::Checkpoint,
        name: word("note"),
        position: None,
        body: Bytes::from(body(word("state"))),
        idle: false,
        if_notes: None,
    };
    store.write_note(&session, None, note).await.unwrap();
    let (steal, ttl, lease) = (false, Duration::from_secs(60), name_hash(&word("lease-key")));
    store.lease(&session, LeaseCall::Take { steal, ttl, key: Some(lease) }).await.unwrap();
    let fork = NewSession {
        id: Some(SessionId::new(&word("fork")).unwrap()),
        parent: Some(ForkPoint { session: id, at: Position(2) }),
        ..NewSession::default()
    };
    store.create(&scope, fork).await.unwrap();
    words
}

#[tokio::test(flavor = "multi_thread")]
async fn no_column_of_an_encrypted_store_has_a_word_or_an_unkeyed_hash_of_a_client() {
    let (Some(sealed), Some(plain)) = (Schema::new("canaries"), Schema::new("clear")) else {
        return;
    };
    let mut found = [Vec::new(), Vec::new()];
    for (n, (schema, keys)) in [(&plain, None), (&sealed, given(1, None))].into_iter().enumerate() {
        let node = schema.open(1, keys).await.unwrap();
        let words = write_canaries(&node).await;
        let dump = schema.dump("''");
        for word in words {
            let scope = [short_hash("sessionlog v1 base tenant", &[&word])];
            let hashes = [name_hash(&word), name_hash(&format!("\0{word}"))];
            let hashes = hashes.iter().chain(&scope).map(|hash| hex(hash));
            let dashed = uuid_text(&name_hash(&word));
            let forms = [word.clone(), hex(word.as_bytes()), dashed].into_iter().chain(hashes);
            if forms.into_iter().any(|form| dump.contains(&form)) {
                found[n].push(word);
            }
        }
    }
    assert!(found[0].len() > 12, "in clear: {:?}", found[0]);
    assert_eq!(found[1], Vec::<String>::new());
}

fn uuid_text(hash: &[u8; 16]) -> String {
    let digits = hex(hash);
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits[part].to_owned());
    parts.join("-")
}

fn is_damage<T: std::fmt::Debug>(result: StoreResult<T>) -> bool {
    match result {
        Err(StoreError::SessionDamaged { .. }) => true,
        other => panic!("{other:?}"),
    }
}

/// Someone who can write to the database moves, changes and puts together what is stored.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_or_frame_changed_without_the_key_is_damage_and_other_sessions_are_served() {
    let Some(schema) = Schema::new("tampered") else { return };
    let node = schema.open(1, given(1, None)).await.unwrap();
    for session in ["s", "t", "other"] {
        create(&node, session).await;
        for n in 0..3 {
            let body = format!("\"{session}-{n}\"");
            append(&node, &key(session), batch([event(&body)])).await.unwrap();
        }
        schema.clock.advance(Duration::from_secs(1));
    }
    let (s, t) = (schema.uid(0), schema.uid(1));
    let swap = |table: &str, column: &str, by: &str, both: &str| {
        format!(
            "UPDATE sl.{table} a SET {column} = b.{column} FROM sl.{table} b WHERE \
             a.{by} IN ('{s}', '{t}') AND b.{by} IN ('{s}', '{t}') AND a.{by} <> b.{by}{both}"
        )
    };
    let flip = |column: &str| {
        format!(
            "UPDATE sl.session SET {column} = set_byte({column}, 40, get_byte({column}, 40) # 1) \
             WHERE uid = '{t}'"
        )
    };
    let frames = [
        swap("frame", "frame", "session", " AND a.first = b.first AND a.number = b.number"),
        swap("key", "slot", "session", ""),
        format!("DELETE FROM sl.key WHERE session = '{t}'"),
        format!(
            "UPDATE sl.frame a SET frame = b.frame FROM sl.frame b WHERE a.session = '{t}' AND \
             b.session = '{t}' AND a.first = 0 AND b.first = 1 AND a.events > 0"
        ),
    ];
    let rows = [
        flip("entry"),
        flip("work"),
        format!("UPDATE sl.session SET tail = tail - 1 WHERE uid = '{t}'"),
        format!("UPDATE sl.session SET used_at = 0 WHERE uid = '{t}'"),
        format!("UPDATE sl.session SET chain = control_chain WHERE uid = '{t}'"),
        swap("session", "entry", "uid", ""),
        swap("session", "work", "uid", ""),
    ];
    schema.run("CREATE TABLE sl.kept_s AS SELECT * FROM sl.session");
    schema.run("CREATE TABLE sl.kept_f AS SELECT * FROM sl.frame");
    schema.run("CREATE TABLE sl.kept_k AS SELECT * FROM sl.key");
    for (n, tamper) in frames.iter().chain(&rows).enumerate() {
        schema.run(tamper);
        assert!(is_damage(node.read(&key("t"), everything()).await), "{tamper}");
        if n >= frames.len() {
            assert!(is_damage(node.info(&key("t")).await), "{tamper}");
            let new = NewSession { id: SessionId::new("t").ok(), ..NewSession::default() };
            assert!(is_damage(node.create(&Scope::local(), new).await), "{tamper}");
        }
        let other = events_of(&node, &key("other")).await;
        assert_eq!(&other[2].body[..], b"\"other-2\"", "{tamper}");
        append(&node, &key("other"), batch([event("4")])).await.unwrap();
        let listed = node.list(&Scope::local(), Listing::default()).await.unwrap();
        let ids: Vec<_> = listed.sessions.iter().map(|info| info.key.session.as_str()).collect();
        assert!(ids.contains(&"other"), "{tamper}: {ids:?}");
        schema.run(
            "TRUNCATE sl.session, sl.frame, sl.key; INSERT INTO sl.session SELECT * FROM \
             sl.kept_s; INSERT INTO sl.frame SELECT * FROM sl.kept_f; INSERT INTO sl.key SELECT * \
             FROM sl.kept_k",
        );
        assert_eq!(events_of(&node, &key("t")).await.len(), 3, "{tamper}");
    }
    // A name that leads to another session.
    schema.run(&format!("UPDATE sl.session SET name = gen_random_uuid() WHERE uid = '{t}'"));
    let name = format!("(SELECT name FROM sl.kept_s WHERE uid = '{t}')");
    schema.run(&format!("UPDATE sl.session SET name = {name} WHERE uid = '{s}'"));
    assert!(is_damage(node.read(&key("t"), everything()).await));
}

/// A frame of one session is put into another with a header and checksums that fit there.
#[tokio::test(flavor = "multi_thread")]
async fn a_frame_with_the_header_of_another_session_is_refused() {
    let (Some(schema), Some(clear)) = (Schema::new("forged"), Schema::new("forged_clear")) else {
        return;
    };
    let node = schema.open(1, given(1, None)).await.unwrap();
    let unsealed = clear.open(1, None).await.unwrap();
    create(&unsealed, "t").await;
    append(&unsealed, &key("t"), batch([event("\"forged\"")])).await.unwrap();
    for session in ["s", "t"] {
        create(&node, session).await;
        append(&node, &key(session), batch([event(&format!("\"{session}\""))])).await.unwrap();
        schema.clock.advance(Duration::from_secs(1));
    }
    let frame = |schema: &Schema, place| {
        let uid = schema.uid(place);
        let sql = "SELECT encode(frame, 'hex') FROM sl.frame WHERE events > 0 AND session = ";
        let digits = schema.run(&format!("{sql}'{uid}'"));
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        Frame::read(0, &Bytes::from(bytes.collect::<Vec<u8>>())).unwrap()
    };
    let (from, to) = (frame(&schema, 0), frame(&schema, 1));
    let hashes: [SessionHash; 2] = [from.header.session, to.header.session];
    assert_ne!(hashes[0], hashes[1]);
    let header = |key| FrameHeader {
        length: from.header.length,
        encrypted: Some(sessionlog::log::FrameEncryption { key, ..from.header.encrypted.unwrap() }),
        ..to.header
    };
    let plain = frame(&clear, 0);
    let as_plain = FrameHeader { encrypted: None, length: plain.header.length, ..to.header };
    for (header, payload) in [
        (header(from.header.encrypted.unwrap().key), &from.payload),
        (header(to.header.encrypted.unwrap().key), &from.payload),
        (header(sessionlog::log::KeyNumber::STORE), &from.payload),
        (as_plain, &plain.payload),
    ] {
        let mut bytes = Vec::new();
        header.write(0, payload, &mut bytes);
        schema.run(&format!(
            "UPDATE sl.frame SET frame = '\\x{}' WHERE events > 0 AND session = '{}'",
            hex(&bytes),
            schema.uid(1)
        ));
        assert!(is_damage(node.read(&key("t"), everything()).await), "{header:?}");
        assert_eq!(events_of(&node, &key("s")).await.len(), 1);
    }
}

/// With the master key and an old copy of rows and frames, not of keys, nothing of an erased
/// session can be read.
#[tokio::test(flavor = "multi_thread")]
async fn the_key_of_an_erased_or_removed_session_is_gone() {
    let Some(schema) = Schema::new("erased") else { return };
    let node = schema.open(1, given(1, None)).await.unwrap();
    for session in ["s", "t"] {
        create(&node, session).await;
        append(&node, &key(session), batch([event("\"word\"")])).await.unwrap();
        schema.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(schema.run("SELECT count(*) FROM sl.key"), "3");
    schema.run("CREATE TABLE sl.kept_s AS SELECT * FROM sl.session");
    schema.run("CREATE TABLE sl.kept_f AS SELECT * FROM sl.frame");
    node.erase(&key("s")).await.unwrap();
    let discard = SessionUpdate { discard: true, ..<_>::default() };
    node.change(&key("t"), discard).await.unwrap();
    assert_eq!(schema.run("SELECT count(*) FROM sl.key"), "1");
    schema.run(
        "TRUNCATE sl.session, sl.frame; INSERT INTO sl.session SELECT * FROM sl.kept_s; INSERT \
         INTO sl.frame SELECT * FROM sl.kept_f",
    );
    for session in ["s", "t"] {
        assert!(is_damage(node.read(&key(session), everything()).await));
    }
}

/// One node rotates while the other creates, reads and appends.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_at_one_node_keeps_every_session_readable_and_needs_no_earlier_key() {
    for engine in ["in memory", "on PostgreSQL"] {
        let base = MemoryBase::default();
        let Some(schema) = Schema::new("rotated") else { return };
        let open = async |seed, keys| match engine {
            "in memory" => {
                open_node(&base, &schema.clock, Arc::new(SeededEntropy::new(seed)), keys)
            }
            _ => schema.open(seed, keys).await,
        };
        let old = open(1, given(1, None)).await.unwrap();
        for n in 0..10 {
            create(&old, &format!("old{n}")).await;
            append(&old, &key(&format!("old{n}")), batch([event("1")])).await.unwrap();
        }
        let a = open(2, given(2, Some(1))).await.unwrap();
        let refused = a.rotate_keys(3).await;
        assert!(
            matches!(&refused, Err(StoreError::ReadOnly { reason }) if reason.contains("given the key")),
            "a node without the new key runs: {refused:?}"
        );
        old.close().await;
        let b = open(3, given(2, Some(1))).await.unwrap();
        let mut made = 0;
        let report = loop {
            let report = a.rotate_keys(3).await.unwrap();
            assert!(made < 50, "{engine}: it does not end");
            let session = format!("new{made}");
            made += 1;
            create(&b, &session).await;
            append(&b, &key(&session), batch([event("1")])).await.unwrap();
            append(&b, &key("old0"), batch([event("2")])).await.unwrap();
            if report.previous.is_none() {
                break report;
            }
            let only = problem(open(4, given(1, None)).await);
            assert!(matches!(only, Some(KeyProblem::Wrong { .. })), "{engine} {only:?}");
            let only = problem(open(4, given(2, None)).await);
            assert!(matches!(only, Some(KeyProblem::Rotating { .. })), "{engine} {only:?}");
        };
        assert!(made > 4, "{engine}: {made}");
        assert_eq!((report.behind, report.unreadable, report.opens), (0, 0, true), "{report:?}");
        for node in [a, b] {
            node.close().await;
        }
        assert!(matches!(problem(open(5, given(1, None)).await), Some(KeyProblem::Wrong { .. })));
        let new = open(6, given(2, None)).await.unwrap();
        assert_eq!(new.keys().await.unwrap().unwrap().behind, 0);
        for n in 0..10 {
            let count = if n == 0 { 1 + made } else { 1 };
            assert_eq!(events_of(&new, &key(&format!("old{n}"))).await.len(), count, "{engine}");
        }
        for n in 0..made {
            assert_eq!(events_of(&new, &key(&format!("new{n}"))).await.len(), 1, "{engine}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_nonce_is_used_twice() {
    let Some(schema) = Schema::new("nonces") else { return };
    let node = schema.open(1, given(1, None)).await.unwrap();
    let (mut values, mut nonces) = (BTreeSet::new(), BTreeSet::new());
    create(&node, "s").await;
    for n in 0..20 {
        let update = SessionUpdate { title: Some(Some(format!("title {n}"))), ..<_>::default() };
        node.change(&key("s"), update).await.unwrap();
        append(&node, &key("s"), batch([named(&format!("e{n}"), "{}")])).await.unwrap();
        node.redact(&key("s"), &EventId::new(&format!("e{n}")).unwrap()).await.unwrap();
        let found = schema.run(
            "SELECT encode(entry, 'hex') || ' ' || encode(substr(entry, 1, 24), 'hex') FROM \
             sl.session UNION ALL SELECT encode(work, 'hex') || ' ' || encode(substr(work, 1, 24), \
             'hex') FROM sl.session UNION ALL SELECT encode(frame, 'hex') || ' ' || \
             encode(substr(frame, 33, 24), 'hex') FROM sl.frame",
        );
        for (value, nonce) in found.lines().filter_map(|line| line.split_once(' ')) {
            values.insert(value.to_owned());
            nonces.insert(nonce.to_owned());
        }
    }
    assert!(values.len() > 90, "{}", values.len());
    assert_eq!(values.len(), nonces.len());
}

/// A retry with other content is a conflict also where someone changed the stored digest.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_digest_of_a_batch_matches_no_content() {
    let Some(schema) = Schema::new("digest") else { return };
    let node = schema.open(1, master_keys()).await.unwrap();
    create(&node, "s").await;
    let sent = |body: &str| Batch { key: BatchKey::new("k").ok(), ..batch([event(body)]) };
    append(&node, &key("s"), sent("1")).await.unwrap();
    assert!(append(&node, &key("s"), sent("1")).await.unwrap().repeated);
    schema.run("UPDATE sl.name SET digest = set_byte(digest, 0, get_byte(digest, 0) # 1)");
    for body in ["1", "2"] {
        let again = append(&node, &key("s"), sent(body)).await;
        assert!(matches!(again, Err(StoreError::IdempotencyConflict { .. })), "{again:?}");
    }
    assert_eq!(node.find(&key("s"), &EventId::new("none").unwrap()).await.unwrap(), None);
}
