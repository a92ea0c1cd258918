//! Connections that are made anew when they are lost, with their prepared statements. A connection
//! is used once it has committed a write: what a server shows after a crash is then replicated. It
//! must not send a statement twice.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::poll_fn;
use tokio_postgres::{
    AsyncMessage, Client, SimpleQueryMessage, Statement, error::Severity, types::ToSql,
};

use super::{
    super::BaseError,
    PostgresUrl,
    errors::{StatementError, describe},
    sql,
    tls::MakeTls,
};
use crate::env::sync::Mutex;

/// Newest format of a schema that this version reads and writes.
pub(super) const FORMAT: i32 = 1;
/// Key of the advisory lock under which a schema is made.
const SCHEMA_LOCK: i64 = 0x7365_7373_6c6f_6701;
/// Time limit of a connection to one host.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Time limit for making a schema.
const MAKE_MAX: Duration = Duration::from_secs(30);
/// Time limit of the first statements of a connection, which wait for a synchronous standby.
const BEGIN_MAX: Duration = Duration::from_secs(10);

/// Statements that a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Commits of a lane: they wait for no lock for long.
    Lane,
    /// Statements that may wait for a lock.
    Waiting,
    Read,
    /// Reports of a node and hints: they wait for no standby.
    Report,
}

impl Purpose {
    fn settings(self) -> &'static str {
        match self {
            Self::Lane => sql::LANE_SETTINGS,
            Self::Waiting => sql::WAITING_SETTINGS,
            Self::Read => sql::READER_SETTINGS,
            Self::Report => sql::REPORT_SETTINGS,
        }
    }
}

/// Makes connections to one database.
pub(super) struct Connector {
    hosts: Vec<tokio_postgres::Config>,
    /// Index of the host that took the last connection.
    host: AtomicUsize,
    /// Rises when another host takes connections: those to the earlier one are given up.
    generation: AtomicU64,
    tls: MakeTls,
    pub(super) schema: String,
    closed: AtomicBool,
}

/// A client, with the statements prepared on its connection.
pub(super) struct Prepared {
    client: Client,
    statements: tokio::sync::Mutex<HashMap<&'static str, Statement>>,
    /// Number of warnings that the server sent.
    warnings: Arc<AtomicU64>,
    generation: u64,
    connector: Arc<Connector>,
}

/// A connection that is made when it is needed.
pub(super) struct Connection {
    connector: Arc<Connector>,
    purpose: Purpose,
    client: Mutex<Option<Arc<Prepared>>>,
    making: tokio::sync::Mutex<()>,
    /// Number of failed attempts to connect, and the last failure.
    failed: AtomicU64,
    failure: Mutex<String>,
}

/// Receiver of what a server sends on its own.
pub(super) type MessageHandler = Box<dyn FnMut(AsyncMessage) + Send>;

