//! What a session hands to the one that continues it: a text, context items, files and the state of
//! the workspace, together within one budget of tokens. A recipe over [`select`]. It must not give
//! one thing twice, or state as current what was taken back.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use super::{
    gather::{ANSWER_BYTES, Known, TEXT_BYTES, is_same_file},
    priority::{Parts, importance, judged},
    quote,
    render::{LeftOut, Why},
    select::{
        By, Chosen, Class, Form, Item, MARK_MAX, Price, Recipe, Row, Selection, Share, row, select,
        shape,
    },
    squeeze,
    tokens::{Counter, Tokenizer},
};
use crate::{
    event::{EventId, Position, pace},
    projection::{Facts, FileReference, FileState, text::one_line},
};

/// Default tokens of what is handed over.
pub const RESTORE_TOKENS: usize = 4_000;
/// The least it is built for.
pub const RESTORE_TOKENS_MIN: usize = 600;
/// The most it is built for.
pub const RESTORE_TOKENS_MAX: usize = 200_000;
/// The least priority of a context item, by default.
pub const PRIORITY_THRESHOLD: u8 = 3;
/// How many context items are given, by default.
pub const CONTEXT_ITEMS_MAX: usize = 50;

/// Steps that it takes to compare an item with what is wanted.
const COMPARE_STEPS: usize = 16;
/// Tokens of the names, numbers and marks that every answer has.
const FRAME_TOKENS: usize = 270;
/// Tokens of a heading, and of the count of the items of a class that are left out.
const CLASS_TOKENS: usize = 18;
/// Tokens around a line of the text; of the names and numbers of a context item and of a file,
/// beside their texts; and of the name of a text that not every file has.
const LINE_TOKENS: usize = 3;
const ITEM_TOKENS: usize = 36;
const FILE_TOKENS: usize = 26;
const NAME_TOKENS: usize = 6;
/// Tokens of how alike a context item is to what is asked.
const SIMILARITY_TOKENS: usize = 10;
/// Most of the budget that the state of the workspace may have: a quarter.
const STATE_PART: usize = 4;
/// Upper bound of the bytes of a token: bounds how many items are offered.
const TOKEN_BYTES: usize = 4;
/// Characters of the name of a workspace.
const WORKSPACE_CHARS_MAX: usize = 120;
/// Sessions before it that are named.
const EARLIER_MAX: usize = 12;
/// Attempts to come below the budget.
const ATTEMPTS_MAX: usize = 4;

/// What is asked of a session.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Tokens of all that is given.
    pub tokens_max: usize,
    /// The least priority of a context item, from 0 to 10.
    pub threshold: u8,
    /// How many context items are given at most.
    pub items_max: usize,
    /// Whether texts may be shortened.
    pub compress: bool,
    /// By what the items are ordered.
    pub by: By,
    /// Which session it is.
    pub session: String,
    /// Its workspace.
    pub workspace: String,
    /// Whether to say why each item was chosen.
    pub explain: bool,
    /// Whether the work continues where this is given.
    pub continues: bool,
}

/// A context item as it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenItem {
    /// Id of its event.
    pub id: EventId,
    /// The client's name for it.
    pub name: Option<String>,
    /// Its category.
    pub category: String,
    /// What it says, in its form.
    pub content: String,
    /// In which form.
    pub form: Form,
    /// The importance that the client gave it, or a higher mark.
    pub importance: Option<u8>,
    /// What its priority is made of.
    pub parts: Parts,
    /// How alike it is to what is asked, from 0 to 1 000, where the items are ordered by that.
    pub similarity: Option<usize>,
    /// Its tokens.
    pub tokens: usize,
}

/// A file as it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenFile {
    /// Its path.
    pub path: String,
    /// What was saved of it.
    pub hash: Option<String>,
    /// When it was changed last, as it was given.
    pub modified_at: Option<String>,
    /// What the session did to it, and where; `None` of one that was only named.
    pub change: Option<(FileState, Position)>,
    /// Where it was named or changed last.
    pub position: Position,
}

/// How much of what a session holds is given: the classes of `HELD`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preserved {
    /// Items that stand.
    pub held: u64,
    /// Those that are given, in whichever form.
    pub told: u64,
    /// The mean part of the text of each that is given, in percent; rounded down.
    pub percent: u64,
}

