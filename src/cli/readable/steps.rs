//! Formats plans and research steps for a reader. It must not print.

use serde_json::Value;

use super::{
    super::screen::Tone,
    items,
    paper::Paper,
    said, unknown,
    words::{about_step, figure, is_true, list, many, plan_step, tick, with_note, word},
};

pub(super) fn plan(value: &Value, paper: &mut Paper) {
    let shown = list(value, "steps");
    let (done, total) = (figure(value, "done"), figure(value, "total"));
    let heading = match (done, total) {
        (Some(done), Some(total)) => format!("Plan ({done} of {total} done)"),
        _ => "Plan".to_owned(),
    };
    paper.heading(&heading);
    let current = word(value, "current");
    for step in shown {
        let (text, state) = plan_step(step);
        let is_current = !text.is_empty() && text == current;
        paper.say(Tone::Plain, &format!("  {} ", tick(state, is_current)), text);
    }
    if !current.is_empty() && !shown.iter().any(|step| plan_step(step).0 == current) {
        paper.say(Tone::Plain, "  [>] ", current);
    }
    let hidden = total.unwrap_or_default().saturating_sub(shown.len() as u64);
    if hidden > 0 {
        paper.faint(&format!("{} not listed", many(hidden, "step")));
    }
}

/// Prints steps on one line each, or in full if they exceed a line.
pub(super) fn steps(heading: &str, value: &Value, paper: &mut Paper) {
    let steps = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_line = |step: &&Value| step.is_string() || step.get("line").is_some();
    if steps.iter().any(|step| is_line(&step)) {
        paper.heading(heading);
    } else {
        paper.heading("Last steps");
    }
    let widest = steps.iter().filter_map(|step| figure(step, "number")).max().unwrap_or_default();
    let digits = widest.to_string().len();
    for step in steps {
        match figure(step, "number") {
            Some(number) if is_line(&step) => {
                let text = with_note(said(step), &about_step(step));
                paper.say(Tone::Plain, &format!("  {number:>digits$}  "), &text);
            }
            Some(_) => print_whole_step(step, paper),
            None => items(&Value::Array(vec![step.clone()]), paper),
        }
    }
}

/// Prints a step with its reasons.
fn print_whole_step(step: &Value, paper: &mut Paper) {
    let number = figure(step, "number").unwrap_or_default();
    let mut about: Vec<String> = vec![about_step(step)];
    about.extend(figure(step, "position").map(|at| format!("position {at}")));
    about.push(paper.times.when(word(step, "at")));
    about.retain(|text| !text.is_empty());
    let cut = is_true(step, "truncated");
    about.extend(cut.then(|| "shortened".to_owned()));
    paper.text(&with_note(&format!("Step {number}"), &about.join(", ")));
    paper.say(Tone::Plain, "    ", word(step, "description"));
    let reasoning = word(step, "reasoning");
    if !reasoning.is_empty() {
        paper.say(Tone::Plain, "    Why: ", reasoning);
    }
    for rejected in list(step, "rejected").iter().filter_map(Value::as_str) {
        paper.say(Tone::Plain, "    Ruled out: ", rejected);
    }
}

/// Prints the view of one step.
pub(super) fn one_step(session: &str, view: &Value, paper: &mut Paper) {
    let Some(step) = view.get("step") else { return unknown(view, &|_| false, paper) };
    print_whole_step(step, paper);
    let cursor = word(view, "next_cursor");
    if !cursor.is_empty() {
        let number = figure(step, "number").unwrap_or_default();
        let branch = Some(word(step, "branch_id")).filter(|name| !name.is_empty());
        let branch = branch.map(|name| format!(" --branch {name}")).unwrap_or_default();
        paper.command(
            "  ",
            &format!("sessionlog view {session} step --step {number}{branch} --cursor {cursor}"),
        );
    }
}
