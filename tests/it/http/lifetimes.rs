//! Lifetimes of sessions over HTTP: held, expired, restored, and announced.

use std::time::Duration;

use serde_json::{Value, json};

use super::house::over_every_engine;

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_session_expires_and_is_restored_and_a_held_one_is_kept() {
    over_every_engine(async |house| {
        for id in ["held", "idle", "read"] {
            let asked = json!({"id": id, "ttl_seconds": 3600});
            assert_eq!(house.post("/v1/sessions", &asked).await.status, 201);
        }
        let call = async |method: &str, path: &str| house.call(method, path, &[], None).await;
        let held = call("PUT", "/v1/sessions/held/hold").await;
        assert!(held.json()["held_at"].is_string(), "{}", held.text);
        let refused = call("DELETE", "/v1/sessions/held").await;
        assert_eq!((refused.status, refused.code()), (423, "session_held".to_owned()));
        for _ in 0..2 {
            house.clock.advance(Duration::from_secs(3_000));
            assert_eq!(house.get("/v1/sessions/read/events").await.status, 200);
        }

        let told = house.get("/v1/admin/retention").await.json();
        let rows = told["data"].as_array().unwrap();
        let row = |id: &str| rows.iter().find(|row| row["session"] == id).unwrap();
        assert_eq!((&row("idle")["next"], &row("idle")["due"]), (&json!("expire"), &json!(true)));
        assert_eq!((&row("read")["next"], &row("read")["due"]), (&json!("expire"), &json!(false)));
        assert_eq!((&row("held")["next"], &row("held")["due"]), (&json!("none"), &json!(false)));
        assert_eq!(told["retention_seconds"], 30 * 24 * 3_600);
        assert_eq!(house.get("/v1/sessions/held").await.status, 200, "a look changes nothing");

        let swept = call("POST", "/v1/admin/retention").await.json();
        assert_eq!(swept["expired"], json!(["idle"]));
        for path in ["/v1/sessions/idle", "/v1/sessions/idle/events"] {
            let gone = house.get(path).await;
            assert_eq!((gone.status, gone.code()), (410, "session_expired".to_owned()), "{path}");
            let hint = gone.json()["error"]["recovery_hint"]["action"].to_string();
            assert!(hint.contains("/v1/sessions/idle/restore"), "{hint}");
        }
        let listed = house.get("/v1/sessions").await.json();
        assert_eq!(listed["data"].as_array().unwrap().len(), 2);
        let back = call("POST", "/v1/sessions/idle/restore").await;
        assert_eq!((back.status, &back.json()["id"]), (200, &json!("idle")));
        assert_eq!(back.json()["restored"], true);
        let again = call("POST", "/v1/sessions/idle/restore").await;
        assert_eq!((again.status, &again.json()["restored"]), (200, &json!(false)));
        assert_eq!(house.get("/v1/sessions/idle/events").await.status, 200);

        let released = call("DELETE", "/v1/sessions/held/hold").await.json();
        assert_eq!(released["held_at"], Value::Null);
        assert_eq!(call("DELETE", "/v1/sessions/held").await.status, 200);
        let gone = house.get("/v1/sessions/held").await;
        assert_eq!((gone.status, gone.code()), (410, "session_deleted".to_owned()));
        let hint = gone.json()["error"]["recovery_hint"]["action"].to_string();
        assert!(hint.contains("/v1/sessions/held/restore"), "{hint}");
        let back = call("POST", "/v1/sessions/held/restore").await;
        assert_eq!((back.status, &back.json()["restored"]), (200, &json!(true)));
        assert_eq!(house.get("/v1/sessions/held").await.status, 200);
        let now = call("DELETE", "/v1/sessions/held?now=true").await;
        assert_eq!(now.json(), json!({"id": "held", "type": "session_deleted"}));
        let back = call("POST", "/v1/sessions/held/restore").await;
        assert_eq!((back.status, back.code()), (410, "session_deleted".to_owned()));
        assert_eq!(house.get("/v1/admin/retention?limit=0").await.status, 422);
    })
    .await;
}
