//! SELECT: which items of a session a view shows, within a budget. Every view is a recipe over this
//! one function: the indispensable items first, then those worth most for their cost until the
//! budget is spent, then longer forms of what was chosen. Whole numbers only, so that the same
//! facts give the same view on every machine. It must not look at a text: items carry what is
//! needed, and the view prices and renders them.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use super::budget::Budget;
pub use super::class::Class;
use crate::{event::pace, projection::Signature};

/// Bytes that every item costs on top of its own when items are ranked: without it one word would
/// beat a sentence.
const RANKED_BYTES: usize = 100;
/// Steps that the price of an item takes, and signatures that are compared within one.
const PRICE_STEPS: usize = 8;
const SIGNATURES_OF_A_STEP: usize = 64;
/// Budget, in the view's unit, below which no further item is tried.
const LEAST: usize = 8;
/// The least status of an item that is indispensable: not that of a change that failed, nor of what
/// an earlier session of a line has.
const INDISPENSABLE_STATUS: usize = 50;
/// From this mark on (1 to 10) an item counts twice.
const MARK_HIGH: u8 = 8;
/// The highest mark: what a person marked comes before everything else.
pub(super) const MARK_MAX: u8 = 10;
/// Items that a person marked and that are indispensable for it.
const MARKED_MAX: usize = 64;
/// Items of a conversation that are not shown whole before older ones are not tried.
const MISSES_MAX: usize = 4;
/// One in so many parts of the room that is left, above which an item waits for the others.
const ROOM_OF_ONE: usize = 2;
/// Most items that wait.
const WAITING_MAX: usize = 16;
/// Bytes of a text that is shown in part: a power of two.
const PART_BYTES_MAX: u32 = 1 << 20;
/// A repeat counts half, a further one a quarter, and no less.
const REPEATS_MAX: u8 = 2;

/// Extent to which an item is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// One line.
    Line,
    /// The bytes of its class: whole when it is short, else its beginning and its end.
    Short,
    /// The same, of more bytes: as many as there is room for.
    Part(u32),
    /// All of it without comments and without needless white space.
    Bare,
    /// All of it without needless white space.
    Squeezed,
    /// All of it.
    Whole,
}

impl Form {
    /// Its name.
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
    /// Its kind.
    pub class: Class,
    /// Its place in the list of its kind.
    pub place: usize,
    /// Approximate bytes of its shortest form.
    pub bytes: usize,
    /// Its worth, from 0 to about 1 000: the rarity of its words, 500 when not judged.
    pub worth: usize,
    /// Its recency, from 0 (the beginning of the session) to 100 (its end).
    pub recency: usize,
    /// Share of the worth that its state leaves, in percent: less for closed or superseded items.
    pub status: usize,
    /// The user's mark, from 1 to 10.
    pub mark: Option<u8>,
    /// Its signature, where repeats are worth less.
    pub signature: Option<Signature>,
    /// The text that contains it, by class and place: it is left out where that is shown whole.
    pub inside: Option<(Class, usize)>,
    /// The position of its event; 0 where it is of none.
    pub position: u64,
}

impl Item {
    /// True if both are the same item.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.class, self.place) == (other.class, other.place)
    }

    /// True if one of these texts contains it.
    fn is_inside(&self, texts: &[(Class, usize)]) -> bool {
        self.inside.is_some_and(|text| texts.contains(&text))
    }
}

/// Rules of a recipe for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecipeRow {
    /// The class.
    pub class: Class,
    /// Number of the newest that belong to the shape of the view: each keeps its shortest form
    /// before anything else is served.
    pub shape: usize,
    /// Number of the newest that are indispensable: they share [`Recipe::first_percent`] of what
    /// the shape leaves.
    pub first: usize,
    /// Worth of a further one, against other classes; 0: no further one is shown.
    pub weight: usize,
    /// Maximum shown.
    pub max: usize,
    /// True if an item is shown only with all that are newer: an index without holes.
    pub in_order: bool,
    /// True if items grow only when nothing else is left to show.
    pub grows_last: bool,
}

