//! SELECT: chooses the items that a view shows within a budget. Every view is a recipe over this
//! function: indispensable items first, then those worth most for their cost until the budget is
//! spent, then longer forms of the chosen ones. Integers only, so that equal facts give equal views
//! on every machine. It must not read a text: items carry what is needed, and the view prices and
//! formats them.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use super::budget::Budget;
pub use super::class::Class;
use crate::{event::pace, projection::Signature};

/// Bytes added to every item's cost for the ranking: without them one word would rank above a
/// sentence.
const RANKED_BYTES: usize = 100;
/// Steps of work that one price counts as, and signatures compared per step.
const PRICE_STEPS: usize = 8;
const SIGNATURES_OF_A_STEP: usize = 64;
/// Budget, in the view's unit, below which no further item is tried.
const LEAST: usize = 8;
/// Least status of an indispensable item; a failed change and an item of an earlier session have
/// less.
pub(super) const INDISPENSABLE_STATUS: usize = 50;
/// Least mark (1 to 10) with which an item counts twice.
const MARK_HIGH: u8 = 8;
/// Highest mark: items that the user marked come before everything else.
pub(super) const MARK_MAX: u8 = 10;
/// Most items that are indispensable because the user marked them.
const MARKED_MAX: usize = 64;
/// Most items of a conversation that do not fit in full before older ones are not tried.
const MISSES_MAX: usize = 4;
/// Divisor of the remaining budget above which an item is deferred until the others were tried.
const DEFERRED_PART: usize = 2;
/// Most deferred items.
const WAITING_MAX: usize = 16;
/// Most bytes of a text that is shown in part: a power of two.
const PART_BYTES_MAX: u32 = 1 << 20;
/// Most repeats that count: a repeat is worth half, a further one a quarter.
const REPEATS_MAX: u8 = 2;

/// Form in which an item is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ItemForm {
    /// One line.
    Line,
    /// The bytes of its class: all of a short text, else its beginning and its end.
    Short,
    /// Like `Short`, with as many bytes as the budget allows.
    Part(u32),
    /// The full text without comments and needless white space.
    Bare,
    /// The full text without needless white space.
    Squeezed,
    /// The full text.
    Whole,
}

impl ItemForm {
    /// Returns the name of the form.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Short | Self::Part(_) => "short",
            Self::Bare => "bare",
            Self::Squeezed => "squeezed",
            Self::Whole => "whole",
        }
    }
}

/// A fact that a view may show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Class of the item.
    pub class: Class,
    /// Index in the list of its class.
    pub index: usize,
    /// Approximate bytes of its shortest form.
    pub bytes: usize,
    /// Worth from 0 to about 1 000, by the rarity of its words; 500 if it was not scored.
    pub worth: usize,
    /// Recency from 0 (beginning of the session) to 100 (end).
    pub recency: usize,
    /// Percentage of the worth that its state leaves: less for closed or superseded items.
    pub status: usize,
    /// Mark by a user or model, from 1 to 10.
    pub mark: Option<u8>,
    /// Signature by which its repeats are found; `None` if they are worth as much.
    pub signature: Option<Signature>,
    /// Text that contains it, by class and index: it is left out if that is shown in full.
    pub inside: Option<(Class, usize)>,
    /// Position of its event; 0 without one.
    pub position: u64,
}

impl Item {
    /// Returns true if both are the same item.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.class, self.index) == (other.class, other.index)
    }

    /// Returns true if one of these texts contains it.
    fn is_inside(&self, texts: &[(Class, usize)]) -> bool {
        self.inside.is_some_and(|text| texts.contains(&text))
    }
}

