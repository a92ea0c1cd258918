//! The signals by which somebody asks a program to end. It must not end it.

use std::{io, task::Poll};

use tokio::signal::unix::{SignalKind, signal};

/// Comes true when the program is asked to end, by SIGTERM or SIGINT, which end it no more from now
/// on.
///
/// # Errors
/// What the system said.
pub(super) fn asked_to_end() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let mut signals = [signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?];
    Ok(std::future::poll_fn(move |context| {
        match signals.iter_mut().any(|signals| signals.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }))
}
