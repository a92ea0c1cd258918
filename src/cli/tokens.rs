//! `tokens`: creates, lists and revokes tokens in their file; and the audit log, which records
//! their use. It must not print a secret twice.

use serde_json::{Map, Value, json};

use super::{
    answer::to_usize,
    args::{self, AuditArgs, NewTokenArgs, TokensVerb},
    config::Config,
    failure::{CliError, Outcome},
    page::to_single_line,
    screen::{Screen, format_instant, one_line},
    values::parse_duration,
};
use crate::{
    access::{self, TokenRecord, TokensError},
    client::Client,
    env::{Clock as _, clock::SystemClock, entropy::SystemEntropy},
    event::Timestamp,
    verbs::{NoParams, admin},
};

const LABEL_CHARS: usize = 32;

pub(super) fn run(config: &Config, verb: &TokensVerb, screen: &mut Screen) -> Outcome {
    let missing = "no file of tokens is named: give --tokens-file FILE, or set \
                   SESSIONLOG_TOKENS_FILE, here and where the server starts";
    let path = config.interfaces.tokens_file.as_ref().ok_or_else(|| CliError::usage(missing))?;
    let now = SystemClock::new().now();
    match verb {
        TokensVerb::Create(wanted) => {
            let new = new_token(wanted.clone(), now)?;
            let (token, record) =
                access::create_token(path, new, now, &SystemEntropy).map_err(tokens_failure)?;
            print_created(&token, &record, now, screen)
        }
        TokensVerb::List => {
            let records =
                access::read_tokens(path).map_err(|error| tokens_failure(error.into()))?;
            print_tokens(&records, now, screen)
        }
        TokensVerb::Revoke(wanted) => {
            let record = access::revoke_token(path, &wanted.id, now).map_err(tokens_failure)?;
            if screen.json {
                return Ok(screen.print_json(&Value::Object(token_members(&record, now)))?);
            }
            screen.print_line(format!("revoked sl_{}; it is refused from now on", record.id))?;
            Ok(())
        }
    }
}

fn new_token(wanted: NewTokenArgs, now: Timestamp) -> Outcome<access::NewToken> {
    let NewTokenArgs { tenant, user, scopes, expires, label } = wanted;
    let end = |text: String| {
        let after = parse_duration(&text).and_then(|after| i64::try_from(after.as_micros()).ok());
        let end = after.map(|micros| now.plus_micros(micros)).or_else(|| Timestamp::parse(&text));
        end.filter(|end| *end > now).ok_or_else(|| {
            let wanted = "a time to come, such as 90d or 2027-01-31T00:00:00Z, is expected";
            CliError::usage(format!("--expires {text:?}: {wanted}"))
        })
    };
    let expires_at = expires.map(end).transpose()?;
    Ok(access::NewToken { tenant, user, scopes, label, expires_at })
}

fn tokens_failure(error: TokensError) -> CliError {
    let action = match &error {
        TokensError::Unknown => "`sessionlog tokens list` shows their ids",
        TokensError::File(_) => "name a file that is yours with --tokens-file",
        TokensError::Wrong(..) => "see `sessionlog tokens create --help`",
    };
    CliError::invalid_request(error.to_string(), action)
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
        return Ok(screen.print_json(&Value::Object(told))?);
    }
    screen.print_line(token)?;
    screen.flush()?;
    let end = record
        .expires_at
        .as_deref()
        .map_or("does not expire".to_owned(), |at| format!("expires {}", format_instant(at)));
    screen.print_note(format!(
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
        return Ok(screen.print_json(&json!({ "data": data }))?);
    }
    let rows = records.iter().map(|record| {
        vec![
            format!("sl_{}", record.id),
            record.tenant.clone(),
            record.user.clone(),
            record.scopes.join(","),
            token_state(record, now).to_owned(),
            record.expires_at.as_deref().map(format_instant).unwrap_or_default(),
            one_line(record.label.as_deref().unwrap_or_default(), LABEL_CHARS),
        ]
    });
    let heads = ["TOKEN", "TENANT", "USER", "SCOPES", "STATE", "EXPIRES", "LABEL"];
    screen.print_table(&heads, rows.collect())?;
    Ok(())
}

pub(super) async fn print_audit_log(
    client: &Client,
    wanted: AuditArgs,
    screen: &mut Screen,
) -> Outcome {
    let query = admin::AuditQuery {
        from: wanted.from,
        limit: wanted.limit.map(to_usize),
        order: Some(args::name_of(wanted.order)),
        ..admin::AuditQuery::default()
    };
    let log = client.call::<admin::GetAuditLog>(&NoParams {}, &query, &()).await?;
    if screen.json {
        return Ok(screen.print_answer(log.text().as_bytes())?);
    }
    for line in client.parse_text_answer::<admin::GetAuditLog, _>(&log)?.data {
        screen.print_line(to_single_line(line.get()))?;
    }
    Ok(())
}
