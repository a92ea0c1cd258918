//! `events`, `replay`, `redact`: prints a slice as JSON lines, as HTTP's pages, or as text for a
//! terminal. It must not change what is shown, except to keep it from steering a terminal.

use std::time::Duration;

use serde_json::Value;

use super::{
    answer::{event_time, to_usize},
    args, consent,
    failure::Outcome,
    page::{EventPages, EventsQuery, PagePart, describe_gap, gap_to_json, to_single_line},
    player,
    readable::{
        paper::wrap_text,
        words::{self, text_of},
    },
    screen::{Screen, Tone, escaped},
    times,
};
use crate::{
    api::events::{CopyOf, EventRedacted, Gap},
    client::{Client, TailItem},
    event::Timestamp,
    verbs::{EventPath, sessions},
    wire::json,
};

pub(super) async fn print_events(
    client: &Client,
    mut wanted: args::EventsArgs,
    screen: &mut Screen,
) -> Outcome {
    resolve_times(&mut wanted.range)?;
    if wanted.follow {
        return follow_events(client, wanted, screen).await;
    }
    let (empty, types_wanted) =
        (empty_reason(&wanted.range, &wanted.types), !wanted.types.is_empty());
    let query = EventsQuery {
        from: wanted.range.from,
        to: wanted.range.to,
        around: wanted.around,
        before: wanted.before,
        after: wanted.after,
        types: wanted.types,
        order: Some(args::name_of(wanted.order)),
        limit: wanted.limit.map(to_usize),
        allow_gaps: wanted.allow_gaps,
        ..EventsQuery::default()
    };
    let mut pages = EventPages::new(client, &wanted.session, query);
    let (mut found, mut types_seen) = (false, Vec::new());
    while let Some(page) = pages.next().await? {
        found |= !page.events.is_empty() || !page.gaps.is_empty();
        types_seen = page.types_seen;
        if screen.json {
            screen.print_answer(&page.body)?;
            continue;
        }
        for event in &page.events {
            screen.print_line(to_single_line(event.get()))?;
        }
        for gap in &page.gaps {
            screen.print_note(format!("sessionlog: {}", describe_gap(gap)));
        }
    }
    if !found {
        screen.print_note(format!("sessionlog: {empty}"));
        if types_wanted && !types_seen.is_empty() {
            let known = types_seen.join(", ");
            screen.print_note(format!("  its last events are of these types: {known}"));
        }
    }
    Ok(())
}

/// Sets the ends of a range from the times that the user typed.
fn resolve_times(range: &mut args::RangeArgs) -> Outcome {
    for (point, when) in [(&mut range.from, &range.since), (&mut range.to, &range.until)] {
        if let Some(when) = when {
            *point = Some(format!("time:{}", times::resolve_instant(when)?));
        }
    }
    Ok(())
}

/// Returns the reason why no event is printed.
fn empty_reason(range: &args::RangeArgs, types: &[String]) -> String {
    let number = |point: Option<&str>| point.and_then(|text| text.parse::<u64>().ok());
    let (from, to) = (range.from.as_deref(), range.to.as_deref());
    let types = match types {
        [] => String::new(),
        types => format!(" of type {}", types.join(", ")),
    };
    match number(from).zip(number(to)) {
        Some((from, to)) if from >= to => {
            format!("the range is empty: it begins at {from} and ends before {to}")
        }
        _ if from.is_none() && to.is_none() => format!("no event{types}"),
        _ => {
            let (from, to) = (from.unwrap_or("the beginning"), to.unwrap_or("the end"));
            format!("the range is empty: no event{types} from {from} to {to}")
        }
    }
}

async fn follow_events(client: &Client, wanted: args::EventsArgs, screen: &mut Screen) -> Outcome {
    let mut tail =
        client.tail(&wanted.session, wanted.range.from.as_deref(), &wanted.types).await?;
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let told = tail.next().await?;
        screen.print_line(to_single_line(told.text()))?;
        screen.flush()?;
        left -= u64::from(matches!(told, TailItem::Event(_)));
    }
    Ok(())
}

