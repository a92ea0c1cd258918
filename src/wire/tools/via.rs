//! Headers that identify a caller without a session id: front ends write them, interfaces read
//! them. A directory is percent-encoded, because a path may contain any character. It must not
//! derive a right from a header: scope comes from the credential.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

pub use crate::service::{ClientIdentity, LastUse};
use crate::{
    event::SessionId,
    service::{ServiceError, ServiceResult},
};

/// Session that the caller was started for.
pub const SESSION: &str = "sessionlog-session";
/// Names of the processes that the caller is a tool of, the nearest first, comma-separated.
pub const PROCESS: &str = "sessionlog-process";
/// Name of the caller's connection.
pub const CONNECTION: &str = "sessionlog-connection";
/// Session that its front end remembers for that connection: an id, `-` after a fresh start, `-`
/// and an id for one started after a fresh start.
pub const REMEMBERED: &str = "sessionlog-connection-session";
/// Working directory of the caller, percent-encoded.
pub const DIRECTORY: &str = "sessionlog-directory";
/// Root of the repository that contains the directory, percent-encoded.
pub const ROOT: &str = "sessionlog-root";

/// Maximum processes of a caller, and maximum bytes of each name.
const PROCESSES_MAX: usize = 8;
const PROCESS_CHARS_MAX: usize = 64;
/// Maximum characters of a connection's name.
const CONNECTION_CHARS_MAX: usize = 128;
/// ASCII characters that a header cannot hold.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Reads the headers; `header` returns the text of one.
///
/// # Errors
/// `invalid_request` naming the header.
pub fn read(header: impl Fn(&str) -> Option<String>) -> ServiceResult<ClientIdentity> {
    let id = |name: &str, text: &str| {
        SessionId::new(text).map_err(|error| ServiceError::invalid(name, error))
    };
    let connection = header(CONNECTION);
    if connection.as_ref().is_some_and(|name| name.chars().count() > CONNECTION_CHARS_MAX) {
        let problem = format!("at most {CONNECTION_CHARS_MAX} characters");
        return Err(ServiceError::invalid(CONNECTION, problem));
    }
    let decoded = |text: String| percent_decode_str(&text).decode_utf8_lossy().into_owned();
    let remembered = header(REMEMBERED).map(|text| {
        let (fresh, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.as_str()),
        };
        let session = (!text.is_empty()).then(|| id(REMEMBERED, text)).transpose()?;
        Ok::<_, ServiceError>(LastUse { session, fresh })
    });
    let process: Vec<String> = header(PROCESS)
        .map(|text| text.split(',').map(|name| name.trim().to_owned()).collect())
        .unwrap_or_default();
    let is_name = |name: &String| !name.is_empty() && name.len() <= PROCESS_CHARS_MAX;
    if process.len() > PROCESSES_MAX || !process.iter().all(is_name) {
        let problem = format!("at most {PROCESSES_MAX} names of 1 to {PROCESS_CHARS_MAX} bytes");
        return Err(ServiceError::invalid(PROCESS, problem));
    }
    Ok(ClientIdentity {
        process,
        session: header(SESSION).map(|text| id(SESSION, &text)).transpose()?,
        connection,
        remembered: remembered.transpose()?,
        directory: header(DIRECTORY).map(decoded),
        root: header(ROOT).map(decoded),
    })
}

/// Writes the headers.
#[must_use]
pub fn write(via: &ClientIdentity) -> Vec<(&'static str, String)> {
    let remembered = via.remembered.as_ref().map(|remembered| {
        let session = remembered.session.as_ref().map_or("", SessionId::as_str);
        format!("{}{session}", if remembered.fresh { "-" } else { "" })
    });
    let session = via.session.as_ref().map(ToString::to_string);
    let encoded = |text: &str| utf8_percent_encode(text, ESCAPED).to_string();
    let directory = via.directory.as_deref().map(encoded);
    let root = via.root.as_deref().map(encoded);
    [
        (SESSION, session),
        (PROCESS, Some(via.process.join(",")).filter(|names| !names.is_empty())),
        (CONNECTION, via.connection.clone()),
        (REMEMBERED, remembered.filter(|text| !text.is_empty())),
        (DIRECTORY, directory),
        (ROOT, root),
    ]
    .into_iter()
    .filter_map(|(name, text)| Some((name, text?)))
    .collect()
}
