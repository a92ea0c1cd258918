//! Access: no caller reads what belongs to another. Tokens, scopes, JWTs, TLS, limits, the audit
//! log, and malicious clients, each through an interface.

mod audit;
mod fair;
mod foreign;
mod hostile;
pub mod house;
mod jwt;
mod leaving;
mod limits;
mod look_alikes;
mod raw;
mod recorded;
mod tls;
mod tokens;
mod turns;
