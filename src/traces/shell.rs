//! Parser of a command line by shell rules: simple commands with their words, output files,
//! here-documents, and how each follows the previous one. It must not know what a program does.

use crate::event::lists::word_list;

/// Maximum simple commands of a line, and maximum words of one.
const PARTS_MAX: usize = 64;
const WORDS_MAX: usize = 64;

/// Programs that run another program.
const WRAPPERS: [&str; 13] =
    word_list("sudo time nice env npx bunx nohup exec command xvfb-run stdbuf timeout xargs");
/// Pairs of words that run another program.
const LONG_WRAPPERS: [[&str; 2]; 10] = [
    ["poetry", "run"],
    ["uv", "run"],
    ["pipenv", "run"],
    ["hatch", "run"],
    ["bundle", "exec"],
    ["pnpm", "exec"],
    ["pnpm", "dlx"],
    ["yarn", "exec"],
    ["python", "-m"],
    ["python3", "-m"],
];
/// Shell keywords before a command, and words that do not begin a command.
const KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{"];
const NOT_RUN: [&str; 11] =
    ["for", "case", "select", "function", "fi", "done", "esac", "in", "}", "[[", "]]"];

/// Operator between a simple command and the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CommandJoint {
    /// `;`: runs regardless of the previous one's result.
    #[default]
    Then,
    /// `&&`: runs if the previous one succeeded.
    And,
    /// `||`: runs if the previous one failed.
    Or,
    /// `|`: reads the previous one's output.
    Pipe,
}

/// A simple command in a command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SimpleCommand {
    pub(crate) words: Vec<String>,
    /// Files to which its output is redirected.
    pub(crate) writes: Vec<String>,
    /// Text of its here-document.
    pub(crate) input: String,
    pub(crate) joint: CommandJoint,
    /// Directory in which it runs, relative to that of the line; `None` if a word of the shell
    /// decides it.
    pub(crate) directory: Option<String>,
}