/// The table by which a view chooses.
#[derive(Clone, Copy, Debug)]
pub struct Recipe<'a> {
    /// Its classes, in the order in which the indispensable grow.
    pub rows: &'static [RecipeRow],
    /// Most of what the shape leaves for the indispensable items, in percent, while others wait.
    pub first_percent: usize,
    /// Classes whose newest items are shown whole, as a window of the conversation shows them.
    pub newest: &'static [Class],
    /// Most of what is left then for these, in percent, while others wait; then all of the rest.
    pub newest_percent: usize,
    /// Groups of classes, each with its share of the budget in percent: beyond it an item waits
    /// until none of the others is left. What a group does not use goes to the others.
    pub shares: &'a [Share],
    /// By what the items are ordered.
    pub by: By,
}

/// A group of classes, and its share of the budget in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its name.
    pub name: &'static str,
    /// Its classes, list by list.
    pub classes: &'static [&'static [Class]],
    /// Its share, in percent.
    pub percent: usize,
}

impl Share {
    /// True if a class is one of its.
    pub(super) fn has(&self, class: Class) -> bool {
        self.classes.iter().any(|classes| classes.contains(&class))
    }
}

/// By what items are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By their class, worth, recency, state and marks.
    #[default]
    Hybrid,
    /// The newest first.
    Recency,
    /// By the same as `Hybrid`, but for recency.
    Importance,
    /// By their class, state and marks, and how alike they are to what the user wants: the caller
    /// sets that as their worth.
    Vector,
}

impl By {
    /// Every one.
    pub const ALL: [Self; 4] = [Self::Hybrid, Self::Recency, Self::Importance, Self::Vector];

    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hybrid => "hybrid",
            Self::Recency => "recency",
            Self::Importance => "importance",
            Self::Vector => "vector",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

impl Recipe<'static> {
    /// A recipe of these rows, without a conversation.
    #[must_use]
    pub const fn new(rows: &'static [RecipeRow], first_percent: usize) -> Self {
        let (newest, newest_percent): (&[Class], usize) = (&[], 0);
        Self { rows, first_percent, newest, newest_percent, shares: &[], by: By::Hybrid }
    }
}

/// A row without bounds: `first` of the newest are indispensable, the others are worth `weight`.
#[must_use]
pub const fn row(class: Class, first: usize, weight: usize) -> RecipeRow {
    let (shape, max) = (0, usize::MAX);
    RecipeRow { class, shape, first, weight, max, in_order: false, grows_last: false }
}

/// The same, of which so many belong to the shape.
#[must_use]
pub const fn shape(class: Class, count: usize, weight: usize) -> RecipeRow {
    RecipeRow { shape: count, ..row(class, count, weight) }
}

impl RecipeRow {
    /// The same row for an index without holes.
    #[must_use]
    pub const fn in_order(self) -> Self {
        Self { in_order: true, ..self }
    }

    /// The same row, of items that grow last.
    #[must_use]
    pub const fn grows_last(self) -> Self {
        Self { grows_last: true, ..self }
    }
}

/// An item that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The item.
    pub item: Item,
    /// In which form.
    pub form: Form,
    /// Cost of that, in the view's unit.
    pub cost: usize,
    /// Its score when it was chosen.
    pub score: usize,
    /// Number of equal items chosen before, up to 2.
    pub repeats: u8,
    /// True if it is indispensable.
    pub is_first: bool,
}

/// The result of a selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The chosen, in the order in which they were chosen.
    pub chosen: Vec<Chosen>,
    /// The unspent budget.
    pub left: usize,
    /// True if something indispensable was shortened or left out.
    pub is_cut: bool,
    /// The steps and messages that are shown whole: what they contain is left out.
    pub texts: Vec<(Class, usize)>,
    /// Items visited: the cost of the selection.
    pub visits: usize,
}

