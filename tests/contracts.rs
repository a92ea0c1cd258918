//! Agreement of the published and the built: generated code, the OpenAPI document and the table of
//! error codes are derived again and compared with the files under version control. `UPDATE=1`
//! accepts a change; its diff is then reviewed like any other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sessionlog::service::Code;

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn check(path: &str, fresh: &str) {
    if std::env::var_os("UPDATE").is_some() {
        fs::write(root(path), fresh).unwrap();
    }
    let stored = fs::read_to_string(root(path)).unwrap_or_default();
    assert!(stored == fresh, "{path} is stale: run with UPDATE=1 and review the diff");
}

#[test]
fn the_protobuf_types_follow_the_proto_file() {
    let set = protox::compile(["sessionlog/v1/events.proto"], [root("proto")]).unwrap();
    let out = tempfile::tempdir().unwrap();
    prost_build::Config::new().bytes(["."]).out_dir(out.path()).compile_fds(set).unwrap();
    let fresh = fs::read_to_string(out.path().join("sessionlog.v1.rs")).unwrap();
    check("src/wire/pb.rs", &fresh);
}

#[test]
fn the_published_tools_equal_the_served_ones() {
    let fresh =
        serde_json::to_string_pretty(&sessionlog::verbs::tools::published_list()).unwrap() + "\n";
    check("proto/mcp/tools.json", &fresh);
}

#[test]
fn the_published_openapi_document_equals_the_served_one() {
    check("proto/openapi.json", sessionlog::http::openapi_document());
}

#[test]
fn every_operation_is_named_and_every_answer_described() {
    let document: Value = serde_json::from_str(sessionlog::http::openapi_document()).unwrap();
    let mut names = Vec::new();
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let place = format!("{method} {path}");
            names.push(operation["operationId"].as_str().expect(&place).to_owned());
            assert!(operation["summary"].is_string(), "{place} has no summary");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{place}");
            for (status, answer) in answers {
                let shared = answer["$ref"].as_str().unwrap_or_default();
                let shared = document.pointer(shared.trim_start_matches('#'));
                let answer = shared.filter(|_| answer["$ref"].is_string()).unwrap_or(answer);
                let text = answer["description"].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{place}: {status} is not described");
            }
        }
    }
    for name in ["emitEvent", "getEvents", "streamEvents", "createSession", "listSessions"] {
        assert!(names.iter().any(|known| known == name), "{name} is missing");
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count, "an operation id comes twice");
}

#[test]
fn every_schema_reference_of_the_openapi_document_resolves() {
    let text = sessionlog::http::openapi_document();
    let document: Value = serde_json::from_str(text).unwrap();
    for part in text.split("\"#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name} is missing");
    }
}

#[test]
fn every_code_is_documented_with_its_status_and_no_other() {
    let text = fs::read_to_string(root("docs/http.md")).unwrap();
    let table = text.split("## Errors").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut documented: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"))
        .map(|(code, _)| code)
        .collect();
    documented.sort_unstable();
    let mut known: Vec<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    known.sort_unstable();
    assert_eq!(documented, known);
    for code in Code::ALL {
        let status = sessionlog::http::status(*code).to_string();
        let row = table.lines().find(|line| line.starts_with(&format!("| `{}` |", code.as_str())));
        assert!(row.is_some_and(|row| row.contains(&format!("| {status} |"))), "{row:?}: {status}");
    }
}
