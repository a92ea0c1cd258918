//! A connection whose writes fail after a time without progress: bytes queued for a client that
//! does not read take memory. Reads have a separate limit. It also counts reads and writes. It must
//! not inspect the bytes.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// Counter of the reads from a connection and the writes to it.
#[derive(Clone, Default)]
pub(super) struct TransferCount(Arc<AtomicU64>);

impl TransferCount {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A stream whose writes fail after `patience` without progress.
pub(super) struct ProgressStream<S> {
    stream: S,
    patience: Duration,
    /// Timer that runs while a write is blocked.
    stuck: Option<Pin<Box<Sleep>>>,
    transfers: TransferCount,
}

impl<S: AsyncWrite + Unpin> ProgressStream<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, stuck: None, transfers: TransferCount::default() }
    }

    /// Returns a counter that stays readable after the connection is moved.
    pub(super) fn transfers(&self) -> TransferCount {
        self.transfers.clone()
    }

    fn poll_write_with<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = write(Pin::new(&mut self.stream), context) {
            self.stuck = None;
            return Poll::Ready(written);
        }
        let patience = self.patience;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads no more")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ProgressStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, into));
        self.transfers.add();
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ProgressStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written =
            ready!(self.poll_write_with(context, |stream, cx| stream.poll_write(cx, bytes)));
        self.transfers.add();
        Poll::Ready(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write =
            |stream: Pin<&mut S>, cx: &mut Context<'_>| stream.poll_write_vectored(cx, slices);
        let written = ready!(self.poll_write_with(context, write));
        self.transfers.add();
        Poll::Ready(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_with(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_write_with(context, |stream, context| stream.poll_shutdown(context))
    }
}