impl Selection {
    /// The chosen of a class with their forms, by their places, ascending.
    #[must_use]
    pub fn places(&self, class: Class) -> Vec<(usize, Form)> {
        let chosen = self.chosen.iter().filter(|one| one.item.class == class);
        let mut places: Vec<(usize, Form)> = chosen.map(|one| (one.item.place, one.form)).collect();
        places.sort_unstable_by_key(|(place, _)| *place);
        places
    }

    /// True if a text that is shown whole contains the item.
    #[must_use]
    pub fn contains(&self, item: &Item) -> bool {
        item.is_inside(&self.texts)
    }
}

/// Costs of items by form, in the unit of the budget.
pub trait Price {
    /// The cost. Never less for a longer form.
    fn price(&mut self, item: &Item, form: Form) -> usize;
}

/// Chooses the items of a view. Items of one class come in ascending order: the newest last.
///
/// Each item is visited a bounded number of times, whatever the session's length.
#[must_use]
pub fn select(
    items: &[Item],
    recipe: &Recipe<'_>,
    budget: usize,
    price: &mut dyn Price,
) -> Selection {
    let mut choice = Selecting {
        items,
        price,
        budget: Budget::new(budget),
        taken: vec![false; items.len()],
        counts: [0; Class::COUNT],
        closed: [false; Class::COUNT],
        made: Selection::default(),
    };
    choice.indispensable(recipe);
    choice.newest_whole(recipe, recipe.newest_percent);
    choice.worthwhile(recipe);
    choice.newest_whole(recipe, 100);
    choice.grow();
    choice.without_parts_of_messages();
    choice.without_repeats_of_texts();
    choice.made.is_cut |= choice.is_any_cut();
    choice.made.left = choice.budget.left();
    choice.made
}

struct Selecting<'a> {
    items: &'a [Item],
    price: &'a mut dyn Price,
    budget: Budget,
    taken: Vec<bool>,
    counts: [usize; Class::COUNT],
    /// Classes of which no further item is taken.
    closed: [bool; Class::COUNT],
    made: Selection,
}