/// Row of a recipe: the rules of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeRow {
    /// Class that the rules apply to.
    pub class: Class,
    /// Number of the newest items that belong to the view's shape: each gets its shortest form
    /// before anything else.
    pub shape: usize,
    /// Number of the newest items that are indispensable: they share [`Recipe::first_percent`] of
    /// the budget after the shape.
    pub first: usize,
    /// Weight of a further item against other classes; with 0 no further one is shown.
    pub weight: usize,
    /// Most items of the class.
    pub max: usize,
    /// True if an item is shown only with all newer ones: an index without holes.
    pub in_order: bool,
    /// True if items get longer forms only when nothing else remains to show.
    pub grows_last: bool,
}

/// Table by which a view chooses.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// Rows in the order in which indispensable items grow.
    pub rows: &'static [RecipeRow],
    /// Percentage of the budget after the shape that indispensable items may use before others.
    pub first_percent: usize,
    /// Classes whose newest items are shown in full, as in a window of the conversation.
    pub newest: &'static [Class],
    /// Percentage of the remaining budget for these before other items; afterwards all of the rest.
    pub newest_percent: usize,
    /// Groups of classes with their shares of the budget: beyond its share an item is deferred
    /// until no other remains. Other groups may use the unused part of a share.
    pub shares: &'a [ClassShare],
    /// Order of the items.
    pub by: ItemOrder,
}

/// A group of classes, and its share of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassShare {
    /// Name of the group.
    pub name: &'static str,
    /// Classes of the group, as several lists.
    pub classes: &'static [&'static [Class]],
    /// Share of the budget, in percent.
    pub percent: usize,
}

impl ClassShare {
    /// Returns true if the group has a class.
    pub(super) fn contains(&self, class: Class) -> bool {
        self.classes.iter().any(|classes| classes.contains(&class))
    }
}

/// Order of the items of a view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ItemOrder {
    /// By class, worth, recency, state and marks.
    #[default]
    Hybrid,
    /// By recency, the newest first.
    Recency,
    /// As `Hybrid`, but without recency.
    Importance,
    /// By class, state, marks and similarity to the query, which the caller sets as the worth.
    Vector,
}

impl ItemOrder {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Hybrid, Self::Recency, Self::Importance, Self::Vector];

    /// Returns the name of the order.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Recency => "recency",
            Self::Importance => "importance",
            Self::Vector => "vector",
        }
    }

    /// Returns the order with that name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

impl Recipe<'static> {
    /// Creates a recipe of these rows, without a conversation.
    #[must_use]
    pub const fn new(rows: &'static [RecipeRow], first_percent: usize) -> Self {
        let (newest, newest_percent): (&[Class], usize) = (&[], 0);
        Self { rows, first_percent, newest, newest_percent, shares: &[], by: ItemOrder::Hybrid }
    }
}

/// Creates a row: `first` of the newest items are indispensable, further ones have `weight`.
#[must_use]
pub const fn row(class: Class, first: usize, weight: usize) -> RecipeRow {
    let (shape, max) = (0, usize::MAX);
    RecipeRow { class, shape, first, weight, max, in_order: false, grows_last: false }
}

/// Creates a row whose `count` newest items belong to the shape.
#[must_use]
pub const fn shape(class: Class, count: usize, weight: usize) -> RecipeRow {
    RecipeRow { shape: count, ..row(class, count, weight) }
}

impl RecipeRow {
    /// Returns the row for an index without holes.
    #[must_use]
    pub const fn keep_order(self) -> Self {
        Self { in_order: true, ..self }
    }

    /// Returns the row for items that grow last.
    #[must_use]
    pub const fn grow_last(self) -> Self {
        Self { grows_last: true, ..self }
    }
}

/// An item that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChosenItem {
    /// Item that was chosen.
    pub item: Item,
    /// Form in which it is shown.
    pub form: ItemForm,
    /// Cost of the form, in the view's unit.
    pub cost: usize,
    /// Score of the item when it was chosen.
    pub score: usize,
    /// Number of similar items chosen before, up to 2.
    pub repeats: u8,
    /// True if it is indispensable.
    pub is_first: bool,
}

