//! Recording steps: numbers, retries, conflicts, revisions, branches, gaps.

use serde_json::{Value, json};
use sessionlog::{
    event::{Position, Range, SessionId},
    service::{Code, ResearchOptions},
    store::{FillDirection, ReadRequest},
};

use super::desk::{Desk, assert_no_null, session_of, step, with};

#[tokio::test]
async fn the_first_step_starts_a_session_and_its_answer_has_the_documented_names() {
    let desk = Desk::new();
    let answer =
        desk.ok("sequential_search", with(step(1), json!({"totalStepsEstimate": 3}))).await;
    assert_no_null(&answer);
    assert!(session_of(&answer).len() >= 20);
    for (name, expected) in [
        ("responseMode", json!("full")),
        ("boundBy", json!("new")),
        ("researchGoal", json!("step 1: looked and found 1")),
        ("currentStep", json!(1)),
        ("stepCount", json!(1)),
        ("totalStepsEstimate", json!(3)),
        ("isComplete", json!(false)),
        ("repeated", json!(false)),
        ("gaps", json!([])),
        ("sources", json!([])),
        ("truncated", json!(false)),
        ("trust", json!("untrusted-external-content")),
    ] {
        assert_eq!(answer[name], expected, "{name}");
    }
    assert_eq!(answer["steps"][0]["oneLiner"], "step 1: looked and found 1");
    assert_eq!(answer["lastSteps"][0]["stepNumber"], 1);
    let done = desk.ok("sequential_search", with(step(2), json!({"nextStepNeeded": false}))).await;
    assert_eq!((&done["isComplete"], done["completedAt"].is_string()), (&json!(true), true));
}

#[tokio::test]
async fn from_step_nine_on_the_answer_is_a_summary_unless_a_mode_is_set() {
    let desk = Desk::new();
    for number in 1..=8 {
        let answer = desk.ok("sequential_search", step(number)).await;
        assert_eq!(answer["responseMode"], "full", "{number}");
        assert!(answer.get("summary").is_none());
    }
    let ninth = desk.ok("sequential_search", step(9)).await;
    assert_eq!(ninth["responseMode"], "summary");
    assert!(ninth["summary"].as_str().unwrap().contains("9 steps"));
    assert_eq!(ninth["stepIndex"].as_array().unwrap().len(), 9);
    let tenth = desk.ok("sequential_search", with(step(10), json!({"responseMode": "full"}))).await;
    assert_eq!(tenth["responseMode"], "full");
    assert_eq!(tenth["steps"].as_array().unwrap().len(), 10);
    let delta = desk
        .ok(
            "sequential_search",
            with(step(11), json!({"delta": true, "knowledgeGap": "what of twelve?"})),
        )
        .await;
    assert_eq!(delta["responseMode"], "delta");
    assert_eq!(delta["gapOpened"]["description"], "what of twelve?");
    assert!(delta.get("lastSteps").is_none() && delta.get("stepIndex").is_none());
    assert!(delta.to_string().len() < 700, "{delta}");
}

#[tokio::test]
async fn a_caller_can_request_the_coverage_of_sources() {
    let desk = Desk::new();
    let asked = |number, depth: &str| with(step(number), json!({ "depth": depth }));
    let quick = desk.ok("sequential_search", asked(1, "quick")).await;
    assert!(quick.get("coverage").is_none() && quick.get("depth").is_none());
    let none = desk.ok("sequential_search", asked(2, "standard")).await;
    assert_eq!((&none["depth"], &none["coverage"]["sourceCount"]), (&json!("standard"), &json!(0)));
    assert_eq!(none["coverage"]["gaps"].as_array().unwrap().len(), 1, "{none}");
    let sources = json!([
        {"url": "https://www.a.org/1", "relevance": "academic"},
        {"url": "https://a.org/2", "relevance": "academic"},
        {"url": "https://A.org/3"},
        {"url": "https://b.org/1", "relevance": "news"},
        {"url": "doi:10.1/x", "relevance": "academic"},
    ]);
    desk.ok("add_sources", json!({ "sources": [sources[0], sources[1]] })).await;
    let few = desk.ok("sequential_search", asked(3, "thorough")).await;
    assert_eq!(few["coverage"]["gaps"].as_array().unwrap().len(), 3, "few, one site, one kind");
    desk.ok("add_sources", json!({ "sources": sources })).await;
    for (number, gap) in [(4, "when?"), (5, "who?"), (6, "why?")] {
        desk.ok("sequential_search", with(step(number), json!({"knowledgeGap": gap}))).await;
    }
    let closing = with(asked(7, "thorough"), json!({"closesGap": "who?", "delta": true}));
    let found = desk.ok("sequential_search", closing).await;
    assert_no_null(&found);
    assert_eq!(
        found["coverage"],
        json!({"sourceCount": 5, "uniqueDomains": 2, "domainSpread": 0.4,
            "sourceTypes": {"academic": 3, "news": 1, "other": 1}, "gaps": []})
    );
    assert_eq!(found["refinementQueries"], json!(["why?", "when?"]));
    let hostile = super::bounds::hostile(3_000);
    for number in 8..=30 {
        let more = json!({"searchStep": hostile, "knowledgeGap": format!("{number} {hostile}")});
        let answer = desk.ok("sequential_search", with(asked(number, "thorough"), more)).await;
        let source = json!({"url": format!("https://{number}.org"), "relevance": format!("{number}{hostile}")});
        desk.ok("add_sources", json!({ "sources": [source] })).await;
        assert!(answer.to_string().len() <= super::bounds::ANSWER_BYTES, "{answer}");
        assert_eq!(answer["coverage"]["sourceTypes"].as_object().unwrap().len().min(3), 3);
    }
}

