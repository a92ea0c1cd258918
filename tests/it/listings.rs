//! Listings, on every engine: which sessions are selected, in which order, on which page. It must
//! not depend on how an engine finds them.

use sessionlog::{
    event::{Scope, SessionId, Timestamp},
    store::{
        BEGAN_KEY, Criterion, ENDED_KEY, Listing, ListingOrder, NewSession, SessionUpdate, Store,
        TAIL_KEY,
    },
};

use crate::{
    engines::{append, batch, create, event, key},
    store::on_every_engine,
};

/// Returns the ids of all pages of a listing.
async fn pages(store: &dyn Store, mut listing: Listing) -> Vec<String> {
    let mut found = Vec::new();
    loop {
        let page = store.list(&Scope::local(), listing.clone()).await.unwrap();
        assert!(page.sessions.len() <= listing.limit);
        found.extend(page.sessions.iter().map(|info| info.key.session.to_string()));
        listing.after = page.next;
        if listing.after.is_none() {
            return found;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_has_each_session_once_in_order_at_any_page_size() {
    on_every_engine(async |store, clock| {
        let start = 1_800_000_000_000_000;
        // Two sessions have the same time: their ids decide the order.
        for (session, at) in [("c", 0), ("b", 10), ("a", 10), ("e", 20), ("d", 30)] {
            clock.set(Timestamp(start + at));
            let workspace = (session < "c").then(|| "w".to_owned());
            let id = Some(SessionId::new(session).unwrap());
            let new = NewSession { id, workspace, ..NewSession::default() };
            store.create(&Scope::local(), new).await.unwrap();
        }
        store
            .change(&key("e"), SessionUpdate { archive: Some(true), ..SessionUpdate::default() })
            .await
            .unwrap();
        let base = Listing { include_archived: true, ..Listing::default() };
        let cases = [
            (base.clone(), "d e b a c"),
            (Listing { ascending: true, ..base.clone() }, "c a b e d"),
            (Listing::default(), "d b a c"),
            (Listing { workspace: Some("w".to_owned()), ..base.clone() }, "b a"),
            (Listing { created_from: Some(Timestamp(start + 10)), ..base.clone() }, "d e b a"),
            (Listing { created_to: Some(Timestamp(start + 10)), ..base.clone() }, "c"),
        ];
        for (listing, expected) in cases {
            for limit in [1, 2, 100] {
                let found = pages(store, Listing { limit, ..listing.clone() }).await;
                assert_eq!(found.join(" "), expected, "{limit} {listing:?}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filtered_page_examines_a_bounded_number_of_sessions_and_the_next_one_continues() {
    on_every_engine(async |store, clock| {
        for n in 0..30 {
            clock.set(Timestamp(1_800_000_000_000_000 + n));
            let id = Some(SessionId::new(&format!("s{n:02}")).unwrap());
            let mut new = NewSession { id, ..NewSession::default() };
            if n % 13 == 5 {
                new.metadata.insert("wanted".to_owned(), "yes".to_owned());
            }
            store.create(&Scope::local(), new).await.unwrap();
        }
        // A page examines 12 sessions; the next page continues after the last of them.
        for (limit, ascending, pages) in [
            (2, false, [(1, "s18"), (0, "s06"), (1, "")]),
            (2, true, [(1, "s11"), (1, "s23"), (0, "")]),
            (1, false, [(1, "s18"), (0, "s06"), (1, "")]),
        ] {
            let mut after = None;
            for (page, (expected, end)) in pages.into_iter().enumerate() {
                let only = Some(Criterion::Named("wanted".to_owned()));
                let listing =
                    Listing { limit, looks: 12, ascending, after, only, ..Listing::default() };
                let listed = store.list(&Scope::local(), listing).await.unwrap();
                assert_eq!(listed.sessions.len(), expected, "{limit} {ascending} {page}");
                after = listed.next;
                let found = after.as_ref().map_or("", |(_, session)| session.as_str());
                assert_eq!(found, end, "{limit} {ascending} {page}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_has_only_the_sessions_that_match_its_filter() {
    on_every_engine(async |store, clock| {
        let start = Timestamp(1_800_000_000_000_000);
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let began = pair(BEGAN_KEY, &Timestamp(start.0 - 50).to_string());
        for (session, workspace, pairs) in [
            ("plain", None, vec![]),
            ("book.0af", Some("/w"), vec![pair("a", "1"), pair("ab", "2")]),
            ("book.0ag", Some("/x"), vec![pair("a", "21")]),
            ("old", None, vec![began]),
        ] {
            clock.set(start);
            let id = Some(SessionId::new(session).unwrap());
            let (workspace, metadata) = (workspace.map(str::to_owned), pairs.into_iter().collect());
            let new = NewSession { id, workspace, metadata, ..NewSession::default() };
            store.create(&Scope::local(), new).await.unwrap();
        }
        clock.set(start.plus_micros(1_000));
        append(store, &key("plain"), batch([event("\"later\"")])).await.unwrap();
        let archive = SessionUpdate { archive: Some(true), ..SessionUpdate::default() };
        store.change(&key("plain"), archive).await.unwrap();
        let text = str::to_owned;
        let named = || Criterion::Named(text("a"));
        for (condition, expected) in [
            (Criterion::Archived, "plain"),
            (Criterion::HexId(text("book."), 3), "book.0af"),
            (Criterion::HexId(text("book."), 2), ""),
            (Criterion::Workspace(Some(text("/x"))), "book.0ag"),
            (Criterion::Workspace(None), "old plain"),
            (named(), "book.0af book.0ag"),
            (Criterion::NameBegins(text("ab")), "book.0af"),
            (Criterion::Pair(text("a"), text("1")), "book.0af"),
            (Criterion::Contains(text("a"), text("2")), "book.0ag"),
            (Criterion::UpdatedFrom(start.plus_micros(1)), "plain"),
            (Criterion::BeganFrom(start), "book.0af book.0ag plain"),
            (Criterion::negate(named()), "old plain"),
            (Criterion::All(vec![named(), Criterion::NameBegins(text("ab"))]), "book.0af"),
            (Criterion::Any(vec![named(), Criterion::Archived]), "book.0af book.0ag plain"),
            (Criterion::All(vec![]), "book.0af book.0ag old plain"),
            (Criterion::Any(vec![]), ""),
        ] {
            let only = Some(condition.clone());
            let base = Listing { ascending: true, include_archived: true, ..Listing::default() };
            let found = pages(store, Listing { only, ..base }).await;
            assert_eq!(found.join(" "), expected, "{condition:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_by_latest_work_has_each_session_once_at_any_page_size() {
    on_every_engine(async |store, clock| {
        let at = |micros: i64| Timestamp(1_800_000_000_000_000 + micros);
        for (session, created, worked) in [("a", 0, 40), ("b", 1, 20), ("c", 2, 30), ("d", 3, 30)] {
            clock.set(at(created));
            create(store, session).await;
            clock.set(at(worked));
            append(store, &key(session), batch([event("\"work\"")])).await.unwrap();
        }
        // A title is no work.
        clock.set(at(90));
        let change =
            SessionUpdate { title: Some(Some("t".to_owned())), ..SessionUpdate::default() };
        store.change(&key("c"), change).await.unwrap();
        // It was imported, and its work ended before all others.
        let ended = [(ENDED_KEY.to_owned(), at(-9).to_string()), (TAIL_KEY.to_owned(), "1".into())];
        let pairs = ended.map(|(name, value)| (name, Some(value))).into();
        let change = SessionUpdate { metadata: pairs, ..SessionUpdate::default() };
        store.change(&key("b"), change).await.unwrap();
        for (ascending, expected) in [(false, "a d c b"), (true, "b c d a")] {
            for limit in [1, 2, 3, 100] {
                let order = ListingOrder::Worked;
                let listing = Listing { limit, order, ascending, ..Listing::default() };
                assert_eq!(pages(store, listing).await.join(" "), expected, "{limit}");
            }
        }
        let newest =
            Listing { limit: 1, looks: 3, order: ListingOrder::Worked, ..Listing::default() };
        let listed = store.list(&Scope::local(), newest).await.unwrap();
        assert_eq!(listed.sessions[0].key.session.as_str(), "d", "the first one is not looked at");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_with_an_offset_skips_that_many_sessions_and_counts_all() {
    on_every_engine(async |store, clock| {
        for n in 0..7 {
            clock.set(Timestamp(1_800_000_000_000_000 + n));
            create(store, &format!("s{n}")).await;
        }
        let only = Some(Criterion::negate(Criterion::HexId("s".to_owned(), 1)));
        for (skip, limit, only, expected, selected) in [
            (0, 2, None, "s6 s5", 7),
            (5, 9, None, "s1 s0", 7),
            (9, 9, None, "", 7),
            (0, 9, only, "", 0),
        ] {
            let listing =
                Listing { skip, limit, only, looks: 1, count: true, ..Listing::default() };
            let listed = store.list(&Scope::local(), listing).await.unwrap();
            let names: Vec<_> =
                listed.sessions.iter().map(|info| info.key.session.as_str()).collect();
            assert_eq!((names.join(" ").as_str(), listed.selected), (expected, selected));
        }
    })
    .await;
}
