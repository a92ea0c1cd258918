//! `graph`: the entities and relations of a workspace. It must not filter: the server does.

use serde_json::{Map, Value};

use super::{
    args,
    failure::Outcome,
    readable::Paper,
    screen::{Screen, Tone, one_line, printable},
};
use crate::{
    client::Client,
    verbs::{
        AtEntity, InWorkspace, NoQuery,
        graph::{FindEntities, FindRelationships, PutEntity, Relate},
    },
    wire::graph::{
        EntityQueryRequest, RelateRequest, RelationQueryRequest, UpsertRequest, Written,
    },
};

/// Characters of a property.
const LINE_CHARS: usize = 200;

pub(super) async fn run(client: &Client, wanted: args::Graph, screen: &mut Screen) -> Outcome {
    let place = InWorkspace { workspace: wanted.workspace.clone() };
    let properties = wanted.properties.clone().unwrap_or_default();
    if let Some((kind, id)) = wanted.upsert {
        let place = AtEntity { workspace: wanted.workspace, kind, id };
        let asked = UpsertRequest { properties };
        let kept = client.call::<PutEntity>(&place, &NoQuery {}, &asked).await?;
        return written("entity", &kept, screen);
    }
    if let Some([from, kind, to]) = wanted.relate.as_deref() {
        let (kind, from_id, to_id) = (kind.clone(), from.clone(), to.clone());
        let asked = RelateRequest { kind, from_id, to_id, properties };
        let kept = client.call::<Relate>(&place, &NoQuery {}, &asked).await?;
        return written("relation", &kept, screen);
    }
    let number = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
    let asked = EntityQueryRequest {
        types: wanted.types,
        filters: wanted.filters,
        sort: wanted.sort,
        limit: number(wanted.limit),
        offset: number(wanted.offset).unwrap_or(0),
    };
    let ends = [&wanted.of, &wanted.from, &wanted.to];
    if wanted.relations || ends.iter().any(|end| end.is_some()) {
        let EntityQueryRequest { types, filters, sort, limit, offset } = asked;
        let (entity_id, from_id, to_id) = (wanted.of, wanted.from, wanted.to);
        let asked =
            RelationQueryRequest { entity_id, from_id, to_id, types, filters, sort, limit, offset };
        return relations(client, &place, &asked, screen).await;
    }
    entities(client, &place, &asked, screen).await
}

fn written(what: &str, kept: &Written, screen: &mut Screen) -> Outcome {
    if screen.json {
        return Ok(screen.print(kept)?);
    }
    let (id, session, position) = (printable(&kept.id), &kept.session, kept.position);
    Ok(screen.line(format!("{what} {id}: position {position} of {session}"))?)
}

async fn entities(
    client: &Client,
    place: &InWorkspace,
    asked: &EntityQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let found = client.call::<FindEntities>(place, &NoQuery {}, asked).await?;
    if screen.json {
        return Ok(screen.print(&found)?);
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    for entity in &found.entities {
        paper.heading(&format!("{} {}", entity.kind, entity.id));
        let since = paper.times.both(&entity.updated_at);
        paper.faint(&format!("changed {since}"));
        tell(&entity.properties, &mut paper);
    }
    screen.lines(paper.lines())?;
    ending(found.entities.len(), found.total, found.next_offset, screen);
    Ok(())
}

async fn relations(
    client: &Client,
    place: &InWorkspace,
    asked: &RelationQueryRequest,
    screen: &mut Screen,
) -> Outcome {
    let found = client.call::<FindRelationships>(place, &NoQuery {}, asked).await?;
    if screen.json {
        return Ok(screen.print(&found)?);
    }
    let mut paper = Paper::new(screen.columns(), screen.times());
    for one in &found.relationships {
        paper.say(Tone::Plain, "", &format!("{} {} {}", one.from_id, one.kind, one.to_id));
        tell(&one.properties, &mut paper);
    }
    screen.lines(paper.lines())?;
    ending(found.relationships.len(), found.total, found.next_offset, screen);
    Ok(())
}

fn tell(properties: &Map<String, Value>, paper: &mut Paper) {
    for (name, value) in properties {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        paper.text(&one_line(&format!("{name}: {value}"), LINE_CHARS));
    }
}

fn ending(shown: usize, total: u64, next: Option<u64>, screen: &Screen) {
    match next {
        Some(next) => screen.note(format!("{shown} of {total}: --offset {next} shows more.")),
        None if total == 0 => screen.note("Nothing matches."),
        None => {}
    }
}
