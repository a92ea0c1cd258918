//! The window: the part of a session that a model sees. Units stay whole; the task is kept first,
//! then the newest units within a token budget. Anything else is left out or shortened, and
//! reported. It must not exceed its budget, nor return messages that a model's API rejects,
//! regardless of what was recorded.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use serde_json::{Value, json, value::RawValue};

use super::{
    budget::Budget,
    conversation_event::{ContentBlock, ConversationEvent, Image, Speech, parse_event},
    message::{Messages, build_messages},
    tokens::{Counter, Tokenizer},
    transform::{Transform, align_position, shorten_event},
    unit::{Unit, group_units},
};
use crate::{
    api::window::{OmissionReason, WindowShape},
    event::{Event, Position, Range, kinds, pace},
    projection::{WithdrawnRanges, body},
};

/// Smallest token budget of a window.
pub const WINDOW_TOKENS_MIN: usize = 64;

/// Tokens around a conversation, including the first line if its beginning is left out.
const FRAME_TOKENS: usize = 24;
/// Tokens of the note on what is not shown.
const GAP_TOKENS: usize = 48;
/// Most tokens around a message, a block, a call and a result.
const MESSAGE_TOKENS: usize = 6;
const BLOCK_TOKENS: usize = 2;
const CALL_TOKENS: usize = 12;
const RESULT_TOKENS: usize = 12;
/// Most tokens of an image of the size that models accept.
const IMAGE_TOKENS: usize = 1_600;
/// Tokens of an event's reserved members, except its id and type.
const EVENT_TOKENS: usize = 100;
/// Member that contains the client's original of an imported event.
const RAW: &[u8] = b"\"raw\"";
/// Most bytes of a call's arguments that are never left out.
const INPUT_BYTES_MAX: usize = 80;
/// Bytes of a body that count as one step of work.
const BYTES_OF_A_STEP: usize = 256;
/// Number of units in which the task is searched.
const HEAD_UNITS_MAX: usize = 8;
/// Divisor of the budget for the conversation's beginning, including the task.
const HEAD_PART: usize = 5;
/// Divisor of the budget for the most tokens of a result other than the last.
const RESULT_PART: usize = 10;
/// Least tokens with which a unit that is too large is shown in part.
const PART_TOKENS_MIN: usize = 48;

/// Parameters of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowParameters {
    /// Token budget of the window.
    pub tokens_max: usize,
    /// Tokenizer that counts.
    pub tokenizer: Tokenizer,
    /// Transforms in the order of application.
    pub transforms: Vec<Transform>,
    /// Format of the messages.
    pub shape: WindowShape,
    /// First position that is read.
    pub from: Position,
    /// Message with passages from the rest of the log; its cost counts against the budget.
    pub recalled: Option<RecalledText>,
    /// Events that were removed from the conversation.
    pub withdrawn: WithdrawnRanges,
}

/// A message with passages of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecalledText {
    /// Text of the message.
    pub text: String,
    /// Most tokens that it costs.
    pub tokens: usize,
}

/// Content of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WindowContent {
    /// Events in the order of their positions.
    Events(Vec<Event>),
    /// A conversation.
    Messages(Messages),
}

/// A window of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Events or messages that it shows.
    pub shown: WindowContent,
    /// Most tokens that the content costs.
    pub tokens: usize,
    /// Token budget of the window.
    pub tokens_max: usize,
    /// Ranges before the point that it does not show, with the reason for each.
    pub dropped: Vec<(Range, OmissionReason)>,
    /// Positions that are shown in part.
    pub shortened: Vec<Position>,
    /// True if nothing was left out or shortened because of the budget.
    pub whole: bool,
    /// Number of events by type, in a conversation of which nothing is shown.
    pub unread: BTreeMap<String, u64>,
}

