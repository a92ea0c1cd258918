//! Classifies tools by their names and their input's members: this program's own tools, and tools
//! that keep a plan, edit files, run commands, change something or read. It must not read a result.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::value::RawValue;

use super::content::parse_string;
use crate::event::{
    json,
    lists::{phrase_list, word_list},
};

/// Name of this program's server, and of its tools.
const OWN_SERVER: &str = "sessionlog";
const OWN_TOOLS: [&str; 27] = word_list(
    "sequential_search get_research_session add_sources list_sessions review_history \
     clear_session emit_event get_events fork_session checkpoint resume continue_session \
     memory_search memory_page memory_insert save_skill upsert_entity create_relationship \
     query_entities query_relationships remove_from_graph save_session restore_session \
     get_session delete_session move_workspace find_file_changes",
);

/// Names of tools that change files, split into words.
const EDITORS: [&str; 16] = phrase_list(
    "edit|multi edit|write|notebook edit|apply patch|patch|apply diff|replace|search replace|\
     replace in file|write to file|insert content|edit block|str replace editor|\
     str replace based edit tool|text editor",
);
/// Names of tools that run commands, split into words.
const SHELLS: [&str; 16] = phrase_list(
    "bash|shell|local shell|exec|exec command|shell command|run command|execute|execute command|\
     terminal|run terminal cmd|run terminal command|run in terminal|run shell command|\
     container exec|power shell",
);
/// Agents' internal tools whose names suggest a change.
const INNER: [&str; 10] = phrase_list(
    "task|request user input|agent|kill shell|kill bash|write stdin|send input|spawn agent|\
     exit plan mode|tool search",
);
/// Verbs of a change to a file.
const FILE_VERBS: [&str; 14] = word_list(
    "write edit create insert replace delete remove move rename patch append save update modify",
);
/// Verbs in names of tools that change something, and of tools that read.
const CHANGES: [&str; 103] = word_list(
    "book update cancel create delete send transfer add set submit pay put insert remove modify \
     exchange return refund assign merge publish deploy write edit upload upsert save store move \
     rename replace append patch approve reject close reopen open enable disable start stop \
     restart register unregister subscribe unsubscribe invite grant revoke push commit apply \
     install uninstall purchase buy sell withdraw deposit charge reserve confirm complete archive \
     restore reset clear reply notify trigger execute rebook upgrade downgrade change increment \
     decrement drop fork lock unlock release suspend activate deactivate resume swap attach \
     detach link unlink import duplicate copy make new toggle turn mark tag label file",
);
const READS: [&str; 50] = word_list(
    "get list search find read fetch show check calculate think look lookup describe retrieve \
     load download inspect compare validate verify preview browse scrape crawl extract analyze \
     analyse summarize estimate compute convert is has can peek ping test status info history \
     watch wait ask resolve explain diff grep glob tail head",
);
/// Words that are nouns as often as verbs; they decide only if no other word of a name does.
const UNSURE_CHANGES: [&str; 7] =
    ["order", "post", "schedule", "issue", "request", "charge", "transaction"];
const UNSURE: [&str; 16] = [
    "return", "exchange", "transfer", "set", "file", "label", "tag", "link", "change", "release",
    "status", "info", "history", "test", "head", "open",
];

/// Input members that name a file.
pub(crate) const PATHS: [&str; 15] = word_list(
    "file_path path filePath notebook_path filename file_name target_file file absolute_path \
     relative_workspace_path pathInProject files edits target_notebook uri",
);
/// Further such members of a tool that moves a file; in other tools they may name something else.
pub(crate) const MOVES: [&str; 4] = ["source", "destination", "old_path", "new_path"];

/// Effect of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolKind {
    /// This program's own tool: its result is already in the log.
    Own,
    /// Reads or writes the agent's plan.
    Plan,
    /// Changes files.
    Edits,
    /// Runs commands.
    Runs,
    /// Changes something else.
    Changes,
    /// Reads, or has an unknown effect.
    Reads,
}

/// Members of an input, by name.
pub(crate) type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Parses the members of an input; empty if it is not an object.
pub(crate) fn parse_members(input: Option<&RawValue>) -> Members<'_> {
    input.and_then(|input| parse_object(input.get())).unwrap_or_default()
}

