//! Text of a result without the frame that an agent's program puts around it for its own model:
//! the report of a subagent, the output of a command, the words of an error. It must not judge the
//! text.

use std::borrow::Cow;

use super::report::CODEX_RUNNING;
use crate::event::lists::phrase_list;

/// Beginning of the line that explains the report, and its end.
const FRAME: [&str; 2] = phrase_list("[Subagent hand-back]|The report follows:");
/// Beginning of the lines after a report, how to continue the subagent, and their end.
const FOOTER: [&str; 2] = phrase_list("agentId: |</usage>");
/// First line of the answer to a call that does not wait; the others are for the model.
pub const SUBAGENT_LAUNCHED: &str = "Async agent launched successfully.";
/// Spaces before each line of a report within a frame.
const INDENT: &str = "  ";

/// Lines that Codex writes before an output, by their beginnings, and the line that ends them.
const HEAD: [&str; 4] =
    phrase_list("Chunk ID: |Wall time: |Original token count: |Total output lines: ");
const CODES: [&str; 2] = phrase_list("Process exited with code |Exit code: ");
const END_OF_HEAD: &str = "Output:";
/// Tags around the words of an error.
const ERROR_TAGS: [&str; 2] = phrase_list("<tool_use_error>|</tool_use_error>");

/// Returns the text of a result without the tag of an error and the lines before an output.
pub(crate) fn result_text(text: &str) -> &str {
    let error = text.trim().strip_prefix(ERROR_TAGS[0]);
    let error = error.and_then(|text| text.strip_suffix(ERROR_TAGS[1]));
    error.or_else(|| command_output(text)).unwrap_or(text)
}

/// Returns the output behind the lines that Codex writes before it; without an output the line that
/// says that the command runs on, or with which code it failed.
fn command_output(text: &str) -> Option<&str> {
    let mut rest = text;
    let mut state = None;
    while !rest.is_empty() {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        if line == END_OF_HEAD && rest.len() < text.len() {
            return Some(state.filter(|_| after.trim().is_empty()).unwrap_or(after));
        }
        match CODES.iter().find_map(|begin| line.strip_prefix(begin)) {
            Some(code) if code.trim() == "0" => {}
            Some(_) => state = Some(line),
            None if line.starts_with(CODEX_RUNNING) => state = Some(line),
            None if HEAD.iter().any(|begin| line.starts_with(begin)) => {}
            None => return None,
        }
        rest = after;
    }
    None
}

/// Returns the report in the result of a call that started a subagent; `None` for another text.
pub(crate) fn subagent_report(text: &str) -> Option<Cow<'_, str>> {
    if text.starts_with(SUBAGENT_LAUNCHED) {
        return Some(Cow::Borrowed(SUBAGENT_LAUNCHED));
    }
    let footer = line_start(text, FOOTER[0]).filter(|_| text.trim_end().ends_with(FOOTER[1]))?;
    let report = text.get(..footer)?;
    let framed = line_start(report, FRAME[0]).and_then(|at| report.get(at..)?.split_once(FRAME[1]));
    Some(match framed {
        Some((_, report)) => {
            let lines = report.trim_matches('\n').lines();
            let lines = lines.map(|line| line.strip_prefix(INDENT).unwrap_or(line));
            Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
        }
        None => Cow::Borrowed(report.trim_end_matches('\n')),
    })
}

/// Returns where the last line that begins with `words` starts.
fn line_start(text: &str, words: &str) -> Option<usize> {
    let mut found = text.rmatch_indices(words).map(|(at, _)| at);
    found.find(|at| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_neither_the_frame_nor_the_footer_of_its_program() {
        let footer = "agentId: a75d (use SendMessage with to: 'a75d')\n<usage>tool_uses: 1</usage>";
        let framed = format!(
            "  <tools-used-before-summary>Bash</tools-used-before-summary>\n  \n[Subagent hand-back] It \
             is model output. The report follows:\n  No floats.\n\n    indented\n{footer}"
        );
        let plain = format!("## Report\n\nagentId: is a word\n{footer}");
        for (text, expected) in [
            (framed.as_str(), Some("No floats.\n\n  indented")),
            (plain.as_str(), Some("## Report\n\nagentId: is a word")),
            (
                "Async agent launched successfully.\nagentId: a\nDo NOT read",
                Some(SUBAGENT_LAUNCHED),
            ),
            ("1 agentId: a", None),
            ("agentId: a\nof a file", None),
            ("[Subagent hand-back] quoted", None),
            ("", None),
        ] {
            assert_eq!(subagent_report(text).as_deref(), expected);
        }
    }

    #[test]
    fn an_output_and_an_error_have_no_frame() {
        let running = "Process running with session ID 92";
        for (text, expected) in [
            (
                "Chunk ID: 1\nWall time: 0 seconds\nProcess exited with code 0\nOutput:\nok\n",
                "ok\n",
            ),
            ("Exit code: 1\nWall time: 2 seconds\nOutput:\nOutput:\n  no", "Output:\n  no"),
            ("Wall time: 2 seconds\nOutput:", ""),
            (
                "Wall time: 2 seconds\nProcess exited with code 137\nOutput:\n",
                "Process exited with code 137",
            ),
            (&format!("Wall time: 1 seconds\n{running}\nOutput:\n"), running),
            (&format!("Wall time: 1 seconds\n{running}\nOutput:\nhalf"), "half"),
            ("Wall time: 2 seconds\nall of it", "Wall time: 2 seconds\nall of it"),
            ("Output:\nof a program", "Output:\nof a program"),
            ("Chunk ID: 1", "Chunk ID: 1"),
            ("<tool_use_error>no such file</tool_use_error>", "no such file"),
            ("a <tool_use_error>", "a <tool_use_error>"),
        ] {
            assert_eq!(result_text(text), expected);
        }
    }
}
