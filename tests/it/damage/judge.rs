//! Opens a damaged image twice, and checks every promise that holds despite the damage. It must not
//! know the kind of damage, only which bytes changed.

use std::collections::{BTreeMap, BTreeSet};

use sessionlog::{
    event::{Event, EventId, Position, Scope},
    store::{
        Health, Maintain, ReadRequest, Slice, Store, StoreError,
        local::{LocalStore, OpenError},
    },
};
use sessionlog_sim::Sim;

use super::image::{ERASED, FORKS, Image, SESSIONS, notes_of, options, say};
use crate::engines::{everything, key};

/// One damage: the contents of files afterwards, and its name in messages.
pub struct Damage {
    pub told: String,
    /// `None` deletes a file.
    pub changes: BTreeMap<String, Option<Vec<u8>>>,
}

/// Fate of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// Nothing is missing, and nothing was reported.
    Whole,
    /// Nothing is missing, and the damage was reported.
    Told,
    /// Some sessions have gaps.
    Degraded,
    /// It rejects writes.
    ReadOnly,
    /// It cannot be opened.
    Refused,
}

/// Returns all files of a store on its device.
fn durable_files(sim: &Sim) -> BTreeMap<String, Vec<u8>> {
    let files = sim.files().into_iter().filter(|path| path != "LOCK");
    files.filter_map(|path| Some((path.clone(), sim.read_durable(&path)?))).collect()
}

impl Image {
    /// Opens the store and checks the events that it serves.
    pub async fn check(&self, damage: &Damage) -> Fate {
        let sim = self.changed(&damage.changes);
        let mut owners = self.owners(&damage.changes);
        // Prefixes that forks read of others are lost with them.
        owners.extend(
            FORKS
                .into_iter()
                .filter(|(_, parent, _)| owners.contains(parent))
                .map(|(child, ..)| child)
                .collect::<Vec<_>>(),
        );
        let first = Start {
            image: self,
            sim: &sim,
            owners: &owners,
            witnessed: self.is_witnessed(&damage.changes),
            told: damage.told.clone(),
            last: false,
        };
        let fate = first.judge().await;
        // A reported loss must be known after a flush, too.
        let second = Start { told: format!("{}, second start", damage.told), last: true, ..first };
        let fate = fate.max(second.judge().await);
        let only = |directory: &str| damage.changes.keys().all(|path| path.starts_with(directory));
        let one = damage.changes.len() == 1;
        let spared = |(path, new): (&String, &Option<Vec<u8>>)| {
            let new = new.as_deref().unwrap_or_default();
            new.len() == self.files[path].len() && !self.is_headless(path, new) && path != "STORE"
        };
        if owners.is_empty() && damage.changes.iter().all(spared) {
            assert!(fate < Fate::ReadOnly, "{}: of nobody, and yet {fate:?}", damage.told);
        }
        if only("segments/") || one && (only("settled/") || only("keys/")) {
            assert!(fate < Fate::ReadOnly, "{}: {fate:?}", damage.told);
        }
        fate
    }
}

/// Missing parts of a session.
#[derive(Default)]
struct Lacks {
    positions: BTreeSet<u64>,
    /// The session itself rejects events; otherwise it is a fork of one that does.
    own: bool,
}

struct Start<'a> {
    image: &'a Image,
    sim: &'a Sim,
    owners: &'a BTreeSet<&'static str>,
    /// True if the directory shows the loss.
    witnessed: bool,
    told: String,
    /// No start follows: it may be written to.
    last: bool,
}

