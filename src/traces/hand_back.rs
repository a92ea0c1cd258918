//! The report of a subagent, without the frame that Claude Code puts around it for its model. It
//! must not judge the report.

use std::borrow::Cow;

use crate::event::lists::phrase_list;

/// Beginning of the line that explains the report, and its end.
const FRAME: [&str; 2] = phrase_list("[Subagent hand-back]|The report follows:");
/// Beginning of the lines after a report, how to continue the subagent, and their end.
const FOOTER: [&str; 2] = phrase_list("agentId: |</usage>");
/// First line of the answer to a call that does not wait; the others are for the model.
const LAUNCHED: &str = "Async agent launched successfully.";
/// Spaces before each line of a report within a frame.
const INDENT: &str = "  ";

/// Returns the report in the result of a call that started a subagent; `None` for another text.
pub(crate) fn subagent_report(text: &str) -> Option<Cow<'_, str>> {
    if text.starts_with(LAUNCHED) {
        return Some(Cow::Borrowed(LAUNCHED));
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
            ("Async agent launched successfully.\nagentId: a\nDo NOT read", Some(LAUNCHED)),
            ("1 agentId: a", None),
            ("agentId: a\nof a file", None),
            ("[Subagent hand-back] quoted", None),
            ("", None),
        ] {
            assert_eq!(subagent_report(text).as_deref(), expected);
        }
    }
}
