//! `import` and `export`: files to sessions and back. It must not know a format: import does.

use std::{
    collections::HashMap,
    io::{self, BufRead as _, BufReader, ErrorKind, Read},
    path::{Path, PathBuf},
};

use indexmap::IndexMap;
use serde_json::{Value, json, value::RawValue};

use super::{
    args::{self, ExportFormat},
    config::Config,
    failure::{CliError, Outcome, REFUSED},
    page::{
        EventPages, EventsPage, EventsQuery, PagePart, describe_gap, gap_to_json, to_single_line,
    },
    readable::markdown::MarkdownDocument,
    screen::{Screen, escaped, with_noun},
    titles,
    values::Environment,
};
use crate::{
    client::Client,
    env::{files, project::Project, sync::Mutex},
    event::{SessionId, Timestamp, json::replace_lone_surrogates},
    hook::{RecordingGate, WorkSession},
    import::{
        self, BadLine, ChatFormat, ImportReport, ImportSource, JsonMembers, RecordingContext,
        SubagentFile, TranscriptLines, TranscriptProgram,
    },
    secrets::{MaskingReport, Recogniser},
    verbs::{NoQuery, SessionPath, sessions},
    wire::json::parse_lossy,
};

/// Maximum number of sessions listed by name.
const NAMES_MAX: usize = 10;

/// Progress style of a file.
const PROGRESS: &str = "{prefix} {wide_bar} {bytes}/{total_bytes} {msg} {eta}";

/// Directories in which Claude Code stores a session's large results, and the transcripts of its
/// subagents.
const RESULTS: &str = "tool-results";
const SUBAGENTS: &str = "subagents";

/// Maximum levels of such directories, and bytes of a file that are read to find its session.
const LEVELS_MAX: usize = 8;
const HEAD_BYTES: u64 = 1 << 20;

/// Directories of Claude Code and of Codex with the transcripts of a user, and the levels in which
/// those are.
const HISTORIES: [(&str, usize); 2] = [("projects", 2), ("sessions", 4)];

/// Maximum number of skipped lines that are listed.
const BAD_MAX: usize = 5;

/// Recording rules of this machine: events that hooks must not record are not imported.
struct RecordingRules<'a> {
    gate: &'a RecordingGate,
    home: Option<PathBuf>,
    /// Cached permissions to record a session of a directory.
    past: Mutex<HashMap<(String, Option<String>), TranscriptFilter>>,
}

type TranscriptFilter = Box<dyn Fn(Option<Timestamp>, Option<&str>) -> bool + Send>;

impl RecordingContext for RecordingRules<'_> {
    fn may_record(&self, session: &str, at: Option<Timestamp>, directory: Option<&str>) -> bool {
        let plain = directory.and_then(|path| files::canonicalize(Path::new(path)).ok());
        let plain = plain.map(|path| path.display().to_string());
        let mut known = self.past.lock();
        let place = (session.to_owned(), directory.map(str::to_owned));
        let past = known.entry(place).or_insert_with(|| {
            Box::new(self.gate.transcript_filter(&WorkSession::new(session, directory)))
        });
        past(at, directory) && past(at, plain.as_deref())
    }

    fn is_excluded(&self, input: &Value, directory: Option<&str>) -> bool {
        self.gate.excludes_call(Some(input), directory)
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
    let files = find_files(&wanted.files)?;
    if wanted.session.is_some() && files.len() > 1 {
        let message = "--session names one session: import one file at a time with it";
        return Err(CliError::usage(message));
    }
    let home = environment.text("HOME").map(PathBuf::from);
    let here = RecordingRules { gate: &config.gate, home, past: Mutex::from(HashMap::new()) };
    let mut failed = false;
    let (mut skipped, mut there, mut named, mut unread) = (0, 0, Vec::new(), 0_u64);
    let found = find_transcripts(&files);
    for (path, subagents) in &found {
        let is_there = subagents.is_empty() || files::file_stamp(path).is_some();
        let own = subagents.first().filter(|_| !is_there).unwrap_or(path);
        let names: Vec<&Path> = [own].into_iter().chain(subagents).map(PathBuf::as_path).collect();
        let source = FileSource { path, is_there, subagents, session: wanted.session.clone() };
        let report = match import_file(client, source, &here, screen).await {
            Ok(report) => report,
            // The only file's error is the verb's.
            Err(FailedImport { error, is_of_file }) if !is_of_file || found.len() == 1 => {
                return Err(error);
            }
            Err(FailedImport { error, .. }) => {
                unread += 1;
                print_failed_file(own, &error, screen)?;
                continue;
            }
        };
        failed |= report.bad.count() + report.skipped.count() > 0;
        print_report(&names, &report, screen)?;
        there += report.sessions.count() + report.skipped.count();
        skipped += report.skipped.count();
        named.extend(report.skipped.items().iter().filter_map(|bad| {
            let session = bad.session.as_ref()?;
            let (name, line) = (file_name(&names, bad), bad.place.number);
            Some(format!("{session} ({name} line {line}): {}", bad.problem))
        }));
    }
    if skipped > 0 && !screen.json {
        screen.print_note(format!("skipped {skipped} of {}:", with_noun(there, "conversation")));
        for one in &named {
            screen.print_note(format!("  {}", escaped(one)));
        }
        if let more @ 1.. = skipped.saturating_sub(named.len() as u64) {
            screen.print_note(format!("  and {more} more"));
        }
    }
    if unread > 0 && !screen.json {
        let of = with_noun(found.len() as u64, "file");
        screen.print_note(format!("{unread} of {of} could not be imported; they are named above"));
    }
    if failed || unread > 0 { Err(CliError::Silent(REFUSED)) } else { Ok(()) }
}

