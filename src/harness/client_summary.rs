//! Parser of the summary that a model writes before an agent's program compacts the context: an
//! analysis, then numbered sections (the format of Claude Code, 2.1). It removes the analysis, and
//! from a summary that is too long the least needed sections. It must not change any other text.

/// Lines before the analysis and before the sections.
const ANALYSIS: &str = "\nAnalysis:\n";
const BEGIN: &str = "\nSummary:\n";
/// Title prefixes of the sections that are removed first: their content is in files, or obsolete.
const SPARED: [&str; 4] = ["Files and Code", "Key Technical Concepts", "Errors and", "Problem Sol"];

/// Returns the sections of a summary; dispensable ones are removed while it is larger than
/// `bytes_max`.
#[must_use]
pub(super) fn extract_sections(text: &str, bytes_max: usize) -> String {
    let parts = text.split_once(ANALYSIS).and_then(|(_, rest)| rest.split_once(BEGIN));
    let Some((_, summary)) = parts.filter(|(_, summary)| parse_title(summary).is_some()) else {
        return text.to_owned();
    };
    let mut sections: Vec<&str> = Vec::new();
    let mut begin = 0;
    for (at, _) in summary.match_indices('\n') {
        if parse_title(summary.get(at + 1..).unwrap_or_default()).is_some() {
            sections.push(summary.get(begin..=at).unwrap_or_default());
            begin = at + 1;
        }
    }
    sections.push(summary.get(begin..).unwrap_or_default());
    for spared in SPARED {
        if sections.iter().map(|one| one.len()).sum::<usize>() > bytes_max {
            sections.retain(|one| !parse_title(one).is_some_and(|title| title.starts_with(spared)));
        }
    }
    sections.concat()
}

/// Returns the title with which a section begins: `6. All user messages:`.
fn parse_title(text: &str) -> Option<&str> {
    let (number, rest) = text.split_once(". ")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && rest.starts_with(char::is_uppercase)).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_summary_loses_its_analysis_and_dispensable_sections() {
        let code = "fn a() {}\n".repeat(30);
        let text = format!(
            "This session continues.\n\nAnalysis:\n1. **Start**: we began.\n\nSummary:\n\
             1. Primary Request:\n   Mend it.\n\n2. Key Technical Concepts:\n   - Rust\n\n\
             3. Files and Code Sections:\n{code}\n6. All user messages:\n   - \"never touch core\"\n"
        );
        let whole = extract_sections(&text, 10_000);
        assert!(whole.starts_with("1. Primary Request") && whole.contains(&code), "{whole}");
        assert!(!whole.contains("Analysis") && !whole.contains("we began"), "{whole}");
        let short = extract_sections(&text, 150);
        assert!(short.contains("never touch core") && short.contains("- Rust"), "{short}");
        assert!(!short.contains("fn a()"), "{short}");
        let saved = "We met.\nSummary:\n1. Rain fell.";
        let free = "We met.\nAnalysis:\nnone\nSummary:\nIt rained.";
        for other in ["Summary of the day: 1. Rain", saved, free, ""] {
            assert_eq!(extract_sections(other, 3), other);
        }
    }
}