/// A share of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Its name.
    pub name: &'static str,
    /// Its part of the budget, in percent.
    pub percent: usize,
    /// What its classes took.
    pub tokens: usize,
}

/// An item that was chosen, for the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its class, and its place in the session or its list.
    pub id: String,
    /// Its score; 0 for an indispensable one.
    pub score: u64,
    /// In which form.
    pub form: Form,
}

/// What is handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// The text.
    pub context: String,
    /// Context items, the ones that matter most first.
    pub items: Vec<GivenItem>,
    /// Files, the one named or changed last first.
    pub files: Vec<GivenFile>,
    /// The state of the workspace: JSON.
    pub state: Option<String>,
    /// What was chosen, in the order of choice.
    pub chosen: Vec<Taken>,
    /// The shares of the budget.
    pub shares: Vec<Spent>,
    /// Items left out, by class.
    pub left_out: Vec<LeftOut>,
    /// Why each item was chosen.
    pub why: Vec<Why>,
    /// How much of the session is in it.
    pub preserved: Preserved,
    /// The cost, at most.
    pub tokens: usize,
    /// The budget.
    pub tokens_max: usize,
}

/// What a session holds that the one which continues it must know: of these the preservation is
/// measured.
const HELD: [Class; 10] = [
    Class::Task,
    Class::Goal,
    Class::Instruction,
    Class::OlderInstruction,
    Class::ContextItem,
    Class::Rejection,
    Class::Failure,
    Class::Gap,
    Class::Plan,
    Class::PlanDone,
];

/// Classes by what they are about.
const CODE: &[Class] = &[
    Class::ContextItem,
    Class::Change,
    Class::File,
    Class::Reference,
    Class::Failure,
    Class::Mended,
    Class::Result,
];
const TALK: &[Class] = &[
    Class::Context,
    Class::Answer,
    Class::Finding,
    Class::Gap,
    Class::Rejection,
    Class::Done,
    Class::Tried,
    Class::Failed,
    Class::OlderInstruction,
    Class::StepLine,
    Class::Branch,
];
const ABOUT: &[Class] = &[Class::Source, Class::PlanDone];
/// The classes of code, as a session without code shares them out.
const CODE_AS_TALK: &[Class] = &[Class::ContextItem, Class::Result, Class::Change];
const CODE_AS_ABOUT: &[Class] = &[Class::File, Class::Reference, Class::Failure, Class::Mended];

/// The shares of a session with code, and of one without.
const SHARES_CODE: &[Share] = &[
    Share { name: "code", classes: &[CODE], percent: 60 },
    Share { name: "conversation", classes: &[TALK], percent: 30 },
    Share { name: "metadata", classes: &[ABOUT], percent: 10 },
];
const SHARES_TALK: &[Share] = &[
    Share { name: "conversation", classes: &[TALK, CODE_AS_TALK], percent: 70 },
    Share { name: "metadata", classes: &[ABOUT, CODE_AS_ABOUT], percent: 30 },
];

/// The recipe: the indispensable in this order, then the rest by weight and worth.
const ROWS: [Row; 27] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 5, 1_200),
    row(Class::Plan, 40, 800),
    row(Class::Instruction, 64, 1_500),
    row(Class::ContextItem, 8, 1_500),
    row(Class::LastStep, 3, 0),
    row(Class::Summary, 1, 0),
    row(Class::Context, 1, 0),
    row(Class::Failure, 12, 1_500),
    row(Class::Gap, 8, 1_400),
    row(Class::Failed, 8, 1_200),
    row(Class::Change, 8, 1_600),
    row(Class::File, 8, 1_000),
    row(Class::Reference, 4, 800),
    row(Class::Result, 1, 400),
    row(Class::Finding, 0, 2_000),
    row(Class::Rejection, 0, 1_000),
    row(Class::Done, 8, 800),
    row(Class::Source, 0, 600),
    row(Class::Answer, 1, 700),
    row(Class::Tried, 8, 500),
    row(Class::OlderInstruction, 0, 1_500),
    row(Class::Branch, 0, 300),
    row(Class::PlanDone, 0, 200),
    row(Class::Mended, 0, 100),
    row(Class::StepLine, 0, 60).in_order(),
];

