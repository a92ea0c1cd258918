//! Steps through MCP on standard input and output, as a model's client sends them: to our front end
//! and to web-researcher-mcp where it is installed, with the same client. Late and early steps are
//! timed in turn, so that both see the same load. It must not time its own parsing of a response.

use std::{io, path::PathBuf, process::Stdio, time::Duration};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{ChildStdin, ChildStdout, Command},
};

use super::{
    cell::{Group, Probe, ProbeResult, figure},
    failure::Outcome,
    machine,
    process::{self, Process, sessionlog},
    research::{arguments, many, step, unjudged},
    runner::{float, median},
    sample::Samples,
    server::{Server, without_settings},
    site::Site,
};

pub(super) const PROBE: Probe = Probe {
    group: Group::Research,
    figures: &[
        figure("research.step.early", "sequential_search through MCP stdio, steps 8 to 12", "µs"),
        figure("research.step.late", "the same, around step --sessions / 10", "µs"),
        figure("research.step.ratio", "late against early", "µs/µs"),
        figure("research.answer.late", "bytes of a late step's message", "bytes"),
        figure("research.recall.late", "get_research_session there, through MCP stdio", "µs"),
        figure("reference.step.early", "web-researcher-mcp: steps 8 to 12", "µs"),
        figure("reference.step.late", "web-researcher-mcp: around step --sessions / 10", "µs"),
        figure("reference.step.ratio", "web-researcher-mcp: late against early", "µs/µs"),
        figure("reference.answer.late", "web-researcher-mcp: bytes of a late message", "bytes"),
        figure("reference.recall.late", "web-researcher-mcp: get_research_session there", "µs"),
        figure("reference.written", "web-researcher-mcp: bytes written a byte", "bytes/byte"),
    ],
    run,
};

/// Name of the other program.
const REFERENCE: &str = "web-researcher-mcp";
/// Number of steps timed in one short session, and number of steps before them.
const TIMED: usize = 5;
const BEFORE: usize = 7;
/// Number of short sessions in a round.
const SHORT: usize = 10;
/// Total time limit of the other program: if a step's cost grows with the number of steps, a
/// thousand take long.
const REFERENCE_MAX: Duration = Duration::from_secs(60);
/// Time limit of one response.
const ANSWER: Duration = Duration::from_secs(60);

fn run(site: &mut Site) -> Outcome<ProbeResult> {
    let program = reference(site);
    if program.is_none() {
        site.notes.push(format!("{REFERENCE} was not compared: it is not in PATH"));
    }
    let server = Server::start(site, &site.path("stdio"))?;
    let (mut ours, mut theirs) = (Figures::default(), Figures::default());
    let late = many(site);
    let mut left = REFERENCE_MAX;
    for round in 1..=site.settings.rounds {
        site.bar.set_message(format!("research: steps, round {round}"));
        ours.round(site, late, Duration::MAX, || Speaker::ours(site))?;
        let Some(program) = program.as_ref().filter(|_| !left.is_zero()) else { continue };
        site.bar.set_message(format!("research: {REFERENCE}, round {round}"));
        let began = site.clock.monotonic();
        theirs.round(site, late, left, || Speaker::theirs(site, program))?;
        left = left.saturating_sub(site.clock.monotonic().saturating_sub(began));
    }
    drop(server);
    let (reached, rounds) = (theirs.reached, theirs.ratio.len());
    if rounds > 0 && (reached < late || rounds < site.settings.rounds as usize) {
        let seconds = REFERENCE_MAX.as_secs();
        site.notes.push(format!(
            "{REFERENCE} had {seconds} s: {rounds} round(s), late steps up to step {reached}"
        ));
    }
    let values = vec![
        ours.early,
        ours.late,
        ours.ratio,
        ours.bytes,
        ours.recall,
        theirs.early,
        theirs.late,
        theirs.ratio,
        theirs.bytes,
        theirs.recall,
        theirs.written,
    ];
    Ok(ProbeResult { values, unjudged: unjudged(site) })
}

fn reference(site: &Site) -> Option<PathBuf> {
    let asked = site.settings.reference.clone();
    asked.or_else(|| site.settings.peers.then(|| process::find(REFERENCE, &[]))?)
}

/// Figures of all rounds, one value a round each.
#[derive(Default)]
struct Figures {
    early: Vec<f64>,
    late: Vec<f64>,
    ratio: Vec<f64>,
    bytes: Vec<f64>,
    recall: Vec<f64>,
    written: Vec<f64>,
    /// Number of the last late step; the least of the rounds.
    reached: usize,
}