/// Parses the members of an object.
pub(crate) fn parse_object(text: &str) -> Option<Members<'_>> {
    serde_json::from_str(json::check_levels(text, 1)?).ok()
}

/// Returns the first of some members that can be read. Programs give one thing several names, at
/// times two at once, and `null` or another type in one of them.
pub(crate) fn read_first<'a, T>(
    members: &Members<'a>,
    names: &[&str],
    read: impl Fn(&'a RawValue) -> Option<T>,
) -> Option<T> {
    names.iter().find_map(|name| read(members.get(*name)?))
}

/// Splits a name such as `mcp__server__tool` or `server__tool` into server and tool, unless the
/// server is given.
pub(crate) fn split_name<'a>(server: Option<&'a str>, name: &'a str) -> (Option<&'a str>, &'a str) {
    match (server, name.strip_prefix("mcp__").unwrap_or(name).split_once("__")) {
        (None, Some((server, tool))) if !server.is_empty() && !tool.is_empty() => {
            (Some(server), tool)
        }
        _ => (server, name),
    }
}

/// Returns true if a tool is this program's own: its arguments are already in the log. A name
/// without a server matches if this program has such a tool.
#[must_use]
pub fn is_own_tool(server: Option<&str>, name: &str) -> bool {
    let (server, name) = split_name(server, name);
    server.map_or_else(|| OWN_TOOLS.contains(&name), |server| server == OWN_SERVER)
}

/// Classifies a tool; `read_only` is the server's declaration.
pub(crate) fn classify(
    server: Option<&str>,
    name: &str,
    input: &Members<'_>,
    read_only: Option<bool>,
) -> ToolKind {
    let words = split_words(name);
    let spoken = words.join(" ");
    let is = |names: &[&str]| names.contains(&&*spoken);
    if is_own_tool(server, name) {
        return ToolKind::Own;
    }
    if keeps_plan(&words) {
        return ToolKind::Plan;
    }
    if read_only == Some(true) || is(&INNER) || is(&EDITORS) && only_views(input) {
        return ToolKind::Reads;
    }
    if is_file_edit(&words, is(&EDITORS), input) {
        return ToolKind::Edits;
    }
    let command = ["command", "cmd"].iter().any(|member| input.contains_key(*member));
    if is(&SHELLS) || command && !is(&EDITORS) {
        return ToolKind::Runs;
    }
    // The name decides, unless the server declares that the tool only reads.
    match means_change(&words).unwrap_or(read_only == Some(false)) {
        true => ToolKind::Changes,
        false => ToolKind::Reads,
    }
}

/// Returns true for a tool of the agent's plan: `TodoWrite`, `update_plan`, `TaskCreate`.
fn keeps_plan(words: &[String]) -> bool {
    let has = |word: &str| words.iter().any(|one| one == word);
    let todo = ["todo", "todos", "todowrite", "todoread"].iter().any(|word| has(word));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    todo || matches!(&*words, ["update", "plan"] | ["task", "create" | "update" | "list" | "get"])
}

fn is_file_edit(words: &[String], is_editor: bool, input: &Members<'_>) -> bool {
    if input.contains_key("repo") {
        return false;
    }
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    let names_path = || PATHS.iter().chain(&MOVES).any(|member| input.contains_key(*member));
    is_editor || has(&["file", "files", "notebook"]) && has(&FILE_VERBS) && names_path()
}

/// Returns true if a call of an editor only shows a file.
fn only_views(input: &Members<'_>) -> bool {
    let command = input.get("command").and_then(|value| parse_string(value));
    command.is_some_and(|command| command == "view")
}

/// Returns true if a word of a name means a change, false if it means a read; the first unambiguous
/// word decides. `None` if no word means either.
fn means_change(words: &[String]) -> Option<bool> {
    let sure = |word: &&String| !UNSURE.contains(&&***word);
    let direction = |word: &String| {
        let word = word.as_str();
        if CHANGES.contains(&word) { Some(true) } else { READS.contains(&word).then_some(false) }
    };
    let first = words.iter().filter(sure).find_map(direction);
    let is_unsure = || words.iter().any(|word| UNSURE_CHANGES.contains(&word.as_str()));
    first.or_else(|| words.iter().find_map(direction)).or_else(|| is_unsure().then_some(true))
}

