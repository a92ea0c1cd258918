// What the model was told: every brief, compaction and restore of a session, and the window as the
// model saw it at any position, with a scrubber over the whole session.
import { useEffect, useRef, useState } from "preact/hooks";
import { get, path } from "../api";
import { json, plain, record, text } from "../body";
import { count, plural, short, time } from "../format";
import { Box, Content, Continued, Empty, Loading, Position, Problem } from "../parts";
import { link, settle } from "../route";
import { event, scan } from "../rows";
import { Line, Long } from "../text";
import type { Compaction, Event, Range, Row, Session, Strip, Usage, Window } from "../types";
import { useAnswer, useKeys } from "../use";

const TELLINGS = "context.injected,context.compacted,agent.thread_context_compacted,session.restored,context.rewound,context.cleared";

const NAMES: Record<string, string> = {
    "context.injected": "Brief given",
    "context.compacted": "Compaction",
    "agent.thread_context_compacted": "Compaction",
    "session.restored": "Restored",
    "context.rewound": "Rewound",
    "context.cleared": "Cleared",
};

export function Told({ session, at, compactions, stamp }: { session: Session; at: string | undefined; compactions: Compaction[] | undefined; stamp: number }) {
    const asked = at === undefined ? session.tail : Number(at);
    const valid = Number.isInteger(asked) && asked >= 0 && asked <= session.tail;
    const [point, setPoint] = useState(valid ? asked : session.tail);
    const [settled, setSettled] = useState(point);
    const end = useRef(session.tail);
    useEffect(() => {
        // Who looks at the end stays there while it moves; who looks elsewhere stays, too.
        const stays = at === undefined && point !== end.current;
        end.current = session.tail;
        if (!valid || stays) return;
        setPoint(asked);
        setSettled(asked);
    }, [asked]);
    useEffect(() => {
        if (point === settled) return;
        const timer = setTimeout(() => {
            setSettled(point);
            settle(link(["s", session.id, "told", point]));
        }, 120);
        return () => clearTimeout(timer);
    }, [point]);
    const tellings = useAnswer((signal) => scan(session.id, { types: TELLINGS }, 0, 400, signal), [session.id], 0, stamp);
    const strip = useAnswer((signal) => get<Strip>(path`/v1/sessions/${session.id}/views/strip`, { buckets: 240 }, signal), [session.id], 0, stamp);
    const seen = useAnswer((signal) => context(session.id, settled, signal), [session.id], 0, settled);
    const rows = (tellings.value?.rows ?? []).filter((row) => row.type in NAMES);
    useKeys((key) => {
        if (key === "j" || key === "k") {
            const next = key === "j" ? rows.find((row) => row.position + 1 > point) : [...rows].reverse().find((row) => row.position + 1 < point);
            if (next !== undefined) setPoint(next.position + 1);
            return next !== undefined;
        }
        if (key === "g" || key === "G") {
            setPoint(key === "g" ? 0 : session.tail);
            return true;
        }
        return false;
    });
    return (
        <div class="told">
            <section class="tellings">
                <h2>When it was told</h2>
                {tellings.error !== undefined && <Problem error={tellings.error} what="These moments cannot be listed." again={tellings.again} />}
                {tellings.value === undefined && tellings.error === undefined && <Loading what="moments" />}
                {tellings.value !== undefined && rows.length === 0 && (
                    <Empty>No compaction, brief or restore was recorded: the model had the conversation itself. Hooks record what they give (<code>sessionlog install</code>).</Empty>
                )}
                <ol>
                    {rows.slice(-200).map((row) => (
                        <li class={row.position + 1 === point ? "is-current" : undefined}>
                            <a href={link(["s", session.id, "told", row.position + 1])}>
                                <b>{NAMES[row.type]}</b> <time>{time(row.at)}</time> <span class="number">@{row.position}</span>
                                <br />
                                {row.type === "session.restored" ? <Continued session={session.id} at={row.position} plain /> : <Line text={row.line.slice(0, 110)} />}
                            </a>
                        </li>
                    ))}
                </ol>
                {tellings.value?.complete === false && <p class="quiet">Only the first {rows.length} are listed.</p>}
            </section>
            <section class="window">
                <h2>As the model saw it before position {count(point)}</h2>
                {!valid && <p class="note" role="alert"><b>Position <Line text={at ?? ""} /> is not there.</b> The session has {plural(session.tail, "event")}; the end is shown.</p>}
                <Scrubber strip={strip.value} tail={session.tail} point={point} move={setPoint} />
                <Given session={session.id} row={rows.find((row) => row.position + 1 === settled)} compaction={compactions?.find((one) => one.position + 1 === settled)} />
                {seen.error !== undefined && <Problem error={seen.error} what="The model's context cannot be shown." again={seen.again} />}
                {seen.value === undefined && seen.error === undefined && <Loading what="the model's context" />}
                {seen.value !== undefined && <div aria-busy={seen.value.at !== settled}><Seen session={session.id} seen={seen.value} /></div>}
            </section>
        </div>
    );
}

