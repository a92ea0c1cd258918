//! Parser of a user's answers to questions that an agent asked with a tool: they are instructions
//! of the user. It must not read any other tool's result.

use serde_json::Value;

use crate::event::json;

const TOOLS: [&str; 4] =
    ["AskUserQuestion", "ask_user_question", "request_user_input", "ask_followup_question"];

/// Parses the answered questions in a result, one line `question -> answer` each; `None` if there
/// are none, or for another tool.
pub(crate) fn parse_user_answers(tool: &str, result: &str) -> Option<String> {
    if !TOOLS.contains(&tool) {
        return None;
    }
    let pairs = json::check(result.trim()).and_then(|text| serde_json::from_str(text).ok());
    let pairs = pairs.as_ref().map_or_else(|| parse_text(result), parse_json);
    let answered = pairs.into_iter().filter(|(_, answer)| !answer.trim().is_empty());
    let lines: Vec<String> =
        answered.map(|(question, answer)| format!("{question} -> {answer}")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Parses a result in JSON: `answers` by question, each a text, a list, or `{answers: […]}`.
fn parse_json(result: &Value) -> Vec<(String, String)> {
    let Some(answers) = result.get("answers").and_then(Value::as_object) else { return Vec::new() };
    let pair = |(question, answer): (&String, &Value)| (question.clone(), answer_text(answer));
    answers.iter().map(pair).collect()
}

fn answer_text(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(answer_text).collect::<Vec<_>>().join(", "),
        Value::Object(members) => members.get("answers").map(answer_text).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Parses a result in plain text: `… "question"="answer", "question"="answer". …`.
fn parse_text(result: &str) -> Vec<(String, String)> {
    const ENDS: [&str; 3] = ["\", \"", "\". ", "\" "];
    let mut pairs = Vec::new();
    let mut rest = result;
    while let Some((before, after)) = rest.split_once("\"=\"") {
        let question = before.rsplit_once('"').map_or(before, |(_, question)| question);
        let ends = ENDS.iter().filter_map(|end| after.find(end));
        let end = ends.min().or_else(|| after.rfind('"')).unwrap_or(after.len());
        let (answer, next) = after.split_at(end);
        pairs.push((question.to_owned(), answer.to_owned()));
        rest = next.strip_prefix('"').unwrap_or(next);
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_parsed_in_each_format_and_only_for_tools_that_ask_the_user() {
        for (result, expected) in [
            (
                r#"{"questions":[{"header":"DB"}],"answers":{"Which?":"Postgres","Port?":"1"}}"#,
                "Port? -> 1\nWhich? -> Postgres",
            ),
            (r#"{"answers":{"q":{"answers":["a","b"]}}}"#, "q -> a, b"),
            (
                r#"User has answered: "Which?"="Postgres", "Port?"="5432". You can now go on."#,
                "Which? -> Postgres\nPort? -> 5432",
            ),
            (r#"User has answered your questions: "Which?"="Postgres""#, "Which? -> Postgres"),
            (r#"{"answers":{}}"#, ""),
            ("The user declined to answer", ""),
        ] {
            let found = parse_user_answers("AskUserQuestion", result).unwrap_or_default();
            let mut found: Vec<&str> = found.lines().collect();
            let mut expected: Vec<&str> = expected.lines().collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{result}");
            assert_eq!(parse_user_answers("Bash", result), None);
        }
    }
}
