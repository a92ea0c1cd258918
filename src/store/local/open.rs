//! Opening a data directory after any stop: lock, identity, settled files, journal, catalogue. It
//! reads segments only to recover losses. It must not write events, settled files or journal files.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::{
    catalogue::{
        ByHash, Catalogue, CatalogueBuilder,
        backlog::Backlog,
        oldest_live_key_time,
        sessions::Sessions,
        slots::{SettledFiles, SettledState},
    },
    commit::CommitPath,
    context::EngineContext,
    derived::DerivedFiles,
    journal::{
        Journal, JournalResume,
        recover::{LostRecords, RecoveredJournal, recover},
    },
    keys::EngineKeys,
    layout::{self, open_error},
    options::{OpenError, StoreOptions},
    rank,
    recovery::recover_lost,
    removal::{Removal, RetryPause},
    segments::{Segments, pins::Pins, read_cache::ReadCache},
    session::{
        EntryState, LoadedSession,
        forks::{self, Births, Forks, FoundFork},
    },
    upkeep::{UnresolvedLosses, Upkeep},
    wait::ThreadSignal,
};
use crate::{
    env::{
        Env, Lock,
        sync::{Mutex, atomic::AtomicBool},
    },
    event::{Lsn, Position, Range, SessionHash, SessionKey, Timestamp},
    log::{
        Control, CreateRecord, Entry, Fault, Frame, FrameHeader, KeyNumber, LogError, Record,
        StoreFile,
    },
    store::{
        Recovery, ScrubResult,
        lifetime::LifetimeClock,
        rules::{FrameEffect, apply},
    },
};

/// Takes the lock of the data directory.
pub(super) fn acquire_lock(env: &Env) -> Result<Box<dyn Lock>, OpenError> {
    let locked = env.storage.lock().map_err(open_error("locking the data directory"))?;
    locked.ok_or(OpenError::Owned)
}

/// Opens the data directory, whose lock is held, as the given store; `derived` is true if it has a
/// directory of derived files.
pub(super) fn open(
    env: &Env,
    options: StoreOptions,
    store: StoreFile,
    derived: bool,
) -> Result<Upkeep, OpenError> {
    let began = env.clock.monotonic();
    let keys = EngineKeys::open(env, &store)?;
    layout::sync_directories(env).map_err(open_error("making the names of the store durable"))?;
    let SettledCatalogue { mut catalogue, mut slots, found, mut deleted, mut unfinished, births } =
        read_settled(env, store.id, &keys)?;
    let mut recovered = recover(env, store.id, found.place, found.clean)?;
    let mut known = load_named_sessions(&mut catalogue, &recovered);
    let bad = recovered.lost.len();
    let mut refused = recover_journal(env, (store.id, &keys), &known, &mut recovered);
    let mut recovery = journal_report(&recovered, found.clean, bad);
    let count = resume_count(env, &found);
    let counted = count.now(&*env.clock);
    unfinished.extend(apply_tombstones(&mut known, &keys, &recovered, counted)?);
    let [dirty, touched] =
        replay(&mut known, &keys, &recovered, counted, &mut recovery, &mut refused)?;
    unfinished
        .extend(known.values().filter(|one| one.state().entry.has_pending_redaction()).cloned());
    recovered.place.lsn = next_lsn_of(&known, &recovered, bad);
    let forks = collect_forks(births, &known, &mut deleted)?;
    insert_sessions(known, &mut catalogue, &mut slots);
    let resume = journal_resume_state(found.start, &mut recovered);
    let journal = Journal::new(env.clone(), options, store.id, resume);
    journal.recycle(slots.recyclable_before().order);
    refused.unnamed.first().iter().for_each(|what| journal.refuse(&loss_message(what)));
    complete_report(&mut recovery, env, catalogue.len(), began);
    let context = Arc::new(EngineContext {
        env: env.clone(),
        options,
        store,
        keys,
        count,
        closed: AtomicBool::new(false),
        frozen: AtomicBool::new(!refused.unnamed.is_empty()),
    });
    let backlog = Backlog::new(dirty, touched, unfinished.clone());
    let of_sessions = Arc::clone(&context);
    let sessions = Sessions::new(of_sessions, journal, (catalogue, slots), forks, backlog);
    let sessions = Arc::new(sessions);
    deleted.iter().for_each(|session| sessions.schedule_reclaim(session));
    unfinished.iter().for_each(|session| sessions.queue_erasure(session));
    // No flush names a location after a tombstone before `settled/` has its effect.
    unfinished.iter().for_each(|session| _ = sessions.drop_discarded(session));
    let derived_files = Arc::new(DerivedFiles::new(&context, &sessions, derived));
    if let Err(error) = derived_files.read_names() {
        tracing::warn!(%error, "derived/ could not be read; it is read later");
    }
    Ok(assemble_parts(context, (sessions, derived_files), recovered.order_max, refused, recovery))
}

