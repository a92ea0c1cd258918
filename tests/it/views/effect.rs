//! Benefit of the transforms on real conversations: tokens saved, and the share of a window that
//! equals the beginning of the previous one, which a prompt cache has. The figures are printed and
//! published in docs/views.md; here each transform is only shown to have its effect.

use sessionlog::{
    api::window::WindowShape,
    event::{Event, Position},
    harness::{Counter as _, Tokenizer, Transform, WindowParameters},
    projection::WithdrawnRanges,
};

use super::{property, real};
use crate::say;

/// Token budget of a window, about half of a conversation.
const BUDGET: usize = 4_000;

/// Sums over windows.
#[derive(Default)]
struct Sum {
    windows: usize,
    tokens: usize,
    /// Tokens at the beginning that are equal to those of the previous window.
    kept: usize,
    /// Number of positions omitted for the budget.
    left_out: u64,
}

/// Builds a window before each turn of the model and adds it to the sum.
fn measure(events: &[Event], names: &str, tokens_max: usize, sum: &mut Sum) {
    let names = names.split(' ').filter(|name| !name.is_empty());
    let plan = WindowParameters {
        tokens_max,
        tokenizer: Tokenizer::O200k,
        transforms: names.map(|name| Transform::parse(name).unwrap()).collect(),
        shape: WindowShape::OpenAi,
        from: Position::ZERO,
        recalled: None,
        withdrawn: WithdrawnRanges::default(),
    };
    let mut before = String::new();
    for (at, event) in events.iter().enumerate() {
        let turn =
            event.kind.as_str().starts_with("agent.") && !event.kind.as_str().ends_with("result");
        if !turn {
            continue;
        }
        let answer = property::check(&events[..at], Position(at as u64), &plan);
        let messages = answer["messages"].to_string();
        let same = before.bytes().zip(messages.bytes()).take_while(|(a, b)| a == b).count();
        let same = (0..=same).rev().find(|at| messages.is_char_boundary(*at)).unwrap();
        sum.windows += 1;
        sum.tokens += answer["tokens"].as_u64().unwrap() as usize;
        sum.kept += Tokenizer::O200k.count(&messages[..same]);
        let ranges = answer["dropped"].as_array().unwrap().iter();
        sum.left_out += ranges
            .filter(|range| range["reason"] == "budget")
            .map(|range| range["to"].as_u64().unwrap() - range["from"].as_u64().unwrap())
            .sum::<u64>();
        before = messages;
    }
}

#[test]
fn transforms_save_tokens_and_keep_the_beginning_of_a_window() {
    let Some(conversations) = real::conversations() else { return };
    let conversations: Vec<&Vec<Event>> = conversations.iter().step_by(9).collect();
    let sum = |names: &str, tokens_max: usize| {
        let mut sum = Sum::default();
        conversations.iter().for_each(|events| measure(events, names, tokens_max, &mut sum));
        let share = |part: usize| part * 1_000 / sum.tokens.max(1);
        say::told(&format!(
            "windows of {tokens_max}: {:>34}: {} windows, {} tokens each, {}.{} % as before, {} \
             positions left out each",
            if names.is_empty() { "none" } else { names },
            sum.windows,
            sum.tokens / sum.windows,
            share(sum.kept) / 10,
            share(sum.kept) % 10,
            sum.left_out / sum.windows as u64,
        ));
        sum
    };
    let plain = sum("", 1_000_000);
    for names in ["compress:whitespace", "compress:elide", "compress", "filter"] {
        let made = sum(names, 1_000_000);
        assert!(made.tokens <= plain.tokens, "{names}");
    }
    assert!(sum("compress", 1_000_000).tokens * 10 < plain.tokens * 9);
    let tight = sum("", BUDGET);
    let reordered = sum("reorder", BUDGET);
    // Without stable places it would be three percent more, and not twenty.
    assert!(reordered.kept * tight.tokens * 10 > tight.kept * reordered.tokens * 11);
    let both = sum("compress reorder", BUDGET);
    assert!(both.left_out < reordered.left_out);
}
