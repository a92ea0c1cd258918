//! Pages of a listing: their size, and opaque cursors for the next page. A cursor contains no
//! secret and grants no right: a client that modifies one only reads another page of data it may
//! read. It must not read a page.

use std::fmt::Write as _;

use super::{ServiceError, ServiceResult};
use crate::event::limits;

/// Checks the requested size of a page, or returns the default.
pub(super) fn page_limit(limit: Option<usize>) -> ServiceResult<usize> {
    let limit = limit.unwrap_or(limits::PAGE_SESSIONS_DEFAULT);
    if limit == 0 || limit > limits::PAGE_SESSIONS_MAX {
        let problem = format!("from 1 to {}, not {limit}", limits::PAGE_SESSIONS_MAX);
        return Err(ServiceError::invalid("limit", problem));
    }
    Ok(limit)
}

/// Encodes `kind`, a version and the parts in hexadecimal, opaque to clients.
pub(super) fn encode(kind: &str, parts: &[&str]) -> String {
    let text = format!("{kind}1 {}", parts.join(" "));
    text.bytes().fold(String::with_capacity(text.len() * 2), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Decodes the `N` parts encoded under `kind`.
pub(super) fn decode<const N: usize>(kind: &str, page: &str) -> ServiceResult<[String; N]> {
    let refused = || {
        ServiceError::invalid("page", "this is no page of this listing")
            .action("send next_page of the answer before, unchanged, or leave page out")
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let bytes: Option<Vec<u8>> = page
        .as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => u8::try_from(digit(high)? * 16 + digit(low)?).ok(),
            _ => None,
        })
        .collect();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(refused)?;
    let rest = text.strip_prefix(&format!("{kind}1 ")).ok_or_else(refused)?;
    let parts: Vec<String> = rest.split(' ').map(str::to_owned).collect();
    parts.try_into().map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_cursor_decodes_only_under_the_kind_it_was_encoded_with() {
        let page = encode("e", &["asc", "17", ""]);
        assert_eq!(decode::<3>("e", &page), Ok(["asc".into(), "17".into(), String::new()]));
        assert!(decode::<2>("e", &page).is_err());
        assert!(decode::<3>("s", &page).is_err());
        for bad in ["", "6", "zz", "é", "+f", &page[1..]] {
            assert!(decode::<3>("e", bad).is_err(), "{bad:?}");
        }
    }
}
