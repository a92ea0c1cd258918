// Development only: serves ../../dist as the program does, forwards the API to a running server, and
// answers the views that the server does not have yet from its events. Usage:
// node serve.mjs http://127.0.0.1:PORT   (it prints its own address)
import { createServer, request as forward } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const target = new URL(process.argv[2]);
const dist = join(import.meta.dirname, "../../dist");
const HEADERS = {
    "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
};
const FILES = { "/": ["index.html", "text/html; charset=utf-8"], "/page/app.js": ["app.js", "text/javascript; charset=utf-8"], "/page/app.css": ["app.css", "text/css; charset=utf-8"] };

async function api(path, headers) {
    const answer = await fetch(new URL(path, target), { headers });
    if (!answer.ok) throw Object.assign(new Error(), { status: answer.status, body: await answer.text() });
    return answer.json();
}

const cache = new Map();
async function rowsOf(session, headers) {
    const known = cache.get(session) ?? { rows: [], next: 0, calls: new Map() };
    for (;;) {
        const answer = await api(`/v1/sessions/${session}/events?from=${known.next}&limit=2000&allow_gaps=true`, headers);
        for (const event of answer.data) {
            const row = rowOf(event);
            known.rows.push(row);
            if (row.kind === "call") known.calls.set(row.call_id, row);
            const call = row.kind === "result" ? known.calls.get(row.call_id) : undefined;
            if (call && row.position - call.position <= 500) {
                row.of = call.position;
                call.result = row.position;
                call.outcome = row.failed ? (/(\d+) failed/.exec(row.full)?.[0] ?? /[Ee]xit code:? (\d+)/.exec(row.full)?.[0] ?? "failed") : /(\d+) passed/.exec(row.full)?.[0];
                if (call.outcome === undefined) delete call.outcome;
                if (row.failed) call.failed = true;
                call.duration_ms = Date.parse(row.at) - Date.parse(call.at);
            }
        }
        if (answer.data.length === 0 || answer.next_position <= known.next) {
            known.tail = answer.tail;
            break;
        }
        known.next = answer.next_position;
        known.tail = answer.tail;
        if (known.next >= answer.tail) break;
    }
    cache.set(session, known);
    return known;
}

const said = (content) => (typeof content === "string" ? content : Array.isArray(content) ? content.map((block) => block.text ?? (block.content ? said(block.content) : "")).join(" ") : content === undefined ? "" : JSON.stringify(content));
const KINDS = { "user.message": "user", "agent.message": "agent", "agent.thinking": "thinking", "context.injected": "injected", "context.compacted": "compaction", "memory.item": "memory", "checkpoint.created": "checkpoint" };
function rowOf(event) {
    const type = event.type;
    const kind = KINDS[type] ?? (/tool_use$/.test(type) ? "call" : /tool_result$/.test(type) ? "result" : "status");
    const input = event.input ?? {};
    const full = kind === "call" ? `${input.command ? `$ ${input.command}` : `${event.name} ${input.file_path ?? input.description ?? input.pattern ?? JSON.stringify(input)}`}` : said(event.content ?? event.text ?? event.summary ?? JSON.stringify(event));
    const row = { position: event.position, id: event.id, type, at: event.created_at ?? event.processed_at, kind, origin: event.origin, line: full.replace(/\s+/g, " ").trim().slice(0, 160), bytes: JSON.stringify({ ...event, raw: undefined }).length, full };
    if (kind === "status") row.bookkeeping = true;
    if (kind === "user" && /^<(system-reminder|command-|local-command|task-notification)/.test(full)) Object.assign(row, { kind: "status", bookkeeping: true });
    if (event.session_thread_id) row.thread = event.session_thread_id;
    if (kind === "call") {
        Object.assign(row, { tool: event.name, call_id: event.call_id ?? event.id });
        if (input.file_path) row.path = input.file_path;
        if (typeof input.new_string === "string") Object.assign(row, { added: input.new_string.split("\n").length, removed: String(input.old_string).split("\n").length });
    }
    if (kind === "result") Object.assign(row, { call_id: event.call_id ?? event.tool_use_id, ...(event.is_error ? { failed: true } : {}) });
    const usage = event.model_usage;
    if (usage) Object.assign(row, { tokens: (usage.input_tokens ?? 0) + (usage.cache_read_input_tokens ?? 0) + (usage.cache_creation_input_tokens ?? 0) + (usage.output_tokens ?? 0), output: usage.output_tokens, line: "model request" });
    return row;
}
const out = ({ full, output, ...row }) => row;

