//! Draws four consecutive words of turns from a seed, like the part of a sentence that users
//! remember. It must not draw words that occur in two turns: neither would be right.

use std::collections::HashMap;

use super::set::{Conversation, Place};
use crate::eval::dice::Dice;

/// Number of words drawn of a turn, and maximum turns of a conversation.
const WORDS: usize = 4;
const TURNS_MAX: usize = 200;
const SEED: u64 = 1;

/// Words drawn from a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draw {
    pub(super) turn: Place,
    pub(super) words: String,
}

/// Returns the draws of a conversation, and the number rejected because another turn has the words.
pub(super) fn draws(said: &Conversation) -> (Vec<Draw>, usize) {
    let words = |text: &str| -> Vec<String> {
        let is_word = |word: &&str| word.contains(char::is_alphanumeric);
        text.split_whitespace().filter(is_word).map(str::to_owned).collect()
    };
    let mut turns: Vec<(Place, Vec<String>)> = Vec::new();
    // Maps four words to the turn that has them, or to `None` if two turns do.
    let mut owners: HashMap<String, Option<Place>> = HashMap::new();
    for (at, session) in said.sessions.iter().enumerate() {
        for (number, turn) in session.turns.iter().enumerate() {
            let (place, words) = ((at, number), words(&turn.text));
            for run in words.windows(WORDS) {
                let owner = owners.entry(normalised(run)).or_insert(Some(place));
                *owner = owner.filter(|owner| *owner == place);
            }
            if words.len() >= WORDS {
                turns.push((place, words));
            }
        }
    }
    let mut dice = Dice::new(SEED, "four words");
    dice.shuffle(&mut turns);
    turns.truncate(TURNS_MAX);
    let count = turns.len();
    let draw = |(turn, words): (Place, Vec<String>)| {
        let from = dice.below(words.len() - WORDS + 1);
        let run = words.get(from..from + WORDS)?;
        owners.get(&normalised(run))?.as_ref()?;
        Some(Draw { turn, words: run.join(" ") })
    };
    let draws: Vec<Draw> = turns.into_iter().filter_map(draw).collect();
    let left_out = count - draws.len();
    (draws, left_out)
}

/// Normalises words: without case and punctuation.
fn normalised(words: &[String]) -> String {
    let word = |word: &String| -> String {
        word.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::{
        super::set::{Session, Turn},
        *,
    };

    #[test]
    fn words_in_two_turns_are_not_drawn_and_draws_repeat() {
        let turn = |text: &str| Turn { text: text.to_owned(), ..Turn::default() };
        let turns = ["Five red boats came - in", "so it was then", "So, it was then!", "no"];
        let turns = turns.map(turn).to_vec();
        let said = Conversation {
            sessions: vec![Session { turns, ..Session::default() }],
            ..Conversation::default()
        };
        let (found, left_out) = draws(&said);
        assert_eq!((found.len(), left_out), (1, 2), "{found:?}");
        assert_eq!(found[0].turn, (0, 0));
        let words = found[0].words.as_str();
        assert!(matches!(words, "Five red boats came" | "red boats came in"), "{words}");
        assert_eq!(draws(&said), (found, left_out));
    }
}