/// Splits a name into lower-case words: `str_replace`, `MultiEdit`, `create-issue`.
fn split_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let (mut open, mut lower) = (false, false);
    for character in name.chars() {
        if !character.is_alphanumeric() {
            open = false;
        } else {
            let begins = !open || character.is_uppercase() && lower;
            match words.last_mut().filter(|_| !begins) {
                Some(word) => word.extend(character.to_lowercase()),
                None => words.push(character.to_lowercase().collect()),
            }
            open = true;
        }
        lower = character.is_lowercase() || character.is_ascii_digit();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(name: &str, input: &str) -> ToolKind {
        let input: Box<RawValue> = serde_json::from_str(input).expect("JSON");
        let (server, tool) = split_name(None, name);
        super::classify(server, tool, &parse_members(Some(&input)), None)
    }

    #[test]
    fn a_tool_is_classified_by_the_words_of_its_name() {
        for (expected, names) in [
            (
                ToolKind::Changes,
                "book_reservation update_reservation_flights cancel_reservation send_certificate \
                 transfer_to_human_agents return_delivered_order_items mcp__github__create_issue \
                 modify_pending_order_address exchange_delivered_order_items create_view \
                 notion-create-pages status_update sendEmail issue_write order_pizza post_message deploy",
            ),
            (
                ToolKind::Reads,
                "get_order search_direct_flight list_posts think calculate get_user_details \
                 list_all_airports issue_read pull_request_read get_return_policy WebSearch Read \
                 Grep find_user_id_by_email browser_snapshot check_order_status Task Agent \
                 ToolSearch get_transfer_status file_search read_file list_directory",
            ),
            (ToolKind::Plan, "TodoWrite todowrite write_todos update_plan TaskCreate TaskUpdate"),
            (
                ToolKind::Own,
                "mcp__sessionlog__get_events sessionlog__resume sequential_search add_sources",
            ),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(does(name, "{}"), expected, "{name}");
            }
        }
        assert_eq!(does("mcp__other__get_events", "{}"), ToolKind::Reads);
    }

    #[test]
    fn file_and_command_tools_are_recognized_by_name_and_input_members() {
        for (name, input, expected) in [
            ("Edit", r#"{"file_path":"a"}"#, ToolKind::Edits),
            ("apply_patch", r#""*** Begin Patch""#, ToolKind::Edits),
            ("mcp__filesystem__write_file", r#"{"path":"a"}"#, ToolKind::Edits),
            ("mcp__fs__move_file", r#"{"source":"a","destination":"b"}"#, ToolKind::Edits),
            ("mcp__github__create_or_update_file", r#"{"repo":"r","path":"a"}"#, ToolKind::Changes),
            ("str_replace_editor", r#"{"command":"view","path":"a"}"#, ToolKind::Reads),
            ("str_replace_editor", r#"{"command":"create","path":"a"}"#, ToolKind::Edits),
            ("mcp__drive__create_file", r#"{"title":"a"}"#, ToolKind::Changes),
            ("read_file", r#"{"path":"a"}"#, ToolKind::Reads),
            ("Bash", r#"{"command":"ls"}"#, ToolKind::Runs),
            ("odd", r#"{"cmd":["ls"]}"#, ToolKind::Runs),
            ("exec_command", r#"{"cmd":"ls"}"#, ToolKind::Runs),
        ] {
            assert_eq!(does(name, input), expected, "{name} {input}");
        }
        let none = Members::default();
        assert_eq!(super::classify(None, "web_search", &none, Some(false)), ToolKind::Reads);
        assert_eq!(super::classify(None, "tariff", &none, Some(false)), ToolKind::Changes);
        assert_eq!(super::classify(None, "tariff", &none, None), ToolKind::Reads);
        assert_eq!(super::classify(None, "create_x", &none, Some(true)), ToolKind::Reads);
    }
}
