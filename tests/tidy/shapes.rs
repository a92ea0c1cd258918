//! Figures of the layer above the engine, each with a limit that only gets lower: shapes that
//! mirror each other, names that several types share, calls in a ring. `cargo test --test tidy
//! figures -- --nocapture` prints them. It must not judge which of two shapes is the better one.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::{Source, assert_none, circles::is_part_of_name, names, sources};

/// A figure may be so much below its limit, in percent, before the limit must be lowered.
const SLACK_PERCENT: usize = 5;

/// The rooms above `service`, in which a conversion means a second declaration of a shape.
const ABOVE_SERVICE: [&str; 4] = ["wire", "verbs", "http", "mcp"];

type Measure = fn(&[Source]) -> usize;

/// Each figure, its limit, and its measure. The limit of lines was raised by 1.3 %: types and
/// functions got names that say what they are, and longer names take more lines; then by 220 for
/// rounds of the journal that wait for half of their frames, a third of it tests; then by 8 580 for
/// the engine of many nodes and its database (`store/remote`, `store/base`), by 850 for encryption
/// there (`store/remote/{keys,sealed}`), by 2 550 for moving a store between engines (`migrate` in
/// `store` and in each engine), and by 3 400 for rows, the strip and the comparison of sessions
/// (`harness/{rows,compare}`, `projection/strip`) and the player that shows them, and by 1 200 for
/// tokens of many sessions, subagents, the page and the way to it (`page`, `cli/browse`), and by
/// 250 for the files of subagents that an import takes into their session (`import/interleave`), by
/// 700 for events of hooks that are counted and delivered again, and for what a rollout says of an
/// outcome and of a compaction (`hook/{spool,tail}`, `cli/hook`, `import/codex`), and by 450 for
/// the nodes of a store, killed agents and rules of other sessions (`api/admin`, `service/agent`),
/// and by 1 050 for what a history of months showed: names and times that importers and programs
/// write in several ways (`traces/{tools,thread}`, `event/{cost,time}`, `import`), and a player
/// that fits any terminal (`cli/player`), and by 270 for calls that were stopped and commands that
/// end later (`traces/{calls,unrun}`), and by 384 for the directory of each command and the frames
/// of results (`traces/{command,hand_back,shell}`, `hook/vocabulary`).
const FIGURES: [(&str, usize, Measure); 9] = [
    ("lines of src", 157_104, lines),
    ("conversions of shapes above service", 15, conversions),
    ("tools whose arguments are declared by hand", 5, tools_by_hand),
    ("type names declared more than once", 5, |sources| declared(sources, 1).len()),
    ("type names declared more than twice", 0, |sources| declared(sources, 2).len()),
    ("files of Service that call each other in a ring", 0, |sources| ring(sources).len()),
    ("doc lines that begin with What or Whether", 3, |sources| vague(sources).len()),
    ("constructors named of", 0, constructors_of),
    ("names spelled by stringify! in src", 0, spelled),
];

/// The files of `src` but for those of tests.
fn inside(sources: &[Source]) -> impl Iterator<Item = &Source> {
    sources.iter().filter(|source| source.inside().is_some())
}

fn lines(sources: &[Source]) -> usize {
    inside(sources).map(|source| source.text.lines().count()).sum()
}

fn conversions(sources: &[Source]) -> usize {
    let above = |source: &&Source| source.room().is_some_and(|room| ABOVE_SERVICE.contains(&room));
    let is_one = |line: &str| line.starts_with("impl") && line.contains("From<");
    let of = |source: &Source| source.lines().filter(|(_, line)| is_one(line)).count();
    inside(sources).filter(above).map(of).sum()
}

fn tools_by_hand(sources: &[Source]) -> usize {
    let is_one = |line: &str| line.contains("Tool::standalone::<");
    inside(sources).map(|source| source.lines().filter(|(_, line)| is_one(line)).count()).sum()
}

/// Names that more than `times` structs and enums outside of tests have.
fn declared(sources: &[Source], times: usize) -> Vec<String> {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, line) in inside(sources).flat_map(Source::lines) {
        let mut parts = line.split(|c: char| !is_part_of_name(c));
        if parts.any(|part| matches!(part, "struct" | "enum")) {
            *found.entry(parts.next().unwrap_or_default()).or_default() += 1;
        }
    }
    let many = found.into_iter().filter(|(name, count)| !name.is_empty() && *count > times);
    many.map(|(name, count)| format!("{name} {count}")).collect()
}

