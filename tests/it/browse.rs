//! The command `open`: the address of the page, a browser on it, and the way from there to an owner
//! that listens at no address.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    process::{Child, ChildStdout},
};

use serde_json::Value;
use sessionlog::client::{Client, ClientTarget, HttpRequest};

use crate::program::{Place, eventually, signal};

/// A running `open`.
struct Opened {
    child: Child,
    /// Address that it printed.
    url: String,
    _out: BufReader<ChildStdout>,
}

impl Drop for Opened {
    fn drop(&mut self) {
        signal(u64::from(self.child.id()), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn open(place: &Place, arguments: &[&str]) -> Opened {
    let arguments = [&["open", "--no-browser"], arguments].concat();
    let mut child = place.command(&arguments).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    Opened { child, url: line.trim().to_owned(), _out: out }
}

fn count_sessions(url: &str) -> usize {
    let url = url.split('#').next().unwrap().parse().unwrap();
    let client = Client::new(ClientTarget::Server(url), "test").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listed = runtime.block_on(client.json(HttpRequest::get("v1/sessions"))).unwrap();
    listed["data"].as_array().unwrap().len()
}

#[test]
fn without_a_server_the_page_is_at_a_loopback_port_that_outlives_the_owner() {
    let place = Place::new();
    let event = r#"{"type":"user.message","content":"hello"}"#;
    place.run_with(&["append", "--create", "trip"], event).ok();
    let opened = open(&place, &["trip"]);
    assert!(opened.url.starts_with("http://127.0.0.1:"), "{}", opened.url);
    assert!(opened.url.ends_with("/#/s/trip"), "{}", opened.url);
    assert_eq!(count_sessions(&opened.url), 1);
    place.kill_owner();
    assert_eq!(count_sessions(&opened.url), 1);
}

#[test]
fn beside_a_server_the_address_is_the_servers_and_the_command_ends() {
    let place = Place::new();
    let server = place.serve();
    let shown = place.run(&["open", "--json"]).json();
    assert_eq!(shown, serde_json::json!({ "url": format!("{}/", server.url) }));
    let elsewhere = Place::new();
    let shown: Value = elsewhere.run(&["open", "--json", "--url", &server.url]).json();
    assert_eq!(shown["url"], format!("{}/", server.url));
    assert_eq!(place.run(&["open", "nowhere", "--json"]).refused(4), "session_not_found");
}

#[test]
fn a_browser_gets_the_address_and_without_one_the_command_says_so() {
    let place = Place::new();
    let server = place.serve();
    let browser = place.write("xdg-open", "#!/bin/sh\nprintf %s \"$1\" >\"$HOME/opened\"\n");
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let programs = format!("{}:/usr/bin:/bin", browser.parent().unwrap().display());
    let shown = place.run_in(&[("PATH", &programs)], &["open"]).ok();
    assert_eq!(shown.trim(), format!("{}/", server.url));
    let opened = eventually("the browser", || {
        std::fs::read_to_string(place.path("opened")).ok().filter(|text| !text.is_empty())
    });
    assert_eq!(opened, format!("{}/", server.url));
    let nothing = place.run_in(&[("PATH", "/nowhere")], &["open"]);
    assert!(nothing.err.contains("no browser was opened"), "{}", nothing.err);
    assert_eq!(nothing.ok().trim(), format!("{}/", server.url));
}
