//! `events`, `replay`, `redact`: a slice as JSON lines, as HTTP's pages, or as text for a person.
//! It must not change what is shown, except to keep it from steering a terminal.

use std::time::Duration;

use serde_json::Value;

use super::{
    args,
    failure::Outcome,
    page::{Pages, Part, Query, on_one_line},
    player,
    screen::{Screen, Tone, instant, printable},
};
use crate::{
    client::{Client, Request, Told, event_path},
    event::Timestamp,
    import::Members,
};

pub(super) async fn print(client: &Client, wanted: args::Events, screen: &mut Screen) -> Outcome {
    if wanted.follow {
        return follow(client, wanted, screen).await;
    }
    let query = Query {
        from: wanted.from,
        to: wanted.to,
        around: wanted.around,
        before: wanted.before,
        after: wanted.after,
        types: wanted.types,
        order: Some(wanted.order),
        limit: wanted.limit,
        allow_gaps: wanted.allow_gaps,
    };
    let mut pages = Pages::new(client, &wanted.session, query);
    while let Some(page) = pages.next().await? {
        if screen.json {
            screen.answer(&page.body)?;
            continue;
        }
        for event in &page.events {
            screen.line(on_one_line(event.get()))?;
        }
        for gap in &page.gaps {
            screen.note(format!("sessionlog: {}", gap.told()));
        }
    }
    Ok(())
}

async fn follow(client: &Client, wanted: args::Events, screen: &mut Screen) -> Outcome {
    let mut tail = client.tail(&wanted.session, wanted.from.as_deref(), &wanted.types).await?;
    let mut left = wanted.limit.unwrap_or(u64::MAX);
    while left > 0 {
        let told = tail.next().await?;
        screen.line(on_one_line(told.text()))?;
        screen.flush()?;
        left -= u64::from(matches!(told, Told::Event(_)));
    }
    Ok(())
}

pub(super) async fn replay(client: &Client, wanted: args::Replay, screen: &mut Screen) -> Outcome {
    if screen.plays() && !wanted.lines {
        return player::play(client, &wanted).await;
    }
    let query = Query { from: wanted.from, to: wanted.to, ..Query::default() };
    let mut pages = Pages::new(client, &wanted.session, query);
    let mut before: Option<Timestamp> = None;
    while let Some(page) = pages.next().await? {
        if screen.json && wanted.speed.is_none() {
            screen.answer(&page.body)?;
            continue;
        }
        for part in page.parts() {
            let event = match part {
                Part::Event(event) => event,
                Part::Gap(gap) if screen.json => {
                    screen.line(gap.to_line())?;
                    continue;
                }
                Part::Gap(gap) => {
                    screen.line(format!("{:>6}  {}", "", screen.paint(Tone::Bad, &gap.told())))?;
                    continue;
                }
            };
            let Ok(members) = Members::read(event.get()) else { continue };
            let time = moment(&members);
            if let (Some(speed), Some(before), Some(time)) = (wanted.speed, before, time) {
                screen.flush()?;
                tokio::time::sleep(pause(before, time, speed)).await;
            }
            before = time.or(before);
            match screen.json {
                true => screen.line(on_one_line(event.get()))?,
                false => show(&members, screen)?,
            }
        }
    }
    Ok(())
}

/// Takes the body of an event away.
pub(super) async fn redact(client: &Client, one: &args::OneEvent, screen: &mut Screen) -> Outcome {
    let path = event_path(&one.session, &one.event, "/redact");
    let body = client.send(Request::post(path)).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let event: Value = serde_json::from_slice(&body).unwrap_or_default();
    let position = event.get("position").and_then(Value::as_u64).unwrap_or_default();
    let (session, id) = (&one.session, printable(one.event.as_str()));
    screen.line(format!("redacted {id}, position {position} of {session}"))?;
    Ok(())
}

/// When it happened: by the client's clock when it said so.
pub(super) fn moment(event: &Members) -> Option<Timestamp> {
    let text = event.text("created_at").or_else(|| event.text("processed_at"))?;
    Timestamp::parse(&text)
}

fn pause(before: Timestamp, after: Timestamp, speed: f64) -> Duration {
    let micros = u64::try_from(after.0.saturating_sub(before.0)).unwrap_or(0);
    Duration::try_from_secs_f64(micros as f64 / 1e6 / speed).unwrap_or(Duration::MAX)
}

fn show(event: &Members, screen: &mut Screen) -> Outcome {
    let position = event.raw("position").map_or("", |raw| raw.get());
    let kind = event.text("type").unwrap_or_default();
    let time = event.text("created_at").or_else(|| event.text("processed_at"));
    let time = instant(&time.unwrap_or_default());
    let head =
        format!("{} {}", screen.paint(Tone::Strong, &kind), screen.paint(Tone::Faint, &time));
    screen.line(format!("{position:>6}  {head}"))?;
    for line in printable(&told(&kind, event)).lines() {
        screen.line(format!("        {line}"))?;
    }
    Ok(())
}

/// What an event says, for a person.
pub(super) fn told(kind: &str, event: &Members) -> String {
    match kind {
        "agent.tool_use" => {
            let name = event.text("name").unwrap_or_default();
            let input = event.raw("input").map_or("", |raw| raw.get());
            format!("{name}({input})")
        }
        _ => event.value("content").map_or_else(|| rest(event), |content| content_text(&content)),
    }
}

/// Text of a message's content: the text itself, or that of its blocks.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<String> = blocks
                .iter()
                .map(|block| match block.get("text").and_then(Value::as_str) {
                    Some(text) => text.to_owned(),
                    None => block.to_string(),
                })
                .collect();
            texts.join("\n")
        }
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The body of an event that has no text, without what was shown already.
fn rest(event: &Members) -> String {
    let shown = ["id", "type", "position", "processed_at", "created_at", "origin", "raw", "raw_in"];
    let text = event.without(&shown);
    if text == "{}" { String::new() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_event_says_is_told_in_words() {
        for (event, expected) in [
            (r#"{"type":"user.message","content":"hi"}"#, "hi"),
            (
                r#"{"type":"user.message","content":[{"type":"text","text":"a"},{"x":1}]}"#,
                "a\n{\"x\":1}",
            ),
            (r#"{"type":"agent.tool_use","name":"f","input":{"a": 1}}"#, "f({\"a\": 1})"),
            (r#"{"type":"research.goal","goal":"g","id":"e","position":1}"#, r#"{"goal":"g"}"#),
            (r#"{"type":"x.y","raw":{"role":"?"}}"#, ""),
        ] {
            let members = Members::read(event).expect("object");
            let kind = members.text("type").expect("a type");
            assert_eq!(told(&kind, &members), expected);
        }
    }

    #[test]
    fn pauses_follow_the_clock_and_the_speed() {
        let at = Timestamp;
        assert_eq!(pause(at(0), at(2_000_000), 4.0), Duration::from_millis(500));
        assert_eq!(pause(at(5), at(0), 1.0), Duration::ZERO, "a clock that went back");
    }
}
