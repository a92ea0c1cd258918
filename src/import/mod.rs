//! TRANSCRIPTS: other programs' conversations to events and back, without loss. The original of
//! every message is kept under `raw`, so that what was imported is exported deep-equal. It must
//! not open files, print, or know where an owner is.

mod deliver;
mod lines;
mod members;
mod openai;

use std::io::BufRead;

pub use lines::{BadLine, LINE_BYTES_MAX};
pub use members::Members;
pub use openai::{Conversation, Draft};

use crate::{
    client::{Client, ClientError},
    event::SessionId,
};
use deliver::Delivery;
use lines::{Content, Item, Lines};

/// Why an import stopped. What was acknowledged before is kept; importing again goes on there.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The owner or server refused or does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Reading failed.
    #[error("reading: {0}")]
    Read(#[from] std::io::Error),
    /// The session is being written by somebody else.
    #[error("line {line}: session {session} cannot be imported into: {other}")]
    Taken {
        /// The line, from 1.
        line: u64,
        /// The session.
        session: SessionId,
        /// Why not.
        other: String,
    },
}

/// What became of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sessions written to or found complete.
    pub sessions: u64,
    /// Messages and events read.
    pub records: u64,
    /// Events added.
    pub added: u64,
    /// Events that were there already.
    pub known: u64,
    /// Lines left out, each with its reason.
    pub bad: Vec<BadLine>,
    /// Whether the last line was incomplete and left out: its writer had not finished it.
    pub torn: bool,
}

/// How far an import is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes read.
    pub bytes: u64,
    /// Events acknowledged or known.
    pub events: u64,
}

/// What to import.
pub struct Source<'a> {
    /// JSON lines.
    pub reader: Box<dyn BufRead + Send + 'a>,
    /// Names sessions whose conversation has no id.
    pub name: String,
    /// The session of a source that holds one conversation without an id.
    pub session: Option<SessionId>,
}

/// Imports one source; tells `progress` after every part that was acknowledged.
///
/// # Errors
/// [`ImportError`]; lines that make no sense are no error but reported.
pub async fn import(
    client: &Client,
    source: Source<'_>,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Report, ImportError> {
    let mut run = Run {
        client,
        single: None,
        report: Report::default(),
        events: 0,
        single_name: source.session.clone().unwrap_or_else(|| lines::session_id(&source.name).0),
    };
    let mut lines = Lines::new(source.reader, source.name, source.session);
    while let Some(item) = lines.next()? {
        run.take(item, lines.line()).await?;
        progress(Progress { bytes: lines.bytes(), events: run.events });
    }
    run.finish().await?;
    progress(Progress { bytes: lines.bytes(), events: run.events });
    Ok(run.report)
}

/// Events of a source's only conversation that are collected before they are sent.
const PART_EVENTS: usize = 1_000;
const PART_BYTES: usize = 8 << 20;

struct Run<'a> {
    client: &'a Client,
    /// The conversation whose messages or events are lines of their own.
    single: Option<Single<'a>>,
    single_name: SessionId,
    report: Report,
    events: u64,
}

struct Single<'a> {
    delivery: Delivery<'a>,
    conversation: Conversation,
    drafts: Vec<Draft>,
    bytes: usize,
}

impl<'a> Run<'a> {
    async fn take(&mut self, item: Item, line: u64) -> Result<(), ImportError> {
        match item {
            Item::Bad(bad) => self.report.bad.push(bad),
            Item::Torn => self.report.torn = true,
            Item::Good(Content::Conversation { session, about, messages }) => {
                let mut delivery = Delivery::new(self.client, session.clone(), line);
                let mut conversation = Conversation::new();
                let mut drafts = about.drafts(&mut conversation);
                drafts.extend(messages.iter().flat_map(|message| conversation.message(message)));
                delivery.describe(about, &drafts);
                self.report.records += messages.len() as u64;
                self.report.sessions += 1;
                self.send(&mut delivery, drafts).await?;
            }
            Item::Good(Content::Message(message)) => {
                let single = self.single(line);
                let drafts = single.conversation.message(&message);
                self.collect(drafts).await?;
            }
            Item::Good(Content::Event(event)) => {
                let single = self.single(line);
                let draft = single.conversation.event(&event);
                self.collect(vec![draft]).await?;
            }
        }
        Ok(())
    }

    fn single(&mut self, line: u64) -> &mut Single<'a> {
        let client = self.client;
        let session = &self.single_name;
        let sessions = &mut self.report.sessions;
        self.single.get_or_insert_with(|| {
            *sessions += 1;
            let mut delivery = Delivery::new(client, session.clone(), line);
            delivery.describe(openai::About::lines(), &[]);
            Single { delivery, conversation: Conversation::new(), drafts: Vec::new(), bytes: 0 }
        })
    }

    async fn collect(&mut self, drafts: Vec<Draft>) -> Result<(), ImportError> {
        self.report.records += 1;
        let Some(single) = &mut self.single else { return Ok(()) };
        single.bytes += drafts.iter().map(|draft| draft.text.len()).sum::<usize>();
        single.drafts.extend(drafts);
        if single.drafts.len() < PART_EVENTS && single.bytes < PART_BYTES {
            return Ok(());
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), ImportError> {
        let Some(mut single) = self.single.take() else { return Ok(()) };
        let drafts = std::mem::take(&mut single.drafts);
        single.bytes = 0;
        self.send(&mut single.delivery, drafts).await?;
        self.single = Some(single);
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), ImportError> {
        self.flush().await
    }

    async fn send(
        &mut self,
        delivery: &mut Delivery<'_>,
        drafts: Vec<Draft>,
    ) -> Result<(), ImportError> {
        for part in deliver::parts(&drafts) {
            let done = delivery.deliver(part).await?;
            self.report.added += done.added;
            self.report.known += done.known;
            self.events += done.added + done.known;
        }
        Ok(())
    }
}

/// Writes a session's events back in the chat format they were imported from: the lines of a
/// file. `metadata` reads a session's metadata by name.
#[must_use]
pub fn to_openai(
    session: &SessionId,
    metadata: &dyn Fn(&str) -> Option<String>,
    events: &[Members],
) -> Vec<String> {
    openai::export(session, metadata, events)
}

/// The same without what the session's metadata says: one object with the messages.
#[must_use]
pub fn to_messages(events: &[Members]) -> String {
    openai::messages(events)
}
