//! A coding session generated from a seed, independent of the agent's program: prompts, files read
//! and edited, test runs that fail and are mended, an updated plan. It must not know how a program
//! reports it.

use super::{
    dice::Dice,
    grammar::{Grammar, Words, capitalised},
};

/// Number of prompts in a session, and of trivial ones such as "ok".
const PROMPTS: usize = 12;
const TRIVIAL: usize = 3;
/// Number of calls between two prompts.
const CALLS: usize = 10;
/// Number of files edited, and of files only read.
const EDITED: usize = 20;
const READ: usize = 40;
/// Number of tests that fail at first, and of these that still fail at the end.
const FAILING_AT_FIRST: usize = 8;
const FAILING: usize = 3;
/// Number of plan items, and of those done at the end.
const PLAN: usize = 8;
const PLAN_DONE: usize = 4;

/// State of a plan item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Pending,
    InProgress,
    Completed,
}

impl State {
    /// Returns the state's name in agents' programs.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

/// An action in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The user enters a prompt.
    Prompt(String),
    /// A file is read.
    Read { path: String, text: String },
    /// Files are searched.
    Search { pattern: String, hits: String },
    /// A part of a file is replaced.
    Edit { path: String, old: String, new: String },
    /// A file is written.
    Write { path: String, text: String },
    /// A command is run; `is_error`: its exit code is not 0.
    Run { command: String, output: String, is_error: bool },
    /// The whole plan is rewritten.
    Plan(Vec<(String, State)>),
    /// The agent replies and waits.
    Answer(String),
}

/// A session to be recorded.
#[derive(Clone, Debug, Default)]
pub(super) struct Coding {
    /// Actions of the session, in order.
    pub(super) acts: Vec<Act>,
    /// Instructions of the user, without trivial ones such as "ok".
    pub(super) instructions: Vec<String>,
    /// Names of tests that fail at the end.
    pub(super) failing: Vec<String>,
    /// Names of tests that failed before and pass at the end.
    pub(super) mended: Vec<String>,
    /// Files that were edited or written.
    pub(super) edited: Vec<String>,
    /// Items of the plan that are not done at the end.
    pub(super) open: Vec<String>,
}

/// Program that runs tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Runner {
    Cargo,
    Pytest,
    Npm,
    Go,
}

impl Runner {
    const ALL: [Self; 4] = [Self::Cargo, Self::Pytest, Self::Npm, Self::Go];