/// A file to import.
struct FileSource<'a> {
    path: &'a Path,
    /// False if only the transcripts of its subagents exist.
    is_there: bool,
    subagents: &'a [PathBuf],
    session: Option<SessionId>,
}

/// An error of an import, and whether other files may be imported nevertheless.
struct FailedImport {
    error: CliError,
    is_of_file: bool,
}

async fn import_file(
    client: &Client,
    file: FileSource<'_>,
    here: &RecordingRules<'_>,
    screen: &Screen,
) -> Result<ImportReport, FailedImport> {
    let FileSource { path, is_there, subagents, session } = file;
    let input = match is_there {
        true => open_input(path).map_err(|error| FailedImport { error, is_of_file: true })?,
        false => files::InputFile { reader: Box::new(io::empty()), bytes: Some(0) },
    };
    let bar =
        screen.create_progress_bar(input.bytes, PROGRESS).with_prefix(escaped(&file_stem(path)));
    let source = ImportSource {
        reader: input.reader,
        name: file_stem(path),
        session,
        subagents: subagents.iter().map(|file| subagent_file(file)).collect(),
        results: Box::new(|named| read_stored_result(path, named)),
        around: Some(here),
    };
    let mut progress = |now: import::ImportProgress| {
        bar.set_position(now.bytes);
        bar.set_message(format!("{} events", now.events));
    };
    let imported = import::import(client, source, &mut progress).await;
    bar.finish_and_clear();
    imported
        .map_err(|error| FailedImport { is_of_file: error.is_about_source(), error: error.into() })
}

fn print_failed_file(path: &Path, error: &CliError, screen: &mut Screen) -> Outcome {
    if screen.json {
        let mut report = error.to_json();
        if let Some(members) = report.as_object_mut() {
            members.insert("file".to_owned(), json!(path.display().to_string()));
        }
        return Ok(screen.print_json(&report)?);
    }
    let (name, problem) = (path.display().to_string(), error.to_string());
    let named = if problem.starts_with(&name) { problem } else { format!("{name}: {problem}") };
    screen.print_note(format!("{} (left out)", escaped(&named)));
    Ok(())
}

/// Returns the files to import: those named, and of the directory of an agent its transcripts.
fn find_files(wanted: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let is_transcript = |path: &Path| path.extension().is_some_and(|kind| kind == "jsonl");
    let mut found = Vec::new();
    for path in wanted {
        if !files::path_info(path).is_ok_and(|info| info.is_some_and(|info| info.is_dir)) {
            found.push(path.clone());
            continue;
        }
        let before = found.len();
        for (name, levels) in HISTORIES {
            add_files(&path.join(name), levels, is_transcript, &mut found);
        }
        if found.len() == before {
            return Err(CliError::invalid_request(
                format!("{}: is a directory without transcripts of an agent", path.display()),
                "name files, or the directory of an agent: `sessionlog import ~/.claude` imports \
                 the history of Claude Code, `sessionlog import ~/.codex` that of Codex",
            ));
        }
    }
    Ok(found)
}

