//! A run of tests: which program runs them, and which tests its arguments select. It must not read
//! an output.

use std::hash::{Hash, Hasher};

use crate::event::lists::{has, word_list};

/// Programs that always run tests.
const RUNNERS: [&str; 15] = word_list(
    "pytest py.test unittest vitest jest mocha ava ctest rspec phpunit tox nox nextest bats tap",
);
/// Programs that run tests after a certain word.
pub(crate) const DRIVERS: [&str; 25] = word_list(
    "cargo npm pnpm yarn bun go mvn mvnw gradle gradlew make just task dotnet swift mix rake \
     rails deno bazel playwright cypress zig stack manage.py",
);
/// These words.
const TEST_WORDS: [&str; 8] = ["test", "tests", "t", "check", "verify", "nextest", "spec", "e2e"];
/// Options of any runner that select nothing.
const HARMLESS: [&str; 11] = word_list(
    "-q -v -vv -s --quiet --verbose --release --locked --offline --silent --no-fail-fast",
);

/// Families of runners that select tests in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RunnerFamily {
    /// `pytest`.
    Pytest,
    /// `cargo test` and `cargo nextest run`.
    Cargo,
    /// `go test`.
    Go,
    /// `vitest`, `jest` and the scripts of a package that run them.
    Js,
    /// A program that runs one of the others: its report shows which.
    Any,
    /// Another program, whose arguments are compared as they are.
    Other,
}

/// The options of a family; a value follows as the next word, or behind `=`.
struct RunnerOptions {
    /// Options whose value selects nothing.
    skipped: &'static str,
    /// Options whose value selects tests by name.
    named: &'static str,
    /// Options that restrict a run in a way that is only compared as a whole, with a value.
    valued: &'static str,
    /// The same, without a value.
    bare: &'static str,
    /// Options that end a run before all tests were run.
    stopping: &'static str,
}

const PYTEST: RunnerOptions = RunnerOptions {
    skipped: "-n -c -o -p -W -r --tb --durations --cov --cov-report --junitxml --junit-xml \
        --log-level --log-cli-level --timeout --rootdir --color --basetemp --dist --reruns \
        --capture --confcutdir --show-capture --import-mode --verbosity --numprocesses --log-file",
    named: "-k",
    valued: "-m --deselect --ignore --ignore-glob",
    bare: "--doctest-modules --co --collect-only",
    stopping: "-x --exitfirst --maxfail --sw --stepwise --lf --last-failed",
};
const CARGO: RunnerOptions = RunnerOptions {
    skipped: "-j --jobs --profile --cargo-profile --target --target-dir --features -F --color \
        --message-format -Z --config --test-threads --format --retries",
    named: "",
    valued: "-p --package --test --bin --example --bench --exclude -E --filterset --skip \
        --manifest-path --partition",
    bare: "--lib --bins --tests --doc --examples --benches --ignored --no-run --list --exact",
    stopping: "--max-fail",
};
const GO: RunnerOptions = RunnerOptions {
    skipped: "-count -timeout -parallel -p -cpu -tags -coverprofile -covermode -coverpkg -o \
        -mod -bench -benchtime -vet -shuffle -ldflags -gcflags -exec",
    named: "-run --run",
    valued: "-skip -C",
    bare: "-short -c",
    stopping: "-failfast",
};
const JS: RunnerOptions = RunnerOptions {
    skipped: "--config -c --reporter --reporters --maxWorkers -w --environment --testTimeout \
        --pool --root --coverage --color",
    named: "-t --testNamePattern",
    valued: "--project --shard --changed --exclude --dir --selectProjects",
    bare: "-o --onlyChanged -f --onlyFailures --related",
    stopping: "--bail -b",
};

/// A run of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestRun {
    pub(crate) family: RunnerFamily,
    runner: Box<str>,
    /// Files, directories and packages; all when empty.
    paths: Vec<Box<str>>,
    /// Names, or parts of them, any of which a test must have; all when empty.
    names: Vec<Box<str>>,
    /// Restrictions that only a run with the same ones shares.
    others: Vec<Box<str>>,
    /// True if it may end before all of them were run.
    stops: bool,
}