fn constructors_of(sources: &[Source]) -> usize {
    let is_one = |line: &str| names(line, "fn of");
    inside(sources).map(|source| source.lines().filter(|(_, line)| is_one(line)).count()).sum()
}

fn spelled(sources: &[Source]) -> usize {
    let is_one = |line: &str| line.contains("stringify!(") && !line.contains("stringify!($");
    inside(sources).map(|source| source.lines().filter(|(_, line)| is_one(line)).count()).sum()
}

/// Doc lines that begin with a word which leaves their subject open, and that are no published
/// text: those of clap and serde are read elsewhere.
fn vague(sources: &[Source]) -> Vec<String> {
    let begins = |line: &str| {
        let text = line.trim_start();
        let doc = text.strip_prefix("/// ").or_else(|| text.strip_prefix("//! "));
        doc.is_some_and(|doc| doc.starts_with("What ") || doc.starts_with("Whether "))
    };
    let of = |source: &Source| {
        let mut before = "";
        let mut found = Vec::new();
        for (at, line) in (1..).zip(source.text.lines()) {
            // Within a paragraph such a word stands in the middle of a sentence.
            let first = !["///", "//!"].contains(&before.trim().get(..3).unwrap_or_default())
                || before.trim().len() == 3;
            if first && begins(line) {
                found.push(format!("{}:{at}: {}", source.path, line.trim()));
            }
            before = line;
        }
        found
    };
    inside(sources).flat_map(of).collect()
}

/// The files of `service` with the methods that each adds to `Service`, and their code.
fn parts_of_service(sources: &[Source]) -> BTreeMap<&str, (BTreeSet<String>, String)> {
    let of_service = inside(sources).filter(|source| source.room() == Some("service"));
    of_service
        .filter(|source| !source.is_test())
        .map(|source| {
            let (mut methods, mut is_inside) = (BTreeSet::new(), false);
            for (_, line) in source.lines() {
                is_inside = (is_inside || line == "impl Service {") && line != "}";
                let declared = line.strip_prefix("    ").filter(|line| !line.starts_with(' '));
                let name = declared.and_then(|line| line.split_once("fn "));
                if let Some((_, rest)) = name.filter(|_| is_inside) {
                    methods.extend(rest.split(|c| !is_part_of_name(c)).next().map(str::to_owned));
                }
            }
            let code = source.lines().fold(String::new(), |all, (_, line)| all + line.trim());
            (source.path.as_str(), (methods, code))
        })
        .collect()
}

/// Calls between files of `Service` through `self` that a chain of such calls leads back from.
fn ring(sources: &[Source]) -> Vec<String> {
    let parts = parts_of_service(sources);
    let mut calls: BTreeMap<&str, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (path, (_, code)) in &parts {
        for (at, _) in code.match_indices('.') {
            let before = code[..at].rsplit(|c| !is_part_of_name(c)).next().unwrap_or_default();
            let name = code[at + 1..].split(|c| !is_part_of_name(c)).next().unwrap_or_default();
            if !matches!(before, "self" | "service")
                || !code[at + 1 + name.len()..].starts_with('(')
            {
                continue;
            }
            let callee = parts.iter().find(|(_, (methods, _))| methods.contains(name));
            if let Some((to, _)) = callee.filter(|(to, _)| *to != path) {
                calls.entry(path).or_default().entry(to).or_default().insert(name);
            }
        }
    }
    let reaches = |from: &str, wanted: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            let next = calls.get(at).into_iter().flat_map(BTreeMap::keys).copied();
            open.extend(next.filter(|to| seen.insert(*to)));
        }
        seen.contains(wanted)
    };
    let mut found = BTreeMap::new();
    for (from, all) in &calls {
        let back = all.iter().filter(|(to, _)| reaches(to, from));
        let lines = back.map(|(to, methods)| {
            let methods: Vec<&str> = methods.iter().copied().collect();
            format!("\n    -> {to}: {}", methods.join(", "))
        });
        let lines: String = lines.collect();
        if !lines.is_empty() {
            found.insert(*from, lines);
        }
    }
    found.into_iter().map(|(from, lines)| format!("{from}{lines}")).collect()
}

