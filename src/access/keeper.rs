//! Authentication: maps a credential to a principal, or refuses it. It must not reveal to an
//! unauthenticated caller more than that the credential is not valid.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    FileError, JwtRules, PerTenant, Principal, Tenant, TenantLimits,
    jwt::JwtVerifier,
    record::{self, TokenRecord, ValidToken},
    token::{self, TokenHash},
    watched::Watched,
};
use crate::{
    env::{
        Clock,
        sync::{Mutex, MutexGuard, RwLock},
    },
    event::{TenantId, Timestamp},
};

/// Maximum bytes of a credential.
const CREDENTIAL_BYTES_MAX: usize = 8 << 10;
/// Maximum number of token changes that are queued for the audit log.
const CHANGES_MAX: usize = 1_000;

/// Options for checking credentials.
#[derive(Clone, Debug, Default)]
pub struct AccessOptions {
    /// The file of tokens.
    pub tokens: Option<PathBuf>,
    /// The rules for accepting JWTs; `None` refuses all.
    pub jwt: Option<JwtRules>,
    /// Limits of each tenant.
    pub limits: PerTenant<TenantLimits>,
}

/// A refused credential.
#[derive(Clone, Debug)]
pub struct DeniedCredential {
    /// Error text for the client.
    pub problem: &'static str,
    /// Tenant and id of a token that has expired or was revoked; `None` for any other credential.
    pub known: Option<(Arc<Tenant>, Arc<str>)>,
}

/// Change of a token since the previous read of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenChange {
    /// Tenant of the token.
    pub tenant: TenantId,
    /// Id of the token.
    pub id: String,
    /// `created`, `revoked`, `changed` or `removed`.
    pub change: &'static str,
}

/// Checks credentials against the token file and the JWT rules.
pub struct Authenticator {
    tokens: Option<Watched<TokenTable>>,
    jwt: Option<JwtVerifier>,
    tenants: Arc<Tenants>,
    clock: Arc<dyn Clock>,
}

/// Tenants with requests so far, kept until the process ends: their usage is counted here.
struct Tenants {
    limits: PerTenant<TenantLimits>,
    by_id: RwLock<HashMap<TenantId, Arc<Tenant>>>,
    changes: Mutex<Vec<TokenChange>>,
    /// True if a change is pending. Read at each request without blocking.
    changed: AtomicBool,
}

struct TokenTable {
    by_id: HashMap<String, TokenEntry>,
}

struct TokenEntry {
    hash: TokenHash,
    expires_at: Option<Timestamp>,
    revoked: bool,
    principal: Arc<Principal>,
}

impl Authenticator {
    /// Reads the token file and the key file that the options name.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn open(options: AccessOptions, clock: Arc<dyn Clock>) -> Result<Self, FileError> {
        let tenants = Arc::new(Tenants {
            limits: options.limits,
            by_id: RwLock::default(),
            changes: Mutex::default(),
            changed: AtomicBool::new(false),
        });
        let tokens = options.tokens.map(|path| {
            let (file, tenants) = (path.clone(), Arc::clone(&tenants));
            let make = Box::new(move |before: Option<&Arc<TokenTable>>| {
                let records = record::read_tokens(&file)?;
                let table = build_table(&records, &tenants);
                let table = table.map_err(|problem| FileError::new(&file, problem))?;
                if let Some(before) = before {
                    tenants.queue_changes(before, &table);
                }
                Ok(table)
            });
            Watched::open(vec![path], false, make)
        });
        let jwt = options.jwt.map(JwtVerifier::open).transpose()?;
        Ok(Self { tokens: tokens.transpose()?, jwt, tenants, clock })
    }

    /// Returns the principal of a credential.
    ///
    /// # Errors
    /// [`DeniedCredential`]; an unknown and a wrong credential give the same error.
    pub fn authenticate(&self, credential: &str) -> Result<Arc<Principal>, DeniedCredential> {
        let stranger = |problem| DeniedCredential { problem, known: None };
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(stranger("the credential is longer than any is"));
        }
        if token::has_token_prefix(credential) {
            return self.authenticate_token(credential);
        }
        let Some(jwt) = &self.jwt else { return Err(stranger(NOT_VALID)) };
        let claims = jwt.check(credential, self.clock.now()).map_err(stranger)?;
        let name = format!("jwt:{}", claims.scope.user);
        let tenant = self.tenants.get_or_insert(&claims.scope.tenant);
        let (scope, grants) = (claims.scope, claims.grants);
        Ok(Arc::new(Principal { scope, grants, name: name.into(), tenant, is_audited: true }))
    }

    fn authenticate_token(&self, credential: &str) -> Result<Arc<Principal>, DeniedCredential> {
        let stranger = || DeniedCredential { problem: NOT_VALID, known: None };
        let Some(tokens) = &self.tokens else { return Err(stranger()) };
        let table = tokens.current().ok_or(DeniedCredential {
            problem: "the tokens of this server cannot be read now",
            known: None,
        })?;
        // Hashed even if the id is unknown, so that both cases take the same time.
        let hash = TokenHash::new(credential);
        let entry = token::parse_id(credential).and_then(|name| table.by_id.get(name));
        let Some(entry) = entry.filter(|entry| entry.hash == hash) else { return Err(stranger()) };
        let known = || {
            let Principal { tenant, name, .. } = &*entry.principal;
            Some((Arc::clone(tenant), Arc::clone(name)))
        };
        if entry.revoked {
            return Err(DeniedCredential { problem: "the token was revoked", known: known() });
        }
        if entry.expires_at.is_some_and(|end| self.clock.now() >= end) {
            return Err(DeniedCredential { problem: "the token has expired", known: known() });
        }
        Ok(Arc::clone(&entry.principal))
    }

    /// Returns and clears the changes of tokens that were detected in the file.
    #[must_use]
    pub fn take_changes(&self) -> Vec<TokenChange> {
        let changed = &self.tenants.changed;
        if !changed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut changes = self.tenants.lock_changes();
        changed.store(false, Ordering::Release);
        std::mem::take(&mut *changes)
    }
}

