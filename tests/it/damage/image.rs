//! A small store as its device has it after a power failure, and the owner of each byte: sealed and
//! open segments, forks, a journal with a recycled file, both settled files, notes, a lease,
//! redacted and erased events; in plaintext, or with a rotated master key. It must not judge
//! damage.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    time::Duration,
};

use bytes::Bytes;
use sessionlog::{
    env::{MasterKeys, secrets::Secret},
    event::{Batch, Event, EventId, Fence, Lsn, NewNote, Note, NoteKind, SessionHash},
    log::{
        FrameKind,
        journal::JournalHeader,
        scan::{ScanPiece, scan},
    },
    store::{
        AppendResult, LeaseCall, Maintain, NotesQuery, Store, StoreResult, WorkState,
        local::{LocalStore, StoreOptions},
    },
};
use sessionlog_sim::Sim;

use crate::{
    engines::{append, batch, create, event, events_of, key, named, small},
    forks::fork,
};

/// Sessions that return events, each after those it reads from.
pub const SESSIONS: [&str; 5] = ["sealed", "open", "journal", "fork", "young"];
/// Each fork, its parent and its position.
pub const FORKS: [(&str, &str, u64); 2] = [("fork", "sealed", 12), ("young", "journal", 2)];
/// The erased session.
pub const ERASED: &str = "erased";
/// Byte offset of the first frame in a journal file.
const FRAMES_AT: usize = 8192;
const SLOT_BYTES: usize = 128;

