//! The program that the MCP conformance suite talks to (`tests/conformance/run.sh`): the product's
//! store, verbs, guard, transport and tools, with the suite's fixtures beside them. It must not
//! change anything of the product: what fails here fails there.
//!
//! `cargo run --example conformance -- DIRECTORY` prints the URL it serves and ends with its
//! standard input.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    unreachable_pub,
    reason = "a test program"
)]

mod asks;
mod content;
mod mounted;

use std::{path::Path, sync::Arc};

use sessionlog::{
    api::admin::Owner,
    env::Env,
    http::{self, App, HttpOptions, Listener, ServeOptions},
    mcp::{self, McpHttpOptions},
    service::Service,
    store::local::LocalStore,
    verbs::OwnerInfo,
};
use tokio::io::AsyncReadExt as _;
use tokio_util::sync::CancellationToken;

use mounted::{Mounted, Stage};

#[tokio::main]
async fn main() {
    let directory = std::env::args().nth(1).expect("name a directory for the store");
    let env = Env::open(Path::new(&directory)).expect("the directory can be used");
    let store =
        LocalStore::open(&env, sessionlog::store::local::StoreOptions::default()).expect("a store");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("http://{}/mcp", listener.local_addr().expect("an address"));

    let stop = CancellationToken::new();
    let service = Service::new(store.clone(), Arc::clone(&env.clock));
    let about = Owner {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        data_dir: directory,
        ..Owner::default()
    };
    let owner = OwnerInfo { about, step_down: stop.clone() };
    let stage = Arc::new(Stage::default());
    let options = McpHttpOptions { stop: stop.clone(), ..McpHttpOptions::default() };
    let tools = mcp::http_router_around(service.clone(), options, move |product| {
        Mounted::new(product, Arc::clone(&stage))
    });
    let router = http::router(App { service, owner, options: HttpOptions::default() }, tools);
    let listeners = vec![Listener::Tcp(listener)];
    let serving = http::serve(listeners, router, ServeOptions::default(), stop.clone());
    let mut input = tokio::io::stdin();
    let asked = async move {
        while input.read(&mut [0; 64]).await.is_ok_and(|bytes| bytes > 0) {}
        stop.cancel();
    };
    tokio::join!(serving, asked);
    store.close().await;
}