const VIEWS = {
    async rows(session, query, headers) {
        const { rows, tail } = await rowsOf(session, headers);
        const from = Number(query.get("from") ?? 0);
        const to = Math.min(Number(query.get("to") ?? tail), tail, from + 20000);
        const limit = Number(query.get("limit") ?? 200);
        const types = query.get("types")?.split(",");
        const q = query.get("q")?.toLowerCase();
        const thread = query.get("thread");
        const found = [];
        let next = from;
        for (const row of rows.slice(from, to)) {
            if (found.length >= limit) break;
            next = row.position + 1;
            if ((types && !types.includes(row.type)) || (thread && row.thread !== thread) || (q && !row.full.toLowerCase().includes(q))) continue;
            found.push(out(row));
        }
        return { rows: found, next_position: next, tail, complete: next >= Math.min(Number(query.get("to") ?? tail), tail) };
    },
    async strip(session, query, headers) {
        const { rows, tail } = await rowsOf(session, headers);
        const from = Number(query.get("from") ?? 0);
        const to = Math.min(tail, Number(query.get("to") ?? tail));
        const width = Math.max(1, Math.ceil((to - from) / Number(query.get("buckets") ?? 400)));
        const buckets = [];
        for (let start = from; start < to; start += width) {
            const part = rows.slice(start, Math.min(to, start + width));
            const number = (test) => part.filter(test).length;
            const tokens = Math.max(...part.map((row) => row.tokens ?? -1));
            buckets.push({ from: start, at: part[0]?.at, user: number((row) => row.kind === "user"), agent: number((row) => row.kind === "agent"), calls: number((row) => row.kind === "call"), failed: number((row) => row.kind === "call" && row.failed), other: number((row) => row.bookkeeping), ...(tokens >= 0 ? { tokens, output_tokens: part.reduce((sum, row) => sum + (row.output ?? 0), 0) } : {}) });
        }
        const marks = rows.filter((row) => row.kind === "compaction" || row.kind === "injected").map((row) => ({ position: row.position, kind: row.kind, label: row.line }));
        return { from, to, tail, width, buckets, marks, limit: 200000, threshold: 160000, complete: true };
    },
    async threads(session, _query, headers) {
        const { rows } = await rowsOf(session, headers);
        const threads = new Map();
        for (const row of rows) {
            if (!row.thread) continue;
            const one = threads.get(row.thread) ?? { thread: row.thread, depth: 1, state: "ended", calls: 0, failures: 0, from: row.position };
            one.to = row.position + 1;
            if (row.kind === "call") one.calls += 1;
            if (row.kind === "call" && row.failed) one.failures += 1;
            threads.set(row.thread, one);
        }
        return { threads: [...threads.values()], complete: true };
    },
};
async function compare(a, query, headers) {
    const b = query.get("with");
    const [one, two] = [await rowsOf(a, headers), await rowsOf(b, headers)];
    let until = 0;
    while (until < one.tail && until < two.tail && one.rows[until].id === two.rows[until].id) until += 1;
    const hunks = until > 0 ? [{ kind: "same", a: { from: 0, to: until }, b: { from: 0, to: until } }] : [];
    if (until < one.tail || until < two.tail) hunks.push({ kind: "changed", a: { from: until, to: one.tail }, b: { from: until, to: two.tail }, rows_a: one.rows.slice(until, until + 100).map(out), rows_b: two.rows.slice(until, until + 100).map(out) });
    return { session: a, other: b, common: { until, by: "content" }, ...(until < one.tail || until < two.tail ? { first_difference: { a: until, b: until } } : {}), hunks, complete: true };
}

const server = createServer(async (asked, answer) => {
    const url = new URL(asked.url, "http://x");
    const file = url.pathname === "/" && !/text\/html/.test(asked.headers.accept ?? "") ? undefined : FILES[url.pathname];
    if (file) {
        answer.writeHead(200, { ...HEADERS, "Content-Type": file[1], "Cache-Control": "no-cache" });
        return answer.end(readFileSync(join(dist, file[0])));
    }
    const headers = asked.headers.authorization ? { authorization: asked.headers.authorization } : {};
    const view = /^\/v1\/sessions\/([^/]+)\/(?:views\/(rows|strip|threads)|(compare))$/.exec(url.pathname);
    if (view || url.pathname === "/v1/usage") {
        try {
            const body = view ? (view[3] ? await compare(view[1], url.searchParams, headers) : await VIEWS[view[2]](view[1], url.searchParams, headers)) : { rows: [], complete: true };
            answer.writeHead(200, { "Content-Type": "application/json" });
            return answer.end(JSON.stringify(body));
        } catch (error) {
            answer.writeHead(error.status ?? 502, { "Content-Type": "application/json" });
            return answer.end(error.body ?? "{}");
        }
    }
    const on = forward({ host: target.hostname, port: target.port, path: asked.url, method: asked.method, headers: { ...asked.headers, host: target.host, origin: target.origin } }, (got) => {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
        got.on("error", () => answer.destroy());
    });
    on.on("error", () => answer.destroy());
    answer.on("close", () => on.destroy());
    asked.pipe(on);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
