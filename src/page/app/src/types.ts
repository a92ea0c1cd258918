// The API's answers, as far as the page reads them (proto/openapi.json has all of it).

export type Kind =
    | "user" | "agent" | "thinking" | "call" | "result" | "injected" | "compaction" | "checkpoint"
    | "memory" | "change" | "status";

/** One row an event: what a person reads of it in one line. */
export interface Row {
    position: number;
    id: string;
    type: string;
    at: string;
    kind: Kind;
    bookkeeping?: boolean;
    origin?: string;
    thread?: string;
    line: string;
    bytes: number;
    tool?: string;
    call_id?: string;
    result?: number;
    of?: number;
    outcome?: string;
    duration_ms?: number;
    failed?: boolean;
    added?: number;
    removed?: number;
    path?: string;
    tokens?: number;
    dropped?: number;
    /** What a message says, where it was asked for. */
    content?: unknown;
}

export interface Rows { rows: Row[]; next_position: number; tail: number; complete: boolean }

export interface Bucket {
    from: number; at?: string; user: number; agent: number; calls: number; failed: number; other: number;
    tokens?: number; output_tokens?: number;
}
export interface StripMark { position: number; kind: string; label: string }
export interface Strip {
    from: number; to: number; tail: number; width: number; buckets: Bucket[]; marks: StripMark[];
    limit: number; threshold: number; complete: boolean;
}

export interface Gap { from: number; to: number; reason: string; accepted_at?: string }

export interface Session {
    id: string; status: string; title?: string | null; metadata: Record<string, string>;
    workspace?: string | null; created_at: string; updated_at: string; archived_at?: string | null;
    held_at?: string | null; tail: number; bytes: number; damage: Gap[];
    forked_from?: { session: string; position: number } | null;
    agent?: { name?: string | null; model?: { id?: string | null } | null } | null;
}
export interface SessionList { data: Session[]; next_page?: string | null }

/** A stored event: reserved members and the members of its body. */
export interface Event {
    id: string; type: string; position: number; processed_at: string; created_at?: string; origin: string;
    [member: string]: unknown;
}
export interface Events { data: Event[]; next_position: number; tail: number; gaps?: Gap[] }

export interface Thread {
    thread: string; parent?: string; call?: number; kind?: string; description?: string; depth: number;
    is_running: boolean; calls: number; failures: number; tokens?: number; from: number; to: number;
}

export interface UsageRow {
    key?: string; requests: number; input_tokens: number; cached_tokens: number; output_tokens: number;
    cost_usd?: number;
}
export interface Usage {
    tokens?: number | null; limit: number; threshold: number; remaining?: number | null; level: string;
    requests: number; input_tokens: number; cached_tokens: number; output_tokens: number;
    by_model: UsageRow[]; by_thread: UsageRow[]; by_day: UsageRow[];
    cost_usd?: number;
}

export interface Range { from: number; to: number }
export interface Compaction {
    position: number; at: string; trigger?: string | null; kept: Range[]; dropped: Range[];
    is_reported: boolean; summary?: string | null;
}

export interface Window {
    position: number; events?: Event[];
    dropped: { from: number; to: number; reason: string }[]; shortened: number[];
}

export interface Kin { id: string; title?: string | null; stage: string; position: number; tail: number }
export interface Lineage { session: string; ancestors: Kin[]; children: Kin[]; forks: number }
export interface Checkpoint { id: string; position: number; created_at: string; trigger: string; label?: string | null; thread?: string | null }

export interface Mark { mark: string; position: number; origin: string; importance?: number; note?: string | null }
export interface Doubt {
    files_changed?: { path: string; position: number }[] | null; superseded_by?: number | null; replaced_by?: string | null;
    ended_at?: number | null; rejected?: boolean | null; mended_at?: number | null;
}
export interface Hit {
    session: string; title?: string | null; workspace?: string | null; position: number; type: string; at: string;
    who?: string | null; snippet: { text: string; marks: [number, number][] };
    around?: { position: number; type: string; text: string }[] | null; repeated?: number | null;
    memory?: { kind: string } | null; marks?: Mark[] | null; stale?: Doubt | null;
}
export interface Complete { is_complete: boolean; sessions_behind: number; events_behind: number; sessions_unreadable?: number | null }
export interface Found { hits: Hit[]; complete: Complete; next_page?: string | null }

export interface FileChange { position: number; how: string; tool: string; at: string; asked?: { position: number; text: string } | null }
export interface FileChanges {
    file: string; complete: boolean;
    data: { session: string; title?: string | null; workspace?: string | null; updated_at: string; changes: FileChange[] }[];
}

export interface MemoryItem {
    memory_id: string; session: string; position: number; at: string; kind: string; text: string; topic?: string | null;
    tags: string[]; importance?: number | null; name?: string | null; superseded_by?: string | null;
    forgotten_at?: number | null; ended_at?: number | null;
}
export interface MemoryList { data: MemoryItem[]; left_out?: number | null; next_page?: string | null }

export interface Entity {
    type: string; id: string; source: string; properties: Record<string, unknown>; sessions?: number | null; count?: number | null; last_at?: string | null;
    named_in?: { session: string; count: number; last_at: string }[] | null;
}
export interface EntityList { entities: Entity[]; total: number; next_offset?: number | null }

export interface Hunk { kind: "same" | "changed" | "only_a" | "only_b"; a: Range; b: Range; rows_a?: Row[]; rows_b?: Row[] }
export interface Compared {
    session: string; other: string; common: { until: number; by: string };
    first_difference?: { a: number; b: number }; hunks: Hunk[]; complete: boolean;
}

export interface History { unfinished: { id: string }[] }
export interface Overview { files?: string[] | null; goal?: string; failures?: string[] | null }

export interface Verified { sessions: number; events: number; bytes: number; damage: Damage[]; accepted: Damage[] }
export interface Damage { session: string; from: number; to: number; reason: string }
export interface RecoveryReport {
    clean: boolean; sessions: number; frames_replayed: number; torn_bytes: number; made_good: number;
    damage: string[]; quarantined: string[]; micros: number;
    scrub: { rounds: number; sessions: number; bytes: number; found: string[] };
}
export interface Keys {
    encrypted: boolean; current?: string | null; opens: boolean; keys: number; behind: number; destroyed: number; unreadable: number;
}
export interface Owner { version: string; pid: number; on_demand: boolean; data_dir: string; settings: { name: string; value: string | null; source: string }[]; shared: Shared | null }
export interface Shared { durability: "weak" | "single" | "replicated"; nodes: { place: string; version: string; silent_ms: number; alike: boolean }[] }
export interface Retention {
    data: { session: string; title?: string | null; stage: string; next: string; at?: string | null; due: boolean; why: string }[];
    ttl_seconds: number; retention_seconds: number;
}
