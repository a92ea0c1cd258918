// A client of sessionlog that needs nothing but Node (22.19 or newer runs TypeScript as it is).
//
//     node session.ts [SESSION]
//
// It writes a session, reads a slice, follows the session, recovers it and continues. The server is
// SESSIONLOG_URL (default http://127.0.0.1:7717). SESSIONLOG_TOKEN is sent when it is set.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const URL_BASE = (process.env.SESSIONLOG_URL || "http://127.0.0.1:7717").replace(/\/+$/, "");
const TOKEN = process.env.SESSIONLOG_TOKEN;
// Milliseconds without a byte. A quiet stream sends a ping every 15 s, so longer silence is a
// failure.
const TIMEOUT_MS = 30_000;
const ATTEMPTS = 4;

type Json = Record<string, any>;
type Texts = Record<string, string>;
type Event = Json & { type: string; id: string; position: number };

/** The server answered with an error. Its text is the body: a code, a message and a hint. */
class Refused extends Error {
  retryable: boolean;
  constructor(status: number, body: string, retryable: boolean) {
    super(`HTTP ${status}: ${body}`);
    this.retryable = retryable;
  }
}

/** Sends a request and returns the open answer. A body makes it a POST. */
async function ask(path: string, signal: AbortSignal, body?: Json, more: Texts = {}) {
  const headers: Texts = { "content-type": "application/json", ...more };
  if (TOKEN) headers.authorization = `Bearer ${TOKEN}`;
  const sent = body && { method: "POST", body: JSON.stringify(body) };
  const answer = await fetch(URL_BASE + path, { headers, signal, ...sent });
  if (answer.ok) return answer;
  const retryable = answer.headers.get("x-should-retry") === "true";
  throw new Refused(answer.status, await answer.text(), retryable);
}

/** Sends a request and returns the JSON of its answer. Repeats it where that may help. */
async function call(path: string, query: Texts = {}, body?: Json): Promise<Json> {
  const whole = `${path}?${new URLSearchParams(query)}`;
  for (let attempt = 1; ; attempt++) {
    try {
      return await (await ask(whole, AbortSignal.timeout(TIMEOUT_MS), body)).json();
    } catch (error) {
      const final = error instanceof Refused && !error.retryable;
      if (final || attempt === ATTEMPTS) throw error;
    }
    await sleep(200 * 2 ** attempt);
  }
}

