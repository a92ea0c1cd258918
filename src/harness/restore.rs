//! State that a session passes to its successor: a text, context items, files and the workspace's
//! state, together within one token budget. A recipe over [`select`]. It must not return a thing
//! twice, or present a withdrawn statement as current.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use serde_json::json;

use super::{
    brief::{Brief, BriefText, format_heading, format_sessions},
    gather::{GatheredItems, is_same_file},
    priority::{PriorityParts, item_importance, scored_beginning},
    quote,
    recall::TRUST,
    select::{
        ChosenItem, Class, ClassShare, Item, ItemForm, ItemOrder, MARK_MAX, Recipe, RecipeRow,
        Selection, row, shape,
    },
    tokens::{Counter, Tokenizer},
};
use crate::{
    api::handoff::{
        BudgetShare, ContextItem, FileReference, LeftOutClass, LookStatus, Preservation,
        RestoredAnswer,
    },
    event::{Position, SessionId, pace},
    projection::{self, Facts, FileFact, body::RestoredItemBody},
};

/// Default token budget of a restore.
pub const RESTORE_TOKENS: usize = 4_000;
/// Smallest token budget of a restore.
pub const RESTORE_TOKENS_MIN: usize = 600;
/// Largest token budget of a restore.
pub const RESTORE_TOKENS_MAX: usize = 200_000;
/// Default minimum priority of a context item.
pub const PRIORITY_THRESHOLD: u8 = 3;
/// Default maximum number of context items.
pub const CONTEXT_ITEMS_MAX: usize = 50;

/// Steps of work that a comparison of an item with the query counts as.
const COMPARE_STEPS: usize = 16;
/// Divisor of the budget for the most tokens of the workspace's state.
const STATE_PART: usize = 4;
/// Most earlier sessions that are listed.
const EARLIER_MAX: usize = 12;
/// Parameters of a restore.
#[derive(Clone, Debug)]
pub struct RestoreParameters {
    /// Token budget of the whole response.
    pub tokens_max: usize,
    /// Minimum priority of a context item, from 0 to 10.
    pub threshold: u8,
    /// Most context items in the response.
    pub items_max: usize,
    /// True if texts may be shortened.
    pub compress: bool,
    /// Order of the items.
    pub by: ItemOrder,
    /// Workspace of the session.
    pub workspace: String,
    /// True to include the reason for each item.
    pub explain: bool,
    /// True if the caller continues the work.
    pub continues: bool,
    /// True if the text also has context items, files and the state, for a reader of the text only.
    pub is_text: bool,
}

/// Classes that a successor must know; the preservation is measured on these.
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

/// Classes by subject.
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
/// Classes of code in the shares of a session without code.
const CODE_AS_TALK: &[Class] = &[Class::ContextItem, Class::Result, Class::Change];
const CODE_AS_ABOUT: &[Class] = &[Class::File, Class::Reference, Class::Failure, Class::Mended];

/// Shares of a session with code, and of one without.
const SHARES_CODE: &[ClassShare] = &[
    ClassShare { name: "code", classes: &[CODE], percent: 60 },
    ClassShare { name: "conversation", classes: &[TALK], percent: 30 },
    ClassShare { name: "metadata", classes: &[ABOUT], percent: 10 },
];
const SHARES_TALK: &[ClassShare] = &[
    ClassShare { name: "conversation", classes: &[TALK, CODE_AS_TALK], percent: 70 },
    ClassShare { name: "metadata", classes: &[ABOUT, CODE_AS_ABOUT], percent: 30 },
];

/// Recipe: indispensable items in this order, then the rest by weight and worth.
const ROWS: [RecipeRow; 29] = [
    shape(Class::Task, 1, 0),
    shape(Class::Goal, 1, 0),
    row(Class::Next, 5, 1_200),
    row(Class::Begun, 3, 1_500),
    row(Class::Plan, 40, 800),
    row(Class::Instruction, 64, 1_500),
    row(Class::ContextItem, 8, 1_500),
    row(Class::LastStep, 3, 0),
    row(Class::Summary, 1, 0),
    row(Class::Context, 1, 0),
    row(Class::State, 1, 0),
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
    row(Class::StepLine, 0, 60).keep_order(),
];

/// Function for the similarity of a text to the query, from 0 to 1 000.
type Likeness<'a> = &'a dyn Fn(&str) -> usize;

