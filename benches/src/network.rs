//! A thin client for every server: sends prepared bytes and waits for complete responses, on all
//! connections of a cell. The same code drives our server and its peers. It must not know the
//! content of a request.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Barrier},
    time::Duration,
};

use futures_util::future::{join_all, try_join_all};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    cell::{Kept, Limits, Load, Round},
    failure::Outcome,
    machine::{Served, at_rest},
    protocol::Protocol,
};
use sessionlog::env::Clock;

/// Initial buffer for a response.
const ANSWER_BYTES: usize = 256 << 10;
/// Time limit of a response: a server that hangs is an error, not a slow server.
const ANSWER: Duration = Duration::from_secs(60);

/// One connection.
pub(super) struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    /// Bytes to be sent next.
    pub(super) out: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr, protocol: Protocol) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, protocol, out: Vec::new(), answer: Vec::with_capacity(ANSWER_BYTES) })
    }

    /// Sends the bytes in `out` and waits for `answers` complete responses.
    pub(super) async fn ask(&mut self, answers: usize) -> io::Result<&[u8]> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        self.answer.clear();
        let (mut ended, mut end) = (0, 0);
        loop {
            while ended < answers {
                let rest = self.answer.get(end..).unwrap_or_default();
                let Some(length) = self.protocol.end(rest)? else { break };
                (ended, end) = (ended + 1, end + length);
            }
            if ended == answers {
                return Ok(self.answer.get(..end).unwrap_or_default());
            }
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                let said = String::from_utf8_lossy(&self.answer).into_owned();
                let why = format!("the connection ended within an answer: {said}");
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
    }

    /// Sends bytes and waits for `answers` responses, with a time limit.
    async fn say(&mut self, bytes: &[u8], answers: usize) -> io::Result<&[u8]> {
        self.out.clear();
        self.out.extend_from_slice(bytes);
        tokio::time::timeout(ANSWER, self.ask(answers))
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// Function that appends the next request to the buffer.
pub(super) type Next = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// Function that extracts a number from a response.
pub(super) type Number = fn(&[u8]) -> Option<u64>;

/// Requests of one connection in every round.
pub(super) struct Talk {
    /// Requests sent after the connection opens, before timing starts.
    pub(super) hello: Vec<Vec<u8>>,
    /// The measured requests.
    pub(super) next: Next,
    /// Requests for the number of stored events of each session that this connection appended to;
    /// empty for readers.
    pub(super) count: Vec<Vec<u8>>,
}

/// Options common to all connections of a cell.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    /// Process whose processor time is counted, with its children.
    pub(super) server: Option<u32>,
    /// True if the server defers work, which is awaited after a round that wrote.
    pub(super) defers: bool,
    /// Number of responses to one `next`.
    pub(super) answers: usize,
    /// Number of events sent or requested in one `next`.
    pub(super) events: u64,
    /// Extracts the number of events in a response; the first must contain `events`.
    pub(super) carried: Option<Number>,
    /// Extracts the number of events from the response to `count`.
    pub(super) counted: Number,
}

impl Manner {
    /// Creates options with one response for each `next` and no events.
    pub(super) fn new(address: SocketAddr, protocol: Protocol, counted: Number) -> Self {
        let (server, defers, answers, events, carried) = (None, false, 1, 0, None);
        Self { address, protocol, server, defers, answers, events, carried, counted }
    }
}

/// A client of a cell, with a new connection in every round.
pub(super) trait Client: Send {
    /// Type of its connection.
    type Open;

    /// Opens the connection, before timing starts.
    async fn open(&self, manner: Manner) -> io::Result<Self::Open>;

    /// Runs one round.
    async fn drive(
        &mut self,
        open: &mut Self::Open,
        manner: Manner,
        clock: &dyn Clock,
        limits: &Limits,
    ) -> io::Result<Round>;

    /// Returns the requests for the number of stored events where this client appended: a
    /// handshake, and the requests. Empty for readers.
    fn count(&self) -> (&[Vec<u8>], &[Vec<u8>]);
}

/// A cell over the network.
pub(super) struct Network<C> {
    manner: Manner,
    clients: Vec<C>,
    clock: Arc<dyn Clock>,
    acknowledged: u64,
}

impl<C> Network<C> {
    pub(super) fn new(manner: Manner, clients: Vec<C>, clock: &Arc<dyn Clock>) -> Self {
        Self { manner, clients, clock: Arc::clone(clock), acknowledged: 0 }
    }
}

/// Sends requests on one connection, one after the other, and returns the last response.
pub(super) fn once(manner: Manner, words: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    alone(async {
        let mut connection = Connection::open(manner.address, manner.protocol).await?;
        let mut last = Vec::new();
        for one in words {
            last = connection.say(one, manner.answers).await?.to_vec();
        }
        Ok(last)
    })
}

