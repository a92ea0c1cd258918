//! Semantic search: an external embedder makes vectors of text by users and agents, once its words
//! are indexed, and of a query. Its failures are reported but never fail a search; its vectors are
//! in separate derived files. The secret rules check an event and a query as a whole, before a
//! piece is cut. It must not send unselected text, nor delay a search.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::{
    Service, ServiceResult,
    indexing::{PartContent, Scheduler, ScopeIndex, WantedEvents, run_blocking},
};
use crate::{
    api::search::VectorsBehind,
    env::sync::{Mutex, MutexGuard},
    event::{Event, Position, Range, Scope, kinds},
    search::{EventText, Keep, NearPassage, SessionRef, VectorPart, VectorPartBuilder, nearest},
    secrets::{MaskedText, Recogniser},
    store::{ChangedSession, DerivedFile},
};

/// Maximum number of texts sent in one request, and of events and bytes read for it.
const BATCH: usize = 64;
const EVENTS_MAX: usize = 256;
const EVENTS_BYTES: usize = 2 << 20;
/// Maximum number of pieces sent of one event; the rest is found by its words.
const PIECES_MAX: u16 = 64;
/// Time limit of the embedder for a batch, and for a query.
const BATCH_PATIENCE: Duration = Duration::from_secs(30);
const QUERY_PATIENCE: Duration = Duration::from_millis(500);
/// First and longest pause after a failure; doubled with each further one.
const BACKOFF_FIRST: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// Types sent by default: text by users and agents, memory and research.
const DEFAULT_TYPES: [&str; 5] = [
    kinds::USER_MESSAGE,
    kinds::AGENT_MESSAGE,
    kinds::MEMORY_ITEM,
    kinds::RESEARCH_STEP,
    kinds::RESEARCH_SUMMARY,
];

/// Reason why there are no vectors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// No response, or an incomplete one.
    #[error("the embedder does not answer")]
    Unreachable,
    /// No response within the time limit.
    #[error("the embedder did not answer in time")]
    TooSlow,
    /// Response with an error status; a redirect is not followed.
    #[error("the embedder answered with status {0}")]
    Refused(u16),
    /// Response that contains no valid vectors.
    #[error("the embedder is of no use: {0}")]
    Wrong(String),
}

/// Makes vectors of texts.
pub trait Embedder: Send + Sync {
    /// Returns the name of the vector space; only vectors of the same name may be compared.
    fn name(&self) -> &str;

    /// Returns a vector of each text, in order and all of one length.
    ///
    /// # Errors
    /// [`EmbedError`].
    fn embed(&self, texts: Vec<MaskedText>) -> BoxFuture<'_, Result<Vec<Vec<f32>>, EmbedError>>;
}

/// Vectors of all scopes, and the task that makes them.
pub(super) struct EmbeddingTask {
    embedder: Arc<dyn Embedder>,
    /// Recogniser of secrets, which must not be sent.
    secrets: Arc<Recogniser>,
    /// True if tool results and all other events are sent as well.
    all: bool,
    scopes: Mutex<HashMap<Scope, Arc<ScopeIndex>>>,
    scheduler: Scheduler,
    state: Mutex<EmbedState>,
}

#[derive(Default)]
struct EmbedState {
    /// Number of requests for the task to run; true if it is running.
    asked: u64,
    runs: bool,
    /// Consecutive failures; true while paused after the last one, and its message.
    failures: u32,
    is_failing: bool,
    problem: Option<String>,
    /// Dimension of the vectors, once known.
    numbers: Option<usize>,
}

impl EmbedState {
    fn record_failure(&mut self, problem: String) {
        self.failures = self.failures.saturating_add(1);
        (self.is_failing, self.problem) = (true, Some(problem));
    }
}

/// A piece to be sent.
struct UnsentPiece {
    /// Index of its slice.
    slice: usize,
    position: Position,
    number: u16,
    text: MaskedText,
}

impl EmbeddingTask {
    pub(super) fn new(embedder: Arc<dyn Embedder>, secrets: Arc<Recogniser>, all: bool) -> Self {
        let (scopes, scheduler, state) = Default::default();
        Self { embedder, secrets, all, scopes, scheduler, state }
    }

