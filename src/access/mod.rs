//! CREDENTIALS: who sends a request, on whose behalf, and what it may do. Tokens and JWTs become a
//! principal; a principal has grants, and its tenant has limits. It must not depend on sessions,
//! verbs or routes: each interface declares the grants that a call needs.

mod grant;
#[cfg(feature = "http")]
mod jwt;
#[cfg(feature = "http")]
mod keeper;
mod principal;
#[cfg(feature = "http")]
mod record;
mod tenant;
#[cfg(feature = "http")]
mod tls;
#[cfg(feature = "http")]
mod token;
#[cfg(feature = "http")]
mod watched;

pub use grant::{Grant, Grants};
#[cfg(feature = "http")]
pub use jwt::JwtRules;
#[cfg(feature = "http")]
pub use keeper::{AccessOptions, Authenticator, DeniedCredential, TokenChange};
pub use principal::{AUDIT_USER, MissingGrant, Principal, is_reserved, parse_scope};
#[cfg(feature = "http")]
pub use record::{NewToken, TokenRecord, TokensError, create_token, read_tokens, revoke_token};
pub use tenant::{ExceededLimit, PerTenant, Tenant, TenantLimits, TenantSlot};
#[cfg(feature = "http")]
pub use tls::Certificates;
#[cfg(feature = "http")]
pub use watched::FileError;