impl Start<'_> {
    async fn judge(&self) -> Fate {
        let told = &self.told;
        let before = durable_files(self.sim);
        let store = match LocalStore::open_local(&self.sim.env(), options()) {
            Ok(store) => store,
            Err(OpenError::Damaged { .. } | OpenError::Newer { .. } | OpenError::Key { .. }) => {
                let after = durable_files(self.sim);
                let same = |(path, bytes): (&String, &Vec<u8>)| after.get(path) == Some(bytes);
                assert!(before.iter().all(same), "{told}: a start that refuses changed a file");
                return Fate::Refused;
            }
            Err(other) => panic!("{told}: {other}"),
        };
        let frozen = store.health() != Health::Ready;
        assert!(!frozen || !store.recovery().damage.is_empty(), "{told}: nobody says why");
        let mut hurt = BTreeSet::new();
        let mut missing = BTreeMap::new();
        for session in SESSIONS {
            let lacks = self.session(&store, session, frozen).await;
            hurt.extend(lacks.is_some().then_some(session));
            missing.insert(session, lacks.unwrap_or_default());
        }
        self.erased(&store).await;
        self.forks(&hurt, &missing);
        let by = hurt.iter().find(|session| !self.owners.contains(**session));
        assert_eq!(by, None, "{told}: a session is hurt that the damage is not of");
        self.verified(&store, &hurt, frozen).await;
        for session in SESSIONS {
            self.written(&store, session, missing[session].own, frozen).await;
        }
        let _ = store.flush();
        let said = !store.recovery().damage.is_empty();
        drop(store);
        let after = durable_files(self.sim);
        for (path, bytes) in &before {
            let now = after.get(path);
            assert!(now.is_some(), "{told}: {path} was deleted");
            let kept = path.starts_with("segments/") || path == "STORE";
            assert!(!kept || now == Some(bytes), "{told}: {path} was written to");
        }
        match (frozen, hurt.is_empty(), said) {
            (true, ..) => Fate::ReadOnly,
            (_, false, _) => Fate::Degraded,
            (_, true, true) => Fate::Told,
            _ => Fate::Whole,
        }
    }

    /// Reads a session in every way; returns the missing positions, if any.
    async fn session(&self, store: &LocalStore, session: &str, frozen: bool) -> Option<Lacks> {
        let (told, expected) = (&self.told, &self.image.events[session]);
        let silent = |what: &str| assert!(frozen || !self.witnessed, "{told}: {session} {what}");
        let Ok(info) = store.info(&key(session)).await else {
            silent("is gone without a word");
            return Some(Lacks { positions: (0..expected.len() as u64).collect(), own: true });
        };
        let end = info.tail.0 as usize;
        assert!(end <= expected.len(), "{told}: {session} has events that nobody wrote");
        if end < expected.len() {
            silent(&format!("ends at {end} without a word"));
        }
        // First, because a read would report its findings.
        let notes = match notes_of(store, session).await {
            Err(StoreError::SessionDamaged { .. }) => Vec::new(),
            notes => notes.unwrap_or_else(|error| panic!("{told}: {session}: {error}")),
        };
        let known = &self.image.notes[session];
        assert!(notes.iter().all(|note| known.contains(note)), "{told}: a note nobody wrote");
        let same = notes == *known && info.work == self.image.work[session];
        if !same && store.info(&key(session)).await.unwrap().damage.is_empty() {
            silent("lacks notes or a lease without a word");
        }
        let strict = match store.read(&key(session), everything()).await {
            Ok(slice) => {
                assert!(slice.events == expected[..end], "{told}: {session} is served with gaps");
                true
            }
            Err(StoreError::SessionDamaged { gaps, .. }) => {
                assert!(!gaps.is_empty(), "{told}: {session} is damaged nowhere");
                false
            }
            Err(other) => panic!("{told}: {session}: {other}"),
        };
        let lenient = ReadRequest { allow_gaps: true, ..everything() };
        let slice = store.read(&key(session), lenient).await;
        let slice = slice.unwrap_or_else(|error| panic!("{told}: {session}: {error}"));
        let mut missing = self.gaps(session, &slice, expected, end);
        assert_eq!(strict, missing.is_empty(), "{told}: {session} is refused where it is whole");
        missing.extend(end as u64..expected.len() as u64);
        let damaged = !store.info(&key(session)).await.unwrap().damage.is_empty();
        assert!(
            missing.is_empty()
                || damaged
                || frozen
                || end < expected.len()
                || self.inherits(session),
            "{told}: {session} calls itself whole"
        );
        let whole = missing.is_empty() && !damaged && same;
        if !same && !damaged {
            silent("lacks notes or a lease without a word");
        }
        self.found(store, session, whole).await;
        (!whole).then_some(Lacks { positions: missing, own: damaged })
    }

    fn inherits(&self, session: &str) -> bool {
        FORKS.iter().any(|(child, ..)| *child == session)
    }

    /// Returns the positions below `end` that are not served; each must be in a gap.
    fn gaps(&self, session: &str, slice: &Slice, expected: &[Event], end: usize) -> BTreeSet<u64> {
        let told = &self.told;
        let mut missing: BTreeSet<u64> = (0..end as u64).collect();
        for event in &slice.events {
            let place = event.position.0;
            assert_eq!(Some(event), expected.get(place as usize), "{told}: {session}");
            assert!(missing.remove(&place), "{told}: {session} has {place} twice");
        }
        for place in &missing {
            let named =
                slice.gaps.iter().any(|gap| (gap.range.from.0..gap.range.to.0).contains(place));
            assert!(named, "{told}: {session} lacks {place} and no gap says so: {:?}", slice.gaps);
        }
        missing
    }

    /// Reads events by their ids.
    async fn found(&self, store: &LocalStore, session: &str, whole: bool) {
        for event in self.image.events[session].iter().step_by(7) {
            let found = store.find(&key(session), &EventId::new(event.id.as_str()).unwrap()).await;
            match found {
                Ok(Some(place)) => assert_eq!(place, event.position, "{}: {session}", self.told),
                _ => assert!(!whole, "{}: {session}: {} is {found:?}", self.told, event.id),
            }
        }
    }

    async fn erased(&self, store: &LocalStore) {
        let lenient = ReadRequest { allow_gaps: true, ..everything() };
        let served = store.read(&key(ERASED), lenient).await;
        assert!(served.is_err(), "{}: an erased session is served: {served:?}", self.told);
    }

    /// Checks that a fork is missing exactly the part of its prefix that its parent is missing.
    fn forks(&self, hurt: &BTreeSet<&str>, missing: &BTreeMap<&str, Lacks>) {
        for (child, parent, at) in FORKS {
            let below =
                |session: &str| missing[session].positions.range(..at).copied().collect::<Vec<_>>();
            let gone = missing[child].positions.len() == self.image.events[child].len();
            if !gone && hurt.contains(child) | hurt.contains(parent) {
                assert_eq!(below(child), below(parent), "{}: {child} of {parent}", self.told);
            }
        }
    }

    /// Checks that a verification reports the same.
    async fn verified(&self, store: &LocalStore, hurt: &BTreeSet<&'static str>, frozen: bool) {
        let verified = store.verify(&Scope::local(), None).await.unwrap();
        let said: BTreeSet<&str> =
            verified.damage.iter().map(|(session, _)| session.session.as_str()).collect();
        for session in SESSIONS {
            let right = said.contains(session) == hurt.contains(session);
            let known = frozen || !self.witnessed || self.inherits(session);
            assert!(right || known, "{}: of {session} a verification says {said:?}", self.told);
        }
    }

    /// Checks in the last start that intact sessions accept events, and damaged ones do not.
    async fn written(&self, store: &LocalStore, session: &str, damaged: bool, frozen: bool) {
        if !(self.last || damaged || frozen) {
            return;
        }
        let told = &self.told;
        let tail = Position(self.image.events[session].len() as u64);
        match say(store, session, &["{}".to_owned()]).await {
            Ok(appended) => {
                assert!(!damaged && !frozen, "{told}: {session} is written on");
                assert!(appended.first_position == tail || !self.witnessed, "{told}: {session}");
            }
            Err(error) => assert!(damaged || frozen, "{told}: {session} takes nothing: {error}"),
        }
    }
}
