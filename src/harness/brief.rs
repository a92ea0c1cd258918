//! The brief: selected items of a session as one Markdown text, for a model or a user without other
//! context. Every interface returns this text. An item costs the tokens of its line here, so that
//! the budget covers what is read. Recorded text cannot create a heading, section or item, or end a
//! code block. It must not choose: recipes and `select` do.

use std::{cell::RefCell, collections::HashMap, fmt::Write as _};

use super::{
    call_text::{COMMAND, format_call},
    client_summary::extract_sections,
    gather::{ANSWER_BYTES, GatheredItems, TEXT_BYTES},
    quote,
    render::{OmittedClass, format_list, format_outcome},
    select::{Class, Item, ItemForm, Price, Recipe, Selection, select},
    squeeze,
    summary::{BEGUN, Section, format_count},
    times::format_minute,
    tokens::{Counter, Tokenizer},
};
use crate::{
    event::{Position, text::one_line},
    projection::{CommandFact, EffectFact, Facts, FileFact, FileState, FindingSource, is_done},
};

/// Most attempts to get close to the budget, and the percentage of it that is close.
const ATTEMPTS_MAX: usize = 6;
const CLOSE_PERCENT: usize = 97;
/// Most characters of a command that changed something or failed.
const COMMAND_CHARS_MAX: usize = 160;
/// Most characters of the path of a file that changed after the tests.
const PATH_CHARS_MAX: usize = 80;
/// Most characters of a workspace's name.
const WORKSPACE_CHARS_MAX: usize = 120;
/// Most characters of a branch's name.
const BRANCH_CHARS_MAX: usize = 60;

/// Sections of the text, in reading order.
const PARTS: [Section; 23] = [
    Section::with_text("Task", &[Class::Task]),
    Section::with_text("Goal", &[Class::Goal]),
    Section::with_list(
        "Your user also said (oldest first; these hold)",
        &[Class::OlderInstruction, Class::Instruction],
    ),
    Section::with_text("Where the work stood, in the words of that session", &[Class::Summary]),
    Section::with_text("The conversation before, as its client summed it up", &[Class::Context]),
    Section::with_list("Plan", &[Class::Plan, Class::PlanDone]),
    Section::with_list("Next", &[Class::Next]),
    Section::with_text("State", &[Class::State]),
    Section::with_list("Still failing", &[Class::Failure]),
    Section::with_list("Failed before, works now", &[Class::Mended]),
    Section::with_list("Changed", &[Class::File, Class::Change]),
    Section::with_list("Saved", &[Class::ContextItem]),
    Section::with_list("Files that were named", &[Class::Reference]),
    Section::with_list("Open questions", &[Class::Gap]),
    Section::with_list("Did not work", &[Class::Failed]),
    Section::with_list("Ruled out", &[Class::Rejection]),
    Section::with_list("Done", &[Class::Done]),
    Section::with_list("Tried", &[Class::Tried]),
    Section::with_list("Known", &[Class::Finding]),
    Section::with_list("Steps of the research", &[Class::Branch, Class::StepLine, Class::LastStep]),
    Section::with_list("Sources", &[Class::Source]),
    Section::with_list("Last, oldest first", &[Class::Answer, Class::Result]),
    Section::with_list(BEGUN, &[Class::Begun]),
];

/// Function for the tokens of an item that is a separate member; `None` for one in the text.
pub(super) type SeparateCost<'k> = &'k dyn Fn(&Item, ItemForm) -> Option<usize>;

/// Renderer of a session's facts as a brief.
pub(super) struct Brief<'k, 'f> {
    pub(super) known: &'k GatheredItems<'f>,
    pub(super) tokenizer: Tokenizer,
    /// First lines of the text.
    pub(super) head: String,
    /// True if the head lists the earlier sessions of the chain: positions in them are shown.
    pub(super) names_earlier: bool,
    /// True if texts are shown in full or not at all.
    pub(super) is_whole: bool,
    /// Cost of a class that is a separate member and not a part of the text.
    pub(super) separate_cost: Option<SeparateCost<'k>>,
    memo: RefCell<HashMap<(Class, usize, ItemForm), usize>>,
}

/// A text within its budget.
pub(super) struct BriefText {
    pub(super) chosen: Selection,
    pub(super) left_out: Vec<OmittedClass>,
    pub(super) text: String,
    /// Number of tokens of the text and of the separate members.
    pub(super) tokens: usize,
}

