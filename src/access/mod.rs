//! CREDENTIALS: who asks, on whose behalf, and what they may ask for. Tokens and JWTs become a
//! principal; a principal has grants, and its tenant has limits. It must not know a session, a
//! verb or a route: doors say what a call needs.

mod base64url;
mod grant;
#[cfg(feature = "http")]
mod jwt;
mod principal;
mod record;
mod tenant;
#[cfg(feature = "http")]
mod tls;
mod token;
mod watched;

#[cfg(feature = "http")]
mod keeper;

pub use grant::{Grant, Grants};
#[cfg(feature = "http")]
pub use jwt::JwtRules;
#[cfg(feature = "http")]
pub use keeper::{Access, AccessOptions, Denied, TokenChange};
pub use principal::{AUDIT_USER, Lacking, Principal, scope};
pub use record::{NewToken, Record, TokensError, create, list, revoke};
pub use tenant::{Full, Limits, Reading, Tenant};
#[cfg(feature = "http")]
pub use tls::Certificates;
pub use watched::Unusable;
