//! Formats a tool call for a reader: `$ command`, `tool argument name=argument`. It must not judge
//! the call, nor shorten it.

use serde_json::{Map, Value};

use crate::{
    event::text::{ELLIPSIS, one_line},
    traces::{LINES, shell_line},
};

/// Prefix of a shell command.
pub(super) const COMMAND: &str = "$ ";

/// Arguments that contain a command; those in `ABOUT` only describe the call.
const COMMANDS: [&str; 3] = ["command", "cmd", "script"];
const ABOUT: [&str; 6] =
    ["description", "timeout", "timeout_ms", "justification", "yield_time_ms", "max_output_tokens"];
/// Arguments that contain the subject of a call; those in `TEXTS` have an edit's text.
const SUBJECTS: [&str; 7] =
    ["file_path", "notebook_path", "path", "pattern", "query", "url", "subagent_type"];
const TEXTS: [&str; 4] = ["old_string", "new_string", "content", "new_source"];
/// Suffixes that may complete a truncated JSON input.
const ENDS: [&str; 5] = ["\"}", "}", "\"]}", "]}", "\"}]}"];
/// Most arguments of a call that are shown, and most characters of each.
const ARGUMENTS_MAX: usize = 6;
const ARGUMENT_CHARS_MAX: usize = 160;

/// Formats a call. The input is JSON in one line, which may be truncated, or a command.
#[must_use]
pub(super) fn format_call(tool: &str, input: &str) -> String {
    let input = input.trim();
    if !input.starts_with(['{', '[', '"']) {
        return match (tool, input) {
            ("git", "commit") => format!("{COMMAND}git commit"),
            (_, "") => tool.to_owned(),
            _ if is_shell(tool) => format!("{COMMAND}{input}"),
            _ => format!("{tool} {input}"),
        };
    }
    let (cut, is_cut) = match input.strip_suffix(ELLIPSIS) {
        Some(cut) => (cut, true),
        None => (input, false),
    };
    let mark = if is_cut { "…" } else { "" };
    match parse_members(cut) {
        Some(members) => {
            let command = COMMANDS.iter().find_map(|name| shell_line(members.get(*name)?));
            match command {
                Some(command) => format!("{COMMAND}{}{mark}", one_line(&command, usize::MAX)),
                None => format!("{tool}{}{mark}", format_arguments(&members)),
            }
        }
        None => format!("{tool} {}{mark}", cut.replace(['{', '}', '"'], "").trim()),
    }
}

fn is_shell(tool: &str) -> bool {
    let tool = tool.to_lowercase();
    ["bash", "shell", "sh", "exec", "exec_command", "local_shell", "terminal", "run"]
        .iter()
        .any(|name| tool == *name || tool.ends_with(&format!("_{name}")))
}

/// Parses the members of an input, also of a truncated one.
fn parse_members(input: &str) -> Option<Map<String, Value>> {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let cut = input.trim_end_matches('\\');
    read(input).or_else(|| ENDS.iter().find_map(|end| read(&format!("{cut}{end}"))))
}

fn format_arguments(members: &Map<String, Value>) -> String {
    let subject = SUBJECTS.iter().find_map(|name| members.get_key_value(*name));
    let is_edit = members.contains_key("file_path");
    let others = members.iter().filter(|(name, value)| {
        let is_subject = subject.is_some_and(|(subject, _)| subject == *name);
        let is_text = is_edit && TEXTS.contains(&&***name);
        let is_off = value.is_null() || *value == &Value::Bool(false);
        !(is_subject || is_text || is_off || ABOUT.contains(&&***name))
    });
    let told = subject.into_iter().chain(others);
    let told = told.take(ARGUMENTS_MAX).enumerate().map(|(at, (name, value))| {
        let is_bare = at == 0 || is_edit && *name == LINES;
        let value = match value {
            Value::String(text) => one_line(text, ARGUMENT_CHARS_MAX),
            value => one_line(&value.to_string().replace('"', ""), ARGUMENT_CHARS_MAX),
        };
        if is_bare { format!(" {value}") } else { format!(" {name}={value}") }
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_formatted_without_json() {
        for (tool, input, expected) in [
            ("Bash", r#"{"command":"ls -la","description":"look"}"#, "$ ls -la"),
            ("shell", r#"{"command":["bash","-lc","rg \"a b\""]}"#, "$ rg \"a b\""),
            ("Bash", r#"{"command":"cat <<'E'\nx…"#, "$ cat <<'E' x…"),
            ("Read", r#"{"file_path":"/a/b.rs","offset":10}"#, "Read /a/b.rs offset=10"),
            ("book", r#"{"id":"AB12","seats":["1A","2B"]}"#, "book AB12 seats=[1A,2B]"),
            ("Edit", r#"{"replace_all":false,"file_path":"/a","old_string":"x"}"#, "Edit /a"),
            ("Edit", r#"{"file_path":"/a","lines":"+2 -1"}"#, "Edit /a +2 -1"),
            ("apply_patch", "a.rs +2 -1, b +1", "apply_patch a.rs +2 -1, b +1"),
            ("Grep", r#"{"n":true,"pattern":"a|b","path":"src"}"#, "Grep src n=true pattern=a|b"),
            ("git", "commit", "$ git commit"),
            ("Bash", "git push", "$ git push"),
            ("look", "", "look"),
            ("odd", r#"{"a":{"b":{"c":[1,{"#, "odd a:b:c:[1,"),
        ] {
            assert_eq!(format_call(tool, input), expected, "{tool} {input}");
        }
    }
}
