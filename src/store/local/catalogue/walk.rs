//! Walks over the sessions of a scope in slices; between slices the catalogue is unlocked and other
//! tasks run. It must not load an evicted session.

use std::sync::Arc;

use super::{super::session::LoadedSession, Catalogue, sessions::Sessions, unpack_entry};
use crate::{
    event::{Scope, SessionId, Timestamp, limits},
    log::{Entry, PackedEntry},
    store::{Listing, ListingKey, ListingPage, ListingPageBuilder},
};

/// Sessions per slice if only a few fields of each are read.
const SLICE: usize = 1_000;
/// Sessions per slice if the whole entry of each is read.
const SLICE_WHOLE: usize = 200;
/// Sort keys that a listing holds at once.
const SORT_KEYS_MAX: usize = limits::LIST_EXAMINED_MAX + 1;

/// Walk over the sessions of a scope, or over the loaded ones and the evicted ones of a workspace.
/// It visits each session at least once; one that is loaded meanwhile possibly twice.
struct SessionWalk<'a> {
    sessions: &'a Sessions,
    scope: &'a Scope,
    workspace: Option<&'a str>,
    /// Sessions loaded at the start; held, so that none is evicted before it is visited.
    held: Vec<Arc<LoadedSession>>,
    place: WalkPosition,
}

enum WalkPosition {
    /// After this evicted session.
    Evicted(Option<SessionId>),
    /// Among the loaded sessions.
    Loaded(std::vec::IntoIter<Arc<LoadedSession>>),
}

/// Session that a walk visits.
enum Visited<'a> {
    Evicted(&'a PackedEntry),
    Loaded(&'a LoadedSession),
}

impl<'a> SessionWalk<'a> {
    fn new(sessions: &'a Sessions, scope: &'a Scope, workspace: Option<&'a str>) -> Self {
        let held = sessions.catalogue().loaded_in_scope(scope);
        Self { sessions, scope, workspace, held, place: WalkPosition::Evicted(None) }
    }

    /// Passes the next slice to `visit`. Returns whether another may follow.
    fn visit_slice(&mut self, count: usize, visit: &mut dyn FnMut(Visited<'_>)) -> bool {
        match &mut self.place {
            WalkPosition::Evicted(after) => {
                let each = &mut |packed: &PackedEntry| visit(Visited::Evicted(packed));
                let catalogue = self.sessions.catalogue();
                let of = (self.scope, self.workspace);
                let last = catalogue.visit_evicted(of, after.as_ref(), count, each);
                if last.is_some() {
                    *after = last;
                } else {
                    let loaded = catalogue.loaded_in_scope(self.scope);
                    drop(catalogue);
                    self.held = Vec::new();
                    self.place = WalkPosition::Loaded(loaded.into_iter());
                }
                true
            }
            WalkPosition::Loaded(loaded) => {
                loaded.by_ref().take(count).for_each(|session| visit(Visited::Loaded(&session)));
                loaded.len() > 0
            }
        }
    }
}

impl Sessions {
    /// Passes the entry of every session of a scope, deleted or not; possibly twice if it is loaded
    /// meanwhile.
    pub(crate) fn for_each_entry(&self, scope: &Scope, visit: &mut dyn FnMut(Entry)) {
        let mut walk = SessionWalk::new(self, scope, None);
        let entry = &mut |met: Visited<'_>| match met {
            Visited::Evicted(packed) => visit(unpack_entry(scope, packed)),
            Visited::Loaded(session) => {
                let state = session.state();
                if state.exists() {
                    visit(state.entry.clone());
                }
            }
        };
        while walk.visit_slice(SLICE_WHOLE, entry) {}
    }

    /// Returns a page of a scope's sessions: a walk finds the sort keys of the candidates, then
    /// their infos are read in order. A listing that selects from all sessions takes a walk for
    /// each [`SORT_KEYS_MAX`] of them, which bounds the memory of the sort keys.
    pub(crate) async fn list(&self, scope: &Scope, listing: &Listing) -> ListingPage {
        let (mut filling, mut after) = (ListingPageBuilder::new(listing), None);
        loop {
            let (places, is_cut) = self.sort_keys(scope, listing, after.as_ref()).await;
            for slice in places.chunks(SLICE_WHOLE) {
                let more = add_to_page(&self.catalogue(), scope, slice, &mut filling);
                if !more {
                    return filling.into_page();
                }
                tokio::task::yield_now().await;
            }
            if !is_cut {
                return filling.into_page();
            }
            after = places.into_iter().next_back();
        }
    }

    /// Returns the first sort keys of a page after `after`, and the one after them, at most
    /// [`SORT_KEYS_MAX`]; true if there are more.
    async fn sort_keys(
        &self,
        scope: &Scope,
        listing: &Listing,
        after: Option<&ListingKey>,
    ) -> (Vec<ListingKey>, bool) {
        let most = listing.examined_max().saturating_add(1).min(SORT_KEYS_MAX);
        let order = |a: &ListingKey, b: &ListingKey| {
            listing.compare_by_creation((a.0, a.1.as_str()), (b.0, b.1.as_str()))
        };
        let mut places: Vec<ListingKey> = Vec::new();
        // Sort keys after this one are not needed.
        let mut last: Option<ListingKey> = None;
        let mut walk = SessionWalk::new(self, scope, listing.workspace.as_deref());
        loop {
            let more = walk.visit_slice(SLICE, &mut |met| {
                let place = met.sort_key(listing, after, last.as_ref());
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

impl Visited<'_> {
    /// Returns its sort key, if it belongs on a page that begins after `after` and ends at `last`
    /// at the latest.
    fn sort_key(
        &self,
        listing: &Listing,
        after: Option<&ListingKey>,
        last: Option<&ListingKey>,
    ) -> Option<ListingKey> {
        let place = |at: Timestamp, id: &str, workspace: Option<&str>, archived: bool| {
            let is_behind = |(end, last): &ListingKey| {
                listing.compare_by_creation((at, id), (*end, last.as_str())).is_gt()
            };
            after.is_none_or(is_behind)
                && !last.is_some_and(is_behind)
                && listing.may_select(at, id, workspace, archived)
        };
        match self {
            Visited::Evicted(packed) => {
                let one = packed.listing_fields();
                let at = Timestamp(one.created_at);
                let wanted = !one.gone && place(at, one.session, one.workspace, one.archived);
                wanted.then(|| SessionId::new(one.session).ok().map(|id| (at, id))).flatten()
            }
            Visited::Loaded(session) => {
                let state = session.lock_visible().ok()?;
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
    places: &[ListingKey],
    filling: &mut ListingPageBuilder<'_>,
) -> bool {
    places.iter().all(|place| {
        // A newer session may have this id: compare the creation time.
        let info =
            catalogue.visible_info(scope, &place.1).filter(|info| info.created_at == place.0);
        filling.examine(place.clone(), info)
    })
}
