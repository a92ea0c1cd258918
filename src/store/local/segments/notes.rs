//! Reading the notes of a session, from unflushed frames in memory and from segments, in the order
//! of their numbers. Only frames that have control records, by their index, are read. It must not
//! interpret the content of a note, and must not write.

use std::{
    collections::{HashSet, VecDeque},
    io,
    sync::Arc,
};

use super::super::{
    session::{
        HeldFrame, LoadedSession,
        opened::{OpenSegment, UnreadableRange, decode_frame},
    },
    wait::run_blocking,
};
use super::Segments;
use crate::{
    env::is_unreadable,
    event::{Lsn, Note, Range, Scope, SessionId, SessionKey, Timestamp},
    log::{
        Cipher, Entry, Fault, LogError, Record, journal::read as read_bytes, segment::FrameIndex,
    },
    store::{NotesQuery, SessionInfo, StoreError, StoreResult, rules::entry::parse_note},
};

/// Location of a frame that may hold notes.
enum NoteFrame {
    Memory(Arc<HeldFrame>),
    File { path: Arc<str>, salt: u64, index: FrameIndex },
}

impl NoteFrame {
    fn range(&self) -> Range {
        match self {
            Self::Memory(held) => held.header.range(),
            Self::File { index, .. } => Range::new(index.first_position, index.end_position()),
        }
    }
}

/// Result of reading these frames.
#[derive(Default)]
struct NotesRead {
    notes: Vec<Note>,
    /// Unreadable frames, with the reason.
    lost: Vec<UnreadableRange>,
}

impl Segments {
    /// Returns notes of a session, the oldest first. Fails while the session is degraded, since a
    /// lost later note may have replaced an earlier one. If a segment is replaced during the read,
    /// the notes are read again from the current segments.
    pub(crate) fn notes(
        &self,
        session: &Arc<LoadedSession>,
        wanted: NotesQuery,
    ) -> StoreResult<Vec<Note>> {
        const TRIES: usize = 8;
        for _ in 0..TRIES {
            let (places, segments, cipher) = {
                let mut state = self.open_visible(session)?;
                if state.is_degraded() {
                    let damaged = session.damage_error(&state);
                    state.close_unread();
                    return Err(damaged);
                }
                if state.entry.work.notes == 0 {
                    return Ok(Vec::new());
                }
                let cipher = self.client_cipher(session, &mut state)?;
                let opened = state.opened.iter().flat_map(|opened| &opened.segments);
                let mut places: VecDeque<NoteFrame> =
                    opened.flat_map(|one| frames_with_notes(one, wanted)).collect();
                let held = state.unflushed.iter().filter(|held| {
                    let header = &held.header;
                    header.end_lsn() > first_wanted_lsn(wanted) && header.count > header.events
                });
                places.extend(held.cloned().map(NoteFrame::Memory));
                (places, state.entry.segments.clone(), cipher)
            };
            let read =
                run_blocking(|| self.read_notes((session, cipher.as_deref()), places, wanted))?;
            if read.lost.is_empty() {
                return Ok(read.notes);
            }
            let mut state = session.state();
            if state.entry.segments == segments {
                let unread = self.record_flaws(session, &mut state, read.lost);
                if !unread.is_empty() || state.is_degraded() {
                    return Err(session.damage_error_with(&state, unread));
                }
                return Ok(read.notes);
            }
        }
        let source = io::Error::other("its segments were replaced again and again");
        Err(StoreError::Io { doing: "reading the notes of a session", source })
    }

    fn read_notes(
        &self,
        session: (&LoadedSession, Option<&Cipher>),
        places: VecDeque<NoteFrame>,
        wanted: NotesQuery,
    ) -> StoreResult<NotesRead> {
        let (mut read, mut bytes) = (NotesRead::default(), 0);
        for place in places {
            let range = place.range();
            let records = match self.read_records(session, place) {
                Ok(records) => records,
                Err(LogError::Io(source)) if !is_unreadable(&source) => {
                    return Err(StoreError::Io { doing: "reading a segment", source });
                }
                Err(error) => {
                    let (reason, unread) = (error.to_string(), error.is_unreadable());
                    read.lost.push(UnreadableRange { range, reason, unread });
                    continue;
                }
            };
            let notes = records.iter().filter(|(lsn, _)| *lsn > wanted.after);
            for note in notes.filter_map(|(lsn, record)| parse_note(*lsn, record)) {
                bytes += note.body.len();
                let fits = read.notes.is_empty() || bytes <= wanted.bytes_max;
                if read.notes.len() >= wanted.notes_max || !fits {
                    return Ok(read);
                }
                read.notes.push(note);
            }
        }
        Ok(read)
    }

