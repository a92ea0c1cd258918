//! Authentication: takes a credential, returns a principal or a refusal. It must not reveal to an
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
    JwtRules, Limits, PerTenant, Principal, Tenant, Unusable,
    jwt::Jwt,
    record::{self, Checked, TokenRecord},
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
    pub limits: PerTenant<Limits>,
}

/// A refused credential.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The error text for the client.
    pub problem: &'static str,
    /// The tenant and id of a token that has expired or was revoked.
    pub known: Option<(Arc<Tenant>, Arc<str>)>,
}

/// Change of a token since the previous read of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenChange {
    /// Its tenant.
    pub tenant: TenantId,
    /// Its id.
    pub id: String,
    /// `created`, `revoked`, `changed` or `removed`.
    pub change: &'static str,
}

/// Checks credentials against the token file and the JWT rules.
pub struct Access {
    tokens: Option<Watched<Table>>,
    jwt: Option<Jwt>,
    tenants: Arc<Tenants>,
    clock: Arc<dyn Clock>,
}

/// Tenants with requests so far, kept until the process ends: their usage is counted here.
struct Tenants {
    limits: PerTenant<Limits>,
    by_id: RwLock<HashMap<TenantId, Arc<Tenant>>>,
    changes: Mutex<Vec<TokenChange>>,
    /// True if a change is pending. Read at each request without blocking.
    changed: AtomicBool,
}

struct Table {
    by_id: HashMap<String, TokenEntry>,
}

struct TokenEntry {
    hash: TokenHash,
    expires_at: Option<Timestamp>,
    revoked: bool,
    principal: Arc<Principal>,
}

impl Access {
    /// Reads the token file and the key file that the options name.
    ///
    /// # Errors
    /// The file that cannot be used.
    pub fn open(options: AccessOptions, clock: Arc<dyn Clock>) -> Result<Self, Unusable> {
        let tenants = Arc::new(Tenants {
            limits: options.limits,
            by_id: RwLock::default(),
            changes: Mutex::default(),
            changed: AtomicBool::new(false),
        });
        let tokens = options.tokens.map(|path| {
            let (file, tenants) = (path.clone(), Arc::clone(&tenants));
            let make = Box::new(move |before: Option<&Arc<Table>>| {
                let records = record::list(&file)?;
                let table = table(&records, &tenants);
                let table = table.map_err(|problem| Unusable::new(&file, problem))?;
                if let Some(before) = before {
                    tenants.queue_changes(before, &table);
                }
                Ok(table)
            });
            Watched::open(vec![path], false, make)
        });
        let jwt = options.jwt.map(Jwt::open).transpose()?;
        Ok(Self { tokens: tokens.transpose()?, jwt, tenants, clock })
    }

    /// Returns the principal of a credential.
    ///
    /// # Errors
    /// [`Denied`]; an unknown and a wrong credential give the same error.
    pub fn authenticate(&self, credential: &str) -> Result<Arc<Principal>, Denied> {
        let stranger = |problem| Denied { problem, known: None };
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(stranger("the credential is longer than any is"));
        }
        if token::is_one(credential) {
            return self.authenticate_token(credential);
        }
        let Some(jwt) = &self.jwt else { return Err(stranger(NOT_VALID)) };
        let claims = jwt.check(credential, self.clock.now()).map_err(stranger)?;
        let name = format!("jwt:{}", claims.scope.user);
        let tenant = self.tenants.get(&claims.scope.tenant);
        let (scope, grants) = (claims.scope, claims.grants);
        Ok(Arc::new(Principal { scope, grants, name: name.into(), tenant, is_audited: true }))
    }

    fn authenticate_token(&self, credential: &str) -> Result<Arc<Principal>, Denied> {
        let stranger = || Denied { problem: NOT_VALID, known: None };
        let Some(tokens) = &self.tokens else { return Err(stranger()) };
        let table = tokens.current().ok_or(Denied {
            problem: "the tokens of this server cannot be read now",
            known: None,
        })?;
        // Hashed even if the id is unknown, so that both cases take the same time.
        let hash = TokenHash::new(credential);
        let entry = token::name_of(credential).and_then(|name| table.by_id.get(name));
        let Some(entry) = entry.filter(|entry| entry.hash == hash) else { return Err(stranger()) };
        let known = || {
            let Principal { tenant, name, .. } = &*entry.principal;
            Some((Arc::clone(tenant), Arc::clone(name)))
        };
        if entry.revoked {
            return Err(Denied { problem: "the token was revoked", known: known() });
        }
        if entry.expires_at.is_some_and(|end| self.clock.now() >= end) {
            return Err(Denied { problem: "the token has expired", known: known() });
        }
        Ok(Arc::clone(&entry.principal))
    }

    /// Returns and clears the changes of tokens that were seen in the file.
    #[must_use]
    pub fn changes(&self) -> Vec<TokenChange> {
        let changed = &self.tenants.changed;
        if !changed.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut changes = self.tenants.changes();
        changed.store(false, Ordering::Release);
        std::mem::take(&mut *changes)
    }
}

const NOT_VALID: &str = "the credential is not valid";

impl Tenants {
    fn get(&self, id: &TenantId) -> Arc<Tenant> {
        let known = self.by_id.read().get(id).cloned();
        known.unwrap_or_else(|| {
            let mut by_id = self.by_id.write();
            let new = || Arc::new(Tenant::new(id.clone(), *self.limits.get(id)));
            Arc::clone(by_id.entry(id.clone()).or_insert_with(new))
        })
    }

    fn changes(&self) -> MutexGuard<'_, Vec<TokenChange>> {
        self.changes.lock()
    }

    fn queue_changes(&self, before: &Table, now: &Table) {
        let mut changes = self.changes();
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

fn table(records: &[TokenRecord], tenants: &Tenants) -> Result<Table, String> {
    let mut by_id = HashMap::with_capacity(records.len());
    for record in records {
        let Checked { hash, scope, grants, expires_at, revoked } = record.check()?;
        let tenant = tenants.get(&scope.tenant);
        let name = record.id.as_str().into();
        let principal = Principal { scope, grants, name, tenant, is_audited: true };
        let entry = TokenEntry { hash, expires_at, revoked, principal: Arc::new(principal) };
        if by_id.insert(record.id.clone(), entry).is_some() {
            return Err(format!("token {:?}: there are two of that id", record.id));
        }
    }
    Ok(Table { by_id })
}
