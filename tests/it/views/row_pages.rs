//! Rows wherever a page of them begins: pairs of calls and results, what a withdrawn compaction
//! took out, and the content of messages.

use serde_json::{Value, json};

use super::rows::{emit, page, rows_of};
use crate::http::house::over_every_engine;

#[tokio::test(flavor = "multi_thread")]
async fn a_row_has_the_content_of_its_message_where_asked_for_and_within_its_bytes() {
    over_every_engine(async |house| {
        let blocks = json!([{"type": "text", "text": "two"}, {"type": "text", "text": "blocks"}]);
        let large = |size: usize| json!({"type": "agent.message", "content": "x".repeat(size)});
        let mut events = vec![
            json!({"type": "user.message", "content": "one\n\nline"}),
            json!({"type": "user.message", "content": blocks}),
            json!({"type": "agent.tool_use", "call_id": "c", "name": "Bash", "input": {}}),
            json!({"type": "agent.tool_result", "call_id": "c", "content": "made"}),
            json!({"type": "agent.message"}),
            large(64_001),
        ];
        events.extend((0..7).map(|_| large(63_000)));
        events.push(json!({"type": "user.message", "content": "after"}));
        emit(house, "s", &events).await;
        let mut rows = page(house, "s", "content=true").await;
        let rows = rows["rows"].as_array_mut().unwrap();
        let contents: Vec<Value> = rows
            .iter_mut()
            .map(|row| row.as_object_mut().unwrap().remove("content").into())
            .collect();
        assert_eq!(contents[..2], [json!("one\n\nline"), blocks]);
        assert!(contents[2..6].iter().all(Value::is_null), "{contents:?}");
        let sizes: Vec<_> = contents[6..].iter().map(|one| one.as_str().map(str::len)).collect();
        // Six of 63 000 bytes are within 400 000; the short one behind the seventh is, too.
        let six = [Some(63_000); 6];
        assert_eq!((&sizes[..6], &sizes[6..]), (&six[..], &[None, Some(5)][..]));
        assert_eq!(page(house, "s", "").await["rows"].as_array(), Some(&*rows));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_of_results_without_an_id_are_the_same_wherever_a_page_begins() {
    over_every_engine(async |house| {
        let mut events: Vec<Value> =
            (0..1300).map(|n| json!({"type": "user.message", "content": n.to_string()})).collect();
        // Two calls are open at each result, which answers the older one.
        for n in [90, 400, 700, 1000] {
            events[n] = json!({"type": "agent.tool_use", "name": "Bash",
                "input": {"command": format!("run {n}")}});
        }
        for n in [580, 890, 1190] {
            events[n] = json!({"type": "agent.tool_result", "name": "Bash", "content": "no",
                "is_error": true});
        }
        emit(house, "s", &events).await;
        let whole = rows_of(house, "s", "", 500).await;
        let pairs: Vec<_> = whole.iter().filter_map(|row| row["of"].as_u64()).collect();
        assert_eq!(pairs, [90, 400, 700]);
        assert!(
            whole.iter().filter(|row| row["kind"] == "result").all(|row| row["failed"] == true)
        );
        assert_eq!(rows_of(house, "s", "", 200).await, whole);
        // A page that begins behind a call, at a result, and behind it.
        for from in [91, 401, 579, 580, 581, 701, 889, 890, 891, 1189, 1190, 1191] {
            let behind = page(house, "s", &format!("from={from}&limit=7")).await;
            assert_eq!(behind["rows"].as_array().unwrap(), &whole[from..from + 7], "{from}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_withdrawn_compaction_took_out_are_in_the_context() {
    over_every_engine(async |house| {
        let said = json!({"type": "user.message", "content": "go"});
        let compacted = json!({"type": "context.compacted", "trigger": "auto"});
        let rewound = |ranges: Value| json!({"type": "context.rewound", "withdrawn": ranges});
        let dropped = async || {
            let rows = rows_of(house, "s", "", 500).await;
            rows.iter().map(|row| row["dropped"].as_u64()).collect::<Vec<_>>()
        };
        emit(house, "s", &[said.clone(), compacted.clone(), said.clone(), compacted]).await;
        assert_eq!(dropped().await, [Some(1), Some(3), Some(3), None]);
        emit(house, "s", &[rewound(json!([{"from": 1, "to": 2}]))]).await;
        assert_eq!(dropped().await, [Some(3), Some(3), Some(3), None, None]);
        emit(house, "s", &[rewound(json!([{"from": 1, "to": 4}]))]).await;
        assert_eq!(dropped().await, [None; 6]);
        // The latest rewind lists all that is withdrawn.
        emit(house, "s", &[rewound(json!([]))]).await;
        assert_eq!(dropped().await[..4], [Some(1), Some(3), Some(3), None]);
        // A withdrawn one stays so behind more later ones than are kept.
        let none = json!({"type": "context.compacted", "trigger": "auto", "dropped": []});
        emit(house, "s", &[rewound(json!([{"from": 1, "to": 4}]))]).await;
        emit(house, "s", &vec![none; 101]).await;
        assert_eq!(dropped().await[..4], [None; 4]);
        emit(house, "s", &[rewound(json!([{"from": 0, "to": 4}]))]).await;
        assert_eq!(dropped().await[..4], [None; 4]);
    })
    .await;
}