    fn extension(self) -> &'static str {
        match self {
            Self::Cargo => "rs",
            Self::Pytest => "py",
            Self::Npm => "ts",
            Self::Go => "go",
        }
    }

    /// Returns a random test name.
    fn test(self, dice: &mut Dice) -> String {
        let mut slot = |name| GRAMMAR.slot(dice, name);
        let (module, verb, noun, how) = (slot("module"), slot("verb"), slot("noun"), slot("how"));
        match self {
            Self::Cargo => format!("{module}::tests::{verb}_{noun}_{how}"),
            Self::Pytest => format!("tests/test_{module}.py::test_{verb}_{noun}_{how}"),
            Self::Npm => format!("{module} › {verb}s the {noun} {how}"),
            Self::Go => {
                let parts = [module, verb, noun, how].map(|part| capitalised(&part));
                format!("Test{}", parts.concat())
            }
        }
    }

    /// Returns the command that runs all tests.
    fn all(self) -> &'static str {
        match self {
            Self::Cargo => "cargo test --workspace",
            Self::Pytest => "pytest -q",
            Self::Npm => "npm test",
            Self::Go => "go test ./...",
        }
    }

    /// Returns the command that runs one test.
    fn one(self, test: &str) -> String {
        match self {
            Self::Cargo => format!("cargo test --lib -- --exact {test}"),
            Self::Pytest => format!("pytest -q '{test}'"),
            Self::Npm => format!("npm test -- -t '{test}'"),
            Self::Go => format!("go test ./... -run '^{test}$'"),
        }
    }

    /// Returns another command that runs a test: by a part of its name, by its file, or with
    /// options that select nothing. `None` where it would also run one of the others.
    fn another(self, dice: &mut Dice, test: &str, others: &[String]) -> Option<String> {
        let part = match self {
            Self::Cargo => test.rsplit("::").next(),
            Self::Pytest => test.split("::").next(),
            Self::Npm | Self::Go => Some(test),
        }?;
        if others.iter().any(|other| other.contains(part)) {
            return None;
        }
        let mut of = |all: [&str; 3]| (*dice.of(&all)).to_owned();
        Some(match self {
            Self::Cargo => format!("cargo test {}{part}", of(["", "-q ", "--release "])),
            Self::Pytest => {
                format!("{} {}{part}", of(["pytest", "python -m pytest", "uv run pytest"]), {
                    of(["-q ", "--tb=short ", "-x --no-header "])
                })
            }
            Self::Npm => {
                format!("{} -t '{part}'", of(["npm test --", "npx vitest run", "npx jest"]))
            }
            Self::Go => format!("go test ./... {}-run '{part}$'", of(["", "-count=1 ", "-race "])),
        })
    }

    /// Returns the output of a run; `quiet`: passed tests are counted, not named.
    fn output(self, dice: &mut Dice, passed: &[String], failed: &[String], quiet: bool) -> String {
        let mut lines = Vec::new();
        for test in passed.iter().filter(|_| !quiet) {
            lines.push(match self {
                Self::Cargo => format!("test {test} ... ok"),
                Self::Pytest => format!("{test} PASSED"),
                Self::Npm => format!("  ✓ {test} ({} ms)", dice.between(1, 90)),
                Self::Go => format!("--- PASS: {test} (0.{:02}s)", dice.below(100)),
            });
        }
        for test in failed {
            let (left, right) = (dice.between(1, 900), dice.between(1, 900));
            lines.push(match self {
                Self::Cargo => format!("test {test} ... FAILED\n  left: {left}\n right: {right}"),
                Self::Pytest => format!("FAILED {test} - assert {left} == {right}"),
                Self::Npm => format!("  ● {test}\n    Expected: {left}\n    Received: {right}"),
                Self::Go => format!("--- FAIL: {test} (0.01s)\n    got {left}, want {right}"),
            });
        }
        let (good, bad) = (passed.len(), failed.len());
        lines.push(match self {
            Self::Cargo => {
                let word = if failed.is_empty() { "ok" } else { "FAILED" };
                format!("test result: {word}. {good} passed; {bad} failed; 0 ignored")
            }
            Self::Pytest => format!("{bad} failed, {good} passed in {}.1s", dice.between(1, 40)),
            Self::Npm => format!("Tests: {bad} failed, {good} passed, {} total", good + bad),
            Self::Go if failed.is_empty() => "ok  \tall packages".to_owned(),
            Self::Go => "FAIL".to_owned(),
        });
        lines.join("\n")
    }
}

/// Generates the session of a seed.
pub(super) fn coding(seed: u64) -> Coding {
    let mut dice = Dice::new(seed, "coding");
    let runner = *dice.of(&Runner::ALL);
    let mut worker = Worker { runner, paths: Vec::new(), tests: Vec::new(), dice };
    worker.work()
}

struct Worker {
    runner: Runner,
    /// Files of the project: edited ones, then others.
    paths: Vec<String>,
    /// Tests of the project: those that fail at the end, those that are mended, others.
    tests: Vec<String>,
    dice: Dice,
}

impl Worker {
    fn work(&mut self) -> Coding {
        let extension = self.runner.extension();
        self.paths = self.distinct(EDITED + READ, |worker| {
            format!("/home/ada/proj/{}.{extension}", worker.slot("file"))
        });
        let runner = self.runner;
        self.tests = self.distinct(FAILING_AT_FIRST + 60, |worker| runner.test(&mut worker.dice));
        let items = self.distinct(PLAN, |worker| worker.slot("item"));
        let mut made = Coding {
            instructions: self.distinct(PROMPTS - TRIVIAL, Self::instruction),
            failing: self.tests.iter().take(FAILING).cloned().collect(),
            mended: self
                .tests
                .iter()
                .skip(FAILING)
                .take(FAILING_AT_FIRST - FAILING)
                .cloned()
                .collect(),
            edited: self.paths.iter().take(EDITED).cloned().collect(),
            open: items.iter().skip(PLAN_DONE).cloned().collect(),
            ..Coding::default()
        };
        let mut tasks = self.tasks(&made, &items);
        tasks.reverse();
        let mut instructions = made.instructions.clone().into_iter();
        let trivial = self.choose_trivial_prompts();
        for number in 0..PROMPTS {
            let prompt = match trivial.contains(&number) {
                true => self.slot("trivial"),
                false => instructions.next().unwrap_or_default(),
            };
            made.acts.push(Act::Prompt(prompt));
            let from = tasks.len().saturating_sub(CALLS);
            made.acts.extend(tasks.drain(from..).rev());
            made.acts.push(Act::Answer(capitalised(&self.slot("answer"))));
        }
        made
    }

