//! An answer of lines and announced bytes, taken as it comes: a backup. It must not buffer more of
//! it than a read gave.

use bytes::Bytes;

use super::{Client, ClientError, Request, SseStream};

/// An answer on its way in.
pub struct Download {
    stream: SseStream,
}

impl Client {
    /// Sends a call whose answer is long, and answers once it begins.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn download(&self, request: &Request) -> Result<Download, ClientError> {
        Ok(Download { stream: self.stream(request).await? })
    }
}

impl Download {
    /// The next line, without its end; `None` when the answer is over.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when the connection broke.
    pub async fn line(&mut self) -> Result<Option<String>, ClientError> {
        self.stream.line().await
    }

    /// The next bytes, at least one and at most `bytes_max`; none when the answer is over.
    ///
    /// # Errors
    /// [`ClientError::Unreachable`] when the connection broke.
    pub async fn some(&mut self, bytes_max: u64) -> Result<Bytes, ClientError> {
        self.stream.some(usize::try_from(bytes_max).unwrap_or(usize::MAX)).await
    }
}