/// Builds the response to a restore within a token budget, and the list of selected items. Members
/// that depend on the continuing session are left empty. `likeness` returns a text's similarity to
/// the query, from 0 to 1 000: it is a part of the priority of context items and, with
/// `ItemOrder::Vector`, the worth of every item.
#[must_use]
pub fn restore(
    facts: &Facts,
    session: &SessionId,
    asked: &RestoreParameters,
    tokenizer: Tokenizer,
    likeness: Likeness<'_>,
) -> (RestoredAnswer, Vec<RestoredItemBody>) {
    let shares = if has_code(facts) { SHARES_CODE } else { SHARES_TALK };
    let recipe = Recipe {
        newest: &[Class::Answer, Class::Result],
        newest_percent: 25,
        shares,
        by: asked.by,
        ..Recipe::new(&ROWS, 68)
    };
    let mut known = GatheredItems::gather_for_tokens(facts, &recipe, asked.tokens_max);
    let saved = known.count(Class::ContextItem) as u64;
    let judged = score_items(&mut known, likeness);
    keep_important(&mut known, asked.threshold);
    if asked.by == ItemOrder::Vector {
        set_similarity(&mut known, &judged, tokenizer, likeness);
    }
    keep_best(&mut known, asked);
    known.remove_lines_of_last_steps();
    let known = known;
    let state = facts.saved.state().map(|state| state.text.to_string());
    let state = state.filter(|text| tokenizer.count(text) <= asked.tokens_max / STATE_PART);
    let is_left = facts.saved.state().is_some() && state.is_none();
    let (mut head, mut spent) = (format_head(facts, session, asked), 0);
    match &state {
        Some(state) if asked.is_text => {
            let block = quote::code_block(state);
            let _ = write!(head, "\n\nState of the workspace, as it was saved:\n{block}");
        }
        state => spent = state.as_deref().map_or(0, |state| tokenizer.count(state)),
    }
    let members = RestoreMembers { known: &known, asked, tokenizer, judged: &judged };
    let separate_cost = |item: &Item, form: ItemForm| members.cost(item, form);
    let mut brief = Brief::new(&known, tokenizer, head);
    brief.names_earlier = true;
    brief.is_whole = !asked.compress;
    brief.separate_cost = if asked.is_text { None } else { Some(&separate_cost) };
    let BriefText { chosen, left_out, text, tokens } = brief.make(&recipe, asked.tokens_max, spent);
    let left_out = left_out.into_iter().map(|one| (one.class, one.count));
    let left_out = left_out.chain(is_left.then_some(("workspace_state", 1)));
    let why = if asked.explain { known.explain_selection(&chosen) } else { Vec::new() };
    let answer = RestoredAnswer {
        session_id: None,
        continues: session.clone(),
        workspace: asked.workspace.clone(),
        position: facts.next_position(),
        saved_at: None,
        context_items: members.selected_items(&chosen, &brief),
        file_references: members.selected_files(&chosen),
        workspace_state: state.as_deref().and_then(|text| serde_json::from_str(text).ok()),
        tokens: tokens as u64,
        tokens_max: asked.tokens_max as u64,
        budget: shares.iter().map(|share| share_usage(share, &chosen)).collect(),
        left_out: left_out.map(to_left_out_class).collect(),
        preservation: measure_preservation(&brief, &chosen, saved),
        why,
        notices: Vec::new(),
        trust: TRUST.to_owned(),
        text: asked.is_text.then(|| text.clone()),
        context: text,
    };
    (answer, chosen.chosen.iter().map(to_record).collect())
}

fn to_left_out_class((class, count): (&str, u64)) -> LeftOutClass {
    LeftOutClass { class: class.to_owned(), count }
}

/// Returns a share of the budget, and the tokens that its classes used.
fn share_usage(share: &ClassShare, chosen: &Selection) -> (String, BudgetShare) {
    let own = chosen.chosen.iter().filter(|one| share.contains(one.item.class));
    let tokens: usize = own.map(|one| one.cost).sum();
    let (percent, tokens) = (share.percent as u64, tokens as u64);
    (share.name.to_owned(), BudgetShare { percent, tokens })
}

/// Returns true if a session is about code: it changed files, ran commands or has items of code.
fn has_code(facts: &Facts) -> bool {
    facts.work.files().next().is_some()
        || facts.work.commands().next().is_some()
        || facts.saved.items().iter().any(|item| &*item.category == "code")
}

/// Priority parts of each context item by its index, and its similarity to the query.
type ScoredItems = HashMap<usize, (PriorityParts, usize)>;

/// Scores the context items: their worth is their priority.
fn score_items(known: &mut GatheredItems<'_>, likeness: Likeness<'_>) -> ScoredItems {
    let facts = known.facts;
    let mut all = ScoredItems::new();
    for item in known.items.iter_mut().filter(|item| item.class == Class::ContextItem) {
        let Some(one) = facts.saved.items().get(item.index) else { continue };
        pace::steps(COMPARE_STEPS);
        let alike = likeness(scored_beginning(&one.content));
        let parts = PriorityParts::new(facts, one, item, alike);
        item.worth = parts.sum() * 10;
        all.insert(item.index, (parts, alike));
    }
    all
}

