// Small parts that several screens share: errors, emptiness, a box with a length, a picture, a diff,
// a form of one field.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { get, path, type Refusal } from "./api";
import { type Change, json, type Piece, PICTURE_BYTES_MAX, pieces, type Picture as Shown, record, text } from "./body";
import { hunks } from "./diff";
import { bytes, count, plural } from "./format";
import { link } from "./route";
import { event } from "./rows";
import { Line, Long, PIECE, Plain } from "./text";
import type { Session as Listed } from "./types";
import { useAnswer } from "./use";

/** What went wrong, and what to do. */
export function Problem({ error, what, again }: { error: Refusal; what: string; again?: () => void }) {
    const sentence = explain(error);
    return (
        <div class="note bad" role="alert">
            <p><b>{what}</b> <Line text={sentence.problem} /></p>
            {sentence.action !== "" && <p><Line text={sentence.action} /></p>}
            {again !== undefined && <button type="button" onClick={again}>Try again</button>}
        </div>
    );
}

const upper = (text: string) => (text === "" ? "" : text[0]!.toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : "."));

/** Words for what a person meets most; the server's own for all else. */
function explain(error: Refusal): { problem: string; action: string } {
    switch (error.code) {
        case "session_not_found":
            return { problem: upper(error.message), action: "It was deleted, or the link is of another store. `sessionlog restore` brings a deleted session back during its grace period." };
        case "session_damaged":
            return { problem: upper(error.message), action: "`sessionlog verify` says what is lost; `sessionlog repair` continues without it." };
        case "forbidden":
            return { problem: upper(error.message), action: error.action === "" ? "This token may not do this: ask for one with the scope that is named." : upper(error.action) };
        default:
            return { problem: upper(error.message), action: upper(error.action) };
    }
}

/** Says what would be here, and what to do for it. */
export function Empty({ children }: { children: ComponentChildren }) {
    return <p class="empty">{children}</p>;
}

export function Loading({ what }: { what: string }) {
    return <p class="loading" role="status">Loading {what}…</p>;
}

export function Session({ id, title, at }: { id: string; title?: string | null | undefined; at?: number }) {
    return <a href={at === undefined ? link(["s", id]) : link(["s", id, "e", at])}><Line text={title ?? id} /></a>;
}

export function Position({ session, at }: { session: string; at: number }) {
    return <a class="position" href={link(["s", session, "e", at])}>@{at}</a>;
}

/** The session that another one continues, by the event that says so. */
export function Continued({ session, at, plain = false }: { session: string; at: number; plain?: boolean }) {
    const before = useAnswer(async (signal) => {
        const id = text(record((await event(session, at, signal))?.["from"])?.["session"]);
        return id === undefined ? undefined : get<Listed>(path`/v1/sessions/${id}`, {}, signal).catch(() => ({ id, title: undefined }));
    }, [session, at]).value;
    if (before === undefined) return null;
    return <>continues {plain ? <Line text={before.title ?? before.id} /> : <Session id={before.id} title={before.title} />}</>;
}

/** A changed file as the server's views name it: how often, where last, and whether it was undone. The
    number of an earlier session before the position says that it is not in this one. */
const FILE = /^(.*?) \(?(?:\d+ times, last |(reverted|stashed|deleted) )?(S\d+)?@(\d+)\)?$/;

/** The files that a session changed, each with why. */
export function Files({ session, of }: { session: Pick<Listed, "id" | "workspace">; of: string[] | null | undefined }) {
    if (of == null || of.length === 0) return null;
    const files = of.map((file) => {
        const [, name = file, state = "", elsewhere, at] = FILE.exec(file) ?? [];
        return [name, state, elsewhere === undefined ? at : undefined] as const;
    });
    const states = new Map<string, number>();
    for (const [, state] of files) states.set(state, (states.get(state) ?? 0) + 1);
    return (
        <details class="files">
            <summary>{[...states].map(([state, number]) => (state === "" ? plural(number, "changed file") : `${count(number)} ${state}`)).join(", ")}</summary>
            <ul>
                {files.map(([name, state, at]) => {
                    const full = name.startsWith("/") ? name : session.workspace == null ? undefined : `${session.workspace.replace(/\/$/, "")}/${name}`;
                    return (
                        <li>
                            {full === undefined ? <span class="mono"><Line text={name} /></span> : <a class="mono" href={link(["why"], { path: full, workspace: session.workspace ?? undefined })} title="Why this file changed"><Line text={name} /></a>}{" "}
                            {at !== undefined && <a class="position" href={link(["s", session.id, "e", at])}>{state === "" ? "last" : state} @{at}</a>}
                        </li>
                    );
                })}
            </ul>
        </details>
    );
}

/** Output in a box: its length, its first part, and a way to the rest. */
export function Box({ label, content, bad = false }: { label: string; content: string; bad?: boolean }) {
    const lines = content === "" ? 0 : content.split("\n").length;
    return (
        <figure class={bad ? "boxed bad" : "boxed"}>
            <figcaption>{label} <small>{content === "" ? "empty" : `${plural(lines, "line")}, ${bytes(content.length)}`}</small></figcaption>
            {content !== "" && <Long text={content} form="box" piece={lines > 60 && content.length < 64_000 ? 6_000 : 16_000} />}
        </figure>
    );
}

