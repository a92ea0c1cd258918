//! The command line described: completion scripts, manual page, docs/cli.md. It must not say
//! anything that clap does not know.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::{
    args::Arguments,
    config::{PREFIX, SETTINGS},
    failure::Outcome,
    screen::Screen,
};

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
        "\n## Settings\n\nA flag beats an environment variable, that beats the file, that beats \
         the default; `sessionlog config`\nprints the result. A value that does not parse and a \
         name that is none are errors.\n\n| setting | environment | meaning |\n|---|---|---|\n",
    );
    for setting in SETTINGS {
        let (name, variable) = (setting.name, setting.name.to_uppercase());
        let _ = writeln!(text, "| `{name}` | `{PREFIX}{variable}` | {} |", setting.help);
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
