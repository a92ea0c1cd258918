//! Hints to the other nodes: names of sessions that changed, sent after their commit on a separate
//! connection, and received on another. Either may fail: then nodes look for themselves. It must
//! not delay a commit.

use std::{sync::Arc, time::Duration};

use tokio::sync::{broadcast, mpsc};
use tokio_postgres::AsyncMessage;
use tokio_util::sync::CancellationToken;

use super::{
    super::Hash16,
    connect::{Connection, Connector, MessageHandler, Purpose},
    sql,
};

/// Hints that wait to be sent, and that a node may fall behind by.
const WAITING_MAX: usize = 4_096;
const HEARD_MAX: usize = 4_096;
/// Names in one message: it has at most 8 000 bytes.
const NAMES_MAX: usize = 200;
/// Pause in which names are gathered.
const GATHER: Duration = Duration::from_millis(5);
const RECONNECT: Duration = Duration::from_secs(1);
/// Hexadecimal digits of a name.
const NAME_DIGITS: usize = 32;

/// Sender and receiver of hints.
pub(super) struct Hints {
    send: mpsc::Sender<Vec<Hash16>>,
    heard: broadcast::Sender<Hash16>,
    stop: CancellationToken,
}

impl Hints {
    /// Starts the tasks that send and listen.
    pub(super) fn start(connector: &Arc<Connector>) -> Self {
        let (send, receive) = mpsc::channel(WAITING_MAX);
        let (heard, stop) = (broadcast::channel(HEARD_MAX).0, CancellationToken::new());
        let sending =
            run_sender(Connection::new(connector, Purpose::Report), channel(connector), receive);
        let listening = run_listener(Arc::clone(connector), channel(connector), heard.clone());
        for task in
            [futures_util::FutureExt::boxed(sending), futures_util::FutureExt::boxed(listening)]
        {
            let stop = stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(task).await });
        }
        Self { send, heard, stop }
    }

    pub(super) fn send(&self, names: Vec<Hash16>) {
        // A full queue drops hints: nodes look for themselves.
        let _ = self.send.try_send(names);
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<Hash16> {
        self.heard.subscribe()
    }

    pub(super) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Returns the name of the channel of a schema.
fn channel(connector: &Connector) -> String {
    let hash = crate::event::short_hash("sessionlog v1 base channel", &[&connector.schema]);
    format!("sessionlog_{}", to_text(&hash))
}

fn to_text(name: &Hash16) -> String {
    uuid::Uuid::from_bytes(*name).simple().to_string()
}

async fn run_sender(
    connection: Connection,
    channel: String,
    mut receive: mpsc::Receiver<Vec<Hash16>>,
) {
    while let Some(mut names) = receive.recv().await {
        tokio::time::sleep(GATHER).await;
        while let Ok(more) = receive.try_recv() {
            names.extend(more);
        }
        names.sort_unstable();
        names.dedup();
        for some in names.chunks(NAMES_MAX) {
            let text: String = some.iter().map(to_text).collect();
            let sent =
                async { connection.client().await?.query(sql::NOTIFY, &[&channel, &text]).await };
            if let Err(error) = sent.await {
                tracing::debug!(?error, "hints are lost");
                break;
            }
        }
    }
}

async fn run_listener(
    connector: Arc<Connector>,
    channel: String,
    heard: broadcast::Sender<Hash16>,
) {
    while !connector.is_closed() {
        let handler = || -> MessageHandler {
            let sender = heard.clone();
            Box::new(move |message: AsyncMessage| {
                let AsyncMessage::Notification(note) = message else { return };
                for digits in note.payload().as_bytes().chunks(NAME_DIGITS) {
                    if let Ok(name) = uuid::Uuid::try_parse_ascii(digits) {
                        let _ = sender.send(name.into_bytes());
                    }
                }
            })
        };
        if let Ok(client) = connector.connect(handler).await
            && client.batch_execute(&format!("LISTEN \"{channel}\"")).await.is_ok()
        {
            while client.batch_execute("").await.is_ok() {
                tokio::time::sleep(RECONNECT).await;
            }
        }
        tokio::time::sleep(RECONNECT).await;
    }
}
