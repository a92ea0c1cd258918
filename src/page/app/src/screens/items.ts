// Rows as a person reads them: what is bookkeeping is left out, a result is part of its call, a
// subagent's rows are one line until they are opened. A pure function of rows.
import type { Row } from "../types";

interface Placed { key: number; at: string; newDay: boolean }
export interface OneRow extends Placed { row: Row; depth: 0 | 1 }
/** The head of a subagent's rows. */
export interface Fold extends Placed { thread: string; from: number; to: number; calls: number; failed: number; open: boolean }
export type Item = OneRow | Fold;

export interface Choice {
    bookkeeping: boolean;
    /** Threads that are shown in full. */
    open: ReadonlySet<string>;
    /** Rows of subagents are in their order, without a fold. */
    flat?: boolean;
}

/** Whether a row has a line of its own. */
export function isShown(row: Row, bookkeeping: boolean): boolean {
    if (bookkeeping) return true;
    return row.bookkeeping !== true && row.of === undefined && !(row.kind === "thinking" && row.line === "");
}

export function items(rows: Row[], choice: Choice): Item[] {
    const out: Item[] = [];
    let day = "";
    for (const row of rows) {
        if (!isShown(row, choice.bookkeeping)) continue;
        const newDay = day !== row.at.slice(0, 10);
        day = row.at.slice(0, 10);
        const thread = choice.flat === true ? undefined : row.thread;
        if (thread === undefined) {
            out.push({ key: row.position, at: row.at, row, newDay, depth: 0 });
            continue;
        }
        const open = choice.open.has(thread);
        let last = out[out.length - 1];
        if (last !== undefined && "row" in last && last.row.thread === thread && last.depth === 1) {
            // Its head is above.
            for (let index = out.length - 1; index >= 0; index -= 1) {
                const head = out[index]!;
                if ("thread" in head) {
                    last = head;
                    break;
                }
            }
        }
        if (last === undefined || !("thread" in last) || last.thread !== thread) {
            // Half a position before its first row, which may be an item itself.
            last = { key: row.position - 0.5, at: row.at, thread, from: row.position, to: row.position + 1, calls: 0, failed: 0, newDay, open };
            out.push(last);
        }
        last.to = row.position + 1;
        if (row.kind === "call") last.calls += 1;
        if (row.failed === true) last.failed += 1;
        if (open) out.push({ key: row.position, at: row.at, row, newDay: false, depth: 1 });
    }
    return out;
}

/** The index of the item that has a position, or of the nearest one before it. */
export function indexOf(list: Item[], position: number): number {
    let low = 0;
    let high = list.length - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (list[middle]!.key <= position) low = middle;
        else high = middle - 1;
    }
    return list.length === 0 ? -1 : low;
}