    /// Chooses the trivial prompts: never the first, and the last in half of the sessions.
    fn choose_trivial_prompts(&mut self) -> Vec<usize> {
        let mut numbers: Vec<usize> = (1..PROMPTS - 1).collect();
        self.dice.shuffle(&mut numbers);
        numbers.truncate(TRIVIAL);
        if self.dice.percent(50)
            && let Some(last) = numbers.last_mut()
        {
            *last = PROMPTS - 1;
        }
        numbers
    }

    /// Returns all calls of the session in order: test runs and plans at fixed indices, edits and
    /// reads around them.
    fn tasks(&mut self, made: &Coding, items: &[String]) -> Vec<Act> {
        let total = PROMPTS * CALLS;
        let mut fixed = self.fixed(made, items, total);
        let mut others: Vec<Act> = Vec::new();
        for path in &made.edited {
            others.push(self.change(path));
        }
        while others.len() + fixed.len() < total {
            others.push(self.read_or_search());
        }
        // Every file is edited after the first version of the plan.
        self.dice.shuffle(&mut others);
        let mut others = others.into_iter();
        (0..total).filter_map(|at| fixed.remove(&at).or_else(|| others.next())).collect()
    }

    /// Returns test runs and plans by their index among the calls.
    fn fixed(
        &mut self,
        made: &Coding,
        items: &[String],
        total: usize,
    ) -> std::collections::BTreeMap<usize, Act> {
        let mut acts = std::collections::BTreeMap::new();
        let both: Vec<String> = made.failing.iter().chain(&made.mended).cloned().collect();
        let mut at = total / 8;
        acts.insert(at, self.run_all(&both));
        for (mended, test) in made.mended.iter().enumerate() {
            at += self.dice.between(4, 8);
            acts.insert(at, self.run_failing_test(test));
            at += self.dice.between(3, 7);
            let later = made.mended.iter().skip(mended + 1);
            let failing: Vec<String> = made.failing.iter().chain(later).cloned().collect();
            acts.insert(at, self.run_passing_test(test, &failing));
        }
        at += self.dice.between(3, 8);
        acts.insert(at, self.run_all(&made.failing));
        for test in &made.failing {
            at += self.dice.between(2, 5);
            acts.insert(at, self.run_failing_test(test));
        }
        for done in 0..=PLAN_DONE {
            let state = |item: usize| match item {
                item if item < done => State::Completed,
                item if item == done => State::InProgress,
                _ => State::Pending,
            };
            let plan = (0..).zip(items).map(|(n, item)| (item.clone(), state(n))).collect();
            let mut place = 2 + done * total / (PLAN_DONE + 2);
            while acts.contains_key(&place) {
                place += 1;
            }
            acts.insert(place, Act::Plan(plan));
        }
        acts
    }

    fn run_all(&mut self, failed: &[String]) -> Act {
        let passed: Vec<String> =
            self.tests.iter().filter(|test| !failed.contains(test)).cloned().collect();
        let quiet = self.dice.percent(50);
        let output = self.runner.output(&mut self.dice, &passed, failed, quiet);
        Act::Run { command: self.runner.all().to_owned(), output, is_error: !failed.is_empty() }
    }

    /// Returns a failing run of one test; one of four is piped, so that its exit code is lost.
    fn run_failing_test(&mut self, test: &String) -> Act {
        let mut command = self.runner.one(test);
        let failed = std::slice::from_ref(test);
        let output = self.runner.output(&mut self.dice, &[], failed, false);
        let is_piped = self.dice.percent(25);
        if is_piped {
            command.push_str(" 2>&1 | tail -40");
        }
        Act::Run { command, output, is_error: !is_piped }
    }

    /// Returns a run in which a test passes; most use another command than the failing run, and
    /// half name no passed test.
    fn run_passing_test(&mut self, test: &String, failing: &[String]) -> Act {
        let another = self.dice.percent(70);
        let another = another.then(|| self.runner.another(&mut self.dice, test, failing)).flatten();
        let command = another.unwrap_or_else(|| self.runner.one(test));
        let quiet = self.dice.percent(50);
        let passed = std::slice::from_ref(test);
        let output = self.runner.output(&mut self.dice, passed, &[], quiet);
        Act::Run { command, output, is_error: false }
    }

