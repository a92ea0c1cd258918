//! Agents that were killed: their sessions do not stay running.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::json;
use sessionlog::service::Service;

use crate::{
    engines,
    http::house::{House, Plan},
};

/// Time after which a silent agent may count as gone.
const QUIET: Duration = Duration::from_secs(121);

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_an_agent_that_was_killed_is_idle_and_other_sessions_stay_running() {
    for engine in engines::with_servers().await {
        let service = Service::new(Arc::clone(&engine.store), engine.clock.clone());
        let plan = Plan { service: Some(service.clone()), ..Plan::default() };
        let house = House::over(engine.store.clone(), engine.clock.clone(), plan).await;
        let begun = [
            ("killed", json!(["a1", "a2", "machine:here"])),
            ("alive", json!(["b1", "b2", "machine:here"])),
            ("elsewhere", json!(["c1", "machine:there"])),
            ("unnamed", json!(["d1"])),
        ];
        for (id, process) in &begun {
            assert_eq!(house.post("/v1/sessions", &json!({ "id": id })).await.status, 201);
            let start = json!({ "type": "session.status_running", "source": "startup",
                "process": process, "created_at": "2026-01-01T00:00:00Z" });
            let events = json!({ "events": [start] });
            let sent = house.post(&format!("/v1/sessions/{id}/events"), &events).await;
            assert_eq!(sent.status, 200, "{}", sent.text);
        }
        let running = || {
            let names = ["b2", "c9", "machine:here"].map(str::to_owned);
            Some(BTreeSet::from(names))
        };
        assert_eq!(service.stop_gone_agents(running).await.unwrap(), 0, "they wrote just now");
        engine.clock.advance(QUIET);
        let before = house.get("/v1/sessions/killed").await.json();
        assert_eq!(service.stop_gone_agents(running).await.unwrap(), 1, "{}", engine.name);
        assert_eq!(service.stop_gone_agents(running).await.unwrap(), 0, "once");
        for (id, _) in &begun {
            let now = house.get(&format!("/v1/sessions/{id}")).await.json();
            let wanted = if *id == "killed" { "idle" } else { "running" };
            assert_eq!(now["status"], wanted, "{id}: {now}");
        }
        let after = house.get("/v1/sessions/killed").await.json();
        assert_eq!(after["updated_at"], before["updated_at"], "the look is no work");
        let events = house.get("/v1/sessions/killed/events").await.json();
        assert_eq!(events["data"][1]["stop_reason"]["type"], "agent_gone", "{events}");
    }
}
