//! Walks over the sessions of a scope in slices; between slices the catalogue is unlocked and other
//! tasks run. It must not load an evicted session.

use std::sync::Arc;

use super::{super::session::Session, Catalogue, sessions::Sessions, unpacked};
use crate::{
    event::{Scope, SessionId, Timestamp, limits},
    log::{Entry, Packed},
    store::{Filling, Listed, Listing, Place},
};

/// Sessions per slice if only a few fields of each are read.
const SLICE: usize = 1_000;
/// Sessions per slice if the whole entry of each is read.
const SLICE_WHOLE: usize = 200;
/// Sort keys that a listing holds at once.
const PLACES_MAX: usize = limits::LISTED_LOOKS_MAX + 1;

/// Walk over the sessions of a scope, or over the loaded ones and the evicted ones of a workspace.
/// It visits each session at least once; one that is loaded meanwhile possibly twice.
struct Walk<'a> {
    sessions: &'a Sessions,
    scope: &'a Scope,
    workspace: Option<&'a str>,
    /// Sessions loaded at the start; held, so that none is evicted before it is visited.
    held: Vec<Arc<Session>>,
    place: At,
}

/// Position of a walk.
enum At {
    /// After this evicted session.
    Evicted(Option<SessionId>),
    /// Among the loaded sessions.
    Loaded(std::vec::IntoIter<Arc<Session>>),
}

/// Session that a walk visits.
enum Met<'a> {
    Evicted(&'a Packed),
    Loaded(&'a Session),
}

impl<'a> Walk<'a> {
    fn new(sessions: &'a Sessions, scope: &'a Scope, workspace: Option<&'a str>) -> Self {
        let held = sessions.catalogue().loaded_of(scope);
        Self { sessions, scope, workspace, held, place: At::Evicted(None) }
    }

    /// Passes the next slice to `take`. Returns whether another may follow.
    fn slice(&mut self, count: usize, take: &mut dyn FnMut(Met<'_>)) -> bool {
        match &mut self.place {
            At::Evicted(after) => {
                let each = &mut |packed: &Packed| take(Met::Evicted(packed));
                let catalogue = self.sessions.catalogue();
                let of = (self.scope, self.workspace);
                let last = catalogue.evicted_of(of, after.as_ref(), count, each);
                if last.is_some() {
                    *after = last;
                } else {
                    let loaded = catalogue.loaded_of(self.scope);
                    drop(catalogue);
                    self.held = Vec::new();
                    self.place = At::Loaded(loaded.into_iter());
                }
                true
            }
            At::Loaded(loaded) => {
                loaded.by_ref().take(count).for_each(|session| take(Met::Loaded(&session)));
                loaded.len() > 0
            }
        }
    }
}

impl Sessions {
    /// Passes the entry of every session of a scope, deleted or not; possibly twice if it is loaded
    /// meanwhile.
    pub(crate) fn each_entry(&self, scope: &Scope, take: &mut dyn FnMut(Entry)) {
        let mut walk = Walk::new(self, scope, None);
        let entry = &mut |met: Met<'_>| match met {
            Met::Evicted(packed) => take(unpacked(scope, packed)),
            Met::Loaded(session) => {
                let state = session.state();
                if state.exists() {
                    take(state.entry.clone());
                }
            }
        };
        while walk.slice(SLICE_WHOLE, entry) {}
    }

    /// Returns a page of a scope's sessions: a walk finds the sort keys of the candidates, then
    /// their infos are read in order. A listing that selects from all sessions takes a walk for
    /// each [`PLACES_MAX`] of them, which bounds the memory of the sort keys.
    pub(crate) async fn list(&self, scope: &Scope, listing: &Listing) -> Listed {
        let (mut filling, mut after) = (Filling::new(listing), None);
        loop {
            let (places, is_cut) = self.places(scope, listing, after.as_ref()).await;
            for slice in places.chunks(SLICE_WHOLE) {
                let more = add_to_page(&self.catalogue(), scope, slice, &mut filling);
                if !more {
                    return filling.page();
                }
                tokio::task::yield_now().await;
            }
            if !is_cut {
                return filling.page();
            }
            after = places.into_iter().next_back();
        }
    }

    /// Returns the first sort keys of a page after `after`, and the one after them, at most
    /// [`PLACES_MAX`]; true if there are more.
    async fn places(
        &self,
        scope: &Scope,
        listing: &Listing,
        after: Option<&Place>,
    ) -> (Vec<Place>, bool) {
        let most = listing.looks_max().saturating_add(1).min(PLACES_MAX);
        let order =
            |a: &Place, b: &Place| listing.looking_order((a.0, a.1.as_str()), (b.0, b.1.as_str()));
        let mut places: Vec<Place> = Vec::new();
        // Sort keys after this one are not needed.
        let mut last: Option<Place> = None;
        let mut walk = Walk::new(self, scope, listing.workspace.as_deref());
        loop {
            let more = walk.slice(SLICE, &mut |met| {
                let place = met.place(listing, after, last.as_ref());
                places.extend(place);
            });
            if !more || places.len() >= most.saturating_mul(2).max(SLICE) {
                if most < places.len() {
                    places.select_nth_unstable_by(most.saturating_sub(1), order);
                    places.truncate(most);
                    last = places.last().cloned();
                }
                if !more {
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        places.sort_unstable_by(order);
        places.dedup();
        (places, last.is_some())
    }
}

impl Met<'_> {
    /// Returns its sort key, if it belongs on a page that begins after `after` and ends at `last`
    /// at the latest.
    fn place(
        &self,
        listing: &Listing,
        after: Option<&Place>,
        last: Option<&Place>,
    ) -> Option<Place> {
        let place = |at: Timestamp, id: &str, workspace: Option<&str>, archived: bool| {
            let is_behind = |(end, last): &Place| {
                listing.looking_order((at, id), (*end, last.as_str())).is_gt()
            };
            after.is_none_or(is_behind)
                && !last.is_some_and(is_behind)
                && listing.takes(at, id, workspace, archived)
        };
        match self {
            Met::Evicted(packed) => {
                let one = packed.listed();
                let at = Timestamp(one.created_at);
                let wanted = !one.gone && place(at, one.session, one.workspace, one.archived);
                wanted.then(|| SessionId::new(one.session).ok().map(|id| (at, id))).flatten()
            }
            Met::Loaded(session) => {
                let state = session.visible().ok()?;
                let (entry, id) = (&state.entry, &session.key.session);
                let (at, archived) = (Timestamp(entry.created_at), entry.archived_at.is_some());
                place(at, id.as_str(), entry.workspace.as_deref(), archived)
                    .then(|| (at, id.clone()))
            }
        }
    }
}

/// Adds the sessions of these sort keys to the page. Returns whether the page needs more.
fn add_to_page(
    catalogue: &Catalogue,
    scope: &Scope,
    places: &[Place],
    filling: &mut Filling<'_>,
) -> bool {
    places.iter().all(|place| {
        // Another session may have its name now.
        let info = catalogue.listed(scope, &place.1).filter(|info| info.created_at == place.0);
        filling.look(place.clone(), info)
    })
}