impl TestRun {
    /// The test run of a simple command, if it is one: its words from the program on, and the name
    /// of that.
    pub(crate) fn parse(words: &[String], name: &str) -> Option<Self> {
        let rest = words.get(1..).unwrap_or_default();
        let (runner, skip) = if RUNNERS.contains(&name) {
            (name.to_owned(), None)
        } else if DRIVERS.contains(&name) {
            let at = test_word(name, rest)?;
            let word = rest.get(at)?;
            let word = if matches!(&**word, "t" | "nextest" | "tests") { "test" } else { word };
            (format!("{name} {word}"), Some(at))
        } else {
            (script(words, name)?, None)
        };
        let family = family(&runner);
        let mut test = Self {
            family,
            runner: runner.into(),
            paths: Vec::new(),
            names: Vec::new(),
            others: Vec::new(),
            stops: false,
        };
        // A script of a package that runs some of its tests: `npm run test:unit`.
        let part = test.runner.split_once(":").filter(|_| family == RunnerFamily::Js);
        test.others.extend(part.map(|(_, part)| part.into()));
        let arguments = rest.iter().enumerate().filter(|(at, _)| Some(*at) != skip);
        test.read(arguments.map(|(_, word)| word.as_str()));
        test.paths.sort_unstable();
        test.others.sort_unstable();
        Some(test)
    }

    /// Adds what it selects to a hash, and not how it runs it.
    pub(crate) fn hash(&self, hasher: &mut impl Hasher) {
        (self.family, &self.runner, &self.paths, &self.names, &self.others).hash(hasher);
    }

