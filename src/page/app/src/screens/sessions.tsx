// The first screen: every session by repository, with what a person looks for: what was asked, by
// which agent, when, how it stands, which files, what it cost. A running one moves by itself.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get, path, queue } from "../api";
import { count, moment, place, plural, short, title, when } from "../format";
import { Empty, Files, Loading, Problem } from "../parts";
import { go, link, type Route, settle } from "../route";
import { Line } from "../text";
import type { Bucket, History, Overview, Session, SessionList, Strip, UsageRow } from "../types";
import { useAnswer, useInterval, useKeys, useTitle } from "../use";

const PAGE = 100;
/** Sessions in the document at first. */
const SHOWN = 60;

const AGENTS: Record<string, string> = { "claude-code": "Claude Code", codex: "Codex", openai: "OpenAI chat", anthropic: "Anthropic messages", lines: "import", mcp: "MCP" };

export function agent(session: Session): string {
    const program = session.metadata["client"] ?? session.metadata["import.shape"] ?? session.metadata["source"];
    if (program !== undefined) return AGENTS[program] ?? program;
    const name = session.agent?.name;
    return name == null || name === "local" ? "" : name;
}

/** How a session stands, the worst first. */
export function states(session: Session, isUnfinished: boolean): string[] {
    return [
        ...(session.damage.length > 0 ? ["damaged"] : []),
        ...(session.status === "running" ? ["running"] : session.status === "rescheduling" ? ["waiting"] : []),
        ...(isUnfinished && session.status !== "running" ? ["unfinished"] : []),
        ...(session.held_at != null ? ["held"] : []),
        ...(session.archived_at != null ? ["archived"] : []),
    ];
}

interface More { strip?: Strip | undefined; files?: string[] | null | undefined; goal?: string | undefined }
const known = new Map<string, More>();
const few = queue(3);

/** Reads what the list does not say, of rows that are seen; a session that grew is read again. */
function useMore(session: Session, seen: boolean): More {
    const key = `${session.id} ${session.tail}`;
    const [more, set] = useState<More>(known.get(key) ?? {});
    useEffect(() => {
        const before = known.get(key);
        if (before !== undefined) return set(before);
        if (!seen) return undefined;
        let wanted = true;
        void few(async () => {
            if (!wanted) return;
            const base = path`/v1/sessions/${session.id}`;
            const none = () => undefined;
            const strip = await get<Strip>(`${base}/views/strip`, { buckets: 48 }).catch(none);
            if (wanted) set({ strip });
            const overview = await get<Overview>(`${base}/views/index`).catch(none);
            const read = { strip, files: overview?.files, goal: overview?.goal };
            if (known.size > 500) known.clear();
            known.set(key, read);
            if (wanted) set(read);
        });
        return () => {
            wanted = false;
        };
    }, [key, seen]);
    return more;
}

function Spark({ strip }: { strip: Strip | undefined }) {
    if (strip === undefined || strip.buckets.length === 0) return <svg class="spark" viewBox="0 0 96 20" aria-hidden="true" />;
    // A failure is counted at its result, which may be in a bucket of its own.
    const work = (one: Bucket) => Math.max(one.user + one.agent + one.calls, one.failed);
    const most = Math.max(1, ...strip.buckets.map(work));
    const width = 96 / strip.buckets.length;
    return (
        <svg class="spark" viewBox="0 0 96 20" preserveAspectRatio="none" role="img" aria-label={`Activity: ${plural(strip.buckets.reduce((sum, one) => sum + one.calls, 0), "call")}, ${strip.buckets.reduce((sum, one) => sum + one.failed, 0)} failed`}>
            {strip.buckets.map((one, index) => {
                const height = (work(one) / most) * 18;
                return height === 0 ? null : <rect class={one.failed > 0 ? "stroke failed" : "stroke"} x={index * width} y={20 - Math.max(1.5, height)} width={Math.max(0.8, width - 0.4)} height={Math.max(1.5, height)} />;
            })}
        </svg>
    );
}

