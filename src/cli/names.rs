//! Sessions by name: a unique beginning of an id stands for the id, and an unknown id is answered
//! with the ids it resembles. It must not apply to a verb that creates the session it names.

use super::{
    args::Verb,
    failure::{Failure, Outcome},
};
use crate::{
    client::{Client, ClientError, Refusal},
    event::SessionId,
    verbs::{InSession, NoQuery, Nowhere, sessions},
};

/// Sessions of a page.
const PAGE: usize = 1_000;
/// Ids named in an error.
const NAMED_MAX: usize = 5;
const NOT_FOUND: &str = "session_not_found";

/// Replaces a unique prefix in a verb's session by the id. Other refusals than an unknown session
/// are left to the verb.
pub(super) async fn resolve(client: &Client, verb: &mut Verb) -> Outcome {
    match verb.session_mut() {
        Some(session) => look_up(client, session, false).await,
        None => Ok(()),
    }
}

/// Replaces a unique prefix by the id; `appends` says that the session could be created instead.
pub(super) async fn look_up(client: &Client, session: &mut SessionId, appends: bool) -> Outcome {
    let place = InSession { session: session.clone() };
    let Err(error) = client.call::<sessions::Get>(&place, &NoQuery {}, &()).await else {
        return Ok(());
    };
    let refusal = match error {
        ClientError::Refused(refusal) if refusal.code == NOT_FOUND => refusal,
        _ => return Ok(()),
    };
    let all = ids(client).await.unwrap_or_default();
    let prefix = session.as_str();
    let candidates: Vec<&String> = all.iter().filter(|id| id.starts_with(prefix)).collect();
    match candidates.as_slice() {
        [] => Err(unknown(*refusal, prefix, &all, appends)),
        [one] => {
            if let Ok(found) = SessionId::new(one) {
                *session = found;
            }
            Ok(())
        }
        many => Err(Failure::Usage(format!(
            "{prefix:?} is the beginning of {} session ids: {}",
            many.len(),
            named(many)
        ))),
    }
}

/// Every session's id, newest first.
async fn ids(client: &Client) -> Outcome<Vec<String>> {
    let mut ids = Vec::new();
    let mut query = sessions::ListQuery { limit: Some(PAGE), ..Default::default() };
    loop {
        let list = client.call::<sessions::List>(&Nowhere {}, &query, &()).await?;
        ids.extend(list.data.into_iter().map(|session| session.id));
        query.page = list.next_page;
        if query.page.is_none() {
            return Ok(ids);
        }
    }
}

fn named(ids: &[&String]) -> String {
    let mut text: Vec<&str> = ids.iter().take(NAMED_MAX).map(|id| id.as_str()).collect();
    let more = format!("and {} more", ids.len().saturating_sub(NAMED_MAX));
    if ids.len() > NAMED_MAX {
        text.push(&more);
    }
    text.join(", ")
}

fn unknown(mut refusal: Refusal, asked: &str, all: &[String], appends: bool) -> Failure {
    let allowed = (asked.chars().count() / 3).clamp(1, 4);
    let mut near: Vec<(usize, &String)> =
        all.iter().map(|id| (distance(asked, id), id)).filter(|(far, _)| *far <= allowed).collect();
    near.sort_by_key(|(far, _)| *far);
    let near: Vec<&String> = near.into_iter().map(|(_, id)| id).take(3).collect();
    let mut action = match near.as_slice() {
        [] => "`sessionlog sessions` lists the sessions".to_owned(),
        near => format!("did you mean {}?", named(near)),
    };
    if appends {
        action = format!("add --create to create it; {action}");
    }
    let message = refusal.message.clone();
    refusal.reword(message, Some(action));
    ClientError::Refused(Box::new(refusal)).into()
}

/// Characters to insert, remove, replace or swap with a neighbour to get from one text to another.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at =
                |row: &[usize], place: usize| row.get(place).copied().unwrap_or(usize::MAX - 1);
            let mut least = (at(&row, j) + usize::from(from != to))
                .min(at(&row, j + 1) + 1)
                .min(at(&next, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                least = least.min(at(&before, j - 1) + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_of_two_ids_counts_what_a_hand_slips() {
        for (a, b, far) in [
            ("trip", "trip", 0),
            ("tripp", "trip", 1),
            ("tirp", "trip", 1),
            ("", "abc", 3),
            ("run-1", "run-7", 1),
        ] {
            assert_eq!(distance(a, b), far, "{a} {b}");
        }
    }
}