/// Creates the parts of the engine above its sessions.
fn assemble_parts(
    context: Arc<EngineContext>,
    (sessions, derived_files): (Arc<Sessions>, Arc<DerivedFiles>),
    orders_before: u64,
    refused: UnresolvedLosses,
    recovery: Recovery,
) -> Upkeep {
    let segments = Arc::new(Segments {
        context: Arc::clone(&context),
        sessions: Arc::clone(&sessions),
        derived_files,
        flushing: Mutex::new(rank::FLUSHING, ()),
        directories: Mutex::new(rank::LAST, HashSet::new()),
        place_written: Mutex::new(rank::PLACE_WRITTEN, 0),
        sync_each: AtomicBool::new(false),
        read_cache: ReadCache::new(context.options.warm_bytes_max),
        pins: Pins::new(),
        orders_before,
    });
    let removal = Arc::new(Removal {
        context: Arc::clone(&context),
        sessions: Arc::clone(&sessions),
        segments: Arc::clone(&segments),
        turn: Mutex::new(rank::TURN, ()),
        pause: Mutex::new(rank::PAUSE, RetryPause::default()),
    });
    let commit = Arc::new(CommitPath {
        context: Arc::clone(&context),
        sessions: Arc::clone(&sessions),
        segments: Arc::clone(&segments),
        removal: Arc::clone(&removal),
        relief: Mutex::new(rank::RELIEF, ()),
        holds: tokio::sync::Mutex::default(),
    });
    Upkeep {
        context,
        sessions,
        segments,
        removal,
        commit,
        looked_to: Mutex::new(rank::ROUNDS, None),
        swept_to: Mutex::new(rank::ROUNDS, None),
        scrubber: ThreadSignal::new(),
        scrubbed: Mutex::new(rank::LAST, ScrubResult::default()),
        repairing: Mutex::new(rank::REPAIRING, ()),
        refused: Mutex::new(rank::LAST, refused),
        recovery,
    }
}

/// Returns the report on the journal before its replay; `bad` losses existed before recovery.
fn journal_report(recovered: &RecoveredJournal, clean: bool, bad: usize) -> Recovery {
    Recovery {
        made_good: bad.saturating_sub(recovered.lost.len()) as u64,
        clean: clean && recovered.frames.is_empty() && recovered.lost.is_empty(),
        frames_replayed: recovered.frames.len() as u64,
        torn_bytes: recovered.torn_bytes,
        ..Recovery::default()
    }
}

/// Completes the report at the end of a start.
fn complete_report(recovery: &mut Recovery, env: &Env, sessions: usize, began: Duration) {
    let micros = env.clock.monotonic().saturating_sub(began).as_micros();
    recovery.sessions = sessions as u64;
    recovery.quarantined = layout::list_quarantined(env);
    recovery.micros = u64::try_from(micros).unwrap_or(u64::MAX);
}

