//! A pseudo-terminal, for tests of terminal output. It must not know what a test expects.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::mpsc,
};

use rustix::{
    process::{Pid, Signal, WaitOptions, kill_process, waitpid},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::program::eventually;

/// A program on a separate terminal.
pub struct Terminal {
    child: Child,
    master: File,
    output: mpsc::Receiver<Vec<u8>>,
    seen: String,
}

/// Output of a run on a terminal, standard output and error together.
#[derive(Debug)]
pub struct Shown {
    pub code: i32,
    pub text: String,
}

impl Shown {
    /// Returns the lines without colour codes.
    pub fn lines(&self) -> Vec<String> {
        plain(&self.text).lines().map(|line| line.trim_end().to_owned()).collect()
    }
}

impl Terminal {
    /// Starts the command with a terminal of the given size as standard input, output and error.
    pub fn start(command: Command, size: (u16, u16)) -> Self {
        Self::start_kind(command, size, "xterm-256color")
    }

    /// Starts the command on a terminal of a kind: its value of `TERM`.
    pub fn start_kind(mut command: Command, (columns, rows): (u16, u16), kind: &str) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let mut options = OpenOptions::new();
        let slave = options.read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(slave.as_fd(), size).unwrap();
        let side = || Stdio::from(slave.try_clone().unwrap());
        command.stdin(side()).stdout(side()).stderr(side()).env("TERM", kind);
        let child = command.spawn().unwrap();
        drop((command, slave));
        let master = File::from(master);
        let mut reader = master.try_clone().unwrap();
        let (send, output) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // Reading fails once the last program on the other side has exited.
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let _ = send.send(buffer[..count].to_vec());
            }
        });
        Self { child, master, output, seen: String::new() }
    }

    /// Types a text.
    pub fn type_text(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until the terminal shows a text.
    #[track_caller]
    pub fn until(&mut self, text: &str) {
        eventually(text, || {
            let more = self.output.try_iter().flatten().collect::<Vec<u8>>();
            self.seen.push_str(&String::from_utf8_lossy(&more));
            plain(&self.seen).contains(text).then_some(())
        });
    }

    /// Sends a signal to the program.
    pub fn send_signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns true if the terminal edits and echoes lines, as a shell leaves it.
    pub fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.master).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Waits until the terminal is in a state.
    #[track_caller]
    pub fn until_cooked(&self, cooked: bool) {
        eventually("the mode of the terminal", || (self.is_cooked() == cooked).then_some(()));
    }

    /// Waits until the program is stopped.
    #[track_caller]
    pub fn until_stopped(&self) {
        eventually("the stop of the program", || {
            let options = WaitOptions::UNTRACED | WaitOptions::NOHANG;
            let state = waitpid(Some(Pid::from_child(&self.child)), options).unwrap();
            state.filter(|(_, status)| status.stopped()).map(drop)
        });
    }

    /// Waits until the program exits.
    #[track_caller]
    pub fn end(mut self) -> Shown {
        let status = eventually("the end of the program", || self.child.try_wait().unwrap());
        let mut bytes = Vec::new();
        // A child of the program may still hold the terminal.
        while let Ok(more) = self.output.recv_timeout(std::time::Duration::from_secs(1)) {
            bytes.extend(more);
        }
        self.seen.push_str(&String::from_utf8_lossy(&bytes));
        Shown { code: status.code().unwrap_or(-1), text: self.seen.replace("\r\n", "\n") }
    }
}

impl Drop for Terminal {
    /// Ends the program of a test that failed; does nothing once it has exited.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the text without colour codes.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    plain + rest
}