impl<'k, 'f> Brief<'k, 'f> {
    pub(super) fn new(known: &'k GatheredItems<'f>, tokenizer: Tokenizer, head: String) -> Self {
        let memo = RefCell::default();
        Self {
            known,
            tokenizer,
            head,
            names_earlier: false,
            is_whole: false,
            separate_cost: None,
            memo,
        }
    }

    /// Selects items by a recipe and writes them, within a token budget of which `spent` is used
    /// already. If everything fits, the rest of the budget is used for longer results.
    pub(super) fn make(&self, recipe: &Recipe<'_>, tokens_max: usize, spent: usize) -> BriefText {
        let mut made = self.make_once(recipe, tokens_max, spent);
        for _ in 0..ATTEMPTS_MAX {
            let is_all = made.left_out.is_empty() && !made.chosen.is_cut;
            let is_spent = made.tokens * 100 >= tokens_max * CLOSE_PERCENT;
            if !is_all || is_spent || !self.known.has_cut_results(&made.chosen) {
                break;
            }
            let bytes = self.known.result_bytes.replace(2 * self.known.result_bytes.get());
            self.memo.borrow_mut().clear();
            let more = self.make_once(recipe, tokens_max, spent);
            let is_more = more.tokens > made.tokens && more.tokens <= tokens_max;
            if !is_more || !more.left_out.is_empty() || more.chosen.is_cut {
                self.known.result_bytes.set(bytes);
                break;
            }
            made = more;
        }
        made
    }

    /// Makes one brief with the current size of results.
    fn make_once(&self, recipe: &Recipe<'_>, tokens_max: usize, spent: usize) -> BriefText {
        let items = &self.known.items;
        let is_there =
            |part: &&Section| items.iter().any(|item| part.classes.contains(&item.class));
        let headings =
            PARTS.iter().filter(is_there).map(|part| 3 + self.count_tokens(part.heading));
        let frame = spent + self.count_tokens(&self.head) + headings.sum::<usize>();
        let mut budget = tokens_max.saturating_sub(frame);
        let mut best: Option<BriefText> = None;
        for attempt in 1.. {
            let mut price = self;
            let chosen = select(items, recipe, budget, &mut price);
            let left_out = self.known.left_out_classes(&chosen, recipe);
            let text = self.write_text(&chosen, &left_out);
            let of_members =
                chosen.chosen.iter().filter_map(|one| self.member_cost(&one.item, one.form));
            let tokens = spent + self.count_tokens(&text) + of_members.sum::<usize>();
            let is_all = left_out.is_empty() && !chosen.is_cut;
            let made = BriefText { chosen, left_out, text, tokens };
            if tokens > tokens_max {
                let over = tokens - tokens_max;
                let is_last = budget == 0 || best.is_none() && attempt > 2 * ATTEMPTS_MAX;
                budget = budget.saturating_sub(if attempt > 2 { over + budget / 8 } else { over });
                match best {
                    Some(best) if attempt >= ATTEMPTS_MAX => return best,
                    None if is_last => return made,
                    _ => continue,
                }
            }
            let is_close = is_all || tokens * 100 >= tokens_max * CLOSE_PERCENT;
            let is_better = best.as_ref().is_none_or(|best| best.tokens < tokens);
            if is_close || attempt >= ATTEMPTS_MAX || !is_better {
                return if is_better { made } else { best.unwrap_or(made) };
            }
            budget += tokens_max - tokens;
            best = Some(made);
        }
        unreachable!("an attempt is the last")
    }

    fn count_tokens(&self, text: &str) -> usize {
        self.tokenizer.count(text)
    }

    /// Returns the cost of an item that is a separate member.
    fn member_cost(&self, item: &Item, form: ItemForm) -> Option<usize> {
        self.separate_cost.and_then(|separate_cost| separate_cost(item, self.effective_form(form)))
    }

    /// Returns the form in which a selected item is written.
    pub(super) fn effective_form(&self, form: ItemForm) -> ItemForm {
        if self.is_whole { ItemForm::Whole } else { form }
    }

