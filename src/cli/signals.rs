//! The signals that ask a program to end. It must not end it.

use std::{io, task::Poll};

use tokio::signal::unix::{SignalKind, signal};

/// Resolves when SIGTERM or SIGINT arrives; from now on they do not end the program by themselves.
///
/// # Errors
/// The error of the system.
pub(super) fn asked_to_end() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    Ok(std::future::poll_fn(move |context| {
        match signals.iter_mut().any(|signals| signals.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}
