//! A server in little memory before clients that want much: large batches from many connections,
//! large answers, more sessions than it should keep open. It must live on. The limit is the
//! kernel's: who goes beyond it is killed.

use std::{fs, path::PathBuf, time::Duration};

use super::{
    http::Wire,
    machine::{Need, has, text},
    served::Setup,
};

const MEMORY: &str = "/sys/fs/cgroup/memory";
const LIMIT_BYTES: u64 = 2 << 30;

/// A group of processes with a limit of memory; gone when dropped.
struct Group(PathBuf);

impl Group {
    fn new() -> Option<Self> {
        let path = PathBuf::from(format!("{MEMORY}/sessionlog-{}", std::process::id()));
        fs::create_dir(&path).ok()?;
        let group = Self(path);
        fs::write(group.0.join("memory.limit_in_bytes"), LIMIT_BYTES.to_string()).ok()?;
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            super::machine::pause(Duration::from_millis(20));
        }
    }
}

#[test]
fn clients_that_want_much_do_not_exhaust_a_small_memory() {
    let test = "a server in little memory";
    if !has(test, &[Need::Root]) {
        return;
    }
    let Some(group) = Group::new() else {
        eprintln!("SKIPPED: {test}: there is no memory controller under {MEMORY}");
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let enter = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", text(&group.0));
    let limited = ["sh", "-c", &enter, "sh"];
    let setup = Setup::new(home.path(), &home.path().join("data"));
    let mut server = setup.before(&limited).up();
    let event = format!(r#"{{"type":"a.b","text":"{}"}}"#, "x".repeat(1 << 20));
    let batch = format!(r#"{{"events":[{}]}}"#, [&*event; 4].join(","));
    std::thread::scope(|scope| {
        for client in 0..24 {
            let (batch, address) = (&batch, server.address);
            scope.spawn(move || {
                let mut wire = Wire::new(address).patient(Duration::from_secs(60));
                for number in 0..10 {
                    let path = format!("/v1/sessions/s{client}/events?create=true");
                    let sent = wire.post(&path, batch);
                    assert!(sent.is_ok(), "{number}: {sent:?}");
                    let read = wire.get(&format!("/v1/sessions/s{client}/events?from=0"));
                    assert!(read.is_ok(), "{number}: {read:?}");
                }
            });
        }
    });
    assert!(server.is_alive(), "{}", server.said());
    let peak = fs::read_to_string(group.0.join("memory.max_usage_in_bytes")).unwrap();
    let rss = server.status("VmHWM") >> 10;
    eprintln!("24 clients, 960 MiB written and more read: {rss} MiB resident at most, {peak}");
    server.kill();
}
