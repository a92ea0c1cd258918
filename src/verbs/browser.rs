//! Requests that a listener refuses because a browser sends them for another site: plain checks
//! that every interface on a network shares. It must not know a header's type.

use std::net::IpAddr;

/// Header in which a browser reports the site whose page sends a request.
pub const FETCH_SITE: &str = "sec-fetch-site";

/// Returns true if a host is this machine: `localhost` or a loopback address.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Returns true if a browser sends the request for a page of another site, according to the values
/// of its [`FETCH_SITE`] header. Requests with an origin are checked separately.
pub fn is_cross_site<'a>(
    mut fetch_sites: impl Iterator<Item = &'a [u8]>,
    names_origin: bool,
) -> bool {
    !names_origin && fetch_sites.any(|site| site.eq_ignore_ascii_case(b"cross-site"))
}
