// Search over everything that was recorded, as typed: hits by session, with neighbours and with what
// became of them since.
import { useEffect, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { count, plural, when } from "../format";
import { Empty, Loading, Problem, Session as SessionLink } from "../parts";
import { go, link, type Route, settle } from "../route";
import { Line, Marked } from "../text";
import type { Doubt, Found, Hit } from "../types";
import { useAnswer, useKeys, useTitle, useWritten } from "../use";

const KINDS = ["instruction", "answer", "call", "result", "step", "source", "gap"];
const TYPES: Record<string, string> = { "user.message": "you", "agent.message": "agent", "agent.tool_use": "call", "agent.tool_result": "result", "memory.item": "memory", "agent.thread_message_sent": "to a subagent", "agent.thread_message_received": "subagent" };

/** How often it is looked whether there is more. */
const LOOK_MS = 5000;

export function Search({ route }: { route: Route }) {
    const q = route.query.get("q") ?? "";
    const kind = route.query.get("kind") ?? "";
    const workspace = route.query.get("workspace") ?? "";
    useTitle(q === "" ? "Search" : `Search: ${q}`);
    const [typed, type] = useState(q);
    const [asked, ask] = useState(q);
    const [cursor, move] = useState(-1);
    const input = useRef<HTMLInputElement>(null);
    useEffect(() => {
        type(q);
        ask(q);
    }, [q]);
    useEffect(() => {
        if (typed.trim() === asked) return undefined;
        const timer = setTimeout(() => {
            ask(typed.trim());
            settle(link(["search"], { q: typed.trim(), kind, workspace }));
        }, 180);
        return () => clearTimeout(timer);
    }, [typed]);
    useEffect(() => input.current?.focus(), []);
    const search = async (signal: AbortSignal) => (asked === "" ? undefined : get<Found>("/v1/search", { q: asked, limit: 30, around: 1, "kinds[]": kind === "" ? undefined : [kind], workspace, include_archived: true, wait_ms: 500 }, signal));
    const found = useAnswer(search, [asked, kind, workspace]);
    // What a person reads stays; what was recorded since is counted.
    const written = useWritten(LOOK_MS);
    const later = useAnswer(async (signal) => (found.value === undefined ? undefined : search(signal)), [asked, kind, workspace], 0, written);
    const known = new Set(found.value?.hits.map((hit) => `${hit.session} ${hit.position}`));
    const since = later.value?.hits.filter((hit) => !known.has(`${hit.session} ${hit.position}`)).length ?? 0;
    const hits = found.value?.hits ?? [];
    const groups = new Map<string, Hit[]>();
    for (const hit of hits) groups.set(hit.session, [...(groups.get(hit.session) ?? []), hit]);
    const order = [...groups.values()].flat();
    const open = (index: number) => {
        const hit = order[index];
        if (hit !== undefined) go(link(["s", hit.session, "e", hit.position]));
        return hit !== undefined;
    };
    useKeys((key) => {
        if (key === "j" || key === "k") {
            const next = Math.max(0, Math.min(order.length - 1, cursor + (key === "j" ? 1 : -1)));
            move(next);
            document.querySelectorAll<HTMLAnchorElement>(".hit-link")[next]?.focus();
            return true;
        }
        return false;
    });
    const refine = (changed: { kind?: string; workspace?: string }) => go(link(["search"], { q: typed.trim(), kind: changed.kind ?? kind, workspace: changed.workspace ?? workspace }));
    return (
        <main class="page">
            <h1 class="aloud">Search</h1>
            <form class="bar-form" role="search" onSubmit={(event: SubmitEvent) => { event.preventDefault(); open(Math.max(0, cursor)); }}>
                <label class="aloud" for="search">Search everything that was recorded</label>
                <input id="search" ref={input} data-slash="1" type="search" autocomplete="off" placeholder="What was said, run, changed or returned" value={typed} onInput={(event: { currentTarget: HTMLInputElement }) => type(event.currentTarget.value)} />
                <label>
                    <span class="aloud">Kind</span>
                    <select value={kind} onChange={(event: { currentTarget: HTMLSelectElement }) => refine({ kind: event.currentTarget.value })}>
                        <option value="">everything</option>
                        {KINDS.map((name) => <option value={name}>{name}s</option>)}
                    </select>
                </label>
                {workspace !== "" && <button type="button" onClick={() => refine({ workspace: "" })}>only in <span class="mono"><Line text={workspace} /></span>: show all</button>}
            </form>
            {typed.trim() === "" && <Empty>Type what you remember: an error message, a file, a decision. To see why a file changed, use <a href="#/why">Why</a>.</Empty>}
            {found.error !== undefined && <Problem error={found.error} what="The search failed." again={found.again} />}
            {asked !== "" && found.value === undefined && found.error === undefined && <Loading what="hits" />}
            {found.value?.complete.is_complete === false && <p class="note">The index is behind by {plural(found.value.complete.events_behind, "event")} of {plural(found.value.complete.sessions_behind, "session")}: hits may be missing. <button type="button" onClick={found.again}>Search again</button></p>}
            {asked !== "" && found.value !== undefined && hits.length === 0 && <Empty>Nothing recorded has these words. Fewer or other words may find it.</Empty>}
            {since > 0 && <p class="note" role="status">There is more since: {plural(since, "other hit")}. <button type="button" onClick={found.again}>Search again</button></p>}
            <p class="aloud" role="status">{found.value !== undefined && plural(hits.length, "hit")}</p>
            {[...groups].map(([session, of]) => (
                <section class="group" key={session}>
                    <h2><SessionLink id={session} title={of[0]?.title} /> <small class="mono"><Line text={of[0]?.workspace ?? ""} /></small></h2>
                    <ul class="hits">{of.map((hit) => <OneHit hit={hit} />)}</ul>
                </section>
            ))}
            {found.value?.next_page != null && <p class="quiet">The best {count(hits.length)} are shown; more words narrow it.</p>}
        </main>
    );
}

function OneHit({ hit }: { hit: Hit }) {
    return (
        <li class="hit">
            <a class="hit-link" href={link(["s", hit.session, "e", hit.position])}>
                <span class="kind">{hit.memory != null ? `memory: ${hit.memory.kind}` : (TYPES[hit.type] ?? hit.type)}</span> <Marked text={hit.snippet.text.replace(/\s/g, " ")} marks={hit.snippet.marks} />
            </a>
            <p class="quiet">
                @{hit.position}, {when(hit.at)}
                {(hit.repeated ?? 0) > 0 && <>, said {plural(hit.repeated ?? 0, "more time")}</>}
                {hit.marks?.map((mark) => <span class={`state mark-${mark.mark}`}>{mark.mark}</span>)}
                {hit.stale != null && <Verdict doubt={hit.stale} session={hit.session} />}
            </p>
            {hit.around != null && hit.around.length > 0 && (
                <ul class="around">
                    {hit.around.filter((one) => one.position !== hit.position).map((one) => <li><a href={link(["s", hit.session, "e", one.position])}>@{one.position}</a> <span class="kind">{TYPES[one.type] ?? one.type}</span> <Line text={one.text.slice(0, 220)} /></li>)}
                </ul>
            )}
        </li>
    );
}

/** What makes a hit doubtful today. */
function Verdict({ doubt, session }: { doubt: Doubt; session: string }) {
    const at = (position: number) => <a class="position" href={link(["s", session, "e", position])}>@{position}</a>;
    return (
        <span class="verdict">
            {doubt.rejected === true && "was rejected. "}
            {doubt.mended_at != null && <>mended at {at(doubt.mended_at)}. </>}
            {doubt.superseded_by != null && <>superseded by step {doubt.superseded_by}. </>}
            {doubt.replaced_by != null && <>replaced by a later item of memory. </>}
            {doubt.ended_at != null && <>ended at {at(doubt.ended_at)}. </>}
            {doubt.files_changed?.slice(0, 3).map((file) => <><span class="mono"><Line text={file.path} /></span> changed since, at {at(file.position)}. </>)}
        </span>
    );
}