#[tokio::test]
async fn a_retry_returns_the_same_answer_and_other_content_is_a_conflict() {
    let desk = Desk::new();
    let everything = json!({
        "researchGoal": "a goal", "reasoning": "why", "confidence": "high",
        "rejectedApproaches": ["guessing"], "knowledgeGap": "when?", "sessionSummary": "begun",
    });
    let first = desk.ok("sequential_search", with(step(1), everything.clone())).await;
    let again = desk.ok("sequential_search", with(step(1), everything.clone())).await;
    assert_eq!(session_of(&again), session_of(&first), "a lost answer starts no second session");
    assert_eq!(again["repeated"], true);
    assert_eq!(again["position"], first["position"]);

    let closing = with(step(2), json!({"closesGap": "when?"}));
    let second = desk.ok("sequential_search", closing.clone()).await;
    assert_eq!(second["gapClosed"]["gapId"], "g1");
    assert_eq!(second["gaps"], json!([]));
    let again = desk.ok("sequential_search", closing).await;
    assert_eq!((&again["repeated"], &again["position"]), (&json!(true), &second["position"]));

    for other in [
        json!({"searchStep": "something else"}),
        json!({"reasoning": "added"}),
        json!({"knowledgeGap": "added"}),
        json!({"sessionSummary": "added"}),
        json!({"nextStepNeeded": false}),
    ] {
        let error = desk.refused("sequential_search", with(step(2), other.clone())).await;
        assert_eq!(error.code, Code::StepConflict, "{other}");
        assert_eq!(error.hint.last_step, Some(2));
        assert!(error.hint.action.unwrap().contains("stepNumber 3"));
    }
    assert_eq!(desk.recover().await["stepCount"], 2);
}

