//! Reads the lines of a transcript that a session has already: a file that is imported again is
//! compared with them before anything is written, so that two versions are never mixed. It must not
//! write.

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::{
    members::JsonMembers,
    transcript::{TranscriptLines, TranscriptProgram, name_of_line},
};
use crate::{
    client::{Client, ClientError, HttpRequest, session_path},
    event::{Range, SessionId, kinds},
    wire::parse_ranges,
};

/// Maximum events that are read in one request.
const EVENTS: usize = 500;
/// Prefixes of the ids of events made from a line.
const LINES: [&str; 2] = ["line-", "raw-"];

/// A line stored in a session.
#[derive(Clone, Debug)]
pub(super) struct StoredLine {
    /// Hash of the line; `None` if its text was redacted.
    pub(super) hash: Option<String>,
    pub(super) text: String,
    /// Positions of its first and last event.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// Reader of the lines of a session, in order.
pub(super) struct StoredLines {
    lines: TranscriptLines,
    /// Position of the next event to read; `None` after the last page.
    next: Option<u64>,
    read: VecDeque<StoredLine>,
    /// Position of the first event of a line whose other pieces follow.
    begun: Option<u64>,
    /// Id of the last redacted line, without its part number.
    redacted: String,
    /// Ranges in the latest rewind event.
    pub(super) rewound: Option<Vec<Range>>,
}

impl StoredLines {
    pub(super) fn new(program: TranscriptProgram) -> Self {
        Self {
            lines: TranscriptLines::new(program),
            next: Some(0),
            read: VecDeque::new(),
            begun: None,
            redacted: String::new(),
            rewound: None,
        }
    }

    pub(super) async fn next_line(
        &mut self,
        client: &Client,
        session: &SessionId,
    ) -> Result<Option<StoredLine>, ClientError> {
        // The next page may have more events of the last line.
        while self.read.len() < 2 {
            let Some(from) = self.next else { break };
            let request = HttpRequest::get(session_path(session, "/events"));
            let request = request.query("from", from).query("limit", EVENTS);
            let answer = client.send(request).await?;
            let page: StoredPage = serde_json::from_slice(&answer.body).unwrap_or_default();
            self.next = None;
            for event in &page.data {
                let Ok(event) = JsonMembers::read(event.get()) else { continue };
                let Some(at) = event.value("position").and_then(|at| at.as_u64()) else { continue };
                self.next = Some(at + 1);
                self.add_event(&event, at);
            }
        }
        Ok(self.read.pop_front())
    }

    fn add_event(&mut self, event: &JsonMembers, at: u64) {
        if event.text("type").as_deref() == Some(kinds::CONTEXT_REWOUND) {
            self.rewound = event.non_null("withdrawn").map(|list| parse_ranges(list.get()));
        }
        let id = event.text("id").filter(|id| LINES.iter().any(|begin| id.starts_with(begin)));
        let id = id.unwrap_or_default();
        let Some(of) = id.split('.').next().filter(|of| !of.is_empty()) else { return };
        if event.raw("redacted").is_some() {
            if self.redacted != of {
                of.clone_into(&mut self.redacted);
                self.read.push_back(StoredLine {
                    hash: None,
                    text: String::new(),
                    first: at,
                    last: at,
                });
            }
            return;
        }
        // Hooks also record lines, but without the text that an export needs.
        if event.raw("raw_format").is_none() {
            return;
        }
        let first = *self.begun.get_or_insert(at);
        if let Some((_, text)) = self.lines.add_event(event) {
            let line = JsonMembers::read(&text).unwrap_or_default();
            let hash = Some(name_of_line(&line, &text).1.hash);
            self.read.push_back(StoredLine { hash, text, first, last: at });
            self.begun = None;
        } else if event.raw("raw_in").is_some() {
            self.begun = None;
            self.read.back_mut().into_iter().for_each(|line| line.last = at);
        }
    }
}

#[derive(Default, serde::Deserialize)]
struct StoredPage {
    data: Vec<Box<RawValue>>,
}