impl Connector {
    pub(super) fn new(url: &PostgresUrl) -> Result<Self, BaseError> {
        Ok(Self {
            hosts: url.hosts(),
            host: AtomicUsize::new(0),
            generation: AtomicU64::new(0),
            tls: MakeTls::new(&url.tls).map_err(BaseError::Failed)?,
            schema: url.schema.clone(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns a statement with the name of the schema.
    pub(super) fn in_schema(&self, sql: &str) -> String {
        sql.replace("sl.", &format!("\"{}\".", self.schema))
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the indices of the hosts, first the one that took the last connection.
    fn host_order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.host.load(Ordering::Acquire), self.hosts.len());
        (0..count).map(move |n| (first + n) % count)
    }

    /// Connects to a host, if it takes writes; messages of the server go to `handle` until the
    /// connection ends.
    async fn connect_to(&self, host: usize, handle: MessageHandler) -> Result<Client, String> {
        if self.is_closed() {
            return Err("the store is closed".to_owned());
        }
        let host = self.hosts.get(host).ok_or_else(|| "there is no host".to_owned())?;
        match tokio::time::timeout(CONNECT_MAX, host.connect(self.tls.clone())).await {
            Ok(Ok((client, connection))) => {
                tokio::spawn(pass_messages(connection, handle));
                Ok(client)
            }
            Ok(Err(error)) => Err(describe(&error)),
            Err(_) => Err("it does not reply".to_owned()),
        }
    }

    /// Connects to the first host that takes writes.
    pub(super) async fn connect(
        &self,
        handler: impl Fn() -> MessageHandler,
    ) -> Result<Client, String> {
        let mut failures = Vec::new();
        for host in self.host_order() {
            match self.connect_to(host, handler()).await {
                Ok(client) => return Ok(client),
                Err(failure) => failures.push(failure),
            }
        }
        failures.dedup();
        Err(failures.join("; "))
    }

    /// Asks the server to end the statement that runs.
    fn cancel(&self, client: &Client) {
        let (token, tls) = (client.cancel_token(), self.tls.clone());
        tokio::spawn(async move {
            // It only frees the server: the statement counts as lost.
            let _ = tokio::time::timeout(CONNECT_MAX, token.cancel_query(tls)).await;
        });
    }

    /// Records that a host committed; returns the generation of its connections.
    fn accept(&self, host: usize) -> u64 {
        if self.host.swap(host, Ordering::AcqRel) == host {
            self.generation.load(Ordering::Acquire)
        } else {
            self.generation.fetch_add(1, Ordering::AcqRel) + 1
        }
    }

    /// Checks the format of the schema; makes it if there is none, or returns false.
    pub(super) async fn prepare_schema(&self, makes: bool) -> Result<bool, BaseError> {
        let client = self.connect(|| Box::new(|_| {})).await.map_err(BaseError::Unreachable)?;
        let failed = |error: tokio_postgres::Error| BaseError::Failed(describe(&error));
        let version = client.query_one("SHOW server_version_num", &[]).await.map_err(failed)?;
        let version: i32 = version.get::<_, &str>(0).parse().unwrap_or(0);
        if version < 130_000 {
            let reason = format!("PostgreSQL 13 or later is needed; the server is {version}");
            return Err(BaseError::ReadOnly(reason));
        }
        self.check_pooling(&client).await?;
        let has_store = format!("SELECT to_regclass('\"{}\".store') IS NOT NULL", self.schema);
        let found = client.query_one(has_store.as_str(), &[]).await.map_err(failed)?;
        if !found.get::<_, bool>(0) {
            if !makes {
                return Ok(false);
            }
            let schema = self.in_schema(sql::SCHEMA);
            let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", self.schema);
            let make = format!(
                "BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); {create}; {schema} COMMIT;"
            );
            let made = tokio::time::timeout(MAKE_MAX, client.batch_execute(&make)).await;
            let silent = || BaseError::Unreachable("the database does not commit".to_owned());
            made.map_err(|_| silent())?.map_err(failed)?;
        }
        let format = self.in_schema("SELECT format FROM sl.store");
        let found = client.query_opt(format.as_str(), &[]).await.map_err(failed)?;
        let found = found.ok_or_else(|| {
            BaseError::Failed(format!("schema \"{}\" has no row of its store", self.schema))
        })?;
        match found.get::<_, i32>(0) {
            newer if newer > FORMAT => Err(BaseError::ReadOnly(format!(
                "schema \"{}\" has format {newer}, and this version reads up to {FORMAT}: use the \
                 version of sessionlog that made it, or a newer one",
                self.schema
            ))),
            _ => Ok(true),
        }
    }

    /// Checks that two connections are to one process of the server each, before and after
    /// transactions at the same time: a pooler may give a connection another one after each.
    async fn check_pooling(&self, one: &Client) -> Result<(), BaseError> {
        let other = self.connect(|| Box::new(|_| {})).await.map_err(BaseError::Unreachable)?;
        let process = async |client: &Client, begin: &str| {
            let asked = client.simple_query(&format!("{begin}SELECT pg_backend_pid()")).await?;
            let rows = asked.iter().filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
                _ => None,
            });
            Ok::<_, tokio_postgres::Error>(rows.last())
        };
        let checked = async {
            let first = process(one, "BEGIN; ").await?;
            let second = process(&other, "BEGIN; ").await?;
            one.batch_execute("COMMIT").await?;
            other.batch_execute("COMMIT").await?;
            let mut stays = true;
            for (client, began) in [(one, &first), (&other, &second)].repeat(2) {
                stays &= process(client, "").await? == *began;
            }
            Ok::<_, tokio_postgres::Error>(stays)
        };
        let found = match checked.await {
            Ok(true) => return Ok(()),
            Ok(false) => "a connection is to another process after a transaction".to_owned(),
            Err(error) if error.as_db_error().is_some() => describe(&error),
            Err(error) => return Err(BaseError::Unreachable(describe(&error))),
        };
        Err(BaseError::ReadOnly(format!(
            "a pooler before the database does not keep connections ({found}): set pool_mode = \
             session there, or give the address of the database itself"
        )))
    }
}

/// Passes messages of a server to a handler until the connection ends.
async fn pass_messages<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    mut handle: MessageHandler,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(message) => handle(message),
            Err(error) => {
                tracing::debug!(error = %describe(&error), "a connection ended");
                return;
            }
        }
    }
}