pub(super) async fn replay(
    client: &Client,
    mut wanted: args::ReplayArgs,
    screen: &mut Screen,
) -> Outcome {
    resolve_times(&mut wanted.range)?;
    if screen.is_full_screen() && !wanted.lines {
        return player::play(client, &wanted).await;
    }
    let empty = empty_reason(&wanted.range, &[]);
    let query =
        EventsQuery { from: wanted.range.from, to: wanted.range.to, ..EventsQuery::default() };
    let mut pages = EventPages::new(client, &wanted.session, query);
    let mut shown = PacedLines { speed: wanted.speed, before: None };
    let (mut found, mut next) = (false, 0);
    while let Some(page) = pages.next().await? {
        next = page.next_position;
        found |= !page.events.is_empty() || !page.gaps.is_empty();
        if screen.json && wanted.speed.is_none() && !wanted.follow {
            screen.print_answer(&page.body)?;
            continue;
        }
        for part in page.ordered_parts() {
            match part {
                PagePart::Event(event) => shown.print_paced(event.get(), screen).await?,
                PagePart::Lost(gap) if screen.json => screen.print_line(gap_to_json(gap))?,
                PagePart::Lost(gap) => print_gap(gap, screen)?,
            }
        }
    }
    if !wanted.follow {
        if !found {
            screen.print_note(format!("sessionlog: {empty}"));
        }
        return Ok(());
    }
    let mut tail = client.tail(&wanted.session, Some(&next.to_string()), &[]).await?;
    loop {
        screen.flush()?;
        match tail.next().await? {
            TailItem::Event(event) => shown.print_paced(&event, screen).await?,
            TailItem::Gap(gap) if screen.json => screen.print_line(to_single_line(&gap))?,
            TailItem::Gap(gap) => {
                serde_json::from_str(&gap).map_or(Ok(()), |gap| print_gap(&gap, screen))?;
            }
        }
    }
}

fn print_gap(gap: &Gap, screen: &mut Screen) -> Outcome {
    Ok(screen.print_line(format!("{:>6}  {}", "", screen.paint(Tone::Bad, &describe_gap(gap))))?)
}

/// Prints events as lines, with pauses between them.
struct PacedLines {
    speed: Option<f64>,
    before: Option<Timestamp>,
}

impl PacedLines {
    async fn print_paced(&mut self, event: &str, screen: &mut Screen) -> Outcome {
        let value: Value = json::parse_lossy(event.as_bytes()).unwrap_or_default();
        let time = event_time(&value);
        if let (Some(speed), Some(before), Some(time)) = (self.speed, self.before, time) {
            screen.flush()?;
            tokio::time::sleep(pause_between(before, time, speed)).await;
        }
        self.before = time.or(self.before);
        match screen.json {
            true => Ok(screen.print_line(to_single_line(event))?),
            false => print_event(&value, screen),
        }
    }
}

/// Redacts the body of an event.
pub(super) async fn redact(
    client: &Client,
    one: &args::RedactArgs,
    screen: &mut Screen,
) -> Outcome {
    consent::check_can_confirm("redact", one.yes, screen)?;
    let (session, id) = (&one.session, escaped(one.event.as_str()));
    let warning = format!(
        "The body of event {id} of {session} is destroyed and cannot be brought back. Its position, type and chain \
         value stay."
    );
    let unchanged = format!("{id} was not redacted");
    consent::confirm(one.yes, &warning, "Redact it permanently?", &unchanged, screen)?;
    let place = EventPath { session: session.clone(), event: one.event.clone() };
    let query = sessions::RedactQuery { with_memory: one.with_memory };
    let event = client.call::<sessions::Redact>(&place, &query, &()).await?;
    if screen.json {
        return Ok(screen.print_answer(event.text().as_bytes())?);
    }
    let EventRedacted { event, beside } =
        client.parse_text_answer::<sessions::Redact, _>(&event)?;
    screen.print_line(format!("redacted {id}, position {} of {session}", event.position))?;
    for CopyOf { id, position, session } in beside.copies {
        let of = session.map_or_else(String::new, |other| format!(" of {other}"));
        screen.print_line(format!(
            "redacted {}, position {position}{of}: made of it",
            escaped(id.as_str())
        ))?;
    }
    for item in beside.memory {
        let (did, id) =
            (if item.redacted { "redacted" } else { "kept" }, escaped(item.memory_id.as_str()));
        let at = format!("position {} of {}", item.position, item.notebook);
        screen.print_line(format!("{did} item of memory {id}, {at}: it may repeat the event"))?;
    }
    Ok(())
}

fn pause_between(before: Timestamp, after: Timestamp, speed: f64) -> Duration {
    let micros = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or(0);
    Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(Duration::MAX)
}

fn print_event(event: &Value, screen: &mut Screen) -> Outcome {
    let position = event.get("position").map(Value::to_string).unwrap_or_default();
    let time = ["created_at", "processed_at"].map(|name| text_of(event, name));
    let time = time.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    let head = format!(
        "{} {}",
        screen.paint(Tone::Strong, &escaped(text_of(event, "type"))),
        screen.paint(Tone::Faint, &screen.times().format_date(time))
    );
    screen.print_line(format!("{position:>6}  {head}"))?;
    // In a pipe each line of a text is printed on one line.
    let width = if screen.terminal { screen.columns().saturating_sub(8) } else { usize::MAX };
    let text = words::describe_event(event);
    if text.trim().is_empty() {
        return Ok(());
    }
    for line in wrap_text(&text, width) {
        screen.print_line(format!("        {line}").trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_the_time_between_events_divided_by_the_speed() {
        let at = Timestamp;
        assert_eq!(pause_between(at(0), at(2_000_000), 4.0), Duration::from_millis(500));
        assert_eq!(pause_between(at(5), at(0), 1.0), Duration::ZERO, "a clock that went back");
    }
}
