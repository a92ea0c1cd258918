//! The summary on its three levels, reasons for shown items, and pages of the lists of an index:
//! over HTTP, and as of a point.

use serde_json::{Value, json};

use crate::http::house::House;

async fn emit(house: &House, id: &str, events: Value) {
    let path = format!("/v1/sessions/{id}/events?create=true");
    let reply = house.post(&path, &json!({ "events": events })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
}

async fn view(house: &House, id: &str, view: &str) -> Value {
    let reply = house.get(&format!("/v1/sessions/{id}/views/{view}")).await;
    assert_eq!(reply.status, 200, "{view}: {}", reply.text);
    reply.json()
}

/// Creates three phases: a finished step of the plan, a compaction, and the current work.
async fn create_phases(house: &House, id: &str) {
    let plan = |first: &str| {
        json!({"type": "plan.updated", "steps": [{"title": "look at the axle", "status": first},
            {"title": "mend the axle", "status": "todo"}]})
    };
    emit(
        house,
        id,
        json!([
            {"type": "user.message", "content": "Mend the cart."},
            plan("doing"),
            {"type": "agent.message", "content": "The axle is bent by 4 mm near the hub."},
            plan("done"),
            {"type": "agent.message", "content": "Heating it to 600 degrees made it straight."},
            {"type": "context.compacted", "trigger": "auto", "summary": "bent axle"},
            {"type": "user.message", "content": "Now paint the cart in green."},
            {"type": "agent.message", "content": "Two coats of RAL 6001 are on."},
        ]),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_summary_has_three_levels_and_auto_selects_the_finest_that_fits() {
    let house = House::plain().await;
    create_phases(&house, "s").await;
    let phases = view(&house, "s", "summary?level=phase").await;
    assert_eq!(phases["level"], "phase");
    let told = phases["phases"].as_array().unwrap();
    let ends: Vec<_> = told
        .iter()
        .map(|one| (one["from"].as_u64(), one["to"].as_u64(), &one["ended_by"]))
        .collect();
    assert_eq!(
        ends,
        [
            (Some(0), Some(4), &json!("plan_step")),
            (Some(4), Some(6), &json!("compaction")),
            (Some(6), Some(8), &Value::Null),
        ]
    );
    for (at, words) in [
        (0, &["Asked: Mend the cart.", "Finished: look at the axle", "4 mm near the hub"][..]),
        (1, &["600 degrees"]),
        (2, &["Asked: Now paint the cart in green.", "RAL 6001"]),
    ] {
        let text = told[at]["text"].as_str().unwrap();
        assert!(words.iter().all(|word| text.contains(word)), "{at}: {text}");
    }
    let session = view(&house, "s", "summary?level=session").await;
    assert_eq!((&session["level"], &session["phases"]), (&json!("session"), &Value::Null));
    for words in ["Mend the cart.", "Now paint the cart in green.", "RAL 6001"] {
        assert!(session["summary"].as_str().unwrap().contains(words), "{session}");
    }
    assert_eq!(view(&house, "s", "summary").await["level"], "step");
    assert_eq!(view(&house, "s", "summary?level=auto").await["level"], "step", "all of it fits");
    let then = view(&house, "s", "summary?level=phase&at=4").await;
    assert_eq!(then["phases"].as_array().unwrap().len(), 1);
    let refused = house.get("/v1/sessions/s/views/summary?level=chapter").await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_summary_level_depends_on_the_budget_and_a_callers_summary_comes_first() {
    let house = House::plain().await;
    for number in 1..=40_u64 {
        let text = format!("Step {number} measured {} of brass. ", number * 17).repeat(9);
        emit(
            &house,
            "s",
            json!([{"type": "user.message", "content": format!("Do part {number} of the work.")},
                {"type": "research.step", "number": number, "description": text}]),
        )
        .await;
    }
    emit(&house, "s", json!([{"type": "research.summary", "summary": "Brass it is."}])).await;
    // Four phases of thirty steps, each with three statements.
    for number in 0..120_u64 {
        let text = format!(
            "Bar {number} broke at {} N. The lathe of shop {number} turned it to {} mm. Its owner \
             number {number} asked for {} euros.",
            number * 31,
            number * 7,
            number * 3
        );
        let mut events =
            json!([{"type": "research.step", "number": number + 1, "description": text}]);
        if number.is_multiple_of(30) {
            let asked = json!({"type": "user.message", "content": format!("Test lot {number}.")});
            events.as_array_mut().unwrap().insert(0, asked);
        }
        emit(&house, "long", events).await;
    }
    emit(&house, "long", json!([{"type": "research.summary", "summary": "Steel it is."}])).await;
    let phases = view(&house, "long", "summary?level=auto&tokens_max=2000").await;
    assert_eq!((&phases["level"], &phases["summary"]), (&json!("phase"), &json!("Steel it is.")));
    let steps: Vec<_> =
        phases["phases"].as_array().unwrap().iter().map(|one| one["steps"].as_u64()).collect();
    assert_eq!(steps, [Some(30); 4]);
    let session = view(&house, "s", "summary?level=auto&tokens_max=1000").await;
    assert_eq!(session["level"], "session");
    assert!(
        session["summary"].as_str().unwrap().starts_with("Caller's summary after step 40: Brass")
    );
    assert!(session.to_string().len() <= 3_000, "{}", session.to_string().len());
    let few = view(&house, "s", "summary?level=phase&tokens_max=1000").await;
    let shown = few["phases"].as_array().unwrap();
    assert_eq!(shown.last().unwrap()["to"], few["position"].as_u64().unwrap(), "the newest stay");
    let left_out = few["left_out"]["phases"].as_u64().unwrap();
    assert_eq!((shown.len() as u64 + left_out, &few["truncated"]), (10, &json!(true)));
    assert!(few.to_string().len() <= 3_000, "{}", few.to_string().len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_research_and_a_chat_have_few_phases_and_a_labelled_checkpoint_ends_a_phase() {
    let house = House::plain().await;
    for number in 1..=20_u64 {
        let text = format!("Step {number} found {} g of salt.", number * 17);
        let step = json!({"type": "research.step", "number": number, "description": text});
        emit(&house, "research", json!([step])).await;
        let asked = json!({"type": "user.message", "content": format!("What of part {number}?")});
        let said = json!({"type": "agent.message", "content": format!("Part {number} is fine.")});
        emit(&house, "chat", json!([asked, said])).await;
    }
    let phases = async |id: &str| {
        let view = view(&house, id, "summary?level=phase").await;
        view["phases"].as_array().unwrap().clone()
    };
    let research = phases("research").await;
    let steps: Vec<_> = research.iter().map(|one| one["steps"].as_u64().unwrap()).collect();
    assert_eq!(steps, [4; 5]);
    let chat = phases("chat").await;
    assert_eq!(chat.len(), 3, "{chat:#?}");
    assert_eq!(chat[0]["ended_by"], "instruction");
    let text = chat[0]["text"].as_str().unwrap();
    assert!(
        text.contains("Asked: What of part 3?") && text.contains("and 3 requests more"),
        "{text}"
    );
    // A checkpoint named by a user ends a phase; one named by a hook at each prompt does not.
    for (at, label) in [(10, "half is done"), (3, "prompt"), (5, "prompt")] {
        let body = json!({ "label": label, "at": at.to_string() });
        let reply = house.post("/v1/sessions/research/checkpoints", &body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
    }
    let research = phases("research").await;
    let ended = |one: &Value| one["ended_by"] == "checkpoint";
    let named: Vec<&Value> = research.iter().filter(|one| ended(one)).collect();
    assert_eq!(named.len(), 1, "{research:#?}");
    assert_eq!(named[0]["to"], 10);
    assert!(named[0]["text"].as_str().unwrap().ends_with("Checkpoint: half is done"));
    let then = view(&house, "research", "summary?level=phase&at=9").await;
    assert!(!then["phases"].as_array().unwrap().iter().any(ended), "{then}");
    // Tool calls are one line where the agent writes no message.
    let call = |tool: &str, n: u64| {
        json!([
            {"type": "agent.tool_use", "name": tool, "call_id": format!("c{n}"),
                "input": {"file_path": format!("/w/{n}.rs")}},
            {"type": "agent.tool_result", "call_id": format!("c{n}"), "content": "ok"},
        ])
    };
    for (n, tool) in (0..).zip(["Read", "Edit", "Read"]) {
        emit(&house, "work", call(tool, n)).await;
    }
    assert_eq!(phases("work").await[0]["text"], "3 calls: Read 2, Edit 1; changed /w/1.rs");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_reports_on_request_why_each_item_is_shown() {
    let house = House::plain().await;
    create_phases(&house, "s").await;
    for which in ["index", "continuation"] {
        assert!(view(&house, "s", which).await.get("why").is_none());
        let explained = view(&house, "s", &format!("{which}?explain=true")).await;
        let why = explained["why"].as_array().unwrap();
        let of = |class: &str| why.iter().find(|one| one["class"] == class).unwrap();
        assert_eq!(of("task")["why"], "indispensable in this view", "{which}");
        let is_scored = |one: &&Value| one["why"].as_str().unwrap().starts_with("score ");
        assert!(why.iter().any(|one| is_scored(&one)), "{which}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lists_of_an_index_can_be_paged_with_its_cursors() {
    let house = House::plain().await;
    for number in 1..=120_u64 {
        let rejected = format!("approach {number} through the {}th gate", number * 7);
        emit(
            &house,
            "s",
            json!([{"type": "research.step", "number": number,
                "description": format!("looked at place {number}"), "rejected": [rejected]},
                {"type": "source.found", "url": format!("https://x.example/{number}"),
                    "title": format!("Page {number}")},
                {"type": "research.gap_opened", "gap_id": format!("g{number}"), "step": number,
                    "description": format!("what lies behind place {number}")}]),
        )
        .await;
    }
    let index = view(&house, "s", "index?tokens_max=1000").await;
    assert_eq!(index["truncated"], true);
    let names = |answer: &Value, list: &str| -> Vec<String> {
        let member = |one: &Value| match list {
            "sources" => one["url"].to_string(),
            "gaps" => one["id"].to_string(),
            "steps" => one["number"].to_string(),
            _ => one.to_string(),
        };
        answer[list].as_array().into_iter().flatten().map(member).collect()
    };
    for list in ["steps", "sources", "gaps", "rejected"] {
        let mut all = names(&index, list);
        let shown = all.len() as u64;
        assert_eq!(shown + index["left_out"][list].as_u64().unwrap(), 120, "{list}");
        let mut cursor = index["cursors"][list].as_str().map(str::to_owned);
        while let Some(at) = cursor {
            let page = view(&house, "s", &format!("index?cursor={at}")).await;
            assert_eq!(page["list"], list);
            all.extend(names(&page, list));
            cursor = page["next_cursor"].as_str().map(str::to_owned);
        }
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 120, "{list}");
    }
    let refused = house.get("/v1/sessions/s/views/index?cursor=step:1:0").await;
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid_request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_result_is_omitted_once_its_command_succeeds() {
    let house = House::plain().await;
    let ran = |id: &str, command: &str, text: &str, is_error: bool| {
        [
            json!({"type": "agent.tool_use", "name": "Bash", "call_id": id,
                "input": {"command": command}}),
            json!({"type": "agent.tool_result", "call_id": id, "content": text,
                "is_error": is_error}),
        ]
    };
    let events = [
        ran("c1", "make parser", "parser.c:7: missing semicolon", true),
        ran("c2", "make lexer", "lexer.c:9: unknown token", true),
        ran("c3", "make parser", "linked the parser", false),
    ];
    emit(&house, "s", json!(events.concat())).await;
    let shown = view(&house, "s", "continuation").await["results"].to_string();
    assert!(!shown.contains("missing semicolon"), "it was mended: {shown}");
    assert!(shown.contains("unknown token") && shown.contains("linked the parser"), "{shown}");
}
