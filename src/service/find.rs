//! Full-text search in one session: reads its events newest first in bounded slices, ranks them,
//! and reads the best again for their text, so that the response contains only current content. It
//! must not compare words itself: `search` does.

use std::collections::HashSet;

use super::{
    Service, ServiceError, ServiceResult, folds::SLICE_BYTES, memory_budget::HELD_FOR_A_BYTE,
};
use crate::{
    api::find::{FindAnswer, MatchLine},
    event::{Event, Position, Range, SessionKey},
    harness::{self, Budget, fit, json_bytes},
    projection::{
        Facts,
        body::{self, GapBody, SourceBody},
    },
    search::{Match, PassageField, Query, Ranking, extract_snippet, field_weight, visit_passages},
    store::{FillDirection, ReadRequest},
};

/// Maximum number of events and body bytes read for one query.
const SEARCHED_EVENTS_MAX: usize = 10_000;
const SEARCHED_BYTES_MAX: usize = 256 << 20;
/// Maximum number of events in memory at once; other tasks run between slices.
const SLICE_EVENTS: usize = 1_000;
/// Bytes reserved in a response for members other than matches, and for the query.
const FRAME_BYTES: usize = 900;
const QUERY_BYTES: usize = 200;
/// Maximum bytes of a match's text.
const SNIPPET_BYTES: usize = 400;
/// Score in hundredths of the best below which a match is weak; maximum bytes of its text.
const WEAK_SCORE: u8 = 25;
const WEAK_BYTES: usize = 160;
/// Percentage of a response's budget that matches leave to findings, and that weak matches leave.
const FINDINGS_PERCENT: usize = 40;
const FINDINGS_OF_WEAK_PERCENT: usize = 70;
/// Maximum number of matches in a response; one of the default size has about fifty.
const MATCHES_MAX: usize = 400;

/// Data of a match before its event is read again.
struct LocatedMatch {
    found: Match,
    /// Score in hundredths of the best match.
    score: u8,
    step: Option<u64>,
    branch: Option<String>,
    superseded_by: Option<u64>,
}

impl Service {
    /// Returns the matches of the words, within `bytes_max` bytes of JSON.
    pub(super) async fn find_in_session(
        &self,
        key: &SessionKey,
        words: &str,
        at: Option<Position>,
        bytes_max: usize,
    ) -> ServiceResult<FindAnswer> {
        let query =
            Query::parse(words).map_err(|error| ServiceError::invalid("find", error.fault))?;
        let room = bytes_max - FRAME_BYTES;
        let overview = bytes_max.saturating_sub(key.session.as_str().len());
        let tail = self.store.use_session(key).await?.tail;
        let position = at.map_or(tail, |at| at.min(tail));
        let (ranking, searched_from) = self.rank_events(key, query, position).await?;
        let look = move |facts: &Facts| {
            let matches = locate_matches(&ranking, facts);
            let has_gap = matches.0.iter().any(|one| one.found.field == PassageField::Gap);
            let closed = if has_gap { closed_gap_ids(facts) } else { HashSet::new() };
            let beyond =
                harness::select_left_out(facts, overview, room, &strong_positions(&matches.0));
            (matches, closed, beyond, ranking)
        };
        let ((located, is_all), closed, beyond, ranking) =
            self.view_facts_as_of(key, at, look).await?;
        let query = fit(words, QUERY_BYTES).text;
        let (matches, findings) = (Vec::new(), Vec::new());
        let mut answer =
            FindAnswer { query, matches, searched_from, position, findings, truncated: !is_all };
        let mut budget = Budget::new(room);
        let beyond_bytes: usize = beyond.iter().map(|one| json_bytes(&one.text) + 1).sum();
        let kept = |percent: usize| beyond_bytes.min(room * percent / 100);
        let mut read: Option<Event> = None;
        for one in located {
            let at = one.found.position;
            if read.as_ref().is_none_or(|event| event.position != at) {
                read = self.read_event(key, at).await?;
            }
            let Some(event) = &read else { continue };
            let is_weak = one.score < WEAK_SCORE;
            let Some(line) = to_match_line(ranking.query(), event, one, &closed) else { continue };
            let percent = if is_weak { FINDINGS_OF_WEAK_PERCENT } else { FINDINGS_PERCENT };
            let bytes = json_size(&line);
            if bytes + kept(percent) > budget.remaining() || !budget.spend(bytes) {
                answer.truncated = true;
                break;
            }
            answer.matches.push(line);
        }
        for one in beyond {
            let words = one.text.get(one.words_from..).unwrap_or_default();
            let is_matched = answer.matches.iter().any(|found| found.text.contains(words));
            if !is_matched && budget.spend(json_bytes(&one.text) + 1) {
                answer.findings.push(one.text);
            }
        }
        Ok(answer)
    }

