//! An unreadable session, and an unreadable file of the index: the rest is searched, the answer
//! names the missing part, and the index retries it later.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use sessionlog::{
    access::Grant,
    env::Env,
    event::{EventType, NewEvent, Origin, Scope, SessionId, SessionKey, TenantId, UserId},
    service::Service,
    store::{NewSession, Store, local::LocalStore},
};
use sessionlog_sim::ManualClock;

use super::places;
use crate::{
    access::house::{Wall, Walled},
    engines::{batch, machine, small},
};

const EVENTS: usize = 300;

struct Home {
    home: tempfile::TempDir,
}

impl Home {
    fn open(&self) -> (Arc<dyn Store>, Arc<ManualClock>) {
        let disk = sessionlog::env::disk::DataDir::open(&self.home.path().join("data")).unwrap();
        let (env, clock): (Env, _) = machine(Arc::new(disk));
        (LocalStore::open(&env, small()).unwrap(), clock)
    }

    /// Returns the files of sessions.
    fn segments(&self) -> Vec<std::path::PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.home.path().join("data/segments")];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { left.push(path) } else { found.push(path) }
            }
        }
        found
    }
}

fn key(user: &str, session: &str) -> SessionKey {
    let (tenant, user) = (TenantId::new("acme").unwrap(), UserId::new(user).unwrap());
    SessionKey { scope: Scope { tenant, user }, session: SessionId::new(session).unwrap() }
}

async fn fill(store: &dyn Store, key: &SessionKey, word: &str) {
    let new = NewSession { id: Some(key.session.clone()), ..NewSession::default() };
    store.create(&key.scope, new).await.unwrap();
    let event = |n: usize| NewEvent {
        id: None,
        kind: EventType::new("user.message").unwrap(),
        origin: Origin::User,
        created_at: None,
        position: None,
        body: format!(r#"{{"content":"The {word} number {n} of {}"}}"#, key.session).into(),
    };
    store.append(key, batch((0..EVENTS).map(event))).await.unwrap();
}

async fn searched(walled: &Walled, token: &str, words: &str) -> Value {
    let asked = json!({"q": format!("+{words}"), "wait_ms": 60_000});
    let found = walled.post(token, "/v1/search", &asked).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_session_is_named_and_all_others_are_searched() {
    let home = Home { home: tempfile::tempdir().unwrap() };
    let (store, _) = home.open();
    fill(&*store, &key("ada", "hurt"), "wolpertinger").await;
    store.close().await;
    drop(store);
    let name = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.split('-').next().unwrap_or_default().to_owned()
    };
    let hurt = name(&home.segments()[0]);
    let (store, _) = home.open();
    for n in 0..8 {
        fill(&*store, &key("ada", &format!("s{n}")), "heron").await;
    }
    fill(&*store, &key("bob", "of-bob"), "osprey").await;
    store.close().await;
    drop(store);
    let mut of_hurt = home.segments();
    of_hurt.retain(|path| name(path) == hurt);
    // Replace each file of the session with a directory.
    let aside: Vec<_> = of_hurt.iter().map(|path| path.with_extension("aside")).collect();
    for (path, aside) in of_hurt.iter().zip(&aside) {
        std::fs::rename(path, aside).unwrap();
        std::fs::create_dir(path).unwrap();
    }
    let (store, clock) = home.open();
    let walled = Walled::over(store, clock.clone(), Wall::default()).await;
    let grants = [Grant::Read, Grant::Write];
    let (ada, bob) =
        (walled.token(("acme", "ada"), &grants), walled.token(("acme", "bob"), &grants));
    // A search does not wait for an unreadable session, or the client would time out.
    for _ in 0..2 {
        let found = searched(&walled, &ada, "heron").await;
        assert_eq!(found["hits"].as_array().unwrap().len(), 10, "{found}");
        let complete = &found["complete"];
        assert_eq!(complete["is_complete"], false, "{found}");
        assert_eq!(complete["sessions_unreadable"], 1, "{found}");
        assert_eq!(complete["sessions_behind"], 1, "{found}");
        assert_eq!(complete["events_behind"], EVENTS, "{found}");
        let named = &complete["behind"][0];
        assert_eq!((&named["session"], &named["unreadable"]), (&json!("hurt"), &json!(true)));
        assert_eq!(places(&searched(&walled, &ada, "wolpertinger").await), Vec::<String>::new());
    }
    // Later events are found, and no part of the session is shown to another user.
    let event = json!({"events": [{"type": "user.message", "content": "A quokka"}]});
    assert_eq!(walled.post(&ada, "/v1/sessions/s3/events", &event).await.status, 200);
    let found = searched(&walled, &ada, "quokka").await;
    assert_eq!(places(&found), [format!("s3 {EVENTS}")], "{found}");
    let found = searched(&walled, &bob, "osprey").await;
    assert_eq!(found["complete"]["is_complete"], true, "{found}");
    assert_eq!(found["complete"]["sessions_unreadable"], Value::Null, "{found}");
    // The index retries the session after a while.
    for (path, aside) in of_hurt.iter().zip(&aside) {
        std::fs::remove_dir(path).unwrap();
        std::fs::rename(aside, path).unwrap();
    }
    let found = searched(&walled, &ada, "wolpertinger").await;
    assert_eq!(found["complete"]["sessions_unreadable"], 1, "it is left alone: {found}");
    clock.advance(Duration::from_secs(31));
    let found = searched(&walled, &ada, "wolpertinger").await;
    assert_eq!(found["hits"].as_array().unwrap().len(), 10, "{found}");
    assert_eq!(found["complete"]["is_complete"], true, "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_file_that_cannot_be_opened_is_rebuilt_and_blocks_no_other() {
    let home = Home { home: tempfile::tempdir().unwrap() };
    let (store, clock) = home.open();
    for user in ["ada", "bob"] {
        for session in ["one", "two", "three"] {
            fill(&*store, &key(user, session), &format!("heron{user}")).await;
        }
    }
    let service = Service::new(store.clone(), clock.clone());
    let walled = Walled::over(store.clone(), clock, Wall::default()).await;
    drop(walled);
    for user in ["ada", "bob"] {
        let caller = sessionlog::service::Caller {
            scope: key(user, "one").scope,
            origin: Origin::User,
            fence: None,
        };
        let asked = sessionlog::api::search::SearchBody {
            q: "heron".to_owned(),
            wait_ms: 60_000,
            ..Default::default()
        };
        assert_eq!(service.search(&caller, asked).await.unwrap().complete.events_behind, 0);
    }
    service.write_index().await;
    store.close().await;
    drop((store, service));
    let files: Vec<_> = std::fs::read_dir(home.home.path().join("data/derived")).unwrap().collect();
    assert_eq!(files.len(), 2);
    // A link, a directory and a file that others can read are rejected as index files.
    let path = files[0].as_ref().unwrap().path();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (store, clock) = home.open();
    let walled = Walled::over(store, clock, Wall::default()).await;
    for user in ["ada", "bob"] {
        let token = walled.token(("acme", user), &[Grant::Read, Grant::Write]);
        let found = searched(&walled, &token, &format!("heron{user}")).await;
        assert_eq!(found["hits"].as_array().unwrap().len(), 10, "{found}");
        assert_eq!(found["complete"]["is_complete"], true, "{found}");
    }
}