#[tokio::test]
async fn a_gap_in_the_step_numbers_is_rejected_with_the_next_number() {
    let desk = Desk::new();
    desk.ok("sequential_search", step(1)).await;
    for number in [3, 4, 1_000, u64::MAX] {
        let error = desk.refused("sequential_search", step(number)).await;
        assert_eq!((error.code, error.hint.last_step), (Code::StepConflict, Some(1)));
        assert!(error.hint.action.unwrap().contains("stepNumber 2"), "the hint can be followed");
    }
    desk.ok("sequential_search", step(2)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_sixteen_callers_recording_one_step_number_exactly_one_succeeds() {
    let desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let mut callers = Vec::new();
    for caller in 0..16 {
        let other = desk.another();
        let words = json!({"searchStep": format!("caller {caller}"), "sessionId": session});
        callers.push(tokio::spawn(async move {
            other.call("sequential_search", with(step(2), words)).await
        }));
    }
    let (mut won, mut refused) = (Vec::new(), 0);
    for caller in callers {
        match caller.await.unwrap() {
            Ok(answer) => won.push(answer["lastSteps"][1]["description"].clone()),
            Err(error) => {
                assert_eq!((error.code, error.hint.last_step), (Code::StepConflict, Some(2)));
                refused += 1;
            }
        }
    }
    assert_eq!((won.len(), refused), (1, 15));
    let found = desk.recover().await;
    assert_eq!(found["stepCount"], 2);
    assert_eq!(found["lastSteps"][1]["description"], won[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_callers_of_the_same_step_all_get_one_answer() {
    let desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let calls = (0..16).map(|_| {
        let (other, session) = (desk.another(), session.clone());
        tokio::spawn(async move {
            other.ok("sequential_search", with(step(2), json!({"sessionId": session}))).await
        })
    });
    let mut written = 0;
    for call in calls.collect::<Vec<_>>() {
        written += usize::from(call.await.unwrap()["repeated"] == false);
    }
    assert_eq!((written, &desk.recover().await["stepCount"]), (1, &json!(2)));
}

#[tokio::test]
async fn a_step_and_its_sources_and_gaps_are_stored_as_one_batch() {
    let desk = Desk::new();
    let all = json!({"researchGoal": "g", "knowledgeGap": "k", "sessionSummary": "s"});
    let answer = desk.ok("sequential_search", with(step(1), all)).await;
    let key = desk.caller.key(&SessionId::new(&session_of(&answer)).unwrap());
    let read = ReadRequest {
        range: Range::new(Position(0), Position(9)),
        events_max: 9,
        bytes_max: 1 << 20,
        fill: FillDirection::Forward,
        allow_gaps: false,
    };
    let events = desk.store.read(&key, read).await.unwrap().events;
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    let expected = ["research.goal", "research.step", "research.gap_opened", "research.summary"];
    assert_eq!(kinds, expected);
    assert_eq!(
        events[1].body,
        r#"{"number":1,"description":"step 1: looked and found 1"}"#.as_bytes()
    );
}

#[tokio::test]
async fn a_revision_supersedes_its_step_and_branches_are_kept() {
    let desk = Desk::new();
    for number in 1..=3 {
        desk.ok("sequential_search", step(number)).await;
    }
    let revising = json!({"isRevision": true, "revisesStep": 2});
    desk.ok("sequential_search", with(step(4), revising)).await;
    let error = desk.refused("sequential_search", with(step(5), json!({"revisesStep": 999}))).await;
    assert_eq!(error.hint.field.as_deref(), Some("revisesStep"));
    let error =
        desk.refused("sequential_search", with(step(5), json!({"branchFromStep": 2}))).await;
    assert_eq!(error.hint.field.as_deref(), Some("branchFromStep"));

    let aside = json!({"branchId": "aside", "branchFromStep": 2, "searchStep": "aside three"});
    desk.ok("sequential_search", with(step(3), aside)).await;
    let aside = json!({"branchId": "aside", "searchStep": "aside four"});
    desk.ok("sequential_search", with(step(4), aside)).await;
    desk.ok("sequential_search", step(5)).await;

    let found = desk.recover().await;
    assert_eq!(found["branches"], json!([{"branchId": "aside", "fromStep": 2, "lastStep": 4}]));
    assert_eq!(found["stepIndex"][1]["supersededBy"], 4);
    let one = desk.ok("get_research_session", json!({"stepId": 4, "branchId": "aside"})).await;
    assert_eq!(one["step"]["description"], "aside four");
    let main = desk.ok("get_research_session", json!({"stepId": 4})).await;
    assert_eq!(main["step"]["revisesStep"], 2);
    let point = desk.ok("get_events", json!({"from": "step:4@aside", "limit": 1})).await;
    assert_eq!(point["events"][0]["description"], "aside four");
}

#[tokio::test]
async fn an_invalid_step_is_rejected_naming_the_member_and_nothing_is_written() {
    let desk = Desk::new();
    desk.ok("sequential_search", step(1)).await;
    for (more, field) in [
        (json!({"stepNumber": 0}), "stepNumber"),
        (json!({"stepNumber": -3}), "stepNumber"),
        (json!({"stepNumber": "second"}), "stepNumber"),
        (json!({"stepNumber": 2.5}), "stepNumber"),
        (json!({"searchStep": "  "}), "searchStep"),
        (json!({"searchStep": 7}), "searchStep"),
        (json!({"confidence": "total"}), "confidence"),
        (json!({"responseMode": "tiny"}), "responseMode"),
        (json!({"nope": 1}), "nope"),
        (json!({"closesGap": "unheard of"}), "closesGap"),
        (json!({"branchId": "a\nb"}), "branchId"),
        (json!({"branchId": "b".repeat(65)}), "branchId"),
        (json!({"sessionId": "../etc"}), "sessionId"),
    ] {
        let error = desk.refused("sequential_search", with(step(2), more.clone())).await;
        assert_eq!(error.code, Code::InvalidRequest, "{more} {}", error.message);
        assert_eq!(error.hint.field.as_deref(), Some(field), "{more} {}", error.message);
    }
    let huge = json!({"searchStep": "x".repeat(5 << 20)});
    let error = desk.refused("sequential_search", with(step(2), huge)).await;
    assert_eq!(error.code, Code::BodyTooLarge);
    let error = desk.refused("sequential_search", json!([])).await;
    assert_eq!(error.code, Code::InvalidRequest);
    assert_eq!(desk.recover().await["stepCount"], 1);
    let nulls = json!({"reasoning": null, "rejectedApproaches": null, "sessionId": null});
    desk.ok("sequential_search", with(step(2), nulls)).await;
}

#[tokio::test]
async fn a_step_beyond_the_limit_is_rejected_with_an_error() {
    let options = ResearchOptions { steps_max: 2, ..ResearchOptions::default() };
    let desk = Desk::new().bounded(options);
    desk.ok("sequential_search", step(1)).await;
    desk.ok("sequential_search", step(2)).await;
    let error = desk.refused("sequential_search", step(3)).await;
    assert_eq!((error.code, error.hint.last_step), (Code::LimitReached, Some(2)));
    assert_eq!(desk.ok("sequential_search", step(2)).await["repeated"], true);
}

#[tokio::test]
async fn the_work_of_a_full_session_continues_with_the_suggested_calls() {
    let options = ResearchOptions { steps_max: 2, ..ResearchOptions::default() };
    let desk = Desk::new().bounded(options).in_directory("/work/bank");
    let goal = json!({"researchGoal": "How bridges carry loads"});
    let full = session_of(&desk.ok("sequential_search", with(step(1), goal)).await);
    desk.ok("sequential_search", step(2)).await;
    let error = desk.refused("sequential_search", step(3)).await;
    let action = error.hint.action.clone().unwrap();
    assert!(!action.contains("start another"), "{action}");
    assert!(action.contains(&format!("restore_session with sessionId {full}")), "{action}");
    let call = error.hint.call.expect("a call");
    assert_eq!(call.tool, "clear_session");
    desk.ok(call.tool, Value::Object(call.arguments)).await;
    let handed = desk.ok("restore_session", json!({"sessionId": full})).await;
    assert!(handed["context"].as_str().unwrap().contains("How bridges carry loads"), "{handed}");
    let next = desk.ok("sequential_search", step(1)).await;
    assert_eq!(next["sessionId"], handed["sessionId"]);
    assert_ne!(next["sessionId"], json!(full));
}

#[tokio::test]
async fn a_retry_under_the_same_key_starts_one_session_even_after_a_restart() {
    let desk = Desk::new();
    let first = desk.keyed("call-1", step(1)).await.unwrap();
    let again = desk.another().keyed("call-1", step(1)).await.unwrap();
    assert_eq!((&again["sessionId"], &again["repeated"]), (&first["sessionId"], &json!(true)));
    let later = desk.restarted().await.another();
    let again = later.keyed("call-1", step(1)).await.unwrap();
    assert_eq!((&again["sessionId"], &again["stepCount"]), (&first["sessionId"], &json!(1)));
    let other = with(step(1), json!({"searchStep": "another"}));
    let refused = later.another().keyed("call-1", other).await.unwrap_err();
    assert_eq!(refused.code, Code::IdempotencyConflict);
}

#[tokio::test]
async fn the_model_and_the_engine_return_the_same_answers() {
    let mut answers = Vec::new();
    for desk in [Desk::model(), Desk::new()] {
        for number in 1..=12 {
            let more = json!({"knowledgeGap": format!("gap {number}"), "sessionId": "same"});
            if number == 1 {
                let new = sessionlog::store::NewSession {
                    id: Some(SessionId::new("same").unwrap()),
                    ..Default::default()
                };
                desk.store.create(&desk.caller.scope, new).await.unwrap();
            }
            desk.ok("sequential_search", with(step(number), more)).await;
        }
        answers.push(desk.recover().await);
    }
    assert_eq!(answers[0], answers[1]);
}

#[tokio::test]
async fn a_step_is_recorded_during_concurrent_writes_to_the_session() {
    let desk = Desk::new();
    let session = session_of(&desk.ok("sequential_search", step(1)).await);
    let noise = desk.another();
    for number in 2..=20 {
        let event =
            json!({"sessionId": session, "event": {"type": "user.message", "content": "hi"}});
        noise.ok("emit_event", event).await;
        desk.ok("sequential_search", step(number)).await;
    }
    let found = desk.recover().await;
    assert_eq!((&found["stepCount"], &found["activity"]["events"]), (&json!(20), &json!(19)));
}

#[tokio::test]
async fn dropping_the_cached_facts_changes_no_answer() {
    let desk = Desk::new();
    for number in 1..=12 {
        let more = json!({"knowledgeGap": format!("gap {number}"), "confidence": "high"});
        desk.ok("sequential_search", with(step(number), more)).await;
    }
    let before = desk.recover().await;
    desk.service.evict_facts();
    assert_eq!(desk.recover().await, before);
    let options = ResearchOptions { facts_bytes_max: 0, ..ResearchOptions::default() };
    let session = session_of(&before);
    let bare = desk.restarted().await.bounded(options).remembering(&session);
    assert_eq!(bare.recover().await, before);
}