    fn item_cost(&self, item: &Item, form: ItemForm) -> usize {
        let form = self.effective_form(form);
        let key = (item.class, item.index, form);
        if let Some(known) = self.memo.borrow().get(&key) {
            return *known;
        }
        let cost = self.member_cost(item, form).unwrap_or_else(|| {
            // Two tokens for the item's mark and its line end.
            2 + self.count_tokens(&self.format_line(item.class, item.index, form))
        });
        self.memo.borrow_mut().insert(key, cost);
        cost
    }

    /// Returns the line of an item without its mark; further lines are indented.
    pub(super) fn format_line(&self, class: Class, index: usize, form: ItemForm) -> String {
        let (known, form) = (self.known, self.effective_form(form));
        let facts = known.facts;
        let said = match class {
            Class::Task
            | Class::Goal
            | Class::Summary
            | Class::Instruction
            | Class::OlderInstruction => self.quote_text(class, index, form),
            Class::Answer => {
                let quote = known.quote_item(class, index, form);
                quote.map(|quote| format!("agent: {}", quote.text)).unwrap_or_default()
            }
            Class::Plan | Class::PlanDone => return self.format_plan_step(index, form),
            Class::State => return format_state(facts),
            Class::LastStep => self.format_step(index, form),
            Class::Result => return self.format_result(index, form),
            Class::Context => {
                let said = known.client_summary();
                said.map(|(text, _)| self.shorten_summary(text, form)).unwrap_or_default()
            }
            Class::ContextItem => {
                let item = facts.saved.items().get(index);
                let content = item.map(|one| self.squeeze_text(&one.content, &one.category, form));
                let name = item.and_then(|one| one.name.as_deref());
                let name = name.map(|name| format!("{}: ", one_line(name, 80))).unwrap_or_default();
                name + &content.unwrap_or_default()
            }
            Class::Reference => {
                let file = facts.saved.files().get(index);
                file.map(|file| file.path.to_string()).unwrap_or_default()
            }
            Class::File => facts.work.files().nth(index).map(format_file).unwrap_or_default(),
            Class::Change => {
                let change = facts.work.effects().nth(index);
                change.map(|change| self.format_change(change, form)).unwrap_or_default()
            }
            Class::Failure => {
                let failing = facts.work.failing_commands().nth(index);
                let line = failing.map(|one| {
                    let line = one_line(&one.line, COMMAND_CHARS_MAX);
                    let error = known.shorten_to_form(&one.error, form, TEXT_BYTES).text;
                    let error = if error.is_empty() { "failed".to_owned() } else { error };
                    let times = match one.failures {
                        0 | 1 => String::new(),
                        times => format!(" ({times} times)"),
                    };
                    format!("{}{line} -> {error}{times}", prompt_of(one))
                });
                line.unwrap_or_default()
            }
            Class::Mended => {
                let prompt = facts.work.resolved_commands().nth(index).map_or(COMMAND, prompt_of);
                format!("{prompt}{}", known.format_line(class, index, form))
            }
            Class::Finding => match facts.findings.sentences().get(index) {
                Some(one) if matches!(one.source, FindingSource::At(_)) => one.text.to_string(),
                _ => known.format_line(class, index, form),
            },
            Class::Branch => format!("branch {}", known.format_line(class, index, form)),
            _ => known.format_line(class, index, form),
        };
        quote::escape_item(&said)
    }

    /// Returns the text of a user or caller; a cut text shows its position.
    fn quote_text(&self, class: Class, index: usize, form: ItemForm) -> String {
        let Some(quote) = self.known.quote_item(class, index, form) else { return String::new() };
        // The position allows a look-up of the rest, or of an earlier session that the head lists.
        let is_earlier = |at: &Position| {
            self.names_earlier && self.known.facts.to_session_position(*at).0.is_some()
        };
        let at = quote.position.filter(|at| quote.truncated || is_earlier(at));
        let at = at.map(|at| format!(" ({})", self.known.format_position(at))).unwrap_or_default();
        let count = self.known.facts.progress.instructions().recent_instructions().count();
        let is_latest = class == Class::Instruction && index + 1 == count;
        let latest = if is_latest { " <- the latest request" } else { "" };
        format!("{}{at}{latest}", quote.text)
    }

    fn format_plan_step(&self, index: usize, form: ItemForm) -> String {
        let Some(step) = self.known.plan_step(index, form) else { return String::new() };
        let mark = if is_done(&step) { "[x]" } else { "[ ]" };
        let state = match step.state.as_str() {
            "" | "pending" | "open" | "todo" => String::new(),
            _ if is_done(&step) => String::new(),
            state => format!(" ({})", one_line(state, 40).replace('_', " ")),
        };
        quote::with_label(mark, &quote::escape_item(&step.text)) + &state
    }