/// Builds the window over events of `[from, at)`, which ascend. Positions that `events` lacks count
/// as left out because of the budget.
#[must_use]
pub fn window(events: &[Event], at: Position, plan: &WindowParameters) -> Window {
    let prices = Prices::new(events, plan);
    let spoken = events.iter().enumerate().map(|(index, event)| {
        pace::steps(1 + event.body.len() / BYTES_OF_A_STEP);
        parse_event(index, &event.with_paired_surrogates())
    });
    let spoken = spoken.filter(|one| !plan.withdrawn.contains(one.position));
    let spoken = spoken.filter(|one| plan.shape == WindowShape::Events || one.is_message());
    // A model does not receive recalled text a second time.
    let spoken = spoken.filter(|one| one.kind.as_str() != kinds::CONTEXT_INJECTED);
    let mut all = group_units(spoken, id_chars_max(plan.shape));
    let mut reasons: HashMap<Position, OmissionReason> =
        positions(&all).map(|position| (position, OmissionReason::Filtered)).collect();
    for transform in &plan.transforms {
        all = transform.apply(all, &plan.tokenizer);
    }
    all.retain_mut(|unit| plan.shape == WindowShape::Events || drop_empty_blocks(unit));
    for position in positions(&all) {
        reasons.insert(position, OmissionReason::Budget);
    }
    let gone = events.iter().map(|event| event.position).filter(|at| plan.withdrawn.contains(*at));
    reasons.extend(gone.map(|position| (position, OmissionReason::Withdrawn)));
    let annotates = plan.transforms.iter().any(|one| matches!(one, Transform::Annotate { .. }));
    let frame = FRAME_TOKENS + if annotates { GAP_TOKENS } else { 0 };
    let slack = plan.transforms.iter().find_map(|one| match one {
        Transform::Reorder { slack } => Some(*slack),
        _ => None,
    });
    let frame = frame + plan.recalled.as_ref().map_or(0, |recalled| recalled.tokens);
    let room = plan.tokens_max.saturating_sub(frame);
    let mut chosen = choose_units(all, &prices, room, slack.unwrap_or(0));
    drop_covered_summaries(&mut chosen.units, &prices, &mut chosen.tokens);
    let kept: BTreeSet<Position> = positions(&chosen.units).collect();
    let mut dropped = dropped_ranges(events, plan.from..at, &kept, &reasons);
    // Positions that were not read may be withdrawn as well.
    let is_gone = |range: &Range| {
        plan.withdrawn.end_of_range_at(range.from).is_some_and(|end| end >= range.to)
    };
    for (_, reason) in dropped.iter_mut().filter(|(range, _)| is_gone(range)) {
        *reason = OmissionReason::Withdrawn;
    }
    if plan.from > Position::ZERO {
        dropped.insert(0, (Range::new(Position::ZERO, plan.from), OmissionReason::Before));
    }
    let chosen_items = chosen.units.iter().flat_map(|unit| &unit.said);
    let shortened: BTreeSet<Position> =
        chosen_items.filter(|one| one.cut).map(|one| one.position).collect();
    if annotates && plan.shape != WindowShape::Events {
        insert_gap_note(&mut chosen.units, &dropped);
    }
    if let Some(recalled) = plan.recalled.as_ref().filter(|_| plan.shape != WindowShape::Events) {
        insert_recalled(&mut chosen.units, recalled);
    }
    let mut unread = BTreeMap::new();
    if chosen.units.is_empty() && plan.shape != WindowShape::Events {
        for event in events {
            *unread.entry(event.kind.to_string()).or_default() += 1;
        }
    }
    Window {
        unread,
        shown: match plan.shape {
            WindowShape::Events => WindowContent::Events(shown_events(&chosen.units, events)),
            WindowShape::Anthropic | WindowShape::OpenAi => {
                WindowContent::Messages(build_messages(&chosen.units))
            }
        },
        tokens: if chosen.units.is_empty() { 0 } else { chosen.tokens + frame },
        tokens_max: plan.tokens_max,
        dropped,
        shortened: shortened.into_iter().collect(),
        whole: chosen.whole,
    }
}

