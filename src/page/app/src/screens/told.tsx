// What the model was told: every brief, compaction and restore of a session, and the window as the
// model saw it at any position, with a scrubber over the whole session.
import { useEffect, useState } from "preact/hooks";
import { get, path } from "../api";
import { json, plain, record, text } from "../body";
import { count, plural, short, time } from "../format";
import { Box, Content, Empty, Loading, Position, Problem } from "../parts";
import { link, settle } from "../route";
import { event, scan } from "../rows";
import { Line, Long } from "../text";
import type { Block, Compaction, Message, Row, Session, Strip, Window } from "../types";
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

const REASONS: Record<string, string> = {
    budget: "no room in the budget",
    not_a_message: "no message (bookkeeping, thinking, subagents)",
    filtered: "filtered by a transform",
    withdrawn: "taken back by a person",
    before: "before the window's start",
};

export function Told({ session, at, compactions }: { session: Session; at: string | undefined; compactions: Compaction[] | undefined }) {
    const asked = at === undefined ? session.tail : Number(at);
    const valid = Number.isInteger(asked) && asked >= 0 && asked <= session.tail;
    const [point, setPoint] = useState(valid ? asked : session.tail);
    const [settled, setSettled] = useState(point);
    useEffect(() => {
        if (!valid) return;
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
    const tellings = useAnswer((signal) => scan(session.id, { types: TELLINGS }, 0, 400, signal), [session.id]);
    const strip = useAnswer((signal) => get<Strip>(path`/v1/sessions/${session.id}/views/strip`, { buckets: 240 }, signal), [session.id]);
    const base = path`/v1/sessions/${session.id}/views/window`;
    const window = useAnswer((signal) => get<Window>(base, { at: settled, format: "anthropic" }, signal), [session.id, settled]);
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
                                <Line text={row.line.slice(0, 110)} />
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
                {window.error !== undefined && <Problem error={window.error} what="The window cannot be made." again={window.again} />}
                {window.value === undefined && window.error === undefined && <Loading what="the window" />}
                {window.value !== undefined && <Seen session={session.id} window={window.value} />}
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

function Seen({ session, window }: { session: string; window: Window }) {
    const [shown, show] = useState(SHOWN);
    const messages = window.messages ?? [];
    const first = Math.max(0, messages.length - shown);
    const reasons = new Map<string, number>();
    for (const one of window.dropped) reasons.set(one.reason, (reasons.get(one.reason) ?? 0) + one.to - one.from);
    return (
        <>
            <p class="quiet">
                {plural(messages.length, "message")}, about {count(window.tokens)} of {count(window.tokens_max)} tokens.{" "}
                {[...reasons].map(([reason, events]) => <>{plural(events, "event")} left out: {REASONS[reason] ?? reason}. </>)}
                {window.shortened.length > 0 && <>Shortened: {window.shortened.slice(0, 8).map((at) => <><Position session={session} at={at} /> </>)}{window.shortened.length > 8 && `and ${window.shortened.length - 8} more`}</>}
            </p>
            {messages.length === 0 && <Empty>The model had nothing yet at this position.</Empty>}
            {(window.system?.length ?? 0) > 0 && <Box label="System prompt" content={plain(window.system)} />}
            {first > 0 && <p class="more"><button type="button" onClick={() => show(shown * 2)}>Show earlier messages ({count(first)})</button></p>}
            <ol class="messages" start={first + 1}>
                {messages.slice(first).map((message, index) => <Said key={first + index} message={message} />)}
            </ol>
        </>
    );
}

function Said({ message }: { message: Message }) {
    const blocks: Block[] = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
    const isAnswer = blocks.length > 0 && blocks.every((block) => block.type === "tool_result");
    return (
        <li class={`message from-${isAnswer ? "tool" : message.role}`}>
            <span class="who">{isAnswer ? "Tool" : message.role === "user" ? "User" : message.role === "assistant" ? "Agent" : message.role}</span>
            {blocks.map((block) => <Part block={block} />)}
        </li>
    );
}

function Part({ block }: { block: Block }) {
    if (block.type === "tool_use") {
        const input = json(block["input"]);
        return <details><summary><span class="tool"><Line text={text(block["name"]) ?? "tool"} /></span> <span class="mono quiet"><Line text={input.replace(/\s+/g, " ").slice(0, 100)} /></span></summary><Box label="Input" content={input} /></details>;
    }
    if (block.type === "tool_result") {
        const said = plain(block["content"]);
        return <details class={block["is_error"] === true ? "bad" : undefined}><summary><span class="mono quiet"><Line text={said.replace(/\s+/g, " ").slice(0, 110)} /></span> <small>{short(said.length)} characters</small></summary><Content of={block["content"]} form="box" /></details>;
    }
    if (block.type === "text") return <div class="words"><Long text={text(block["text"]) ?? ""} form="prose" piece={4000} /></div>;
    return <Content of={[block]} form="prose" />;
}
