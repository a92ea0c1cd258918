//! Search in all sessions: the list of hits, and the session that is opened at one of them. It must
//! not search: it returns requests.

use super::{
    rows::{HitList, SessionHit},
    state::{Player, PlayerKey, PlayerRequest},
};

impl Player {
    pub(super) fn search_everywhere(&mut self, needle: String) {
        self.playing = false;
        self.next = Some(PlayerRequest::Everywhere(needle.clone()));
        (self.needle, self.hit) = (Some(needle), None);
        self.message = Some("searching in all sessions".to_owned());
    }

    pub(super) fn show_hits(&mut self, hits: Vec<SessionHit>) {
        let needle = self.needle.clone().unwrap_or_default();
        self.message = hits.is_empty().then(|| format!("{needle:?} is in no session"));
        self.hits = (!hits.is_empty()).then_some(HitList { hits, chosen: 0 });
    }

    /// Handles a key while the list of hits is open.
    pub(super) fn choose_hit(&mut self, key: PlayerKey) {
        let Some(list) = &mut self.hits else { return };
        let last = list.hits.len().saturating_sub(1);
        match key {
            PlayerKey::Up | PlayerKey::Char('k') => list.chosen = list.chosen.saturating_sub(1),
            PlayerKey::Down | PlayerKey::Char('j') => list.chosen = (list.chosen + 1).min(last),
            PlayerKey::Home | PlayerKey::Char('g') => list.chosen = 0,
            PlayerKey::End | PlayerKey::Char('G') => list.chosen = last,
            PlayerKey::Enter => {
                let chosen = list.hits.get(list.chosen).cloned();
                self.hits = None;
                if let Some(hit) = chosen {
                    self.open_hit(&hit);
                }
            }
            PlayerKey::Escape | PlayerKey::Char('q' | 's') => self.hits = None,
            _ => {}
        }
    }

    fn open_hit(&mut self, hit: &SessionHit) {
        if hit.session == self.session {
            return self.jump_to_position(hit.position, &hit.position.to_string());
        }
        self.before.push((self.session.clone(), self.at));
        self.opens = Some((hit.session.clone(), hit.position));
    }

    /// Moves to the position of a hit that another player found.
    pub(super) fn open_at(&mut self, position: u64, from: &Self) {
        self.needle.clone_from(&from.needle);
        self.before.clone_from(&from.before);
        (self.settles, self.shows_all) = (None, from.shows_all);
        self.move_to(position);
        let last = self.before.last();
        self.message = last.map(|(session, _)| format!("o goes back to {session}"));
    }

    /// Opens the session from which a hit led to this one.
    pub(super) fn return_to_session(&mut self) {
        match self.before.pop() {
            Some(before) => self.opens = Some(before),
            None => self.message = Some("this session was opened first".to_owned()),
        }
    }
}