/// Runs one round: each thread drives a part of the connections, and half of the processors are
/// left to the server.
fn run_in_parts<T: Send>(
    connections: &mut [T],
    work: impl Fn(&mut [T], &Barrier) -> io::Result<Round> + Sync,
) -> io::Result<Round> {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (processors / 2).clamp(1, connections.len().max(1));
    let parts = connections.chunks_mut(connections.len().div_ceil(threads).max(1));
    let start = Barrier::new(parts.len());
    let (work, start) = (&work, &start);
    let rounds: Vec<io::Result<Round>> = std::thread::scope(|scope| {
        let started: Vec<_> = parts.map(|part| scope.spawn(move || work(part, start))).collect();
        let panicked = |_| Err(io::Error::other("a client panicked"));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    });
    let mut all = Round::default();
    for round in rounds {
        all.join(round?);
    }
    Ok(all)
}

/// Runs `work` in a runtime of one thread.
pub(super) fn alone<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

impl<C: Client> Load for Network<C> {
    fn round(&mut self, limits: &Limits) -> Outcome<Round> {
        let (manner, clock) = (self.manner, &self.clock);
        let all = run_in_parts(&mut self.clients, |clients, start| {
            alone(part(manner, clients, &**clock, limits, start))
        })?;
        self.acknowledged += all.events;
        Ok(all)
    }

    fn finish(&mut self) -> Outcome<Option<f64>> {
        let writes = self.clients.iter().any(|client| !client.count().1.is_empty());
        let server = self.manner.server.filter(|_| writes && self.manner.defers);
        Ok(server.map(|pid| alone(at_rest(pid, &*self.clock))).transpose()?)
    }

    fn kept(&mut self) -> Outcome<Option<Kept>> {
        let asked: Vec<_> = self.clients.iter().map(Client::count).collect();
        if asked.iter().all(|(_, questions)| questions.is_empty()) {
            return Ok(None);
        }
        let manner = self.manner;
        let found = alone(async {
            let mut found = 0;
            for (hello, questions) in asked {
                let mut connection = open_connection(manner, hello).await?;
                for words in questions {
                    let answer = connection.say(words, 1).await?;
                    let unclear = || io::Error::other("an answer that should be a number is none");
                    found += (manner.counted)(answer).ok_or_else(unclear)?;
                }
            }
            Ok(found)
        })?;
        Ok(Some(Kept { acknowledged: self.acknowledged, found }))
    }
}

/// Drives one thread's connections through one round.
async fn part<C: Client>(
    manner: Manner,
    clients: &mut [C],
    clock: &dyn Clock,
    limits: &Limits,
    start: &Barrier,
) -> io::Result<Round> {
    let opened = try_join_all(clients.iter().map(|client| client.open(manner))).await;
    // Every thread waits for the others, even after a failure: they must not wait without end.
    start.wait();
    let mut opened = opened?;
    let (began, used) = (clock.monotonic(), manner.server.map(Served::of));
    let pairs = clients.iter_mut().zip(&mut opened);
    let driven = pairs.map(|(client, open)| client.drive(open, manner, clock, limits));
    let mut all = Round::default();
    for round in join_all(driven).await {
        all.join(round?);
    }
    all.elapsed = clock.monotonic().saturating_sub(began);
    // Read before the connections close, since the processes that serve them then end.
    all.server = manner.server.zip(used).map(|(pid, before)| Served::of(pid).since(&before));
    Ok(all)
}

async fn open_connection(manner: Manner, hello: &[Vec<u8>]) -> io::Result<Connection> {
    let mut connection = Connection::open(manner.address, manner.protocol).await?;
    for words in hello {
        connection.say(words, 1).await?;
    }
    Ok(connection)
}

impl Client for Talk {
    type Open = Connection;

    async fn open(&self, manner: Manner) -> io::Result<Connection> {
        open_connection(manner, &self.hello).await
    }

    /// Sends a request, waits for the response, and repeats.
    async fn drive(
        &mut self,
        open: &mut Connection,
        manner: Manner,
        clock: &dyn Clock,
        limits: &Limits,
    ) -> io::Result<Round> {
        let mut round = Round::default();
        let began = clock.monotonic();
        let mut asked = began;
        loop {
            (self.next)(&mut open.out);
            let answer = open.ask(manner.answers).await?;
            if let (0, Some(carried)) = (round.operations, manner.carried) {
                let found = carried(answer);
                if found != Some(manner.events) {
                    let wanted = manner.events;
                    let why = format!("an answer carries {found:?} events instead of {wanted}");
                    return Err(io::Error::other(why));
                }
            }
            let now = clock.monotonic();
            round.add(manner.events, now.saturating_sub(asked));
            if limits.over(now.saturating_sub(began)) {
                return Ok(round);
            }
            asked = now;
        }
    }

    fn count(&self) -> (&[Vec<u8>], &[Vec<u8>]) {
        (&self.hello, &self.count)
    }
}
