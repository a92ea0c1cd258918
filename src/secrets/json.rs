//! Secrets in JSON text: in its strings, read as they are meant and written back only where one was
//! found. It must not change another byte, and takes what is no JSON for text.

use std::borrow::Cow;

use super::{Recogniser, Report, look::stands_for_another};

/// A string of the text: where it stands, quotes included.
struct Place {
    from: usize,
    to: usize,
}

pub(super) fn redact(rules: &Recogniser, text: &str, report: &mut Report) -> Option<String> {
    if !text.trim_start().starts_with(['{', '[', '"']) {
        return rules.text(text, report);
    }
    let mut out = String::new();
    let mut done = 0;
    let mut name: Option<(String, usize)> = None;
    let mut at = 0;
    while let Some(place) = next(text, at) {
        at = place.to;
        let raw = text.get(place.from..place.to)?;
        let Some(said) = decoded(raw) else {
            // No JSON after all.
            return rules.text(text, report);
        };
        let rest = text.get(place.to..).unwrap_or_default();
        let is_name = rest.trim_start().starts_with(':');
        let of = name.take().filter(|(_, end)| {
            text.get(*end..place.from).is_some_and(|between| between.trim() == ":")
        });
        let clean = match of {
            Some((name, _)) if !is_name && tells(&name, &said) => rules
                .by_name()
                .filter(|_| !rules.is_allowed(&said))
                .map(|rule| rules.mark(rule, report))
                .or_else(|| rules.text(&said, report)),
            _ => rules.text(&said, report),
        };
        if is_name {
            name = Some((said.into_owned(), place.to));
        }
        if let Some(clean) = clean {
            out.push_str(text.get(done..place.from).unwrap_or_default());
            out.push_str(&serde_json::Value::from(clean).to_string());
            done = place.to;
        }
    }
    if done == 0 {
        return None;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    Some(out)
}

/// The next string from a place on.
fn next(text: &str, at: usize) -> Option<Place> {
    let from = at + text.get(at..)?.find('"')?;
    let mut escaped = false;
    for (place, byte) in (from + 1..).zip(text.get(from + 1..)?.bytes()) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(Place { from, to: place + 1 }),
            _ => {}
        }
    }
    None
}

fn decoded(raw: &str) -> Option<Cow<'_, str>> {
    let inside = raw.get(1..raw.len().checked_sub(1)?)?;
    if inside.contains('\\') {
        return serde_json::from_str::<String>(raw).ok().map(Cow::Owned);
    }
    Some(Cow::Borrowed(inside))
}

/// Whether a member of that name holds a secret, this value being what it holds.
fn tells(name: &str, value: &str) -> bool {
    const NAMES: [&str; 24] = [
        "accesskey",
        "accesstoken",
        "apikey",
        "apisecret",
        "apitoken",
        "authorization",
        "authtoken",
        "awssecretaccesskey",
        "bearertoken",
        "clientsecret",
        "connectionstring",
        "cookie",
        "idtoken",
        "passphrase",
        "passwd",
        "password",
        "privatekey",
        "proxyauthorization",
        "refreshtoken",
        "secret",
        "secretaccesskey",
        "secretkey",
        "setcookie",
        "xapikey",
    ];
    if value.trim().is_empty() || value.starts_with(super::MARK) || stands_for_another(value) {
        return false;
    }
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let ends = ["password", "passwd", "secretkey", "apikey", "clientsecret", "privatekey"];
    // A sentence about a password is none.
    let sentence = value.split_whitespace().count() > 3;
    !sentence && (NAMES.contains(&plain.as_str()) || ends.iter().any(|end| plain.ends_with(end)))
        || matches!(plain.as_str(), "authorization" | "cookie" | "setcookie")
            && value.chars().any(|c| c.is_ascii_digit())
}
