//! No files of a room use each other in a circle, so that each can be read after those it uses. An
//! edge is a path that starts with `super`, `self`, `crate` or a module of the file's own. A module
//! and the files in it are one, so a use of an own file is no edge; a re-export leads to the file
//! it is from. It must not know what a name means.

use std::collections::{BTreeMap, BTreeSet};

use super::{Source, assert_none, sources};

/// The room that the files of the package that measures make up.
const BENCHES: &str = "benches";

/// A module's path from its crate's root.
pub(super) type Module = Vec<String>;
/// Names from one module to another, and the name that the last one gets.
pub(super) type Path = (Vec<String>, String);

pub(super) struct File<'a> {
    path: &'a str,
    pub(super) uses: Vec<Path>,
    exports: Vec<Path>,
}

pub(super) fn module(path: &str) -> Option<Module> {
    let benches = path.strip_prefix("benches/src/");
    let inside = benches.or_else(|| path.strip_prefix("src/"))?.strip_suffix(".rs")?;
    let inside = inside.strip_suffix("/mod").unwrap_or(inside);
    let room = benches.map(|_| BENCHES.to_owned());
    let parts = room.into_iter().chain(inside.split('/').map(str::to_owned));
    (!matches!(inside, "lib" | "main")).then(|| parts.collect())
}

pub(super) fn is_part_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Every path below what `text` starts with, groups opened.
fn tree(text: &mut &str, before: &[String], found: &mut Vec<Path>) {
    let mut path = before.to_vec();
    loop {
        *text = text.trim_start();
        if let Some(rest) = text.strip_prefix('{') {
            *text = rest;
            while !text.trim_start().starts_with('}') && !text.trim_start().is_empty() {
                tree(text, &path, found);
                *text = text.trim_start();
                *text = text.strip_prefix(',').unwrap_or(text);
                if !text.trim_start().starts_with(|c| is_part_of_name(c) || "}{*".contains(c)) {
                    return;
                }
            }
            *text = text.trim_start().strip_prefix('}').unwrap_or_default();
            return;
        }
        let end = text.find(|c| !is_part_of_name(c)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        *text = rest;
        path.push(name.to_owned());
        match rest.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
    }
    let mut last = path.last().cloned().unwrap_or_default();
    if let Some(rest) = text.strip_prefix(" as ") {
        let end = rest.find(|c| !is_part_of_name(c)).unwrap_or(rest.len());
        last = rest[..end].to_owned();
        *text = &rest[end..];
    }
    *text = text.strip_prefix('*').unwrap_or(text);
    found.push((path, last));
}

fn read<'a>(source: &'a Source, children: &BTreeSet<&str>) -> File<'a> {
    let code: String = source.lines().fold(String::new(), |all, (_, line)| all + line + "\n");
    let mut file = File { path: &source.path, uses: Vec::new(), exports: Vec::new() };
    let mut end = 0;
    for (at, _) in code.match_indices("::") {
        let start = code[..at].rfind(|c| !is_part_of_name(c)).map_or(0, |at| at + 1);
        let name = &code[start..at];
        let starts = matches!(name, "super" | "self" | "crate") || children.contains(name);
        if at < end || !starts || code[..start].ends_with(':') {
            continue;
        }
        let mut rest = &code[start..];
        let mut found = Vec::new();
        tree(&mut rest, &[], &mut found);
        end = code.len() - rest.len();
        let line = code[..start].rsplit('\n').next().unwrap_or_default().trim();
        let exported = line.starts_with("pub") && line.ends_with("use");
        if exported { file.exports.extend(found) } else { file.uses.extend(found) }
    }
    file
}

/// The module that has the name at the end of `path`, as `from` sees it.
pub(super) fn target(
    files: &BTreeMap<Module, File<'_>>,
    from: &Module,
    path: &[String],
) -> Option<Module> {
    let mut at = from.clone();
    for (index, name) in path.iter().enumerate() {
        match name.as_str() {
            "crate" => at.truncate(usize::from(from.first().is_some_and(|room| room == BENCHES))),
            "super" => drop(at.pop()?),
            "self" => {}
            name => {
                at.push(name.to_owned());
                if files.contains_key(&at) {
                    continue;
                }
                at.pop();
                let file = files.get(&at)?;
                let export = file.exports.iter().find(|(to, last)| last == name && to != path);
                let Some((to, _)) = export else { return Some(at) };
                let rest = path.get(index + 1..).unwrap_or_default();
                return target(files, &at, &[to, rest].concat());
            }
        }
    }
    Some(at)
}

