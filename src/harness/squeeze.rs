//! Shortens texts without removing words: needless white space, indented JSON, comment lines in
//! code. It must not depend on the source of a text.

/// File name endings of languages with `#` comments, and of those with `//` comments.
const HASHES: &[&str] = &["py", "sh", "bash", "zsh", "rb", "toml", "yaml", "yml", "r", "pl", "mk"];
const SLASHES: &[&str] = &[
    "rs", "js", "jsx", "ts", "tsx", "go", "c", "h", "cc", "cpp", "hpp", "java", "kt", "swift",
    "cs", "scala", "php", "css", "proto",
];

/// Syntax of a language's comment lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommentSyntax {
    /// `#`.
    Hash,
    /// `//`, and `/*` up to `*/`.
    Slash,
}

impl CommentSyntax {
    /// Returns the syntax for a file name or a language name.
    pub(super) fn for_name(name: &str) -> Option<Self> {
        let ending = name.rsplit(['.', '/']).next().unwrap_or(name).to_lowercase();
        let ending = match ending.as_str() {
            "python" => "py",
            "shell" => "sh",
            "rust" => "rs",
            "javascript" => "js",
            "typescript" => "ts",
            other => other,
        };
        if HASHES.contains(&ending) {
            return Some(Self::Hash);
        }
        SLASHES.contains(&ending).then_some(Self::Slash)
    }
}

/// Removes trailing blanks, repeated empty lines and repeated blanks within a line; minifies JSON.
/// `None` if nothing changes.
pub(super) fn remove_whitespace(text: &str) -> Option<String> {
    let whole = text.trim();
    let made = match minify_json(whole) {
        Some(json) => json,
        None => squeeze_lines(whole),
    };
    (made != text).then_some(made)
}

fn squeeze_lines(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut blank = 0;
    for line in text.lines() {
        let line = line.trim_end();
        if line.is_empty() {
            blank += 1;
            continue;
        }
        if !made.is_empty() {
            made.push('\n');
            if blank > 0 {
                made.push('\n');
            }
        }
        blank = 0;
        // Indentation has a meaning in code and in lists.
        let words = line.trim_start();
        made.push_str(line.get(..line.len() - words.len()).unwrap_or_default());
        let mut space = false;
        for c in words.chars() {
            let is_space = c == ' ' || c == '\t';
            if !(is_space && space) {
                made.push(if is_space { ' ' } else { c });
            }
            space = is_space;
        }
    }
    made
}

/// Removes the white space between the tokens of a JSON document.
fn minify_json(text: &str) -> Option<String> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<serde::de::IgnoredAny>(text).ok()?;
    let mut made = String::with_capacity(text.len());
    let (mut inside, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' if inside => escaped = true,
            '"' => inside = !inside,
            ' ' | '\n' | '\r' | '\t' if !inside => continue,
            _ => {}
        }
        made.push(c);
    }
    Some(made)
}

/// Removes the comment lines of source code; `None` if it has none.
pub(super) fn remove_comment_lines(text: &str, language: CommentSyntax) -> Option<String> {
    let mut block = false;
    let made: Vec<&str> = text
        .lines()
        .filter(|line| {
            let words = line.trim_start();
            if block {
                block = !words.contains("*/");
                return false;
            }
            match language {
                CommentSyntax::Hash => !words.starts_with('#') || words.starts_with("#!"),
                CommentSyntax::Slash if words.starts_with("/*") => {
                    // Text after a block comment on its last line is code.
                    let end = words.split_once("*/").map(|(_, rest)| rest.trim());
                    block = end.is_none();
                    end.is_some_and(|rest| !rest.is_empty())
                }
                CommentSyntax::Slash => !words.starts_with("//"),
            }
        })
        .collect();
    (made.len() < text.lines().count()).then(|| made.join("\n"))
}