impl Prepared {
    /// Returns the number of warnings that the server sent.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Acquire)
    }

    /// Runs a statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, StatementError> {
        let statement = {
            let mut statements = self.statements.lock().await;
            match statements.get(sql) {
                Some(statement) => statement.clone(),
                None => {
                    let text = self.connector.in_schema(sql);
                    let made = self.client.prepare(&text).await;
                    let made = made.map_err(|error| StatementError::NotSent(describe(&error)))?;
                    statements.insert(sql, made.clone());
                    made
                }
            }
        };
        Ok(self.client.query(&statement, params).await?)
    }
}

impl Connection {
    pub(super) fn new(connector: &Arc<Connector>, purpose: Purpose) -> Self {
        Self {
            connector: Arc::clone(connector),
            purpose,
            client: Mutex::default(),
            making: tokio::sync::Mutex::new(()),
            failed: AtomicU64::new(0),
            failure: Mutex::default(),
        }
    }

    /// Gives up a client that does not reply, unless another has taken its place. With `cancels`,
    /// the server ends the statement: not one that writes, whose wait for a standby would end as a
    /// commit.
    pub(super) fn give_up(&self, silent: &Arc<Prepared>, cancels: bool) {
        if cancels {
            self.connector.cancel(&silent.client);
        }
        let mut client = self.client.lock();
        if client.as_ref().is_some_and(|client| Arc::ptr_eq(client, silent)) {
            *client = None;
        }
    }

    /// Drops the client, if any.
    pub(super) fn close(&self) {
        *self.client.lock() = None;
    }

    fn current(&self) -> Option<Arc<Prepared>> {
        let generation = self.connector.generation.load(Ordering::Acquire);
        let client = self.client.lock().clone()?;
        (!client.client.is_closed() && client.generation == generation).then_some(client)
    }

    /// Returns the client, after connecting if need be.
    pub(super) async fn client(&self) -> Result<Arc<Prepared>, StatementError> {
        if let Some(client) = self.current() {
            return Ok(client);
        }
        let failed = self.failed.load(Ordering::Acquire);
        let _making = self.making.lock().await;
        if let Some(client) = self.current() {
            return Ok(client);
        }
        if self.failed.load(Ordering::Acquire) != failed {
            // Another caller tried meanwhile: not each one tries in turn.
            return Err(StatementError::NotSent(self.failure.lock().clone()));
        }
        let mut failures = Vec::new();
        for host in self.connector.host_order() {
            match self.begin(host).await {
                Ok(client) => {
                    *self.client.lock() = Some(Arc::clone(&client));
                    return Ok(client);
                }
                Err(failure) => failures.push(failure),
            }
        }
        failures.dedup();
        *self.failure.lock() = failures.join("; ");
        self.failed.fetch_add(1, Ordering::AcqRel);
        Err(StatementError::NotSent(failures.join("; ")))
    }

    /// Connects to a host and lets it commit: one that cannot is not used.
    async fn begin(&self, host: usize) -> Result<Arc<Prepared>, String> {
        let warnings = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&warnings);
        let handle: MessageHandler = Box::new(move |message: AsyncMessage| {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() == Some(Severity::Warning)
            {
                seen.fetch_add(1, Ordering::Release);
                tracing::warn!(message = notice.message(), "the database warns");
            }
        });
        let client = self.connector.connect_to(host, handle).await?;
        let begun = async {
            client.batch_execute(self.purpose.settings()).await?;
            client.batch_execute(sql::PROVE).await
        };
        match tokio::time::timeout(BEGIN_MAX, begun).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(describe(&error)),
            Err(_) => {
                self.connector.cancel(&client);
                return Err("the database does not commit".to_owned());
            }
        }
        if warnings.load(Ordering::Acquire) > 0 {
            return Err("the database does not replicate what it commits".to_owned());
        }
        Ok(Arc::new(Prepared {
            client,
            statements: tokio::sync::Mutex::default(),
            warnings,
            generation: self.connector.accept(host),
            connector: Arc::clone(&self.connector),
        }))
    }
}