function Picture({ shown }: { shown: Shown }) {
    const [open, set] = useState(false);
    if (shown.bytes > PICTURE_BYTES_MAX) return <p class="quiet">A picture of {bytes(shown.bytes)} ({shown.type}) is too large to be shown here.</p>;
    if (!open) return <p><button type="button" onClick={() => set(true)}>Show the picture ({shown.type.slice(6)}, {bytes(shown.bytes)})</button></p>;
    return <img class="picture" src={`data:${shown.type};base64,${shown.data}`} alt="A recorded picture" />;
}

/** Everything a content has, as text, pictures on click, and the rest as JSON. */
export function Content({ of, form, label = "Output", bad = false, piece: size }: { of: unknown; form: "prose" | "box"; label?: string; bad?: boolean; piece?: number }) {
    return (
        <>
            {pieces(of).map((piece: Piece) => {
                if ("text" in piece) return form === "prose" ? <Long text={piece.text} form="prose" piece={size ?? PIECE} /> : <Box label={label} content={piece.text} bad={bad} />;
                if ("picture" in piece) return <Picture shown={piece.picture} />;
                if ("address" in piece) return <p class="quiet">A picture elsewhere, not loaded: <span class="text"><Plain text={piece.address} /></span></p>;
                return <Box label="JSON" content={json(piece.json)} />;
            })}
        </>
    );
}

const LINES_SHOWN = 400;

export function Diff({ change, why }: { change: Change; why?: string | undefined }) {
    const [all, show] = useState(false);
    const lines = hunks(change.lines, change.whole ? 0 : 3);
    const added = change.lines.filter((line) => line.sign === "+").length;
    const removed = change.lines.filter((line) => line.sign === "-").length;
    const shown = all ? lines : lines.slice(0, LINES_SHOWN);
    return (
        <figure class="boxed">
            <figcaption>
                <span class="mono"><Line text={change.path === "" ? "Patch" : change.path} /></span>{" "}
                <small><span class="added">+{count(added)}</span> <span class="removed">-{count(removed)}</span></small>
                {why !== undefined && <> <a class="aside" href={why}>why this file changed</a></>}
            </figcaption>
            <pre class="box diff text" tabindex={0}>
                {shown.map((line) =>
                    typeof line === "number" ? (
                        <span class="skip">{`  ${plural(line, "equal line")}\n`}</span>
                    ) : (
                        <span class={line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : undefined}>{line.sign} <Plain text={line.text} />{"\n"}</span>
                    ),
                )}
            </pre>
            {shown.length < lines.length && <p class="more"><button type="button" onClick={() => show(true)}>Show all {count(lines.length)} lines</button></p>}
        </figure>
    );
}

/** A button that opens a form of one field, does what it says, says what came of it, and can be pressed again. */
export function Ask({ label, field, done, act, optional = true }: { label: string; field: string; done: string; act: (text: string) => Promise<string | void>; optional?: boolean }) {
    const [state, set] = useState<"closed" | "open" | "busy" | { said: string; to?: string }>("closed");
    if (state === "closed" || typeof state === "object") {
        return (
            <>
                <button type="button" onClick={() => set("open")}>{label}</button>
                {typeof state === "object" && <span role="status">{state.to === undefined ? state.said : <a href={state.to}>{state.said}</a>}</span>}
            </>
        );
    }
    const submit = (submitted: SubmitEvent) => {
        submitted.preventDefault();
        const input = (submitted.currentTarget as HTMLFormElement).elements.namedItem("it") as HTMLInputElement;
        set("busy");
        act(input.value.trim()).then(
            (to) => set(typeof to === "string" ? { said: done, to } : { said: done }),
            (error: Error) => set({ said: `Not done: ${error.message}` }),
        );
    };
    return (
        <form class="ask" onSubmit={submit} onKeyDown={(event: KeyboardEvent) => { if (event.key === "Escape") set("closed"); }}>
            <label>{field} <input name="it" maxLength={200} required={!optional} disabled={state === "busy"} ref={(input: HTMLInputElement | null) => input?.focus()} /></label>
            <button type="submit" disabled={state === "busy"}>{label}</button>
            <button type="button" onClick={() => set("closed")}>Cancel</button>
        </form>
    );
}

/** A button that asks once more before it acts, says what came of it, and can be pressed again. */
export function Do({ label, done, act }: { label: string; done: string; act: () => Promise<unknown> }) {
    const [state, set] = useState<"idle" | "sure" | "busy">("idle");
    const [said, say] = useState("");
    const run = () => {
        set("busy");
        act()
            .then(() => say(done), (error: Error) => say(`Not done: ${error.message}`))
            .finally(() => set("idle"));
    };
    if (state === "idle") return <><button type="button" onClick={() => set("sure")}>{label}</button>{said !== "" && <span role="status">{said}</span>}</>;
    return (
        <span class="ask">
            <button type="button" class="primary" disabled={state === "busy"} onClick={run}>{label} now</button>{" "}
            <button type="button" onClick={() => set("idle")}>Cancel</button>
        </span>
    );
}
