//! A run of tests: its test runner, and the tests that its arguments select. It must not read an
//! output.

use std::hash::{Hash, Hasher};

use crate::event::lists::{has_word, word_list};

/// Programs that always run tests.
const RUNNERS: [&str; 15] = word_list(
    "pytest py.test unittest vitest jest mocha ava ctest rspec phpunit tox nox nextest bats tap",
);
/// Programs that run tests with one of `TEST_WORDS` as an argument.
pub(crate) const DRIVERS: [&str; 25] = word_list(
    "cargo npm pnpm yarn bun go mvn mvnw gradle gradlew make just task dotnet swift mix rake \
     rails deno bazel playwright cypress zig stack manage.py",
);
/// Arguments with which a driver runs tests.
const TEST_WORDS: [&str; 8] = ["test", "tests", "t", "check", "verify", "nextest", "spec", "e2e"];
/// Options of unknown runners that do not select tests.
const HARMLESS: [&str; 11] = word_list(
    "-q -v -vv -s --quiet --verbose --release --locked --offline --silent --no-fail-fast",
);

/// Family of test runners with the same selection rules.
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
    /// A program that starts a test runner; its report shows which one.
    Any,
    /// Another program, whose arguments are compared verbatim.
    Other,
}

/// Options of a family; a value is the next argument, or follows `=`.
struct RunnerOptions {
    /// Options whose value does not select tests.
    skipped: &'static str,
    /// Options whose value selects tests by name.
    named: &'static str,
    /// Options with a value that restrict a run, compared verbatim.
    valued: &'static str,
    /// Options without a value that restrict a run.
    bare: &'static str,
    /// Options that may stop a run before all tests were run.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TestRun {
    pub(crate) family: RunnerFamily,
    runner: Box<str>,
    /// Selected files, directories and packages; empty selects all.
    paths: Vec<Box<str>>,
    /// Names or parts of names, one of which a test must contain; empty selects all.
    names: Vec<Box<str>>,
    /// Other restrictions, compared verbatim.
    others: Vec<Box<str>>,
    /// True if the run may stop before all selected tests were run.
    stops: bool,
}

impl TestRun {
    /// Parses a simple command as a test run; `None` if it is not one. `words` begin with the
    /// program, `name` is its name.
    pub(crate) fn parse(words: &[String], name: &str) -> Option<Self> {
        let rest = words.get(1..).unwrap_or_default();
        let (runner, skip) = if RUNNERS.contains(&name) {
            (name.to_owned(), None)
        } else if DRIVERS.contains(&name) {
            let at = test_word_index(name, rest)?;
            let word = rest.get(at)?;
            let word = if matches!(&**word, "t" | "nextest" | "tests") { "test" } else { word };
            (format!("{name} {word}"), Some(at))
        } else {
            (find_test_script(words, name)?, None)
        };
        let family = runner_family(&runner);
        let mut test = Self {
            family,
            runner: runner.into(),
            paths: Vec::new(),
            names: Vec::new(),
            others: Vec::new(),
            stops: false,
        };
        // A script of a package that runs a subset of its tests: `npm run test:unit`.
        let part = test.runner.split_once(":").filter(|_| family == RunnerFamily::Js);
        test.others.extend(part.map(|(_, part)| part.into()));
        let arguments = rest.iter().enumerate().filter(|(at, _)| Some(*at) != skip);
        test.parse_arguments(arguments.map(|(_, word)| word.as_str()));
        test.paths.sort_unstable();
        test.others.sort_unstable();
        Some(test)
    }

    /// Adds runner and selection to a hash, but not options that do not select tests.
    pub(crate) fn hash(&self, hasher: &mut impl Hasher) {
        (self.family, &self.runner, &self.paths, &self.names, &self.others).hash(hasher);
    }

