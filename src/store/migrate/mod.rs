//! Moves a store to another place: copies every session with its records, numbers and chains, reads
//! the copy back, and closes the source. A run that was stopped at any moment is continued by the
//! next. It must not know an engine.

mod part;
mod survey;

use std::collections::{HashMap, HashSet};

pub(crate) use self::part::{MigratedSession, ReadPlace, SessionPart, records_of};
use self::survey::Survey;
use super::{StoreError, StoreFuture, rules::ChainWalk};
use crate::{
    event::{SessionHash, SessionKey, Timestamp},
    log::keyring::OwnKey,
};

/// A store that is read for a migration. Nothing else may write to it meanwhile.
pub(crate) trait MigrationSource: Send + Sync {
    /// Returns the id of the store, which its copy keeps.
    fn store_id(&self) -> [u8; 16];

    /// Returns the own key of an encrypted store, which an encrypted copy keeps.
    fn own_key(&self) -> Option<&OwnKey>;

    /// Returns the count of time of the store.
    fn counted_time(&self) -> Timestamp;

    /// Returns the place that the store was moved to.
    fn moved_to(&self) -> Option<String>;

    /// Returns the next sessions of all scopes, in an order of its own; none at the end.
    fn sessions<'a>(
        &'a self,
        after: Option<&'a SessionKey>,
    ) -> StoreFuture<'a, Vec<MigratedSession>>;

    /// Reads the next frames of a session; `None` at the end.
    fn read<'a>(
        &'a self,
        session: &'a MigratedSession,
        place: &'a mut ReadPlace,
    ) -> StoreFuture<'a, Option<SessionPart>>;

    /// Returns the number of processes that serve the store.
    fn count_users(&self) -> StoreFuture<'_, u64>;

    /// Keeps all processes from serving the store, which was moved to that place.
    fn mark_moved<'a>(&'a self, place: &'a str) -> StoreFuture<'a, ()>;
}

/// State of a place that a store is to be copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetState {
    /// It has no session.
    Vacant,
    /// A migration of the store with that id was begun.
    Begun([u8; 16]),
    /// It has sessions of the store with that id.
    Complete([u8; 16]),
}

/// A place that a store is copied to. What was written is durable after [`Self::flush`].
pub(crate) trait MigrationTarget: Send {
    /// Returns its state; changes nothing.
    fn state(&mut self) -> StoreFuture<'_, TargetState>;

    /// Makes it the target of a store; continues a migration that was begun.
    fn begin<'a>(&'a mut self, source: &'a dyn MigrationSource) -> StoreFuture<'a, ()>;

    /// Returns it as a source: the sessions that it has whole.
    fn reader(&mut self) -> StoreFuture<'_, Box<dyn MigrationSource>>;

    /// Removes a session that it has.
    fn remove<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()>;

    /// Writes the next frames of a session, each of one request.
    fn write<'a>(
        &'a mut self,
        session: &'a MigratedSession,
        part: SessionPart,
    ) -> StoreFuture<'a, ()>;

    /// Writes the entry of a session whose frames were written: it has the session from then on.
    fn end<'a>(&'a mut self, session: &'a MigratedSession) -> StoreFuture<'a, ()>;

    /// Makes durable what was written.
    fn flush(&mut self) -> StoreFuture<'_, ()>;

    /// Makes it a store that can be served, at the source's count of time.
    fn finish(&mut self, counted: Timestamp) -> StoreFuture<'_, ()>;
}

/// Reason why a store was not moved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrationError {
    /// A process serves the source or the target.
    #[error("{place} is in use: {users} node(s) reported within the last 10 seconds")]
    InUse { place: &'static str, users: u64 },
    /// The target has sessions of another store.
    #[error("the target has sessions of another store")]
    Occupied,
    /// A migration of another store into the target was begun.
    #[error("a migration of another store into the target was not finished")]
    OtherSource,
    /// The migration was finished, and the source has what the target lacks.
    #[error("the target is finished, and {} of the source differ from it", count_sessions(.0.len()))]
    Differs(Vec<SessionKey>),
    /// The source was moved elsewhere.
    #[error("the source was moved to {0}")]
    Moved(String),
    /// The source changed while it was copied.
    #[error("{} of the source changed meanwhile", count_sessions(.0.len()))]
    Changed(Vec<SessionKey>),
    /// Sessions of the source are damaged; the others were copied.
    #[error("{} damaged", count_sessions(.0.len()))]
    Damaged(Vec<DamagedSession>),
    /// The copy of a session differs from it.
    #[error("the copy of session {} differs: {reason}", session.session)]
    Unequal { session: SessionKey, reason: String },
    /// Error of an engine.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn count_sessions(count: usize) -> String {
    if count == 1 { "1 session".to_owned() } else { format!("{count} sessions") }
}