/// Returns the next log sequence number: after a loss, records elsewhere may have higher numbers
/// than the journal shows, and no number is reused.
fn next_lsn_of(known: &ByHash, recovered: &RecoveredJournal, bad: usize) -> Lsn {
    if bad == 0 {
        return recovered.place.lsn;
    }
    let settled = known.values().map(|session| Lsn(session.state().entry.end_lsn));
    let found = recovered.frames.values().map(|frame| frame.header.lsn_range().1);
    settled.chain(found).fold(recovered.place.lsn, Lsn::max)
}

/// Returns the state from which the journal continues. `start` is the latest start that `settled/`
/// knows; the higher of it and the journal's is used.
fn journal_resume_state(start: u64, recovered: &mut RecoveredJournal) -> JournalResume {
    JournalResume {
        place: recovered.place,
        order: recovered.order_max,
        start: start.max(recovered.start_max),
        ring: std::mem::take(&mut recovered.ring),
    }
}

/// Returns the sessions that forks need, including forks that only the journal has. Keeps in
/// `deleted` only the sessions whose files may be removed.
fn collect_forks(
    mut births: Births,
    known: &ByHash,
    deleted: &mut Vec<Arc<LoadedSession>>,
) -> Result<Forks, OpenError> {
    births.extend(
        known.values().filter_map(|one| FoundFork::from_entry(&one.key, &one.state().entry)),
    );
    if let Some(session) = forks::find_cycle(&births) {
        return Err(OpenError::Damaged { what: format!("session {session} is a fork of itself") });
    }
    let forks = Forks::from_births(&births);
    deleted.retain(|one| one.lock_for_forks().is_none() || !forks.has_forks(one.hash));
    Ok(forks)
}

/// Loads the sessions that the journal may name.
fn load_named_sessions(catalogue: &mut Catalogue, recovered: &RecoveredJournal) -> ByHash {
    if recovered.lost.is_empty() {
        let named = recovered.frames.values().map(|frame| frame.header.session).collect();
        return catalogue.load_by_hash(Some(&named));
    }
    // Frames that replace losses may be of any session.
    catalogue.load_by_hash(None)
}

/// Returns the reason why the store accepts no writes.
fn loss_message(what: &str) -> String {
    format!(
        "acknowledged records are lost and name no session: {what}; keep a copy, then run \
         `sessionlog repair --whole-store --accept-loss`"
    )
}

/// Recovers the journal's losses from segments, and copies the damaged ranges of the rest.
fn recover_journal(
    env: &Env,
    store: ([u8; 16], &EngineKeys),
    known: &ByHash,
    recovered: &mut RecoveredJournal,
) -> UnresolvedLosses {
    recovered.lost.retain(|lost| !is_loss_flushed(known, lost));
    recover_lost(env, store, known, recovered);
    let mut refused = UnresolvedLosses::default();
    if !recovered.lost.is_empty() {
        refused.copies.append(&mut recovered.bad);
    }
    for (name, bytes) in &refused.copies {
        let reason = "a place of the journal where acknowledged frames were\n";
        layout::quarantine(env, name, bytes, reason);
    }
    refused
}

/// Inserts the sessions that the journal names in the catalogue. A reclaimed one is replaced by a
/// newer one with its id, and not flushed any more: its entry would replace that of the newer one.
fn insert_sessions(known: ByHash, catalogue: &mut Catalogue, slots: &mut SettledFiles) {
    let (gone, living): (Vec<_>, Vec<_>) =
        known.into_values().partition(|session| session.state().entry.stage.is_reclaimed());
    for session in gone.into_iter().chain(living) {
        if let Some(before) = catalogue.insert(session) {
            slots.unmark(before);
        }
    }
}

/// State read from the settled files.
struct SettledCatalogue {
    catalogue: Catalogue,
    slots: SettledFiles,
    found: SettledState,
    /// Discarded sessions whose files are not all unlinked.
    deleted: Vec<Arc<LoadedSession>>,
    /// Sessions with an unfinished erasure or redaction.
    unfinished: Vec<Arc<LoadedSession>>,
    births: Births,
}

