//! Sentences from word tables: a template's `{slot}` is replaced by one of the slot's alternatives,
//! which may contain slots again. It must not know what a sentence is used for.

use super::dice::Dice;

/// Alternatives of slots, by the slot's name.
pub(super) type Words = &'static [(&'static str, &'static [&'static str])];

/// Maximum nesting of slots; deeper ones expand to nothing, so that a recursion ends.
const DEPTH_MAX: usize = 8;

/// Number of alternatives that a writer limits itself to: one agent words its routine in a few
/// habitual ways, but its findings in any.
const HABITS_MAX: usize = 5;
/// Slots of planted facts: all their alternatives are used.
const PLANTED: [&str; 3] = ["told", "subject", "value"];

/// Word tables; the first that contains a slot is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grammar {
    pub(super) tables: [Words; 2],
    /// Seed of the writer's habits; 0: all alternatives are used.
    pub(super) habits: u64,
}

impl Grammar {
    /// Expands one of a slot's alternatives; returns an empty text for an unknown slot.
    pub(super) fn slot(&self, dice: &mut Dice, name: &str) -> String {
        self.expand_template(dice, &format!("{{{name}}}"), 0)
    }

    fn expand_template(&self, dice: &mut Dice, template: &str, depth: usize) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((slot, tail)) = after.split_once('}') else { break };
            out.push_str(before);
            rest = tail;
            match expand_built_in(dice, slot) {
                Some(text) => out.push_str(&text),
                None if depth == DEPTH_MAX => {}
                None => {
                    let all = self.alternatives(slot).unwrap_or_default();
                    let text = all.get(self.choose_alternative(dice, slot, all.len())).copied();
                    out.push_str(&self.expand_template(dice, text.unwrap_or_default(), depth + 1));
                }
            }
        }
        out + rest
    }

    /// Chooses one of `count` alternatives of a slot, among a few neighbours for a writer's habit.
    fn choose_alternative(&self, dice: &mut Dice, slot: &str, count: usize) -> usize {
        if count == 0 {
            return 0;
        }
        if self.habits == 0 || count <= HABITS_MAX || PLANTED.contains(&slot) {
            return dice.below(count);
        }
        let first = Dice::new(self.habits, slot).below(count);
        (first + dice.below(HABITS_MAX)) % count
    }

    fn alternatives(&self, slot: &str) -> Option<&'static [&'static str]> {
        let mut all = self.tables.iter().flat_map(|table| table.iter());
        all.find(|(name, _)| *name == slot).map(|(_, alternatives)| *alternatives)
    }
}

/// Returns a number, name or identifier for a built-in slot.
fn expand_built_in(dice: &mut Dice, slot: &str) -> Option<String> {
    const LETTERS: [char; 12] = ['B', 'C', 'D', 'F', 'H', 'K', 'M', 'P', 'R', 'T', 'V', 'X'];
    let text = match slot {
        "n" => dice.between(2, 10).to_string(),
        "m" => dice.between(11, 990).to_string(),
        "k" => dice.between(1_001, 9_990).to_string(),
        "year" => dice.between(1_710, 1_990).to_string(),
        "share" => format!("{}.{}", dice.between(3, 98), dice.between(1, 10)),
        "clock" => format!("{:02}:{:02}", dice.below(24), dice.below(60)),
        "money" => format!("{}.{:02}", dice.between(20, 4_000), dice.below(100)),
        "code" => {
            format!("{}{}-{}", dice.of(&LETTERS), dice.of(&LETTERS), dice.between(1_000, 9_999))
        }
        "hex" => format!("{:07x}", dice.below(1 << 28)),
        "name" => name(dice),
        _ => return None,
    };
    Some(text)
}

/// Returns an invented surname.
fn name(dice: &mut Dice) -> String {
    const BEGIN: [&str; 14] = [
        "Bar", "Mel", "Sor", "Kal", "Dru", "Pet", "Øst", "Hen", "Iva", "Lis", "Quo", "Tam", "Wen",
        "Zur",
    ];
    const MIDDLE: [&str; 10] =
        ["ten", "vik", "end", "ish", "lon", "ova", "ber", "dis", "gar", "mut"];
    const END: [&str; 10] =
        ["son", "berg", "ski", "etti", "haus", "ley", "mann", "quist", "ríos", "wick"];
    format!("{}{}{}", dice.of(&BEGIN), dice.of(&MIDDLE), dice.of(&END))
}

/// Returns the text with its first letter in upper case.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|c| c.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_with_habits_uses_a_few_alternatives_of_each_slot() {
        let words: Words = &[
            ("work", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
            ("told", &["a", "b", "c", "d", "e", "f", "g", "h", "i"]),
        ];
        let used = |habits, slot| {
            let grammar = Grammar { tables: [words, &[]], habits };
            let mut dice = Dice::new(1, "test");
            let mut all: Vec<String> = (0..200).map(|_| grammar.slot(&mut dice, slot)).collect();
            all.sort();
            all.dedup();
            all
        };
        assert_eq!(
            (used(7, "work").len(), used(7, "told").len(), used(0, "work").len()),
            (5, 9, 9)
        );
        let sets: Vec<_> = (1..9).map(|habits| used(habits, "work")).collect();
        assert!(sets.iter().any(|set| *set != sets[0]), "{sets:?}");
    }

    #[test]
    fn slots_are_expanded_until_none_is_left() {
        let words: Words = &[("a", &["x {b}"]), ("b", &["y {n}"]), ("self", &["{self}!"])];
        let grammar = Grammar { tables: [words, &[]], habits: 0 };
        let mut dice = Dice::new(1, "test");
        let text = grammar.slot(&mut dice, "a");
        assert!(text.starts_with("x y ") && !text.contains('{'), "{text}");
        assert_eq!(grammar.slot(&mut dice, "missing"), "");
        assert_eq!(grammar.slot(&mut dice, "self").matches('!').count(), DEPTH_MAX);
    }
}