/// A session that is not copied, and why.
#[derive(Clone, Debug)]
pub(crate) struct DamagedSession {
    pub(crate) key: SessionKey,
    pub(super) hash: SessionHash,
    pub(crate) reason: String,
}

/// Choices of a caller.
#[derive(Clone, Debug)]
pub(crate) struct MigrationOptions {
    /// Name of the target, which the source refuses writes with.
    pub(crate) target: String,
    /// True if the source stays writable.
    pub(crate) keeps_source: bool,
    /// True if damaged sessions are left out, and those that continue them.
    pub(crate) allows_damaged: bool,
    /// True if nothing is to be changed.
    pub(crate) is_dry: bool,
}

/// Result of a migration, and its progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct Migrated {
    /// Sessions, events and bytes of bodies to be copied.
    pub(crate) sessions: u64,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// The same, done so far: copied by this run or an earlier one.
    pub(crate) done_sessions: u64,
    pub(crate) done_events: u64,
    pub(crate) done_bytes: u64,
    /// Sessions copied by this run.
    pub(crate) copied: u64,
    pub(crate) damaged: Vec<DamagedSession>,
    /// True if an earlier run had finished.
    pub(crate) was_complete: bool,
}

/// Moves a store. `progress` gets what is done after each session.
pub(crate) async fn migrate(
    source: &dyn MigrationSource,
    target: &mut dyn MigrationTarget,
    options: &MigrationOptions,
    progress: &mut (dyn FnMut(&Migrated) + Send),
) -> Result<Migrated, MigrationError> {
    if let Some(place) = source.moved_to().filter(|place| *place != options.target) {
        return Err(MigrationError::Moved(place));
    }
    check_unused(source).await?;
    let state = target.state().await?;
    let survey = Survey::read(source).await?;
    let mut done = survey.to_migrated();
    match state {
        TargetState::Complete(id) if id == source.store_id() => {
            check_contains(source, &survey, &*target.reader().await?).await?;
            done.was_complete = true;
            if !options.keeps_source && !options.is_dry {
                source.mark_moved(&options.target).await?;
            }
            return Ok(done);
        }
        TargetState::Complete(_) => return Err(MigrationError::Occupied),
        TargetState::Begun(id) if id != source.store_id() => {
            return Err(MigrationError::OtherSource);
        }
        TargetState::Begun(_) | TargetState::Vacant => {}
    }
    let mut there = HashMap::new();
    if !options.is_dry {
        target.begin(source).await?;
        there = remove_outdated(source, target, &survey).await?;
    }
    let mut after = None;
    while let Some(sessions) = next_sessions(source, &mut after).await? {
        for session in sessions.iter().filter(|session| survey.keeps(session)) {
            let is_there = there.remove(&session.hash).is_some();
            if !is_there {
                let found = match options.is_dry {
                    true => check(source, session, &survey).await?,
                    false => copy(source, Some(&mut *target), session, &survey).await?,
                };
                match found {
                    Some(reason) => {
                        let (key, hash) = (session.key.clone(), session.hash);
                        done.damaged.push(DamagedSession { key, hash, reason });
                    }
                    None => done.copied += 1,
                }
            }
            done.done_sessions += 1;
            done.done_events += session.own_events();
            done.done_bytes += session.entry.bytes;
            progress(&done);
        }
    }
    let others = survey.continuing(&done.damaged);
    done.damaged.extend(others);
    if !done.damaged.is_empty() && !options.allows_damaged {
        return Err(MigrationError::Damaged(done.damaged));
    }
    if !options.is_dry {
        finish(source, target, options, (&survey, &done)).await?;
    }
    Ok(done)
}

/// Reads the copy back, closes the source, and makes the target a store.
async fn finish(
    source: &dyn MigrationSource,
    target: &mut dyn MigrationTarget,
    options: &MigrationOptions,
    (survey, done): (&Survey, &Migrated),
) -> Result<(), MigrationError> {
    target.flush().await?;
    let reader = target.reader().await?;
    let damaged: HashSet<SessionHash> = done.damaged.iter().map(|one| one.hash).collect();
    let mut copies = entries(&*reader).await?;
    for session in damaged.iter().filter_map(|hash| copies.remove(hash)) {
        target.remove(&session).await?;
    }
    for session in copies.values() {
        if let Some(reason) = check(&*reader, session, survey).await? {
            return Err(MigrationError::Unequal { session: session.key.clone(), reason });
        }
    }
    if !options.keeps_source {
        source.mark_moved(&options.target).await?;
    }
    check_unused(source).await?;
    let (mut after, mut changed) = (None, Vec::new());
    while let Some(sessions) = next_sessions(source, &mut after).await? {
        let wanted = sessions.into_iter().filter(|one| survey.keeps(one));
        for session in wanted.filter(|one| !damaged.contains(&one.hash)) {
            let copy = copies.remove(&session.hash);
            if copy.is_none_or(|copy| copy.entry != session.entry) {
                changed.push(session.key);
            }
        }
    }
    changed.extend(copies.into_values().map(|copy| copy.key));
    if !changed.is_empty() {
        return Err(MigrationError::Changed(changed));
    }
    Ok(target.finish(source.counted_time()).await?)
}