/// Returns the most characters of a call's id that every server of the API accepts.
fn id_chars_max(shape: WindowShape) -> usize {
    match shape {
        WindowShape::Events | WindowShape::Anthropic => 64,
        WindowShape::OpenAi => 40,
    }
}

fn positions(units: &[Unit]) -> impl Iterator<Item = Position> {
    units.iter().flat_map(|unit| &unit.said).map(|one| one.position)
}

/// Removes blocks without text; returns true if the unit still has a message. A result without
/// output gets a placeholder.
fn drop_empty_blocks(unit: &mut Unit) -> bool {
    for one in &mut unit.said {
        let is_result = matches!(one.speech, Speech::Result(_));
        if let Some(blocks) = one.blocks_mut() {
            blocks.retain(
                |block| !matches!(block, ContentBlock::Text(text) if text.trim().is_empty()),
            );
            if is_result && blocks.is_empty() {
                blocks.push(ContentBlock::Text("(no output)".to_owned()));
            }
        }
    }
    unit.said.iter().any(ConversationEvent::is_message)
}

/// Prices of messages and events.
struct Prices<'a> {
    tokenizer: Tokenizer,
    /// All events, if the window shows events.
    events: Option<&'a [Event]>,
}

impl<'a> Prices<'a> {
    fn new(events: &'a [Event], plan: &WindowParameters) -> Self {
        let events = (plan.shape == WindowShape::Events).then_some(events);
        Self { tokenizer: plan.tokenizer, events }
    }

    fn unit_price(&self, unit: &Unit) -> usize {
        let own = if unit.is_exchange() { MESSAGE_TOKENS } else { 0 };
        own + unit.said.iter().map(|one| self.event_price(one)).sum::<usize>()
    }

    fn event_price(&self, one: &ConversationEvent) -> usize {
        let count = |text: &str| self.tokenizer.count(text);
        if let Some(events) = self.events {
            let event = one.event.and_then(|index| events.get(index));
            return event.map_or(0, |event| {
                let body = shown_body(one, event);
                let names = count(event.id.as_str()) + count(event.kind.as_str());
                EVENT_TOKENS + names + count(&String::from_utf8_lossy(&body))
            });
        }
        let blocks: usize = one.blocks().iter().map(|block| self.block_price(block)).sum();
        match &one.speech {
            Speech::Call(call) => {
                CALL_TOKENS + count(&call.id) + count(&call.name) + count(&call.input)
            }
            Speech::Result(result) => {
                RESULT_TOKENS + MESSAGE_TOKENS + count(&result.call_id) + blocks
            }
            Speech::Summary(text, _) => 2 * MESSAGE_TOKENS + count(text),
            Speech::System(_) | Speech::User(_) | Speech::Assistant(_) => MESSAGE_TOKENS + blocks,
            Speech::Nothing => 0,
        }
    }

    fn block_price(&self, block: &ContentBlock) -> usize {
        BLOCK_TOKENS
            + match block {
                ContentBlock::Text(text) => self.tokenizer.count(text),
                ContentBlock::Image(_) => IMAGE_TOKENS,
            }
    }
}

/// Returns the cost of a text as a separate message.
pub(super) fn message_tokens(text: &str, counter: &dyn Counter) -> usize {
    MESSAGE_TOKENS + BLOCK_TOKENS + counter.count(text)
}

/// Units that fit into the window.
struct ChosenUnits {
    units: Vec<Unit>,
    tokens: usize,
    whole: bool,
}