    fn change(&mut self, path: &str) -> Act {
        let path = path.to_owned();
        if self.dice.percent(20) {
            return Act::Write { path, text: self.code(30) };
        }
        Act::Edit { path, old: self.code(3), new: self.code(5) }
    }

    fn read_or_search(&mut self) -> Act {
        match self.dice.below(10) {
            0..6 => {
                let path = self.dice.of(&self.paths).clone();
                let lines = self.dice.between(20, 120);
                Act::Read { path, text: self.code(lines) }
            }
            6..8 => {
                let pattern = self.slot("noun");
                let mut hits = Vec::new();
                for _ in 0..self.dice.between(2, 15) {
                    let path = self.dice.of(&self.paths).clone();
                    hits.push(format!("{path}:{}:{}", self.dice.below(400), self.slot("code")));
                }
                Act::Search { pattern, hits: hits.join("\n") }
            }
            _ => {
                let output = self.code(8);
                Act::Run { command: self.slot("command"), output, is_error: false }
            }
        }
    }

    fn code(&mut self, lines: usize) -> String {
        let lines: Vec<String> = (0..lines).map(|_| self.slot("code")).collect();
        lines.join("\n")
    }

    /// Returns an instruction of the user: a sentence, several, or a page with a list.
    fn instruction(&mut self) -> String {
        let mut text = capitalised(&self.slot("task")) + ".";
        match self.dice.below(3) {
            0 => {}
            1 => {
                for _ in 0..self.dice.between(1, 4) {
                    text = format!("{text} {}.", capitalised(&self.slot("rule")));
                }
            }
            _ => {
                text.push_str("\n\nWhat matters:");
                for _ in 0..self.dice.between(4, 12) {
                    text = format!("{text}\n- {}", self.slot("rule"));
                }
                text = format!("{text}\n\n{}.", capitalised(&self.slot("task")));
            }
        }
        text
    }

    /// Returns `count` distinct texts, none of which is part of another.
    fn distinct(&mut self, count: usize, make: impl Fn(&mut Self) -> String) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        while all.len() < count {
            let text = make(self);
            if !all.iter().any(|other| other.contains(&text) || text.contains(other)) {
                all.push(text);
            }
        }
        all
    }

    fn slot(&mut self, name: &str) -> String {
        GRAMMAR.slot(&mut self.dice, name)
    }
}

const GRAMMAR: Grammar = Grammar { tables: [WORDS, &[]], habits: 0 };