/// Keeps the context items with at least this importance, or else priority.
fn keep_important(known: &mut GatheredItems<'_>, threshold: u8) {
    let items = known.facts.saved.items();
    let priority = |item: &Item| {
        let said = items.get(item.index).and_then(|one| item_importance(one, item.mark));
        said.map_or(item.worth / 10, |said| 10 * usize::from(said))
    };
    let least = 10 * usize::from(threshold);
    known.retain(Class::ContextItem, |item| priority(item) >= least);
}

/// Sets the worth of each item to its similarity to the query.
fn set_similarity(
    known: &mut GatheredItems<'_>,
    found: &ScoredItems,
    tokenizer: Tokenizer,
    likeness: Likeness<'_>,
) {
    let brief = Brief::new(known, tokenizer, String::new());
    let worth = |item: &Item| {
        if let (Class::ContextItem, Some((_, alike))) = (item.class, found.get(&item.index)) {
            return *alike;
        }
        pace::steps(COMPARE_STEPS);
        likeness(&brief.format_line(item.class, item.index, ItemForm::Short))
    };
    let worths: Vec<usize> = known.items.iter().map(worth).collect();
    for (item, worth) in known.items.iter_mut().zip(worths) {
        item.worth = worth;
    }
}

/// Keeps the requested number of the best context items, the best last. The others count as left
/// out.
fn keep_best(known: &mut GatheredItems<'_>, asked: &RestoreParameters) {
    let is_item = |item: &Item| item.class == Class::ContextItem;
    let (mut own, others): (Vec<Item>, Vec<Item>) = known.items.iter().partition(|i| is_item(i));
    own.sort_by_key(|item| (has_top_mark(item), sort_value(item, asked.by), item.index));
    let best = own.split_off(own.len().saturating_sub(asked.items_max));
    known.items = others.into_iter().chain(best).collect();
}

/// Returns true if the user's highest mark puts an item before all others.
fn has_top_mark(item: &Item) -> bool {
    item.mark == Some(MARK_MAX)
}

/// Returns the value by which context items are ordered.
fn sort_value(item: &Item, by: ItemOrder) -> usize {
    if by == ItemOrder::Recency { item.recency } else { item.worth }
}

/// Members of the response next to the text: context items and files.
struct RestoreMembers<'a, 'f> {
    known: &'a GatheredItems<'f>,
    asked: &'a RestoreParameters,
    tokenizer: Tokenizer,
    judged: &'a ScoredItems,
}

impl RestoreMembers<'_, '_> {
    /// Returns the cost of an item as a member; `None` if it is in the text.
    fn cost(&self, item: &Item, form: ItemForm) -> Option<usize> {
        let member = match item.class {
            Class::File | Class::Reference => {
                let (Position(at), file) = self.find_file(item.class, item.index)?;
                json!({
                    "path": file.path, "hash": file.hash, "modified_at": file.last_modified,
                    "change": file.change.map(|_| "changed"), "changed_at": at, "position": at,
                })
            }
            Class::ContextItem => {
                let brief = Brief::new(self.known, self.tokenizer, String::new());
                let saved = self.known.facts.saved.items().get(item.index)?;
                let name = saved.name.as_deref().unwrap_or_else(|| saved.id.as_str());
                json!({
                    "id": name, "category": &*saved.category, "form": form.as_str(),
                    "content": brief.item_content(item.index, form), "importance": 5, "priority": 5.5,
                    "similarity": (self.asked.by == ItemOrder::Vector).then_some(0.5),
                })
            }
            _ => return None,
        };
        Some(self.tokenizer.count(&member.to_string()))
    }

    /// Returns a file, and the position of its latest reference or change.
    fn find_file(&self, class: Class, index: usize) -> Option<(Position, FileReference)> {
        let facts = self.known.facts;
        let saved = facts.saved.files();
        if class == Class::Reference {
            let one = saved.get(index)?;
            return Some((one.position, build_file_reference(&one.path, Some(one), None)));
        }
        let file = facts.work.files().nth(index)?;
        let found = saved.iter().rev().find(|one| is_same_file(&one.path, &file.path));
        let path = found.map_or(&file.path, |one| &one.path);
        let at = found.map_or(file.last, |one| one.position.max(file.last));
        Some((at, build_file_reference(path, found, Some(file))))
    }

    /// Returns the selected files, the latest reference or change first.
    fn selected_files(&self, chosen: &Selection) -> Vec<FileReference> {
        let selected = chosen.chosen.iter().map(|one| (one.item.class, one.item.index));
        let mut files: Vec<(Position, FileReference)> = selected
            .filter(|(class, _)| matches!(class, Class::File | Class::Reference))
            .filter_map(|(class, index)| self.find_file(class, index))
            .collect();
        files.sort_by_key(|(at, _)| Reverse(*at));
        files.into_iter().map(|(_, file)| file).collect()
    }

