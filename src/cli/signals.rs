//! The signals that request the end of a program. It must not end it.

use std::{io, task::Poll};

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at a SIGTERM or SIGINT; from the call on, these signals no longer end the program.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    Ok(std::future::poll_fn(move |context| {
        match signals.iter_mut().any(|signals| signals.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}
