// One event opened in place: a call with its result, words, a compaction, or the event as stored;
// and what a person may do there.
import { useEffect, useState } from "preact/hooks";
import { path, post, type Refusal } from "../api";
import { changes, command, isFailed, isPatch, json, members, plain, record, text } from "../body";
import { bytes, moment, plural, took } from "../format";
import { Ask, Box, Content, Diff, Empty, Loading, Position, Problem } from "../parts";
import { link } from "../route";
import { event } from "../rows";
import { Line } from "../text";
import type { Event, Row } from "../types";
import { useAnswer } from "../use";

/** Bytes of an event that is read at once; a larger one is read when asked for. */
const READ_MAX = 1024 * 1024;

interface Where { session: string; workspace?: string | null | undefined }

export function Detail({ session, workspace, row, marks }: Where & { row: Row; marks: string[] }) {
    const [all, readAll] = useState(row.bytes <= READ_MAX);
    if (!all) {
        return (
            <div class="detail">
                <p>This event has {bytes(row.bytes)}. <button type="button" onClick={() => readAll(true)}>Show all</button> It is shown in pieces.</p>
            </div>
        );
    }
    return <Read session={session} workspace={workspace} row={row} marks={marks} />;
}

function Read({ session, workspace, row, marks }: Where & { row: Row; marks: string[] }) {
    const [stored, showStored] = useState(false);
    const read = useAnswer((signal) => event(session, row.position, signal), [session, row.position]);
    const answer = useAnswer(
        async (signal) => (row.kind === "call" && row.result !== undefined ? event(session, row.result, signal) : undefined),
        [session, row.result],
    );
    if (read.error !== undefined) return <div class="detail"><Problem error={read.error} what="This event cannot be read." again={read.again} /></div>;
    if (read.value === undefined) return <div class="detail"><Loading what="the event" /></div>;
    return (
        <div class="detail">
            {row.kind === "call" ? <Call workspace={workspace} row={row} call={read.value} answer={answer.value} error={answer.error} /> : <Said session={session} event={read.value} row={row} />}
            <Foot session={session} row={row} event={read.value} marks={marks} stored={stored} toggle={() => showStored(!stored)} />
            {stored && <Box label={`Event ${row.position} as stored`} content={json(read.value)} />}
            {stored && answer.value !== undefined && <Box label={`Event ${answer.value.position} as stored`} content={json(answer.value)} />}
        </div>
    );
}

function absolute(file: string, cwd: unknown, workspace: string | null | undefined): string | undefined {
    if (file.startsWith("/")) return file;
    const base = text(cwd) ?? workspace ?? undefined;
    return base === undefined || file === "" ? undefined : `${base.replace(/\/$/, "")}/${file}`;
}

function Call({ workspace, row, call, answer, error }: Pick<Where, "workspace"> & { row: Row; call: Event; answer: Event | undefined; error: Refusal | undefined }) {
    const input = call["input"];
    const changed = changes(input);
    const runs = command(input);
    const run = runs !== undefined && changed.length > 0 && isPatch(runs) ? undefined : runs;
    const failed = isFailed(answer);
    const said = answer === undefined ? "" : plain(answer["content"]);
    const rest = record(input);
    const others = rest === undefined ? [] : Object.entries(rest).filter(([name]) => !(run !== undefined && (name === "command" || name === "cmd")));
    const words = text(rest?.["description"]);
    return (
        <>
            {run !== undefined && <Box label={words ?? "Command"} content={run} />}
            {changed.map((change) => {
                const file = absolute(change.path, call["cwd"], workspace);
                return <Diff change={change} why={file === undefined ? undefined : link(["why"], { path: file, workspace: workspace ?? undefined })} />;
            })}
            {changed.length === 0 && run === undefined && others.length > 0 && <Input given={others} />}
            {changed.length === 0 && run === undefined && rest === undefined && input !== undefined && <Box label="Input" content={json(input)} />}
            {error !== undefined && <Problem error={error} what="Its result cannot be read." />}
            {row.result === undefined && <p class="quiet">No result was recorded within the next 500 events.</p>}
            {answer !== undefined && (said !== "" || answer["content"] !== undefined ? <Content of={answer["content"]} form="box" label={failed ? "Failed" : "Output"} bad={failed} /> : <p class="quiet">The result has no content.</p>)}
        </>
    );
}

/** Arguments of a call: short ones in a list, long ones in boxes. */
function Input({ given }: { given: [string, unknown][] }) {
    const long = given.filter(([, value]) => typeof value === "string" && (value.length > 160 || value.includes("\n")));
    const short = given.filter((one) => !long.includes(one));
    return (
        <>
            {short.length > 0 && (
                <dl class="arguments">
                    {short.map(([name, value]) => <div><dt><Line text={name} /></dt><dd class="mono"><Line text={typeof value === "string" ? value : JSON.stringify(value)} /></dd></div>)}
                </dl>
            )}
            {long.map(([name, value]) => <Box label={name} content={value as string} />)}
        </>
    );
}

function ranges(value: unknown): { from: number; to: number }[] {
    const all = Array.isArray(value) && !(value.length === 2 && value.every((one) => typeof one === "number")) ? value : value === undefined ? [] : [value];
    return all.flatMap((one: unknown) => {
        if (Array.isArray(one) && typeof one[0] === "number" && typeof one[1] === "number") return [{ from: one[0], to: one[1] }];
        const range = record(one);
        return typeof range?.["from"] === "number" && typeof range["to"] === "number" ? [{ from: range["from"], to: range["to"] }] : [];
    });
}