/// Result of a selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Chosen items, in the order of choice.
    pub chosen: Vec<ChosenItem>,
    /// Unspent budget.
    pub left: usize,
    /// True if an indispensable item was shortened or left out.
    pub is_cut: bool,
    /// Steps and messages that are shown in full; items that they contain are left out.
    pub texts: Vec<(Class, usize)>,
    /// Number of items visited: the cost of the selection.
    pub visits: usize,
}

impl Selection {
    /// Returns the indexes and forms of a class's chosen items, ascending.
    #[must_use]
    pub fn indexes(&self, class: Class) -> Vec<(usize, ItemForm)> {
        let chosen = self.chosen.iter().filter(|one| one.item.class == class);
        let mut indexes: Vec<(usize, ItemForm)> =
            chosen.map(|one| (one.item.index, one.form)).collect();
        indexes.sort_unstable_by_key(|(index, _)| *index);
        indexes
    }

    /// Returns true if a text that is shown in full contains the item.
    #[must_use]
    pub fn contains(&self, item: &Item) -> bool {
        item.is_inside(&self.texts)
    }
}

/// Prices of items by form, in the unit of the budget.
pub trait Price {
    /// Returns the price; it must not be less for a longer form.
    fn price(&mut self, item: &Item, form: ItemForm) -> usize;
}

/// Chooses the items of a view. Items of one class must come in ascending order: the newest last.
///
/// Each item is visited a bounded number of times, regardless of the session's length.
#[must_use]
pub fn select(
    items: &[Item],
    recipe: &Recipe<'_>,
    budget: usize,
    price: &mut dyn Price,
) -> Selection {
    let mut choice = SelectionState {
        items,
        price,
        budget: Budget::new(budget),
        taken: vec![false; items.len()],
        counts: [0; Class::COUNT],
        closed: [false; Class::COUNT],
        made: Selection::default(),
    };
    choice.choose_indispensable(recipe);
    choice.choose_newest_in_full(recipe, recipe.newest_percent);
    choice.choose_worthwhile(recipe);
    choice.choose_newest_in_full(recipe, 100);
    choice.lengthen_chosen();
    choice.resolve_partial_messages();
    choice.remove_contained_items();
    choice.made.is_cut |= choice.has_cut_item();
    choice.made.left = choice.budget.remaining();
    choice.made
}

struct SelectionState<'a> {
    items: &'a [Item],
    price: &'a mut dyn Price,
    budget: Budget,
    taken: Vec<bool>,
    counts: [usize; Class::COUNT],
    /// Classes of which no further item is chosen.
    closed: [bool; Class::COUNT],
    made: Selection,
}