fn read_settled(
    env: &Env,
    store: [u8; 16],
    keys: &EngineKeys,
) -> Result<SettledCatalogue, OpenError> {
    let mut catalogue = CatalogueBuilder::default();
    let (mut differing, mut nameless) = (Vec::new(), false);
    let (mut deleted, mut unfinished, mut births) = (Vec::new(), Vec::new(), Births::new());
    let mut live = None;
    let (mut slots, found) = SettledFiles::open(
        env,
        store,
        keys.store_cipher().cloned(),
        &mut |found, entry, bytes, differs| {
            let from = || oldest_live_key_time(&resume_count(env, found), &*env.clock);
            let live = *live.get_or_insert_with(from);
            let (left, begun) = (may_have_files(&entry), is_unfinished(&entry));
            let fork = entry.lineage.is_some().then(|| entry.clone());
            let Some(key) = catalogue.add_entry(entry, bytes, live) else {
                nameless = true;
                return;
            };
            if left {
                deleted.push(key.clone());
            }
            if begun {
                unfinished.push(key.clone());
            }
            if let Some(fork) = fork {
                births.extend(FoundFork::from_entry(&key, &fork));
            }
            if differs {
                differing.push(key);
            }
        },
    )?;
    if nameless {
        let what = "settled/ names a session whose id is no id".to_owned();
        return Err(OpenError::Damaged { what });
    }
    let mut catalogue = catalogue.build();
    slots.mark_differing(differing.iter().filter_map(|key| catalogue.get(key)));
    // The last entry with an id is valid: it may be of a newer session with that id.
    let mut those = |keys: &[SessionKey], are: fn(&Entry) -> bool| -> Vec<Arc<LoadedSession>> {
        let named = keys.iter().filter_map(|key| catalogue.get(key));
        named.filter(|session| are(&session.state().entry)).collect()
    };
    let (deleted, unfinished) =
        (those(&deleted, may_have_files), those(&unfinished, is_unfinished));
    Ok(SettledCatalogue { catalogue, slots, found, deleted, unfinished, births })
}

/// Returns the store's count of time, resumed from the last flush.
fn resume_count(env: &Env, found: &SettledState) -> LifetimeClock {
    LifetimeClock::resume(&*env.clock, found.stored, &found.times)
}

/// Returns true if bytes of an erased session or a redacted event may remain.
fn is_unfinished(entry: &Entry) -> bool {
    entry.stage.is_erasing() || entry.has_pending_redaction()
}

/// Returns true if a discarded session may have files.
fn may_have_files(entry: &Entry) -> bool {
    entry.stage.is_discarded() && !entry.segments.is_empty()
}

/// Returns true if the session's segments hold the lost records, by a flush that was not recorded.
fn is_loss_flushed(known: &ByHash, lost: &LostRecords) -> bool {
    let session = lost.named.and_then(|named| known.get(&named.header.session));
    session.is_some_and(|session| lost.to.0 <= session.state().entry.end_lsn)
}