    /// Reads the arguments.
    fn read<'a>(&mut self, mut arguments: impl Iterator<Item = &'a str>) {
        let options = match self.family {
            RunnerFamily::Pytest => &PYTEST,
            RunnerFamily::Cargo => &CARGO,
            RunnerFamily::Go => &GO,
            RunnerFamily::Js => &JS,
            RunnerFamily::Any | RunnerFamily::Other => {
                return arguments.for_each(|word| self.plain_or_other(word));
            }
        };
        while let Some(word) = arguments.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with('-') => (option, Some(value)),
                _ => (word, None),
            };
            if !option.starts_with('-') || option == "-" {
                self.add_word(word);
            } else if has(options.named, option) {
                let value = value.or_else(|| arguments.next()).unwrap_or_default();
                self.add_name(value);
            } else if has(options.valued, option) {
                let value = value.or_else(|| arguments.next()).unwrap_or_default();
                self.others.push(format!("{option} {value}").into());
            } else if has(options.bare, option) {
                self.others.push(option.into());
            } else if is_stopping(options, option) {
                self.stops = true;
                if option == "--maxfail" && value.is_none() {
                    arguments.next();
                }
            } else if has(options.skipped, option) && value.is_none() {
                arguments.next();
            }
        }
    }

    /// A word that is no option.
    fn add_word(&mut self, word: &str) {
        let word = word.trim_start_matches("./");
        match self.family {
            _ if matches!(word, "" | "run" | "--") => {}
            RunnerFamily::Cargo if word.starts_with('+') => {}
            RunnerFamily::Cargo => self.names.push(word.into()),
            // Everything below the directory.
            RunnerFamily::Go if word == "..." => self.others.retain(|one| &**one != "."),
            _ if word == "." && self.family != RunnerFamily::Go => {}
            _ => self.paths.push(word.trim_end_matches('/').into()),
        }
    }

    /// An argument of a program whose options are not known.
    fn plain_or_other(&mut self, word: &str) {
        let known = HARMLESS.contains(&word) || matches!(word, "--" | "." | "discover");
        if known || word == &*self.runner {
            return;
        }
        match word.starts_with('-') || word.contains('=') {
            true => self.others.push(word.into()),
            false => self.paths.push(word.trim_start_matches("./").into()),
        }
    }

    /// A value that selects by name. An expression of several words is compared as a whole.
    fn add_name(&mut self, value: &str) {
        let plain = |c: char| c.is_alphanumeric() || " _-./:›>,^$|".contains(c);
        let alternatives: Vec<&str> = match self.family {
            RunnerFamily::Pytest => value.split(" or ").collect(),
            _ => value.split('|').collect(),
        };
        let words = |one: &&str| self.family != RunnerFamily::Pytest || !one.trim().contains(' ');
        if value.chars().all(plain) && alternatives.iter().all(words) {
            let trimmed = alternatives.iter().map(|one| one.trim().into());
            self.names.extend(trimmed);
        } else {
            self.others.push(value.into());
        }
    }

    /// True if the success of this run covers another one: it selects all that the other selects.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let narrower =
            |one: &str| self.names.iter().any(|limit| one.contains(limit.trim_matches(['^', '$'])));
        self.runs_what(other)
            && self.others.iter().all(|one| other.others.contains(one))
            && self.holds_paths_of(other)
            && (self.names.is_empty()
                || !other.names.is_empty() && other.names.iter().all(|one| narrower(one)))
    }

    /// True if it selects all tests of its runner.
    pub(crate) fn selects_all(&self) -> bool {
        self.paths.is_empty() && self.names.is_empty() && self.others.is_empty()
    }

    /// The script that it is.
    pub(crate) fn script(&self) -> Option<&str> {
        Some(&*self.runner).filter(|runner| runner.contains('.') && !runner.contains(' '))
    }

    /// True if both run the same kind of tests.
    fn runs_what(&self, other: &Self) -> bool {
        match (self.family, other.family) {
            (RunnerFamily::Any | RunnerFamily::Other, _)
            | (_, RunnerFamily::Any | RunnerFamily::Other) => self.runner == other.runner,
            (one, another) => one == another,
        }
    }

    fn holds_paths_of(&self, other: &Self) -> bool {
        let inside = |one: &str| self.paths.iter().any(|limit| self.is_within(limit, one));
        self.paths.is_empty()
            || !other.paths.is_empty() && other.paths.iter().all(|one| inside(one))
    }

    /// True if this run selects a test, of that name in a report, that failed in another run.
    pub(crate) fn selects(&self, name: &str, other: &Self) -> bool {
        let same = match (self.family, other.family) {
            (RunnerFamily::Other, _) | (_, RunnerFamily::Other) => self.runner == other.runner,
            (one, another) => one == another,
        };
        let place = place_of(name);
        let path = match self.family {
            RunnerFamily::Pytest => name.contains("::").then_some(name),
            _ => place,
        };
        let inside = match path {
            _ if self.paths.is_empty() => true,
            Some(path) => self.paths.iter().any(|limit| self.is_within(limit, path)),
            None => self.holds_paths_of(other),
        };
        same && inside
            && self.others.iter().all(|one| other.others.contains(one))
            && self.fits(name)
    }

    /// True if the selection by name, if there is one, fits a test.
    pub(crate) fn fits(&self, name: &str) -> bool {
        let own = match place_of(name) {
            Some(place) => name.get(place.len()..).unwrap_or_default().trim_start_matches(" > "),
            None => name,
        };
        let own = own.replace(" › ", " ").replace(" > ", " ").to_lowercase();
        let fits = |limit: &str| {
            let plain = limit.replace(" › ", " ").replace(" > ", " ").to_lowercase();
            let (start, end) = (plain.starts_with('^'), plain.ends_with('$'));
            let plain = plain.trim_matches(['^', '$']);
            match (start && self.family == RunnerFamily::Go, end) {
                (true, true) => own == plain || own.starts_with(&format!("{plain}/")),
                (true, false) => own.starts_with(plain),
                _ => own.contains(plain),
            }
        };
        self.names.is_empty() || self.names.iter().any(|limit| fits(limit))
    }

    /// True if all selected tests are run, whatever fails.
    pub(crate) fn runs_all(&self) -> bool {
        !self.stops
    }

    /// True if a path, a package or a test's id is inside another.
    fn is_within(&self, limit: &str, path: &str) -> bool {
        let limit = limit.trim_end_matches("...").trim_end_matches('/');
        let below = |limit: &str| {
            let rest = path.strip_prefix(limit);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '[', '.']))
        };
        match self.family {
            RunnerFamily::Js => path.contains(limit) || limit.ends_with(&format!("/{path}")),
            // A report has the whole path of a package, a command the one below its directory.
            RunnerFamily::Go => {
                below(limit) || path.ends_with(&format!("/{limit}")) || {
                    path.contains(&format!("/{limit}/"))
                }
            }
            // Of an absolute path it is not known where the directory of the tests begins.
            RunnerFamily::Pytest if limit.starts_with('/') => {
                limit.match_indices('/').any(|(at, _)| {
                    limit.get(at + 1..).is_some_and(|rest| !rest.is_empty() && below(rest))
                })
            }
            _ => below(limit),
        }
    }

    /// The same selection by the runner that a report shows.
    pub(crate) fn shown_as(&self, family: Option<RunnerFamily>) -> Self {
        let family = family.filter(|_| self.family == RunnerFamily::Any);
        Self { family: family.unwrap_or(self.family), ..self.clone() }
    }
}

