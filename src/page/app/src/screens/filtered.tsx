// Only the rows of a session that have some words, or that are of one subagent: read in scans, a
// page at a time, each a link to its place in the whole.
import { useEffect, useState } from "preact/hooks";
import { Refusal } from "../api";
import { count, plural } from "../format";
import { Empty, Loading, Problem } from "../parts";
import { link, settle } from "../route";
import { scan } from "../rows";
import type { Row, Session } from "../types";
import { useKeys } from "../use";
import { items } from "./items";
import { RowItem } from "./row";

const STEP = 100;
/** Rows in the document; earlier ones are dropped. */
const MOST = 200;

interface Found { rows: Row[]; next: number; tail: number; complete: boolean; left: number }

export function Filtered({ session, q, thread, at, bookkeeping, toggleBookkeeping }: { session: Session; q: string; thread: string | undefined; at: number | undefined; bookkeeping: boolean; toggleBookkeeping: () => void }) {
    const [found, set] = useState<Found | undefined>(undefined);
    const [problem, fail] = useState<Refusal | undefined>(undefined);
    const [busy, setBusy] = useState(false);
    const [cursor, move] = useState<number | undefined>(at);
    const [opened, open] = useState<ReadonlySet<number>>(new Set(at === undefined ? [] : [at]));
    const filter = { ...(q === "" ? {} : { q }), ...(thread === undefined ? {} : { thread }) };
    const more = async (before: Found | undefined) => {
        setBusy(true);
        try {
            const part = await scan(session.id, filter, before?.next ?? 0, STEP);
            const rows = [...(before?.rows ?? []), ...part.rows];
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
            <p class="quiet" role="status">
                {plural(found.left + found.rows.length, "row")} in {count(found.next)} of {plural(found.tail, "event")}
                {found.left > 0 && <>; the first {count(found.left)} are not shown any more</>}
            </p>
            {list.map((item) =>
                "row" in item ? (
                    <div class="found-row" key={item.key}>
                        <RowItem data-index={0} ref={null} style={{ transform: "none" }} item={item} session={session} words={undefined} isCurrent={cursor === item.key} isOpen={opened.has(item.row.position)} dropped={item.row.dropped} tail={found.tail} toggle={() => toggle(item.row.position)} />
                        <a class="position" href={link(["s", session.id, "e", item.row.position])}>in place</a>
                    </div>
                ) : null,
            )}
            {list.length === 0 && found.complete && <Empty>{q === "" ? "This subagent has no rows." : <>No row has these words. <a href={link(["search"], { q })}>Search every session</a> for them.</>}</Empty>}
            {!found.complete && <p><button type="button" disabled={busy} onClick={() => void more(found)}>Look further, from {count(found.next)}</button></p>}
        </section>
    );
}