function place(session: string, rest: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}/${rest}`;
}

/**
 * Appends events and returns after they are on disk. An unknown session is created.
 * Each event has an id of the client, so a request that is sent again writes nothing twice.
 */
async function emit(session: string, events: Json[]): Promise<Json> {
  const named = events.map((event) => ({ id: `evt_${randomUUID()}`, ...event }));
  return call(place(session, "events"), { create: "true" }, { events: named });
}

/** Returns the events from position `start` up to, not including, `end`. */
async function read(session: string, start: number, end: number): Promise<Event[]> {
  const found: Event[] = [];
  while (start < end) {
    const page = await call(place(session, "events"), { from: `${start}`, to: `${end}` });
    found.push(...page.data);
    // A page may end early; it says where the next one starts. At the tail it stays.
    if (page.next_position <= start) break;
    start = page.next_position;
  }
  return found;
}

/**
 * Yields each event from position `start` on, live, and connects again after a failure.
 * `last` is the position of the last event that was seen: with it the stream continues behind it.
 */
async function* tail(session: string, start: number, last?: number): AsyncGenerator<Event> {
  for (;;) {
    const connection = new AbortController();
    const watchdog = setTimeout(() => connection.abort(new Error("silence")), TIMEOUT_MS);
    try {
      const headers: Texts = {};
      if (last !== undefined) headers["last-event-id"] = String(last);
      const path = place(session, `events/stream?from=${start}`);
      const answer = await ask(path, connection.signal, undefined, headers);
      for await (const { kind, event } of messages(answer.body!, () => watchdog.refresh())) {
        if (kind === "error") throw new Refused(200, JSON.stringify(event), false);
        if (kind === "done") break; // The server stops. Another one will continue.
        if (kind === "gap") console.error("lost for good:", event);
        else if (kind !== "ping") {
          last = event.position;
          yield event as Event;
        }
      }
    } catch (error) {
      if (error instanceof Refused && !error.retryable) throw error;
      console.error(`the stream broke (${told(error)}); connecting again`);
    } finally {
      clearTimeout(watchdog);
      connection.abort();
    }
    await sleep(1_000);
  }
}

/** Splits a stream of server-sent events into pairs of type and data. */
async function* messages(body: ReadableStream<Uint8Array>, heard: () => void) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const bytes of body) {
    heard();
    text += decoder.decode(bytes, { stream: true });
    // An empty line ends an event. What is behind the last one is not complete yet.
    const blocks = text.split(/\r?\n\r?\n/);
    text = blocks.pop()!;
    for (const block of blocks) {
      const fields = block.split(/\r?\n/).map((line) => /^(\w+): ?(.*)$/.exec(line) ?? []);
      const values = (name: string) => fields.filter(([, key]) => key === name).map((f) => f[2]);
      const [kind = "message"] = values("event");
      const data = values("data").join("\n");
      if (data) yield { kind, event: JSON.parse(data) as Json };
    }
  }
}

/** Returns the overview: what an agent needs to see after it lost its context. */
async function recover(session: string): Promise<Json> {
  return call(place(session, "views/index"));
}

/** Returns the view to continue from, and the newest messages, each within a budget of tokens. */
async function resume(session: string, tokens: number): Promise<[Json, Json]> {
  const begin = await call(place(session, "views/continuation"), { tokens_max: `${tokens}` });
  const query = { tokens_max: `${tokens}`, format: "anthropic" };
  return [begin, await call(place(session, "views/window"), query)];
}

async function main(): Promise<void> {
  const session = process.argv[2] ?? `example-${randomUUID().slice(0, 13)}`;

  // The types are those of docs/events.md: views understand them. Any other type is stored, too.
  const written = await emit(session, [
    { type: "user.message", content: "Fix the failing tax test." },
    { type: "agent.tool_use", call_id: "c1", name: "Bash",
      input: { command: "pytest test_tax.py" } },
    { type: "agent.tool_result", call_id: "c1", content: "1 failed", is_error: true },
    { type: "agent.message", content: "The rounding is wrong; I change it." },
  ]);
  const [first, behind] = [written.first_position, written.next_position];
  console.log(`emitted: ${first} to ${behind - 1} in ${session}`);

  // Any range of positions can be read, at any time, by any process.
  for (const event of await read(session, first + 1, first + 3)) {
    console.log(`slice: ${event.position} ${event.type} ${event.id}`);
  }

  // Follow the session, and drop the connection after two events.
  const seen: number[] = [];
  for await (const event of tail(session, first)) {
    if (seen.push(event.position) === 2) break;
  }
  // Meanwhile the session grows. The second stream misses nothing and repeats nothing.
  await emit(session, [{ type: "agent.message", content: "The test passes." }]);
  for await (const event of tail(session, first, seen.at(-1))) {
    seen.push(event.position);
    if (event.content === "The test passes.") break;
  }
  console.log(`tailed: ${seen.join(" ")}`);

  // A new process knows the session's id and nothing else.
  const overview = await recover(session);
  console.log(`recovered: ${overview.goal} (${overview.position} events)`);
  const [begin, window] = await resume(session, 1000);
  // Put `begin` into the first message of an empty context, or send the messages of `window`.
  console.log(`continued: ${begin.task.text} (${begin.tokens} of ${begin.tokens_max} tokens)`);
  const roles = window.messages.map((message: Json) => message.role).join(" ");
  console.log(`window: ${roles} (${window.tokens} of ${window.tokens_max} tokens)`);
}

/** The text of an error. `fetch` says "fetch failed" and puts the reason into `cause`. */
function told(error: unknown): string {
  const cause = (error as Error).cause as Error | undefined;
  return [(error as Error).message, cause?.message].filter(Boolean).join(": ");
}

main().catch((error) => {
  console.error(error instanceof Refused ? error.message : `${URL_BASE}: ${told(error)}`);
  process.exitCode = 1;
});