function Scrubber({ strip, tail, point, move }: { strip: Strip | undefined; tail: number; point: number; move: (point: number) => void }) {
    const x = (position: number) => (tail === 0 ? 0 : (position / tail) * 600);
    const most = Math.max(1, ...(strip?.buckets.map((one) => one.tokens ?? 0) ?? [1]));
    return (
        <div class="scrubber">
            <svg viewBox="0 0 600 44" preserveAspectRatio="none" aria-hidden="true">
                {strip?.buckets.map((one) => one.tokens !== undefined && <rect class="fill" x={x(one.from)} width={Math.max(0.8, x(strip.width))} y={44 - (one.tokens / most) * 40} height={(one.tokens / most) * 40} />)}
                {strip?.marks.map((mark) => <line class={`at-${mark.kind}`} x1={x(mark.position)} x2={x(mark.position)} y1={0} y2={44} />)}
                <line class="here" x1={x(point)} x2={x(point)} y1={0} y2={44} />
            </svg>
            <label class="aloud" for="scrub">Position</label>
            <input id="scrub" type="range" min={0} max={tail} value={point} aria-valuetext={`before position ${point} of ${tail}`} onInput={(event: { currentTarget: HTMLInputElement }) => move(Number(event.currentTarget.value))} />
        </div>
    );
}

/** What was given at the chosen moment, whole; and what a compaction kept and dropped. */
function Given({ session, row, compaction }: { session: string; row: Row | undefined; compaction: Compaction | undefined }) {
    const read = useAnswer(async (signal) => (row === undefined ? undefined : event(session, row.position, signal)), [session, row?.position]);
    if (row === undefined) return null;
    const given = text(read.value?.["text"]) ?? text(read.value?.["summary"]) ?? compaction?.summary ?? undefined;
    const sum = (all: { from: number; to: number }[]) => all.reduce((total, one) => total + one.to - one.from, 0);
    return (
        <div class="given">
            {compaction !== undefined && (
                <p>
                    The compaction{compaction.trigger != null && <> (<Line text={compaction.trigger} />)</>} dropped {plural(sum(compaction.dropped), "event")} and kept {count(sum(compaction.kept))}.{" "}
                    {compaction.dropped.slice(0, 3).map((one) => <>Dropped from <Position session={session} at={one.from} /> to {one.to - 1}. </>)}
                    {!compaction.is_reported && "The program did not say what it kept."}
                </p>
            )}
            {given !== undefined && given !== "" ? (
                <Box label={row.type === "context.injected" ? "The brief that the model was given here" : "The summary that stands for what was dropped"} content={given} />
            ) : (
                read.value !== undefined && <p class="quiet">What it was given in words was not recorded here.</p>
            )}
            {row.type === "session.restored" && read.value !== undefined && <Box label="Restored from" content={json(record(read.value["from"]) ?? {})} />}
        </div>
    );
}

/** Messages in the document at first, from the end, which the model saw last. */
const SHOWN = 30;

const MESSAGES = /^(user|agent|system)\.(message|tool_use|mcp_tool_use|custom_tool_use|tool_result|mcp_tool_result|custom_tool_result)$/;

/** What the model had: the window's messages without those that compactions took out of its context,
    and the briefs that it was given. */
interface Context { at: number; events: Event[]; window: Window; lost: Range[]; usage: Usage }

