//! The signals that request the end of a program. It must not end it.

use std::{io, task::Poll};

use tokio::signal::unix::{SignalKind, signal};

/// Resolves at a SIGTERM or SIGINT; from the call on, these signals no longer end the program.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn stop_signal() -> io::Result<impl Future<Output = ()> + Send + 'static> {
    let stop = first_of([SignalKind::terminate(), SignalKind::interrupt()])?;
    Ok(async {
        stop.await;
    })
}

/// Resolves at a signal that would end a program on a terminal; returns the exit code that a shell
/// reports for it. From the call on, these signals no longer end the program.
///
/// # Errors
/// Returns the error of the system.
pub(super) fn terminal_end() -> io::Result<impl Future<Output = u8> + Send + 'static> {
    let stop = [SignalKind::terminate(), SignalKind::interrupt()];
    let end = first_of(stop.into_iter().chain([SignalKind::hangup(), SignalKind::quit()]))?;
    Ok(async { 128 + u8::try_from(end.await.as_raw_value()).unwrap_or_default() })
}

/// Resolves at the first signal of one of the kinds.
fn first_of(
    kinds: impl IntoIterator<Item = SignalKind>,
) -> io::Result<impl Future<Output = SignalKind> + Send + 'static> {
    let signals = kinds.into_iter().map(|kind| Ok((kind, signal(kind)?)));
    let mut signals = signals.collect::<io::Result<Vec<_>>>()?;
    Ok(std::future::poll_fn(move |context| {
        let mut signals = signals.iter_mut();
        let came = signals
            .find_map(|(kind, signal)| signal.poll_recv(context).is_ready().then_some(*kind));
        came.map_or(Poll::Pending, Poll::Ready)
    }))
}