const WORDS: Words = &[
    (
        "module",
        &[
            "parser", "router", "ledger", "cache", "invoice", "session", "upload", "search",
            "billing", "export",
        ],
    ),
    (
        "verb",
        &["read", "merge", "refuse", "keep", "round", "expire", "retry", "split", "sort", "drop"],
    ),
    (
        "noun",
        &[
            "header", "cursor", "amount", "token", "batch", "locale", "redirect", "tenant",
            "digest", "window",
        ],
    ),
    (
        "how",
        &[
            "twice",
            "when_empty",
            "at_midnight",
            "without_quota",
            "after_restart",
            "in_order",
            "with_utf8",
            "under_load",
        ],
    ),
    (
        "file",
        &[
            "src/{module}/{noun}_{n}",
            "src/{module}/{verb}_{noun}",
            "lib/{noun}/{verb}_{m}",
            "internal/{module}_{noun}",
            "tests/{module}/{verb}_{noun}_{n}",
        ],
    ),
    (
        "item",
        &[
            "{verb} the {noun} in {module} ({code})",
            "move {module} behind the {noun} of {name}",
            "write the test for {noun} {m}",
            "document what {module} does {how} in {year}",
            "ask {name} about the {noun} limit of {k}",
            "remove the {noun} flag {code}",
        ],
    ),
    (
        "task",
        &[
            "let {module} {verb} the {noun} {how}, as {name} asked in {code}",
            "the {noun} of {module} is wrong since {hex}: find out why and mend it",
            "add an option --{verb}-{noun}-{m} to the {module} command",
            "replace the {noun} in {module} by what {name} wrote for {module}",
            "in {module}, a {noun} of {k} bytes must {verb} within {m} ms",
            "Der Export in {module} bricht bei {m} Zeilen ab: bitte {noun} und {noun} prüfen",
            "make the {noun} tests of {module} pass without touching {module}.lock",
        ],
    ),
    (
        "rule",
        &[
            "never change the {noun} of {module}, {name}'s service reads it",
            "use at most {m} {noun}s in {module}",
            "errors of {module} must name the {noun}",
            "keep the old {noun} readable until {year}",
            "no new dependency for {module}",
            "the limit is {k}, not {m}",
            "write the test {how} before the change",
            "answer {code} when the {noun} is missing",
            "log the {noun} once, at level {n}",
        ],
    ),
    ("trivial", &["ok", "yes", "go on", "continue", "yes please", "ok, go on"]),
    (
        "answer",
        &[
            "done: {module} can {verb} the {noun} now, {m} lines changed",
            "I changed the {noun} and ran the tests, {n} are left",
            "the {noun} of {module} was read twice; commit {hex} has the change",
        ],
    ),
    (
        "command",
        &[
            "git status --short",
            "git diff --stat HEAD~{n}",
            "ls -la src/{module}",
            "wc -l src/{module}/*",
            "git log --oneline -{n} -- src/{module}",
            "du -sh src/{module}",
        ],
    ),
    (
        "code",
        &[
            "let {noun} = {module}.{verb}({m});",
            "if {noun} > {k} { return {module}.{verb}({n}); }",
            "// {name}: {noun} must {verb} before {module}",
            "return {verb}_{noun}({m}, {k});",
            "const {noun}_{m} = {k}; // {code}",
            "assert({module}.{noun} == {m});",
        ],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the runs that name a test, each with true if the test fails there.
    fn named(made: &Coding, test: &str) -> Vec<(usize, bool)> {
        let runs = made.acts.iter().enumerate().filter_map(|(at, act)| match act {
            Act::Run { output, .. } => Some((at, output)),
            _ => None,
        });
        let line = |(at, output): (usize, &String)| {
            let line = output.lines().find(|line| line.contains(test))?;
            Some((at, !["... ok", "PASS", "✓"].iter().any(|word| line.contains(word))))
        };
        runs.filter_map(line).collect()
    }

    /// Returns true if a passing run follows the last run that names the test as failing.
    fn passes_last(made: &Coding, test: &str) -> bool {
        let last = named(made, test).into_iter().rfind(|(_, fails)| *fails);
        let after = made.acts.iter().skip(last.map_or(0, |(at, _)| at + 1));
        let mut runs = after.filter_map(|act| match act {
            Act::Run { output, .. } => Some(output),
            _ => None,
        });
        runs.any(|output| ["0 failed", "ok  \t"].iter().any(|word| output.contains(word)))
    }

    #[test]
    fn a_generated_session_matches_its_own_description() {
        let mut commands = std::collections::BTreeSet::new();
        for seed in 1..=40 {
            let made = coding(seed);
            let count =
                |wanted: fn(&Act) -> bool| made.acts.iter().filter(|act| wanted(act)).count();
            let calls = count(|act| !matches!(act, Act::Prompt(_) | Act::Answer(_)));
            assert_eq!((count(|act| matches!(act, Act::Prompt(_))), calls), (PROMPTS, 120));
            assert_eq!(made.instructions.len(), PROMPTS - TRIVIAL);
            for instruction in &made.instructions {
                assert!(made.acts.contains(&Act::Prompt(instruction.clone())), "seed {seed}");
            }
            assert_eq!((made.failing.len(), made.mended.len()), (3, 5));
            assert!(!made.failing.iter().any(|test| passes_last(&made, test)), "seed {seed}");
            let run = |act: &Act| match act {
                Act::Run { command, .. } => Some(command.clone()),
                _ => None,
            };
            commands.extend(made.acts.iter().filter_map(run));
            assert!(made.mended.iter().all(|test| passes_last(&made, test)), "seed {seed}");
            let changed: std::collections::BTreeSet<&String> = made
                .acts
                .iter()
                .filter_map(|act| match act {
                    Act::Edit { path, .. } | Act::Write { path, .. } => Some(path),
                    _ => None,
                })
                .collect();
            assert_eq!(changed, made.edited.iter().collect());
            let plan = made.acts.iter().rev().find_map(|act| match act {
                Act::Plan(items) => Some(items),
                _ => None,
            });
            let open: Vec<&String> = plan
                .expect("a plan")
                .iter()
                .filter(|(_, state)| *state != State::Completed)
                .map(|(item, _)| item)
                .collect();
            assert_eq!(open, made.open.iter().collect::<Vec<_>>(), "seed {seed}");
        }
        // Tests pass with another command than they failed with.
        for way in ["python -m pytest ", "npx vitest run -t", "cargo test -q ", "-race"] {
            assert!(commands.iter().any(|command| command.contains(way)), "{way}");
        }
    }
}