/// Returns the next sessions of a source and moves on behind them; `None` at the end.
async fn next_sessions(
    source: &dyn MigrationSource,
    after: &mut Option<SessionKey>,
) -> Result<Option<Vec<MigratedSession>>, StoreError> {
    let sessions = source.sessions(after.as_ref()).await?;
    *after = sessions.last().map(|last| last.key.clone());
    Ok(after.is_some().then_some(sessions))
}

async fn check_unused(source: &dyn MigrationSource) -> Result<(), MigrationError> {
    match source.count_users().await? {
        0 => Ok(()),
        users => Err(MigrationError::InUse { place: "the source", users }),
    }
}

/// Checks that a finished target has every session of the source, at least as far.
async fn check_contains(
    source: &dyn MigrationSource,
    survey: &Survey,
    target: &dyn MigrationSource,
) -> Result<(), MigrationError> {
    let there = entries(target).await?;
    let (mut after, mut differing) = (None, Vec::new());
    while let Some(sessions) = next_sessions(source, &mut after).await? {
        for session in sessions.into_iter().filter(|session| survey.keeps(session)) {
            let reaches = |copy: &MigratedSession| copy.entry.end_lsn >= session.entry.end_lsn;
            if !there.get(&session.hash).is_some_and(reaches) {
                differing.push(session.key);
            }
        }
    }
    if differing.is_empty() { Ok(()) } else { Err(MigrationError::Differs(differing)) }
}

/// Returns the sessions of a place by hash.
async fn entries(
    place: &dyn MigrationSource,
) -> Result<HashMap<SessionHash, MigratedSession>, MigrationError> {
    let (mut found, mut after) = (HashMap::new(), None);
    while let Some(sessions) = next_sessions(place, &mut after).await? {
        found.extend(sessions.into_iter().map(|session| (session.hash, session)));
    }
    Ok(found)
}

/// Removes what an earlier run copied and the source does not have like that any more; returns the
/// rest.
async fn remove_outdated(
    source: &dyn MigrationSource,
    target: &mut dyn MigrationTarget,
    survey: &Survey,
) -> Result<HashMap<SessionHash, MigratedSession>, MigrationError> {
    let mut there = entries(&*target.reader().await?).await?;
    let (mut after, mut same) = (None, HashMap::new());
    while let Some(sessions) = next_sessions(source, &mut after).await? {
        for session in sessions.iter().filter(|session| survey.keeps(session)) {
            if there.get(&session.hash).is_some_and(|copy| copy.entry == session.entry) {
                same.extend(there.remove_entry(&session.hash));
            }
        }
    }
    for session in there.values() {
        target.remove(session).await?;
    }
    Ok(same)
}

/// Copies a session, or reads it only; returns the reason if it is damaged.
async fn copy(
    source: &dyn MigrationSource,
    mut target: Option<&mut dyn MigrationTarget>,
    session: &MigratedSession,
    survey: &Survey,
) -> Result<Option<String>, MigrationError> {
    let mut walk = ChainWalk::new(session.hash, &session.entry, None, None);
    if survey.has_content(session) {
        let (mut place, mut fault) = (ReadPlace::default(), None);
        while let Some(part) = source.read(session, &mut place).await? {
            fault = fault.or_else(|| part.faults.first().cloned());
            part.frames.iter().for_each(|frame| walk.verify_records(frame.clone()));
            if let Some(target) = target.as_deref_mut() {
                target.write(session, part).await?;
            }
            tokio::task::yield_now().await;
        }
        walk.check_end(&session.entry);
        if let Some(gap) = walk.damage.iter().find(|gap| gap.accepted_at.is_none()) {
            return Ok(Some(format!("{}: {}", gap.range, fault.as_ref().unwrap_or(&gap.reason))));
        }
    }
    if let Some(target) = target {
        target.end(session).await?;
    }
    Ok(None)
}

/// Reads a session; returns the reason if it is damaged.
async fn check(
    source: &dyn MigrationSource,
    session: &MigratedSession,
    survey: &Survey,
) -> Result<Option<String>, MigrationError> {
    copy(source, None, session, survey).await
}
