//! Search in the player: a jump to a typed point, a filter by type, and a text search within and
//! across events. It must not read events: it returns requests.

use super::state::{Player, PlayerRequest, SearchEnd, WrappedSearch};

impl Player {
    pub(super) fn jump_to_text(&mut self, typed: String) {
        self.playing = false;
        match typed.parse() {
            Ok(position) => self.jump_to_position(position, &typed),
            Err(_) => self.next = Some(PlayerRequest::Point(typed)),
        }
    }

    /// Moves to a position, or shows a message if it is outside the played range.
    pub(super) fn jump_to_position(&mut self, position: u64, point: &str) {
        let last = self.to.saturating_sub(1);
        self.message = match position {
            _ if self.from == self.to => Some("there is no event".to_owned()),
            _ if position < self.from => {
                Some(format!("{point} is before the first event shown, {}", self.from))
            }
            // The point `end` is the position after the last event.
            _ if position >= self.to && point != "end" => {
                Some(format!("{point} is past the last event, {last}"))
            }
            _ => None,
        };
        if self.message.is_none() {
            self.move_to(position);
        }
    }

    /// Shows only events whose type contains a text; an empty text shows all.
    pub(super) fn set_filter(&mut self, typed: String) {
        self.playing = false;
        self.only = Some(typed.to_lowercase()).filter(|text| !text.is_empty());
        if self.only.is_some() && !self.row(self.at).is_some_and(|row| self.passes_filter(row)) {
            self.step(1, true);
        }
    }

    /// Starts a search: in the current event, then in later ones.
    pub(super) fn start_search(&mut self, needle: String) {
        self.playing = false;
        let kind = self.row(self.at).map(|row| row.kind.to_lowercase()).unwrap_or_default();
        let is_here = kind.contains(&needle.to_lowercase());
        (self.needle, self.hit) = (Some(needle), None);
        if is_here || !self.match_offsets().is_empty() {
            self.set_hit(0);
        } else {
            self.request_match(true);
        }
    }

    /// Moves to the next match in the current event, or to the next event with a match.
    pub(super) fn move_to_match(&mut self, forward: bool) {
        self.playing = false;
        let count = self.match_offsets().len();
        let next = match (self.hit.map(|hit| hit.min(count.saturating_sub(1))), forward) {
            (Some(hit), true) => Some(hit + 1),
            (None, true) => Some(0),
            (Some(hit), false) => hit.checked_sub(1),
            (None, false) => None,
        };
        match next.filter(|next| *next < count) {
            Some(next) => self.set_hit(next),
            None => self.request_match(forward),
        }
    }

    fn request_match(&mut self, forward: bool) {
        let Some(needle) = self.needle.clone() else {
            self.message = Some("nothing is searched for: / begins a search".to_owned());
            return;
        };
        let (at, from, to) = (self.at, self.from, self.to);
        self.next = Some(PlayerRequest::Search(WrappedSearch { needle, at, forward, from, to }));
    }

    fn set_hit(&mut self, hit: usize) {
        (self.hit, self.reveals) = (Some(hit), true);
        let count = self.match_offsets().len();
        if count > 1 {
            let hit = hit.min(count - 1) + 1;
            self.message = Some(format!("match {hit} of {count} in this event"));
        }
    }

    /// Returns the byte offsets of the needle in the event's text, both in lower case.
    pub(super) fn match_offsets(&self) -> Vec<usize> {
        let needle = self.needle.as_deref().unwrap_or_default().to_lowercase();
        let text = self.row(self.at).map(|row| row.text.to_lowercase()).unwrap_or_default();
        match needle.is_empty() {
            true => Vec::new(),
            false => text.match_indices(&needle).map(|(at, _)| at).collect(),
        }
    }

    /// Returns the byte offset of the current match.
    pub(super) fn current_match_offset(&self) -> Option<usize> {
        let matches = self.match_offsets();
        let hit = self.hit?.min(matches.len().checked_sub(1)?);
        matches.get(hit).copied()
    }

    pub(super) fn apply_search_result(
        &mut self,
        hit: Option<SearchEnd>,
        asked: Option<PlayerRequest>,
    ) {
        let needle = self.needle.clone().unwrap_or_default();
        let forward =
            !matches!(asked, Some(PlayerRequest::Search(WrappedSearch { forward: false, .. })));
        let Some(SearchEnd { at, wrapped }) = hit else {
            self.message = Some(format!("{needle:?} is in no event; s searches in all sessions"));
            return;
        };
        let is_here = at == self.at;
        self.move_to(at);
        self.set_hit(if forward { 0 } else { usize::MAX });
        if is_here {
            self.message = Some(format!("{needle:?} is in no other event"));
        } else if wrapped {
            let end = if forward { "first" } else { "last" };
            self.message = Some(format!("search wrapped to the {end} event"));
        }
    }
}
