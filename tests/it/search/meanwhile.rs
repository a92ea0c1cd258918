//! Events that are indexed while an answer is made from the index: they are no hits of it, so it
//! reports their session as behind. It must not measure time.

use std::sync::Arc;

use sessionlog::{
    api::search::{Complete, SearchBody},
    event::{Origin, Scope, SessionId},
    service::{Caller, Service, is_notebook},
    store::{NewSession, Store},
};

use crate::{
    engines::{self, batch, event},
    http::gate::Gate,
};

const WORKSPACE: &str = "/work/marsh";

/// A verb that reads the index.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Search,
    Analytics,
}

impl Verb {
    /// Returns the number of sessions that it finds or counts, and the coverage that it reports.
    async fn run(self, service: &Service, wait_ms: u64) -> (u64, Complete) {
        let caller = Caller { scope: Scope::local(), origin: Origin::User, fence: None };
        match self {
            Self::Search => {
                let q = "grey heron".to_owned();
                let asked = SearchBody { q, wait_ms, ..SearchBody::default() };
                let found = service.search(&caller, asked).await.unwrap();
                // Equal texts are one hit.
                let found_in = found.hits.iter().map(|hit| 1 + hit.repeated);
                (found_in.sum(), found.complete)
            }
            Self::Analytics => {
                let counted = service.analytics(&caller, WORKSPACE, None, wait_ms).await.unwrap();
                (counted.sessions, counted.complete)
            }
        }
    }
}

async fn write(store: &dyn Store, session: &str) {
    let new = NewSession {
        id: Some(SessionId::new(session).unwrap()),
        workspace: Some(WORKSPACE.to_owned()),
        events: batch([event(r#"{"content":"A grey heron"}"#)]),
        ..NewSession::default()
    };
    store.create(&Scope::local(), new).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_indexed_after_the_index_was_read_is_listed_as_behind() {
    for verb in [Verb::Search, Verb::Analytics] {
        let engine = engines::all().into_iter().next().unwrap();
        let gate = Arc::new(Gate::new(engine.store.clone()));
        let service = Service::new(gate.clone(), engine.clock.clone());
        write(&*engine.store, "old").await;
        let (found, complete) = verb.run(&service, 60_000).await;
        assert_eq!((found, complete.is_complete), (1, true), "{verb:?}: {complete:?}");
        // The index has learned of the new session and cannot read it yet.
        gate.hold(|id| id.as_str() == "new");
        write(&*engine.store, "new").await;
        verb.run(&service, 0).await;
        gate.reached().await;
        // The verb has read the index, and reads what it shows of the older session, or the graph.
        gate.hold(|_| true);
        let answer = tokio::spawn({
            let service = service.clone();
            async move { verb.run(&service, 0).await }
        });
        gate.reached().await;
        gate.hold(|id| id.as_str() == "old" || is_notebook(id));
        while service.counts().index.events_behind > 0 {
            tokio::task::yield_now().await;
        }
        gate.hold(|_| false);
        let (found, complete) = answer.await.unwrap();
        assert_eq!((found, complete.is_complete), (1, false), "{verb:?}: {complete:?}");
        let behind: Vec<&str> = complete.behind.iter().map(|one| one.session.as_str()).collect();
        assert_eq!(behind, ["new"], "{verb:?}");
        let (found, complete) = verb.run(&service, 60_000).await;
        assert_eq!((found, complete.is_complete), (2, true), "{verb:?}: {complete:?}");
    }
}