function Said({ session, event: said, row }: { session: string; event: Event; row: Row }) {
    const long = text(said["text"]) ?? text(said["summary"]);
    if (row.kind === "user" || row.kind === "agent" || row.kind === "thinking") {
        return said["content"] === undefined || said["content"] === "" ? <Rest event={said} /> : <Content of={said["content"]} form="prose" />;
    }
    if (row.kind === "result") return <Content of={said["content"]} form="box" bad={isFailed(said)} label={isFailed(said) ? "Failed" : "Output"} />;
    if (row.kind === "compaction") {
        const kept = ranges(said["kept"]);
        const dropped = ranges(said["dropped"]);
        return (
            <>
                <p>
                    The model's context was replaced here. <a href={link(["s", session, "told", row.position])}>What the model was told then</a>
                </p>
                {dropped.length > 0 && <p class="quiet">Dropped: {dropped.map((one) => <><Position session={session} at={one.from} /> to {one.to - 1} </>)}</p>}
                {kept.length > 0 && <p class="quiet">Kept: {kept.map((one) => <><Position session={session} at={one.from} /> to {one.to - 1} </>)}</p>}
                {long !== undefined ? <Box label="Summary that replaced it" content={long} /> : <p class="quiet">Its summary was not recorded.</p>}
            </>
        );
    }
    if (row.kind === "injected" && long !== undefined) return <Box label="The model was given" content={long} />;
    if (row.type === "event.marked" && typeof said["position"] === "number") return <p>It marks <Position session={session} at={said["position"]} /> as <Line text={text(said["mark"]) ?? ""} />.{said["note"] != null && <> <Line text={String(said["note"])} /></>}</p>;
    if (row.kind === "memory" && long !== undefined) return <Content of={long} form="prose" />;
    return <Rest event={said} />;
}

function Rest({ event: said }: { event: Event }) {
    const rest = members(said);
    return Object.keys(rest).length === 0 ? <p class="quiet">It has no body.</p> : <Box label="Body" content={json(rest)} />;
}

function Foot({ session, row, event: read, marks, stored, toggle }: { session: string; row: Row; event: Event; marks: string[]; stored: boolean; toggle: () => void }) {
    // What was marked here, until the session's own marks say so; and why one was not.
    const [marked, mark] = useState<string[]>([]);
    const [problem, fail] = useState("");
    const setMark = (name: string) =>
        post(path`/v1/sessions/${session}/events/${read.id}/mark`, { mark: name }).then(
            () => mark((now) => [...now, name]),
            (error: Error) => fail(`Not marked: ${error.message}`),
        );
    // A call and its result are one row.
    const after = Math.max(row.position, row.result ?? 0) + 1;
    return (
        <footer>
            <p class="quiet">
                <a class="position" href={link(["s", session, "e", row.position])}>@{row.position}</a> <span class="mono"><Line text={row.type} /></span>, {moment(row.at)}, {bytes(row.bytes)}
                {row.duration_ms !== undefined && <>, took {took(row.duration_ms)}</>}
                {row.origin !== undefined && <>, recorded by <Line text={row.origin} /></>}
                {row.dropped !== undefined && <>, out of the model's context since <Position session={session} at={row.dropped} /></>}
            </p>
            <p class="actions">
                <a href={link(["s", session, "told", after])}>What the model saw here</a>
                <button type="button" aria-expanded={stored} onClick={toggle}>As stored</button>
                {["important", "wrong", "done"].map((name) => marks.includes(name) || marked.includes(name)
                    ? <span role="status">Marked {name}.</span>
                    : <button type="button" onClick={() => void setMark(name)}>Mark {name}</button>)}
                {problem !== "" && <span role="status">{problem}</span>}
                <Ask label="Fork after this" field="Title of the fork" done="Forked: open it" act={async (title) => {
                    const made = await post<{ id: string }>(path`/v1/sessions/${session}/fork`, { at: after, ...(title === "" ? {} : { title }) });
                    return link(["s", made.id]);
                }} />
                <Ask label="Checkpoint after this" field="Label" done="Checkpoint made." act={async (label) => {
                    await post(path`/v1/sessions/${session}/checkpoints`, { at: after, ...(label === "" ? {} : { label }) });
                }} />
            </p>
        </footer>
    );
}

/** The event of a deep link that is in no row of the list: bookkeeping, or gone. */
export function Lost({ session, position, tail }: { session: string; position: number; tail: number }) {
    const [shown, show] = useState(true);
    useEffect(() => show(true), [position]);
    if (!shown) return null;
    return (
        <div class="note" role="alert">
            <p>
                <b>Position {position} is not there.</b>{" "}
                {position >= tail ? `The session ends before position ${tail}: it has ${plural(tail, "event")}.` : "Its bytes are damaged, or the event was removed."}{" "}
                What is nearest is shown. <button type="button" onClick={() => show(false)}>Close</button>
            </p>
            {position < tail && <Empty>`sessionlog verify {session}` says which positions are lost, and why.</Empty>}
        </div>
    );
}