/// Applies the journal's frames to their sessions, in the order of their numbers. Returns the
/// sessions with frames to be flushed, and those with new damage; losses that name no session go to
/// `refused`.
fn replay(
    known: &mut ByHash,
    keys: &EngineKeys,
    recovered: &RecoveredJournal,
    counted: Timestamp,
    recovery: &mut Recovery,
    refused: &mut UnresolvedLosses,
) -> Result<[Vec<Arc<LoadedSession>>; 2], OpenError> {
    let mut dirty = Vec::new();
    let mut touched = Vec::new();
    for frame in recovered.frames.values() {
        if is_flushed(known, &frame.header) {
            continue;
        }
        let plain = match decrypt_frame(known, keys, frame) {
            Ok(plain) => Ok(plain),
            Err(LogError::Io(error)) => return Err(open_error("reading keys/")(error)),
            Err(LogError::Fault { fault, .. }) => {
                let what = format!("frame {}: {fault}", frame.header.first_lsn.0);
                if let Some(session) = mark_lost(known, frame.header, &what) {
                    // The fault concerns only this session.
                    recovery.damage.push(what);
                    touched.push(session);
                    continue;
                }
                Err(what)
            }
        };
        let key = frame.header.encrypted.map_or(0, |encrypted| encrypted.key.0);
        match plain.and_then(|plain| replay_frame(known, &plain, key, counted)) {
            Ok(Some(session)) => dirty.push(session),
            Ok(None) => {}
            Err(what) => {
                let mut bytes = Vec::new();
                frame.header.write(0, &frame.payload, &mut bytes);
                let name = format!("journal-record-{}.nameless", frame.header.first_lsn.0);
                refused.copies.push((name, bytes.into()));
                recovery.damage.push(what.clone());
                refused.unnamed.push(what);
            }
        }
    }
    for (numbers, what) in &recovered.ring_damage {
        recovery.damage.push(what.clone());
        refused.unnamed.push(what.clone());
        refused.ring.push(numbers.clone());
    }
    for lost in &recovered.lost {
        recovery.damage.push(lost.what.clone());
        let named = lost.named.and_then(|named| mark_lost(known, named.header, &lost.what));
        match named {
            Some(session) => touched.push(session),
            None => refused.unnamed.push(lost.what.clone()),
        }
    }
    Ok([dirty, touched])
}

/// Applies the tombstones of the journal before anything else: earlier frames of their sessions
/// need not be readable. Returns the sessions that they erase.
fn apply_tombstones(
    known: &mut ByHash,
    keys: &EngineKeys,
    recovered: &RecoveredJournal,
    counted: Timestamp,
) -> Result<Vec<Arc<LoadedSession>>, OpenError> {
    let mut erased = Vec::new();
    let encrypted = keys.store_cipher().is_some();
    for frame in recovered.frames.values() {
        let header = frame.header;
        let own = header.encrypted.is_some_and(|one| one.key == KeyNumber::STORE);
        if header.events > 0 || own != encrypted {
            continue;
        }
        let plain = match keys.decrypt_frame(frame) {
            Ok(plain) => plain,
            Err(LogError::Io(error)) => return Err(open_error("reading keys/")(error)),
            // The replay reports the fault.
            Err(LogError::Fault { .. }) => continue,
        };
        let Ok(records) = plain.records() else { continue };
        let Some((_, record)) = records.first() else { continue };
        let Some(Control::Erase(tombstone)) = record.to_control() else { continue };
        let Some((key, incarnation)) = tombstone.identity() else { continue };
        let hash = SessionHash::new(&key, incarnation);
        if hash != header.session {
            continue;
        }
        let session = known.entry(hash).or_insert_with(|| {
            let create = CreateRecord::from_tombstone(&tombstone);
            LoadedSession::new(
                key,
                hash,
                Entry::from_create(&create, hash, record.processed_at()),
                EntryState::Settled,
            )
        });
        let entry = &mut session.state().entry;
        entry.key = tombstone.key;
        let mut effect = FrameEffect::from_records(&header, &records);
        effect.end_lsn = effect.end_lsn.max(Lsn(entry.end_lsn));
        apply(entry, &effect, counted);
        erased.push(Arc::clone(session));
    }
    Ok(erased)
}

/// Returns true if the session's segments hold the frame already.
fn is_flushed(known: &ByHash, header: &FrameHeader) -> bool {
    let session = known.get(&header.session);
    session.is_some_and(|session| header.end_lsn().0 <= session.state().entry.end_lsn)
}

