//! Every default limit of the system, in one file. It must not hold a limit that no code enforces.

/// Bytes of a session, tenant or user id.
pub const ID_BYTES_MAX: usize = 128;
/// Bytes of an event id or a batch key.
pub const EVENT_ID_BYTES_MAX: usize = 128;
/// Bytes of an event type.
pub const EVENT_TYPE_BYTES_MAX: usize = 128;
/// Bytes of one event without its reserved members, as stored.
pub const EVENT_BYTES_MAX: usize = 4 << 20;
/// Events in one batch.
pub const BATCH_EVENTS_MAX: usize = 1_000;
/// Bytes of one batch as it arrives; also the largest request body.
pub const BATCH_BYTES_MAX: usize = 16 << 20;
/// Batches in flight of one append stream.
pub const FLOW_BATCHES_MAX: usize = 1_024;
/// Bytes of the batches in flight of one append stream; one more batch may start below it.
pub const FLOW_BYTES_MAX: usize = 4 << 20;
/// Nesting depth of a JSON document.
pub const JSON_DEPTH_MAX: usize = 128;
/// Values of a JSON text that is parsed into a tree; a larger text stays raw text, or is rejected
/// where it has to be parsed.
pub const JSON_VALUES_MAX: usize = 100_000;
/// Values of a list in a filter of a request: types, kinds, statuses, pairs, transforms.
pub const FILTER_VALUES_MAX: usize = 100;
/// Characters of a text in a filter of a request: a speaker, a workspace.
pub const FILTER_CHARS_MAX: usize = 512;
/// Bytes of an MCP request.
pub const MCP_BYTES_MAX: usize = 1 << 20;
/// Bytes of an MCP request that carries an event or a state.
pub const MCP_CARRIER_BYTES_MAX: usize = EVENT_BYTES_MAX + MCP_BYTES_MAX;
/// Pairs of metadata of one session.
pub const METADATA_PAIRS_MAX: usize = 16;
/// Characters of a metadata key.
pub const METADATA_KEY_CHARS_MAX: usize = 64;
/// Characters of a metadata value.
pub const METADATA_VALUE_CHARS_MAX: usize = 512;
/// Characters of a session's title.
pub const TITLE_CHARS_MAX: usize = 512;
/// Characters of the name of a workspace.
pub const WORKSPACE_CHARS_MAX: usize = 512;
/// Default sessions of a page.
pub const PAGE_SESSIONS_DEFAULT: usize = 100;
/// Maximum sessions of a page.
pub const PAGE_SESSIONS_MAX: usize = 1_000;
/// Sessions that one filtered list request examines.
pub const LIST_EXAMINED_MAX: usize = 20_000;
/// Default events of a page.
pub const PAGE_EVENTS_DEFAULT: usize = 1_000;
/// Maximum events of a page.
pub const PAGE_EVENTS_MAX: usize = 10_000;
/// Maximum bytes of bodies of a page.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
/// Concurrent readers (streams and long polls).
pub const READERS_MAX: usize = 10_000;
/// Concurrent connections of MCP over HTTP.
pub const MCP_CONNECTIONS_MAX: usize = 1_000;
/// Concurrent connections of MCP over HTTP per tenant.
pub const MCP_CONNECTIONS_TENANT_MAX: usize = 256;
/// Bytes of each property of an MCP client's description that is kept.
pub const MCP_CLIENT_BYTES_MAX: usize = 4 << 10;
/// Maximum `wait_ms` of a long poll, in milliseconds.
pub const WAIT_MS_MAX: u64 = 60_000;
/// Time for which a batch key is remembered, in microseconds.
pub const BATCH_KEY_MICROS: i64 = 24 * 3_600 * 1_000_000;
/// Bytes of the agent's state in a checkpoint, as stored.
pub const STATE_BYTES_MAX: usize = 4 << 20;
/// Characters of a checkpoint's label, of the name of its thread, and of a cursor's name.
pub const NOTE_NAME_CHARS_MAX: usize = 128;
/// Named cursors of one session.
pub const CURSORS_MAX: usize = 1_000;
/// Default duration of a lease, in seconds.
pub const LEASE_SECONDS_DEFAULT: u64 = 300;
/// Maximum duration of a lease without renewal, in seconds.
pub const LEASE_SECONDS_MAX: u64 = 24 * 3_600;

const _: () = assert!(PAGE_SESSIONS_DEFAULT <= PAGE_SESSIONS_MAX);
const _: () = assert!(PAGE_EVENTS_DEFAULT <= PAGE_EVENTS_MAX);
const _: () = assert!(EVENT_BYTES_MAX <= BATCH_BYTES_MAX);
