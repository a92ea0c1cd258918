// What a workspace knows: its rules and facts, its skills, and the files, commands and people that
// its sessions name.
import { useState } from "preact/hooks";
import { get, path, post, send } from "../api";
import { count, place, plural, when } from "../format";
import { Ask, Do, Empty, Loading, Position, Problem } from "../parts";
import { link, type Route } from "../route";
import { Line, Long } from "../text";
import type { Entity, EntityList, MemoryItem, MemoryList, SessionList } from "../types";
import { useAnswer, useInterval, useTitle, useWritten } from "../use";
import { FilesBySession } from "./plots";

const KINDS: [string, string, string][] = [
    ["semantic", "Rules, facts and decisions", "Nothing was kept yet. An agent writes here with memory_insert; you may, too."],
    ["procedural", "Skills: how things are done here", "No skill was saved yet (save_skill)."],
    ["episodic", "What happened", "Nothing of a session was kept."],
    ["working", "Work in hand", "Nothing is in hand."],
];

/** How often it is looked for what was kept or written meanwhile. */
const LOOK_MS = 5000;

export function Memory({ route }: { route: Route }) {
    const workspace = route.parts[1];
    return workspace === undefined ? <Workspaces /> : <Of key={workspace} workspace={workspace} route={route} />;
}

function Workspaces() {
    useTitle("Memory");
    const list = useAnswer((signal) => get<SessionList>("/v1/sessions", { limit: 1000, sort: "updated", order: "desc" }, signal), [], 0, useWritten(LOOK_MS));
    const counts = new Map<string, number>();
    for (const session of list.value?.data ?? []) if (session.workspace != null) counts.set(session.workspace, (counts.get(session.workspace) ?? 0) + 1);
    return (
        <main class="page">
            <h1>Memory by workspace</h1>
            {list.error !== undefined && <Problem error={list.error} what="The workspaces cannot be listed." again={list.again} />}
            {list.value === undefined && list.error === undefined && <Loading what="workspaces" />}
            {list.value !== undefined && counts.size === 0 && <Empty>No session names a workspace yet. Sessions that hooks record do.</Empty>}
            <ul class="plain">
                {[...counts].map(([workspace, sessions]) => <li><a href={link(["memory", workspace])}><b><Line text={place(workspace)} /></b></a> <span class="mono quiet"><Line text={workspace} /></span> <small>{plural(sessions, "session")}</small></li>)}
            </ul>
        </main>
    );
}

function Of({ workspace, route }: { workspace: string; route: Route }) {
    useTitle(`Memory of ${place(workspace)}`);
    const ended = route.query.get("ended") === "1";
    const base = path`/v1/workspaces/${workspace}`;
    const items = useAnswer((signal) => get<MemoryList>(`${base}/memory`, { limit: 200, include_ended: ended ? true : undefined }, signal), [workspace, ended]);
    useInterval(items.again, LOOK_MS);
    // An item that came or went changes what else is shown, as does work.
    const written = useWritten(LOOK_MS);
    const held = items.value?.data.map((item) => [item.memory_id, item.forgotten_at, item.superseded_by, item.ended_at].join());
    const since = written === undefined || held === undefined ? undefined : `${written} ${held.join(" ")}`;
    const add = (kind: string) => (text: string) => post(`${base}/memory`, { kind, text }).then(items.again);
    return (
        <main class="page">
            <h1>Memory of <Line text={place(workspace)} /></h1>
            <p class="quiet"><span class="mono"><Line text={workspace} /></span>. <a href={link([], { filter: workspace })}>Its sessions</a>, <a href={link(["search"], { q: "", workspace })}>search in it</a>, <a href={link(["memory", workspace], { ended: ended ? "" : "1" })}>{ended ? "only what holds" : "also what no longer holds"}</a></p>
            {items.error !== undefined && <Problem error={items.error} what="Its memory cannot be read." again={items.again} />}
            {items.value === undefined && items.error === undefined && <Loading what="items" />}
            {items.value !== undefined && KINDS.map(([kind, title, none]) => {
                const of = items.value!.data.filter((item) => item.kind === kind);
                if (of.length === 0 && (kind === "episodic" || kind === "working")) return null;
                return (
                    <section key={kind}>
                        <h2>{title} {of.length > 0 && <small>{count(of.length)}</small>}</h2>
                        {of.length === 0 && <Empty>{none}</Empty>}
                        <ul class="items">{of.map((item) => <Item key={item.memory_id} item={item} again={items.again} />)}</ul>
                        {kind === "semantic" && <p class="actions"><Ask label="Add a rule or fact" field="It says" done="Kept." optional={false} act={add(kind)} /></p>}
                    </section>
                );
            })}
            {(items.value?.left_out ?? 0) > 0 && <p class="quiet">{plural(items.value?.left_out ?? 0, "item")} more are found by search.</p>}
            <Start workspace={workspace} since={since} />
            <FilesBySession workspace={workspace} since={since} />
            <Graph workspace={workspace} since={since} />
        </main>
    );
}