async function context(session: string, at: number, signal: AbortSignal): Promise<Context> {
    const base = path`/v1/sessions/${session}/views`;
    const [window, compactions, usage, briefs] = await Promise.all([
        get<Window>(`${base}/window`, { at, format: "events", recall: "none" }, signal),
        get<{ lost: Range[] }>(`${base}/compactions`, { at }, signal),
        get<Usage>(`${base}/usage`, { at }, signal),
        scan(session, { types: "context.injected" }, 0, 200, signal),
    ]);
    const has = (position: number) => position < at && !compactions.lost.some((range) => range.from <= position && position < range.to);
    const given = await Promise.all(briefs.rows.filter((row) => has(row.position)).slice(-BRIEFS).map((row) => event(session, row.position, signal)));
    const events = (window.events ?? []).filter((one) => has(one.position) && one["session_thread_id"] === undefined && (MESSAGES.test(one.type) || one.type === "context.compacted"));
    events.push(...given.filter((one) => one !== undefined && text(one["text"]) !== undefined) as Event[]);
    return { at, events: events.sort((a, b) => a.position - b.position), window, lost: compactions.lost, usage };
}

/** Briefs of one context that are shown. */
const BRIEFS = 6;

function Seen({ session, seen: { events, window, lost, usage } }: { session: string; seen: Context }) {
    const [shown, show] = useState(SHOWN);
    const first = Math.max(0, events.length - shown);
    const sum = (ranges: Range[]) => ranges.reduce((total, one) => total + one.to - one.from, 0);
    const withoutRoom = sum(window.dropped.filter((one) => one.reason === "budget"));
    const withdrawn = sum(window.dropped.filter((one) => one.reason === "withdrawn"));
    return (
        <>
            <p class="quiet">
                {plural(events.length, "message")}.{" "}
                {usage.tokens != null && <>The program's last report before: {count(usage.tokens)} tokens in the context. </>}
                {lost.length > 0 && <>Taken out by compactions: {plural(sum(lost), "event")}{lost.slice(0, 3).map((one) => <>, <Position session={session} at={one.from} /> to {one.to - 1}</>)}. </>}
                {withdrawn > 0 && <>Taken back by a person: {plural(withdrawn, "event")}. </>}
                {withoutRoom > 0 && <>Not shown here, for their size: {plural(withoutRoom, "event")}. </>}
                {window.shortened.length > 0 && <>Shortened here: {window.shortened.slice(0, 8).map((at) => <><Position session={session} at={at} /> </>)}{window.shortened.length > 8 && `and ${window.shortened.length - 8} more`}</>}
            </p>
            {events.length === 0 && <Empty>The model had nothing yet at this position.</Empty>}
            {first > 0 && <p class="more"><button type="button" onClick={() => show(shown * 2)}>Show earlier messages ({count(first)})</button></p>}
            <ol class="messages" start={first + 1}>
                {events.slice(first).map((one) => <Said key={one.position} session={session} said={one} />)}
            </ol>
        </>
    );
}

function Said({ session, said }: { session: string; said: Event }) {
    const [role, kind = ""] = said.type.split(".");
    const who = said.type === "context.injected" ? "Brief" : role === "context" ? "Summary" : kind.endsWith("tool_result") ? "Tool" : role === "user" ? "User" : role === "system" ? "System" : "Agent";
    return (
        <li class={`message from-${who.toLowerCase()}`}>
            <span class="who">{who}</span> <Position session={session} at={said.position} />
            <Part said={said} kind={kind} />
        </li>
    );
}

const LINE = 110;

function Part({ said, kind }: { said: Event; kind: string }) {
    const whole = text(said["text"]) ?? text(said["summary"]);
    if (said.type.startsWith("context.")) return whole === undefined ? <p class="quiet">The summary was not recorded.</p> : <Long text={whole} form="box" piece={4000} />;
    if (kind.endsWith("tool_use")) {
        const input = json(said["input"] ?? {});
        return <details><summary><span class="tool"><Line text={text(said["name"]) ?? "tool"} /></span> <span class="mono quiet"><Line text={input.replace(/\s+/g, " ").slice(0, LINE)} /></span></summary><Box label="Input" content={input} /></details>;
    }
    if (kind.endsWith("tool_result")) {
        const shown = plain(said["content"]);
        return <details class={said["is_error"] === true ? "bad" : undefined}><summary><span class="mono quiet"><Line text={shown.replace(/\s+/g, " ").slice(0, LINE)} /></span> <small>{short(shown.length)} characters</small></summary><Content of={said["content"]} form="box" /></details>;
    }
    return <div class="words"><Content of={said["content"]} form="prose" piece={2000} /></div>;
}
