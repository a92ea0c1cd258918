// One session: its head with what a person asks first, the tabs, and beside the conversation an
// outline of the person's messages.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path, post, type Refusal } from "../api";
import { bytes, count, day, moment, plural, short, time, title, took } from "../format";
import { useTail } from "../live";
import { Ask, Do, Empty, Files, Loading, Problem } from "../parts";
import { link, type Route } from "../route";
import { readEarly, readMarks, scan } from "../rows";
import { flat, Line } from "../text";
import type { Checkpoint, Compaction, Lineage, Overview, Row, Rows, Session, SessionList, Thread, Usage } from "../types";
import { type Answer, useAnswer, useInterval, useTitle } from "../use";
import { Conversation } from "./conversation";
import { Filtered } from "./filtered";
import { Plots } from "./plots";
import { states } from "./sessions";
import { Told } from "./told";

const TABS = [
    ["", "Conversation"],
    ["told", "What the model was told"],
    ["plots", "Plots"],
    ["compare", "Forks and checkpoints"],
] as const;

/** What is beside the rows is asked for so much later: the rows come first. */
const LATER_MS = 200;

export function SessionScreen({ route }: { route: Route }) {
    const id = route.parts[1] ?? "";
    const view = route.parts[2] ?? "";
    const before = useRef("");
    if (before.current !== id) {
        before.current = id;
        const at = view === "e" ? Number(route.parts[3]) : view === "" ? 0 : NaN;
        if (Number.isInteger(at) && at >= 0 && !route.query.has("q")) readEarly(id, at);
    }
    const session = useAnswer((signal) => get<Session>(path`/v1/sessions/${id}`, {}, signal), [id]);
    useTitle(id);
    // A server that is away for a while takes nothing off the screen.
    if (session.error !== undefined && (session.value === undefined || session.error.status !== 0)) return <main class="page"><h1 class="id"><Line text={id} /></h1><Gone id={id} error={session.error} again={session.again} /></main>;
    if (session.value?.id !== id) return <main class="page"><Loading what="the session" /></main>;
    return <Opened key={id} session={session.value} answer={session} view={view} route={route} />;
}

function Gone({ id, error, again }: { id: string; error: Refusal; again: () => void }) {
    return (
        <>
            <Problem error={error} what="This session cannot be shown." again={again} />
            <p><a href={link(["search"], { q: id })}>Search for it</a>, or see <a href={link([])}>all sessions</a>.</p>
        </>
    );
}

