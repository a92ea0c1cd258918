//! `import` and `export`: files to sessions and back. It must not know a format: import does.

use std::{
    collections::HashMap,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
};

use serde_json::{Value, json, value::RawValue};

use super::{
    args::{self, Format},
    config::Config,
    failure::{Failure, Outcome, REFUSED},
    page::{EventsPage, PagePart, Pages, Query, gap_line, gap_sentence, on_one_line},
    readable::markdown::MarkdownDocument,
    screen::{Screen, counted, printable},
    titles,
    values::Environment,
};
use crate::{
    client::Client,
    env::{files, project::Project, sync::Mutex},
    event::{SessionId, Timestamp, json::paired},
    hook::{Gate, Who},
    import::{self, Around, Chat, ImportReport, Members, Program, Source, TranscriptLines},
    secrets::{Recogniser, Report as Taken},
    verbs::{InSession, NoQuery, sessions},
    wire::json::shown,
};

/// Maximum number of sessions listed by name.
const NAMES_MAX: usize = 10;

/// Progress style of a file.
const PROGRESS: &str = "{prefix} {wide_bar} {bytes}/{total_bytes} {msg} {eta}";

/// Directory in which Claude Code stores a session's large results.
const RESULTS: &str = "tool-results";

/// Maximum number of skipped lines that are listed.
const BAD_MAX: usize = 5;

/// Recording rules of this machine: events that hooks must not record are not imported.
struct Here<'a> {
    gate: &'a Gate,
    home: Option<PathBuf>,
    /// Cached permissions to record a session of a directory.
    past: Mutex<HashMap<(String, Option<String>), Past>>,
}

type Past = Box<dyn Fn(Option<Timestamp>, Option<&str>) -> bool + Send>;

impl Around for Here<'_> {
    fn may_record(&self, session: &str, at: Option<Timestamp>, directory: Option<&str>) -> bool {
        let plain = directory.and_then(|path| files::canonical(Path::new(path)).ok());
        let plain = plain.map(|path| path.display().to_string());
        let mut known = self.past.lock();
        let place = (session.to_owned(), directory.map(str::to_owned));
        let past = known
            .entry(place)
            .or_insert_with(|| Box::new(self.gate.past(&Who::new(session, directory))));
        past(at, directory) && past(at, plain.as_deref())
    }

    fn withholds(&self, input: &Value, directory: Option<&str>) -> bool {
        self.gate.withholds(Some(input), directory)
    }

    fn workspace(&self, directory: &str) -> Option<String> {
        let project = Project::from_directory(Path::new(directory), self.home.as_deref());
        (!project.shared).then(|| project.workspace())
    }
}

pub(super) async fn import(
    client: &Client,
    wanted: args::ImportArgs,
    config: &Config,
    environment: &Environment,
    screen: &mut Screen,
) -> Outcome {
    if wanted.session.is_some() && wanted.files.len() > 1 {
        let message = "--session names one session: import one file at a time with it";
        return Err(Failure::usage(message));
    }
    let home = environment.text("HOME").map(PathBuf::from);
    let here = Here { gate: &config.gate, home, past: Mutex::from(HashMap::new()) };
    let mut failed = false;
    let (mut skipped, mut there, mut named) = (0, 0, Vec::new());
    for path in &wanted.files {
        let input = open(path)?;
        let bar = screen.progress(input.bytes, PROGRESS).with_prefix(printable(&stem(path)));
        let source = Source {
            reader: input.reader,
            name: stem(path),
            session: wanted.session.clone(),
            results: Box::new(|named| read_stored_result(path, named)),
            around: Some(&here),
        };
        let mut progress = |now: import::ImportProgress| {
            bar.set_position(now.bytes);
            bar.set_message(format!("{} events", now.events));
        };
        let imported = import::import(client, source, &mut progress).await;
        bar.finish_and_clear();
        let report = imported?;
        failed |= report.bad.count() + report.skipped.count() > 0;
        print_report(path, &report, screen)?;
        there += report.sessions.count() + report.skipped.count();
        skipped += report.skipped.count();
        named.extend(report.skipped.named().iter().filter_map(|bad| {
            let session = bad.session.as_ref()?;
            Some(format!("{session} ({} line {}): {}", path.display(), bad.line, bad.problem))
        }));
    }
    if skipped > 0 && !screen.json {
        screen.note(format!("skipped {skipped} of {}:", counted(there, "conversation")));
        for one in &named {
            screen.note(format!("  {}", printable(one)));
        }
        if let more @ 1.. = skipped.saturating_sub(named.len() as u64) {
            screen.note(format!("  and {more} more"));
        }
    }
    if failed { Err(Failure::Silent(REFUSED)) } else { Ok(()) }
}

fn open(path: &Path) -> Outcome<files::InputFile> {
    if path == Path::new("-") {
        let reader: Box<dyn io::BufRead + Send> = Box::new(BufReader::new(Stdin));
        return Ok(files::InputFile { reader, bytes: None });
    }
    files::open(path).map_err(Failure::file(path))
}