/// Chooses the task, the units after it within a fifth of the budget, and the newest units within
/// `room` tokens; up to `slack` percent of it stay free for a beginning that moves rarely.
fn choose_units(mut all: Vec<Unit>, prices: &Prices<'_>, room: usize, slack: usize) -> ChosenUnits {
    let costs: Vec<usize> = all.iter().map(|unit| prices.unit_price(unit)).collect();
    let total: usize = costs.iter().sum();
    if total <= room {
        return ChosenUnits { units: all, tokens: total, whole: true };
    }
    let mut costs = costs;
    if prices.events.is_none() && slack == 0 {
        // One result must not use the budget of many messages.
        let each = (room / RESULT_PART).max(PART_TOKENS_MIN);
        let last = all.len().saturating_sub(1);
        for (unit, cost) in all.iter_mut().zip(&mut costs).take(last) {
            if unit.is_exchange() && *cost > each {
                let is_result =
                    |one: &&mut ConversationEvent| matches!(one.speech, Speech::Result(_));
                let results = unit.said.iter_mut().filter(is_result);
                results.for_each(|one| shorten_event(one, each, &prices.tokenizer));
                *cost = prices.unit_price(unit);
            }
        }
    }
    let first_user = all.iter().take(HEAD_UNITS_MAX).position(Unit::is_user).map(|at| at + 1);
    let system = all.iter().take_while(|unit| unit.is_system()).count();
    let rest = all.split_off(first_user.unwrap_or(system).min(all.len()));
    let (head_costs, rest_costs) = costs.split_at(all.len());
    let rest_total: usize = rest_costs.iter().sum();
    let head_room = (room / 2).max(room.saturating_sub(rest_total));
    let mut chosen = ChosenUnits { units: Vec::new(), tokens: 0, whole: false };
    for (unit, cost) in all.into_iter().zip(head_costs) {
        chosen.add_fitting(unit, *cost, head_room, prices);
    }
    let mut begun = 0;
    for cost in rest_costs {
        if chosen.tokens + cost > room / HEAD_PART {
            break;
        }
        chosen.tokens += cost;
        begun += 1;
    }
    let mut rest = rest;
    let after = rest.split_off(begun);
    chosen.units.extend(rest);
    let rest = after;
    let rest_costs = rest_costs.get(begun..).unwrap_or_default();
    let room = room.saturating_sub(chosen.tokens);
    let (start, spent) = find_newest_fitting(&rest, rest_costs, room, slack);
    let mut rest = rest.into_iter().skip(start.saturating_sub(1));
    if start > 0
        && let Some(unit) = rest.next()
    {
        // A unit that is too large for the rest is shown in part.
        let left = room - spent;
        if spent == 0 || slack == 0 && left >= PART_TOKENS_MIN {
            let spent_before = chosen.tokens;
            chosen.add_fitting(unit, usize::MAX, spent_before + left, prices);
        }
    }
    chosen.units.extend(rest);
    chosen.tokens += spent;
    chosen
}

impl ChosenUnits {
    /// Adds a unit, or the part of it that fits.
    fn add_fitting(&mut self, unit: Unit, cost: usize, room: usize, prices: &Prices<'_>) {
        let left = room.saturating_sub(self.tokens);
        let (unit, cost) = match cost <= left {
            true => (Some(unit), cost),
            false => match shrink_unit(unit, left, prices) {
                Some((unit, cost)) => (Some(unit), cost),
                None => (None, 0),
            },
        };
        self.tokens += cost;
        self.units.extend(unit);
    }
}

/// Returns the start and cost of the newest units that fit.
fn find_newest_fitting(
    units: &[Unit],
    costs: &[usize],
    room: usize,
    slack: usize,
) -> (usize, usize) {
    let fits = |room: usize| {
        let mut budget = Budget::new(room);
        let fitting = costs.iter().rev().take_while(|cost| budget.spend(**cost)).count();
        (costs.len() - fitting, room - budget.remaining())
    };
    let (start, spent) = fits(room);
    let last = units.len().saturating_sub(1);
    let (Some(before), true) = (start.checked_sub(1), slack > 0 && start < last) else {
        return (start, spent);
    };
    let low = fits(room * (100 - slack.min(100)) / 100).0.min(last);
    let place = |at: usize| units.get(at).map_or(Position::ZERO, Unit::position);
    let from = align_position(place(before).plus(1), place(low));
    let start = (start..low).find(|at| place(*at) >= from).unwrap_or(low);
    (start, costs.iter().skip(start).sum())
}

