//! The selection under every view.

use sessionlog::{
    harness::select::{Class, Item, ItemForm, Price, Recipe, row, select, shape},
    projection::Signature,
};

struct Bytes;

impl Price for Bytes {
    fn price(&mut self, item: &Item, form: ItemForm) -> usize {
        match form {
            ItemForm::Line => item.bytes.min(20),
            ItemForm::Short => item.bytes.min(60),
            ItemForm::Part(bytes) => item.bytes.min(60.max(bytes as usize)),
            ItemForm::Bare | ItemForm::Squeezed | ItemForm::Whole => item.bytes,
        }
    }
}

const RECIPE: Recipe = Recipe::new(
    &[
        row(Class::Task, 1, 0),
        row(Class::Instruction, 64, 0),
        row(Class::Gap, 0, 900),
        row(Class::Finding, 0, 500),
        row(Class::Failure, 0, 900),
        row(Class::Change, 0, 500),
        row(Class::StepLine, 0, 10).keep_order(),
    ],
    75,
);

fn item(class: Class, index: usize, bytes: usize, worth: usize) -> Item {
    let (recency, status) = (index.min(100), 100);
    Item {
        class,
        index,
        bytes,
        worth,
        recency,
        status,
        mark: None,
        signature: None,
        inside: None,
        position: 0,
    }
}

#[test]
fn indispensable_items_come_first_and_whole_and_the_rest_by_worth() {
    let mut items = vec![item(Class::Task, 0, 50, 0), item(Class::Gap, 0, 20, 500)];
    items.extend((0..9).map(|at| item(Class::Finding, at, 20, 100 * at)));
    let made = select(&items, &RECIPE, 200, &mut Bytes);
    let order: Vec<_> = made.chosen.iter().map(|one| one.item.class).take(2).collect();
    assert_eq!(order, [Class::Task, Class::Gap]);
    assert_eq!(made.indexes(Class::Finding).last(), Some(&(8, ItemForm::Whole)));
    assert!(made.left < 20, "the budget is spent: {made:?}");
    assert!(!made.is_cut);
    let spent: usize = made.chosen.iter().map(|one| one.cost).sum();
    assert_eq!(spent + made.left, 200);
}

#[test]
fn too_many_indispensable_items_are_cut_to_lines_and_the_first_expanded() {
    let mut items = vec![item(Class::Task, 0, 100, 0), item(Class::Gap, 0, 40, 500)];
    items.extend((0..6).map(|at| item(Class::Instruction, at, 100, 0)));
    let made = select(&items, &RECIPE, 240, &mut Bytes);
    assert!(made.is_cut);
    assert_eq!(made.indexes(Class::Instruction).len(), 6, "{made:?}");
    assert_eq!(made.indexes(Class::Gap).len(), 1, "others have a quarter");
    let task = made.chosen.first().expect("the task");
    assert!(task.form > ItemForm::Line, "{made:?}");
    let tight = select(&items, &RECIPE, 80, &mut Bytes);
    let kept: Vec<usize> = tight.indexes(Class::Instruction).iter().map(|(at, _)| *at).collect();
    assert_eq!(kept, [4, 5], "the newest stay");
}

#[test]
fn a_repeat_is_worth_half_and_needs_the_same_names() {
    let signed = |index, words, names| Item {
        signature: Some(Signature::new(words, names)),
        ..item(Class::Finding, index, 20, 500)
    };
    let plain = item(Class::Finding, 3, 20, 300);
    let items = [signed(0, 0b111, 0b1), signed(1, 0b111, 0b1), signed(2, 0b111, 0b10), plain];
    let made = select(&items, &RECIPE, 60, &mut Bytes);
    let places: Vec<usize> = made.indexes(Class::Finding).iter().map(|(at, _)| *at).collect();
    assert!(places.contains(&2) && places.contains(&3), "{places:?}");
    assert_eq!(places.len(), 3);
}