    fn format_step(&self, index: usize, form: ItemForm) -> String {
        let Some(step) = self.known.last_step(index, form) else { return String::new() };
        let mut text = format!("[{}", step.number);
        if let Some(branch) = &step.branch_id {
            let _ = write!(text, "@{branch}");
        }
        let _ = write!(text, "] {}", step.description);
        if let Some(reasoning) = &step.reasoning {
            let _ = write!(text, " Because: {reasoning}");
        }
        if !step.rejected.is_empty() {
            let _ = write!(text, " Ruled out: {}", step.rejected.join("; "));
        }
        text
    }

    /// Returns a call and its result; several lines become a code block. The result of a file that
    /// was changed later is omitted.
    fn format_result(&self, index: usize, form: ItemForm) -> String {
        let Some((one, _)) = self.known.tool_result(index, form) else { return String::new() };
        let ended = match self.known.call_status(index) {
            "" => String::new(),
            ended => format!(" {ended}:"),
        };
        let changed = one.changed_at.map_or("", |_| " (the file changed since)");
        let call = self.format_call(&one.tool, &one.input);
        if one.changed_at.is_some() && !call.starts_with(COMMAND) {
            // The old content of a changed file is no longer valid.
            return String::new();
        }
        let text = one.text.trim_end();
        if text.contains('\n') {
            let block = quote::code_block(text).replace('\n', "\n  ");
            return format!("{call} ->{ended}{changed}\n  {block}");
        }
        let text = if text.is_empty() { "(nothing)" } else { text.trim() };
        format!("{call} ->{ended} {}{changed}", quote::escape_item(text))
    }

    /// Returns a call in one line; paths in the workspace are relative.
    fn format_call(&self, tool: &str, input: &str) -> String {
        let call = one_line(&format_call(tool, input), usize::MAX);
        quote::escape_item(&make_paths_relative(
            &call,
            self.known.facts.workspace().unwrap_or_default(),
        ))
    }

    fn format_change(&self, one: &EffectFact, form: ItemForm) -> String {
        // A command's output is less informative than a service's response.
        let is_command = !one.input.starts_with('{') && &*one.tool != "git";
        let result = match form {
            _ if is_command => one_line(&one.result, 100),
            ItemForm::Line => one_line(&one.result, 120),
            _ => one.result.to_string(),
        };
        let outcome = format_outcome(one, &result, ": ");
        let call = format_call(&one.tool, &one.input);
        // The ids and amounts that a service received must not be cut.
        let call = if is_command { one_line(&call, COMMAND_CHARS_MAX) } else { call };
        format!("{call}{outcome}")
    }

    /// Shortens the client's summary of the conversation; requirements stay.
    fn shorten_summary(&self, text: &str, form: ItemForm) -> String {
        let bytes = match form {
            ItemForm::Line | ItemForm::Short => ANSWER_BYTES,
            ItemForm::Part(bytes) => ANSWER_BYTES.max(bytes as usize),
            _ => return self.squeeze_text(&extract_sections(text, usize::MAX), "", form),
        };
        let text = extract_sections(text, bytes);
        let text = squeeze::remove_whitespace(&text).unwrap_or(text);
        self.known.shorten_user_text(&text, form, ANSWER_BYTES).text
    }

    /// Returns a saved text in a form.
    fn squeeze_text(&self, text: &str, category: &str, form: ItemForm) -> String {
        let bytes = if category.is_empty() { ANSWER_BYTES } else { TEXT_BYTES };
        let squeezed =
            |text: &str| squeeze::remove_whitespace(text).unwrap_or_else(|| text.to_owned());
        match form {
            ItemForm::Whole => text.to_owned(),
            ItemForm::Squeezed => squeezed(text),
            // Shorter forms are cut from the squeezed text.
            ItemForm::Line | ItemForm::Short | ItemForm::Part(_) | ItemForm::Bare => {
                let bare = match category {
                    "code" => squeeze::remove_guessed_comments(text),
                    _ => squeeze::remove_fenced_comments(text),
                };
                let text = squeezed(bare.as_deref().unwrap_or(text));
                self.known.shorten_to_form(&text, form, bytes).text
            }
        }
    }