/// Shortens the texts of a unit to fit `room` tokens; `None` if that is impossible.
fn shrink_unit(mut unit: Unit, room: usize, prices: &Prices<'_>) -> Option<(Unit, usize)> {
    let mut bare = unit.clone();
    for one in &mut bare.said {
        one.rewrite_texts(|_| Some(String::new()));
    }
    if prices.unit_price(&bare) > room {
        for one in bare.said.iter_mut().chain(&mut unit.said) {
            drop_long_input(one);
        }
    }
    let room_for_texts = room.checked_sub(prices.unit_price(&bare))?;
    let texts =
        unit.said.iter().flat_map(ConversationEvent::blocks).filter_map(|block| match block {
            // Counting stops at the limit for a text that is larger.
            ContentBlock::Text(text) => {
                let seen = prices.tokenizer.prefix_within(text, room_for_texts);
                Some(if seen.len() < text.len() {
                    usize::MAX
                } else {
                    prices.tokenizer.count(text)
                })
            }
            ContentBlock::Image(_) => None,
        });
    let each = equal_limit(texts.collect(), room_for_texts);
    for one in &mut unit.said {
        shorten_event(one, each, &prices.tokenizer);
    }
    let cost = prices.unit_price(&unit);
    (cost <= room).then_some((unit, cost))
}

/// Returns the largest equal limit with which all needs together fit `room`.
fn equal_limit(mut needs: Vec<usize>, room: usize) -> usize {
    needs.sort_unstable();
    let (mut left, mut count) = (room, needs.len());
    for need in needs {
        let each = left / count.max(1);
        if need > each {
            return each;
        }
        (left, count) = (left - need, count.saturating_sub(1));
    }
    room
}

fn drop_long_input(one: &mut ConversationEvent) {
    let position = one.position.0;
    if let Speech::Call(call) = &mut one.speech
        && call.input.len() > INPUT_BYTES_MAX
    {
        let left_out = json!({ "left_out_bytes": call.input.len(), "position": position });
        call.input = left_out.to_string();
        (one.changed, one.cut) = (true, true);
    }
}

/// Removes a client's summary of events that are all shown.
fn drop_covered_summaries(units: &mut Vec<Unit>, prices: &Prices<'_>, tokens: &mut usize) {
    if prices.events.is_some() {
        return;
    }
    let kept: BTreeSet<Position> = positions(units).collect();
    units.retain(|unit| {
        let Some(ConversationEvent { speech: Speech::Summary(_, covers), .. }) = unit.said.first()
        else {
            return true;
        };
        let shown = |range: &Range| kept.range(range.from..range.to).count() as u64 == range.len();
        let covered = !covers.is_empty() && covers.iter().all(shown);
        if covered {
            *tokens = tokens.saturating_sub(prices.unit_price(unit));
        }
        !covered
    });
}

/// Returns the positions of a range that are not kept, with their reasons.
fn dropped_ranges(
    events: &[Event],
    all_of: std::ops::Range<Position>,
    kept: &BTreeSet<Position>,
    reasons: &HashMap<Position, OmissionReason>,
) -> Vec<(Range, OmissionReason)> {
    let mut all: Vec<(Range, OmissionReason)> = Vec::new();
    let mut push = |range: Range, reason: OmissionReason| match all.last_mut() {
        _ if range.is_empty() => {}
        Some((last, same)) if last.to == range.from && *same == reason => last.to = range.to,
        _ => all.push((range, reason)),
    };
    let mut next = all_of.start;
    for event in events {
        pace::step();
        push(Range::new(next, event.position), OmissionReason::Budget);
        next = event.position.plus(1);
        if !kept.contains(&event.position) {
            let reason =
                reasons.get(&event.position).copied().unwrap_or(OmissionReason::NotAMessage);
            push(Range::new(event.position, next), reason);
        }
    }
    push(Range::new(next, all_of.end), OmissionReason::Budget);
    all
}

