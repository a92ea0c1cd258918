//! Connections that are made anew when they are lost, with their prepared statements. A connection
//! is used once it has committed a write: what a server shows after a crash is then replicated. It
//! must not send a statement twice.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::future::poll_fn;
use tokio_postgres::{AsyncMessage, Client, Statement, types::ToSql};

use super::{super::BaseError, PostgresUrl, errors::describe, sql, tls::MakeTls};
use crate::env::sync::Mutex;

/// Newest format of a schema that this version reads and writes.
pub(super) const FORMAT: i32 = 1;
/// Key of the advisory lock under which a schema is made.
const SCHEMA_LOCK: i64 = 0x7365_7373_6c6f_6701;
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Error of a statement.
#[derive(Debug)]
pub(super) enum QueryError {
    /// No connection: the statement was not sent.
    NotSent(String),
    /// Error after it was sent.
    Sent(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for QueryError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sent(error)
    }
}

/// Makes connections to one database.
pub(super) struct Connector {
    config: tokio_postgres::Config,
    tls: MakeTls,
    pub(super) schema: String,
    closed: AtomicBool,
}

/// A client, with the statements prepared on its connection.
pub(super) struct Prepared {
    pub(super) client: Client,
    statements: tokio::sync::Mutex<HashMap<&'static str, Statement>>,
}

/// A connection that is made when it is needed.
pub(super) struct Connection {
    connector: Arc<Connector>,
    is_lane: bool,
    client: Mutex<Option<Arc<Prepared>>>,
    making: tokio::sync::Mutex<()>,
    warnings: Arc<AtomicU64>,
}

/// Receiver of what a server sends on its own.
pub(super) type MessageHandler = Box<dyn FnMut(AsyncMessage) + Send>;

impl Connector {
    pub(super) fn new(url: &PostgresUrl) -> Result<Self, BaseError> {
        let tls = MakeTls::new(&url.tls).map_err(BaseError::Failed)?;
        let (config, schema) = (url.config.clone(), url.schema.clone());
        Ok(Self { config, tls, schema, closed: AtomicBool::new(false) })
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

    /// Connects, and passes messages of the server to `handle` until the connection ends.
    pub(super) async fn connect(&self, mut handle: MessageHandler) -> Result<Client, String> {
        if self.is_closed() {
            return Err("the store is closed".to_owned());
        }
        let connecting = self.config.connect(self.tls.clone());
        let connected = tokio::time::timeout(CONNECT_MAX, connecting).await;
        let connected = connected.map_err(|_| "the database does not reply".to_owned())?;
        let (client, mut connection) = connected.map_err(|error| describe(&error))?;
        tokio::spawn(async move {
            while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
                match message {
                    Ok(message) => handle(message),
                    Err(error) => {
                        tracing::debug!(error = %describe(&error), "a connection ended");
                        return;
                    }
                }
            }
        });
        Ok(client)
    }

    /// Makes the schema, if there is none, and checks its format.
    pub(super) async fn prepare_schema(&self) -> Result<(), BaseError> {
        let client = self.connect(Box::new(|_| {})).await.map_err(BaseError::Unreachable)?;
        let failed = |error: tokio_postgres::Error| BaseError::Failed(describe(&error));
        let version = client.query_one("SHOW server_version_num", &[]).await.map_err(failed)?;
        let version: i32 = version.get::<_, &str>(0).parse().unwrap_or(0);
        if version < 130_000 {
            let reason = format!("PostgreSQL 13 or later is needed; the server is {version}");
            return Err(BaseError::ReadOnly(reason));
        }
        let has_store = format!("SELECT to_regclass('\"{}\".store') IS NOT NULL", self.schema);
        let found = client.query_one(has_store.as_str(), &[]).await.map_err(failed)?;
        if !found.get::<_, bool>(0) {
            let schema = self.in_schema(sql::SCHEMA);
            let create = format!("CREATE SCHEMA IF NOT EXISTS \"{}\"", self.schema);
            let make = format!(
                "BEGIN; SELECT pg_advisory_xact_lock({SCHEMA_LOCK}); {create}; {schema} COMMIT;"
            );
            client.batch_execute(&make).await.map_err(failed)?;
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
            _ => Ok(()),
        }
    }
}

impl Connection {
    pub(super) fn new(connector: &Arc<Connector>, is_lane: bool) -> Self {
        Self {
            connector: Arc::clone(connector),
            is_lane,
            client: Mutex::default(),
            making: tokio::sync::Mutex::new(()),
            warnings: Arc::default(),
        }
    }

    /// Returns the number of warnings that the server sent.
    pub(super) fn warnings(&self) -> u64 {
        self.warnings.load(Ordering::Acquire)
    }

    /// Gives the connection up: statements on it fail, the next one makes another.
    pub(super) fn drop_client(&self) {
        *self.client.lock() = None;
    }

    fn current(&self) -> Option<Arc<Prepared>> {
        self.client.lock().clone().filter(|prepared| !prepared.client.is_closed())
    }

    /// Returns the client, after connecting if need be.
    async fn client(&self) -> Result<Arc<Prepared>, QueryError> {
        if let Some(prepared) = self.current() {
            return Ok(prepared);
        }
        let _making = self.making.lock().await;
        if let Some(prepared) = self.current() {
            return Ok(prepared);
        }
        let warnings = Arc::clone(&self.warnings);
        let handle = move |message: AsyncMessage| {
            if let AsyncMessage::Notice(notice) = message
                && notice.severity() == "WARNING"
            {
                warnings.fetch_add(1, Ordering::Release);
                tracing::warn!(message = notice.message(), "the database warns");
            }
        };
        let client = self.connector.connect(Box::new(handle)).await.map_err(QueryError::NotSent)?;
        let settings = if self.is_lane { sql::LANE_SETTINGS } else { sql::SETTINGS_OF_ALL };
        let begun = async {
            client.batch_execute(settings).await?;
            if self.is_lane {
                client.batch_execute(&self.connector.in_schema(sql::PROVE)).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        let begun = tokio::time::timeout(CONNECT_MAX, begun).await;
        let begun = begun.map_err(|_| QueryError::NotSent("the database does not reply".into()))?;
        begun.map_err(|error| QueryError::NotSent(describe(&error)))?;
        let prepared = Arc::new(Prepared { client, statements: tokio::sync::Mutex::default() });
        *self.client.lock() = Some(Arc::clone(&prepared));
        Ok(prepared)
    }

    /// Runs a statement.
    pub(super) async fn query(
        &self,
        sql: &'static str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, QueryError> {
        let prepared = self.client().await?;
        let statement = {
            let mut statements = prepared.statements.lock().await;
            match statements.get(sql) {
                Some(statement) => statement.clone(),
                None => {
                    let text = self.connector.in_schema(sql);
                    let made = prepared.client.prepare(&text).await;
                    let made = made.map_err(|error| QueryError::NotSent(describe(&error)))?;
                    statements.insert(sql, made.clone());
                    made
                }
            }
        };
        Ok(prepared.client.query(&statement, params).await?)
    }
}