impl Figures {
    /// Extends a long session to `late` steps, or as far as it gets within `time`, and times its
    /// steps in turn with early ones of new sessions.
    fn round(
        &mut self,
        site: &Site,
        late: usize,
        time: Duration,
        start: impl Fn() -> Outcome<Speaker>,
    ) -> Outcome {
        let mut samples = site.samples.clone();
        // A separate front end for each: a first step creates a session and binds it.
        let (mut long, mut short) = (start()?, start()?);
        let before = machine::written_bytes(long.process.pid());
        let mut line = Steps::default();
        let began = site.clock.monotonic();
        while line.number < late.saturating_sub(TIMED * SHORT / 2)
            && site.clock.monotonic().saturating_sub(began) < time
        {
            line.next(site, &mut long, &mut samples)?;
        }
        let (mut early, mut late) = (Vec::new(), Vec::new());
        for _ in 0..SHORT {
            let mut other = Steps::default();
            for _ in 0..BEFORE {
                other.next(site, &mut short, &mut samples)?;
            }
            for _ in 0..TIMED {
                early.push(other.next(site, &mut short, &mut samples)?);
                late.push(line.next(site, &mut long, &mut samples)?);
            }
        }
        let reached = if self.reached == 0 { usize::MAX } else { self.reached };
        self.reached = reached.min(line.number);
        self.bytes.push(float(long.last as u64));
        let told = float(line.payload as u64);
        if let (Some(before), Some(now)) = (before, machine::written_bytes(long.process.pid())) {
            // Excludes what it wrote to standard output.
            let bytes = now.saturating_sub(before).saturating_sub(long.heard);
            self.written.push(float(bytes) / told);
        }
        let ask = json!({"sessionId": line.session});
        let recall = (0..TIMED).map(|_| long.call(site, "get_research_session", &ask));
        let recall = recall.map(|taken| Ok(taken?.0)).collect::<Outcome<Vec<_>>>()?;
        self.recall.push(median(&recall));
        let (early, late) = (median(&early), median(&late));
        self.early.push(early);
        self.late.push(late);
        self.ratio.push(late / early);
        Ok(())
    }
}

/// Steps of one session.
#[derive(Default)]
struct Steps {
    session: Option<String>,
    number: usize,
    payload: usize,
}

impl Steps {
    /// Sends the next step; returns its microseconds.
    fn next(&mut self, site: &Site, speaker: &mut Speaker, samples: &mut Samples) -> Outcome<f64> {
        self.number += 1;
        let mut arguments = arguments(&step(samples, self.number), self.session.as_deref());
        if self.session.is_none() {
            // A separate goal starts a new session in addition to the one bound to the front end.
            let (process, call) = (speaker.process.pid(), speaker.calls);
            let goal = json!(format!("measure call {call} of process {process}"));
            arguments.as_object_mut().into_iter().for_each(|members| {
                members.insert("researchGoal".to_owned(), goal.clone());
            });
        }
        self.payload += arguments.to_string().len();
        let (micros, answer) = speaker.call(site, "sequential_search", &arguments)?;
        let session = answer.pointer("/result/structuredContent/sessionId").and_then(Value::as_str);
        let Some(session) = session else {
            return Err(io::Error::other(format!("a step was refused: {answer}")).into());
        };
        self.session = Some(session.to_owned());
        Ok(micros)
    }
}

/// A client of one front end.
struct Speaker {
    process: Process,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    calls: u64,
    /// Bytes of all responses, and of the last one.
    heard: u64,
    last: usize,
}

impl Speaker {
    fn ours(site: &Site) -> Outcome<Self> {
        let mut command = sessionlog();
        without_settings(&mut command);
        command.arg("mcp").arg("--data-dir").arg(site.path("stdio"));
        command.arg("--config").arg(site.configuration());
        Self::start(site, command)
    }

    fn theirs(site: &Site, program: &std::path::Path) -> Outcome<Self> {
        let mut command = Command::new(program);
        let home = site.path("reference");
        for name in ["HOME", "CACHE_DIR", "SESSION_DATA_DIR", "XDG_CACHE_HOME"] {
            command.env(name, &home);
        }
        command.env("SESSION_MAX_STEPS", "1000000");
        Self::start(site, command)
    }

    fn start(site: &Site, mut command: Command) -> Outcome<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Process::start(&mut command, Signal::TERM, site.runtime.handle())?;
        let no_pipe = || io::Error::other("no pipe");
        let input = process.child().stdin.take().ok_or_else(no_pipe)?;
        let output = process.child().stdout.take().ok_or_else(no_pipe)?;
        let mut speaker = Self {
            process,
            input,
            output: BufReader::with_capacity(1 << 20, output).lines(),
            calls: 0,
            heard: 0,
            last: 0,
        };
        let about = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "sessionlog-bench", "version": env!("CARGO_PKG_VERSION")}});
        speaker.ask(site, "initialize", &about)?;
        speaker.say(site, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(speaker)
    }

    fn call(&mut self, site: &Site, tool: &str, arguments: &Value) -> Outcome<(f64, Value)> {
        self.ask(site, "tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Sends a request; returns the microseconds to the response's last byte, and the response.
    fn ask(&mut self, site: &Site, method: &str, params: &Value) -> Outcome<(f64, Value)> {
        self.calls += 1;
        let id = self.calls;
        let mut line =
            json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        line.push('\n');
        let began = site.clock.monotonic();
        let answer = site.wait(async {
            self.input.write_all(line.as_bytes()).await?;
            self.input.flush().await?;
            tokio::time::timeout(ANSWER, self.output.next_line()).await?
        });
        let took = site.clock.monotonic().saturating_sub(began);
        let text = answer??.ok_or_else(|| io::Error::other("the program left"))?;
        self.heard += text.len() as u64 + 1;
        self.last = text.len();
        let answer: Value = serde_json::from_str(&text).map_err(io::Error::other)?;
        match answer.get("id").and_then(Value::as_u64) == Some(id) {
            true => Ok((took.as_secs_f64() * 1e6, answer)),
            false => Err(io::Error::other(format!("not an answer to {method}: {text}")).into()),
        }
    }

    fn say(&mut self, site: &Site, message: &Value) -> Outcome {
        let line = format!("{message}\n");
        site.wait(async {
            self.input.write_all(line.as_bytes()).await?;
            self.input.flush().await
        })??;
        Ok(())
    }
}