/// A part of the text: classes under a heading.
struct Part(&'static str, &'static [Class]);

/// The parts of the text, in the order of reading.
const PARTS: [Part; 20] = [
    Part("Task", &[Class::Task]),
    Part("Goal", &[Class::Goal]),
    Part("The user said, oldest first", &[Class::OlderInstruction, Class::Instruction]),
    Part("Where the work stood, in the words of that session", &[Class::Summary]),
    Part("The conversation, as that session saved it", &[Class::Context]),
    Part("Plan", &[Class::PlanDone, Class::Plan]),
    Part("Next", &[Class::Next]),
    Part("Still failing", &[Class::Failure]),
    Part("Failed before, runs now", &[Class::Mended]),
    Part("Changed, besides files", &[Class::Change]),
    Part("Open questions", &[Class::Gap]),
    Part("Did not work", &[Class::Failed]),
    Part("Ruled out", &[Class::Rejection]),
    Part("Done", &[Class::Done]),
    Part("Tried", &[Class::Tried]),
    Part("Found", &[Class::Finding]),
    Part("Steps of the research", &[Class::Branch, Class::StepLine, Class::LastStep]),
    Part("Sources", &[Class::Source]),
    Part("Results of tools", &[Class::Result]),
    Part("The agent said", &[Class::Answer]),
];

/// Says of a text how alike it is to what is asked, from 0 to 1 000.
type Likeness<'a> = &'a dyn Fn(&str) -> usize;

/// What a session hands over, within a budget of tokens. `likeness` says of a text how alike it is
/// to what is asked, from 0 to 1 000: a part of the priority of context items, and the worth of
/// every item where they are ordered by it.
#[must_use]
pub fn restore(
    facts: &Facts,
    asked: &Asked,
    tokenizer: Tokenizer,
    likeness: Likeness<'_>,
) -> Restored {
    let bytes = asked.tokens_max * TOKEN_BYTES;
    let shares = if has_code(facts) { SHARES_CODE } else { SHARES_TALK };
    let recipe = Recipe {
        newest: &[Class::Answer, Class::Result],
        newest_percent: 18,
        shares,
        by: asked.by,
        ..Recipe::new(&ROWS, 68)
    };
    let mut known = Known::gather(facts, &recipe, bytes);
    let saved = known.count(Class::ContextItem) as u64;
    let judged = judge(&mut known, likeness);
    keep_important(&mut known, asked.threshold);
    if asked.by == By::Vector {
        compare(&mut known, &judged, tokenizer, likeness);
    }
    keep_best(&mut known, asked);
    known.without_lines_of_last_steps();
    let count = |text: &str| tokenizer.count(&serde_json::Value::from(text).to_string());
    let state = facts.saved.state().map(|state| state.text.to_string());
    let state = state.filter(|text| count(text) <= asked.tokens_max / STATE_PART);
    let present: BTreeSet<Class> = known.items.iter().map(|item| item.class).collect();
    let head = head(facts, asked);
    let frame = FRAME_TOKENS
        + count(&head)
        + state.as_deref().map_or(0, count)
        + present.len() * CLASS_TOKENS;
    let mut budget = asked.tokens_max.saturating_sub(frame);
    let is_left = facts.saved.state().is_some() && state.is_none();
    let (known, compress, by) = (&known, asked.compress, asked.by);
    let view = View { known, shares, tokenizer, compress, by, head, judged, saved, is_left };
    let mut attempts = 0;
    loop {
        attempts += 1;
        let chosen = select(&known.items, &recipe, budget, &mut view.price());
        let made = view.given(&chosen, asked, &recipe, state.clone());
        // A share has what it has: the frame is of none.
        match made.tokens.checked_sub(asked.tokens_max) {
            Some(over) if over > 0 && attempts < ATTEMPTS_MAX => {
                budget = budget.saturating_sub(over + LINE_TOKENS);
            }
            _ => return made,
        }
    }
}

/// Whether a session is about code: it changed files, ran commands or has items of code.
fn has_code(facts: &Facts) -> bool {
    facts.work.files().next().is_some()
        || facts.work.commands().next().is_some()
        || facts.saved.items().iter().any(|item| &*item.category == "code")
}

