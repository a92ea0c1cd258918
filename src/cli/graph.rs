//! `graph`: prints the activity of a workspace, its entities and its relations. It must not filter
//! or count: the server does.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{
    args,
    columns::text_columns,
    failure::Outcome,
    readable::{
        LineBuffer,
        words::{count_of, group_digits},
    },
    screen::{Screen, Tone, escaped, one_line},
    search::not_searched,
    times::resolve_instant,
};
use crate::{
    api::graph::{
        AnalyticsAnswer, Entity, EntityQueryRequest, RelateRequest, RelationQueryRequest,
        TopEntity, UpsertRequest, Written,
    },
    client::Client,
    verbs::{
        EntityPath, NoQuery, RelationPath, WorkspacePath,
        graph::{
            AnalyseQuery, AnalyseWorkspace, CreateRelation, FindEntities, FindRelationships,
            PutEntity, RemoveEntity, RemoveRelation,
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
    let place = WorkspacePath { workspace: workspace.clone() };
    let properties = wanted.properties.clone().unwrap_or_default();
    if let Some((kind, id)) = wanted.upsert {
        let place = EntityPath { workspace, kind, id };
        let asked = UpsertRequest { properties };
        let kept = client.call::<PutEntity>(&place, &NoQuery {}, &asked).await?;
        return print_written("entity", &kept, screen);
    }
    if let Some([from, kind, to]) = wanted.relate.as_deref() {
        let (kind, from_id, to_id) = (kind.clone(), from.clone(), to.clone());
        let asked = RelateRequest { kind, from_id, to_id, properties };
        let kept = client.call::<CreateRelation>(&place, &NoQuery {}, &asked).await?;
        return print_written("relation", &kept, screen);
    }
    if let Some(name) = &wanted.remove {
        // An entity has a type before its id; a relation's id has none.
        let kept = match args::parse_entity(name) {
            Ok((kind, id)) => {
                let place = EntityPath { workspace, kind, id };
                client.call::<RemoveEntity>(&place, &NoQuery {}, &()).await?
            }
            Err(_) => {
                let place = RelationPath { workspace, relation: name.clone() };
                client.call::<RemoveRelation>(&place, &NoQuery {}, &()).await?
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
        return print_relations(client, &place, &asked, screen).await;
    }
    let narrows = !asked.types.is_empty() || !asked.filters.is_empty() || !asked.sort.is_empty();
    let pages = asked.limit.is_some() || asked.offset > 0;
    if wanted.entities || narrows || pages || asked.source.is_some() || asked.include_sessions {
        return print_entities(client, &place, &asked, screen).await;
    }
    let since = wanted.since.as_deref().map(resolve_instant).transpose()?;
    let query = AnalyseQuery { since, wait_ms: asked.wait_ms };
    print_report(client, &place, &query, screen).await
}

fn print_written(what: &str, kept: &Written, screen: &mut Screen) -> Outcome {
    let (id, session, position) = (escaped(&kept.id), &kept.session, kept.position);
    screen.print_result(kept, |screen| {
        screen.print_line(format!("{what} {id}: position {position} of {session}"))
    })
}

async fn print_entities(
    client: &Client,
    place: &WorkspacePath,
    asked: &EntityQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let call = client.call::<FindEntities>(place, &NoQuery {}, asked);
    let found = screen.await_with_spinner("looking", call).await?;
    screen.print_result(&found, |screen| {
        let print =
            |paper: &mut LineBuffer| found.entities.iter().for_each(|e| print_entity(e, paper));
        LineBuffer::print(screen, print)?;
        print_remaining(found.entities.len(), found.total, found.next_offset, screen);
        if let Some(complete) = &found.complete {
            not_searched(complete, screen);
        }
        Ok(())
    })
}

fn print_entity(entity: &Entity, paper: &mut LineBuffer) {
    paper.push_heading(&one_line(&format!("{} {}", entity.kind, entity.id), LINE_CHARS));
    if let Some(changed) = entity.updated_at {
        paper.push_faint(&format!("changed {}", paper.times.format_both(&changed.to_string())));
    }
    if let (Some(sessions), Some(count), Some(last)) =
        (entity.sessions, entity.count, entity.last_at)
    {
        let (sessions, events) = (count_of(sessions, "session"), count_of(count, "event"));
        paper.push_faint(&format!(
            "in {sessions}, {events}, last {}",
            paper.times.format_both(&last.to_string())
        ));
    }
    print_properties(&entity.properties, paper);
    for one in &entity.named_in {
        let events = count_of(one.count, "event");
        paper.push_item(&format!(
            "{}, {events}, last {}",
            one.session,
            paper.times.format_both(&one.last_at.to_string())
        ));
    }
}

async fn print_relations(
    client: &Client,
    place: &WorkspacePath,
    asked: &RelationQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let found = client.call::<FindRelationships>(place, &NoQuery {}, asked).await?;
    screen.print_result(&found, |screen| {
        LineBuffer::print(screen, |paper| {
            for one in &found.relationships {
                let line = format!("{} {} {}", one.from_id, one.kind, one.to_id);
                paper.push(Tone::Plain, "", &line.replace('\n', " "));
                print_properties(&one.properties, paper);
            }
        })?;
        print_remaining(found.relationships.len(), found.total, found.next_offset, screen);
        Ok(())
    })
}

fn print_properties(properties: &Map<String, Value>, paper: &mut LineBuffer) {
    for (name, value) in properties {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        paper.push_text(&one_line(&format!("{name}: {value}"), LINE_CHARS));
    }
}

fn print_remaining(shown: usize, total: u64, next: Option<u64>, screen: &Screen) {
    match next {
        Some(next) => screen.print_note(format!("{shown} of {total}: --offset {next} shows more.")),
        None if total == 0 => screen.print_note("Nothing matches."),
        None => {}
    }
}

async fn print_report(
    client: &Client,
    place: &WorkspacePath,
    query: &AnalyseQuery,
    screen: &mut Screen,
) -> Outcome {
    let call = client.call::<AnalyseWorkspace>(place, query, &());
    let found = screen.await_with_spinner("counting", call).await?;
    screen.print_result(&found, |screen| {
        let width = screen.columns().min(REPORT_COLUMNS);
        let mut paper = LineBuffer::new(width, screen.times());
        let since = query.since.as_deref().map(|since| format!(" since {since}"));
        paper.push_heading(&format!("{}{}", place.workspace, since.unwrap_or_default()));
        let done = [(found.sessions, "session"), (found.events, "event"), (found.tokens, "token")];
        paper.push_text(&done.map(|(count, one)| count_of(count, one)).join(", "));
        let (entities, relations) = (found.entities, count_of(found.relationships, "relation"));
        paper.push_text(&format!("written: {}, {relations}", format_entity_count(entities)));
        for (heading, top) in entities_by_kind(&found) {
            print_named_table(heading, top, width, &mut paper);
        }
        print_days(&found, &mut paper);
        screen.print_lines(paper.into_lines())?;
        if found.sessions == 0 && found.entities == 0 && query.since.is_none() {
            let advice = "No session belongs to this workspace: `sessionlog sessions` shows those \
                          that there are, each with its own.";
            screen.print_note(advice);
        }
        not_searched(&found.complete, screen);
        Ok(())
    })
}

fn format_entity_count(count: u64) -> String {
    if count == 1 { "1 entity".to_owned() } else { format!("{} entities", group_digits(count)) }
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
fn print_named_table(heading: &str, top: &[TopEntity], width: usize, paper: &mut LineBuffer) {
    if top.is_empty() {
        return;
    }
    let names = width.saturating_sub(2 * NUMBER_COLUMNS + 2).max(NUMBER_COLUMNS);
    let row = |name: &str, room: usize, sessions: &str, events: &str| {
        let name = one_line(name, room);
        let pad = room.saturating_sub(text_columns(&name));
        format!("{name}{:pad$}{sessions:>NUMBER_COLUMNS$}{events:>NUMBER_COLUMNS$}", "")
    };
    // A row is indented two columns more than its heading.
    paper.push_heading(&row(heading, names + 2, "sessions", "events"));
    for one in top {
        paper.push_text(&row(
            &one.id,
            names,
            &group_digits(one.sessions),
            &group_digits(one.count),
        ));
    }
}

/// Prints the latest days, each with a bar.
fn print_days(found: &AnalyticsAnswer, paper: &mut LineBuffer) {
    let skipped = found.days.len().saturating_sub(DAYS_MAX);
    let shown = || found.days.iter().skip(skipped);
    let Some(most) = shown().map(|day| day.events).max() else { return };
    paper.push_heading("Days");
    for day in shown() {
        let bar = day.events.saturating_mul(BAR_COLUMNS).div_ceil(most.max(1));
        let bar = "#".repeat(usize::try_from(bar).unwrap_or_default());
        let sessions = count_of(day.sessions, "session");
        let events = count_of(day.events, "event");
        paper.push_text(&format!("{}  {sessions:>12}  {events:>14}  {bar}", day.day));
    }
}