    fn state(&self) -> MutexGuard<'_, EmbedState> {
        self.state.lock()
    }

    pub(super) fn content(&self) -> PartContent {
        PartContent::Vectors(self.embedder.name().to_owned())
    }

    pub(super) fn index_of(&self, scope: &Scope) -> Arc<ScopeIndex> {
        let mut scopes = self.scopes.lock();
        let new = || Arc::new(ScopeIndex::new(scope.clone(), self.content()));
        Arc::clone(scopes.entry(scope.clone()).or_insert_with(new))
    }

    pub(super) fn record_change(&self, moved: ChangedSession) {
        self.index_of(&moved.key.scope).record_change(moved);
    }

    pub(super) fn indexes(&self) -> Vec<Arc<ScopeIndex>> {
        self.scopes.lock().values().cloned().collect()
    }

    pub(super) fn count_behind(&self, scope: &Scope) -> VectorsBehind {
        let events = self.index_of(scope).coverage().events_behind;
        VectorsBehind { events, problem: self.state().problem.clone() }
    }

    /// Requests vectors within a time limit; returns `None` during a pause after a failure.
    async fn make_vectors(
        &self,
        texts: Vec<MaskedText>,
        patience: Duration,
    ) -> Option<Vec<Vec<f32>>> {
        if self.state().is_failing {
            return None;
        }
        let asked = tokio::time::timeout(patience, self.embedder.embed(texts)).await;
        let answered = asked.unwrap_or(Err(EmbedError::TooSlow));
        let mut state = self.state();
        let numbers = answered.as_ref().ok().and_then(|vectors| Some(vectors.first()?.len()));
        let known = state.numbers.or(numbers);
        match answered {
            Ok(_) if known != numbers => {
                let of = |numbers: Option<usize>| numbers.unwrap_or_default();
                let problem =
                    format!("vectors of {} numbers, not {} as before", of(numbers), of(known));
                state.record_failure(EmbedError::Wrong(problem).to_string());
                None
            }
            Ok(vectors) => {
                (state.failures, state.problem, state.numbers) = (0, None, numbers);
                Some(vectors)
            }
            Err(error) => {
                state.record_failure(error.to_string());
                None
            }
        }
    }

    /// Returns the number of requests so far and the remaining pause after a failure.
    fn requests_and_pause(&self) -> (u64, Option<Duration>) {
        let state = self.state();
        let doubled = BACKOFF_FIRST.saturating_mul(1 << state.failures.saturating_sub(1).min(10));
        (state.asked, state.is_failing.then(|| doubled.min(BACKOFF_MAX)))
    }

    /// Adopts a file that an earlier process left; returns true if it belongs to this embedder.
    pub(super) fn adopt_file(
        &self,
        content: &PartContent,
        scope: &Scope,
        file: &DerivedFile,
        bytes: &[u8],
    ) -> bool {
        if *content != self.content() {
            return false;
        }
        let Some(passages) = content.count_passages(bytes) else { return false };
        if let Ok(part) = VectorPart::from_trusted(bytes)
            && !part.is_empty()
        {
            self.state().numbers = Some(part.dimensions());
        }
        self.index_of(scope).adopt_file(file, passages, Vec::new());
        true
    }

    fn is_sent(&self, event: &Event) -> bool {
        self.all || DEFAULT_TYPES.contains(&event.kind.as_str())
    }

    /// Returns the pieces of an event: those of the index if it has no secrets. The rules check its
    /// body, where member names matter, then its whole text and each piece.
    fn masked_pieces(&self, event: &Event, slice: usize) -> Vec<UnsentPiece> {
        let own = EventText::from_event(event);
        let body = self.secrets.mask(str::from_utf8(&event.body).unwrap_or_default());
        let mut masked = match body.report().is_empty() {
            true => own.clone(),
            false => {
                EventText::from_event(&Event { body: body.into_text().into(), ..event.clone() })
            }
        };
        masked.text = self.secrets.mask(&masked.text).into_text();
        let piece = |number: u16| {
            let has_one = masked.text == own.text || !own.piece(number).is_empty();
            let text = Some(masked.piece(number)).filter(|text| has_one && !text.is_empty())?;
            let text = self.secrets.mask(text);
            Some(UnsentPiece { slice, position: event.position, number, text })
        };
        (0..PIECES_MAX).map_while(piece).collect()
    }
}

impl Service {
    /// Returns the service with an embedder, which gets no text with secrets; with `all`, tool
    /// results and all other events are sent to it as well.
    #[must_use]
    pub fn with_embedder(
        mut self,
        embedder: Arc<dyn Embedder>,
        secrets: Arc<Recogniser>,
        all: bool,
    ) -> Self {
        self.embedding = Some(Arc::new(EmbeddingTask::new(embedder, secrets, all)));
        self
    }

    /// Starts the task that makes missing vectors, if there is an embedder.
    pub(super) fn spawn_embedding(&self) {
        let Some(embedding) = &self.embedding else { return };
        let mut state = embedding.state();
        state.asked += 1;
        if !std::mem::replace(&mut state.runs, true) {
            tokio::spawn(self.clone().embed_until_done(Arc::clone(embedding)));
        }
    }