#[test]
fn the_newest_step_lines_are_selected_without_gaps() {
    let mut items: Vec<Item> = (0..9).map(|at| item(Class::StepLine, at, 20, 500)).collect();
    items.push(item(Class::Gap, 0, 20, 900));
    let made = select(&items, &RECIPE, 90, &mut Bytes);
    let places: Vec<usize> = made.indexes(Class::StepLine).iter().map(|(at, _)| *at).collect();
    assert_eq!(places, [6, 7, 8]);
}

#[test]
fn a_selection_examines_each_item_a_bounded_number_of_times() {
    let signature = Some(Signature::new(7, 0));
    let findings = (0..1_000).map(|at| item(Class::Finding, at, 30, 500));
    let items: Vec<Item> = findings.map(|one| Item { signature, ..one }).collect();
    let made = select(&items, &RECIPE, 10_000, &mut Bytes);
    assert!(made.visits <= 4 * items.len(), "{}", made.visits);
}

#[test]
fn step_lines_are_all_kept_and_expanded_last() {
    const SHAPED: Recipe = Recipe {
        rows: &[
            shape(Class::Task, 1, 0),
            shape(Class::StepLine, 3, 10).keep_order().grow_last(),
            row(Class::Finding, 0, 500),
        ],
        ..RECIPE
    };
    let mut items = vec![item(Class::Task, 0, 60, 0)];
    items.extend((0..5).map(|at| item(Class::StepLine, at, 60, 100)));
    items.extend((0..9).map(|at| item(Class::Finding, at, 20, 900)));
    let made = select(&items, &SHAPED, 200, &mut Bytes);
    let lines = [(2, ItemForm::Line), (3, ItemForm::Line), (4, ItemForm::Line)];
    assert_eq!(made.indexes(Class::StepLine), lines, "{made:?}");
    assert_eq!(made.indexes(Class::Task), [(0, ItemForm::Whole)]);
    assert_eq!(made.indexes(Class::Finding).len(), 4, "what the shape and the task leave");
    let tight = select(&items, &SHAPED, 60, &mut Bytes);
    assert_eq!(tight.indexes(Class::StepLine).len(), 2);
    assert!(tight.is_cut);
}

#[test]
fn the_newest_messages_come_whole_before_higher_scored_items() {
    const TALK: Recipe = Recipe {
        rows: &[row(Class::Result, 0, 10), row(Class::Finding, 0, 900)],
        newest: &[Class::Result],
        newest_percent: 50,
        ..RECIPE
    };
    let result = |at| Item { position: at as u64, ..item(Class::Result, at, 100, 1) };
    let mut items: Vec<Item> = (0..4).map(result).collect();
    let inside = Some((Class::Result, 3));
    items.extend((0..20).map(|at| item(Class::Finding, at, 20, 900)));
    items.push(Item { inside, ..item(Class::Finding, 20, 20, 999) });
    let made = select(&items, &TALK, 300, &mut Bytes);
    assert!(made.indexes(Class::Result).contains(&(3, ItemForm::Whole)), "{made:?}");
    assert!(made.indexes(Class::Finding).len() >= 5, "half is left to others: {made:?}");
    let rest = select(&items[..4], &TALK, 1_000, &mut Bytes);
    assert_eq!(rest.indexes(Class::Result).len(), 4, "and all of what others leave");
    assert!(rest.indexes(Class::Result).iter().all(|(_, form)| *form == ItemForm::Whole));
}

#[test]
fn the_remaining_budget_is_spent_on_longer_forms() {
    let items = [item(Class::Failure, 0, 300, 900), item(Class::Change, 0, 300, 100)];
    let made = select(&items, &RECIPE, 340, &mut Bytes);
    let forms: Vec<_> = made.chosen.iter().map(|one| (one.item.class, one.form)).collect();
    assert_eq!(forms, [(Class::Failure, ItemForm::Short), (Class::Change, ItemForm::Short)]);
    let made = select(&items, &RECIPE, 400, &mut Bytes);
    assert_eq!(made.chosen.first().map(|one| one.form), Some(ItemForm::Whole));
}
