//! Directories left during an erasure or directly after it: the decoder reports the session as
//! erased exactly if the store does, and reads everything else. It must not use internals of the
//! engine.

use std::path::Path;

use serde_json::{Value, json};
use sessionlog::{
    event::SessionKey,
    store::{NewSession, Store, StoreError, local::LocalStore},
};
use sessionlog_sim::{Fault, Sim};

use super::{agree, decoded, keys_of, lay_out, said, sessions, varied};
use crate::{
    engines::{append, batch, key, small},
    life::asked,
};

const EVENTS: usize = 9;

fn open(sim: &Sim) -> LocalStore {
    LocalStore::open_local(&sim.env(), small()).unwrap()
}

/// Creates four sessions, in segments and in the journal.
async fn fill(sim: &Sim) -> (LocalStore, Value) {
    let store = open(sim);
    let all = [&sessions()[..], &[key("gone")]].concat();
    for session in &all {
        let id = Some(session.session.clone());
        let title = Some(format!("{:?}", session.session));
        let new = NewSession { id, title, ..NewSession::default() };
        store.create(&session.scope, new).await.unwrap();
    }
    for n in 0..EVENTS {
        for session in &all {
            append(&store, session, batch([varied(n, "word")])).await.unwrap();
        }
        if n == 4 {
            store.flush().unwrap();
        }
    }
    let said = said(&store).await;
    (store, said)
}

async fn is_erased(store: &LocalStore, session: &SessionKey) -> bool {
    match store.info(session).await {
        Err(StoreError::SessionDeleted { .. }) => true,
        Ok(_) => false,
        Err(other) => panic!("{other}"),
    }
}

/// Returns true if the decoder finds the session erased; checks that the others equal the store's.
fn is_erased_in(directory: &Path, expected: &Value, told: &str) -> Option<bool> {
    let mut document = decoded(directory)?;
    assert_eq!(document["problems"], json!([]), "{told}");
    let sessions = document["sessions"].as_array_mut().unwrap();
    let gone = sessions.iter().position(|session| session["id"] == "gone").unwrap();
    let gone = sessions.remove(gone);
    assert!(agree(&document, expected), "{told}: {document:#}\nis not {expected:#}");
    assert_eq!((&gone["tail"], &gone["gaps"]), (&json!(EVENTS), &json!([])), "{told}");
    let erased = !gone["erased_at"].is_null();
    let events = gone["events"].as_array().unwrap().len();
    if erased {
        let told = (&gone["title"], &gone["metadata"], &gone["deleted_at"], events);
        assert_eq!(told, (&Value::Null, &json!({}), &gone["erased_at"], 0));
    } else {
        assert_eq!((&gone["deleted_at"], events), (&Value::Null, EVENTS), "{told}");
    }
    Some(erased)
}

/// Stops an erasure at one of its calls, or after the last; returns the number of calls, and true
/// if the session was erased.
async fn stopped(name: &str, call: u64, fault: Option<Fault>) -> (u64, bool) {
    let told = format!("{name}, call {call}: {fault:?}");
    let sim = Sim::new(71);
    sim.set_keys(keys_of(name).map(|keys| (*keys).clone()));
    let (store, expected) = fill(&sim).await;
    let first = sim.calls();
    fault.into_iter().for_each(|fault| sim.fail_call(first + call, fault, false));
    let answer = store.erase(&key("gone")).await;
    if fault.is_none() {
        answer.unwrap();
        store.write_idle_watermark();
    }
    let calls = sim.calls() - first;
    drop(store);
    sim.heal();
    sim.power_loss();
    let home = tempfile::tempdir().unwrap();
    lay_out(&sim, home.path());
    let found = is_erased_in(home.path(), &expected, &told);
    let erased = is_erased(&open(&sim), &key("gone")).await;
    assert!(found.is_none_or(|found| found == erased), "{told}: the store says otherwise");
    (calls, erased)
}

#[tokio::test]
async fn a_decoder_written_from_the_document_reports_an_erased_session_after_any_crash() {
    let stride = asked("SESSIONLOG_SEEDS").map_or(5, |_| 1);
    for name in ["plain", "encrypted"] {
        let (calls, erased) = stopped(name, 0, None).await;
        assert!(erased, "{name}");
        let mut seen = [false, false];
        for call in (0..calls).step_by(stride) {
            let fault = if call % 2 == 0 { Fault::PowerLoss } else { Fault::Kill };
            let (_, erased) = stopped(name, call, Some(fault)).await;
            seen[usize::from(erased)] = true;
        }
        assert_eq!(seen, [true, true], "{name}: it was stopped on both sides");
    }
}
