// Only the rows of a session that have some words, or that are of one subagent: read in scans, a
// page at a time, each a link to its place in the whole.
import { useEffect, useState } from "preact/hooks";
import { Refusal } from "../api";
import { count, plural } from "../format";
import { Empty, Loading, Problem } from "../parts";
import { link, settle } from "../route";
import { type Marks, readRow, scan } from "../rows";
import { Line } from "../text";
import type { Row, Session, Thread } from "../types";
import { useAnswer, useKeys } from "../use";
import { items } from "./items";
import { RowItem } from "./row";

const STEP = 100;
/** Rows in the document; earlier ones are dropped. */
const MOST = 200;

/** Rows are not moved: the list is short. */
const STILL = { transform: "none" };

interface Found { rows: Row[]; next: number; tail: number; complete: boolean; left: number }

/** Positions within which the result of a call is paired with it. */
const PAIR_REACH = 500;

export function Filtered({ session, q, thread, task, marks, stamp, at, bookkeeping, toggleBookkeeping }: { session: Session; q: string; thread: string | undefined; task: Thread | undefined; marks: Marks; stamp: number; at: number | undefined; bookkeeping: boolean; toggleBookkeeping: () => void }) {
    const [found, set] = useState<Found | undefined>(undefined);
    const [problem, fail] = useState<Refusal | undefined>(undefined);
    const [busy, setBusy] = useState(false);
    const [cursor, move] = useState<number | undefined>(at);
    const [opened, open] = useState<ReadonlySet<number>>(new Set(at === undefined ? [] : [at]));
    const filter = { ...(q === "" ? {} : { q }), ...(thread === undefined ? {} : { thread, content: true }) };
    const more = async (before: Found | undefined) => {
        setBusy(true);
        try {
            const part = await scan(session.id, filter, before?.next ?? 0, STEP);
            // A call that had no result may have one by now.
            const known = before?.rows.map((row) => (row.kind === "call" && row.result === undefined && part.tail - row.position <= PAIR_REACH ? readRow(session.id, row.position).then((now) => now ?? row) : row));
            const rows = [...(await Promise.all(known ?? [])), ...part.rows];
            const cut = Math.max(0, rows.length - MOST);
            set({ rows: rows.slice(cut), next: part.next, tail: part.tail, complete: part.complete, left: (before?.left ?? 0) + cut });
        } catch (error) {
            if (error instanceof Refusal) fail(error);
        } finally {
            setBusy(false);
        }
    };
    useEffect(() => {
        set(undefined);
        fail(undefined);
        void more(undefined);
    }, [session.id, q, thread]);
    useEffect(() => {
        if (found?.complete === true && !busy) void more(found);
    }, [stamp]);
    // The call that started the subagent has its task and its answer.
    const call = useAnswer(async (signal) => (task?.call === undefined ? undefined : readRow(session.id, task.call, signal)), [session.id, task?.call], 0, stamp).value;
    const [hidden, hide] = useState(false);
    const list = items(found?.rows ?? [], { bookkeeping: bookkeeping || q !== "", open: new Set(), flat: true });
    const toggle = (position: number) => {
        move(position);
        open((now) => {
            const next = new Set(now);
            if (!next.delete(position)) next.add(position);
            return next;
        });
        if (thread !== undefined) settle(link(["s", session.id, "thread", thread, "e", position]));
    };
    useKeys((key) => {
        const index = list.findIndex((item) => item.key === cursor);
        if (key === "j" || key === "k") {
            const item = list[Math.max(0, Math.min(list.length - 1, index + (key === "j" ? 1 : -1)))];
            if (item === undefined) return false;
            move(item.key);
            document.querySelector(`[data-position="${item.key}"]`)?.scrollIntoView({ block: "nearest" });
            return true;
        }
        if (key === "Enter" && index >= 0 && cursor !== undefined && document.activeElement?.closest("a, button") == null) {
            toggle(cursor);
            return true;
        }
        if (key === "b") {
            toggleBookkeeping();
            return true;
        }
        return false;
    });
    if (problem !== undefined) return <Problem error={problem} what="The rows cannot be searched." again={() => { fail(undefined); void more(undefined); }} />;
    if (found === undefined) return <Loading what="rows" />;
    return (
        <section class="filtered" aria-label="Rows that were found" aria-busy={busy}>
            {thread !== undefined && <p class="note">Only the subagent <b><Line text={task?.description ?? thread} /></b>. <a href={link(["s", session.id])}>Show the whole session</a></p>}
            {call !== undefined && <RowItem data-index={0} ref={null} style={STILL} item={{ key: call.position, at: call.at, row: call, newDay: false, depth: 0 }} session={session} marks={marks.get(call.id)} isCurrent={false} isOpen={!hidden} dropped={call.dropped} tail={found.tail} toggle={() => hide(!hidden)} />}
            <p class="quiet" role="status">
                {plural(found.left + list.length, "row")}{!found.complete && ` in the first ${count(found.next)} of ${plural(found.tail, "event")}`}
                {found.left > 0 && <>; the first {count(found.left)} are not shown any more</>}
            </p>
            {list.map((item) =>
                "row" in item ? (
                    <div class="found-row" key={item.key}>
                        <RowItem data-index={0} ref={null} style={STILL} item={item} session={session} marks={marks.get(item.row.id)} isCurrent={cursor === item.key} isOpen={opened.has(item.row.position)} dropped={item.row.dropped} tail={found.tail} toggle={() => toggle(item.row.position)} />
                        <a class="position" href={link(["s", session.id, "e", item.row.position])}>in place</a>
                    </div>
                ) : null,
            )}
            {list.length === 0 && found.complete && <Empty>{q === "" ? "This subagent has no rows." : <>No row has these words. <a href={link(["search"], { q })}>Search every session</a> for them.</>}</Empty>}
            {!found.complete && <p><button type="button" disabled={busy} onClick={() => void more(found)}>Look further, from {count(found.next)}</button></p>}
        </section>
    );
}
