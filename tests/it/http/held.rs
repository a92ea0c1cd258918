//! Memory limits of computations: each computing verb reserves some of its tenant's budget before
//! it reads, and returns an error if none is free.

use std::{sync::Arc, time::Duration};

use sessionlog::{
    api::{
        changes::FileChangesQuery,
        search::SearchBody,
        window::{RecallFrom, WindowShape},
    },
    event::{Origin, Point, Position, Range, Scope, SessionId},
    service::{Caller, Code, PageInCall, ResearchOptions, Service, ServiceResult, WindowCall},
    store::{NewSession, Store},
};

use super::{gate::Gate, house::PATIENCE};
use crate::engines;

fn caller(scope: Scope) -> Caller {
    Caller { scope, origin: Origin::User, fence: None }
}

fn window() -> WindowCall {
    WindowCall {
        tokens_max: Some(4_000),
        tokenizer: None,
        transforms: Vec::new(),
        shape: WindowShape::Events,
        from: None,
        at: None,
        recall: RecallFrom::Line,
        recall_tokens: None,
    }
}

/// Returns the outcome of each computing verb.
async fn outcomes(service: &Service, caller: &Caller) -> Vec<(&'static str, ServiceResult<()>)> {
    let session = SessionId::new("s").unwrap();
    let (begin, end) = (Point::At(Position(1)), Point::At(Position(3)));
    let ranges = vec![(Some(session.clone()), Range::new(Position(0), Position(2)))];
    let page = PageInCall { ranges, ..PageInCall::default() };
    let words = SearchBody { q: "soundings".to_owned(), ..SearchBody::default() };
    // One after the other: each of them reserves the whole budget of the tenant.
    let search = service.search(caller, words).await;
    let windowed = service.window(caller, &session, window()).await;
    let diff = service.diff(caller, &session, (&begin, &end), window()).await;
    let find = service.find_view(caller, &session, "soundings", None, None).await;
    let paged = service.page_in(caller, page).await;
    let file = FileChangesQuery { file: "/w/a.rs".to_owned(), ..FileChangesQuery::default() };
    let changed = service.file_changes(caller, file).await;
    let past = service.overview(caller, &session, Some(&begin), None, (false, false)).await;
    vec![
        ("search", search.map(drop)),
        ("window", windowed.map(drop)),
        ("diff", diff.map(drop)),
        ("find", find.map(drop)),
        ("paging in", paged.map(drop)),
        ("changes of a file", changed.map(drop)),
        ("overview at a point", past.map(drop)),
    ]
}

#[tokio::test]
async fn a_verb_over_its_tenants_memory_limit_is_rejected_and_others_are_served() {
    let session = SessionId::new("s").unwrap();
    let engine = engines::all().into_iter().next().unwrap();
    let gate = Arc::new(Gate::new(engine.store));
    let (held_bytes_max, held_patience) = (2 << 10, Duration::ZERO);
    let options = ResearchOptions { held_bytes_max, held_patience, ..ResearchOptions::default() };
    let service = Service::new(Arc::clone(&gate) as Arc<dyn Store>, engine.clock);
    let service = Arc::new(service.with_research(options));
    let own = caller(Scope::local());
    let other = caller(engines::other_scope());
    for one in [&own, &other] {
        let new = NewSession { id: Some(session.clone()), ..NewSession::default() };
        gate.create(&one.scope, new).await.unwrap();
        let said = |n| engines::event(&format!("{{\"content\":\"soundings {n}\"}}"));
        let batch = engines::batch((0..4).map(said));
        service.emit(one, &session, batch, false).await.unwrap();
    }
    gate.close();
    gate.open_reads(false);
    let holds = tokio::spawn({
        let (service, own) = (Arc::clone(&service), own.clone());
        async move { service.window(&own, &engines::key("s").session, window()).await }
    });
    gate.reached().await;
    // A verb that reads before it reserves memory would wait at the gate.
    let asked = tokio::time::timeout(PATIENCE, outcomes(&service, &own)).await;
    for (verb, outcome) in asked.expect("a verb that reads before it reserves memory") {
        let refused = outcome.expect_err(verb);
        assert_eq!((refused.code, refused.hint.retryable), (Code::LimitReached, true), "{verb}");
        assert!(refused.message.contains("for tenant default"), "{verb}: {}", refused.message);
    }
    gate.open_reads(true);
    holds.await.unwrap().unwrap();
    for one in [&own, &other] {
        for (verb, outcome) in outcomes(&service, one).await {
            outcome.expect(verb);
        }
    }
}
