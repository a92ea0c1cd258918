//! One thin client for every server: prepared bytes out, one whole answer in, on as many
//! connections as a cell has. The same code drives our server and its peers. It must not know the
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
    machine::{at_rest, served},
    protocol::Protocol,
};
use sessionlog::env::Clock;

/// Room for an answer before the first byte of it came.
const ANSWER_BYTES: usize = 256 << 10;
/// How long an answer may take: a server that hangs is an error, not a slow server.
const ANSWER: Duration = Duration::from_secs(60);

/// One connection.
pub(super) struct Connection {
    stream: TcpStream,
    protocol: Protocol,
    /// What is sent next.
    pub(super) out: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr, protocol: Protocol) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, protocol, out: Vec::new(), answer: Vec::with_capacity(ANSWER_BYTES) })
    }

    /// Sends what is in `out` and waits for so many whole answers.
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

    /// Sends these bytes and waits for so many answers, for a while.
    async fn say(&mut self, bytes: &[u8], answers: usize) -> io::Result<&[u8]> {
        self.out.clear();
        self.out.extend_from_slice(bytes);
        tokio::time::timeout(ANSWER, self.ask(answers))
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
    }
}

/// Appends the next request to the buffer.
pub(super) type Next = Box<dyn FnMut(&mut Vec<u8>) + Send>;

/// Finds a number in an answer.
pub(super) type Number = fn(&[u8]) -> Option<u64>;

/// The requests of one connection in every round.
pub(super) struct Talk {
    /// Said once it is open, before time is taken.
    pub(super) hello: Vec<Vec<u8>>,
    /// The requests that are measured.
    pub(super) next: Next,
    /// Asks how many events are kept where this connection appended, one place after the other;
    /// nothing for readers.
    pub(super) count: Vec<Vec<u8>>,
}

/// What all connections of a cell have in common.
#[derive(Clone, Copy)]
pub(super) struct Manner {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    /// The process whose processor time is counted, with those that it started.
    pub(super) server: Option<u32>,
    /// True if it defers work, which is waited for after a round that wrote.
    pub(super) defers: bool,
    /// Answers to one `next`.
    pub(super) answers: usize,
    /// Events in one of them, asked for or sent.
    pub(super) events: u64,
    /// How many events an answer carries; the first answer of a connection must carry `events`.
    pub(super) carried: Option<Number>,
    /// The number in the answer to `count`.
    pub(super) counted: Number,
}

impl Manner {
    /// One answer for each `next`, which carries no events.
    pub(super) fn new(address: SocketAddr, protocol: Protocol, counted: Number) -> Self {
        let (server, defers, answers, events, carried) = (None, false, 1, 0, None);
        Self { address, protocol, server, defers, answers, events, carried, counted }
    }
}

/// One of a cell's clients, with a connection of its own in every round.
pub(super) trait Client: Send {
    /// Its connection.
    type Open;

    /// Opens it, before time is taken.
    async fn open(&self, manner: Manner) -> io::Result<Self::Open>;

    /// Goes through one round.
    async fn drive(
        &mut self,
        open: &mut Self::Open,
        manner: Manner,
        clock: &dyn Clock,
        limits: &Limits,
    ) -> io::Result<Round>;

    /// What is said on a new connection to learn how many events are kept where it appended: a
    /// handshake, and the requests. None for readers.
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

/// Says these things on one connection, one after the other, and answers the last answer.
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

/// Runs one round: each thread has its part of the connections, and half of the processors are left
/// to the server.
fn in_parts<T: Send>(
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
        let all = in_parts(&mut self.clients, |clients, start| {
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
                let mut connection = handshake(manner, hello).await?;
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

/// One thread's connections through one round.
async fn part<C: Client>(
    manner: Manner,
    clients: &mut [C],
    clock: &dyn Clock,
    limits: &Limits,
    start: &Barrier,
) -> io::Result<Round> {
    let opened = try_join_all(clients.iter().map(|client| client.open(manner))).await;
    // Every thread waits for the others, also one that has failed: they must not wait without end.
    start.wait();
    let mut opened = opened?;
    let (began, used) = (clock.monotonic(), manner.server.map(served));
    let pairs = clients.iter_mut().zip(&mut opened);
    let driven = pairs.map(|(client, open)| client.drive(open, manner, clock, limits));
    let mut all = Round::default();
    for round in join_all(driven).await {
        all.join(round?);
    }
    all.elapsed = clock.monotonic().saturating_sub(began);
    // Before the connections close, and processes that served them end.
    all.server = manner.server.map(served).zip(used).map(|(now, before)| now - before);
    Ok(all)
}

async fn handshake(manner: Manner, hello: &[Vec<u8>]) -> io::Result<Connection> {
    let mut connection = Connection::open(manner.address, manner.protocol).await?;
    for words in hello {
        connection.say(words, 1).await?;
    }
    Ok(connection)
}

impl Client for Talk {
    type Open = Connection;

    async fn open(&self, manner: Manner) -> io::Result<Connection> {
        handshake(manner, &self.hello).await
    }

    /// A request, its answer, the next request.
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