function Opened({ session, answer, view, route }: { session: Session; answer: Answer<Session>; view: string; route: Route }) {
    const live = useTail(session.id, session.tail);
    const { stamp } = live;
    const tail = Math.max(session.tail, live.tail);
    const [bookkeeping, setBookkeeping] = useState(false);
    const marked = useRef<Parameters<typeof readMarks>[1]>({ marks: new Map(), next: 0 });
    const base = path`/v1/sessions/${session.id}`;
    // All of it is asked for again while the session grows.
    const asked = useRef(stamp);
    useEffect(() => {
        if (asked.current !== stamp) answer.again();
        asked.current = stamp;
    }, [stamp]);
    // A title that was set elsewhere is no event.
    useInterval(answer.again, 30_000);
    const usage = useAnswer((signal) => get<Usage>(`${base}/views/usage`, {}, signal), [base], LATER_MS, stamp);
    const overview = useAnswer((signal) => get<Overview>(`${base}/views/index`, {}, signal), [base], 2 * LATER_MS, stamp);
    const worked = useAnswer((signal) => workedAt(session.id, tail, signal), [base], 2 * LATER_MS, stamp);
    const compactions = useAnswer((signal) => get<{ compactions: Compaction[] }>(`${base}/views/compactions`, {}, signal), [base], view === "told" ? 0 : LATER_MS, stamp);
    const threads = useAnswer((signal) => get<{ threads: Thread[] }>(`${base}/views/threads`, {}, signal), [base], 2 * LATER_MS, stamp).value?.threads ?? [];
    const marks = useAnswer(async (signal) => (marked.current = await readMarks(session.id, marked.current, signal)).marks, [base], LATER_MS, stamp).value ?? marked.current.marks;
    useTitle(title(session, overview.value?.goal));
    const q = route.query.get("q") ?? "";
    const part = view === "told" || view === "plots" || view === "compare" ? view : "";
    const place = view === "e" ? Number(route.parts[3]) : view === "thread" && route.parts[4] === "e" ? Number(route.parts[5]) : view === "end" ? "end" : undefined;
    const thread = view === "thread" ? route.parts[3] : undefined;
    return (
        <main class={part === "" ? "session is-conversation" : "session"}>
            <header class="session-head">
                <h1><Line text={title(session, overview.value?.goal)} /></h1>
                <Facts session={session} tail={tail} usage={usage.value} workedAt={worked.value} />
                <Files session={session} of={overview.value?.files} />
                <nav class="tabs" aria-label="Views of the session">
                    {TABS.map(([name, label]) => <a href={link(["s", session.id, ...(name === "" ? [] : [name])])} aria-current={part === name ? "page" : undefined}>{label}</a>)}
                    {part === "" && (
                        <label class="switch"><input type="checkbox" checked={bookkeeping} onChange={() => setBookkeeping(!bookkeeping)} /> bookkeeping <kbd>b</kbd></label>
                    )}
                </nav>
            </header>
            {part === "" && (
                <div class="with-outline">
                    <Outline session={session} stamp={stamp} threads={threads} />
                    <div class="main-column">
                        <Find session={session.id} q={q} />
                        {q !== "" || thread !== undefined ? (
                            <Filtered session={session} q={q} thread={thread} task={threads.find((one) => one.thread === thread)} marks={marks} stamp={stamp} at={typeof place === "number" ? place : undefined} bookkeeping={bookkeeping} toggleBookkeeping={() => setBookkeeping(!bookkeeping)} />
                        ) : (
                            <Conversation
                                session={session}
                                at={typeof place === "number" && !Number.isInteger(place) ? undefined : place}
                                open={view === "e"}
                                bookkeeping={bookkeeping}
                                compactions={compactions.value?.compactions ?? []}
                                live={live}
                                marks={marks}
                                tasks={new Map(threads.map((one) => [one.thread, one]))}
                                toggleBookkeeping={() => setBookkeeping(!bookkeeping)}
                            />
                        )}
                    </div>
                </div>
            )}
            {part === "told" && <Told session={session} at={route.parts[3]} compactions={compactions.value?.compactions} stamp={stamp} />}
            {part === "plots" && <Plots session={session} usage={usage} stamp={stamp} />}
            {part === "compare" && <Branches session={session} answer={answer} stamp={stamp} />}
        </main>
    );
}

/** Rows from the end among which the last work is looked for. */
const LAST_ROWS = 60;

/** When the session was last worked in: a mark or a title that was set later is no work. */
async function workedAt(session: string, tail: number, signal: AbortSignal): Promise<string | undefined> {
    const { rows } = await get<Rows>(path`/v1/sessions/${session}/views/rows`, { from: Math.max(0, tail - LAST_ROWS), limit: LAST_ROWS }, signal);
    return rows.findLast((row) => row.bookkeeping !== true && row.type !== "event.marked")?.at;
}

