//! The file of tokens: JSON, written whole and renamed into place. It must not hold a secret: it
//! stores the hash of a token; the token itself is returned once, when it is created.
//!
//! ```text
//! {"format":1,"tokens":[{"id":"5kq0v7rz","hash":"…","tenant":"acme","user":"ada",
//!  "scopes":["read","write"],"label":"laptop","created_at":"…","expires_at":null,"revoked_at":null}]}
//! ```

use std::{io::Write as _, path::Path};

use serde::{Deserialize, Serialize};

use super::{
    FileError, Grant, Grants, principal,
    token::{self, TokenHash},
    watched::{self, Privacy},
};
use crate::{
    env::{Entropy, files},
    event::{Scope, Timestamp},
};

const FORMAT: u32 = 1;
const FILE_BYTES_MAX: u64 = 64 << 20;
const LABEL_CHARS_MAX: usize = 128;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenFile {
    format: u32,
    tokens: Vec<TokenRecord>,
}

/// A token as stored in the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// Id, which is also a part of the token text.
    pub id: String,
    /// Hash of the whole token.
    hash: String,
    /// Tenant that the token belongs to.
    pub tenant: String,
    /// User of the tenant.
    pub user: String,
    /// Names of its grants.
    pub scopes: Vec<String>,
    /// Label that the operator gave it.
    pub label: Option<String>,
    /// Time of its creation.
    pub created_at: String,
    /// Time of its expiry.
    pub expires_at: Option<String>,
    /// Time of its revocation.
    pub revoked_at: Option<String>,
}

/// A record that was parsed and validated.
pub(super) struct ValidToken {
    pub(super) hash: TokenHash,
    pub(super) scope: Scope,
    pub(super) grants: Grants,
    pub(super) expires_at: Option<Timestamp>,
    pub(super) revoked: bool,
}

/// Properties of a new token.
#[derive(Clone, Debug)]
pub struct NewToken {
    /// Tenant that the token belongs to.
    pub tenant: String,
    /// User of the tenant.
    pub user: String,
    /// Grants; at least one.
    pub scopes: Vec<Grant>,
    /// Label that the operator gave it.
    pub label: Option<String>,
    /// Time of its expiry.
    pub expires_at: Option<Timestamp>,
}

/// Reason for which the file of tokens was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum TokensError {
    /// The file cannot be used.
    #[error("tokens file {0}")]
    File(#[from] FileError),
    /// An invalid parameter.
    #[error("{0}: {1}")]
    Wrong(&'static str, &'static str),
    /// No token has that name.
    #[error("no token has that id")]
    Unknown,
}

impl TokenRecord {
    pub(super) fn parse(&self) -> Result<ValidToken, String> {
        let wrong = |what: &str| format!("token {:?}: its {what} makes no sense", self.id);
        let instant = |text: &Option<String>, what: &str| match text {
            Some(text) => Timestamp::parse(text).map(Some).ok_or_else(|| wrong(what)),
            None => Ok(None),
        };
        let grants = self.scopes.iter().map(|name| Grant::parse(name));
        Ok(ValidToken {
            hash: TokenHash::parse(&self.hash).ok_or_else(|| wrong("hash"))?,
            scope: principal::parse_scope(&self.tenant, &self.user)
                .ok_or_else(|| wrong("tenant or user"))?,
            grants: grants.collect::<Option<Grants>>().ok_or_else(|| wrong("scopes"))?,
            expires_at: instant(&self.expires_at, "expires_at")?,
            revoked: instant(&self.revoked_at, "revoked_at")?.is_some(),
        })
    }
}

/// Reads every token of a file.
///
/// # Errors
/// [`FileError`] if the file cannot be used.
pub fn read_tokens(path: &Path) -> Result<Vec<TokenRecord>, FileError> {
    let bytes = watched::read(path, Privacy::Private, FILE_BYTES_MAX)?;
    let wrong = |problem: String| FileError::new(path, problem);
    // The error gives the offset in the text and omits the text, which may be secret.
    let read: Result<TokenFile, _> = serde_json::from_slice(&bytes);
    let document = read.map_err(|error| {
        let (line, column) = (error.line(), error.column());
        wrong(format!("it is no file of tokens, at line {line} column {column}"))
    })?;
    match document.format {
        FORMAT => Ok(document.tokens),
        other => Err(wrong(format!("it has format {other}; this version reads {FORMAT}"))),
    }
}

fn read_tokens_or_empty(path: &Path) -> Result<Vec<TokenRecord>, FileError> {
    match files::path_info(path) {
        Ok(None) => Ok(Vec::new()),
        _ => read_tokens(path),
    }
}

fn write_tokens(path: &Path, tokens: Vec<TokenRecord>) -> Result<(), FileError> {
    let document = TokenFile { format: FORMAT, tokens };
    let text = serde_json::to_string_pretty(&document).expect("texts and lists are JSON");
    let written = files::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        file.finish()
    });
    written.map_err(|error| FileError::new(path, error))
}

/// Creates a token and returns it. It is not stored and cannot be returned again.
///
/// # Errors
/// [`TokensError`]; then there is no new token.
pub fn create_token(
    path: &Path,
    new: NewToken,
    now: Timestamp,
    entropy: &dyn Entropy,
) -> Result<(String, TokenRecord), TokensError> {
    if principal::parse_scope(&new.tenant, &new.user).is_none() {
        let problem =
            "names are [A-Za-z0-9][A-Za-z0-9._-]{0,127}, and no user is called sessionlog.…";
        return Err(TokensError::Wrong("tenant, user", problem));
    }
    let label = new.label.as_deref().unwrap_or_default();
    if label.chars().count() > LABEL_CHARS_MAX || label.chars().any(char::is_control) {
        return Err(TokensError::Wrong("label", "128 printable characters at most"));
    }
    if new.scopes.is_empty() {
        return Err(TokensError::Wrong("scopes", "name one at least"));
    }
    let _lock = files::acquire_file_lock(path).map_err(|error| FileError::new(path, error))?;
    let mut tokens = read_tokens_or_empty(path)?;
    let (token, id) = loop {
        let (token, id) = token::mint(entropy);
        if !tokens.iter().any(|known| known.id == id) {
            break (token, id);
        }
    };
    let granted = Grant::ALL.into_iter().filter(|grant| new.scopes.contains(grant));
    let record = TokenRecord {
        id,
        hash: TokenHash::new(&token).to_hex(),
        tenant: new.tenant,
        user: new.user,
        scopes: granted.map(|grant| grant.as_str().to_owned()).collect(),
        label: new.label,
        created_at: now.to_string(),
        expires_at: new.expires_at.map(|at| at.to_string()),
        revoked_at: None,
    };
    tokens.push(record.clone());
    write_tokens(path, tokens)?;
    Ok((token, record))
}

/// Revokes a token, by its id or by a prefix of the token that contains it. Idempotent.
///
/// # Errors
/// [`TokensError`]; the token is unchanged then.
pub fn revoke_token(path: &Path, name: &str, now: Timestamp) -> Result<TokenRecord, TokensError> {
    let _lock = files::acquire_file_lock(path).map_err(|error| FileError::new(path, error))?;
    let mut tokens = read_tokens(path)?;
    let id = name.strip_prefix("sl_").unwrap_or(name);
    let found = tokens.iter_mut().find(|record| record.id == id).ok_or(TokensError::Unknown)?;
    found.revoked_at.get_or_insert_with(|| now.to_string());
    let record = found.clone();
    write_tokens(path, tokens)?;
    Ok(record)
}