/// The files of the crate by their modules.
pub(super) fn files(sources: &[Source]) -> BTreeMap<Module, File<'_>> {
    let modules: Vec<_> = sources.iter().filter_map(|s| Some((module(&s.path)?, s))).collect();
    modules
        .iter()
        .map(|(at, source)| {
            let inner =
                modules.iter().filter(|(m, _)| m.len() == at.len() + 1 && m.starts_with(at));
            let children = inner.filter_map(|(module, _)| Some(module.last()?.as_str())).collect();
            (at.clone(), read(source, &children))
        })
        .collect()
}

/// The files of the same room that each file uses.
pub(super) fn edges<'a>(
    files: &'a BTreeMap<Module, File<'_>>,
) -> BTreeMap<&'a Module, BTreeSet<Module>> {
    files
        .iter()
        .map(|(from, file)| {
            let to = file.uses.iter().filter_map(|(path, _)| target(files, from, path));
            // What a module contains is a part of it.
            let same = |to: &Module| !to.starts_with(from) && to.first() == from.first();
            (from, to.filter(|to| same(to) && files.contains_key(to)).collect())
        })
        .collect()
}

/// The circles, each as the paths of its files.
fn circles(sources: &[Source]) -> Vec<String> {
    let files = files(sources);
    let edges = edges(&files);
    let reached = |from: &Module| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(at) = open.pop() {
            let next = edges.get(at).into_iter().flatten();
            open.extend(next.filter(|to| seen.insert((*to).clone())));
        }
        seen
    };
    let all: BTreeMap<&Module, BTreeSet<Module>> =
        files.keys().map(|module| (module, reached(module))).collect();
    let reaches = |a: &Module, b: &Module| all.get(a).is_some_and(|seen| seen.contains(b));
    let in_circle = |a: &Module, b: &Module| reaches(a, b) && reaches(b, a);
    let found: BTreeSet<String> = files
        .keys()
        .filter(|at| in_circle(at, at))
        .map(|at| {
            let circle = files.iter().filter(|(other, _)| in_circle(at, other));
            let paths: Vec<&str> = circle.map(|(_, file)| file.path).collect();
            let inner = files.keys().filter(|other| in_circle(at, other)).flat_map(|from| {
                let to = edges.get(from).into_iter().flatten().filter(|to| in_circle(at, to));
                to.map(|to| format!("\n    {} -> {}", from.join("::"), to.join("::")))
            });
            format!("{} use each other:{}", paths.join(", "), inner.collect::<String>())
        })
        .collect();
    found.into_iter().collect()
}

#[test]
fn no_files_of_a_room_use_each_other_in_a_circle() {
    assert_none(&circles(&sources()));
}

#[test]
fn a_circle_is_reported() {
    let found = |files: &[(&str, &str)]| {
        let sources: Vec<_> = files.iter().map(|(p, t)| Source::new(p, t)).collect();
        circles(&sources).len()
    };
    let top = ("src/service/mod.rs", "mod a;\nmod b;\npub use b::{B as C, D};\n");
    for (a, b, expected) in [
        ("use super::b::B;", "use super::a::A;", 1),
        ("fn f() { super::b::g() }", "use crate::{service::a::A, event::Id};", 1),
        ("use super::{\n    C,\n};", "use super::a;", 1),
        ("use super::b;", "", 0),
        ("use super::b;", "// super::a\nfn f() { g(\"super::a\") }", 0),
        ("use super::b;", "#[cfg(test)]\nmod tests {\n    use super::super::a::A;\n}", 0),
        ("", "use super::Own;", 0),
    ] {
        assert_eq!(
            found(&[top, ("src/service/a.rs", a), ("src/service/b.rs", b)]),
            expected,
            "{a} {b}"
        );
    }
    let down = ("src/service/mod.rs", "mod a;\nfn f() { a::g() }\n");
    assert_eq!(found(&[down, ("src/service/a.rs", "use super::f;")]), 0, "a part of its module");
    let of_bench = [
        ("benches/src/main.rs", "mod a;\nmod b;"),
        ("benches/src/a.rs", "use super::b::B;"),
        ("benches/src/b.rs", "use crate::a;"),
    ];
    assert_eq!(found(&of_bench), 1, "the package that measures");
}