    fn read_records(
        &self,
        (session, cipher): (&LoadedSession, Option<&Cipher>),
        place: NoteFrame,
    ) -> Result<Vec<(Lsn, Record)>, LogError> {
        let wrong = |fault| LogError::Fault { byte_offset: 0, fault };
        let frame = match place {
            NoteFrame::Memory(held) => held.to_frame(),
            NoteFrame::File { path, salt, index } => {
                let file = match self.context.env.storage.open_read(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(wrong(Fault::Short));
                    }
                    file => file?,
                };
                let bytes = read_bytes(&*file, index.byte_offset, index.next_offset())?;
                decode_frame((session.hash, cipher), salt, &index, index.byte_offset, &bytes)
                    .map_err(wrong)?
            }
        };
        frame.records().map_err(wrong)
    }

    /// Returns the sessions of a scope with unfinished work, the last written first.
    pub(crate) fn list_unfinished(
        &self,
        scope: &Scope,
        workspace: Option<&str>,
        limit: usize,
    ) -> Vec<SessionInfo> {
        let mut found: Vec<Entry> = Vec::new();
        let latest = |found: &mut Vec<Entry>| {
            found.sort_by(|a, b| (b.updated_at, &b.session).cmp(&(a.updated_at, &a.session)));
            let mut names = HashSet::new();
            found.retain(|entry| names.insert(entry.session.clone()));
            found.truncate(limit);
        };
        self.sessions.for_each_entry(scope, &mut |entry| {
            if entry.is_unfinished(workspace) {
                found.push(entry);
            }
            if found.len() > limit.saturating_mul(4).max(64) {
                latest(&mut found);
            }
        });
        latest(&mut found);
        let info = |entry: &Entry| Some(entry.info(&entry_key(scope, entry)?));
        found.iter().filter_map(info).collect()
    }

    /// Returns sessions written to since `since`, with events after their last checkpoint.
    pub(crate) fn list_unmarked(&self, since: Timestamp, limit: usize) -> Vec<SessionKey> {
        let mut found = Vec::new();
        let scopes = self.sessions.catalogue().scopes();
        for scope in scopes {
            self.sessions.for_each_entry(&scope, &mut |entry| {
                if found.len() < limit && entry.has_events_to_mark(since) {
                    found.extend(entry_key(&scope, &entry));
                }
            });
        }
        found
    }
}

/// Returns the session key of an entry; `None` if its id is invalid.
pub(crate) fn entry_key(scope: &Scope, entry: &Entry) -> Option<SessionKey> {
    let session = SessionId::new(&entry.session).ok()?;
    Some(SessionKey { scope: scope.clone(), session })
}

/// Returns the first log sequence number to be read: the one after `wanted.after`.
fn first_wanted_lsn(wanted: NotesQuery) -> Lsn {
    Lsn(wanted.after.0.saturating_add(1))
}

/// Returns the frames of a segment that may hold notes from the wanted number on. Other sessions
/// have numbers in between, so a sealed frame is assumed to end where the next one starts.
fn frames_with_notes(segment: &OpenSegment, wanted: NotesQuery) -> impl Iterator<Item = NoteFrame> {
    let path: Arc<str> = segment.path.as_str().into();
    let behind = segment.index.partition_point(|frame| frame.first_lsn <= first_wanted_lsn(wanted));
    let from = segment.index.get(behind.saturating_sub(1)..).unwrap_or_default();
    let others = from.iter().filter(|frame| frame.count > frame.events);
    others.map(move |index| NoteFrame::File {
        path: Arc::clone(&path),
        salt: segment.salt,
        index: *index,
    })
}
