//! Formats plans and research steps for a reader. It must not print.

use serde_json::Value;

use super::{
    super::screen::Tone,
    item_text,
    paper::LineBuffer,
    print_items, print_unknown_members,
    words::{
        check_box, count_of, format_step_details, is_true, list_of, number_of, split_plan_step,
        text_of, with_note,
    },
};

pub(super) fn print_plan(value: &Value, paper: &mut LineBuffer) {
    let shown = list_of(value, "steps");
    let (done, total) = (number_of(value, "done"), number_of(value, "total"));
    let heading = match (done, total) {
        (Some(done), Some(total)) => format!("Plan ({done} of {total} done)"),
        _ => "Plan".to_owned(),
    };
    paper.push_heading(&heading);
    let current = text_of(value, "current");
    for step in shown {
        let (text, state) = split_plan_step(step);
        let is_current = !text.is_empty() && text == current;
        paper.push(Tone::Plain, &format!("  {} ", check_box(state, is_current)), text);
    }
    if !current.is_empty() && !shown.iter().any(|step| split_plan_step(step).0 == current) {
        paper.push(Tone::Plain, "  [>] ", current);
    }
    let hidden = total.unwrap_or_default().saturating_sub(shown.len() as u64);
    if hidden > 0 {
        paper.push_faint(&format!("{} not listed", count_of(hidden, "step")));
    }
}

/// Prints steps on one line each, or in full if they exceed a line.
pub(super) fn print_steps(heading: &str, value: &Value, paper: &mut LineBuffer) {
    let steps = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_line = |step: &&Value| step.is_string() || step.get("line").is_some();
    if steps.iter().any(|step| is_line(&step)) {
        paper.push_heading(heading);
    } else {
        paper.push_heading("Last steps");
    }
    let widest =
        steps.iter().filter_map(|step| number_of(step, "number")).max().unwrap_or_default();
    let digits = widest.to_string().len();
    for step in steps {
        match number_of(step, "number") {
            Some(number) if is_line(&step) => {
                let text = with_note(item_text(step), &format_step_details(step));
                paper.push(Tone::Plain, &format!("  {number:>digits$}  "), &text);
            }
            Some(_) => print_whole_step(step, paper),
            None => print_items(&Value::Array(vec![step.clone()]), paper),
        }
    }
}

/// Prints a step with its reasons.
fn print_whole_step(step: &Value, paper: &mut LineBuffer) {
    let number = number_of(step, "number").unwrap_or_default();
    let mut about: Vec<String> = vec![format_step_details(step)];
    about.extend(number_of(step, "position").map(|at| format!("position {at}")));
    about.push(paper.times.format_when(text_of(step, "at")));
    about.retain(|text| !text.is_empty());
    let cut = is_true(step, "truncated");
    about.extend(cut.then(|| "shortened".to_owned()));
    paper.push_text(&with_note(&format!("Step {number}"), &about.join(", ")));
    paper.push(Tone::Plain, "    ", text_of(step, "description"));
    let reasoning = text_of(step, "reasoning");
    if !reasoning.is_empty() {
        paper.push(Tone::Plain, "    Why: ", reasoning);
    }
    for rejected in list_of(step, "rejected").iter().filter_map(Value::as_str) {
        paper.push(Tone::Plain, "    Ruled out: ", rejected);
    }
}

pub(super) fn print_step_view(session: &str, view: &Value, paper: &mut LineBuffer) {
    let Some(step) = view.get("step") else {
        return print_unknown_members(view, &|_| false, paper);
    };
    print_whole_step(step, paper);
    let cursor = text_of(view, "next_cursor");
    if !cursor.is_empty() {
        let number = number_of(step, "number").unwrap_or_default();
        let branch = Some(text_of(step, "branch_id")).filter(|name| !name.is_empty());
        let branch = branch.map(|name| format!(" --branch {name}")).unwrap_or_default();
        paper.push_command(
            "  ",
            &format!("sessionlog view {session} step --step {number}{branch} --cursor {cursor}"),
        );
    }
}