/** The text that a session gets that begins in the workspace now; without a session nothing is written. */
function Start({ workspace, since }: { workspace: string; since: string | undefined }) {
    const start = useAnswer(() => post<{ text: string; tokens: number }>(path`/v1/workspaces/${workspace}/start`, {}), [workspace], 0, since);
    if (start.error !== undefined) return start.error.status === 403 ? null : <Problem error={start.error} what="What a new session is given cannot be shown." again={start.again} />;
    if (start.value === undefined || start.value.text === "") return null;
    return (
        <section class="start">
            <h2>What a session that begins here is given <small>{plural(start.value.tokens, "token")}</small></h2>
            <Long text={start.value.text} form="box" piece={4000} />
        </section>
    );
}

function Item({ item, again }: { item: MemoryItem; again: () => void }) {
    const over = item.forgotten_at != null ? "forgotten" : item.superseded_by != null ? "superseded" : item.ended_at != null ? "ended" : undefined;
    const forget = async () => {
        await send(path`/v1/sessions/${item.session}/memory/${item.memory_id}`, { method: "DELETE" });
        again();
    };
    return (
        <li class={over === undefined ? undefined : "is-over"}>
            {item.name != null && <b><Line text={item.name} /></b>}
            <Long text={item.text} form="prose" piece={1500} />
            <p class="quiet">
                {over !== undefined && <span class="state">{over}</span>} {when(item.at)}, from <Position session={item.session} at={item.position} />
                {item.topic != null && <>, about <Line text={item.topic} /></>}
                {item.importance != null && <>, importance {item.importance} of 10</>}
                {item.tags.length > 0 && <>, <Line text={item.tags.slice(0, 8).join(", ")} /></>} {over === undefined && <Do label="Forget" done="Forgotten." act={forget} />}
            </p>
        </li>
    );
}

const TYPES = ["", "file", "symbol", "command", "error", "url", "package", "person"];
const STEP = 40;

function Graph({ workspace, since }: { workspace: string; since: string | undefined }) {
    const [type, choose] = useState("");
    const [offset, move] = useState(0);
    const found = useAnswer(
        () => post<EntityList>(path`/v1/workspaces/${workspace}/entities/query`, { ...(type === "" ? {} : { types: [type] }), include_sessions: true, limit: STEP, offset, wait_ms: 2000 }),
        [workspace, type, offset],
        0,
        since,
    );
    return (
        <section>
            <h2>What its sessions name</h2>
            <p class="choices" role="group" aria-label="Type of entity">
                {TYPES.map((name) => <button type="button" aria-pressed={type === name} onClick={() => { choose(name); move(0); }}>{name === "" ? "all" : name}</button>)}
            </p>
            {found.error !== undefined && <Problem error={found.error} what="The graph cannot be read." again={found.again} />}
            {found.value?.entities.length === 0 && <Empty>Nothing of this type was named yet.</Empty>}
            <ul class="entities">{found.value?.entities.map((entity) => <Named entity={entity} />)}</ul>
            {found.value !== undefined && found.value.total > STEP && (
                <p class="actions">
                    <button type="button" disabled={offset === 0} onClick={() => move(Math.max(0, offset - STEP))}>Before</button>
                    <span>{count(offset + 1)} to {count(Math.min(found.value.total, offset + STEP))} of {count(found.value.total)}</span>
                    <button type="button" disabled={offset + STEP >= found.value.total} onClick={() => move(offset + STEP)}>After</button>
                </p>
            )}
        </section>
    );
}

function Named({ entity }: { entity: Entity }) {
    return (
        <li>
            <span class="kind"><Line text={entity.type} /></span> <a class="mono" href={link(["search"], { q: entity.id })}><Line text={entity.id.slice(0, 160)} /></a>{" "}
            <small>
                {entity.count != null && plural(entity.count, "time")}{entity.source === "told" && ", written by a caller"}
                {entity.named_in?.slice(0, 5).map((one) => <> <a href={link(["s", one.session], { q: entity.id.split("/").pop() })} title={one.session}>{one.session.slice(0, 8)}</a></>)}
            </small>
        </li>
    );
}