/// Contents of a device when its power failed, and the acknowledged events.
pub struct Image {
    pub files: BTreeMap<String, Vec<u8>>,
    pub events: BTreeMap<&'static str, Vec<Event>>,
    pub notes: BTreeMap<&'static str, Vec<Note>>,
    /// Leases and notes.
    pub work: BTreeMap<&'static str, WorkState>,
    /// Earlier contents of files, the oldest first.
    pub older: Vec<BTreeMap<String, Vec<u8>>>,
    /// The journal file written to last; it was used before.
    pub last: String,
    encrypted: bool,
    /// Byte ranges of frames in journal files, by session.
    frames: BTreeMap<String, Vec<(Range<usize>, &'static str)>>,
    names: BTreeMap<SessionHash, &'static str>,
    keys: BTreeMap<u64, &'static str>,
}

/// Returns small limits, so that every byte can be damaged.
pub fn options() -> StoreOptions {
    StoreOptions {
        journal_file_bytes: 16 << 10,
        journal_retained_bytes: 64 << 10,
        segment_bytes_max: 4 << 10,
        ..small()
    }
}

fn master(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

fn body(n: u32) -> String {
    format!("{{\"n\":{n},\"text\":\"{}\"}}", "lorem ipsum ".repeat(16))
}

fn checkpoint(name: &str) -> NewNote {
    let body = Bytes::from_static(b"{}");
    NewNote {
        kind: NoteKind::Checkpoint,
        name: name.to_owned(),
        position: None,
        body,
        idle: false,
        if_notes: None,
    }
}

/// Appends to a session, with the token of its lease if it has one.
pub async fn say(store: &dyn Store, session: &str, bodies: &[String]) -> StoreResult<AppendResult> {
    let fence = store.info(&key(session)).await?.work.fence;
    let sent = batch(bodies.iter().map(|body| event(body)));
    let fence = (fence > Fence(0)).then_some(fence);
    append(store, &key(session), Batch { fence, ..sent }).await
}

pub async fn notes_of(store: &dyn Store, session: &str) -> StoreResult<Vec<Note>> {
    let all = NotesQuery { after: Lsn(0), notes_max: usize::MAX, bytes_max: usize::MAX };
    store.notes(&key(session), all).await
}

/// Returns the header of a journal file, and its frames with the salt of its current use.
pub fn used(bytes: &[u8]) -> Option<JournalHeader> {
    JournalHeader::decode(bytes).ok()
}

/// Returns the complete frames with a salt: the range, the session, and its key number.
pub fn frames(salt: u64, bytes: &[u8]) -> Vec<(Range<usize>, SessionHash, u64)> {
    let region = Bytes::copy_from_slice(&bytes[FRAMES_AT..]);
    let pieces = scan(salt, &region, FRAMES_AT as u64).pieces;
    let whole = pieces.into_iter().filter_map(|piece| match piece {
        ScanPiece::Frame { byte_offset, frame } if frame.header.kind == FrameKind::Request => {
            let from = byte_offset as usize;
            let key = frame.header.encrypted.map_or(0, |encrypted| encrypted.key.0);
            Some((from..from + frame.header.stride() as usize, frame.header.session, key))
        }
        _ => None,
    });
    whole.collect()
}

/// A machine on which an image is built.
struct Making {
    sim: Sim,
    store: LocalStore,
    older: Vec<BTreeMap<String, Vec<u8>>>,
    names: BTreeMap<SessionHash, &'static str>,
    keys: BTreeMap<u64, &'static str>,
}

fn durable_files(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let files = sim.files().into_iter().filter(|path| path != "LOCK");
    files.filter_map(|path| Some((path.clone(), sim.read_durable(&path)?))).collect()
}

fn journals(files: &BTreeMap<String, Vec<u8>>) -> impl Iterator<Item = (&String, &Vec<u8>)> {
    files.iter().filter(|(path, _)| path.starts_with("journal/"))
}

impl Making {
    /// Records the session created last: no other session wrote to the journal.
    fn record_name(&mut self, name: &'static str) {
        for (_, bytes) in journals(&durable_files(&self.sim)) {
            let Some(header) = used(bytes) else { continue };
            for (_, session, key) in frames(header.salt, bytes) {
                if *self.names.entry(session).or_insert(name) == name && key > 0 {
                    self.keys.insert(key, name);
                }
            }
        }
    }

    async fn create(&mut self, name: &'static str) {
        create(&self.store, name).await;
        self.record_name(name);
    }

    async fn fork(&mut self, name: &'static str) {
        let (_, parent, at) = FORKS.into_iter().find(|(child, ..)| *child == name).unwrap();
        fork(&self.store, parent, at, name).await.unwrap();
        self.record_name(name);
    }

    async fn say(&self, session: &str, bodies: &[String]) {
        say(&self.store, session, bodies).await.unwrap();
    }

    async fn note(&self, session: &str, name: &str) {
        self.store.write_note(&key(session), None, checkpoint(name)).await.unwrap();
    }

    fn flush(&mut self) {
        self.store.flush().unwrap();
        self.older.push(durable_files(&self.sim));
    }

    /// Returns the number of the current journal file, if it was used before.
    fn recycled(&self) -> Option<String> {
        let files = durable_files(&self.sim);
        recycled(&files, &self.older)
    }

    async fn restart(&mut self, encrypted: bool) {
        self.store.close().await;
        self.older.push(durable_files(&self.sim));
        if encrypted {
            let keys = MasterKeys { current: master(2), previous: Some(master(1)) };
            self.sim.set_keys(Some(keys));
        }
        self.sim.kill();
        self.store = LocalStore::open_local(&self.sim.env(), options()).unwrap();
        if encrypted {
            while self.store.rotate_keys(9).await.unwrap().previous.is_some() {
                self.older.push(durable_files(&self.sim));
            }
        }
    }
}

/// Returns the youngest journal file, if complete frames of an earlier use follow its own.
fn recycled(
    files: &BTreeMap<String, Vec<u8>>,
    older: &[BTreeMap<String, Vec<u8>>],
) -> Option<String> {
    let order = |bytes: &[u8]| used(bytes).map_or(0, |header| header.order);
    let (path, bytes) = journals(files).max_by_key(|(_, bytes)| order(bytes))?;
    let own = used(bytes)?;
    let end = frames(own.salt, bytes).last().map_or(FRAMES_AT, |(place, ..)| place.end);
    let salts = older.iter().filter_map(|files| used(files.get(path)?)).map(|header| header.salt);
    let behind = |salt| frames(salt, bytes).iter().any(|(place, ..)| place.start >= end);
    salts.filter(|salt| *salt != own.salt).any(behind).then(|| path.clone())
}

impl Image {
    /// Builds an image.
    pub async fn of(seed: u64, encrypted: bool) -> Self {
        let sim = Sim::new(seed);
        let keys = MasterKeys { current: master(1), previous: None };
        sim.set_keys(encrypted.then_some(keys));
        let store = LocalStore::open_local(&sim.env(), options()).unwrap();
        let (older, names, keys) = <(Vec<_>, BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        let mut making = Making { sim, store, older, names, keys };
        for name in ["sealed", "open", ERASED] {
            making.create(name).await;
        }
        for n in 0..32_u32 {
            let sent = batch([named(&format!("e{n}"), &body(n))]);
            append(&making.store, &key("sealed"), sent).await.unwrap();
            if n % 6 == 0 {
                making.say("open", &[body(n), "{}".to_owned()]).await;
                making.say(ERASED, &[body(n)]).await;
                making.note("open", &format!("note {n}")).await;
            }
            if n == 15 {
                making.fork("fork").await;
                making.say("fork", &["\"of a fork\"".to_owned(), body(n)]).await;
            }
            if n % 8 == 7 {
                making.flush();
            }
        }
        let redacted = EventId::new("e5").unwrap();
        making.store.redact(&key("sealed"), &redacted).await.unwrap();
        making.store.erase(&key(ERASED)).await.unwrap();
        making.flush();
        making.restart(encrypted).await;
        for n in 0..200 {
            making.say("open", &[body(n)]).await;
            making.flush();
            if making.recycled().is_some() {
                break;
            }
        }
        making.create_unflushed().await;
        making.image(encrypted).await
    }

    fn machine(&self) -> Sim {
        let sim = Sim::new(1);
        let keys = MasterKeys { current: master(2), previous: None };
        sim.set_keys(self.encrypted.then_some(keys));
        sim
    }

    /// Returns a machine with other content of some files; `None` deletes one.
    pub fn changed(&self, changes: &BTreeMap<String, Option<Vec<u8>>>) -> Sim {
        let sim = self.machine();
        for (path, bytes) in &self.files {
            if let Some(bytes) = changes.get(path).unwrap_or(&Some(bytes.clone())) {
                sim.write_durable(path, 0, bytes);
            }
        }
        sim
    }

    /// Returns true if the directory shows the loss. The last frames of the journal's last file are
    /// not covered if every byte written after them is changed too, in more than one range:
    /// docs/guarantees.md, G6, the two windows.
    pub fn is_witnessed(&self, changes: &BTreeMap<String, Option<Vec<u8>>>) -> bool {
        let old = &self.files[&self.last];
        let Some(Some(new)) = changes.get(&self.last) else { return true };
        // Like a file that was never used.
        let empty = |at: &usize| new.get(*at..*at + 192) == Some(&[0; 192]);
        if used(new).is_none() && [0, 4096].iter().any(empty) {
            return false;
        }
        let sectors = old.chunks(512).zip(new.chunks(512)).filter(|(old, new)| old != new).count();
        if new.len() < old.len() || sectors < 2 {
            return true;
        }
        let first = old.iter().zip(new).position(|(old, new)| old != new).unwrap_or(old.len());
        let salt = used(old).unwrap().salt;
        let pieces =
            scan(salt, &Bytes::copy_from_slice(&new[FRAMES_AT..]), FRAMES_AT as u64).pieces;
        let behind = |piece: &ScanPiece| match piece {
            ScanPiece::Frame { byte_offset, .. } => *byte_offset as usize >= first,
            ScanPiece::Bad { .. } => false,
        };
        pieces.iter().any(behind)
    }

    /// Returns the sessions with frames in the two journal files written to last.
    pub fn unflushed(&self) -> BTreeSet<&'static str> {
        let order = |path: &str| used(&self.files[path]).map(|header| header.order);
        let mut files: Vec<&String> = self.frames.keys().collect();
        files.sort_by_key(|path| order(path));
        let last = files.into_iter().rev().take(2).flat_map(|path| &self.frames[path]);
        last.map(|(_, name)| *name).collect()
    }

    /// Returns the hash of a session.
    pub fn hash(&self, session: &str) -> String {
        let known = self.names.iter().find(|(_, name)| **name == session);
        known.map(|(hash, _)| hash.to_string()).unwrap()
    }

    /// Returns true if the store reads this segment: false for one that a sealed segment replaced.
    pub fn is_live_segment(&self, path: &str) -> bool {
        let replaced = |other: &String| {
            // <hash>-<base>-<start>.seg
            let stem = path.len() - ".seg".len() - "-0000000000".len();
            other.ends_with(".sealed") && other.get(..stem) == path.get(..stem)
        };
        let open = path.ends_with(".seg");
        path.starts_with("segments/") && !(open && self.files.keys().any(replaced))
    }

    /// Returns the sessions that these changes may damage, except through prefixes of forks.
    pub fn owners(&self, changes: &BTreeMap<String, Option<Vec<u8>>>) -> BTreeSet<&'static str> {
        let mut owners = BTreeSet::new();
        for (path, new) in changes {
            let old = &self.files[path];
            let differ = |place: &Range<usize>| {
                let new = new.as_deref().unwrap_or_default();
                new.get(place.clone()) != old.get(place.clone())
            };
            if let Some(name) = path.strip_prefix("segments/") {
                let owner =
                    self.names.iter().find(|(hash, _)| name[3..].starts_with(&hash.to_string()));
                owners.extend(owner.map(|(_, name)| *name));
            }
            let frames = self.frames.get(path).into_iter().flatten();
            let headless = self.is_headless(path, new.as_deref().unwrap_or_default());
            owners.extend(
                frames.filter(|(place, _)| headless || differ(place)).map(|(_, name)| *name),
            );
        }
        let both =
            |one: &str, other: &str| changes.contains_key(one) && changes.contains_key(other);
        if both("settled/0", "settled/1") {
            owners.extend(SESSIONS);
        }
        if both("keys/0", "keys/1") {
            owners.extend(
                self.keys
                    .iter()
                    .filter(|(key, _)| self.is_lost(**key, changes))
                    .map(|(_, name)| *name),
            );
        }
        owners
    }

    /// Returns true if a journal file has no copy of its header, or one of another file.
    pub fn is_headless(&self, path: &str, new: &[u8]) -> bool {
        if !path.starts_with("journal/") {
            return false;
        }
        let copies = |bytes: &[u8]| [0, 4096].map(|at| bytes.get(at..).and_then(used));
        let own = used(&self.files[path]);
        let new = copies(new);
        own.is_some() && (!new.contains(&own) || new.iter().flatten().any(|one| Some(*one) != own))
    }

    /// Returns true if neither keys file has that key unchanged.
    fn is_lost(&self, key: u64, changes: &BTreeMap<String, Option<Vec<u8>>>) -> bool {
        let slot = key as usize * SLOT_BYTES..(key as usize + 1) * SLOT_BYTES;
        ["keys/0", "keys/1"].into_iter().all(|path| {
            let new = changes[path].as_deref().unwrap_or_default();
            [0..SLOT_BYTES, slot.clone()]
                .into_iter()
                .any(|place| new.get(place.clone()) != self.files[path].get(place))
        })
    }
}

impl Making {
    /// Creates sessions that are in no segment when the power fails.
    async fn create_unflushed(&mut self) {
        let ttl = Duration::from_secs(60);
        self.create("journal").await;
        for n in 0..4_u32 {
            self.say("journal", &[format!("{{\"late\":{n}}}"), body(n)]).await;
            self.say("open", &[body(n)]).await;
            if n == 1 {
                self.fork("young").await;
                let take = LeaseCall::Take { steal: false, ttl, key: None };
                self.store.lease(&key("journal"), take).await.unwrap();
            }
            if n > 0 {
                self.say("young", &[format!("{{\"young\":{n}}}")]).await;
                self.say("fork", &[format!("{{\"fork\":{n}}}")]).await;
            }
        }
        for session in ["journal", "young", "fork", "open"].into_iter().cycle() {
            self.say(session, &["\"last\"".to_owned()]).await;
            if self.is_witnessed() {
                break;
            }
        }
    }