    /// Ranks the events before `to`; also returns the first position that was read.
    async fn rank_events(
        &self,
        key: &SessionKey,
        query: Query,
        to: Position,
    ) -> ServiceResult<(Ranking, Position)> {
        let mut ranking = Ranking::new(query);
        let (mut to, mut events_left, mut bytes_left) =
            (to, SEARCHED_EVENTS_MAX, SEARCHED_BYTES_MAX);
        let _memory = self.reserve_memory(&key.scope.tenant, HELD_FOR_A_BYTE * SLICE_BYTES).await?;
        let mut slot = self.compute.acquire(&key.scope.tenant).await?;
        while to > Position::ZERO && events_left > 0 && bytes_left > 0 {
            let read = ReadRequest {
                range: Range::new(Position::ZERO, to),
                events_max: events_left.min(SLICE_EVENTS),
                bytes_max: bytes_left.min(SLICE_BYTES),
                fill: FillDirection::Backward,
                allow_gaps: false,
            };
            let slice = self.store.read(key, read).await?;
            if slice.covered.is_empty() {
                break;
            }
            events_left = events_left.saturating_sub(slice.events.len().max(1));
            to = slice.covered.from;
            let add = move || {
                let bytes: usize = slice.events.iter().map(|event| event.body.len()).sum();
                slice.events.iter().rev().for_each(|event| ranking.add_event(event));
                (ranking, bytes)
            };
            let bytes;
            (slot, (ranking, bytes)) = slot.run(add).await?;
            bytes_left = bytes_left.saturating_sub(bytes);
            slot = slot.yield_if_due().await?;
        }
        Ok((ranking, to))
    }
}

/// Returns the best matches, each with the step it belongs to, and true if there are no others.
fn locate_matches(ranking: &Ranking, facts: &Facts) -> (Vec<LocatedMatch>, bool) {
    let research = &facts.research;
    let step_at = |position: Position| {
        let steps = research.steps();
        let before = steps.partition_point(|step| step.position <= position);
        before.checked_sub(1).and_then(|at| steps.get(at))
    };
    let superseded_by = |position: Position| {
        let step = step_at(position).filter(|step| step.position == position);
        step.and_then(|step| step.superseded_by)
    };
    let weigh = |position, field| field_weight(field, superseded_by(position).is_some());
    let best = ranking.best(MATCHES_MAX, weigh);
    let most = best.matches.first().map_or(1.0, |found| found.score);
    let locate = |found: Match| {
        let is_research = matches!(
            found.field,
            PassageField::Step
                | PassageField::Reason
                | PassageField::Rejected
                | PassageField::Gap
                | PassageField::Source
        );
        let step = step_at(found.position).filter(|_| is_research);
        LocatedMatch {
            found,
            score: (100.0 * found.score / most).round() as u8,
            step: step.map(|step| step.number),
            branch: step.and_then(|step| Some(research.branch_of_step(step)?.id.to_string())),
            superseded_by: superseded_by(found.position),
        }
    };
    (best.matches.into_iter().map(locate).collect(), best.is_all)
}

/// Returns the positions of the matches that are not weak, ascending.
fn strong_positions(matches: &[LocatedMatch]) -> Vec<Position> {
    let strong = matches.iter().filter(|one| one.score >= WEAK_SCORE);
    let mut strong: Vec<Position> = strong.map(|one| one.found.position).collect();
    strong.sort_unstable();
    strong
}

fn closed_gap_ids(facts: &Facts) -> HashSet<String> {
    let gaps = facts.research.gaps().iter().filter(|gap| gap.closed.is_some());
    gaps.map(|gap| gap.id.to_string()).collect()
}

/// Builds the response entry of a match; `None` if the event has been redacted since.
fn to_match_line(
    query: &Query,
    event: &Event,
    one: LocatedMatch,
    closed: &HashSet<String>,
) -> Option<MatchLine> {
    let LocatedMatch { found, score, mut step, mut branch, superseded_by } = one;
    let bytes_max = if score < WEAK_SCORE { WEAK_BYTES } else { SNIPPET_BYTES };
    let mut shown = None;
    visit_passages(event, |passage| {
        if (passage.field, passage.ordinal) == (found.field, found.ordinal) {
            shown = Some(extract_snippet(query, passage.text, bytes_max));
        }
    });
    let shown = shown.filter(|shown| !shown.matched.is_empty())?;
    if let (PassageField::Source, Some(source)) =
        (found.field, body::read::<SourceBody>(&event.body))
        && source.step.is_some_and(|said| step != Some(said))
    {
        (step, branch) = (source.step, None);
    }
    let gap = body::read::<GapBody>(&event.body).filter(|_| found.field == PassageField::Gap);
    let gap = gap.map(|gap| gap.gap_id.unwrap_or_else(|| format!("p{}", event.position)));
    Some(MatchLine {
        kind: found.field.as_str().to_owned(),
        step_number: step,
        branch_id: branch,
        position: found.position,
        text: shown.text,
        matched: shown.matched,
        score: f64::from(score) / 100.0,
        superseded_by,
        closed: gap.map(|id| closed.contains(&id)),
    })
}

fn json_size(line: &MatchLine) -> usize {
    let number = |name: &str, number: Option<u64>| {
        number.map_or(0, |number| name.len() + 4 + number.to_string().len())
    };
    let names = r#"{"kind":"","text":,"matched":[],"score":0.99},"#.len();
    let matched: usize = line.matched.iter().map(|word| json_bytes(word) + 1).sum();
    let branch = line.branch_id.as_ref().map_or(0, |name| json_bytes(name) + 13);
    names
        + line.kind.len()
        + json_bytes(&line.text)
        + matched
        + branch
        + number("position", Some(line.position.0))
        + number("step_number", line.step_number)
        + number("superseded_by", line.superseded_by)
        + line.closed.map_or(0, |_| r#","closed":false"#.len())
}
