//! Who is let in, and that nobody meets what is another's: tokens, scopes, JWTs, TLS, limits, the
//! audit log, and clients that mean harm. Each through a door.

mod audit;
mod foreign;
mod hostile;
mod house;
mod jwt;
mod leaving;
mod limits;
mod raw;
mod recorded;
mod tls;
mod tokens;