impl Selecting<'_> {
    /// Takes the indispensable items: the shape from the whole budget, a line of each, then the
    /// others within their share of the rest; then they grow, class by class, within that share.
    fn indispensable(&mut self, recipe: &Recipe<'_>) {
        let shape = self.newest(recipe, 0, |row| 0..row.shape);
        let others = self.newest(recipe, INDISPENSABLE_STATUS, |row| row.shape..row.first);
        let others = self.marked_first(recipe, &shape, others);
        let all = shape.len() + others.len() == self.items.len();
        let mut whole = self.budget;
        self.take_lines(&shape, recipe, &mut whole);
        let mut budget = if all { whole } else { whole.share(recipe.first_percent) };
        let cap = budget.left();
        self.take_lines(&others, recipe, &mut budget);
        // The task of an earlier session of a line grows after the words of the session itself.
        for is_first in [true, false] {
            for row in recipe.rows.iter().filter(|row| !row.grows_last) {
                for at in 0..self.made.chosen.len() {
                    let is_meant = |item: &Item| {
                        item.class == row.class && (item.status >= INDISPENSABLE_STATUS) == is_first
                    };
                    if self.made.chosen.get(at).is_some_and(|one| is_meant(&one.item)) {
                        self.lengthen(at, Form::Short, &mut budget);
                    }
                }
            }
        }
        whole.spend(cap - budget.left());
        self.budget = whole;
    }

    /// The places of the newest items of each row within a range, of those with a status of so much
    /// at least, by turns: the newest of each class first, then the next of each, so that no class
    /// takes the whole budget.
    fn newest(
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

    /// Puts what a person marked, the newest first, before the other indispensable items.
    fn marked_first(&self, recipe: &Recipe<'_>, shape: &[usize], others: Vec<usize>) -> Vec<usize> {
        let is_there = |text| self.items.iter().any(|item| (item.class, item.place) == text);
        let is_marked = |at: &usize| {
            let item = self.items.get(*at).filter(|item| item.mark == Some(MARK_MAX));
            // Of a sentence the text that contains it is shown, where the view has that.
            let item = item.filter(|item| !item.inside.is_some_and(is_there));
            let row = item.and_then(|item| recipe.rows.iter().find(|row| row.class == item.class));
            row.is_some_and(|row| !row.in_order)
        };
        let marked = (0..self.items.len()).rev().filter(is_marked);
        let marked = marked.filter(|at| !shape.contains(at)).take(MARKED_MAX).collect::<Vec<_>>();
        let others = others.into_iter().filter(|at| !marked.contains(at)).collect::<Vec<_>>();
        [marked, others].concat()
    }

    /// Takes indispensable items in their shortest form, as far as the budget has room.
    fn take_lines(&mut self, places: &[usize], recipe: &Recipe<'_>, budget: &mut Budget) {
        for at in places {
            let Some(item) = self.items.get(*at) else { continue };
            let class = item.class;
            let cost = self.cost(*at, Form::Line);
            if !self.is_closed(class) && budget.spend(cost) {
                self.take(*at, Form::Line, cost, 0, 0, true);
            } else {
                self.made.is_cut = true;
                self.close(recipe.rows.iter().find(|row| row.class == class));
            }
        }
    }

    fn is_closed(&self, class: Class) -> bool {
        self.closed.get(class as usize).copied().unwrap_or_default()
    }

    /// Takes no further item of a class that is shown without holes.
    fn close(&mut self, row: Option<&RecipeRow>) {
        if let Some(row) = row.filter(|row| row.in_order)
            && let Some(closed) = self.closed.get_mut(row.class as usize)
        {
            *closed = true;
        }
    }

    /// Takes the newest items of a conversation as they are, or as much of them as there is room
    /// for, within a share of what is left.
    fn newest_whole(&mut self, recipe: &Recipe<'_>, percent: usize) {
        if recipe.newest.is_empty() {
            return;
        }
        let of_talk = self.items.iter().enumerate();
        let of_talk = of_talk.filter(|(_, item)| recipe.newest.contains(&item.class));
        let mut order: Vec<(u64, usize)> = of_talk.map(|(at, item)| (item.position, at)).collect();
        order.sort_unstable_by(|a, b| b.cmp(a));
        let mut budget = self.budget.share(percent);
        let cap = budget.left();
        let mut misses = 0;
        let mut waiting = Vec::new();
        for (_, at) in order {
            if misses == MISSES_MAX || budget.left() < LEAST {
                break;
            }
            // What becomes whole for little comes before what takes the room of several.
            if waiting.len() < WAITING_MAX && self.rest(at) > budget.left() / ROOM_OF_ONE {
                waiting.push(at);
            } else if !self.take_longest(at, &mut budget) {
                misses += 1;
            }
        }
        for at in waiting {
            if budget.left() >= LEAST {
                self.take_longest(at, &mut budget);
            }
        }
        self.budget.spend(cap - budget.left());
    }

    /// Cost of an item shown whole, beyond what is spent on it.
    fn rest(&mut self, at: usize) -> usize {
        let whole = self.cost(at, Form::Whole);
        let item = self.items.get(at);
        let is_it = |one: &&Chosen| item.is_some_and(|item| one.item.is(item));
        whole.saturating_sub(self.made.chosen.iter().find(is_it).map_or(0, |one| one.cost))
    }

    /// Takes an item in the longest form that the budget has room for, or gives a chosen one that
    /// form; returns whether it is whole.
    fn take_longest(&mut self, at: usize, budget: &mut Budget) -> bool {
        let Some(item) = self.items.get(at).copied() else { return true };
        if let Some(chosen) = self.made.chosen.iter().position(|one| one.item.is(&item)) {
            self.lengthen(chosen, Form::Whole, budget);
            self.lengthen(chosen, Form::Short, budget);
            return self.made.chosen.get(chosen).is_some_and(|one| one.form == Form::Whole);
        }
        for form in [Form::Whole, Form::Short, Form::Line] {
            let cost = self.cost(at, form);
            if budget.spend(cost) {
                self.take(at, form, cost, 0, 0, false);
                return form == Form::Whole;
            }
        }
        false
    }

    /// The steps, lines of steps and messages that are shown whole.
    fn whole_texts(&mut self) -> Vec<(Class, usize)> {
        let is_text = |one: &&Chosen| match one.item.class {
            Class::LastStep | Class::Answer | Class::Context => true,
            Class::StepLine => one.form == Form::Whole,
            _ => false,
        };
        let texts: Vec<Chosen> = self.made.chosen.iter().filter(is_text).copied().collect();
        let is_whole = |one: &Chosen| {
            one.form >= Form::Bare || self.price.price(&one.item, Form::Whole) <= one.cost
        };
        let whole = texts.into_iter().filter(is_whole);
        whole.map(|one| (one.item.class, one.item.place)).collect()
    }

    /// Takes out what a text contains that has grown to be whole since.
    fn without_repeats_of_texts(&mut self) {
        let texts = self.whole_texts();
        self.made.chosen.retain(|one| {
            let is_inside = one.item.is_inside(&texts);
            self.budget.give_back(if is_inside { one.cost } else { 0 });
            !is_inside
        });
        self.made.texts = texts;
    }

    /// Shows no message in part beside sentences of it: it is shown whole in their room, or not at
    /// all unless it is the last one.
    fn without_parts_of_messages(&mut self) {
        let of_class = |one: &&Chosen| one.item.class == Class::Answer;
        let cut: Vec<Chosen> = self.made.chosen.iter().filter(of_class).copied().collect();
        let last = self.items.iter().rfind(|item| item.class == Class::Answer);
        for one in cut.into_iter().filter(|one| one.form < Form::Bare) {
            let text = [(Class::Answer, one.item.place)];
            let sentences = self.made.chosen.iter().filter(|other| other.item.is_inside(&text));
            let costs: Vec<usize> = sentences.map(|sentence| sentence.cost).collect();
            if costs.is_empty() {
                continue;
            }
            let whole = self.price.price(&one.item, Form::Whole);
            if whole <= one.cost {
                continue;
            }
            let room = self.budget.left() + costs.iter().sum::<usize>() + one.cost;
            let is_whole = whole <= room;
            if !is_whole && last.is_some_and(|last| last.is(&one.item)) {
                continue;
            }
            self.made.chosen.retain_mut(|other| {
                let is_it = other.item.is(&one.item);
                if is_it {
                    (other.form, other.cost) = (Form::Whole, whole);
                }
                if is_whole { !other.item.is_inside(&text) } else { !is_it }
            });
            if is_whole {
                self.budget = Budget::new(room - whole);
            } else {
                self.budget.give_back(one.cost);
            }
        }
    }

    /// Takes the other items by worth per cost, until the budget is spent or none is left.
    fn worthwhile(&mut self, recipe: &Recipe<'_>) {
        let mut rows: [Option<&RecipeRow>; Class::COUNT] = [None; Class::COUNT];
        for row in recipe.rows {
            if let Some(place) = rows.get_mut(row.class as usize) {
                *place = Some(row);
            }
        }
        let row_of = |class: Class| rows.get(class as usize).copied().flatten();
        let texts = self.whole_texts();
        let open =
            self.items.iter().zip(&self.taken).enumerate().filter(|(_, (_, taken))| !**taken);
        let ranked = open.filter_map(|(at, (item, _))| {
            let row = row_of(item.class).filter(|row| row.weight > 0)?;
            Some((rank(item, row, recipe.by, 0), at, Reverse(0_u8)))
        });
        let mut heap: BinaryHeap<_> = ranked.collect::<Vec<_>>().into();
        let mut shares = Shares::new(recipe, &self.made.chosen, self.budget.left());
        while let Some((_, at, Reverse(counted))) = heap.pop().or_else(|| shares.next_waiting()) {
            let Some(item) = self.items.get(at) else { continue };
            let Some(row) = row_of(item.class) else { continue };
            let count = self.counts.get(item.class as usize).copied().unwrap_or_default();
            if count >= row.max || self.is_closed(item.class) {
                continue;
            }
            if self.budget.left() < LEAST {
                break;
            }
            if item.class.has_least_bytes() && item.bytes > self.budget.left()
                || item.is_inside(&texts)
            {
                continue;
            }
            if let Some(line) = self.line_of(item) {
                let mut budget = self.budget;
                self.lengthen(line, Form::Whole, &mut budget);
                self.budget = budget;
                continue;
            }
            let (repeats, class) = (self.repeats(item), item.class);
            if repeats > counted {
                heap.push((rank(item, row, recipe.by, repeats), at, Reverse(repeats)));
                continue;
            }
            let scored = score(item, row, recipe.by, repeats);
            let cost = self.cost(at, Form::Line);
            if shares.must_wait(class, cost) {
                shares.waiting.push((0, at, Reverse(counted)));
            } else if self.budget.spend(cost) {
                shares.spend(class, cost);
                self.take(at, Form::Line, cost, scored, repeats, false);
            } else {
                self.close(Some(row));
            }
        }
    }

    /// The chosen line of the step that begins with this sentence: it tells the sentence.
    fn line_of(&self, item: &Item) -> Option<usize> {
        let line = item.inside.filter(|(class, _)| *class == Class::StepLine)?;
        self.made.chosen.iter().position(|one| (one.item.class, one.item.place) == line)
    }

    /// Spends the rest of the budget on longer forms: of the indispensable first, then of the best.
    fn grow(&mut self) {
        let mut order: Vec<usize> = (0..self.made.chosen.len()).collect();
        order.sort_by_key(|at| {
            let one = self.made.chosen.get(*at);
            Reverse(one.map(|one| (one.is_first, one.score)))
        });
        let mut budget = self.budget;
        for form in [Form::Short, Form::Bare, Form::Squeezed, Form::Whole] {
            for at in &order {
                self.lengthen(*at, form, &mut budget);
            }
        }
        for at in order {
            self.stretch(at, &mut budget);
        }
        self.budget = budget;
    }

    /// Gives a chosen text that is cut as many bytes as the budget has room for.
    fn stretch(&mut self, at: usize, budget: &mut Budget) {
        let is_cut = |one: &Chosen| one.form < Form::Bare && one.item.class.has_parts();
        let Some(one) = self.made.chosen.get(at).copied().filter(is_cut) else { return };
        if budget.left() < LEAST {
            return;
        }
        let (mut fits, mut bytes, mut step) = (None, 0, PART_BYTES_MAX / 2);
        while step > 0 {
            let form = Form::Part(bytes + step);
            let cost = self.price.price(&one.item, form);
            if cost.saturating_sub(one.cost) <= budget.left() {
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

    /// Gives a chosen item a longer form, if the budget has the difference.
    fn lengthen(&mut self, at: usize, form: Form, budget: &mut Budget) {
        let Some(one) = self.made.chosen.get(at).copied().filter(|one| one.form < form) else {
            return;
        };
        self.made.visits += 1;
        if matches!(form, Form::Bare | Form::Squeezed) && !one.item.class.has_squeezed() {
            return;
        }
        let form = if one.item.class.has_short() { form } else { Form::Whole };
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

    /// Number of chosen items that repeat an item: with all of its names and numbers.
    fn repeats(&self, item: &Item) -> u8 {
        pace::steps(1 + self.made.chosen.len() / SIGNATURES_OF_A_STEP);
        let Some(own) = item.signature else { return 0 };
        let chosen = self.made.chosen.iter().filter_map(|one| one.item.signature);
        let same = chosen.filter(|other| own.is_like(*other) && own.names_within(*other));
        u8::try_from(same.take(usize::from(REPEATS_MAX)).count()).unwrap_or(REPEATS_MAX)
    }

    fn cost(&mut self, at: usize, form: Form) -> usize {
        self.made.visits += 1;
        pace::steps(PRICE_STEPS);
        self.items.get(at).map_or(0, |item| self.price.price(item, form))
    }

    fn take(&mut self, at: usize, form: Form, cost: usize, score: usize, repeats: u8, first: bool) {
        let Some(item) = self.items.get(at).copied() else { return };
        if let Some(taken) = self.taken.get_mut(at) {
            *taken = true;
        }
        if let Some(count) = self.counts.get_mut(item.class as usize) {
            *count += 1;
        }
        self.made.chosen.push(Chosen { item, form, cost, score, repeats, is_first: first });
    }

    /// True if something indispensable is not whole.
    fn is_any_cut(&mut self) -> bool {
        let grows = |one: &&Chosen| one.form < Form::Whole && one.item.class.has_forms();
        let firsts = self.made.chosen.iter().filter(|one| one.is_first).filter(grows);
        let firsts: Vec<Chosen> = firsts.copied().collect();
        firsts.iter().any(|one| self.price.price(&one.item, Form::Whole) > one.cost)
    }
}

/// Spending of the groups of a recipe, and the items that wait.
struct Shares {
    groups: Vec<(Share, Budget)>,
    waiting: Vec<Ranked>,
    are_closed: bool,
}

/// The rank of an item, its place, and the repeats that the rank counts.
type Ranked = (usize, usize, Reverse<u8>);

impl Shares {
    /// The shares of the budget, of which the chosen have spent theirs.
    fn new(recipe: &Recipe<'_>, chosen: &[Chosen], left: usize) -> Self {
        let spent = |share: &Share| {
            let own = chosen.iter().filter(|one| share.has(one.item.class));
            own.map(|one| one.cost).sum::<usize>()
        };
        let all = left + chosen.iter().map(|one| one.cost).sum::<usize>();
        let budget = |share: &Share| {
            let mut budget = Budget::new(all).share(share.percent);
            budget.spend_up_to(spent(share));
            budget
        };
        let groups = recipe.shares.iter().map(|share| (*share, budget(share))).collect();
        Self { groups, waiting: Vec::new(), are_closed: false }
    }

    fn must_wait(&self, class: Class, cost: usize) -> bool {
        let group = self.groups.iter().find(|(share, _)| share.has(class));
        !self.are_closed && group.is_some_and(|(_, budget)| budget.left() < cost)
    }

    fn spend(&mut self, class: Class, cost: usize) {
        let group = self.groups.iter_mut().find(|(share, _)| share.has(class));
        group.into_iter().for_each(|(_, budget)| budget.spend_up_to(cost));
    }

    /// The next item that waited for the others, in their order.
    fn next_waiting(&mut self) -> Option<Ranked> {
        if !self.are_closed {
            self.are_closed = true;
            self.waiting.reverse();
        }
        self.waiting.pop()
    }
}

/// Score of an item: its class, its worth, its age, its state, the user's mark, and how much of it
/// is shown already.
fn score(item: &Item, row: &RecipeRow, by: By, repeats: u8) -> usize {
    let marked = if item.mark.is_some_and(|mark| mark >= MARK_HIGH) { 2 } else { 1 };
    let recency = match by {
        By::Hybrid => 100 + item.recency / 10,
        By::Importance | By::Vector => 100,
        By::Recency => return (marked * item.recency * item.status / 10) >> repeats,
    };
    (row.weight * item.worth * marked / 1_000 * recency / 100 * item.status / 100) >> repeats
}

/// The order in which items are visited: worth per cost.
fn rank(item: &Item, row: &RecipeRow, by: By, repeats: u8) -> usize {
    score(item, row, by, repeats).pow(2) / (item.bytes + RANKED_BYTES)
}

/// Reason for which an item was chosen, in words.
#[must_use]
pub fn why(chosen: &Chosen) -> String {
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