function Facts({ session, tail, usage, workedAt: at }: { session: Session; tail: number; usage: Usage | undefined; workedAt: string | undefined }) {
    const took_ms = at === undefined ? 0 : Date.parse(at) - Date.parse(session.created_at);
    const cost = usage?.cost_usd;
    return (
        <p class="facts">
            <span class="session-id mono" title="The id of the session: a click selects it"><Line text={session.id} /></span>{" "}
            {states(session, false).map((state) => <><span class={`state ${state}`}>{state}</span> </>)}
            {session.workspace != null && <a class="mono" href={link(["memory", session.workspace])} title="Memory and graph of this workspace"><Line text={session.workspace} /></a>}{" "}
            <span title={moment(session.created_at)}>{day(session.created_at)}, {time(session.created_at)}</span>{" "}
            {took_ms > 60_000 && <span>over {took(took_ms)}</span>}{" "}
            <span>{plural(tail, "event")}, {bytes(session.bytes)}</span>{" "}
            {usage !== undefined && usage.requests > 0 && (
                <span title={`${count(usage.input_tokens)} tokens in, of them ${count(usage.cached_tokens)} from the cache; ${count(usage.output_tokens)} out`}>
                    {plural(usage.requests, "request")}, {short(usage.input_tokens)} tokens in ({percent(usage.cached_tokens, usage.input_tokens)} cached), {short(usage.output_tokens)} out
                </span>
            )}{" "}
            {cost !== undefined && <span>{cost.toFixed(2)} USD</span>}{" "}
            {usage?.tokens != null && <span class={usage.tokens < usage.threshold ? undefined : "warm"} title={`${count(usage.tokens)} of ${count(usage.limit)} tokens`}>context {percent(usage.tokens, usage.limit)} full</span>}
        </p>
    );
}

const percent = (part: number, whole: number) => `${whole === 0 ? 0 : Math.round((part / whole) * 100)}\u202f%`;

function Find({ session, q }: { session: string; q: string }) {
    const submit = (event: SubmitEvent) => {
        event.preventDefault();
        const input = (event.currentTarget as HTMLFormElement).elements.namedItem("q") as HTMLInputElement;
        location.hash = link(["s", session], { q: input.value.trim() });
    };
    return (
        <form class="find" role="search" onSubmit={submit}>
            <label class="aloud" for="find">Find in this session</label>
            <input id="find" name="q" type="search" key={q} defaultValue={q} placeholder="Find in this session ( / )" data-slash="1" autocomplete="off" />
            {q !== "" && <a href={link(["s", session])}>show all rows</a>}
        </form>
    );
}

const OUTLINE_STEP = 120;

function Outline({ session, stamp, threads }: { session: Session; stamp: number; threads: Thread[] }) {
    const [state, set] = useState<{ rows: Row[]; next: number; complete: boolean } | undefined>(undefined);
    const [shown, show] = useState(OUTLINE_STEP);
    const [busy, setBusy] = useState(false);
    const more = async (before: { rows: Row[]; next: number }) => {
        setBusy(true);
        try {
            const found = await scan(session.id, { types: "user.message" }, before.next, OUTLINE_STEP);
            set({ rows: [...before.rows, ...found.rows.filter((row) => row.kind === "user" && row.bookkeeping !== true && row.thread === undefined)], next: found.next, complete: found.complete });
        } finally {
            setBusy(false);
        }
    };
    useEffect(() => {
        const timer = setTimeout(() => more({ rows: [], next: 0 }).catch(() => set({ rows: [], next: 0, complete: true })), LATER_MS);
        return () => clearTimeout(timer);
    }, [session.id]);
    useEffect(() => {
        if (state?.complete === true && !busy) more(state).catch(() => undefined);
    }, [stamp]);
    const [isOpen, open] = useState(matchMedia("(min-width: 60rem)").matches);
    return (
        <details class="outline" open={isOpen} onToggle={(event: { currentTarget: HTMLDetailsElement }) => open(event.currentTarget.open)}>
            <summary>Outline <small>{state === undefined ? "" : `${count(state.rows.length)}${state.complete ? "" : "+"} ${state.rows.length === 1 ? "message" : "messages"}`}</small></summary>
            {state?.rows.length === 0 && <Empty>No message of a person was recorded.</Empty>}
            <ol>
                {state?.rows.slice(-shown).map((row) => <li><a href={link(["s", session.id, "e", row.position])}><time>{time(row.at)}</time> <Line text={row.line.slice(0, 120)} /></a></li>)}
            </ol>
            {state !== undefined && state.rows.length > shown && <button type="button" onClick={() => show(shown + OUTLINE_STEP)}>Show earlier ones</button>}
            {state !== undefined && !state.complete && <button type="button" disabled={busy} onClick={() => void more(state)}>Look further, from {count(state.next)}</button>}
            {threads.length > 0 && (
                <>
                    <h2>Subagents</h2>
                    <ul>
                        {threads.slice(0, 60).map((thread) => (
                            <li>
                                <a href={link(["s", session.id, "thread", thread.thread])}>
                                    <b><Line text={thread.kind ?? "agent"} /></b> <Line text={(thread.description ?? thread.thread).slice(0, 90)} />{" "}
                                    <small>{plural(thread.calls, "call")}{thread.failures > 0 && `, ${thread.failures} failed`}{thread.is_running && ", running"}</small>
                                </a>
                            </li>
                        ))}
                    </ul>
                </>
            )}
        </details>
    );
}