impl SelectionState<'_> {
    /// Chooses the indispensable items: one line each of the shape, then of the others within their
    /// share of the rest; then lengthens them, class by class, within that share.
    fn choose_indispensable(&mut self, recipe: &Recipe<'_>) {
        let shape = self.newest_indexes(recipe, 0, |row| 0..row.shape);
        let others = self.newest_indexes(recipe, INDISPENSABLE_STATUS, |row| row.shape..row.first);
        let others = self.put_marked_first(recipe, &shape, others);
        let all = shape.len() + others.len() == self.items.len();
        let mut whole = self.budget;
        self.choose_lines(&shape, recipe, &mut whole);
        let mut budget = if all { whole } else { whole.share(recipe.first_percent) };
        let cap = budget.remaining();
        self.choose_lines(&others, recipe, &mut budget);
        // Items of the session itself grow before those of earlier sessions of the chain.
        for is_first in [true, false] {
            for row in recipe.rows.iter().filter(|row| !row.grows_last) {
                for at in 0..self.made.chosen.len() {
                    let is_meant = |item: &Item| {
                        item.class == row.class && (item.status >= INDISPENSABLE_STATUS) == is_first
                    };
                    if self.made.chosen.get(at).is_some_and(|one| is_meant(&one.item)) {
                        self.lengthen(at, ItemForm::Short, &mut budget);
                    }
                }
            }
        }
        whole.spend(cap - budget.remaining());
        self.budget = whole;
    }

    /// Returns the indexes of the newest items of each row within a range, with a status of at
    /// least `status_min`, in turns: the newest of each class, then the next, so that no class uses
    /// the whole budget.
    fn newest_indexes(
        &self,
        recipe: &Recipe<'_>,
        status_min: usize,
        range: impl Fn(&RecipeRow) -> Range<usize>,
    ) -> Vec<usize> {
        let mut wanted = [const { (0, 0..0) }; Class::COUNT];
        for (at, row) in recipe.rows.iter().enumerate() {
            let Range { start, end } = range(row);
            if let Some(of_class) = wanted.get_mut(row.class as usize) {
                *of_class = (at, start..end.min(row.max));
            }
        }
        let mut seen = [0; Class::COUNT];
        let mut turns = Vec::new();
        let meant = self.items.iter().enumerate().filter(|(_, item)| item.status >= status_min);
        for (at, item) in meant.rev() {
            let class = item.class as usize;
            let (Some((row, range)), Some(turn)) = (wanted.get(class), seen.get_mut(class)) else {
                continue;
            };
            let now = *turn;
            *turn += 1;
            if range.contains(&now) {
                turns.push((now, *row, at));
            }
        }
        turns.sort_unstable();
        turns.into_iter().map(|(_, _, at)| at).collect()
    }

    /// Puts the items that the user marked, newest first, before the other indispensable ones.
    fn put_marked_first(
        &self,
        recipe: &Recipe<'_>,
        shape: &[usize],
        others: Vec<usize>,
    ) -> Vec<usize> {
        let is_there = |text| self.items.iter().any(|item| (item.class, item.index) == text);
        let is_marked = |at: &usize| {
            let item = self.items.get(*at).filter(|item| item.mark == Some(MARK_MAX));
            // A marked sentence is shown by the text that contains it, if the view has that.
            let item = item.filter(|item| !item.inside.is_some_and(is_there));
            let row = item.and_then(|item| recipe.rows.iter().find(|row| row.class == item.class));
            row.is_some_and(|row| !row.in_order)
        };
        let marked = (0..self.items.len()).rev().filter(is_marked);
        let marked = marked.filter(|at| !shape.contains(at)).take(MARKED_MAX).collect::<Vec<_>>();
        let others = others.into_iter().filter(|at| !marked.contains(at)).collect::<Vec<_>>();
        [marked, others].concat()
    }

    /// Chooses indispensable items in their shortest form, as far as the budget allows.
    fn choose_lines(&mut self, indexes: &[usize], recipe: &Recipe<'_>, budget: &mut Budget) {
        for at in indexes {
            let Some(item) = self.items.get(*at) else { continue };
            let class = item.class;
            let cost = self.cost(*at, ItemForm::Line);
            if !self.is_closed(class) && budget.spend(cost) {
                self.choose(*at, ItemForm::Line, cost, 0, 0, true);
            } else {
                self.made.is_cut = true;
                self.close_class(recipe.rows.iter().find(|row| row.class == class));
            }
        }
    }

    fn is_closed(&self, class: Class) -> bool {
        self.closed.get(class as usize).copied().unwrap_or_default()
    }

    /// Stops choosing items of a class that is shown without holes.
    fn close_class(&mut self, row: Option<&RecipeRow>) {
        if let Some(row) = row.filter(|row| row.in_order)
            && let Some(closed) = self.closed.get_mut(row.class as usize)
        {
            *closed = true;
        }
    }

    /// Chooses the newest items of a conversation in full, or in the longest form that fits, within
    /// a percentage of the remaining budget.
    fn choose_newest_in_full(&mut self, recipe: &Recipe<'_>, percent: usize) {
        if recipe.newest.is_empty() {
            return;
        }
        let of_talk = self.items.iter().enumerate();
        let of_talk = of_talk.filter(|(_, item)| recipe.newest.contains(&item.class));
        let mut order: Vec<(u64, usize)> = of_talk.map(|(at, item)| (item.position, at)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let mut budget = self.budget.share(percent);
        let cap = budget.remaining();
        let mut misses = 0;
        let mut waiting = Vec::new();
        for (_, at) in order {
            if misses == MISSES_MAX || budget.remaining() < LEAST {
                break;
            }
            // Items that become complete cheaply precede those that need the budget of several.
            if waiting.len() < WAITING_MAX
                && self.cost_to_complete(at) > budget.remaining() / DEFERRED_PART
            {
                waiting.push(at);
            } else if !self.choose_longest(at, &mut budget) {
                misses += 1;
            }
        }
        for at in waiting {
            if budget.remaining() >= LEAST {
                self.choose_longest(at, &mut budget);
            }
        }
        self.budget.spend(cap - budget.remaining());
    }

    /// Returns the additional cost of showing an item in full.
    fn cost_to_complete(&mut self, at: usize) -> usize {
        let whole = self.cost(at, ItemForm::Whole);
        let item = self.items.get(at);
        let is_it = |one: &&ChosenItem| item.is_some_and(|item| one.item.is_same(item));
        whole.saturating_sub(self.made.chosen.iter().find(is_it).map_or(0, |one| one.cost))
    }

    /// Chooses an item in the longest form that fits, or lengthens a chosen one to it; returns true
    /// if it is complete.
    fn choose_longest(&mut self, at: usize, budget: &mut Budget) -> bool {
        let Some(item) = self.items.get(at).copied() else { return true };
        if let Some(chosen) = self.made.chosen.iter().position(|one| one.item.is_same(&item)) {
            self.lengthen(chosen, ItemForm::Whole, budget);
            self.lengthen(chosen, ItemForm::Short, budget);
            return self.made.chosen.get(chosen).is_some_and(|one| one.form == ItemForm::Whole);
        }
        for form in [ItemForm::Whole, ItemForm::Short, ItemForm::Line] {
            let cost = self.cost(at, form);
            if budget.spend(cost) {
                self.choose(at, form, cost, 0, 0, false);
                return form == ItemForm::Whole;
            }
        }
        false
    }

    /// Returns the steps, step lines and messages that are shown in full.
    fn texts_in_full(&mut self) -> Vec<(Class, usize)> {
        let is_text = |one: &&ChosenItem| match one.item.class {
            Class::LastStep | Class::Answer | Class::Context => true,
            Class::StepLine => one.form == ItemForm::Whole,
            _ => false,
        };
        let texts: Vec<ChosenItem> = self.made.chosen.iter().filter(is_text).copied().collect();
        let is_whole = |one: &ChosenItem| {
            one.form >= ItemForm::Bare || self.price.price(&one.item, ItemForm::Whole) <= one.cost
        };
        let whole = texts.into_iter().filter(is_whole);
        whole.map(|one| (one.item.class, one.item.index)).collect()
    }

    /// Removes chosen items that are contained in a text that became complete.
    fn remove_contained_items(&mut self) {
        let texts = self.texts_in_full();
        self.made.chosen.retain(|one| {
            let is_inside = one.item.is_inside(&texts);
            self.budget.refund(if is_inside { one.cost } else { 0 });
            !is_inside
        });
        self.made.texts = texts;
    }

    /// Avoids a partial message next to sentences of it: replaces these by the full message, or
    /// removes the message unless it is the last one.
    fn resolve_partial_messages(&mut self) {
        let of_class = |one: &&ChosenItem| one.item.class == Class::Answer;
        let cut: Vec<ChosenItem> = self.made.chosen.iter().filter(of_class).copied().collect();
        let last = self.items.iter().rfind(|item| item.class == Class::Answer);
        for one in cut.into_iter().filter(|one| one.form < ItemForm::Bare) {
            let text = [(Class::Answer, one.item.index)];
            let sentences = self.made.chosen.iter().filter(|other| other.item.is_inside(&text));
            let costs: Vec<usize> = sentences.map(|sentence| sentence.cost).collect();
            if costs.is_empty() {
                continue;
            }
            let whole = self.price.price(&one.item, ItemForm::Whole);
            if whole <= one.cost {
                continue;
            }
            let room = self.budget.remaining() + costs.iter().sum::<usize>() + one.cost;
            let is_whole = whole <= room;
            if !is_whole && last.is_some_and(|last| last.is_same(&one.item)) {
                continue;
            }
            self.made.chosen.retain_mut(|other| {
                let is_it = other.item.is_same(&one.item);
                if is_it {
                    (other.form, other.cost) = (ItemForm::Whole, whole);
                }
                if is_whole { !other.item.is_inside(&text) } else { !is_it }
            });
            if is_whole {
                self.budget = Budget::new(room - whole);
            } else {
                self.budget.refund(one.cost);
            }
        }
    }

    /// Chooses other items by worth per cost, until the budget is spent or none remains.
    fn choose_worthwhile(&mut self, recipe: &Recipe<'_>) {
        let mut rows: [Option<&RecipeRow>; Class::COUNT] = [None; Class::COUNT];
        for row in recipe.rows {
            if let Some(slot) = rows.get_mut(row.class as usize) {
                *slot = Some(row);
            }
        }
        let row_of = |class: Class| rows.get(class as usize).copied().flatten();
        let texts = self.texts_in_full();
        let open =
            self.items.iter().zip(&self.taken).enumerate().filter(|(_, (_, taken))| !**taken);
        let ranked = open.filter_map(|(at, (item, _))| {
            let row = row_of(item.class).filter(|row| row.weight > 0)?;
            Some((rank(item, row, recipe.by, 0), at, Reverse(0_u8)))
        });
        let mut heap: BinaryHeap<_> = ranked.collect::<Vec<_>>().into();
        let mut shares = GroupBudgets::new(recipe, &self.made.chosen, self.budget.remaining());
        while let Some((_, at, Reverse(counted))) = heap.pop().or_else(|| shares.next_deferred()) {
            let Some(item) = self.items.get(at) else { continue };
            let Some(row) = row_of(item.class) else { continue };
            let count = self.counts.get(item.class as usize).copied().unwrap_or_default();
            if count >= row.max || self.is_closed(item.class) {
                continue;
            }
            if self.budget.remaining() < LEAST {
                break;
            }
            if item.class.price_covers_bytes() && item.bytes > self.budget.remaining()
                || item.is_inside(&texts)
            {
                continue;
            }
            if let Some(line) = self.find_chosen_line(item) {
                let mut budget = self.budget;
                self.lengthen(line, ItemForm::Whole, &mut budget);
                self.budget = budget;
                continue;
            }
            let (repeats, class) = (self.count_repeats(item), item.class);
            if repeats > counted {
                heap.push((rank(item, row, recipe.by, repeats), at, Reverse(repeats)));
                continue;
            }
            let scored = score(item, row, recipe.by, repeats);
            let cost = self.cost(at, ItemForm::Line);
            if shares.must_wait(class, cost) {
                shares.waiting.push((0, at, Reverse(counted)));
            } else if self.budget.spend(cost) {
                shares.spend(class, cost);
                self.choose(at, ItemForm::Line, cost, scored, repeats, false);
            } else {
                self.close_class(Some(row));
            }
        }
    }

    /// Returns the chosen step line that begins with this sentence and so contains it.
    fn find_chosen_line(&self, item: &Item) -> Option<usize> {
        let line = item.inside.filter(|(class, _)| *class == Class::StepLine)?;
        self.made.chosen.iter().position(|one| (one.item.class, one.item.index) == line)
    }

    /// Spends the rest of the budget on longer forms: indispensable items first, then the best.
    fn lengthen_chosen(&mut self) {
        let mut order: Vec<usize> = (0..self.made.chosen.len()).collect();
        order.sort_by_key(|at| {
            let one = self.made.chosen.get(*at);
            Reverse(one.map(|one| (one.is_first, one.score)))
        });
        let mut budget = self.budget;
        for form in [ItemForm::Short, ItemForm::Bare, ItemForm::Squeezed, ItemForm::Whole] {
            for at in &order {
                self.lengthen(*at, form, &mut budget);
            }
        }
        for at in order {
            self.extend_part(at, &mut budget);
        }
        self.budget = budget;
    }

    /// Lengthens a partial text to as many bytes as the budget allows.
    fn extend_part(&mut self, at: usize, budget: &mut Budget) {
        let is_cut =
            |one: &ChosenItem| one.form < ItemForm::Bare && one.item.class.can_be_partial();
        let Some(one) = self.made.chosen.get(at).copied().filter(is_cut) else { return };
        if budget.remaining() < LEAST {
            return;
        }
        let (mut fits, mut bytes, mut step) = (None, 0, PART_BYTES_MAX / 2);
        while step > 0 {
            let form = ItemForm::Part(bytes + step);
            let cost = self.price.price(&one.item, form);
            if cost.saturating_sub(one.cost) <= budget.remaining() {
                (fits, bytes) = (Some((form, cost)), bytes + step);
            }
            step /= 2;
            self.made.visits += 1;
        }
        if let Some((form, cost)) = fits.filter(|(_, cost)| *cost > one.cost)
            && budget.spend(cost - one.cost)
            && let Some(one) = self.made.chosen.get_mut(at)
        {
            (one.form, one.cost) = (form, cost);
        }
    }

    /// Gives a chosen item a longer form, if the budget covers the difference.
    fn lengthen(&mut self, at: usize, form: ItemForm, budget: &mut Budget) {
        let Some(one) = self.made.chosen.get(at).copied().filter(|one| one.form < form) else {
            return;
        };
        self.made.visits += 1;
        if matches!(form, ItemForm::Bare | ItemForm::Squeezed)
            && !one.item.class.has_squeezed_forms()
        {
            return;
        }
        let form = if one.item.class.has_short_form() { form } else { ItemForm::Whole };
        let cost = match one.item.class.has_forms() {
            true => self.price.price(&one.item, form).max(one.cost),
            false => one.cost,
        };
        if budget.spend(cost - one.cost)
            && let Some(one) = self.made.chosen.get_mut(at)
        {
            (one.form, one.cost) = (form, cost);
        }
    }

    /// Returns the number of similar chosen items that have all of its names and numbers.
    fn count_repeats(&self, item: &Item) -> u8 {
        pace::steps(1 + self.made.chosen.len() / SIGNATURES_OF_A_STEP);
        let Some(own) = item.signature else { return 0 };
        let chosen = self.made.chosen.iter().filter_map(|one| one.item.signature);
        let same = chosen.filter(|other| own.is_similar(*other) && own.names_are_subset_of(*other));
        u8::try_from(same.take(usize::from(REPEATS_MAX)).count()).unwrap_or(REPEATS_MAX)
    }

    fn cost(&mut self, at: usize, form: ItemForm) -> usize {
        self.made.visits += 1;
        pace::steps(PRICE_STEPS);
        self.items.get(at).map_or(0, |item| self.price.price(item, form))
    }

    fn choose(
        &mut self,
        at: usize,
        form: ItemForm,
        cost: usize,
        score: usize,
        repeats: u8,
        first: bool,
    ) {
        let Some(item) = self.items.get(at).copied() else { return };
        if let Some(taken) = self.taken.get_mut(at) {
            *taken = true;
        }
        if let Some(count) = self.counts.get_mut(item.class as usize) {
            *count += 1;
        }
        self.made.chosen.push(ChosenItem { item, form, cost, score, repeats, is_first: first });
    }

    /// Returns true if an indispensable item is not complete.
    fn has_cut_item(&mut self) -> bool {
        let grows = |one: &&ChosenItem| one.form < ItemForm::Whole && one.item.class.has_forms();
        let firsts = self.made.chosen.iter().filter(|one| one.is_first).filter(grows);
        let firsts: Vec<ChosenItem> = firsts.copied().collect();
        firsts.iter().any(|one| self.price.price(&one.item, ItemForm::Whole) > one.cost)
    }
}