/// Figures beyond their limit, and limits that a figure has left behind.
fn beyond(figures: &[(&str, usize, usize)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, limit, found) in figures {
        if found > limit {
            faults.push(format!("{name}: {found}, and {limit} is the limit"));
        }
        if found + limit * SLACK_PERCENT / 100 + 1 < *limit {
            faults.push(format!("{name}: {found}: lower the limit of {limit}"));
        }
    }
    faults
}

#[test]
fn figures_do_not_exceed_their_limits() {
    let sources = sources();
    let figures = FIGURES.map(|(name, limit, measure)| (name, limit, measure(&sources)));
    let mut table = String::new();
    for (name, limit, found) in figures {
        writeln!(table, "{found:>7} of {limit:>7}  {name}").unwrap();
    }
    table.extend(ring(&sources).iter().map(|file| format!("{file}\n")));
    print(&table);
    assert_none(&beyond(&figures));
}

#[allow(clippy::print_stdout, reason = "a test's figures, shown with --nocapture")]
fn print(table: &str) {
    println!("{table}");
}

#[test]
fn each_figure_counts_planted_occurrences() {
    let measured = |name: &str, files: &[(&str, &str)]| {
        let sources: Vec<_> = files.iter().map(|(p, t)| Source::new(p, t)).collect();
        let figure = FIGURES.iter().find(|(one, ..)| *one == name);
        figure.map(|(.., measure)| measure(&sources))
    };
    let conversion = "impl From<A> for B {\n}\nimpl<T> From<C<T>> for B {\n}\n// impl From<A>\n";
    for (name, path, text, found) in [
        ("lines of src", "src/log/a.rs", "\n\n\n", 3),
        ("conversions of shapes above service", "src/wire/a.rs", conversion, 2),
        ("conversions of shapes above service", "src/service/a.rs", conversion, 0),
        (
            "tools whose arguments are declared by hand",
            "src/verbs/a.rs",
            "Tool::standalone::<A>(",
            1,
        ),
        ("doc lines that begin with What or Whether", "src/log/a.rs", "/// What is.\nfn f() {}", 1),
        ("doc lines that begin with What or Whether", "src/log/a.rs", "    /// Whether it is", 1),
        ("doc lines that begin with What or Whether", "src/log/a.rs", "/// It is\n/// What is", 0),
        ("doc lines that begin with What or Whether", "src/log/a.rs", "///\n/// What is", 1),
        ("constructors named of", "src/log/a.rs", "pub fn of(a: u8) -> Self {}\nfn of_a() {}", 1),
        ("names spelled by stringify! in src", "src/log/a.rs", "stringify!(a); stringify!($b)", 0),
        ("names spelled by stringify! in src", "src/log/a.rs", "f(stringify!(a));", 1),
    ] {
        assert_eq!(measured(name, &[(path, text)]), Some(found), "{name}: {text}");
    }
    let three = [
        ("src/a.rs", "struct A;\nenum B {}"),
        ("src/b.rs", "struct A;"),
        ("src/c.rs", "enum A {}\n"),
    ];
    assert_eq!(measured("type names declared more than once", &three), Some(1));
    assert_eq!(measured("type names declared more than twice", &three), Some(1));
    assert_eq!(measured("type names declared more than twice", &three[..2]), Some(0));
}

#[test]
fn files_of_service_that_call_each_other_are_reported() {
    let found = |a: &str, b: &str| {
        let part = |name: &str, body: &str| {
            format!("impl Service {{\n    pub async fn {name}(&self) {{\n{body}\n    }}\n}}\n")
        };
        let sources = [("a", part("first", a)), ("b", part("second", b))];
        let source =
            |(name, text): (&str, String)| Source::new(&format!("src/service/{name}.rs"), &text);
        ring(&sources.map(source)).len()
    };
    assert_eq!(found("self.second()", "self.first()"), 2);
    assert_eq!(found("self\n    .second()", "service.first()"), 2);
    assert_eq!(found("self.second()", "self.second()"), 0);
    assert_eq!(found("self.second()", "other.first()"), 0);
    assert_eq!(found("self.second", "self.first()"), 0);
}

#[test]
fn a_figure_beyond_its_limit_and_a_limit_too_high_are_reported() {
    assert_eq!(beyond(&[("a", 10, 10), ("b", 100, 95)]), Vec::<String>::new());
    assert_eq!(beyond(&[("a", 10, 11)]), ["a: 11, and 10 is the limit"]);
    assert_eq!(beyond(&[("b", 100, 90)]), ["b: 90: lower the limit of 100"]);
}