    async fn embed_until_done(self, embedding: Arc<EmbeddingTask>) {
        loop {
            let (asked, pause) = embedding.requests_and_pause();
            if let Some(pause) = pause {
                tokio::time::sleep(pause).await;
                embedding.state().is_failing = false;
            }
            let now = self.monotonic();
            embedding.indexes().iter().for_each(|index| index.retry_deferred(now));
            match self.embed_next(&embedding).await {
                Ok(true) => {}
                Ok(false) => {
                    let mut state = embedding.state();
                    if state.asked == asked && !state.is_failing {
                        state.runs = false;
                        return;
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "the vectors of the search are behind");
                    embedding.state().record_failure(error.to_string());
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Makes the vectors of one request; returns true if any were missing.
    async fn embed_next(&self, embedding: &Arc<EmbeddingTask>) -> ServiceResult<bool> {
        let Some((index, wanted)) = self.next_to_embed(embedding) else { return Ok(false) };
        // The secret rules need much time for large events.
        let (service, of, from) = (self.clone(), Arc::clone(embedding), Arc::clone(&index));
        let batch =
            run_blocking(async move { Ok(service.read_batch(&of, &from, wanted).await) }).await?;
        let texts: Vec<MaskedText> = batch.pieces.iter().map(|piece| piece.text.clone()).collect();
        let vectors = match texts.is_empty() {
            true => Vec::new(),
            false => match embedding.make_vectors(texts, BATCH_PATIENCE).await {
                Some(vectors) => vectors,
                None => return Ok(true),
            },
        };
        let numbers = vectors.first().map_or(0, Vec::len);
        let mut made = VectorPartBuilder::new(embedding.embedder.name(), numbers);
        for (slice, range) in &batch.slices {
            made.mark_indexed(SessionRef { hash: slice.hash, id: slice.session.as_str() }, *range);
        }
        for (piece, vector) in batch.pieces.iter().zip(&vectors) {
            let Some((of, _)) = batch.slices.get(piece.slice) else { continue };
            let session = SessionRef { hash: of.hash, id: of.session.as_str() };
            made.add(session, piece.position, piece.number, vector);
        }
        let read: Vec<WantedEvents> =
            batch.slices.into_iter().map(|(one, range)| WantedEvents { range, ..one }).collect();
        index.add_part(made.finish(), &read);
        let service = self.clone();
        let stored = async move {
            service.store_parts(&index).await;
            Ok(())
        };
        run_blocking(stored).await?;
        Ok(true)
    }

    /// Chooses the events for the next request, round-robin over the scopes whose text index is
    /// caught up.
    fn next_to_embed(
        &self,
        embedding: &EmbeddingTask,
    ) -> Option<(Arc<ScopeIndex>, Vec<WantedEvents>)> {
        let has_words = |index: &ScopeIndex| self.indexing.index_of(&index.scope).is_caught_up();
        let with_work = embedding.indexes().into_iter();
        let with_work = with_work.filter(|index| index.has_events() && has_words(index));
        let index = embedding.scheduler.next(with_work)?;
        let wanted = index.next_events();
        Some((index, wanted))
    }

    async fn read_batch(
        &self,
        embedding: &EmbeddingTask,
        index: &ScopeIndex,
        wanted: Vec<WantedEvents>,
    ) -> EmbedRequest {
        let mut batch = EmbedRequest::default();
        for one in wanted {
            let read = self.read_wanted(index, &one, EVENTS_MAX, EVENTS_BYTES).await;
            let Some(slice) = read else { continue };
            // Unreadable positions are skipped.
            let mut range =
                Range::new(one.range.from, slice.covered.to.max(one.range.from.plus(1)));
            let at = batch.slices.len();
            for event in slice.events.iter().filter(|event| embedding.is_sent(event)) {
                let pieces = embedding.masked_pieces(event, at);
                if batch.pieces.len() + pieces.len() > BATCH && !batch.pieces.is_empty() {
                    range.to = event.position;
                    batch.is_full = true;
                    break;
                }
                batch.pieces.extend(pieces);
            }
            if !range.is_empty() {
                batch.slices.push((one, range));
            }
            if batch.is_full {
                break;
            }
        }
        batch
    }

    /// Returns the nearest vectors to a vector, among those that `keep` accepts.
    pub(super) fn find_nearest(
        &self,
        scope: &Scope,
        vector: &[f32],
        keep: &Keep<'_>,
    ) -> Vec<NearPassage> {
        let Some(embedding) = &self.embedding else { return Vec::new() };
        let (found, _) = self.with_parts(&embedding.index_of(scope), |parts| {
            let parts = parts.iter().filter_map(|bytes| VectorPart::from_trusted(bytes).ok());
            nearest(&parts.collect::<Vec<_>>(), vector, keep)
        });
        found
    }

    /// Returns the vector of a query that `reduce` shortens after the secret rules checked it;
    /// outer `None` without an embedder or words, inner `None` if none arrives in time.
    pub(super) async fn embed_query(
        &self,
        query: &str,
        reduce: fn(&str) -> String,
    ) -> Option<Option<Vec<f32>>> {
        let embedding = self.embedding.as_ref()?;
        let words = reduce(embedding.secrets.mask(query).as_str());
        if words.is_empty() {
            return None;
        }
        let words = embedding.secrets.mask(&words);
        let vectors = embedding.make_vectors(vec![words], QUERY_PATIENCE).await;
        if vectors.is_none() {
            // The background task detects when the embedder responds again.
            self.spawn_embedding();
        }
        Some(vectors.and_then(|mut vectors| vectors.pop()))
    }
}

/// Events and pieces of one request.
#[derive(Default)]
struct EmbedRequest {
    slices: Vec<(WantedEvents, Range)>,
    pieces: Vec<UnsentPiece>,
    is_full: bool,
}