    /// Adds the selection in the arguments.
    fn parse_arguments<'a>(&mut self, mut arguments: impl Iterator<Item = &'a str>) {
        let options = match self.family {
            RunnerFamily::Pytest => &PYTEST,
            RunnerFamily::Cargo => &CARGO,
            RunnerFamily::Go => &GO,
            RunnerFamily::Js => &JS,
            RunnerFamily::Any | RunnerFamily::Other => {
                return arguments.for_each(|word| self.add_plain_or_other(word));
            }
        };
        while let Some(word) = arguments.next() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) if word.starts_with('-') => (option, Some(value)),
                _ => (word, None),
            };
            if !option.starts_with('-') || option == "-" {
                self.add_word(word);
            } else if has_word(options.named, option) {
                let value = value.or_else(|| arguments.next()).unwrap_or_default();
                self.add_name(value);
            } else if has_word(options.valued, option) {
                let value = value.or_else(|| arguments.next()).unwrap_or_default();
                self.others.push(format!("{option} {value}").into());
            } else if has_word(options.bare, option) {
                self.others.push(option.into());
            } else if is_stopping(options, option) {
                self.stops = true;
                if option == "--maxfail" && value.is_none() {
                    arguments.next();
                }
            } else if has_word(options.skipped, option) && value.is_none() {
                arguments.next();
            }
        }
    }

    /// Adds an argument that is not an option.
    fn add_word(&mut self, word: &str) {
        let word = word.trim_start_matches("./");
        match self.family {
            _ if matches!(word, "" | "run" | "--") => {}
            RunnerFamily::Cargo if word.starts_with('+') => {}
            RunnerFamily::Cargo => self.names.push(word.into()),
            // `...` selects everything below the directory.
            RunnerFamily::Go if word == "..." => self.others.retain(|one| &**one != "."),
            _ if word == "." && self.family != RunnerFamily::Go => {}
            _ => self.paths.push(word.trim_end_matches('/').into()),
        }
    }

    /// Adds an argument of a program whose options are unknown.
    fn add_plain_or_other(&mut self, word: &str) {
        let known = HARMLESS.contains(&word) || matches!(word, "--" | "." | "discover");
        if known || word == &*self.runner {
            return;
        }
        match word.starts_with('-') || word.contains('=') {
            true => self.others.push(word.into()),
            false => self.paths.push(word.trim_start_matches("./").into()),
        }
    }

    /// Adds a value that selects tests by name; a complex expression is compared verbatim.
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

    /// Returns true if this run selects everything that another one selects.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let narrower =
            |one: &str| self.names.iter().any(|limit| one.contains(limit.trim_matches(['^', '$'])));
        self.uses_same_runner(other)
            && self.others.iter().all(|one| other.others.contains(one))
            && self.includes_paths_of(other)
            && (self.names.is_empty()
                || !other.names.is_empty() && other.names.iter().all(|one| narrower(one)))
    }

    pub(crate) fn selects_all(&self) -> bool {
        self.paths.is_empty() && self.names.is_empty() && self.others.is_empty()
    }

    /// Returns the path of the test script, if the runner is one.
    pub(crate) fn script(&self) -> Option<&str> {
        Some(&*self.runner).filter(|runner| runner.contains('.') && !runner.contains(' '))
    }

    /// Returns true if both runs use the same kind of runner.
    fn uses_same_runner(&self, other: &Self) -> bool {
        match (self.family, other.family) {
            (RunnerFamily::Any | RunnerFamily::Other, _)
            | (_, RunnerFamily::Any | RunnerFamily::Other) => self.runner == other.runner,
            (one, another) => one == another,
        }
    }

    fn includes_paths_of(&self, other: &Self) -> bool {
        let inside = |one: &str| self.paths.iter().any(|limit| self.is_within(limit, one));
        self.paths.is_empty()
            || !other.paths.is_empty() && other.paths.iter().all(|one| inside(one))
    }

    /// Returns true if this run selects a test, by its reported name, that failed in `other`.
    pub(crate) fn selects(&self, name: &str, other: &Self) -> bool {
        let same = match (self.family, other.family) {
            (RunnerFamily::Other, _) | (_, RunnerFamily::Other) => self.runner == other.runner,
            (one, another) => one == another,
        };
        let file = test_file(name);
        let path = match self.family {
            RunnerFamily::Pytest => name.contains("::").then_some(name),
            _ => file,
        };
        let inside = match path {
            _ if self.paths.is_empty() => true,
            Some(path) => self.paths.iter().any(|limit| self.is_within(limit, path)),
            None => self.includes_paths_of(other),
        };
        same && inside
            && self.others.iter().all(|one| other.others.contains(one))
            && self.matches_name(name)
    }

    /// Returns true if a test's name matches the selection by name, or there is no such selection.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        let own = match test_file(name) {
            Some(file) => name.get(file.len()..).unwrap_or_default().trim_start_matches(" > "),
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

    /// Returns true if all selected tests are run even if some fail.
    pub(crate) fn runs_all(&self) -> bool {
        !self.stops
    }

    /// Returns true if a path, package or test id is equal to `limit` or below it.
    fn is_within(&self, limit: &str, path: &str) -> bool {
        let limit = limit.trim_end_matches("...").trim_end_matches('/');
        let below = |limit: &str| {
            let rest = path.strip_prefix(limit);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':', '[', '.']))
        };
        match self.family {
            RunnerFamily::Js => path.contains(limit) || limit.ends_with(&format!("/{path}")),
            // A report has a package's full path, a command its path below the directory.
            RunnerFamily::Go => {
                below(limit) || path.ends_with(&format!("/{limit}")) || {
                    path.contains(&format!("/{limit}/"))
                }
            }
            // A report has paths relative to a directory that is unknown here.
            RunnerFamily::Pytest if limit.starts_with('/') => {
                limit.match_indices('/').any(|(at, _)| {
                    limit.get(at + 1..).is_some_and(|rest| !rest.is_empty() && below(rest))
                })
            }
            _ => below(limit),
        }
    }

    /// Returns the run with the runner family in its report, if its own is `Any`.
    pub(crate) fn with_family(&self, family: Option<RunnerFamily>) -> Self {
        let family = family.filter(|_| self.family == RunnerFamily::Any);
        Self { family: family.unwrap_or(self.family), ..self.clone() }
    }
}

/// Returns the file or package in a test's reported name: `src/cart.test.ts > cart > adds`.
fn test_file(name: &str) -> Option<&str> {
    let (file, _) = name.split_once(" > ")?;
    file.contains(['/', '.']).then_some(file)
}

fn is_stopping(options: &RunnerOptions, option: &str) -> bool {
    // Short flags of pytest may be combined: `-xvs`.
    let letters = option.strip_prefix('-').unwrap_or_default();
    let joined = has_word(options.stopping, "--exitfirst")
        && letters.contains('x')
        && letters.chars().all(|c| "xvqsl".contains(c));
    has_word(options.stopping, option) || joined
}

/// Returns the index of the test word among a driver's arguments.
fn test_word_index(program: &str, rest: &[String]) -> Option<usize> {
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

/// Returns a script whose file name shows that it runs tests.
fn find_test_script(words: &[String], program: &str) -> Option<String> {
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

fn runner_family(runner: &str) -> RunnerFamily {
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