/** The fork tree with checkpoints, and what a person may do with the session. */
function Branches({ session, answer, stamp }: { session: Session; answer: Answer<Session>; stamp: number }) {
    const base = path`/v1/sessions/${session.id}`;
    const lineage = useAnswer((signal) => get<Lineage>(`${base}/lineage`, {}, signal), [session.id], 0, stamp);
    const checkpoints = useAnswer((signal) => get<{ data: Checkpoint[] }>(`${base}/checkpoints`, { limit: 100 }, signal), [session.id], 0, stamp);
    const others = useAnswer((signal) => get<SessionList>("/v1/sessions", { limit: 100, sort: "updated", order: "desc", workspace: session.workspace ?? undefined, include_archived: true }, signal), [session.workspace]);
    const change = (to: string, body: unknown) => post(to, body).then(() => answer.again());
    const compare = (event: SubmitEvent) => {
        event.preventDefault();
        const input = (event.currentTarget as HTMLFormElement).elements.namedItem("other") as HTMLInputElement;
        location.hash = link(["compare", session.id, input.value.trim()]);
    };
    const family = [...(lineage.value?.ancestors ?? []), ...(lineage.value?.children ?? [])];
    return (
        <div class="page-part">
            <section>
                <h2>Forks</h2>
                {lineage.error !== undefined && <Problem error={lineage.error} what="Its lineage cannot be read." />}
                {lineage.value !== undefined && family.length === 0 && <Empty>This session has no fork and is none. Open an event and press "Fork after this" to continue from there in another session.</Empty>}
                {lineage.value !== undefined && (family.length > 0 || (checkpoints.value?.data.length ?? 0) > 0) && <Tree session={session} lineage={lineage.value} checkpoints={checkpoints.value?.data ?? []} />}
                {family.length > 0 && (
                    <ul class="tree">
                        {lineage.value?.ancestors.map((kin) => <li>forked from <a href={link(["s", kin.id, "e", Math.max(0, kin.position - 1)])}><Line text={kin.title ?? kin.id} /></a> at {kin.position} <a href={link(["compare", kin.id, session.id])}>compare</a></li>)}
                        <li><b><Line text={session.title ?? session.id} /></b>, {plural(session.tail, "event")}</li>
                        {lineage.value?.children.map((kin) => <li class="child">fork at <a class="position" href={link(["s", session.id, "e", Math.max(0, kin.position - 1)])}>@{kin.position}</a>: <a href={link(["s", kin.id])}><Line text={kin.title ?? kin.id} /></a>, {plural(Math.max(0, kin.tail - kin.position), "event")} of its own <a href={link(["compare", session.id, kin.id])}>compare</a></li>)}
                    </ul>
                )}
                <form class="find" onSubmit={compare}>
                    <label>Compare with <input name="other" list="others" required placeholder="a session, or its id" autocomplete="off" /></label> <button type="submit">Compare</button>
                    <datalist id="others">{others.value?.data.filter((one) => one.id !== session.id).map((one) => <option value={one.id}>{flat(`${one.title ?? one.id}, ${moment(one.updated_at)}`)}</option>)}</datalist>
                </form>
            </section>
            <section>
                <h2>Checkpoints</h2>
                {checkpoints.error !== undefined && <Problem error={checkpoints.error} what="Its checkpoints cannot be read." />}
                {checkpoints.value?.data.length === 0 && <Empty>None yet. One is made at each result of a tool, at a compaction and at the end of work; open an event to make one by hand.</Empty>}
                {(checkpoints.value?.data.length ?? 0) > 0 && (
                    <table>
                        <thead><tr><th scope="col">Position</th><th scope="col">Label</th><th scope="col">Made by</th><th scope="col">When</th></tr></thead>
                        <tbody>
                            {checkpoints.value?.data.map((one) => (
                                <tr>
                                    <td><a class="position" href={link(["s", session.id, "e", Math.max(0, one.position - 1)])}>@{one.position}</a></td>
                                    <td><Line text={one.label ?? ""} /></td>
                                    <td><Line text={one.trigger.replaceAll("_", " ")} /></td>
                                    <td>{moment(one.created_at)}</td>
                                </tr>
                            ))}
                        </tbody>
                    </table>
                )}
            </section>
            <section>
                <h2>Change</h2>
                <p class="actions">
                    <Ask label="Rename" field="New title" done="Renamed." optional={false} act={(title) => change(base, { title })} />
                    {session.archived_at == null ? (
                        <Do label="Archive" done="Archived: it stays readable and takes no more events." act={() => change(`${base}/archive`, {})} />
                    ) : (
                        <Do label="Unarchive" done="It takes events again." act={() => change(`${base}/unarchive`, {})} />
                    )}
                </p>
            </section>
        </div>
    );
}

