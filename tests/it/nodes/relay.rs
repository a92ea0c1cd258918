//! A relay between a node and its database, on a socket in a directory of its own: it passes bytes
//! on, cuts connections behind a statement that it passed on, or falls silent without closing one.
//! It must not change a byte, nor use a port.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Name of a server's socket in its directory.
const SOCKET: &str = ".s.PGSQL.5432";
/// First byte of a message that binds a prepared statement: its execution is in the same packet.
const BIND: u8 = b'B';

/// A running relay.
pub struct Relay {
    home: tempfile::TempDir,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// One of so many statements is cut, 0 for none.
    cut_one_of: AtomicU64,
    statements: AtomicU64,
    cuts: AtomicU64,
    silent: Mutex<bool>,
    changed: Condvar,
    stopped: AtomicBool,
}

impl Relay {
    /// Starts a relay to the server whose socket is in this directory.
    pub fn start(server: &Path) -> Self {
        let (home, state) = (tempfile::tempdir().unwrap(), Arc::new(State::default()));
        let listener = UnixListener::bind(home.path().join(SOCKET)).unwrap();
        let (to, of_thread) = (server.join(SOCKET), Arc::clone(&state));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.stopped.load(Ordering::Acquire) {
                    return;
                }
                of_thread.serve(client.unwrap(), &to);
            }
        });
        Self { home, state }
    }

    /// Returns the address of a schema of the server behind it.
    pub fn address_of(&self, schema: &str) -> String {
        let home = self.home.path().display();
        format!("postgres://sl@/postgres?host={home}&schema={schema}&durability=weak")
    }

    /// Cuts a connection behind one of so many statements from now on; 0 for none.
    pub fn cut_one_of(&self, statements: u64) {
        self.state.cut_one_of.store(statements, Ordering::Release);
    }

    /// Returns the number of cut connections.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::Acquire)
    }

    /// Passes nothing on while `silent`; connections stay open.
    pub fn set_silent(&self, silent: bool) {
        *self.state.silent.lock().unwrap() = silent;
        self.state.changed.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::Release);
        self.set_silent(false);
        // The thread that accepts sees that it is to stop.
        let _ = UnixStream::connect(self.home.path().join(SOCKET));
    }
}

impl State {
    fn serve(self: &Arc<Self>, client: UnixStream, to: &PathBuf) {
        let Ok(server) = UnixStream::connect(to) else { return };
        let pair = || (client.try_clone().unwrap(), server.try_clone().unwrap());
        let ((from_client, to_server), (to_client, from_server)) = (pair(), pair());
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || there.pass_statements(from_client, to_server));
        std::thread::spawn(move || back.pass_answers(from_server, to_client));
    }

    fn wait_while_silent(&self) {
        let silent = self.silent.lock().unwrap();
        drop(self.changed.wait_while(silent, |silent| *silent).unwrap());
    }

    fn pass_statements(&self, mut client: UnixStream, mut server: UnixStream) {
        let mut buffer = [0; 64 << 10];
        while let Ok(count @ 1..) = client.read(&mut buffer) {
            self.wait_while_silent();
            if server.write_all(&buffer[..count]).is_err() {
                break;
            }
            let of = self.cut_one_of.load(Ordering::Acquire);
            if of > 0 && buffer[0] == BIND {
                let draw = self.statements.fetch_add(1, Ordering::AcqRel);
                let draw = draw.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
                if draw.is_multiple_of(of) {
                    // The server has the statement; its answer is lost.
                    self.cuts.fetch_add(1, Ordering::AcqRel);
                    let _ = client.shutdown(Shutdown::Both);
                    return;
                }
            }
        }
        let _ = server.shutdown(Shutdown::Write);
    }

    fn pass_answers(&self, mut server: UnixStream, mut client: UnixStream) {
        let mut buffer = [0; 64 << 10];
        let mut is_cut = false;
        // Read to the end, or the server would fail before it has committed.
        while let Ok(count @ 1..) = server.read(&mut buffer) {
            self.wait_while_silent();
            is_cut = is_cut || client.write_all(&buffer[..count]).is_err();
            if is_cut {
                let _ = server.shutdown(Shutdown::Write);
            }
        }
        let _ = client.shutdown(Shutdown::Both);
    }
}
