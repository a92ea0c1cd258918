//! Sources found in results of tools.

use serde_json::{Value, json};

use crate::event;
use sessionlog::{
    event::{Event, Origin, kinds},
    projection::{Facts, UnrecordedSources, body, reusable_results::digest},
};

/// Maximum sources of one result, addresses examined, and pending sources.
const RESULT_MAX: usize = 50;
const LOOKED_MAX: usize = 1_000;
const WAITING_MAX: usize = 200;

fn found_sources(name: &str, input: Value, result: Value) -> Vec<(String, Option<String>)> {
    let call = json!({"name": name, "input": input, "call_id": "1"});
    let mut findable = UnrecordedSources::default();
    findable.fold(&event(0, "agent.tool_use", call.to_string()));
    let mut body = result;
    body["call_id"] = "1".into();
    findable.fold(&event(1, "agent.tool_result", body.to_string()));
    let pages = findable.pending_sources().map(|one| {
        assert_eq!(one.source.tool.as_deref(), Some(name));
        assert_eq!(one.source.found_by.as_deref(), Some("server"));
        (one.source.url.clone(), one.source.title.clone())
    });
    pages.collect()
}

#[test]
fn a_call_counts_whatever_names_and_types_its_members_have() {
    for more in [
        json!({}),
        json!({"server": "web"}),
        json!({"server": "web", "mcp_server_name": "web"}),
        json!({"server": null, "mcp_server_name": "web"}),
        json!({"server": "web", "mcp_server_name": 7, "is_error": "no", "read_only": 1}),
        json!({"input": {"url": "", "uri": "https://a.org/1"}}),
    ] {
        let mut call = json!({"name": "get", "call_id": "1", "input": {"url": "https://a.org/1"}});
        call.as_object_mut().expect("an object").extend(more.as_object().expect("one").clone());
        let result = json!({"call_id": "1", "content": "see https://b.org/2", "is_error": "no"});
        let mut facts = Facts::default();
        facts.fold(&event(0, "agent.mcp_tool_use", call.to_string()));
        facts.fold(&event(1, "agent.mcp_tool_result", result.to_string()));
        assert_eq!(facts.findable.pending_sources().count(), 2, "{more}");
        let input = &call["input"];
        let server = more["server"].as_str().or(more["mcp_server_name"].as_str());
        assert!(facts.remembered.find(digest(server, "get", input)).is_some(), "{more}");
        assert_eq!(facts.outcomes.latest().count(), 1, "{more}");
    }
}

#[test]
fn an_answer_in_place_of_a_missing_page_is_no_source() {
    let fetch = |text: &str| {
        let input = json!({"url": "https://a.org/1"});
        found_sources("WebFetch", input, json!({"content": text})).len()
    };
    for text in [
        "HTTP 404 Not Found\nThe page does not exist, see https://a.org/",
        "HTTP 503 \n",
        "<html><title>404 Not Found</title>",
        "HTTP 403\ngone",
        "# Page not found",
    ] {
        assert_eq!(fetch(text), 0, "{text}");
    }
    // The pages that it names are sources.
    assert_eq!(fetch("# Not Found\nTry https://b.org/help"), 1);
    let long = format!("# Not found\n{}", "nginx has this comment. ".repeat(60));
    for text in [
        "HTTP/2 explained",
        "HTTP 404 is returned when a record is missing",
        "HTTP 4040",
        "# 404 Not Found - HTTP | MDN",
        "# Access Denied: lessons of the breach",
        "# 404 ways to bake",
        &long,
    ] {
        assert_eq!(fetch(text), 1, "{text}");
    }
}

