//! Parser of a command line by shell rules: simple commands with their words, output files,
//! here-documents, and how each follows the previous one. It must not know what a program does.

use crate::event::lists::word_list;

/// Most simple commands of a line, and most words of one.
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
/// Shell keywords before a command, and words that begin no command.
const KEYWORDS: [&str; 9] = ["if", "then", "elif", "else", "while", "until", "do", "!", "{"];
const NOT_RUN: [&str; 11] =
    ["for", "case", "select", "function", "fi", "done", "esac", "in", "}", "[[", "]]"];

/// Joint between a simple command and the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Joint {
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
    pub(crate) joint: Joint,
}

/// Strips assignments, shell keywords and wrapper programs from the words.
pub(crate) fn without_wrappers(words: &[String]) -> &[String] {
    let mut words = words;
    loop {
        words = match words {
            [first, rest @ ..] if is_assignment(first) || KEYWORDS.contains(&&**first) => rest,
            [first, ..] if NOT_RUN.contains(&&**first) => return &[],
            [first, number, rest @ ..]
                if matches!(program(std::slice::from_ref(first)), "timeout" | "nice")
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

/// Returns the program of a simple command, without its directory.
pub(crate) fn program(words: &[String]) -> &str {
    words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default()
}

/// Splits a command line into its simple commands.
pub(crate) fn parts(text: &str) -> Vec<SimpleCommand> {
    let mut reader =
        ShellReader { rest: text, parts: vec![SimpleCommand::default()], ..ShellReader::default() };
    while reader.parts.len() <= PARTS_MAX && reader.step() {}
    reader.end_word();
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
    /// Parts whose here-documents begin on the next line, each with its delimiter.
    ends: Vec<(usize, String)>,
}

impl<'a> ShellReader<'a> {
    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let next = characters.next();
        self.rest = characters.as_str();
        next
    }

    fn skip(&mut self, mark: &str) -> bool {
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    /// Reads one character and its token; returns false at the end.
    fn step(&mut self) -> bool {
        let Some(character) = self.take() else { return false };
        match character {
            '\\' => {
                if let Some(next) = self.take().filter(|next| *next != '\n') {
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
            '&' if self.skip(">") => self.read_target(),
            ';' | '&' | '|' | '(' | ')' | '\n' => {
                let doubled = matches!(character, '&' | '|') && self.skip(&character.to_string());
                self.end_part(match (character, doubled) {
                    ('&', true) => Some(Joint::And),
                    ('|', true) => Some(Joint::Or),
                    ('|', false) => Some(Joint::Pipe),
                    ('(' | ')' | '\n', _) => None,
                    _ => Some(Joint::Then),
                });
                if character == '\n' {
                    self.take_here_documents();
                }
            }
            character if character.is_whitespace() => self.end_word(),
            character => self.push(character),
        }
        true
    }

    fn read_quoted(&mut self, quote: char) {
        self.word.get_or_insert_default();
        while let Some(next) = self.take().filter(|next| *next != quote) {
            match next {
                '\\' if quote == '"' => self.take().into_iter().for_each(|next| self.push(next)),
                next => self.push(next),
            }
        }
    }

    /// Parses the target after `>`: a file, or for `2>` and `>&` nothing that counts.
    fn read_target(&mut self) {
        let number = self.word.take_if(|word| word.bytes().all(|b| b.is_ascii_digit()));
        self.end_word();
        self.skip(">");
        self.skip("|");
        let aside = self.skip("&") || number.is_some_and(|number| number != "1");
        self.next = if aside { NextWord::Other } else { NextWord::Target };
    }

    fn read_source(&mut self) {
        self.end_word();
        self.next = match self.skip("<<") {
            true => NextWord::Other,
            false if self.skip("<") => {
                self.skip("-");
                NextWord::End
            }
            false => NextWord::Other,
        };
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        let Some(part) = self.parts.last_mut() else { return };
        match std::mem::take(&mut self.next) {
            NextWord::Word if part.words.len() < WORDS_MAX => part.words.push(word),
            NextWord::Target if part.writes.len() < WORDS_MAX => part.writes.push(word),
            NextWord::End => self.ends.push((self.parts.len() - 1, word)),
            _ => {}
        }
    }

    /// Ends a part; without a joint, an empty part keeps its own and a new one has the default.
    fn end_part(&mut self, joint: Option<Joint>) {
        self.end_word();
        self.next = NextWord::Word;
        let empty = |part: &SimpleCommand| part.words.is_empty() && part.writes.is_empty();
        match self.parts.last_mut() {
            Some(part) if empty(part) => part.joint = joint.unwrap_or(part.joint),
            _ => self.parts.push(SimpleCommand {
                joint: joint.unwrap_or_default(),
                ..SimpleCommand::default()
            }),
        }
    }

    /// Reads the here-documents of the previous line.
    fn take_here_documents(&mut self) {
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
