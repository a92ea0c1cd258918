// One item of the conversation: words in full, everything else in a line that opens in place.
import type { Ref } from "preact";
import { useState } from "preact/hooks";
import { day, plural, short, time, took } from "../format";
import { link } from "../route";
import { Line, Long } from "../text";
import { pieces } from "../body";
import { Content, Continued, Position } from "../parts";
import type { Row, Session, Thread } from "../types";
import { Detail } from "./detail";
import type { Fold, OneRow } from "./items";

interface Shared {
    "data-index": number;
    ref: Ref<HTMLElement>;
    style: { transform: string };
    isCurrent: boolean;
    toggle: () => void;
}

/** Characters of a message that are shown before it is opened. */
const WORDS_MAX = 1600;
const LINES_MAX = 24;
/** A message that is hardly longer is shown whole. */
const SPARED = 1.5;

const NAMES: Record<string, string> = {
    injected: "given", compaction: "compaction", checkpoint: "checkpoint", memory: "memory", change: "changed", status: "status", thinking: "thinking", result: "result",
};

/** Types whose rows lead elsewhere by a link of their own. */
const LEADS = new Map([["session.restored", "restored"], ["event.marked", "mark"]]);

export function RowItem(props: Shared & { item: OneRow; session: Session; marks?: string[] | undefined; isOpen: boolean; dropped: number | undefined; tail: number }) {
    const { item, session, isOpen, isCurrent, dropped, marks = [] } = props;
    const { row } = item;
    const marked = row.type === "event.marked" ? /^Marked @(\d+) /.exec(row.line)?.[1] : undefined;
    const isWords = row.kind === "user" || row.kind === "agent";
    const classes = ["row", `is-${row.kind}`, isCurrent ? "is-current" : "", dropped !== undefined ? "is-dropped" : "", row.failed === true ? "is-failed" : "", item.depth === 1 ? "is-inner" : "", row.bookkeeping === true ? "is-bookkeeping" : "", isOpen ? "is-open" : ""];
    return (
        <article
            class={classes.filter((one) => one !== "").join(" ")}
            ref={props.ref}
            data-index={props["data-index"]}
            data-position={row.position}
            style={props.style}
            aria-posinset={row.position + 1}
            aria-setsize={props.tail}
            aria-label={`${row.kind} at ${row.position}`}
        >
            {item.newDay && <p class="day">{day(item.at)}</p>}
            {isWords ? <Words row={row} marks={marks} isOpen={isOpen} toggle={props.toggle} /> : (
                <div class={LEADS.has(row.type) ? "fold leads" : undefined}>
                    <Head row={row} marks={marks} isOpen={isOpen} toggle={props.toggle} dropped={dropped} />
                    {row.type === "session.restored" && <span><Continued session={session.id} at={row.position} /></span>}
                    {marked !== undefined && <Position session={session.id} at={Number(marked)} />}
                </div>
            )}
            {isOpen && <Detail session={session.id} workspace={session.workspace} row={row} marks={marks} />}
        </article>
    );
}

function Words({ row, marks, isOpen, toggle }: { row: Row; marks: string[]; isOpen: boolean; toggle: () => void }) {
    const [all, showAll] = useState(false);
    const parts = pieces(row.content);
    const text = parts.map((part) => ("text" in part ? part.text : "")).join("\n");
    const pictures = parts.filter((part) => !("text" in part)).length;
    const cut = !all && (text.length > WORDS_MAX * SPARED || text.split("\n", LINES_MAX * SPARED + 1).length > LINES_MAX * SPARED);
    return (
        <>
            <button type="button" class="row-line words-line" aria-expanded={isOpen} onClick={toggle}>
                <span class={row.kind === "user" ? "who" : "who aloud"}>{row.kind === "user" ? "You" : "Agent"}</span> <Marked marks={marks} /><Meta row={row} />
            </button>
            {!isOpen && (
                <div class="words">
                    {row.content === undefined ? (
                        <p><Line text={row.line} />{row.bytes > 400 && <> <button type="button" class="quiet-button" onClick={toggle}>{short(row.bytes)} bytes: show</button></>}</p>
                    ) : (
                        <>
                            {cut ? <Long text={shortened(text)} form="prose" /> : <Content of={row.content} form="prose" />}
                            {cut && <p class="more"><button type="button" class="quiet-button" onClick={() => showAll(true)}>Show all {short(text.length)} characters</button></p>}
                            {cut && pictures > 0 && <p class="quiet">{plural(pictures, "picture or attachment", "pictures or attachments")}: open the row to see {pictures === 1 ? "it" : "them"}.</p>}
                        </>
                    )}
                </div>
            )}
        </>
    );
}