/// The file or package of a test that a report names: `src/cart.test.ts > cart > adds`.
fn place_of(name: &str) -> Option<&str> {
    let (place, _) = name.split_once(" > ")?;
    place.contains(['/', '.']).then_some(place)
}

fn is_stopping(options: &RunnerOptions, option: &str) -> bool {
    // Short flags of pytest may be written as one: `-xvs`.
    let letters = option.strip_prefix('-').unwrap_or_default();
    let joined = has(options.stopping, "--exitfirst")
        && letters.contains('x')
        && letters.chars().all(|c| "xvqsl".contains(c));
    has(options.stopping, option) || joined
}

/// Index of the word for tests among the arguments of a driver.
fn test_word(program: &str, rest: &[String]) -> Option<usize> {
    let at = rest.iter().position(|word| {
        let word = word.split(':').next().unwrap_or_default();
        TEST_WORDS.contains(&word)
    })?;
    let is_flag = |word: &String| word.starts_with(['-', '+']);
    let plain = rest.get(..at)?.iter().all(|word| is_flag(word) || word == "run");
    let builds = matches!(program, "mvn" | "mvnw" | "gradle" | "gradlew");
    // `cargo check` builds, `make check` tests.
    let word = rest.get(at)?;
    ((plain || builds) && !(program == "cargo" && word == "check")).then_some(at)
}

/// A script whose name says that it runs tests.
fn script(words: &[String], program: &str) -> Option<String> {
    let script = words.iter().take(3).find(|word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        let tests = stem.split(['_', '-']).any(|part| matches!(part, "test" | "tests"));
        tests && (name.contains('.') || word.starts_with("./"))
    });
    let runs = matches!(program, "python" | "python3" | "node" | "bash" | "sh" | "ruby" | "php");
    let script = script.filter(|script| runs || words.first() == Some(script));
    let node = program == "node" && words.iter().any(|word| word == "--test");
    let script = script.map(|script| script.trim_start_matches("./").to_owned());
    script.or_else(|| node.then(|| "node --test".to_owned()))
}

fn family(runner: &str) -> RunnerFamily {
    match runner {
        "pytest" | "py.test" => RunnerFamily::Pytest,
        "cargo test" | "nextest" => RunnerFamily::Cargo,
        "go test" => RunnerFamily::Go,
        "vitest" | "jest" => RunnerFamily::Js,
        "make test" | "make check" | "just test" | "just check" | "task test" | "tox" | "nox" => {
            RunnerFamily::Any
        }
        script if script.ends_with(".sh") => RunnerFamily::Any,
        script => match script.split_once(' ') {
            Some(("npm" | "pnpm" | "yarn" | "bun", _)) => RunnerFamily::Js,
            _ => RunnerFamily::Other,
        },
    }
}
