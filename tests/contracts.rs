//! What is published and what is built agree: generated code, the OpenAPI document and the table of
//! error codes are derived again and compared with the files under version control. `UPDATE=1`
//! accepts a change; its diff is then reviewed like any other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot read has failed")]

use std::{
    fs,
    path::{Path, PathBuf},
};

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
fn the_published_tools_follow_the_tools_that_are_served() {
    let fresh = serde_json::to_string_pretty(&sessionlog::wire::tools::published()).unwrap() + "\n";
    check("proto/mcp/tools.json", &fresh);
}
