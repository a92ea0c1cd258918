//! `graph`: prints the activity of a workspace, its entities and its relations. It must not filter
//! or count: the server does.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    args,
    columns::columns,
    failure::Outcome,
    readable::{
        Paper,
        words::{grouped, many},
    },
    screen::{Screen, Tone, one_line, printable},
    search::not_searched,
    times::moment,
};
use crate::{
    api::graph::{
        AnalyticsAnswer, Entity, EntityQueryRequest, RelateRequest, RelationQueryRequest,
        TopEntity, UpsertRequest, Written,
    },
    client::Client,
    verbs::{
        AtEntity, AtRelation, InWorkspace, NoQuery,
        graph::{
            Analyse, AnalyseQuery, FindEntities, FindRelationships, PutEntity, Relate,
            RemoveEntity, Unrelate,
        },
    },
};

/// Time for which the command waits for events that are not in the index yet.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum characters of a property.
const LINE_CHARS: usize = 200;
/// Columns of a report, of a number in it, and of the longest bar.
const REPORT_COLUMNS: usize = 80;
const NUMBER_COLUMNS: usize = 10;
const BAR_COLUMNS: u64 = 30;
/// Maximum number of days in a report.
const DAYS_MAX: usize = 14;

pub(super) async fn run(client: &Client, wanted: args::GraphArgs, screen: &mut Screen) -> Outcome {
    let workspace = wanted.workspace.unwrap_or_default();
    let place = InWorkspace { workspace: workspace.clone() };
    let properties = wanted.properties.clone().unwrap_or_default();
    if let Some((kind, id)) = wanted.upsert {
        let place = AtEntity { workspace, kind, id };
        let asked = UpsertRequest { properties };
        let kept = client.call::<PutEntity>(&place, &NoQuery {}, &asked).await?;
        return print_written("entity", &kept, screen);
    }
    if let Some([from, kind, to]) = wanted.relate.as_deref() {
        let (kind, from_id, to_id) = (kind.clone(), from.clone(), to.clone());
        let asked = RelateRequest { kind, from_id, to_id, properties };
        let kept = client.call::<Relate>(&place, &NoQuery {}, &asked).await?;
        return print_written("relation", &kept, screen);
    }
    if let Some(name) = &wanted.remove {
        // An entity has a type before its id; a relation's id has none.
        let kept = match args::entity(name) {
            Ok((kind, id)) => {
                let place = AtEntity { workspace, kind, id };
                client.call::<RemoveEntity>(&place, &NoQuery {}, &()).await?
            }
            Err(_) => {
                let place = AtRelation { workspace, relation: name.clone() };
                client.call::<Unrelate>(&place, &NoQuery {}, &()).await?
            }
        };
        return print_written("removed", &kept, screen);
    }
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let wait_ms = wanted.wait.unwrap_or(WAIT).as_millis();
    let asked = EntityQueryRequest {
        types: wanted.types,
        filters: wanted.filters,
        sort: wanted.sort,
        limit: number(wanted.limit),
        offset: number(wanted.offset).unwrap_or(0),
        source: wanted.source,
        include_sessions: wanted.sessions,
        wait_ms: u64::try_from(wait_ms).unwrap_or(u64::MAX),
    };
    let ends = [&wanted.of, &wanted.from, &wanted.to];
    if wanted.relations || ends.iter().any(|end| end.is_some()) {
        let EntityQueryRequest { types, filters, sort, limit, offset, .. } = asked;
        let (entity_id, from_id, to_id) = (wanted.of, wanted.from, wanted.to);
        let asked =
            RelationQueryRequest { entity_id, from_id, to_id, types, filters, sort, limit, offset };
        return relations(client, &place, &asked, screen).await;
    }
    let narrows = !asked.types.is_empty() || !asked.filters.is_empty() || !asked.sort.is_empty();
    let pages = asked.limit.is_some() || asked.offset > 0;
    if wanted.entities || narrows || pages || asked.source.is_some() || asked.include_sessions {
        return entities(client, &place, &asked, screen).await;
    }
    let since = wanted.since.as_deref().map(moment).transpose()?;
    let query = AnalyseQuery { since, wait_ms: asked.wait_ms };
    print_report(client, &place, &query, screen).await
}

fn print_written(what: &str, kept: &Written, screen: &mut Screen) -> Outcome {
    let (id, session, position) = (printable(&kept.id), &kept.session, kept.position);
    screen
        .show(kept, |screen| screen.line(format!("{what} {id}: position {position} of {session}")))
}

async fn entities(
    client: &Client,
    place: &InWorkspace,
    asked: &EntityQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let call = client.call::<FindEntities>(place, &NoQuery {}, asked);
    let found = screen.while_waiting("looking", call).await?;
    screen.show(&found, |screen| {
        let print = |paper: &mut Paper| found.entities.iter().for_each(|e| print_entity(e, paper));
        Paper::print(screen, print)?;
        note_remaining(found.entities.len(), found.total, found.next_offset, screen);
        if let Some(complete) = &found.complete {
            not_searched(complete, screen);
        }
        Ok(())
    })
}