const NOT_VALID: &str = "the credential is not valid";

impl Tenants {
    fn get_or_insert(&self, id: &TenantId) -> Arc<Tenant> {
        let known = self.by_id.read().get(id).cloned();
        known.unwrap_or_else(|| {
            let mut by_id = self.by_id.write();
            let new = || Arc::new(Tenant::new(id.clone(), *self.limits.get(id)));
            Arc::clone(by_id.entry(id.clone()).or_insert_with(new))
        })
    }

    fn lock_changes(&self) -> MutexGuard<'_, Vec<TokenChange>> {
        self.changes.lock()
    }

    fn queue_changes(&self, before: &TokenTable, now: &TokenTable) {
        let mut changes = self.lock_changes();
        let mut add = |entry: &TokenEntry, id: &String, change| {
            if changes.len() < CHANGES_MAX {
                let tenant = entry.principal.scope.tenant.clone();
                changes.push(TokenChange { tenant, id: id.clone(), change });
            }
        };
        for (id, entry) in &now.by_id {
            match before.by_id.get(id) {
                None => add(entry, id, "created"),
                Some(old) if entry.revoked && !old.revoked => add(entry, id, "revoked"),
                Some(old) if old.is_same_as(entry) => {}
                Some(_) => add(entry, id, "changed"),
            }
        }
        for (id, entry) in before.by_id.iter().filter(|(id, _)| !now.by_id.contains_key(*id)) {
            add(entry, id, "removed");
        }
        self.changed.store(true, Ordering::Release);
        drop(changes);
    }
}

impl TokenEntry {
    fn is_same_as(&self, other: &Self) -> bool {
        let rights = |entry: &Self| (entry.hash, entry.expires_at, entry.revoked);
        rights(self) == rights(other)
            && self.principal.scope == other.principal.scope
            && self.principal.grants == other.principal.grants
    }
}

fn build_table(records: &[TokenRecord], tenants: &Tenants) -> Result<TokenTable, String> {
    let mut by_id = HashMap::with_capacity(records.len());
    for record in records {
        let ValidToken { hash, scope, grants, expires_at, revoked } = record.parse()?;
        let tenant = tenants.get_or_insert(&scope.tenant);
        let name = record.id.as_str().into();
        let principal = Principal { scope, grants, name, tenant, is_audited: true };
        let entry = TokenEntry { hash, expires_at, revoked, principal: Arc::new(principal) };
        if by_id.insert(record.id.clone(), entry).is_some() {
            return Err(format!("token {:?}: there are two of that id", record.id));
        }
    }
    Ok(TokenTable { by_id })
}