/// Returns the words after assignments, shell keywords and wrapper programs.
pub(crate) fn without_wrappers(words: &[String]) -> &[String] {
    let mut words = words;
    loop {
        words = match words {
            [first, rest @ ..] if is_assignment(first) || KEYWORDS.contains(&&**first) => rest,
            [first, ..] if NOT_RUN.contains(&&**first) => return &[],
            [first, number, rest @ ..]
                if matches!(program_name(std::slice::from_ref(first)), "timeout" | "nice")
                    && number
                        .trim_start_matches("-n")
                        .starts_with(|c: char| c.is_ascii_digit()) =>
            {
                rest
            }
            [nice, flag, _, rest @ ..] if nice == "nice" && flag == "-n" => rest,
            [first, second, rest @ ..]
                if LONG_WRAPPERS.iter().any(|[a, b]| first == a && second == b) =>
            {
                rest
            }
            [first, rest @ ..] if WRAPPERS.contains(&first.as_str()) && !rest.is_empty() => rest,
            words => return words,
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Returns the name of a simple command's program, without its directory.
pub(crate) fn program_name(words: &[String]) -> &str {
    words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default()
}

/// Splits a command line into its simple commands.
pub(crate) fn split_commands(text: &str) -> Vec<SimpleCommand> {
    let mut reader = ShellReader {
        rest: text,
        parts: vec![SimpleCommand::default()],
        directories: vec![Some(String::new())],
        of_list: Some(String::new()),
        ..ShellReader::default()
    };
    while reader.parts.len() <= PARTS_MAX && reader.step() {}
    reader.finish_command(None);
    reader.parts.retain(|part| !part.words.is_empty() || !part.writes.is_empty());
    reader.parts
}

/// Meaning of the next word.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum NextWord {
    #[default]
    Word,
    /// A file to which output is redirected.
    Target,
    /// A file that is read, or the number of a file descriptor.
    Other,
    /// The delimiter of a here-document.
    End,
}

#[derive(Default)]
struct ShellReader<'a> {
    rest: &'a str,
    word: Option<String>,
    next: NextWord,
    parts: Vec<SimpleCommand>,
    /// Indexes of commands whose here-documents begin on the next line, with their delimiters.
    ends: Vec<(usize, String)>,
    /// Directory of the next command, below those of the shells around its subshell.
    directories: Vec<Option<String>>,
    /// Directory in which the current list began.
    of_list: Option<String>,
}

impl<'a> ShellReader<'a> {
    fn next_char(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn skip_prefix(&mut self, mark: &str) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    /// Reads one character and the token that it begins; returns false at the end.
    fn step(&mut self) -> bool {
        let Some(character) = self.next_char() else { return false };
        match character {
            '\\' => {
                if let Some(next) = self.next_char().filter(|next| *next != '\n') {
                    self.push(next);
                }
            }
            '\'' | '"' => self.read_quoted(character),
            '#' if self.word.is_none() => {
                let line = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = self.rest.get(line..).unwrap_or_default();
            }
            '>' => self.read_target(),
            '<' => self.read_source(),
            '&' if self.skip_prefix(">") => self.read_target(),
            ';' | '&' | '|' | '(' | ')' | '\n' => {
                let doubled =
                    matches!(character, '&' | '|') && self.skip_prefix(&character.to_string());
                self.finish_command(match (character, doubled) {
                    ('&', true) => Some(CommandJoint::And),
                    ('|', true) => Some(CommandJoint::Or),
                    ('|', false) => Some(CommandJoint::Pipe),
                    ('(' | ')' | '\n', _) => None,
                    _ => Some(CommandJoint::Then),
                });
                // A list in the background runs in a shell of its own.
                if character == '&' && !doubled {
                    self.directories
                        .last_mut()
                        .into_iter()
                        .for_each(|now| now.clone_from(&self.of_list));
                }
                if !doubled && character != '|' {
                    self.of_list = self.directories.last().cloned().flatten();
                }
                match character {
                    '\n' => self.read_here_documents(),
                    '(' if self.directories.len() < PARTS_MAX => {
                        self.directories.extend(self.directories.last().cloned())
                    }
                    ')' if self.directories.len() > 1 => drop(self.directories.pop()),
                    _ => {}
                }
            }
            character if character.is_whitespace() => self.finish_word(),
            character => self.push(character),
        }
        true
    }

    fn read_quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        while let Some(next) = self.next_char().filter(|next| *next != quote) {
            match next {
                '\\' if quote == '"' => {
                    self.next_char().into_iter().for_each(|next| self.push(next))
                }
                next => self.push(next),
            }
        }
    }

    /// Parses what follows `>`; a target of `2>` or `>&` is ignored.
    fn read_target(&mut self) {
        let number = self.word.take_if(|word| word.bytes().all(|b| b.is_ascii_digit()));
        self.finish_word();
        self.skip_prefix(">");
        self.skip_prefix("|");
        let is_ignored = self.skip_prefix("&") || number.is_some_and(|number| number != "1");
        self.next = if is_ignored { NextWord::Other } else { NextWord::Target };
    }

    fn read_source(&mut self) {
        self.finish_word();
        self.next = match self.skip_prefix("<<") {
            true => NextWord::Other,
            false if self.skip_prefix("<") => {
                self.skip_prefix("-");
                NextWord::End
            }
            false => NextWord::Other,
        };
    }

    fn finish_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let Some(part) = self.parts.last_mut() else { return };
        match std::mem::take(&mut self.next) {
            NextWord::Word if part.words.len() < WORDS_MAX => part.words.push(word),
            NextWord::Target if part.writes.len() < WORDS_MAX => part.writes.push(word),
            NextWord::End => self.ends.push((self.parts.len() - 1, word)),
            _ => {}
        }
    }

    /// Finishes a simple command; an empty one gets the joint, else a new one is added with it.
    fn finish_command(&mut self, joint: Option<CommandJoint>) {
        self.finish_word();
        self.next = NextWord::Word;
        self.enter_directory();
        let empty = |part: &SimpleCommand| part.words.is_empty() && part.writes.is_empty();
        match self.parts.last_mut() {
            Some(part) if empty(part) => part.joint = joint.unwrap_or(part.joint),
            _ => self.parts.push(SimpleCommand {
                joint: joint.unwrap_or_default(),
                ..SimpleCommand::default()
            }),
        }
    }

    /// Gives the last command its directory, and takes the one that it changes to.
    fn enter_directory(&mut self) {
        let (Some(part), Some(now)) = (self.parts.last_mut(), self.directories.last_mut()) else {
            return;
        };
        part.directory.clone_from(now);
        let [program, rest @ ..] = without_wrappers(&part.words) else { return };
        if !matches!(program.as_str(), "cd" | "pushd" | "popd") || part.joint == CommandJoint::Pipe
        {
            return;
        }
        let is_special = |c: char| matches!(c, '$' | '`' | '~' | '*' | '?');
        let target = rest.iter().find(|word| *word == "-" || !word.starts_with('-'));
        *now = match target.filter(|target| *target != "-" && !target.contains(is_special)) {
            // It may not have run.
            _ if part.joint == CommandJoint::Or => None,
            Some(target) if target.starts_with('/') => Some(format!("{target}/")),
            Some(target) => now.take().map(|now| format!("{now}{target}/")),
            None => None,
        };
    }

    /// Reads the here-documents of the line that was just finished.
    fn read_here_documents(&mut self) {
        for (at, end) in std::mem::take(&mut self.ends) {
            let mut length = 0;
            for line in self.rest.split_inclusive('\n') {
                if line.trim() == end {
                    let input = self.rest.get(..length).unwrap_or_default();
                    self.parts.get_mut(at).into_iter().for_each(|part| part.input = input.into());
                    length += line.len();
                    break;
                }
                length += line.len();
            }
            self.rest = self.rest.get(length..).unwrap_or_default();
        }
    }
}