/// Returns the transcripts to import, each with those of its subagents: the lines of both are one
/// session. That of a session of which only subagents' files are named may not exist.
fn find_transcripts(wanted: &[PathBuf]) -> IndexMap<PathBuf, Vec<PathBuf>> {
    let (mut found, mut unreadable) = (IndexMap::new(), Vec::new());
    for path in wanted {
        let parent = find_parent(path);
        let own = parent.as_ref().unwrap_or(path);
        let subagents: &mut Vec<PathBuf> = found.entry(own.clone()).or_insert_with(|| {
            let mut below = Vec::new();
            let beside = own.with_extension("").join(SUBAGENTS);
            add_files(&beside, LEVELS_MAX, |path| agent_id(path).is_some(), &mut below);
            unreadable.extend(below.extract_if(.., |path| agent_id(path).is_none()));
            below
        });
        if parent.is_some() && !subagents.contains(path) {
            subagents.push(path.clone());
        }
    }
    found.extend(unreadable.into_iter().map(|directory| (directory, Vec::new())));
    found
}

/// Returns the path of the transcript of the session whose subagent wrote a file; `None` if the
/// file is no subagent's. Claude Code keeps those in `SESSION/subagents` beside `SESSION.jsonl`;
/// before, they were beside it.
fn find_parent(path: &Path) -> Option<PathBuf> {
    agent_id(path)?;
    let below = path.ancestors().find(|at| at.file_name().is_some_and(|name| name == SUBAGENTS));
    let mut parent = match below.and_then(Path::parent) {
        Some(session) => session.to_owned(),
        None => {
            let head = BufReader::new(files::open(path).ok()?.reader.take(HEAD_BYTES));
            let mut lines = head
                .lines()
                .map_while(|line| Some(JsonMembers::read(&line.ok()?).unwrap_or_default()));
            let line = lines.find(|line| line.text("sessionId").is_some())?;
            let is_aside = line.raw("isSidechain").is_some_and(|aside| aside.get() == "true");
            let session = SessionId::new(&line.text("sessionId").filter(|_| is_aside)?).ok()?;
            path.with_file_name(session.as_str())
        }
    }
    .into_os_string();
    parent.push(".jsonl");
    Some(parent.into())
}

/// Returns the id of a subagent by the name of its file.
fn agent_id(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()?.strip_prefix("agent-")?.strip_suffix(".jsonl")
}

/// Adds the wanted files in a directory and below it, and each directory that cannot be read, so
/// that it is reported; a link to a directory is not followed.
fn add_files(
    directory: &Path,
    levels: usize,
    is_wanted: fn(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) {
    let listed = match files::list(directory) {
        Ok(listed) => listed,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return;
        }
        Err(_) => return found.push(directory.to_owned()),
    };
    for path in listed {
        if is_wanted(&path) {
            found.push(path);
        } else if levels > 1 && !files::is_link(&path) {
            add_files(&path, levels - 1, is_wanted, found);
        }
    }
}

fn subagent_file(path: &Path) -> SubagentFile<'_> {
    let of_file = |error| io::Error::other(format!("{}: {error}", path.display()));
    let open = Box::new(move || Ok(files::open(path).map_err(of_file)?.reader));
    SubagentFile { id: agent_id(path).unwrap_or_default().to_owned(), open }
}

/// Returns the name of the file that a line is from: the first one is the source's own.
fn file_name<'a>(names: &[&'a Path], bad: &BadLine) -> std::path::Display<'a> {
    names.get(bad.place.file).copied().unwrap_or(Path::new("-")).display()
}

fn open_input(path: &Path) -> Outcome<files::InputFile> {
    if path == Path::new("-") {
        let reader: Box<dyn io::BufRead + Send> = Box::new(BufReader::new(StdinReader));
        return Ok(files::InputFile { reader, bytes: None });
    }
    files::open(path).map_err(CliError::file(path))
}

/// Standard input, locked only during a read: its lock cannot be sent to another thread.
struct StdinReader;

impl Read for StdinReader {
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
    let found = files::read_below(directory, &[session, RESULTS, name], RESULT_BYTES_MAX);
    let bytes = found.ok()??;
    let text = String::from_utf8_lossy(&bytes);
    Some(Recogniser::private_spans_only().mask(&text).into_text())
}

fn file_stem(path: &Path) -> String {
    match path.file_stem().and_then(|stem| stem.to_str()) {
        Some("-") | None => "stdin".to_owned(),
        Some(stem) => stem.to_owned(),
    }
}