/// Standard input, locked only during a read: its lock cannot be sent to another thread.
struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        io::stdin().read(buffer)
    }
}

/// Maximum bytes of a result stored next to a transcript.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Reads a result that Claude Code stored in `SESSION/tool-results` next to the session's
/// transcript. Uses the last component of `named` only: another user may have written the line.
fn read_stored_result(transcript: &Path, named: &str) -> Option<String> {
    let mut parts = Path::new(named).components().rev();
    let name = parts.next()?.as_os_str().to_str()?;
    let folder = parts.next()?.as_os_str();
    let session = transcript.file_stem()?.to_str()?;
    if folder != RESULTS || parts.next()?.as_os_str() != session {
        return None;
    }
    let directory = transcript.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let found = files::read_within(directory, &[session, RESULTS, name], RESULT_BYTES_MAX);
    let bytes = found.ok()??;
    let text = String::from_utf8_lossy(&bytes);
    Some(Recogniser::of_private_spans().masked(&text).into_text())
}

fn stem(path: &Path) -> String {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("-") | None => "stdin".to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

fn print_report(path: &Path, report: &ImportReport, screen: &mut Screen) -> Outcome {
    if screen.json {
        let left_out = [report.bad.named(), report.skipped.named()].concat();
        let bad = left_out.iter().map(|bad| {
            let session = bad.session.as_ref().map(SessionId::as_str);
            json!({ "line": bad.line, "problem": bad.problem, "session": session })
        });
        let ids = report.sessions.named().iter().map(SessionId::as_str);
        screen.value(&json!({
            "file": path.display().to_string(),
            "sessions": report.sessions.count(),
            "session_ids": ids.collect::<Vec<_>>(),
            "records": report.records,
            "added": report.added,
            "known": report.known,
            "left_out": { "lines": report.bad.count(), "conversations": report.skipped.count() },
            "bad_lines": bad.collect::<Vec<Value>>(),
            "mended_lines": report.mended.count(),
            "results_missing": report.results_missing,
            "kept_out": report.kept_out,
            "torn": report.torn,
            "unknown_types": report.unknown,
            "beside": report.beside.as_ref().map(|(recorded, transcript)| {
                json!({ "recorded": recorded.as_str(), "transcript": transcript.as_str() })
            }),
        }))?;
        return Ok(());
    }
    let ImportReport { sessions, records, added, known, .. } = report;
    let name = path.display();
    let names = sessions.named().iter().take(NAMES_MAX).map(SessionId::as_str);
    let names = names.collect::<Vec<_>>();
    let more = match sessions.count().saturating_sub(names.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let into =
        if names.is_empty() { String::new() } else { format!(" ({}{more})", names.join(", ")) };
    screen.line(format!(
        "{name}: {}{into}, {}: {} added, {known} known",
        counted(sessions.count(), "session"),
        counted(*records, "record"),
        counted(*added, "event"),
    ))?;
    screen.flush()?;
    if let Some((recorded, transcript)) = &report.beside {
        screen.note(format!(
            "{name}: session {recorded} was recorded as it happened; the transcript is beside it, \
             in {transcript}"
        ));
    }
    print_notes(path, report, screen);
    Ok(())
}

/// Prints remarks on the parts of a file that were not imported unchanged.
fn print_notes(path: &Path, report: &ImportReport, screen: &Screen) {
    let name = path.display();
    // Skipped conversations are listed last, after every file.
    for bad in report.bad.named().iter().take(BAD_MAX) {
        let problem = printable(&bad.problem);
        screen.note(format!("{name}: line {} was left out: {problem}", bad.line));
    }
    if let more @ 1.. = report.bad.count().saturating_sub(BAD_MAX as u64) {
        let first = report.bad.named().len();
        screen.note(format!(
            "{name}: {more} more lines were left out; --json names the first {first}"
        ));
    }
    if !report.unknown.is_empty() {
        let types = report.unknown.iter().take(NAMES_MAX);
        let types: Vec<String> =
            types.map(|(kind, count)| format!("{count} {}", printable(kind))).collect();
        screen.note(format!(
            "{name}: records of unknown types, kept whole and shown by no view: {}",
            types.join(", ")
        ));
    }
    for mended in report.mended.named().iter().take(BAD_MAX) {
        screen.note(format!("{name}: line {}: {}", mended.line, printable(&mended.problem)));
    }
    if report.results_missing > 0 {
        let results = counted(report.results_missing, "result");
        screen.note(format!(
            "{name}: {results} kept in {RESULTS} beside the transcript were not there: of each the \
             beginning is known"
        ));
    }
    if report.kept_out > 0 {
        let lines = counted(report.kept_out, "line");
        screen.note(format!(
            "{name}: {lines} left out: recording was paused or off then, or what they are about is \
             excluded"
        ));
    }
    if report.torn {
        screen.note(format!(
            "{name}: the last line is incomplete and was left out; import again once it is whole"
        ));
    }
}

pub(super) async fn export(
    client: &Client,
    wanted: args::ExportArgs,
    config: &Config,
    screen: &mut Screen,
) -> Outcome {
    let mut pages = Pages::new(client, &wanted.session, Query::default());
    // On a terminal the printed lines show the progress.
    let spinner = (!screen.terminal).then(|| screen.spinner("exporting"));
    let written = written(client, &wanted, config, &mut pages, screen).await;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    written
}

async fn written(
    client: &Client,
    wanted: &args::ExportArgs,
    config: &Config,
    pages: &mut Pages<'_>,
    screen: &mut Screen,
) -> Outcome {
    let chat = match wanted.format {
        Format::Jsonl => {
            while let Some(page) = pages.next().await? {
                for part in page.parts() {
                    match part {
                        PagePart::Event(event) => screen.line(on_one_line(event.get()))?,
                        PagePart::Lost(gap) => screen.line(gap_line(gap))?,
                    }
                }
            }
            return Ok(());
        }
        Format::ClaudeCode => return transcript(pages, Program::ClaudeCode, screen).await,
        Format::Codex => return transcript(pages, Program::Codex, screen).await,
        Format::Openai => Chat::Openai,
        Format::Anthropic => Chat::Anthropic,
        Format::Markdown => {
            let secrets = config.secrets.read()?;
            return document(client, &wanted.session, &secrets, pages, screen).await;
        }
    };
    let place = InSession { session: wanted.session.clone() };
    let session = client.call::<sessions::Get>(&place, &NoQuery {}, &()).await?;
    let metadata = |name: &str| session.metadata.get(name).cloned();
    let mut events = Vec::new();
    while let Some(page) = pages.next().await? {
        print_gaps(&page, screen);
        let read = |event: &RawValue| Members::read(&paired(event.get())).ok();
        events.extend(page.events.iter().filter_map(|event| read(event)));
    }
    for line in import::to_chat(chat, &wanted.session, &metadata, &events) {
        screen.line(on_one_line(&line))?;
    }
    Ok(())
}

/// Prints a session as Markdown, without its secrets.
async fn document(
    client: &Client,
    id: &SessionId,
    secrets: &Recogniser,
    pages: &mut Pages<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = InSession { session: id.clone() };
    let session = client.call::<sessions::Get>(&place, &NoQuery {}, &()).await?;
    let title = titles::title(client, &session.id, session.title.as_deref()).await;
    let mut taken = Taken::default();
    let mut clean = |text: &str| secrets.json(text, &mut taken).unwrap_or_else(|| text.to_owned());
    let title = Some(clean(&title)).filter(|title| !title.is_empty());
    let about = serde_json::to_string(&session).map_err(io::Error::from)?;
    let about: Value = shown(clean(&about).as_bytes()).map_err(io::Error::from)?;
    let mut document = MarkdownDocument::new(screen.times());
    screen.line(document.head(title.as_deref().unwrap_or(id.as_str()), &about))?;
    while let Some(page) = pages.next().await? {
        for part in page.parts() {
            match part {
                PagePart::Event(event) => {
                    let event = clean(event.get());
                    let event = shown(event.as_bytes()).map_err(io::Error::from)?;
                    if let Some(text) = document.event(&event) {
                        screen.line(text)?;
                    }
                }
                PagePart::Lost(gap) => screen.line(document.missing(&gap_sentence(gap)))?,
            }
        }
    }
    if let Some(end) = document.end() {
        screen.line(end)?;
    }
    let rules: Vec<String> = taken.rules().map(|(rule, count)| format!("{rule} {count}")).collect();
    if !rules.is_empty() {
        screen.note(format!("removed: {}", rules.join(", ")));
    }
    Ok(())
}

/// Prints remarks on gaps, which another program's format cannot express.
fn print_gaps(page: &EventsPage, screen: &Screen) {
    for gap in &page.gaps {
        screen.note(format!("sessionlog: {}", gap_sentence(gap)));
    }
}

/// Prints the lines of a program's transcript.
async fn transcript(pages: &mut Pages<'_>, program: Program, screen: &mut Screen) -> Outcome {
    let mut lines = TranscriptLines::new(program);
    let (mut events, mut written) = (0_u64, 0_u64);
    while let Some(page) = pages.next().await? {
        print_gaps(&page, screen);
        for event in &page.events {
            events += 1;
            let line = Members::read(event.get()).ok().and_then(|event| lines.take(&event));
            let Some((before, line)) = line else { continue };
            written += 1;
            match screen.terminal {
                true => screen.line(on_one_line(&line))?,
                false => screen.raw((before + &on_one_line(&line)).as_bytes())?,
            }
        }
    }
    if events > 0 && written == 0 {
        let name = program.as_str();
        let message = format!(
            "nothing of this session was imported from {name}: there is no line to write; \
                     --format openai and anthropic write the messages of any session"
        );
        return Err(Failure::usage(message));
    }
    if !screen.terminal {
        screen.raw(lines.end().as_bytes())?;
    }
    Ok(())
}