fn print_entity(entity: &Entity, paper: &mut Paper) {
    paper.heading(&one_line(&format!("{} {}", entity.kind, entity.id), LINE_CHARS));
    if let Some(changed) = entity.updated_at {
        paper.faint(&format!("changed {}", paper.times.both(&changed.to_string())));
    }
    if let (Some(sessions), Some(count), Some(last)) =
        (entity.sessions, entity.count, entity.last_at)
    {
        let (sessions, events) = (many(sessions, "session"), many(count, "event"));
        paper.faint(&format!(
            "in {sessions}, {events}, last {}",
            paper.times.both(&last.to_string())
        ));
    }
    properties(&entity.properties, paper);
    for one in &entity.named_in {
        let events = many(one.count, "event");
        paper.item(&format!(
            "{}, {events}, last {}",
            one.session,
            paper.times.both(&one.last_at.to_string())
        ));
    }
}

async fn relations(
    client: &Client,
    place: &InWorkspace,
    asked: &RelationQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let found = client.call::<FindRelationships>(place, &NoQuery {}, asked).await?;
    screen.show(&found, |screen| {
        Paper::print(screen, |paper| {
            for one in &found.relationships {
                let line = format!("{} {} {}", one.from_id, one.kind, one.to_id);
                paper.say(Tone::Plain, "", &line.replace('\n', " "));
                properties(&one.properties, paper);
            }
        })?;
        note_remaining(found.relationships.len(), found.total, found.next_offset, screen);
        Ok(())
    })
}

fn properties(properties: &Map<String, Value>, paper: &mut Paper) {
    for (name, value) in properties {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        paper.text(&one_line(&format!("{name}: {value}"), LINE_CHARS));
    }
}

fn note_remaining(shown: usize, total: u64, next: Option<u64>, screen: &Screen) {
    match next {
        Some(next) => screen.note(format!("{shown} of {total}: --offset {next} shows more.")),
        None if total == 0 => screen.note("Nothing matches."),
        None => {}
    }
}

async fn print_report(
    client: &Client,
    place: &InWorkspace,
    query: &AnalyseQuery,
    screen: &mut Screen,
) -> Outcome {
    let call = client.call::<Analyse>(place, query, &());
    let found = screen.while_waiting("counting", call).await?;
    screen.show(&found, |screen| {
        let width = screen.columns().min(REPORT_COLUMNS);
        let mut paper = Paper::new(width, screen.times());
        let since = query.since.as_deref().map(|since| format!(" since {since}"));
        paper.heading(&format!("{}{}", place.workspace, since.unwrap_or_default()));
        let done = [(found.sessions, "session"), (found.events, "event"), (found.tokens, "token")];
        paper.text(&done.map(|(count, one)| many(count, one)).join(", "));
        let (entities, relations) = (found.entities, many(found.relationships, "relation"));
        paper.text(&format!("written: {}, {relations}", format_entity_count(entities)));
        for (heading, top) in entities_by_kind(&found) {
            print_named_table(heading, top, width, &mut paper);
        }
        days(&found, &mut paper);
        screen.lines(paper.lines())?;
        not_searched(&found.complete, screen);
        Ok(())
    })
}

fn format_entity_count(count: u64) -> String {
    if count == 1 { "1 entity".to_owned() } else { format!("{} entities", grouped(count)) }
}

fn entities_by_kind(found: &AnalyticsAnswer) -> [(&'static str, &[TopEntity]); 7] {
    [
        ("Files", &found.files),
        ("Errors", &found.errors),
        ("Commands", &found.commands),
        ("Symbols", &found.symbols),
        ("Packages", &found.packages),
        ("Addresses", &found.urls),
        ("Persons", &found.people),
    ]
}

/// Prints a table of names with their sessions and events.
fn print_named_table(heading: &str, top: &[TopEntity], width: usize, paper: &mut Paper) {
    if top.is_empty() {
        return;
    }
    let names = width.saturating_sub(2 * NUMBER_COLUMNS + 2).max(NUMBER_COLUMNS);
    let row = |name: &str, room: usize, sessions: &str, events: &str| {
        let name = one_line(name, room);
        let pad = room.saturating_sub(columns(&name));
        format!("{name}{:pad$}{sessions:>NUMBER_COLUMNS$}{events:>NUMBER_COLUMNS$}", "")
    };
    // A row is indented two columns more than its heading.
    paper.heading(&row(heading, names + 2, "sessions", "events"));
    for one in top {
        paper.text(&row(&one.id, names, &grouped(one.sessions), &grouped(one.count)));
    }
}

/// Prints the latest days, each with a bar.
fn days(found: &AnalyticsAnswer, paper: &mut Paper) {
    let skipped = found.days.len().saturating_sub(DAYS_MAX);
    let shown = || found.days.iter().skip(skipped);
    let Some(most) = shown().map(|day| day.events).max() else { return };
    paper.heading("Days");
    for day in shown() {
        let bar = day.events.saturating_mul(BAR_COLUMNS).div_ceil(most.max(1));
        let bar = "#".repeat(usize::try_from(bar).unwrap_or_default());
        let sessions = many(day.sessions, "session");
        let events = many(day.events, "event");
        paper.text(&format!("{}  {sessions:>12}  {events:>14}  {bar}", day.day));
    }
}