#[test]
fn urls_in_a_result_become_sources_with_their_titles() {
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let page = |url: &str, title: Option<&str>| (url.to_owned(), title.map(str::to_owned));
    let a = || page("https://a.org/1", Some("One"));
    let b = || page("https://b.org/2", Some("Two"));
    let listed = r#"{"results":[{"title":"One","url":"https://a.org/1"},{"link":"https://b.org/2","name":"Two"}]}"#;
    for (result, expected) in [
        (text(listed), vec![a(), b()]),
        (
            json!({"result": {"structuredContent": serde_json::from_str::<Value>(listed).expect("JSON")}}),
            vec![a(), b()],
        ),
        (text("- [One](https://a.org/1), and [Two](https://b.org/2)."), vec![a(), b()]),
        (
            text("Title: One\nURL: https://a.org/1\n\n2. **Title:** Two\nhttps://b.org/2"),
            vec![a(), b()],
        ),
        (
            text("see https://a.org/1, (https://a.org/1#x) or <http://c.org>."),
            vec![page("https://a.org/1", None), page("http://c.org", None)],
        ),
        (
            json!({"content": [{"type": "resource_link", "uri": "https://a.org/1", "name": "One"}]}),
            vec![a()],
        ),
        (text("http:// https://, file:///etc/passwd mailto:x https://[redacted:jwt]"), vec![]),
        (
            json!({"content": [{"type": "text", "text": "https://a.org/1"}], "is_error": true}),
            vec![],
        ),
    ] {
        assert_eq!(
            found_sources("web_search", json!({"q": "x"}), result.clone()),
            expected,
            "{result}"
        );
    }
}

#[test]
fn a_result_with_many_urls_is_read_up_to_a_limit() {
    let links = |from: usize, to: usize| {
        (from..to).map(|n| format!("https://a.org/{n} ")).collect::<String>()
    };
    let pages = |text: String| found_sources("search", json!({}), json!({"content": text})).len();
    assert_eq!(pages(links(0, 40)), 40);
    assert_eq!(pages(links(0, 5_000)), RESULT_MAX);
    let known = links(0, 10).repeat(LOOKED_MAX / 10 - 1);
    assert_eq!(pages(known.clone() + &links(10, 20)), 20);
    assert_eq!(pages(known + &links(0, 10) + &links(10, 20)), 10);
}

#[test]
fn urls_of_an_imported_transcript_are_not_sources_of_the_session() {
    let mut findable = UnrecordedSources::default();
    let call = json!({"name": "search", "call_id": "1"}).to_string();
    let result = json!({"call_id": "1", "content": "https://a.org"}).to_string();
    for (origin, expected) in [(Origin::Import, 0), (Origin::Harness, 1)] {
        for (position, kind, body) in
            [(0, "agent.tool_use", &call), (1, "agent.tool_result", &result)]
        {
            findable.fold(&Event { origin, ..event(position, kind, body.clone()) });
        }
        assert_eq!(findable.pending_sources().count(), expected, "{origin:?}");
    }
}

#[test]
fn a_fetched_page_is_a_source_and_a_file_of_links_is_not() {
    let text = "# The page\n\nwith https://other.org in it";
    let result = json!({"content": text});
    let fetched = found_sources("get", json!({"url": "https://a.org"}), result.clone());
    let named = |url: &str, title: Option<&str>| (url.to_owned(), title.map(str::to_owned));
    assert_eq!(
        fetched,
        [named("https://a.org", Some("The page")), named("https://other.org", None)]
    );
    assert_eq!(found_sources("read_file", json!({"path": "/x.md"}), result), []);
}

#[test]
fn recorded_sources_leave_the_pending_list_which_is_bounded() {
    let mut findable = UnrecordedSources::default();
    for n in 0..100 {
        let links = (0..100).map(|m| format!("https://a.org/{n}/{m}\n")).collect::<String>();
        let call = json!({"name": "search", "call_id": "1"});
        findable.fold(&event(2 * n, "agent.tool_use", call.to_string()));
        let result = json!({"call_id": "1", "content": links});
        findable.fold(&event(2 * n + 1, "agent.tool_result", result.to_string()));
    }
    assert_eq!(findable.pending_sources().count(), WAITING_MAX);
    let source = findable.pending_sources().next().expect("one").source.clone();
    findable.fold_recorded(&event(
        999,
        kinds::SOURCE_FOUND,
        String::from_utf8(body::write(&source).to_vec()).expect("JSON"),
    ));
    assert_eq!(findable.pending_sources().count(), WAITING_MAX - 1);
}