fn print_report(names: &[&Path], report: &ImportReport, screen: &mut Screen) -> Outcome {
    let name = names.first().map(|path| path.display().to_string()).unwrap_or_default();
    if screen.json {
        let left_out = [report.bad.items(), report.skipped.items()].concat();
        let bad = left_out.iter().map(|bad| {
            let session = bad.session.as_ref().map(SessionId::as_str);
            let file = file_name(names, bad).to_string();
            let line = bad.place.number;
            json!({ "file": file, "line": line, "problem": bad.problem, "session": session })
        });
        let ids = report.sessions.items().iter().map(SessionId::as_str);
        screen.print_json(&json!({
            "file": name,
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
    let ids = sessions.items().iter().take(NAMES_MAX).map(SessionId::as_str);
    let ids = ids.collect::<Vec<_>>();
    let more = match sessions.count().saturating_sub(ids.len() as u64) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let into = if ids.is_empty() { String::new() } else { format!(" ({}{more})", ids.join(", ")) };
    screen.print_line(format!(
        "{name}: {}{into}, {}: {} added, {known} known",
        with_noun(sessions.count(), "session"),
        with_noun(*records, "record"),
        with_noun(*added, "event"),
    ))?;
    screen.flush()?;
    if let Some((recorded, transcript)) = &report.beside {
        screen.print_note(format!(
            "{name}: session {recorded} was recorded as it happened; the transcript is beside it, \
             in {transcript}"
        ));
    }
    print_notes(names, &name, report, screen);
    Ok(())
}

/// Prints remarks on the parts of a file that were not imported unchanged.
fn print_notes(names: &[&Path], name: &str, report: &ImportReport, screen: &Screen) {
    // Skipped conversations are listed last, after every file.
    for bad in report.bad.items().iter().take(BAD_MAX) {
        let (name, line) = (file_name(names, bad), bad.place.number);
        let problem = escaped(&bad.problem);
        screen.print_note(format!("{name}: line {line} was left out: {problem}"));
    }
    if let more @ 1.. = report.bad.count().saturating_sub(BAD_MAX as u64) {
        let first = report.bad.items().len();
        screen.print_note(format!(
            "{name}: {more} more lines were left out; --json names the first {first}"
        ));
    }
    if !report.unknown.is_empty() {
        let types = report.unknown.iter().take(NAMES_MAX);
        let types: Vec<String> =
            types.map(|(kind, count)| format!("{count} {}", escaped(kind))).collect();
        screen.print_note(format!(
            "{name}: records of unknown types, kept whole and shown by no view: {}",
            types.join(", ")
        ));
    }
    for mended in report.mended.items().iter().take(BAD_MAX) {
        let (name, line) = (file_name(names, mended), mended.place.number);
        screen.print_note(format!("{name}: line {line}: {}", escaped(&mended.problem)));
    }
    if report.results_missing > 0 {
        let results = with_noun(report.results_missing, "result");
        screen.print_note(format!(
            "{name}: {results} kept in {RESULTS} beside the transcript were not there: of each the \
             beginning is known"
        ));
    }
    if report.kept_out > 0 {
        let lines = with_noun(report.kept_out, "line");
        screen.print_note(format!(
            "{name}: {lines} left out: recording was paused or off then, or what they are about is \
             excluded"
        ));
    }
    if report.torn {
        screen.print_note(format!(
            "{name}: a last line is incomplete and was left out; import again once it is whole"
        ));
    }
}

pub(super) async fn export(
    client: &Client,
    wanted: args::ExportArgs,
    config: &Config,
    screen: &mut Screen,
) -> Outcome {
    let mut pages = EventPages::new(client, &wanted.session, EventsQuery::default());
    // On a terminal the printed lines show the progress.
    let spinner = (!screen.terminal).then(|| screen.create_spinner("exporting"));
    let written = write_export(client, &wanted, config, &mut pages, screen).await;
    if let Some(spinner) = spinner {
        spinner.finish_and_clear();
    }
    written
}

async fn write_export(
    client: &Client,
    wanted: &args::ExportArgs,
    config: &Config,
    pages: &mut EventPages<'_>,
    screen: &mut Screen,
) -> Outcome {
    let chat = match wanted.format {
        ExportFormat::Jsonl => {
            while let Some(page) = pages.next().await? {
                for part in page.ordered_parts() {
                    match part {
                        PagePart::Event(event) => screen.print_line(to_single_line(event.get()))?,
                        PagePart::Lost(gap) => screen.print_line(gap_to_json(gap))?,
                    }
                }
            }
            return Ok(());
        }
        ExportFormat::ClaudeCode => {
            return export_transcript(pages, TranscriptProgram::ClaudeCode, screen).await;
        }
        ExportFormat::Codex => {
            return export_transcript(pages, TranscriptProgram::Codex, screen).await;
        }
        ExportFormat::Openai => ChatFormat::Openai,
        ExportFormat::Anthropic => ChatFormat::Anthropic,
        ExportFormat::Markdown => {
            let secrets = config.secrets.read()?;
            return export_markdown(client, &wanted.session, &secrets, pages, screen).await;
        }
    };
    let place = SessionPath { session: wanted.session.clone() };
    let session = client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await?;
    let metadata = |name: &str| session.metadata.get(name).cloned();
    let mut events = Vec::new();
    while let Some(page) = pages.next().await? {
        print_gaps(&page, screen);
        let read = |event: &RawValue| JsonMembers::read(&replace_lone_surrogates(event.get())).ok();
        events.extend(page.events.iter().filter_map(|event| read(event)));
    }
    for line in import::to_chat(chat, &wanted.session, &metadata, &events) {
        screen.print_line(to_single_line(&line))?;
    }
    Ok(())
}

/// Prints a session as Markdown with secrets removed.
async fn export_markdown(
    client: &Client,
    id: &SessionId,
    secrets: &Recogniser,
    pages: &mut EventPages<'_>,
    screen: &mut Screen,
) -> Outcome {
    let place = SessionPath { session: id.clone() };
    let session = client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await?;
    let title = titles::fetch_title(client, &session.id, session.title.as_deref()).await;
    let mut taken = MaskingReport::default();
    let mut clean =
        |text: &str| secrets.mask_json(text, &mut taken).unwrap_or_else(|| text.to_owned());
    let title = Some(clean(&title)).filter(|title| !title.is_empty());
    let about = serde_json::to_string(&session).map_err(io::Error::from)?;
    let about: Value = parse_lossy(clean(&about).as_bytes()).map_err(io::Error::from)?;
    let mut document = MarkdownDocument::new(screen.times());
    screen.print_line(document.format_head(title.as_deref().unwrap_or(id.as_str()), &about))?;
    while let Some(page) = pages.next().await? {
        for part in page.ordered_parts() {
            match part {
                PagePart::Event(event) => {
                    let event = clean(event.get());
                    let event = parse_lossy(event.as_bytes()).map_err(io::Error::from)?;
                    if let Some(text) = document.render_event(&event) {
                        screen.print_line(text)?;
                    }
                }
                PagePart::Lost(gap) => {
                    screen.print_line(document.format_missing(&describe_gap(gap)))?
                }
            }
        }
    }
    if let Some(end) = document.format_omitted() {
        screen.print_line(end)?;
    }
    let rules: Vec<String> = taken.rules().map(|(rule, count)| format!("{rule} {count}")).collect();
    if !rules.is_empty() {
        screen.print_note(format!("removed: {}", rules.join(", ")));
    }
    Ok(())
}

/// Prints remarks on gaps, which another program's format cannot express.
fn print_gaps(page: &EventsPage, screen: &Screen) {
    for gap in &page.gaps {
        screen.print_note(format!("sessionlog: {}", describe_gap(gap)));
    }
}

/// Prints the lines of a program's transcript.
async fn export_transcript(
    pages: &mut EventPages<'_>,
    program: TranscriptProgram,
    screen: &mut Screen,
) -> Outcome {
    let mut lines = TranscriptLines::new(program);
    let (mut events, mut written) = (0_u64, 0_u64);
    while let Some(page) = pages.next().await? {
        print_gaps(&page, screen);
        for event in &page.events {
            events += 1;
            let line =
                JsonMembers::read(event.get()).ok().and_then(|event| lines.add_event(&event));
            let Some((before, line)) = line else { continue };
            written += 1;
            match screen.terminal {
                true => screen.print_line(to_single_line(&line))?,
                false => screen.write_raw((before + &to_single_line(&line)).as_bytes())?,
            }
        }
    }
    if events > 0 && written == 0 {
        let name = program.as_str();
        let message = format!(
            "nothing of this session was imported from {name}: there is no line to write; \
                     --format openai and anthropic write the messages of any session"
        );
        return Err(CliError::usage(message));
    }
    if !screen.terminal {
        screen.write_raw(lines.trailing_text().as_bytes())?;
    }
    Ok(())
}
