//! `tokens`: creates, lists and revokes tokens in their file; and the audit log, which records
//! their use. It must not print a secret twice.

use serde_json::{Map, Value, json};

use super::{
    answer::as_count,
    args::{self, AuditArgs, NewTokenArgs, TokensVerb},
    config::Config,
    failure::{Failure, Outcome},
    page::on_one_line,
    screen::{Screen, instant, one_line},
    values::duration,
};
use crate::{
    access::{self, TokenRecord, TokensError},
    client::Client,
    env::{Clock as _, clock::SystemClock, entropy::SystemEntropy},
    event::Timestamp,
    verbs::{Nowhere, admin},
};

const LABEL_CHARS: usize = 32;

pub(super) fn run(config: &Config, verb: &TokensVerb, screen: &mut Screen) -> Outcome {
    let missing = "no file of tokens is named: give --tokens-file FILE, or set \
                   SESSIONLOG_TOKENS_FILE, here and where the server starts";
    let path = config.interfaces.tokens_file.as_ref().ok_or_else(|| Failure::usage(missing))?;
    let now = SystemClock::new().now();
    match verb {
        TokensVerb::Create(wanted) => {
            let new = new_token(wanted.clone(), now)?;
            let (token, record) =
                access::create(path, new, now, &SystemEntropy).map_err(tokens_failure)?;
            print_created(&token, &record, now, screen)
        }
        TokensVerb::List => {
            let records = access::list(path).map_err(|error| tokens_failure(error.into()))?;
            print_tokens(&records, now, screen)
        }
        TokensVerb::Revoke(wanted) => {
            let record = access::revoke(path, &wanted.id, now).map_err(tokens_failure)?;
            if screen.json {
                return Ok(screen.value(&Value::Object(token_members(&record, now)))?);
            }
            screen.line(format!("revoked sl_{}; it is refused from now on", record.id))?;
            Ok(())
        }
    }
}

fn new_token(wanted: NewTokenArgs, now: Timestamp) -> Outcome<access::NewToken> {
    let NewTokenArgs { tenant, user, scopes, expires, label } = wanted;
    let end = |text: String| {
        let after = duration(&text).and_then(|after| i64::try_from(after.as_micros()).ok());
        let end = after.map(|micros| now.plus_micros(micros)).or_else(|| Timestamp::parse(&text));
        end.filter(|end| *end > now).ok_or_else(|| {
            let wanted = "a time to come, such as 90d or 2027-01-31T00:00:00Z, is expected";
            Failure::usage(format!("--expires {text:?}: {wanted}"))
        })
    };
    let expires_at = expires.map(end).transpose()?;
    Ok(access::NewToken { tenant, user, scopes, label, expires_at })
}

fn tokens_failure(error: TokensError) -> Failure {
    let action = match &error {
        TokensError::Unknown => "`sessionlog tokens list` shows their ids",
        TokensError::File(_) => "name a file that is yours with --tokens-file",
        TokensError::Wrong(..) => "see `sessionlog tokens create --help`",
    };
    Failure::invalid(error.to_string(), action)
}

fn print_created(
    token: &str,
    record: &TokenRecord,
    now: Timestamp,
    screen: &mut Screen,
) -> Outcome {
    if screen.json {
        let mut told = Map::from_iter([("token".to_owned(), Value::from(token))]);
        told.extend(token_members(record, now));
        return Ok(screen.value(&Value::Object(told))?);
    }
    screen.line(token)?;
    screen.flush()?;
    let end = record
        .expires_at
        .as_deref()
        .map_or("does not expire".to_owned(), |at| format!("expires {}", instant(at)));
    screen.note(format!(
        "This is shown once: keep it. It is user {} of tenant {}, may {}, and {end}.",
        record.user,
        record.tenant,
        record.scopes.join(", "),
    ));
    Ok(())
}

fn token_state(record: &TokenRecord, now: Timestamp) -> &'static str {
    let ended = |at: &str| Timestamp::parse(at).is_none_or(|end| now >= end);
    match (&record.revoked_at, &record.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(at)) if ended(at) => "expired",
        _ => "valid",
    }
}

fn token_members(record: &TokenRecord, now: Timestamp) -> Map<String, Value> {
    let told = json!({
        "id": record.id, "prefix": format!("sl_{}", record.id), "state": token_state(record, now),
        "tenant": record.tenant, "user": record.user, "scopes": record.scopes,
        "label": record.label, "created_at": record.created_at, "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
    });
    match told {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn print_tokens(records: &[TokenRecord], now: Timestamp, screen: &mut Screen) -> Outcome {
    if screen.json {
        let data: Vec<_> =
            records.iter().map(|record| Value::Object(token_members(record, now))).collect();
        return Ok(screen.value(&json!({ "data": data }))?);
    }
    let rows = records.iter().map(|record| {
        vec![
            format!("sl_{}", record.id),
            record.tenant.clone(),
            record.user.clone(),
            record.scopes.join(","),
            token_state(record, now).to_owned(),
            record.expires_at.as_deref().map(instant).unwrap_or_default(),
            one_line(record.label.as_deref().unwrap_or_default(), LABEL_CHARS),
        ]
    });
    let heads = ["TOKEN", "TENANT", "USER", "SCOPES", "STATE", "EXPIRES", "LABEL"];
    screen.table(&heads, rows.collect())?;
    Ok(())
}

pub(super) async fn audit(client: &Client, wanted: AuditArgs, screen: &mut Screen) -> Outcome {
    let query = admin::AuditQuery {
        from: wanted.from,
        limit: wanted.limit.map(as_count),
        order: Some(args::name_of(wanted.order)),
        ..admin::AuditQuery::default()
    };
    let log = client.call::<admin::AuditLog>(&Nowhere {}, &query, &()).await?;
    if screen.json {
        return Ok(screen.answer(log.text().as_bytes())?);
    }
    for line in client.shape::<admin::AuditLog, _>(&log)?.data {
        screen.line(on_one_line(line.get()))?;
    }
    Ok(())
}
