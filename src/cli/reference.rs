//! Generates the manual pages and docs/cli.md from the clap definition. It must not describe
//! anything that clap does not know.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use super::{
    args::Arguments,
    failure::{CliError, Outcome},
    screen::Screen,
    settings::{EVERY_VERB, SETTINGS},
};

/// Verbs grouped by purpose.
const GROUPS: [(&str, &[&str]); 6] = [
    (
        "Read",
        &[
            "sessions", "open", "search", "show", "events", "replay", "view", "history", "usage",
            "why", "diff", "compare", "rewind", "memory", "graph", "export",
        ],
    ),
    (
        "Write",
        &[
            "append",
            "import",
            "fork",
            "checkpoints",
            "cursors",
            "mark",
            "handoff",
            "workspace",
            "wake",
            "rename",
            "tag",
            "archive",
            "unarchive",
            "redact",
        ],
    ),
    ("Agents", &["install", "uninstall", "pause", "unpause", "mcp", "hook", "deliver", "proxy"]),
    (
        "Store",
        &[
            "serve",
            "status",
            "doctor",
            "verify",
            "repair",
            "inspect",
            "backup",
            "migrate",
            "retention",
            "hold",
            "restore",
            "delete",
            "erase",
            "config",
        ],
    ),
    ("Keys and access", &["keys", "tokens", "audit"]),
    ("Other", &["demo", "completions", "man", "help"]),
];
/// Verbs for a new user.
const FIRST: [&str; 10] =
    ["demo", "install", "import", "sessions", "search", "show", "replay", "view", "open", "doctor"];
/// Columns of a verb's name in the list of verbs, and of a whole line.
const NAME_COLUMNS: usize = 13;

/// Returns the clap command, with its verbs in groups.
pub(super) fn build_command() -> Command {
    let command = Arguments::command();
    let mut list = String::new();
    for (heading, verbs) in GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in verbs {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about =
                about.map_or_else(|| "Show the help of a verb".to_owned(), ToString::to_string);
            let aliases = command.find_subcommand(name).map(|verb| verb.get_visible_aliases());
            let aliases = aliases.map(|all| all.collect::<Vec<_>>().join(", ")).unwrap_or_default();
            let also = if aliases.is_empty() { aliases } else { format!(" (also: {aliases})") };
            let _ = writeln!(list, "  {name:<NAME_COLUMNS$}{about}{also}");
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

/// Returns the text that the program prints without arguments.
pub(super) fn first_steps_text() -> String {
    let command = Arguments::command();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\nUsage: sessionlog <COMMAND>\n\nTo start with:\n");
    for name in FIRST {
        let about = command.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(text, "  {name:<NAME_COLUMNS$}{about}");
    }
    text.push_str(
        "\n`sessionlog --help` lists every verb, `sessionlog VERB --help` explains one.\n",
    );
    text
}

/// Prints the manual page of the program or of a verb.
pub(super) fn print_manual(verb: Option<&str>, screen: &mut Screen) -> Outcome {
    let mut root = Arguments::command().disable_help_subcommand(true);
    root.build();
    let command = match verb {
        None => root,
        Some(name) => {
            let found = root.find_subcommand(name).cloned();
            let found =
                found.ok_or_else(|| CliError::usage(format!("there is no verb {name:?}")))?;
            let title = format!("sessionlog-{}", found.get_name());
            found.name(title)
        }
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(screen.write_raw(&page)?)
}

/// Appends the settings, one line each.
fn write_settings(text: &mut String) {
    text.push_str(
        "\n## Settings\n\nEvery setting has a flag of the same name (`--max-steps` for `max_steps`), \
         which every verb takes:\nwhat an owner needs is handed on to one that is started on \
         demand. A flag beats an environment\nvariable, that beats the file, that beats the \
         default; `sessionlog config` prints the result. A value\nthat does not parse and a name \
         that is none are errors.\n\n| setting | environment | meaning |\n|---|---|---|\n",
    );
    for setting in SETTINGS {
        let (name, variable, help) = (setting.name, setting.variable(), setting.help_text());
        let _ = writeln!(text, "| `{name}` | `{variable}` | {help} |");
    }
}

/// Returns the reference of the command line: the text of docs/cli.md.
#[must_use]
pub fn reference_markdown() -> String {
    let mut root = build_command().term_width(98);
    root.build();
    let mut text = String::from(
        "# Command line\n\nGenerated from the program's own help; a test compares them. Settings, \
         files and signals are in\n[operations.md](operations.md).\n",
    );
    write_section(&mut text, &mut root, 2);
    text.push_str("\nThe options of every verb are listed once, above.\n");
    for verb in root.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        if verb.get_name() != "help" {
            let mut verb = hide_common_options(verb.clone());
            write_section(&mut text, &mut verb, 2);
            for below in verb.get_subcommands().filter(|below| below.get_name() != "help") {
                write_section(&mut text, &mut hide_common_options(below.clone()), 3);
            }
        }
    }
    write_settings(&mut text);
    text
}

/// Returns a verb without the options common to all verbs.
fn hide_common_options(verb: Command) -> Command {
    verb.mut_args(|argument| {
        let everywhere = argument.get_help_heading() == Some(EVERY_VERB);
        argument.hide_long_help(everywhere).hide_short_help(everywhere)
    })
}

fn write_section(text: &mut String, command: &mut Command, level: usize) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        text,
        "\n{} `{name}`\n\n```text\n{}\n```\n",
        "#".repeat(level),
        lines.join("\n").trim_end()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_is_in_exactly_one_group_and_its_line_fits_a_terminal() {
        let command = build_command();
        let grouped = || GROUPS.iter().flat_map(|(_, verbs)| verbs.iter());
        for verb in command.get_subcommands() {
            let name = verb.get_name();
            assert_eq!(grouped().filter(|one| **one == name).count(), 1, "{name}");
            let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
            let columns = 2 + NAME_COLUMNS + about.chars().count();
            assert!(columns <= 100, "{columns}: {name} {about}");
        }
        assert_eq!(grouped().count(), command.get_subcommands().count() + 1, "and help");
    }
}
