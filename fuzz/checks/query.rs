//! Feeds queries of a graph and parameters of a search to a service whose graph has properties as
//! large as may be: long texts, texts of escapes, lists of thousands of values. Bytes that are the
//! JSON of a query are one; others choose fields, operators and orders. The limit of memory is the
//! caller's: a query that copies what it compares is beyond it.

use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use sessionlog::{
    api::{
        graph::{EntityQueryRequest, Filter, RelationQueryRequest, Sort, UpsertRequest},
        search::SearchBody,
    },
    env::Env,
    event::{Batch, EventType, NewEvent, Origin, Scope, SessionId},
    service::{Caller, Code, Service, ServiceError},
    store::Store,
};
use sessionlog_sim::{Sim, model::Model};

/// Rows of the graph, and bytes of the properties of one.
const ROWS: usize = 120;
const ROW_BYTES: usize = 48_000;
/// Bytes of properties on a page, about: as over HTTP.
const PAGE_BYTES: usize = 4 << 20;
const FIELDS: [&str; 12] = [
    "p",
    "properties.p",
    "q.a",
    "q",
    "q.a.b",
    "n",
    "id",
    "type",
    "created_at",
    "count",
    "none",
    ".",
];
const OPS: [&str; 9] = ["eq", "ne", "lt", "lte", "gt", "gte", "in", "contains", "exists"];

struct Served {
    runtime: tokio::runtime::Runtime,
    service: Service,
    caller: Caller,
}

pub fn check(bytes: &[u8]) {
    static SERVED: OnceLock<Served> = OnceLock::new();
    let served = SERVED.get_or_init(Served::new);
    served.runtime.block_on(async {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(asked) = serde_json::from_str(&text) {
            served.entities(asked).await;
        }
        if let Ok(asked) = serde_json::from_str(&text) {
            served.relations(asked).await;
        }
        let query = chosen(bytes);
        let EntityQueryRequest { filters, sort, limit, offset, .. } = query.clone();
        served.entities(query).await;
        let query = RelationQueryRequest {
            filters,
            sort,
            limit,
            offset,
            ..RelationQueryRequest::default()
        };
        served.relations(query).await;
        served.search(bytes, &text).await;
    });
}

/// A query of which each byte chooses something.
fn chosen(bytes: &[u8]) -> EntityQueryRequest {
    let field = |byte: u8| FIELDS[usize::from(byte) % FIELDS.len()].to_owned();
    let mut query = EntityQueryRequest::default();
    for choice in bytes.as_chunks::<3>().0 {
        let [what, one, other] = *choice;
        match what % 4 {
            0 | 1 => query.sort.push(Sort {
                field: field(one),
                order: (other % 2 == 0).then(|| "desc".to_owned()),
            }),
            2 => query.filters.push(Filter {
                field: field(one),
                op: OPS[usize::from(other) % OPS.len()].to_owned(),
                value: match other % 5 {
                    0 => json!(one),
                    1 => json!("\n".repeat(usize::from(one))),
                    2 => json!([one, "x", null]),
                    3 => json!(other > 100),
                    _ => Value::Null,
                },
            }),
            _ => (query.limit, query.offset) = (Some(usize::from(one)), usize::from(other)),
        }
    }
    query
}

impl Served {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_time()
            .build()
            .expect("threads");
        let Env { clock, entropy, .. } = Sim::new(5).env();
        let store = Arc::new(Model::new(Arc::clone(&clock), entropy)) as Arc<dyn Store>;
        let service = Service::new(store, clock);
        let caller = Caller { scope: Scope::local(), origin: Origin::User, fence: None };
        let served = Self { runtime, service, caller };
        served.runtime.block_on(served.filled());
        served
    }

    async fn filled(&self) {
        for row in 0..ROWS {
            let (text, n) = ("x".repeat(ROW_BYTES), row.to_string());
            let p = match row % 3 {
                0 => json!(text + &n),
                1 => json!("\n".repeat(ROW_BYTES / 2) + &n),
                _ => serde_json::from_str(&format!("[{}1]", "[],".repeat(ROW_BYTES / 3)))
                    .expect("JSON"),
            };
            let properties = json!({"p": p, "q": {"a": {"b": n}}, "n": row / 2});
            let Value::Object(properties) = properties else { unreachable!("it is an object") };
            let (entity, asked) = (("thing", &*n), UpsertRequest { properties });
            let written = self.service.upsert_entity(&self.caller, "w", entity, asked, None).await;
            written.expect("an entity");
        }
        let session = SessionId::new("s").expect("an id");
        let event = |text: &str| NewEvent {
            id: None,
            kind: EventType::new("user.message").expect("a type"),
            origin: Origin::User,
            created_at: None,
            position: None,
            body: json!({"content": text}).to_string().into(),
        };
        let events = ["the harbour ledger", "see src/a.rs", "a lantern"].map(event);
        let batch = Batch { events: events.into(), ..Batch::default() };
        self.service.emit(&self.caller, &session, batch, true).await.expect("events");
    }

    async fn entities(&self, asked: EntityQueryRequest) {
        let asked = EntityQueryRequest { wait_ms: 0, ..asked };
        let (limit, offset) = (asked.limit.unwrap_or(100), asked.offset);
        match self.service.query_entities(&self.caller, "w", asked, PAGE_BYTES).await {
            Ok(page) => {
                let count = page.entities.len();
                assert!(count <= limit && page.total <= ROWS as u64 + 10);
                let end = offset.saturating_add(count) as u64;
                assert_eq!(page.next_offset, (end < page.total).then_some(end));
            }
            Err(error) => refused(&error),
        }
    }

    async fn relations(&self, asked: RelationQueryRequest) {
        let found = self.service.query_relationships(&self.caller, "w", asked, PAGE_BYTES).await;
        if let Err(error) = found {
            refused(&error);
        }
    }

    async fn search(&self, bytes: &[u8], text: &str) {
        let [one, other, ..] = *bytes else { return };
        let kinds = ["user.message", "a.b", "agent.message"].map(str::to_owned);
        let types = kinds.into_iter().cycle().take(usize::from(one) * 8);
        let asked = SearchBody {
            q: text.to_owned(),
            types: types.collect(),
            around: Some(u64::from(other % 8)),
            limit: Some(usize::from(one)),
            tokens_max: (other % 2 == 0).then_some(usize::from(one) * 10),
            order: (other % 3 == 0).then(|| "time".to_owned()),
            ..SearchBody::default()
        };
        if let Err(error) = self.service.search(&self.caller, asked).await {
            refused(&error);
        }
    }
}

/// A query that is refused is refused by name.
fn refused(error: &ServiceError) {
    assert_eq!(error.code, Code::InvalidRequest, "{error}");
    assert!(error.hint.field.is_some(), "{error}");
}
