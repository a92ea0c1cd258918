//! Shares of a restore's budget that follow what a successor used of the restore before it.

use serde_json::{Value, json};

use super::{answered, append, edited, events, ok, ran, said};
use crate::{http::house::over_every_engine, memory::session};

/// Subjects of a session, each with a name in the conversation and one in a result of a tool.
const SUBJECTS: usize = 60;

fn percents(answer: &Value) -> [u64; 3] {
    ["code", "conversation", "metadata"]
        .map(|name| answer["budget"][name]["percent"].as_u64().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_follow_what_the_successor_used_of_the_last_restore_when_asked() {
    over_every_engine(async |house| {
        session(house, "one", "/work/bank").await;
        append(house, "one", json!([said("Count the money of the shop in cents")])).await;
        append(house, "one", json!(edited("c", "price.py"))).await;
        for at in 0..SUBJECTS {
            let output = format!("row {at}: ledger_{at}.csv has no balance column yet");
            let words = format!(
                "The rounding rule{at}.half belongs to branch office{at}/desk and no other office."
            );
            let [call, result] =
                ran(&format!("c{at}"), &format!("head ledger_{at}.csv"), &output, false);
            append(house, "one", json!([call, result, answered(&words)])).await;
        }
        let first = ok(house, "/restore", json!({"tokens_max": 1_500, "adapt": true})).await;
        assert_eq!(percents(&first), [60, 30, 10], "nothing was restored before: {first}");

        let two = first["session_id"].as_str().unwrap().to_owned();
        let still = json!({"session_id": two, "create": false, "adapt": true});
        let still = ok(house, "/restore", still).await;
        assert_eq!(percents(&still), [60, 30, 10], "nothing was used yet: {still}");
        // Looks at files are the front end's, and no use of them.
        let looks = (0..SUBJECTS).map(|at| {
            json!({"type": "file.checked", "path": format!("ledger_{at}.csv"), "status": "same"})
        });
        append(house, &two, looks.collect()).await;
        let looked = json!({"session_id": two, "create": false, "adapt": true});
        assert_eq!(percents(&ok(house, "/restore", looked.clone()).await), [60, 30, 10]);
        // The successor works with what was said, most of which it was not given.
        for at in 0..SUBJECTS {
            let asked = format!("Apply rule{at}.half to office{at}/desk as well");
            append(house, &two, json!([said(&asked)])).await;
        }
        let look = json!({"session_id": two, "create": false});
        let usual = ok(house, "/restore", look.clone()).await;
        assert_eq!(percents(&usual), [60, 30, 10], "no caller asked for it");
        let mut asked = look;
        asked["adapt"] = json!(true);
        let moved = ok(house, "/restore", asked.clone()).await;
        let [code, talk, rest] = percents(&moved);
        assert!(talk > 30 && code < 60, "{moved}");
        assert_eq!(code + talk + rest, 100);
        let notice = moved["notices"].to_string();
        assert!(notice.contains(&format!("conversation {talk} % (30 %)")), "{notice}");

        // What a client writes of a restore is bounded like what one asks.
        let forged = json!({"type": "session.restored", "tokens_max": u64::MAX, "chosen": [],
            "from": {"session": "one", "position": first["position"]},
            "weights": {"share.code": u64::MAX, "share.conversation": u64::MAX,
                "share.metadata": 1, "threshold": u64::MAX}});
        asked["create"] = json!(true);
        let third = ok(house, "/restore", asked).await;
        let weights = &events(house, third["session_id"].as_str().unwrap()).await[0]["weights"];
        assert_eq!(weights["share.conversation"], talk, "the next one begins there: {weights}");
        append(house, &two, json!([forged, said("Apply rule1.half")])).await;
        let forged = percents(&ok(house, "/restore", looked).await);
        assert_eq!(forged.iter().sum::<u64>(), 100, "{forged:?}");
    })
    .await;
}
