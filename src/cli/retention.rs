//! The verbs on how long sessions live: hold, restore, retention. It must not decide when one
//! expires.

use serde_json::Value;

use super::{
    answer::text,
    args::{Hold, Retention},
    failure::Outcome,
    screen::{Screen, instant, one_line},
};
use crate::{
    client::{Client, Request, session_path},
    event::SessionId,
};

const TITLE_CHARS: usize = 32;

pub(super) async fn hold(client: &Client, wanted: &Hold, screen: &mut Screen) -> Outcome {
    let path = session_path(&wanted.session, "/hold");
    let request = if wanted.release { Request::delete(path) } else { Request::put(path) };
    let done = if wanted.release { "released" } else { "held" };
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    screen.line(format!("{done} {}", wanted.session))?;
    Ok(())
}

pub(super) async fn restore(client: &Client, id: &SessionId, screen: &mut Screen) -> Outcome {
    let body = client.send(Request::post(session_path(id, "/restore"))).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    screen.line(match told.get("restored").and_then(Value::as_bool) {
        Some(false) => format!("nothing to restore: {id} has neither expired nor been deleted"),
        _ => format!("restored {id}"),
    })?;
    Ok(())
}

pub(super) async fn run(client: &Client, wanted: Retention, screen: &mut Screen) -> Outcome {
    let path = "/v1/admin/retention";
    let request = match wanted.dry_run {
        true => Request::get(path).query_opt("limit", wanted.limit.as_ref()),
        false => Request::post(path),
    };
    let body = client.send(request).await?.body;
    if screen.json {
        return Ok(screen.answer(&body)?);
    }
    let told: Value = serde_json::from_slice(&body).unwrap_or_default();
    for name in ["expired", "reclaimed"] {
        for id in told.get(name).and_then(Value::as_array).into_iter().flatten() {
            screen.line(format!("{name} {}", id.as_str().unwrap_or_default()))?;
        }
    }
    let rows: Vec<Vec<String>> = told
        .get("data")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|row| {
            vec![
                text(row, "session"),
                text(row, "next"),
                instant(&text(row, "at")),
                text(row, "why"),
                one_line(&text(row, "title"), TITLE_CHARS),
            ]
        })
        .collect();
    if rows.is_empty() {
        screen.line("No session has an end in sight.")?;
        return Ok(());
    }
    screen.table(&["SESSION", "NEXT", "AT", "WHY", "TITLE"], rows)?;
    Ok(())
}
