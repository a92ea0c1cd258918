//! `demo`: records, kills and recovers a built-in sample session, step by step, with real processes
//! and a real `kill -9`, in a temporary directory. It must not touch the user's sessions.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

use super::{
    args::DemoArgs,
    connect,
    failure::{CliError, Outcome},
    page::{EventPages, EventsQuery},
    screen::{Screen, Tone},
    signals::stop_signal,
    stage::{TemporaryStore, missing_pipe_error, stdout_lines},
};
use crate::{
    client::{Client, ClientTarget, OwnerTarget},
    env::host::OwnerSocket,
    event::{SessionId, kinds},
    import::{self, ChatFormat, ImportSource, JsonMembers},
    verbs::{NoQuery, SessionPath, sessions},
};

const SAMPLE: &str = include_str!("../../examples/conversation.jsonl");
const SESSION: &str = "ghent-walk";
/// Number of events the second process appends, and after how many of them the owner is killed.
const APPENDED: u64 = 200;
const KILLED_AFTER: u64 = 80;

/// Exit code of an interrupted program.
const INTERRUPTED: u8 = 130;
/// Maximum number of checks that the owner has ended, and the pause between two checks.
const LEAVE_CHECKS_MAX: u32 = 100;
const LEAVE_PAUSE: Duration = Duration::from_millis(20);

pub(super) async fn run(wanted: &DemoArgs, screen: &mut Screen) -> Outcome {
    let stage = TemporaryStore::new("sessionlog-demo")?;
    let asked = stop_signal()?;
    let shown = tokio::select! {
        shown = run_steps(&stage, screen) => shown,
        // Dropping the steps kills their processes, except for the owner started on demand.
        () = asked => {
            stop_owner(&stage.data_dir()).await;
            Err(CliError::Silent(INTERRUPTED))
        }
    };
    if wanted.keep {
        let kept = stage.keep();
        screen.print_line(format!("The sessions stay in {}", kept.join("data").display()))?;
    }
    shown
}

/// Stops the owner of the directory, which would keep writing to it.
async fn stop_owner(data_dir: &Path) {
    let Ok(socket) = OwnerSocket::new(data_dir) else { return };
    let target = OwnerTarget {
        socket: socket.path,
        directory: socket.directory.map(Arc::new),
        data_dir: data_dir.to_path_buf(),
        config_digest: String::new(),
        start: None,
    };
    let Ok(client) = Client::new(ClientTarget::Owner(target), connect::random_text()) else {
        return;
    };
    for _ in 0..LEAVE_CHECKS_MAX {
        if client.fetch_owner_report().await.is_err() {
            return;
        }
        // An owner that is already stopping refuses; the next check shows whether it has ended.
        let _ = client.step_down().await;
        tokio::time::sleep(LEAVE_PAUSE).await;
    }
}

async fn run_steps(stage: &TemporaryStore, screen: &mut Screen) -> Outcome {
    screen.print_line(
        "A session log records what an agent did. Crashes and compaction do not remove it.",
    )?;
    let mut server = stage.serve().await?;
    let pid = server.child.id().unwrap_or_default();
    print_step(screen, 1, &format!("a server owns a new data directory (process {pid})"))?;

    let client = Client::new(ClientTarget::Server(server.url.clone()), connect::random_text())?;
    let source = ImportSource {
        reader: Box::new(SAMPLE.as_bytes()),
        name: SESSION.to_owned(),
        session: None,
        subagents: Vec::new(),
        results: Box::new(|_| None),
        around: None,
    };
    let report = import::import(&client, source, &mut |_| {}).await?;
    let (records, added) = (report.records, report.added);
    print_step(
        screen,
        2,
        &format!("a conversation of {records} messages is imported: {added} events"),
    )?;

    let session = SessionId::new(SESSION).expect("a constant that is an id");
    let mut tail = client.tail(&session, None, &[]).await?;
    let mut writer = AppendProcess::start(stage).await?;
    print_step(
        screen,
        3,
        "another process appends, one event after the other; this one follows along",
    )?;
    let mut acknowledged: Vec<Value> = Vec::new();
    while (acknowledged.len() as u64) < KILLED_AFTER {
        acknowledged.push(writer.append(acknowledged.len() as u64).await?);
        tail.next().await?;
    }

    server.child.kill().await?;
    print_step(screen, 4, &format!("kill -9 {pid}: the server is gone, in the middle of it"))?;
    for number in KILLED_AFTER..APPENDED / 2 {
        acknowledged.push(writer.append(number).await?);
    }
    print_step(
        screen,
        5,
        "the appending process never notices: it started an owner itself and repeated its call",
    )?;

    let mut server = stage.serve().await?;
    let client = Client::new(ClientTarget::Server(server.url.clone()), connect::random_text())?;
    for number in APPENDED / 2..APPENDED {
        acknowledged.push(writer.append(number).await?);
    }
    writer.finish().await?;
    print_step(screen, 6, "a new server takes over the data directory, and appending continues")?;

    let outcome = compare_events(&client, &session, &acknowledged, report.added, screen).await;
    server.stop().await?;
    outcome
}