/// The priority of each context item, by its place: its parts, and how alike it is to what is
/// asked.
type Judged = HashMap<usize, (Parts, usize)>;

/// Judges the context items: their worth is their priority.
fn judge(known: &mut Known<'_>, likeness: Likeness<'_>) -> Judged {
    let facts = known.facts;
    let mut all = Judged::new();
    for item in known.items.iter_mut().filter(|item| item.class == Class::ContextItem) {
        let Some(one) = facts.saved.items().get(item.place) else { continue };
        pace::steps(COMPARE_STEPS);
        let alike = likeness(judged(&one.content));
        let parts = Parts::of(facts, one, item, alike);
        item.worth = parts.sum() * 10;
        all.insert(item.place, (parts, alike));
    }
    all
}

/// Keeps the context items of this importance and more.
fn keep_important(known: &mut Known<'_>, threshold: u8) {
    let items = known.facts.saved.items();
    let priority = |item: &Item| {
        let said = items.get(item.place).and_then(|one| importance(one, item.mark));
        said.map_or(item.worth / 10, |said| 10 * usize::from(said))
    };
    let least = 10 * usize::from(threshold);
    known.retain(Class::ContextItem, |item| priority(item) >= least);
}

/// Sets as the worth of each item how alike it is to what is asked.
fn compare(known: &mut Known<'_>, found: &Judged, tokenizer: Tokenizer, likeness: Likeness<'_>) {
    let (head, judged, by) = (String::new(), Judged::new(), By::Vector);
    let (shares, compress, saved, is_left) = (&[][..], true, 0, false);
    let view = View { known, shares, tokenizer, compress, by, head, judged, saved, is_left };
    let worth = |item: &Item| {
        if let (Class::ContextItem, Some((_, alike))) = (item.class, found.get(&item.place)) {
            return *alike;
        }
        pace::steps(COMPARE_STEPS);
        likeness(&view.text(item.class, item.place, Form::Short))
    };
    let worths: Vec<usize> = known.items.iter().map(worth).collect();
    for (item, worth) in known.items.iter_mut().zip(worths) {
        item.worth = worth;
    }
}

/// Keeps the best context items, as many as are asked for, the best last. The others are left out:
/// they are counted.
fn keep_best(known: &mut Known<'_>, asked: &Asked) {
    let is_item = |item: &Item| item.class == Class::ContextItem;
    let (mut own, others): (Vec<Item>, Vec<Item>) = known.items.iter().partition(|i| is_item(i));
    own.sort_by_key(|item| (is_first(item), worth_by(item, asked.by), item.place));
    let best = own.split_off(own.len().saturating_sub(asked.items_max));
    known.items = others.into_iter().chain(best).collect();
}

/// Whether a person's mark puts an item before all others.
fn is_first(item: &Item) -> bool {
    item.mark == Some(MARK_MAX)
}

/// By what a context item is ordered.
fn worth_by(item: &Item, by: By) -> usize {
    if by == By::Recency { item.recency } else { item.worth }
}

/// The facts as they are given.
struct View<'k, 'f> {
    known: &'k Known<'f>,
    shares: &'k [Share],
    tokenizer: Tokenizer,
    compress: bool,
    by: By,
    head: String,
    judged: Judged,
    /// Context items that stand, whether they are important enough or not.
    saved: u64,
    /// Whether there is a state of the workspace and no room for it.
    is_left: bool,
}

impl View<'_, '_> {
    fn price(&self) -> impl Price {
        Tokens { view: self, memo: BTreeMap::new() }
    }

    /// What a text costs as a part of a JSON string.
    fn count(&self, text: &str) -> usize {
        self.tokenizer.count(&serde_json::Value::from(text).to_string())
    }

    /// The form in which a chosen item is given.
    fn form(&self, form: Form) -> Form {
        if self.compress { form } else { Form::Whole }
    }

    /// The text of an item, with where it is: no line of it looks like a heading or another item.
    fn text(&self, class: Class, place: usize, form: Form) -> String {
        let text = self.said(class, place, form);
        // A context item is a member of its own.
        if class == Class::ContextItem { text } else { quote::hanging(&text) }
    }