/// Applies a frame to its session. Returns the session if it is newly listed for a flush. Its last
/// use was shortly before the stop, at some time before `counted`.
fn replay_frame(
    known: &mut ByHash,
    frame: &Frame,
    key: u64,
    counted: Timestamp,
) -> Result<Option<Arc<LoadedSession>>, String> {
    let header = frame.header;
    let nameless = |what: &str| format!("frame {}: {what}", header.first_lsn.0);
    let records = frame.records().map_err(|fault| nameless(&fault.to_string()))?;
    let session = match known.get(&header.session) {
        Some(session) => Arc::clone(session),
        None => {
            let session = session_from_frame(frame, &records)
                .ok_or_else(|| nameless("the creation of its session is lost"))?;
            session.state().entry.key = key;
            known.insert(session.hash, Arc::clone(&session));
            session
        }
    };
    let mut state = session.state();
    let state = &mut *state;
    if header.first_position.0 != state.entry.tail || header.chain.0 != state.entry.chain {
        let from = Position(state.entry.tail.min(header.first_position.0));
        let _ = state.add_damage(Range::new(from, header.first_position), "lost from the journal");
    }
    let mut effect = FrameEffect::from_records(&header, &records);
    // Tombstones were applied first: one found here names another session.
    effect.controls.retain(|(_, control)| !matches!(control, Control::Erase(_)));
    state.publish(frame.clone(), &effect, counted);
    debug_assert!(state.exists(), "the first frame of a session creates it");
    let session = Arc::clone(&session);
    session.announce_tail(effect.tail);
    Ok(state.mark_listed().then_some(session))
}

/// Decrypts a frame of the journal; its session caches the cipher for later frames.
fn decrypt_frame(known: &ByHash, keys: &EngineKeys, frame: &Frame) -> Result<Frame, LogError> {
    let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
    let Some(session) = known.get(&frame.header.session) else { return keys.decrypt_frame(frame) };
    let number = KeyNumber(session.state().entry.key);
    let named = frame.header.encrypted.map(|encrypted| encrypted.key);
    match named {
        Some(named) if named == number && keys.store_cipher().is_some() => {}
        None | Some(KeyNumber::STORE) => return keys.decrypt_frame(frame),
        Some(_) => return Err(wrong(Fault::Misplaced)),
    }
    let known = session.state().cipher.clone();
    let cipher = match known {
        Some(cipher) => cipher,
        None => {
            let read = keys.cipher(number)?;
            Arc::clone(session.state().cipher.insert(read))
        }
    };
    frame.clone().decrypt(Some(&cipher)).map_err(wrong)
}

fn session_from_frame(
    frame: &Frame,
    records: &[(crate::event::Lsn, Record)],
) -> Option<Arc<LoadedSession>> {
    let (_, first) = records.first()?;
    let Some(Control::Create(create)) = first.to_control() else { return None };
    let (key, incarnation) = create.identity()?;
    let hash = SessionHash::new(&key, incarnation);
    let entry = Entry::from_create(&create, hash, first.processed_at());
    let begin = (frame.header.first_position, frame.header.chain);
    let fits = hash == frame.header.session && begin == create.start_point(hash);
    fits.then(|| LoadedSession::new(key, hash, entry, EntryState::Creating))
}

/// Marks the positions of a damaged frame as lost; returns its session, if that is known.
fn mark_lost(known: &ByHash, header: FrameHeader, what: &str) -> Option<Arc<LoadedSession>> {
    let session = known.get(&header.session)?;
    let mut state = session.state();
    let range = header.range();
    // Positions in between were in frames whose header is lost, too.
    let from = range.from.min(Position(state.entry.tail));
    state.add_damage(Range::new(from, range.to), what);
    if state.entry.tail < range.to.0 {
        // Acknowledged positions are never reused, even if their events are lost.
        state.entry.tail = range.to.0;
        state.entry.end_lsn = state.entry.end_lsn.max(header.end_lsn().0);
        session.announce_tail(range.to);
    }
    Some(Arc::clone(session))
}