/// Budgets of a recipe's groups, and the deferred items.
struct GroupBudgets {
    groups: Vec<(ClassShare, Budget)>,
    waiting: Vec<Ranked>,
    are_closed: bool,
}

/// Rank of an item, its index, and the repeats that the rank counts.
type Ranked = (usize, usize, Reverse<u8>);

impl GroupBudgets {
    /// Creates the groups' budgets, less the cost of items already chosen.
    fn new(recipe: &Recipe<'_>, chosen: &[ChosenItem], left: usize) -> Self {
        let spent = |share: &ClassShare| {
            let own = chosen.iter().filter(|one| share.contains(one.item.class));
            own.map(|one| one.cost).sum::<usize>()
        };
        let all = left + chosen.iter().map(|one| one.cost).sum::<usize>();
        let budget = |share: &ClassShare| {
            let mut budget = Budget::new(all).share(share.percent);
            budget.spend_up_to(spent(share));
            budget
        };
        let groups = recipe.shares.iter().map(|share| (*share, budget(share))).collect();
        Self { groups, waiting: Vec::new(), are_closed: false }
    }

    fn must_wait(&self, class: Class, cost: usize) -> bool {
        let group = self.groups.iter().find(|(share, _)| share.contains(class));
        !self.are_closed && group.is_some_and(|(_, budget)| budget.remaining() < cost)
    }