    /// Returns the selected context items, the most important first.
    fn selected_items(&self, chosen: &Selection, brief: &Brief<'_, '_>) -> Vec<ContextItem> {
        let facts = self.known.facts;
        let given = chosen.chosen.iter().filter(|one| one.item.class == Class::ContextItem);
        let mut given: Vec<&ChosenItem> = given.collect();
        given.sort_by_key(|one| {
            Reverse((has_top_mark(&one.item), sort_value(&one.item, self.asked.by), one.item.index))
        });
        let given = given.into_iter().filter_map(|one| {
            let saved = facts.saved.items().get(one.item.index)?;
            let (parts, alike) = self.judged.get(&one.item.index)?;
            let form = brief.effective_form(one.form);
            Some(ContextItem {
                id: saved.name.as_deref().unwrap_or_else(|| saved.id.as_str()).to_owned(),
                category: saved.category.to_string(),
                content: brief.item_content(one.item.index, one.form),
                importance: item_importance(saved, one.item.mark),
                score: parts.sum() as u64,
                similarity: (self.asked.by == ItemOrder::Vector)
                    .then(|| fraction(*alike as u64, 1_000)),
                form: (form != ItemForm::Whole).then(|| form.as_str().to_owned()),
                parts: if self.asked.explain { parts.to_map() } else { BTreeMap::new() },
            })
        });
        given.collect()
    }
}

/// Builds a file reference from the saved one and the session's changes.
fn build_file_reference(
    path: &str,
    saved: Option<&projection::SavedFile>,
    changed: Option<&FileFact>,
) -> FileReference {
    FileReference {
        path: path.to_owned(),
        hash: saved.and_then(|one| one.hash.as_deref()).map(str::to_owned),
        last_modified: saved.and_then(|one| one.modified_at.as_deref()).map(str::to_owned),
        change: changed.map(|file| file.state.as_str().to_owned()),
        status: LookStatus::Unchecked.as_str().to_owned(),
        hash_now: None,
    }
}

fn fraction(part: u64, of: u32) -> f64 {
    f64::from(u32::try_from(part).unwrap_or(of)) / f64::from(of)
}

/// Computes the share of the session's state that is returned; it has `saved` context items.
fn measure_preservation(brief: &Brief<'_, '_>, chosen: &Selection, saved: u64) -> Preservation {
    let held = |class: &Class| match class {
        Class::ContextItem => saved + brief.known.dropped_count(*class),
        class => brief.known.total_count(*class),
    };
    let held: u64 = HELD.iter().map(held).sum();
    let given: Vec<&ChosenItem> =
        chosen.chosen.iter().filter(|one| HELD.contains(&one.item.class)).collect();
    let parts: u64 = given.iter().map(|one| shown_share(brief, one)).sum();
    // A session without such items lost nothing.
    let percent = (parts / 10).checked_div(held).unwrap_or(100);
    Preservation { held, told: given.len() as u64, share: fraction(percent, 100) }
}

/// Returns the part of an item's text that is shown, of 1 000, without white space.
fn shown_share(brief: &Brief<'_, '_>, one: &ChosenItem) -> u64 {
    let bytes = |form: ItemForm| {
        let text = brief.format_line(one.item.class, one.item.index, form);
        text.bytes().filter(|byte| !byte.is_ascii_whitespace()).count() as u64
    };
    (1_000 * bytes(one.form)).checked_div(bytes(ItemForm::Whole)).unwrap_or(1_000).min(1_000)
}

/// Builds the record of a selected item: its class, and its position or index.
fn to_record(one: &ChosenItem) -> RestoredItemBody {
    let name = one.item.class.as_str();
    let id = match one.item.position {
        0 => format!("{name}#{}", one.item.index),
        at => format!("{name}@{at}"),
    };
    RestoredItemBody { id, score: one.score as u64, form: one.form.as_str().to_owned() }
}

/// Returns the head of the text: the session, its chain, and the notation of positions.
fn format_head(facts: &Facts, session: &SessionId, asked: &RestoreParameters) -> String {
    let mut head = format_heading(facts, session.as_str(), Some(&asked.workspace));
    let earlier = format_sessions(facts.earlier_sessions().take(EARLIER_MAX));
    if !earlier.is_empty() {
        let _ = write!(head, "\nBefore it: {earlier}; S1@n is position n of S1.");
    }
    if asked.continues {
        head.push_str("\nThe work continues here; the user's words hold, the rest is a record.");
    }
    head
}