export function Sessions({ route }: { route: Route }) {
    useTitle("");
    const filter = route.query.get("filter") ?? "";
    const state = route.query.get("state") ?? "";
    const archived = route.query.get("archived") === "1" || state === "archived";
    const [pages, setPages] = useState(1);
    const [shown, show] = useState(SHOWN);
    const [cursor, move] = useState(-1);
    const list = useAnswer(async (signal) => {
        const data: Session[] = [];
        let page: string | undefined;
        for (let number = 0; number < pages; number += 1) {
            const answer = await get<SessionList>("/v1/sessions", { limit: PAGE, sort: "updated", order: "desc", page, include_archived: archived ? true : undefined }, signal);
            data.push(...answer.data);
            page = answer.next_page ?? undefined;
            if (page === undefined) break;
        }
        return { data, more: page !== undefined };
    }, [archived, pages]);
    // Any session that was written to is the first one.
    const written = list.value?.data[0]?.updated_at;
    const history = useAnswer((signal) => get<History>("/v1/history", { limit: 100 }, signal), [], 0, written);
    const usage = useAnswer((signal) => get<{ rows: UsageRow[] }>("/v1/usage", { by: "session" }, signal), [], 0, written);
    useInterval(list.again, 4000);
    // A session whose agent died is unfinished without another write.
    useInterval(history.again, 60_000);
    const unfinished = useMemo(() => new Set(history.value?.unfinished.map((one) => one.id)), [history.value]);
    const costs = useMemo(() => new Map(usage.value?.rows.map((row) => [row.key, row])), [usage.value]);

    const all = list.value?.data ?? [];
    const words = filter.toLowerCase().split(/\s+/).filter((word) => word !== "");
    const fits = all.filter((session) => {
        const text = `${session.title ?? ""} ${session.id} ${session.workspace ?? ""} ${agent(session)}`.toLowerCase();
        return words.every((word) => text.includes(word)) && (state === "" || states(session, unfinished.has(session.id)).includes(state));
    });
    const groups = new Map<string, Session[]>();
    for (const session of fits.slice(0, shown)) {
        const name = session.workspace ?? "";
        groups.set(name, [...(groups.get(name) ?? []), session]);
    }
    const order = [...groups.values()].flat();
    useKeys((key) => {
        if (key === "j" || key === "k") {
            const next = Math.max(0, Math.min(order.length - 1, cursor + (key === "j" ? 1 : -1)));
            move(next);
            const anchor = document.querySelectorAll<HTMLAnchorElement>(".session-link")[next];
            anchor?.focus();
            return true;
        }
        if (key === "g" || key === "G") {
            const next = key === "g" ? 0 : order.length - 1;
            move(next);
            document.querySelectorAll<HTMLAnchorElement>(".session-link")[next]?.focus();
            return true;
        }
        return false;
    });
    const choose = (changed: { filter?: string; state?: string; archived?: boolean }) =>
        settleHere({ filter: changed.filter ?? filter, state: changed.state ?? state, archived: (changed.archived ?? archived) ? "1" : "" });
    return (
        <main class="page">
            <h1 class="aloud">Sessions</h1>
            <form class="bar-form" role="search" onSubmit={(event: SubmitEvent) => { event.preventDefault(); if (filter.trim() !== "") go(link(["search"], { q: filter.trim() })); }}>
                <label class="aloud" for="filter">Filter sessions, or search in all of them</label>
                <input id="filter" type="search" data-slash="1" autocomplete="off" placeholder="Filter by title, repository, agent; Enter searches everything" value={filter} onInput={(event: { currentTarget: HTMLInputElement }) => choose({ filter: event.currentTarget.value })} />
                <label>
                    <span class="aloud">State</span>
                    <select value={state} onChange={(event: { currentTarget: HTMLSelectElement }) => choose({ state: event.currentTarget.value })}>
                        <option value="">any state</option>
                        {["running", "unfinished", "damaged", "held", "archived"].map((name) => <option value={name}>{name}</option>)}
                    </select>
                </label>
                <label class="switch"><input type="checkbox" checked={archived} disabled={state === "archived"} onChange={() => choose({ archived: !archived })} /> archived too</label>
            </form>
            {list.error !== undefined && <Problem error={list.error} what="The sessions cannot be listed." again={list.again} />}
            {list.value === undefined && list.error === undefined && <Loading what="sessions" />}
            {list.value !== undefined && all.length === 0 && <First />}
            {all.length > 0 && fits.length === 0 && <Empty>No session fits. {filter !== "" && <>Press Enter to <a href={link(["search"], { q: filter })}>search what was said and done</a> instead.</>}</Empty>}
            {[...groups].map(([workspace, sessions]) => (
                <section class="group" key={workspace}>
                    <h2>
                        {workspace === "" ? "No repository" : <a href={link(["memory", workspace])} title={workspace}><Line text={place(workspace)} /></a>}{" "}
                        <small>{place(workspace) !== workspace && <span class="mono"><Line text={workspace} /></span>} {plural(sessions.length, "session")}</small>
                    </h2>
                    <ul class="sessions">
                        {sessions.map((session) => <One key={session.id} session={session} isUnfinished={unfinished.has(session.id)} usage={costs.get(session.id)} isCurrent={order[cursor]?.id === session.id} />)}
                    </ul>
                </section>
            ))}
            {fits.length > shown && <p><button type="button" onClick={() => show(shown + SHOWN)}>Show {count(Math.min(SHOWN, fits.length - shown))} more of {count(fits.length)}</button></p>}
            {fits.length <= shown && list.value?.more === true && <p><button type="button" onClick={() => setPages(pages + 1)}>Load older sessions</button></p>}
        </main>
    );
}

