//! Lists that keep the latest items. It must not decide how many.

use std::collections::VecDeque;

/// Appends an item; drops the oldest beyond `items_max`. Returns true if one was dropped.
pub fn push_bounded<T>(list: &mut VecDeque<T>, item: T, items_max: usize) -> bool {
    let is_full = list.len() >= items_max;
    if is_full {
        list.pop_front();
    }
    list.push_back(item);
    is_full
}