function shortened(text: string): string {
    const lines = text.split("\n", LINES_MAX).join("\n");
    return `${lines.length > WORDS_MAX ? lines.slice(0, WORDS_MAX) : lines}…`;
}

const Marked = ({ marks }: { marks: string[] }) => <>{marks.map((mark) => <><span class={`state mark-${mark}`}><Line text={mark} /></span>{" "}</>)}</>;

function Meta({ row }: { row: Row }) {
    return (
        <span class="meta">
            <span class="at">{time(row.at)}</span> <span class="number">{row.position}</span>
        </span>
    );
}

function Head({ row, marks, isOpen, toggle, dropped }: { row: Row; marks: string[]; isOpen: boolean; toggle: () => void; dropped: number | undefined }) {
    const name = NAMES[row.kind];
    const isCall = row.kind === "call";
    return (
        <button type="button" class="row-line" aria-expanded={isOpen} onClick={toggle}>
            {isCall ? <Tool row={row} /> : <span class="kind">{LEADS.get(row.type) ?? (row.kind === "status" || name === undefined ? row.type.replace(/^session\.|^span\./, "") : name)}</span>}{" "}
            <span class="line">{row.type !== "session.restored" && <Line text={isCall ? afterTool(row) : row.line} />}</span>{" "}
            <span class="result">
                <Marked marks={marks} />
                {row.added !== undefined && row.added > 0 && <span class="added">+{row.added}</span>}{" "}
                {row.removed !== undefined && row.removed > 0 && <span class="removed">-{row.removed}</span>}{" "}
                {row.outcome !== undefined ? <span class={row.failed === true ? "outcome failed" : "outcome"}><Line text={row.outcome} /></span> : row.failed === true && <span class="outcome failed">failed</span>}{" "}
                {isCall && row.result === undefined && <span class="outcome">no result</span>}{" "}
                {row.duration_ms !== undefined && row.duration_ms >= 20 && <span class="took">{took(row.duration_ms)}</span>}{" "}
                {row.tokens !== undefined && <span class="took">{short(row.tokens)} tokens</span>}
                {dropped !== undefined && <span class="aloud">out of the model's context</span>}
            </span>{" "}
            <Meta row={row} />
        </button>
    );
}

function Tool({ row }: { row: Row }) {
    if (row.tool === undefined || row.line.startsWith("$ ")) return <span class="tool">$</span>;
    return <span class="tool"><Line text={row.tool} /></span>;
}

/** The line without the name of its tool, which is drawn before it. */
function afterTool(row: Row): string {
    if (row.line.startsWith("$ ")) return row.line.slice(2);
    return row.tool !== undefined && row.line.startsWith(`${row.tool} `) ? row.line.slice(row.tool.length + 1) : row.line === row.tool ? "" : row.line;
}

export function Folded(props: Shared & { item: Fold; session: string; task: Thread | undefined }) {
    const { item } = props;
    return (
        <article class={`row is-fold ${props.isCurrent ? "is-current" : ""}`} ref={props.ref} data-index={props["data-index"]} style={props.style}>
            {item.newDay && <p class="day">{day(item.at)}</p>}
            <p class="fold">
                <button type="button" class="fold-line" aria-expanded={item.open} onClick={props.toggle}>
                    <span class="tool">{item.open ? "\u25be" : "\u25b8"} Subagent</span> <span class="line"><Line text={props.task?.description ?? item.thread} /></span>{" "}
                    <span class="result">{plural(item.calls, "call")}{item.failed > 0 && <>, <span class="outcome failed">{item.failed} failed</span></>}</span>
                </button>{" "}
                <a href={link(["s", props.session, "thread", item.thread])}>alone</a>
            </p>
        </article>
    );
}