    fn said(&self, class: Class, place: usize, form: Form) -> String {
        let (known, form) = (self.known, self.form(form));
        let at = |position: Option<Position>| position.map(|at| known.place(at));
        match class {
            Class::Task | Class::Instruction | Class::OlderInstruction => {
                let Some(quote) = known.quote(class, place, form) else { return String::new() };
                let at = at(quote.position).map(|at| format!(" ({at})")).unwrap_or_default();
                quote.cut.text + &at
            }
            Class::Answer => {
                let Some(quote) = known.quote(class, place, form) else { return String::new() };
                let at = at(quote.position).map(|at| format!("{at} ")).unwrap_or_default();
                at + &quote.cut.text
            }
            Class::Plan | Class::PlanDone => {
                let step = known.plan_step(place, form);
                step.map(|step| format!("[{}] {}", step.state, step.text)).unwrap_or_default()
            }
            Class::LastStep => self.step(place, form),
            Class::Result => self.result(place, form),
            Class::Context => {
                let said = self.known.facts.saved.context();
                said.map(|said| self.squeezed(&said.text, "", form)).unwrap_or_default()
            }
            Class::ContextItem => {
                let item = self.known.facts.saved.items().get(place);
                item.map(|item| self.squeezed(&item.content, &item.category, form))
                    .unwrap_or_default()
            }
            _ => known.line(class, place, form),
        }
    }

    fn step(&self, place: usize, form: Form) -> String {
        let Some(step) = self.known.last_step(place, form) else { return String::new() };
        let mut text = format!("[{}", step.number);
        if let Some(branch) = &step.branch_id {
            let _ = write!(text, "@{branch}");
        }
        let _ = write!(text, "] {} ({})", step.description, self.known.place(step.position));
        if let Some(reasoning) = &step.reasoning {
            let _ = write!(text, " Because: {reasoning}");
        }
        if !step.rejected.is_empty() {
            let _ = write!(text, " Ruled out: {}", step.rejected.join("; "));
        }
        text
    }

    fn result(&self, place: usize, form: Form) -> String {
        let Some(one) = self.known.result(place, form) else { return String::new() };
        let place = self.known.place(one.position);
        let failed = if one.is_error { ", failed" } else { "" };
        let changed = one.changed_at.map(|at| self.known.place(at));
        let changed = changed.map(|at| format!(", the file changed later {at}"));
        let (tool, input, text) = (&one.tool, &one.input, &one.text);
        format!("{tool} {input} ({place}{failed}{}): {text}", changed.unwrap_or_default())
    }

    /// A saved text in a form.
    fn squeezed(&self, text: &str, category: &str, form: Form) -> String {
        let bytes = if category.is_empty() { ANSWER_BYTES } else { TEXT_BYTES };
        let squeezed = |text: &str| squeeze::whitespace(text).unwrap_or_else(|| text.to_owned());
        match form {
            Form::Whole => text.to_owned(),
            Form::Squeezed => squeezed(text),
            // What is shortened further is shortened from what is left.
            Form::Line | Form::Short | Form::Part(_) | Form::Bare => {
                let bare = match category {
                    "code" => squeeze::comments_of(text),
                    _ => squeeze::fenced_comments(text),
                };
                let text = squeezed(bare.as_deref().unwrap_or(text));
                self.known.formed(&text, form, bytes).text
            }
        }
    }

    fn file(&self, class: Class, place: usize) -> Option<GivenFile> {
        let facts = self.known.facts;
        let saved = facts.saved.files();
        let of = |path: &str, found: Option<&FileReference>| GivenFile {
            path: path.to_owned(),
            hash: found.and_then(|one| one.hash.as_deref()).map(str::to_owned),
            modified_at: found.and_then(|one| one.modified_at.as_deref()).map(str::to_owned),
            change: None,
            position: found.map_or(Position(0), |one| one.position),
        };
        if class == Class::Reference {
            let one = saved.get(place)?;
            return Some(of(&one.path, Some(one)));
        }
        let file = facts.work.files().nth(place)?;
        let found = saved.iter().rev().find(|one| is_same_file(&one.path, &file.path));
        let change = Some((file.state, file.last));
        let path = found.map_or(&file.path, |one| &one.path);
        let made = of(path, found);
        Some(GivenFile { change, position: made.position.max(file.last), ..made })
    }