function settleHere(query: Record<string, string>): void {
    settle(link([], query));
    dispatchEvent(new HashChangeEvent("hashchange"));
}

function First() {
    return (
        <section class="first">
            <h2>Nothing is recorded yet</h2>
            <p>Let your agent record, then work as always; its session appears here by itself:</p>
            <pre class="box">sessionlog install claude-code{"\n"}sessionlog install codex</pre>
            <p>Or bring what you have already, or see an example:</p>
            <pre class="box">sessionlog import ~/.claude/projects/*/*.jsonl{"\n"}sessionlog demo --keep</pre>
        </section>
    );
}

function One({ session, isUnfinished, usage, isCurrent }: { session: Session; isUnfinished: boolean; usage: UsageRow | undefined; isCurrent: boolean }) {
    const item = useRef<HTMLLIElement>(null);
    const [seen, see] = useState(false);
    useEffect(() => {
        const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && see(true), { rootMargin: "200px" });
        if (item.current !== null) observer.observe(item.current);
        return () => observer.disconnect();
    }, []);
    const more = useMore(session, seen);
    const tokens = usage === undefined ? undefined : usage.input_tokens + usage.output_tokens;
    const calls = more.strip?.buckets.reduce((sum, one) => sum + one.calls, 0);
    const failed = more.strip?.buckets.reduce((sum, one) => sum + one.failed, 0) ?? 0;
    return (
        <li ref={item} class={isCurrent ? "is-current" : undefined}>
            <a class="session-link" href={link(["s", session.id])}><Line text={title(session, more.goal)} /></a>
            <Spark strip={more.strip} />
            <div class="session-facts">
                {states(session, isUnfinished).map((name) => <><span class={`state ${name}`}>{name}</span> </>)}
                <span title={moment(session.updated_at)}>{when(session.updated_at)}</span>
                {agent(session) !== "" && <span><Line text={agent(session)} /></span>}
                <span>{calls === undefined ? plural(session.tail, "event") : plural(calls, "call")}{failed > 0 && <>, <span class="outcome failed">{count(failed)} failed</span></>}</span>
                {tokens !== undefined && tokens > 0 && <span>{short(tokens)} tokens</span>}
                {usage?.cost_usd !== undefined && <span>{usage.cost_usd.toFixed(2)} USD</span>}
                <Files session={session} of={more.files} />
            </div>
        </li>
    );
}
