//! Lists that hold the latest of what was added. It must not decide how many.

use std::collections::VecDeque;

/// Adds an item behind the others; of more than `items_max` the oldest goes. True if one went.
pub fn push_bounded<T>(list: &mut VecDeque<T>, item: T, items_max: usize) -> bool {
    let is_full = list.len() >= items_max;
    if is_full {
        list.pop_front();
    }
    list.push_back(item);
    is_full
}