    fn cost(&self, item: &Item, form: Form) -> usize {
        match item.class {
            Class::File | Class::Reference => self.file(item.class, item.place).map_or(0, |file| {
                let texts = [file.hash.as_ref(), file.modified_at.as_ref()].into_iter().flatten();
                let texts = texts.map(|one| NAME_TOKENS + self.count(one)).sum::<usize>();
                FILE_TOKENS + self.count(&file.path) + texts
            }),
            Class::ContextItem => {
                let saved = self.known.facts.saved.items().get(item.place);
                let named = saved.map_or(0, |one| {
                    let name = one.name.as_deref().unwrap_or_else(|| one.id.as_str());
                    self.count(name) + self.count(&one.category)
                });
                let similar = if self.by == By::Vector { SIMILARITY_TOKENS } else { 0 };
                let text = self.text(item.class, item.place, form);
                ITEM_TOKENS + similar + named + self.count(&text)
            }
            class => LINE_TOKENS + self.count(&self.text(class, item.place, form)),
        }
    }

    /// The text of what was chosen.
    fn context(&self, chosen: &Selection, left_out: &[LeftOut]) -> String {
        let mut text = self.head.clone();
        for Part(heading, classes) in &PARTS {
            let of_class = |class: &Class| {
                let chosen = self.known.in_order(chosen, *class).into_iter();
                let text = |(place, form): (usize, Form)| self.text(*class, place, form);
                chosen.map(text).collect::<Vec<String>>()
            };
            let lines: Vec<String> = classes.iter().flat_map(of_class).collect();
            if lines.is_empty() {
                continue;
            }
            text.push('\n');
            text.push_str(heading);
            if *heading == "Plan"
                && let Some(plan) = self.known.plan_view(chosen)
            {
                let _ = write!(text, ", {} of {} done", plan.done, plan.total);
            }
            if let ([line], [Class::Task | Class::Goal | Class::Summary | Class::Context]) =
                (lines.as_slice(), classes)
            {
                let _ = write!(text, ": {line}");
                continue;
            }
            text.push(':');
            lines.iter().for_each(|line| {
                let _ = write!(text, "\n- {line}");
            });
        }
        if !left_out.is_empty() {
            let parts: Vec<String> =
                left_out.iter().map(|one| format!("{} {}", one.count, one.class)).collect();
            let _ = write!(text, "\nNot shown: {}.", parts.join(", "));
        }
        text
    }

    fn given(
        &self,
        chosen: &Selection,
        asked: &Asked,
        recipe: &Recipe<'_>,
        state: Option<String>,
    ) -> Restored {
        let known = self.known;
        let classes: Vec<Class> = recipe.rows.iter().map(|row| row.class).collect();
        let mut left_out = known.left_out(chosen, &classes);
        if self.is_left {
            left_out.push(LeftOut { class: "workspace_state", count: 1, cursor: None });
        }
        let context = self.context(chosen, &left_out);
        let items: Vec<GivenItem> = self.items(chosen);
        let places = chosen.chosen.iter().map(|one| (one.item.class, one.item.place));
        let mut files: Vec<GivenFile> = places
            .filter(|(class, _)| matches!(class, Class::File | Class::Reference))
            .filter_map(|(class, place)| self.file(class, place))
            .collect();
        files.sort_by_key(|file| Reverse(file.position));
        let of_lists = chosen.chosen.iter().filter(|one| {
            matches!(one.item.class, Class::File | Class::Reference | Class::ContextItem)
        });
        let lists: usize = of_lists.map(|one| self.cost(&one.item, one.form)).sum();
        let left = left_out.len() * CLASS_TOKENS / 2;
        let state_tokens = state.as_deref().map_or(0, |text| self.count(text));
        let tokens = FRAME_TOKENS + self.count(&context) + lists + left + state_tokens;
        let spent = |share: &Share| {
            let own = chosen.chosen.iter().filter(|one| share.has(one.item.class));
            let tokens = own.map(|one| one.cost).sum();
            Spent { name: share.name, percent: share.percent, tokens }
        };
        Restored {
            preserved: self.preserved(chosen),
            shares: self.shares.iter().map(spent).collect(),
            chosen: chosen.chosen.iter().map(taken).collect(),
            why: if asked.explain { known.why(chosen) } else { Vec::new() },
            context,
            items,
            files,
            state,
            left_out,
            tokens,
            tokens_max: asked.tokens_max,
        }
    }