    /// Returns the content of a context item in a form, for a separate member.
    pub(super) fn item_content(&self, index: usize, form: ItemForm) -> String {
        let item = self.known.facts.saved.items().get(index);
        let text = item
            .map(|one| self.squeeze_text(&one.content, &one.category, self.effective_form(form)));
        text.unwrap_or_default()
    }

    pub(super) fn write_text(&self, chosen: &Selection, left_out: &[OmittedClass]) -> String {
        let mut text = self.head.clone();
        for part in &PARTS {
            let mut lines = self.section_lines(part, chosen);
            let Some(first) = lines.first() else { continue };
            if !part.is_list {
                let label = format!("**{}.**", part.heading);
                let _ = write!(text, "\n\n{}", quote::with_label(&label, first));
                continue;
            }
            let plan = part.classes.contains(&Class::Plan);
            let plan = plan.then(|| self.known.plan_view(chosen)).flatten();
            let heading = plan.map_or_else(
                || part.heading.to_owned(),
                |plan| format!("Plan, {} of {} done", plan.done, plan.total),
            );
            // A list mark without text would turn the line above into a heading.
            let empty = lines.iter_mut().filter(|line| line.trim().is_empty());
            empty.for_each(|line| "(empty)".clone_into(line));
            let _ = write!(text, "\n\n{}", format_list(&heading, &lines).trim_end_matches('\n'));
        }
        self.append_session_names(&mut text);
        if !left_out.is_empty() {
            let count = |one: &OmittedClass| match one.count {
                1 => match one.class.strip_suffix("ches") {
                    Some(begin) => format!("1 {begin}ch"),
                    None => format!("1 {}", one.class.trim_end_matches('s')),
                },
                count => format!("{count} {}", one.class),
            };
            let parts: Vec<String> = left_out.iter().map(count).collect();
            let _ = write!(text, "\n\nNot shown: {}.", parts.join(", "));
        }
        text.push('\n');
        text
    }

    /// Appends which session `S1` is, if the text contains a position of it.
    fn append_session_names(&self, text: &mut String) {
        if self.names_earlier {
            return;
        }
        let earlier = self.known.facts.earlier_sessions();
        let is_named = |(number, _): &(usize, &str)| text.contains(&format!("(S{number}@"));
        let named = format_sessions(earlier.filter(is_named));
        if !named.is_empty() {
            let _ = write!(text, "\n\nS1@n is position n of S1; {named}.");
        }
    }

    /// Returns the lines of a section, in reading order.
    fn section_lines(&self, part: &Section, chosen: &Selection) -> Vec<String> {
        let in_text = |class: Class, index: usize| {
            let is_it = |item: &&Item| (item.class, item.index) == (class, index);
            let item = self.known.items.iter().find(is_it);
            item.is_none_or(|item| self.member_cost(item, ItemForm::Line).is_none())
        };
        let mut all: Vec<(Class, usize, ItemForm)> = Vec::new();
        for class in part.classes {
            let of_class = self.known.selected_in_order(chosen, *class).into_iter();
            let of_class = of_class.filter(|(index, _)| in_text(*class, *index));
            all.extend(of_class.map(|(index, form)| (*class, index, form)));
        }
        match part.classes {
            [Class::Plan, ..] => all.sort_by_key(|(_, index, _)| *index),
            [Class::Answer, ..] => all.sort_by_key(|(class, index, _)| {
                let items = self.known.items.iter();
                let item = items.filter(|item| (item.class, item.index) == (*class, *index));
                item.map(|item| item.position).next()
            }),
            _ => {}
        }
        let (files, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(class, ..)| *class == Class::File);
        let line =
            |(class, index, form): (Class, usize, ItemForm)| self.format_line(class, index, form);
        let files: Vec<String> = files.into_iter().map(line).collect();
        let files = (!files.is_empty()).then(|| format!("files: {}", files.join(", ")));
        let is_gone =
            |one: &(Class, usize, ItemForm), line: &str| one.0 == Class::Result && line.is_empty();
        let others = others.into_iter().map(|one| (one, line(one)));
        let others = others.filter(|(one, line)| !is_gone(one, line)).map(|(_, line)| line);
        files.into_iter().chain(others).collect()
    }
}

impl Price for &Brief<'_, '_> {
    fn price(&mut self, item: &Item, form: ItemForm) -> usize {
        self.item_cost(item, form)
    }
}