/// Adds a note between the task and the rest on what is not shown.
fn insert_gap_note(units: &mut Vec<Unit>, dropped: &[(Range, OmissionReason)]) {
    let budget = dropped.iter().filter(|(_, reason)| *reason == OmissionReason::Budget);
    let gap = budget.max_by_key(|(range, _)| range.len()).map(|(range, _)| *range);
    let Some((gap, first)) = gap.zip(units.first().and_then(|unit| unit.said.first()).cloned())
    else {
        return;
    };
    let text = format!(
        "[The events at positions {gap} of this session are not shown here; they can be read \
         from its log.]"
    );
    let said = ConversationEvent::with_speech(&first, Speech::User(vec![ContentBlock::Text(text)]));
    let place = units.iter().take_while(|unit| unit.position() < gap.from).count();
    units.insert(place, Unit { said: vec![said] });
}

/// Inserts the recalled message before the latest user message but after the first: the beginning
/// stays unchanged for a prompt cache.
fn insert_recalled(units: &mut Vec<Unit>, recalled: &RecalledText) {
    let of_user = |unit: &Unit| {
        let first = unit.said.first();
        unit.is_user()
            && first
                .is_some_and(|one| one.event.is_some() && one.kind.as_str() == kinds::USER_MESSAGE)
    };
    let first = units.iter().position(of_user);
    let latest = units.iter().rposition(of_user).filter(|latest| Some(*latest) != first);
    let system = || units.iter().take_while(|unit| unit.is_system()).count();
    let place = latest.or(first.map(|first| first + 1)).unwrap_or_else(system);
    let Some(like) = units.first().and_then(|unit| unit.said.first()).cloned() else { return };
    let text = ContentBlock::Text(recalled.text.clone());
    units.insert(
        place,
        Unit { said: vec![ConversationEvent::with_speech(&like, Speech::User(vec![text]))] },
    );
}

fn shown_events(units: &[Unit], events: &[Event]) -> Vec<Event> {
    let chosen_items = units.iter().flat_map(|unit| &unit.said);
    let by_position: BTreeMap<Position, Event> = chosen_items
        .filter_map(|one| {
            let event = events.get(one.event?)?;
            Some((one.position, Event { body: shown_body(one, event), ..event.clone() }))
        })
        .collect();
    by_position.into_values().collect()
}

/// Returns the event's body with the changed texts, without `raw`.
fn shown_body(one: &ConversationEvent, event: &Event) -> Bytes {
    pace::steps(1 + event.body.len() / BYTES_OF_A_STEP);
    let has_raw = event.body.windows(RAW.len()).any(|part| part == RAW);
    if !one.changed && !has_raw {
        return event.body.clone();
    }
    let read = body::read::<BTreeMap<String, Box<RawValue>>>(&event.body);
    let Some(mut members) = read else { return event.body.clone() };
    // `raw` repeats the other members and stays in the log; it is kept if it is the only member.
    if members.len() > 1 {
        members.remove("raw");
    }
    if !one.changed {
        return body::write(&members);
    }
    let (name, value) = match &one.speech {
        Speech::Call(call) => ("input", call.input.clone()),
        _ => ("content", encode_content(one.blocks()).to_string()),
    };
    if let Ok(value) = RawValue::from_string(value) {
        members.insert(name.to_owned(), value);
    }
    body::write(&members)
}

fn encode_content(blocks: &[ContentBlock]) -> Value {
    if let [ContentBlock::Text(text)] = blocks {
        return json!(text);
    }
    let block = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => json!({ "type": "text", "text": text }),
        ContentBlock::Image(Image::Url(url)) => {
            json!({ "type": "image", "source": { "type": "url", "url": url } })
        }
        ContentBlock::Image(Image::Data(media_type, data)) => json!({
            "type": "image",
            "source": { "type": "base64", "media_type": media_type, "data": data },
        }),
    };
    Value::Array(blocks.iter().map(block).collect())
}
