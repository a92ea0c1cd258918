//! Headers that identify a caller without a session id: front ends write them, interfaces read
//! them. A directory is percent-encoded, because a path may have any character. It must not derive
//! a right from a header: scope comes from the credential.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

pub use crate::service::{Remembered, Via};
use crate::{
    event::SessionId,
    service::{ServiceError, ServiceResult},
};

/// The session the caller was started for.
pub const SESSION: &str = "sessionlog-session";
/// Names of the processes that the caller is a tool of, the nearest first, with commas.
pub const PROCESS: &str = "sessionlog-process";
/// Name of the caller's connection.
pub const CONNECTION: &str = "sessionlog-connection";
/// The session its front end remembers of that connection: an id, `-` after a fresh start, `-` and
/// an id for one started after a fresh start.
pub const REMEMBERED: &str = "sessionlog-connection-session";
/// The caller's working directory, percent-encoded.
pub const DIRECTORY: &str = "sessionlog-directory";
/// The root of the repository that contains the directory, percent-encoded.
pub const ROOT: &str = "sessionlog-root";

/// Processes of a caller, and characters of each one's name.
const PROCESSES_MAX: usize = 8;
const PROCESS_CHARS_MAX: usize = 64;
/// Characters of a connection's name.
const CONNECTION_CHARS_MAX: usize = 128;
/// ASCII characters that a header cannot hold.
const ESCAPED: &AsciiSet = &CONTROLS.add(b' ').add(b'%');

/// Reads the headers; `header` gives the text of one.
///
/// # Errors
/// `invalid_request` naming the header.
pub fn read(header: impl Fn(&str) -> Option<String>) -> ServiceResult<Via> {
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
        Ok::<_, ServiceError>(Remembered { session, fresh })
    });
    let process: Vec<String> = header(PROCESS)
        .map(|text| text.split(',').map(|name| name.trim().to_owned()).collect())
        .unwrap_or_default();
    let is_name = |name: &String| !name.is_empty() && name.len() <= PROCESS_CHARS_MAX;
    if process.len() > PROCESSES_MAX || !process.iter().all(is_name) {
        let problem = format!("at most {PROCESSES_MAX} names of 1 to {PROCESS_CHARS_MAX} bytes");
        return Err(ServiceError::invalid(PROCESS, problem));
    }
    Ok(Via {
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
pub fn write(via: &Via) -> Vec<(&'static str, String)> {
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
