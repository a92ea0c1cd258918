//! A budget is counted on the text: never exceeded, and used up if something is left out.

use serde_json::{Value, json};
use sessionlog::harness::{Counter as _, Tokenizer};

use super::{brief, ran, restored, said, session};
use crate::http::house::over_every_engine;

/// Returns events with much text: requests, results of a few kilobytes, messages, changes.
fn long_work_events() -> Vec<Value> {
    let mut events =
        vec![said("user.message", "Mend the tax of each shop, and never touch stock.")];
    for n in 0..60 {
        let line = format!("shop {n} pays {} cents for item A{}\n", n * 37, n * 11);
        events.extend(ran(n, &format!("shop check {n}"), &line.repeat(n % 7 * 9 + 1), n % 9 == 4));
        let text = format!("Shop {n} rounds at {} cents, see shops/tax_{n}.py. ", n * 3);
        events.push(said("agent.message", &text.repeat(n % 5 + 1)));
        if n % 10 == 9 {
            events.push(said("user.message", &format!("Now look at shop {}, too.", n + 1)));
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brief_never_exceeds_its_budget_and_uses_it_when_items_are_left_out() {
    over_every_engine(async |house| {
        session(house, "much", &long_work_events()).await;
        for tokens in [1_000, 2_000, 4_000, 100_000] {
            for text in [
                brief(house, "much", "continuation", tokens).await,
                brief(house, "much", "index", tokens).await,
                restored(house, "much", tokens).await,
            ] {
                let spent = Tokenizer::O200k.count(&text);
                assert!(spent <= tokens, "{spent} of {tokens}: {text}");
                let is_all = !text.contains("\nNot shown: ");
                assert!(is_all || spent * 100 >= tokens * 95, "{spent} of {tokens}: {text}");
                assert_eq!(is_all, tokens == 100_000, "{tokens}: {text}");
            }
        }
        let small = brief(house, "much", "continuation", 400).await;
        assert!(Tokenizer::O200k.count(&small) <= 400, "{small}");
        assert!(small.contains("Mend the tax of each shop, and never touch stock."), "{small}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn views_reject_a_budget_of_zero_or_millions_and_a_restore_caps_it() {
    over_every_engine(async |house| {
        session(house, "much", &long_work_events()).await;
        for view in ["continuation", "index"] {
            for tokens in ["0", "-1", "many", "99999999999999999999999"] {
                let path =
                    format!("/v1/sessions/much/views/{view}?format=text&tokens_max={tokens}");
                let reply = house.get(&path).await;
                assert_eq!(reply.code(), "invalid_request", "{view} {tokens}: {}", reply.text);
                assert!(reply.text.contains("tokens_max"), "{}", reply.text);
            }
        }
        let path = "/v1/sessions/much/views/continuation?format=text&tokens_max=10000000";
        assert_eq!(house.get(path).await.code(), "invalid_request");
        let text = restored(house, "much", 10_000_000).await;
        assert!(!text.contains("\nNot shown: "), "{text}");
        let asked = json!({"session_id": "much", "create": false, "tokens_max": 0});
        let refused = house.post("/v1/workspaces/%2Fw/restore?format=text", &asked).await;
        assert_eq!(refused.code(), "invalid_request", "{}", refused.text);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_one_event_or_of_huge_results_has_a_brief() {
    over_every_engine(async |house| {
        session(house, "one", &[said("user.message", "Go north")]).await;
        let text = brief(house, "one", "continuation", 2_000).await;
        assert!(text.contains("**Task.** Go north"), "{text}");
        let line = "x = 7 of the shop at the harbour\n";
        let events: Vec<Value> = (0..3)
            .flat_map(|n| ran(n, &format!("dump {n}"), &line.repeat((7 << 19) / line.len()), false))
            .collect();
        session(house, "huge", &[]).await;
        for event in &events {
            let body = json!({"events": [event]});
            let sent = house.post("/v1/sessions/huge/events", &body).await;
            assert_eq!(sent.status, 200, "{}", sent.text);
        }
        for tokens in [400, 2_000] {
            let text = brief(house, "huge", "continuation", tokens).await;
            let spent = Tokenizer::O200k.count(&text);
            assert!(spent <= tokens && text.contains("$ dump 2 ->"), "{spent}: {text}");
        }
    })
    .await;
}
