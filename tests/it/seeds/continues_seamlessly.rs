//! An agent with a context window far too small for its task, hundreds of calls of tools on real
//! files long: it is killed at random, its server is killed under it, and each time it goes on
//! with the same session, until it ends with what a run without any of that ends with.

#[allow(dead_code, reason = "the program's own main")]
#[path = "../../../examples/agent.rs"]
mod agent;

use std::{path::Path, time::Duration};

use agent::Agent;
use serde_json::Value;

use crate::{
    program::{Place, Server},
    say,
};

/// Tokens of the agent's context window.
const LIMIT: &str = "3000";
const PATIENCE: Duration = Duration::from_secs(120);
/// Starts of the agent at most.
const TURNS: u64 = 400;

fn work() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/harness")
}

fn serve(place: &Place) -> Server {
    place.serve_with(&["--token-limit", LIMIT, "--settle-after", "1s"])
}

async fn events(url: &str, session: &str, types: &str) -> Vec<Value> {
    let path = format!("{url}/v1/sessions/{session}/events?limit=10000&types[]={types}");
    let answer = say::http_client().build().unwrap().get(path).send().await.unwrap();
    let mut page: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap();
    page["data"].as_array_mut().unwrap().drain(..).collect()
}

/// A number from 0 to `below`, the same for the same turn.
fn chance(turn: u64, below: u64) -> u64 {
    let mut x = turn.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (x ^ (x >> 31)) % below
}

#[test]
fn an_agent_killed_at_random_ends_with_the_result_of_one_that_was_not() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let place = Place::new();
    let mut server = serve(&place);
    let plain = Agent::new(&server.url, "plain", &work()).unwrap();
    let expected = runtime.block_on(async { tokio::time::timeout(PATIENCE, plain.run()).await });
    let expected = expected.unwrap().unwrap();
    let lines = std::fs::read_dir(work()).unwrap().map(|file| {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        text.lines().count()
    });
    assert!(expected.starts_with(&format!("{} lines", lines.sum::<usize>())), "{expected}");

    let (mut kills, mut servers) = (0, 0);
    let mut result = None;
    for turn in 0..TURNS {
        let agent = Agent::new(&server.url, "killed", &work()).unwrap();
        let pause = Duration::from_millis(50 + chance(turn, 800));
        // Dropped in the middle of whatever it waits for, it leaves nothing but its session.
        let ended = runtime.block_on(async { tokio::time::timeout(pause, agent.run()).await });
        match ended {
            Ok(Ok(answer)) => {
                result = Some(answer);
                break;
            }
            // What the one before had under way arrived in between: it is started again.
            Ok(Err(failure)) if failure.to_string().contains("position_conflict") => {}
            Ok(Err(failure)) => panic!("turn {turn}: {failure}"),
            Err(_) => {}
        }
        kills += 1;
        if chance(turn + 1_000, 4) == 0 {
            server.kill();
            server = serve(&place);
            servers += 1;
        }
    }
    assert_eq!(result.as_deref(), Some(expected.as_str()));
    let count = |types: &str| runtime.block_on(events(&server.url, "killed", types)).len();
    let (calls, continued) = (count("agent.tool_use"), count("context.compacted"));
    assert!(calls > 200 && kills > 5 && continued > 10, "{calls} {kills} {continued}");
    say::told(&format!(
        "an agent of {LIMIT} tokens: {calls} calls of tools, killed {kills} times, its server \
         {servers} times, continued {continued} times in one session; {expected}"
    ));
    server.kill();
}