    fn spend(&mut self, class: Class, cost: usize) {
        let group = self.groups.iter_mut().find(|(share, _)| share.contains(class));
        group.into_iter().for_each(|(_, budget)| budget.spend_up_to(cost));
    }

    /// Returns the next deferred item, in the order of deferral.
    fn next_deferred(&mut self) -> Option<Ranked> {
        if !self.are_closed {
            self.are_closed = true;
            self.waiting.reverse();
        }
        self.waiting.pop()
    }
}

/// Computes the score of an item from its class, worth, recency, state, mark, and number of
/// repeats.
fn score(item: &Item, row: &RecipeRow, by: ItemOrder, repeats: u8) -> usize {
    let marked = if item.mark.is_some_and(|mark| mark >= MARK_HIGH) { 2 } else { 1 };
    let recency = match by {
        ItemOrder::Hybrid => 100 + item.recency / 10,
        ItemOrder::Importance | ItemOrder::Vector => 100,
        ItemOrder::Recency => return (marked * item.recency * item.status / 10) >> repeats,
    };
    (row.weight * item.worth * marked / 1_000 * recency / 100 * item.status / 100) >> repeats
}

/// Computes the rank by which items are visited: worth per cost.
fn rank(item: &Item, row: &RecipeRow, by: ItemOrder, repeats: u8) -> usize {
    score(item, row, by, repeats).pow(2) / (item.bytes + RANKED_BYTES)
}

/// Returns the reason for a chosen item as text.
#[must_use]
pub fn explain(chosen: &ChosenItem) -> String {
    let item = &chosen.item;
    let mut words = Vec::new();
    if chosen.is_first {
        words.push("indispensable in this view".to_owned());
    } else {
        words.push(format!("score {}: says {} of 1000", chosen.score, item.worth.min(1_000)));
        words.push(format!("{} % into the session", item.recency));
    }
    if item.status != 100 {
        words.push(format!("its state leaves {} % of that", item.status));
    }
    if let Some(mark) = item.mark {
        words.push(format!("it is marked {mark} of 10"));
    }
    match chosen.repeats {
        0 => {}
        1 => words.push("much of it is shown already, so it counts half".to_owned()),
        _ => words.push("it is shown twice already, so it counts a quarter".to_owned()),
    }
    words.join("; ")
}
