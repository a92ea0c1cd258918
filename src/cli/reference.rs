//! The command line described: completion scripts, manual page, docs/cli.md. It must not say
//! anything that clap does not know.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::{args::Arguments, failure::Outcome, screen::Screen, settings::SETTINGS};

pub(super) fn completions(shell: clap_complete::Shell, screen: &mut Screen) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "sessionlog", &mut script);
    Ok(screen.raw(&script)?)
}

pub(super) fn manual(screen: &mut Screen) -> Outcome {
    let mut page = Vec::new();
    clap_mangen::Man::new(Arguments::command()).render(&mut page)?;
    Ok(screen.raw(&page)?)
}

/// Settings, one line each.
fn settings(text: &mut String) {
    text.push_str(
        "\n## Settings\n\nEvery setting has a flag of the same name (`--max-steps` for `max_steps`), \
         which every verb takes:\nwhat an owner needs is handed on to one that is started on \
         demand. A flag beats an environment\nvariable, that beats the file, that beats the \
         default; `sessionlog config` prints the result. A value\nthat does not parse and a name \
         that is none are errors.\n\n| setting | environment | meaning |\n|---|---|---|\n",
    );
    for setting in SETTINGS {
        let (name, variable, help) = (setting.name, setting.variable(), setting.help());
        let _ = writeln!(text, "| `{name}` | `{variable}` | {help} |");
    }
}

/// The reference of the command line: the text of docs/cli.md.
#[must_use]
pub fn markdown() -> String {
    let mut root = Arguments::command().term_width(98);
    root.build();
    let mut text = String::from(
        "# Command line\n\nGenerated from the program's own help; a test compares them. Settings, \
         files and signals are in\n[operations.md](operations.md).\n",
    );
    section(&mut text, &mut root, 2);
    for verb in root.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        if verb.get_name() != "help" {
            section(&mut text, verb, 2);
            for below in verb.get_subcommands_mut().filter(|below| below.get_name() != "help") {
                section(&mut text, below, 3);
            }
        }
    }
    settings(&mut text);
    text
}

fn section(text: &mut String, command: &mut Command, level: usize) {
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