/// Removes the comment lines of code whose language is guessed from its comments.
pub(super) fn remove_guessed_comments(text: &str) -> Option<String> {
    let has = |mark: &str| text.lines().any(|line| line.trim_start().starts_with(mark));
    let is_c = has("//") || has("/*");
    let ends = |line: &str| line.trim_end().ends_with([';', '{', '}']);
    let language = match is_c {
        true => CommentSyntax::Slash,
        // In languages with braces a line with `#` is not a comment.
        false if has("# ") && !text.lines().any(ends) => CommentSyntax::Hash,
        false => return remove_fenced_comments(text),
    };
    remove_comment_lines(text, language)
}

/// Removes the comment lines in fenced code blocks that name their language.
pub(super) fn remove_fenced_comments(text: &str) -> Option<String> {
    let mut made: Vec<String> = Vec::new();
    let mut fence: Option<(CommentSyntax, Vec<&str>)> = None;
    let mut open = false;
    let mut changed = false;
    for line in text.lines() {
        let mark = line.trim_start().strip_prefix("```");
        match (mark, open) {
            (Some(label), false) => {
                open = true;
                fence =
                    CommentSyntax::for_name(label.trim()).map(|language| (language, Vec::new()));
                made.push(line.to_owned());
            }
            (Some(_), true) => {
                open = false;
                if let Some((language, lines)) = fence.take() {
                    let code = lines.join("\n");
                    let bare = remove_comment_lines(&code, language);
                    changed |= bare.is_some();
                    made.push(bare.unwrap_or(code));
                }
                made.push(line.to_owned());
            }
            (None, _) => match &mut fence {
                Some((_, lines)) => lines.push(line),
                None => made.push(line.to_owned()),
            },
        }
    }
    // A fence without an end is not a fence.
    (changed && !open).then(|| made.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn squeezing_removes_needless_white_space_and_keeps_words() {
        for (text, expected) in [
            ("a  b\t c", Some("a b c")),
            ("a\n\n\n\nb  \n", Some("a\n\nb")),
            ("  - item\n      code", Some("- item\n      code")),
            ("plain", None),
            (
                "{ \"a b\" : [ 1,\n 2 ], \"c\\\" d\": \"x  y\" }",
                Some(r#"{"a b":[1,2],"c\" d":"x  y"}"#),
            ),
            ("[1, 2", None),
            ("{\"n\": 1e400}", Some("{\"n\":1e400}")),
        ] {
            assert_eq!(remove_whitespace(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn comment_lines_are_removed_and_code_stays() {
        let rust = "// a\nfn main() { // stays\n    /* b\n     * c */\n    let x = 1; /* d */\n}\n/* e */ let y = 2;";
        let bare = "fn main() { // stays\n    let x = 1; /* d */\n}\n/* e */ let y = 2;";
        assert_eq!(remove_comment_lines(rust, CommentSyntax::Slash).as_deref(), Some(bare));
        let shell = "#!/bin/sh\n# a\nls # b";
        assert_eq!(
            remove_comment_lines(shell, CommentSyntax::Hash).as_deref(),
            Some("#!/bin/sh\nls # b")
        );
        assert_eq!(remove_comment_lines("ls", CommentSyntax::Hash), None);
        for (name, expected) in [
            ("src/main.rs", Some(CommentSyntax::Slash)),
            ("python", Some(CommentSyntax::Hash)),
            ("README.md", None),
            ("", None),
        ] {
            assert_eq!(CommentSyntax::for_name(name), expected, "{name}");
        }
    }

    #[test]
    fn comments_are_removed_only_from_fences_with_a_language() {
        let text = "# Title\n```sh\n# a\nls\n```\n```\n# b\n```";
        assert_eq!(
            remove_fenced_comments(text).as_deref(),
            Some("# Title\n```sh\nls\n```\n```\n# b\n```")
        );
        assert_eq!(remove_fenced_comments("```sh\n# never closed"), None);
        assert_eq!(remove_fenced_comments("# Title"), None);
    }
}