/** Lines of forks that are drawn. */
const FORKS = 12;

/** The session as a line from left to right, its forks as branches, its checkpoints as circles. */
function Tree({ session, lineage, checkpoints }: { session: Session; lineage: Lineage; checkpoints: Checkpoint[] }) {
    const kin = lineage.children.slice(0, FORKS);
    const parent = lineage.ancestors[0];
    const most = Math.max(1, session.tail, ...kin.map((one) => one.tail));
    const x = (position: number) => 12 + (position / most) * 560;
    const height = 34 + kin.length * 26;
    return (
        <div class="scroll-x" tabindex={0}>
            <svg class="forks" viewBox={`0 0 700 ${height}`} role="group" aria-label={`Tree of forks: ${plural(kin.length, "fork")}, ${plural(checkpoints.length, "checkpoint")}`}>
                <path class="self" d={`M${x(0)} 16H${x(session.tail)}`} />
                {parent !== undefined && <text x={x(0)} y={10}>{`shared up to ${parent.position}`}</text>}
                <text x={x(session.tail) + 8} y={20}>this session</text>
                {kin.map((one, index) => {
                    const y = 42 + index * 26;
                    return (
                        <a href={link(["s", one.id])} aria-label={`Fork at ${one.position}: ${one.title ?? one.id}`}>
                            <path d={`M${x(one.position)} 16V${y - 8}q0 8 8 8H${Math.max(x(one.position) + 14, x(one.tail))}`} />
                            <text x={Math.max(x(one.position) + 14, x(one.tail)) + 6} y={y + 4}>{flat(one.title ?? one.id).slice(0, 22)}</text>
                        </a>
                    );
                })}
                {checkpoints.map((one) => (
                    <a href={link(["s", session.id, "e", Math.max(0, one.position - 1)])} aria-label={`Checkpoint at ${one.position}${one.label == null ? "" : `: ${one.label}`}`}>
                        <circle cx={x(one.position)} cy={16} r={5}><title>{`@${one.position} ${one.label ?? one.trigger}`}</title></circle>
                    </a>
                ))}
            </svg>
        </div>
    );
}