    /// How much of what the session holds is given.
    fn preserved(&self, chosen: &Selection) -> Preserved {
        let held = |class: &Class| match class {
            Class::ContextItem => self.saved + self.known.forgotten(*class),
            class => self.known.total(*class),
        };
        let held: u64 = HELD.iter().map(held).sum();
        let given: Vec<&Chosen> =
            chosen.chosen.iter().filter(|one| HELD.contains(&one.item.class)).collect();
        let parts: u64 = given.iter().map(|one| self.part(one)).sum();
        // A session that holds nothing lost nothing.
        let percent = (parts / 10).checked_div(held).unwrap_or(100);
        Preserved { held, told: given.len() as u64, percent }
    }

    /// The part of an item's text that is given, of 1 000. White space is no part of it.
    fn part(&self, one: &Chosen) -> u64 {
        let bytes = |form: Form| {
            let text = self.said(one.item.class, one.item.place, form);
            text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() as u64
        };
        (1_000 * bytes(one.form)).checked_div(bytes(Form::Whole)).unwrap_or(1_000).min(1_000)
    }

    /// The chosen context items, the ones that matter most first.
    fn items(&self, chosen: &Selection) -> Vec<GivenItem> {
        let facts = self.known.facts;
        let given = chosen.chosen.iter().filter(|one| one.item.class == Class::ContextItem);
        let mut given: Vec<&Chosen> = given.collect();
        given.sort_by_key(|one| {
            Reverse((is_first(&one.item), worth_by(&one.item, self.by), one.item.place))
        });
        let given = given.into_iter().filter_map(|one| {
            let saved = facts.saved.items().get(one.item.place)?;
            let (parts, alike) = *self.judged.get(&one.item.place)?;
            Some(GivenItem {
                id: saved.id.clone(),
                name: saved.name.as_deref().map(str::to_owned),
                category: saved.category.to_string(),
                content: self.text(Class::ContextItem, one.item.place, one.form),
                form: self.form(one.form),
                importance: importance(saved, one.item.mark),
                parts,
                similarity: (self.by == By::Vector).then_some(alike),
                tokens: self.cost(&one.item, one.form),
            })
        });
        given.collect()
    }
}

fn taken(one: &Chosen) -> Taken {
    let name = one.item.class.as_str();
    let id = match one.item.position {
        0 => format!("{name}#{}", one.item.place),
        at => format!("{name}@{at}"),
    };
    Taken { id, score: one.score as u64, form: one.form }
}

/// What items cost in an answer in JSON.
struct Tokens<'v, 'k, 'f> {
    view: &'v View<'k, 'f>,
    memo: BTreeMap<(Class, usize, Form), usize>,
}

impl Price for Tokens<'_, '_, '_> {
    fn price(&mut self, item: &Item, form: Form) -> usize {
        let form = self.view.form(form);
        let key = (item.class, item.place, form);
        *self.memo.entry(key).or_insert_with(|| self.view.cost(item, form))
    }
}

/// The head of what is handed over: which session it is, and how positions are named.
fn head(facts: &Facts, asked: &Asked) -> String {
    let (session, workspace) = (&asked.session, one_line(&asked.workspace, WORKSPACE_CHARS_MAX));
    let events = facts.reached();
    let earlier: Vec<String> = facts
        .earlier()
        .take(EARLIER_MAX)
        .map(|(number, session)| format!("S{number} is session {session}"))
        .collect();
    let earlier = match earlier.is_empty() {
        true => String::new(),
        false => format!(" Before it: {}; S1@n is position n of S1.", earlier.join(", ")),
    };
    let written = facts.times.map(|(_, last)| format!(", the last one {last}"));
    let which = format!(
        "The work of session {session} ({workspace}; {events} events{})",
        written.unwrap_or_default()
    );
    let (how, held) = match asked.continues {
        true => (
            "continues here. This is how it stood",
            "; the user's words hold, the rest is a record",
        ),
        false => ("stood like this", ""),
    };
    format!("{which} {how}. @n is its position n{held}.{earlier}")
}
