//! User messages, calls and failures in a brief.

use serde_json::json;

use super::{brief, ran, restored, said, session};
use crate::http::house::over_every_engine;

#[tokio::test(flavor = "multi_thread")]
async fn equal_user_messages_are_shown_once_with_a_count() {
    over_every_engine(async |house| {
        let mut events = vec![said("user.message", "Count the shops")];
        for n in 0..12 {
            events.push(said("agent.message", &format!("Shop {n} is counted at dock {}.", n * 7)));
            events.push(said("user.message", "Try the next one"));
        }
        events.push(said("user.message", "Which one is at the harbour?"));
        session(house, "asked", &events).await;
        for text in [
            brief(house, "asked", "continuation", 2_000).await,
            brief(house, "asked", "index", 2_000).await,
            restored(house, "asked", 2_000).await,
        ] {
            assert_eq!(text.matches("Try the next one").count(), 1, "{text}");
            assert!(text.contains("- Try the next one (12 times)"), "{text}");
            assert_eq!(text.matches("Count the shops").count(), 1, "{text}");
            assert!(
                text.contains("- Which one is at the harbour? <- the latest request"),
                "{text}"
            );
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn binding_sentences_are_shown_whole_at_every_budget() {
    over_every_engine(async |house| {
        let filler =
            "The shop has a long story that is of little use to the work at hand. ".repeat(12);
        let task = format!(
            "Convert the report. {filler}DO NOT MODIFY: tests, docs.\n{filler}You must keep the \
             names in lower case. {filler}Thanks."
        );
        let later = format!("And the header. {filler}Never print it on errors. {filler}Right?");
        let events = [
            said("user.message", &task),
            said("agent.message", "It is converted in shop/report.py."),
            said("user.message", &later),
            said("agent.message", "The header is in shop/header.py."),
        ];
        session(house, "bound", &events).await;
        for tokens in [1_000, 2_000] {
            for text in [
                brief(house, "bound", "continuation", tokens).await,
                restored(house, "bound", tokens).await,
            ] {
                for part in [
                    "Convert the report.",
                    "DO NOT MODIFY: tests, docs.",
                    "You must keep the names in lower case.",
                    "And the header.",
                    "Never print it on errors.",
                ] {
                    assert!(text.contains(part), "{tokens} {part}: {text}");
                }
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_brief_shows_calls_as_commands_and_failures_under_their_heading() {
    over_every_engine(async |house| {
        let mut events = vec![said("user.message", "Mend the tax")];
        events.extend(ran(1, "cargo test tax", "test tax_is_nine ... FAILED\n9 != 10", true));
        events.extend(ran(2, "ls shop", "tax.py stock.py", false));
        events.push(json!({"type": "agent.tool_use", "call_id": "e", "name": "Edit",
            "input": {"file_path": "shop/tax.py", "old_string": "9", "new_string": "10"}}));
        events.push(json!({"type": "agent.tool_result", "call_id": "e", "content": "done"}));
        events.push(said("agent.message", "Let me look at the rates."));
        events.push(said("agent.message", "The rate is kept in shop/rates.py."));
        session(house, "calls", &events).await;
        for text in [
            brief(house, "calls", "continuation", 2_000).await,
            brief(house, "calls", "index", 2_000).await,
            restored(house, "calls", 2_000).await,
        ] {
            assert!(text.contains("\nStill failing:\n- $ cargo test tax -> "), "{text}");
            assert!(text.contains("- $ ls shop -> tax.py stock.py"), "{text}");
            assert!(text.contains("\nChanged:\n- files: shop/tax.py"), "{text}");
            assert!(text.contains("shop/rates.py") && !text.contains("Let me look"), "{text}");
            for mark in ["{\"", "\\\"", "\\n", "description", "it is run"] {
                assert!(!text.contains(mark), "{mark}: {text}");
            }
        }
    })
    .await;
}