    /// Returns true if the last journal file has frames of some, and space for a watermark.
    fn is_witnessed(&self) -> bool {
        let files = durable_files(&self.sim);
        let last = journals(&files).filter_map(|(_, bytes)| Some((used(bytes)?, bytes)));
        let (header, bytes) = last.max_by_key(|(header, _)| header.order).unwrap();
        let frames = frames(header.salt, bytes);
        let end = frames.last().map_or(0, |(place, ..)| place.end);
        frames.len() > 5 && end.next_multiple_of(4096) < bytes.len()
    }

    async fn image(self, encrypted: bool) -> Image {
        self.store.write_idle_watermark();
        let (mut events, mut notes, mut work) =
            <(BTreeMap<_, _>, BTreeMap<_, _>, BTreeMap<_, _>)>::default();
        for session in SESSIONS {
            work.insert(session, self.store.info(&key(session)).await.unwrap().work);
            events.insert(session, events_of(&self.store, &key(session)).await);
            notes.insert(session, notes_of(&self.store, session).await.unwrap());
        }
        let Self { sim, store, older, names, keys } = self;
        sim.power_loss();
        drop(store);
        let files = durable_files(&sim);
        let whose = |(path, bytes): (&String, &Vec<u8>)| {
            let frames = frames(used(bytes)?.salt, bytes).into_iter();
            let frames = frames.map(|(place, session, _)| (place, names[&session]));
            Some((path.clone(), frames.collect()))
        };
        let frames = journals(&files).filter_map(whose).collect();
        let last = recycled(&files, &older).expect("the last file was used before");
        Image { files, events, notes, work, older, last, encrypted, frames, names, keys }
    }
}
