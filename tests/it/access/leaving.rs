//! One user's content is exported and erased completely, and no content of another user is. It must
//! not use the engine directly.

use std::sync::Arc;

use serde_json::json;
use sessionlog::store::local::LocalStore;
use sessionlog_sim::Sim;

use super::house::{Wall, Walled};
use crate::{bytes::holds, engines::small, life::machine};

/// Users with sessions of equal names; the first user is removed.
const USERS: [(&str, &str); 3] = [("acme", "ada"), ("acme", "bob"), ("other", "ada")];
const SESSIONS: [&str; 2] = ["one", "two"];

/// Returns the files that contain a text, as the device has them.
fn files_containing(sim: &Sim, text: &str) -> Vec<String> {
    let has = |path: &String| holds(&sim.read_durable(path).unwrap_or_default(), text);
    sim.files().into_iter().filter(has).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_a_user_removes_all_of_its_content_and_nothing_else() {
    for encrypted in [false, true] {
        let sim = machine(31, encrypted);
        let local = Arc::new(LocalStore::open_local(&sim.env(), small()).unwrap());
        let walled = Walled::over(local.clone(), Arc::default(), Wall::default()).await;
        let tokens = USERS.map(|who| walled.admin(who));
        for (n, token) in tokens.iter().enumerate() {
            for session in SESSIONS {
                let event =
                    json!({"type": "user.message", "content": format!("canary-{n}-{session}")});
                let path = format!("/v1/sessions/{session}/events?create=true");
                let reply = walled.post(token, &path, &json!({ "events": [event] })).await;
                assert_eq!(reply.status, 200, "{}", reply.text);
            }
        }
        local.flush().unwrap();
        let mut kept = Vec::new();
        for token in &tokens {
            for session in SESSIONS {
                let path = format!("/v1/sessions/{session}/export");
                kept.push(walled.get(token, &path).await.text);
            }
        }
        for (n, export) in kept.iter().enumerate() {
            let (own, session) = (n / SESSIONS.len(), SESSIONS[n % SESSIONS.len()]);
            assert!(export.contains(&format!("canary-{own}-{session}")), "{export}");
            assert_eq!(export.matches("canary-").count(), 1, "{export}");
        }
        let [ada, others @ ..] = &tokens;
        let listed = walled.get(ada, "/v1/sessions").await.json();
        assert_eq!(listed["data"].as_array().map(Vec::len), Some(SESSIONS.len()), "{listed}");
        for session in listed["data"].as_array().unwrap() {
            let path = format!("/v1/sessions/{}/erase", session["id"].as_str().unwrap());
            let reply = walled.post(ada, &path, &json!({})).await;
            assert_eq!(reply.status, 200, "{}", reply.text);
        }
        assert_eq!(walled.get(ada, "/v1/sessions").await.json()["data"], json!([]));
        assert_eq!(files_containing(&sim, "canary-0"), Vec::<String>::new());
        assert_eq!(files_containing(&sim, "canary-1").is_empty(), encrypted, "the others' stay");
        let mut after = Vec::new();
        for token in others {
            for session in SESSIONS {
                let path = format!("/v1/sessions/{session}/export");
                after.push(walled.get(token, &path).await.text);
                let verified = walled.post(token, "/v1/admin/verify", &json!({})).await;
                assert_eq!(verified.json()["damage"], json!([]), "{}", verified.text);
            }
        }
        assert_eq!(after, kept[SESSIONS.len()..], "byte for byte");
    }
}