fn print_step(screen: &mut Screen, number: u32, text: &str) -> Outcome {
    let number = screen.paint(Tone::Strong, &format!("{number}."));
    screen.print_line(format!(" {number} {text}"))?;
    Ok(screen.flush()?)
}

/// Reads every event and compares it with the acknowledged ones.
async fn compare_events(
    client: &Client,
    session: &SessionId,
    acknowledged: &[Value],
    imported: u64,
    screen: &mut Screen,
) -> Outcome {
    let mut kept = Vec::new();
    let mut pages = EventPages::new(client, session, EventsQuery::default());
    while let Some(page) = pages.next().await? {
        kept.extend(page.events.iter().filter_map(|event| JsonMembers::read(event.get()).ok()));
    }
    let place = SessionPath { session: session.clone() };
    let about = client.call::<sessions::GetSession>(&place, &NoQuery {}, &()).await?;
    let metadata = |name: &str| about.metadata.get(name).cloned();
    let imported = usize::try_from(imported).unwrap_or(usize::MAX);
    let (sample, appended) = kept.split_at_checked(imported).unwrap_or((&kept, &[]));
    let lines = import::to_chat(ChatFormat::Openai, session, &metadata, sample);
    let sample_is_back = lines.first().and_then(|line| serde_json::from_str::<Value>(line).ok())
        == serde_json::from_str(SAMPLE).ok();
    let back = acknowledged
        .iter()
        .zip(appended)
        .filter(|(sent, kept)| sent.get("content") == kept.value("content").as_ref())
        .count();
    let whole = sample_is_back && back == acknowledged.len() && appended.len() == back;
    let verdict = format!(
        "{back} of {} acknowledged events are back, each once and in order; the imported \
         conversation is {}",
        acknowledged.len(),
        if sample_is_back { "equal to its original" } else { "NOT its original" },
    );
    let tone = if whole { Tone::Good } else { Tone::Bad };
    let verdict = screen.paint(tone, &verdict);
    print_step(screen, 7, &verdict)?;
    if !whole {
        return Err(CliError::Damaged("the demo lost events: please report this".to_owned()));
    }
    screen
        .print_line("Next: `sessionlog serve`, or `sessionlog mcp` in your agent; see README.md")?;
    Ok(())
}

/// A process that appends the lines of its standard input.
struct AppendProcess {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl AppendProcess {
    async fn start(stage: &TemporaryStore) -> Outcome<Self> {
        let mut command = stage.command("append");
        command.arg(SESSION).args(["--owner-idle", "1s"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let lines = stdout_lines(&mut child)?;
        let input = child.stdin.take().ok_or_else(missing_pipe_error)?;
        Ok(Self { child, input, lines })
    }

    /// Appends one event and waits until it is acknowledged.
    async fn append(&mut self, number: u64) -> Outcome<Value> {
        let event = json!({ "type": kinds::AGENT_MESSAGE, "content": format!("note {number}") });
        self.input.write_all(format!("{event}\n").as_bytes()).await?;
        let line = self.lines.next_line().await?.unwrap_or_default();
        let answer: Value = serde_json::from_str(&line).unwrap_or_default();
        match answer.get("next_position") {
            Some(_) => Ok(event),
            None => Err(CliError::Damaged(format!("the demo's writer was refused: {line}"))),
        }
    }

    async fn finish(self) -> Outcome {
        let Self { mut child, input, .. } = self;
        drop(input);
        child.wait().await?;
        Ok(())
    }
}