/// Returns the latest passed tests and the latest commit in one line.
fn format_state(facts: &Facts) -> String {
    let work = &facts.work;
    let passed = work.latest_passed_run().map(|passed| {
        let tests = passed.tests.map(|tests| format!(" ({})", format_count(tests, "test")));
        let tests = tests.unwrap_or_default();
        let changed: Vec<_> = work.files().filter(|file| file.last > passed.position).collect();
        let before = changed.last().map_or_else(String::new, |last| {
            let path = quote::escape_inline(&one_line(&last.path, PATH_CHARS_MAX));
            match changed.len() {
                1 => format!(", run before {path} changed"),
                files => format!(", run before {path} and {} more changed", files - 1),
            }
        });
        let line = quote::escape_item(&one_line(&passed.line, COMMAND_CHARS_MAX));
        format!("{COMMAND}{line} passes{tests}{before}")
    });
    let commit = work.commit().map(|commit| {
        let pushed = if commit.is_pushed { "pushed" } else { "no push since" };
        format!("committed {} on {}, {pushed}", commit.hash, quote::escape_inline(&commit.branch))
    });
    passed.into_iter().chain(commit).collect::<Vec<_>>().join(" \u{00B7} ")
}

/// Makes the paths below a directory relative to it.
fn make_paths_relative(call: &str, root: &str) -> String {
    let root = format!("{}/", root.trim_end_matches('/'));
    let (mut made, mut rest) = (String::with_capacity(call.len()), call);
    while let Some(at) = rest.find(&root).filter(|_| root.len() > 1) {
        let (before, path) = rest.split_at(at);
        made.push_str(before);
        let is_path = before.ends_with([' ', '=', '"', '\'']);
        rest = path.get(root.len()..).unwrap_or_default();
        if !is_path || rest.is_empty() || rest.starts_with(' ') {
            made.push_str(&root);
        }
    }
    made + rest
}

/// Returns a changed file's path, and its state if the change was undone.
fn format_file(file: &FileFact) -> String {
    let path = one_line(&file.path, usize::MAX);
    match file.state {
        FileState::Changed => path,
        state => format!("{path} ({})", state.as_str()),
    }
}

/// Lists the sessions by the numbers that positions in a text use.
pub(super) fn format_sessions<'a>(earlier: impl Iterator<Item = (usize, &'a str)>) -> String {
    let named = earlier.map(|(number, session)| format!("S{number} is session {session}"));
    named.collect::<Vec<_>>().join(", ")
}

/// Returns the first line of a brief: session, workspace, git branch and time.
#[must_use]
pub(super) fn format_heading(facts: &Facts, session: &str, workspace: Option<&str>) -> String {
    let (events, last) = (facts.next_position().0, facts.times.range().map(|(_, last)| last));
    let workspace = workspace.or(facts.workspace());
    let workspace = workspace.map(|name| format!(", {}", one_line(name, WORKSPACE_CHARS_MAX)));
    let last = last.map(|at| format!(", last worked on {}", format_minute(at)));
    let branch = facts.work.branch();
    let branch = branch.map(|(name, _)| format!(" on branch {}", one_line(name, BRANCH_CHARS_MAX)));
    let which = format!(
        "session {session}{}{}, {events} events{}",
        workspace.unwrap_or_default(),
        branch.unwrap_or_default(),
        last.unwrap_or_default()
    );
    format!("# Where the work stands ({})", quote::escape_inline(&which).replace('\\', ""))
}

/// Returns the mark of a shell's command; empty for another tool.
fn prompt_of(fact: &CommandFact) -> &'static str {
    if fact.is_command() { COMMAND } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_below_the_workspace_becomes_relative() {
        for (call, expected) in [
            ("Read /p/src/a.rs", "Read src/a.rs"),
            ("$ cp /p/a.rs '/p/b c.rs' -o=/p/d", "$ cp a.rs 'b c.rs' -o=d"),
            ("$ ls /mnt/p/a.rs /p/ && cd /p", "$ ls /mnt/p/a.rs /p/ && cd /p"),
            ("$ cat /pp/a.rs", "$ cat /pp/a.rs"),
        ] {
            assert_eq!(make_paths_relative(call, "/p"), expected, "{call}");
        }
        assert_eq!(make_paths_relative("$ ls /a", ""), "$ ls /a");
    }
}
