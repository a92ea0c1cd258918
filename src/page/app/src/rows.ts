// The rows of a session that are loaded: a run of pages without a hole, and near it what was read
// before. Few are kept, whatever the session holds. It must not know how rows look.
import { get, path } from "./api";
import type { Event, Events, Row, Rows } from "./types";

export const PAGE = 200;
/** Pages of the run; the far ones are dropped when it grows. */
const RUN_MAX = 10;
/** `next` is the position up to which the page was read: the last one grows. */
interface Page { rows: Row[]; next: number }

/** Reads rows, with the words of messages. */
async function readPage(session: string, from: number, to: number, signal?: AbortSignal): Promise<{ page: Page; tail: number }> {
    const rows: Row[] = [];
    let next = from;
    let tail = 0;
    while (next < to) {
        const answer = await get<Rows>(path`/v1/sessions/${session}/views/rows`, { from: next, to, limit: to - next, content: true }, signal);
        rows.push(...answer.rows);
        tail = answer.tail;
        if (answer.next_position <= next) break;
        next = answer.next_position;
    }
    return { page: { rows, next }, tail };
}

/** The page that was asked for before its session was known: it is what a person waits for. */
let early: { key: string; read: ReturnType<typeof readPage> } | undefined;

/** Asks for the rows around a position at once; the run that is made later takes them. */
export function readEarly(session: string, position: number): void {
    const number = Math.floor(position / PAGE);
    const read = readPage(session, number * PAGE, (number + 1) * PAGE);
    // A failure is met by the request that follows.
    read.catch(() => undefined);
    early = { key: `${session} ${number}`, read };
}

function takeEarly(session: string, number: number): ReturnType<typeof readPage> | undefined {
    const taken = early?.key === `${session} ${number}` ? early.read : undefined;
    early = undefined;
    return taken;
}

/** The loaded run of a session's rows. */
export class RowRun {
    private pages = new Map<number, Page>();
    private low = 0;
    private high = 0;
    private loading = new Map<number, Promise<void>>();
    private generation = 0;
    tail: number;

    constructor(
        readonly session: string,
        tail: number,
        private readonly changed: () => void,
    ) {
        this.tail = tail;
    }

    /** First position of the run, and the one after its last. */
    get from(): number {
        return this.low * PAGE;
    }
    get to(): number {
        return Math.min(this.high * PAGE, this.tail);
    }
    get isEmpty(): boolean {
        return this.high === this.low;
    }
    get atEnd(): boolean {
        return this.high * PAGE >= this.tail;
    }

    rows(): Row[] {
        const out: Row[] = [];
        for (let page = this.low; page < this.high; page += 1) out.push(...(this.pages.get(page)?.rows ?? []));
        return out;
    }

    row(position: number): Row | undefined {
        return this.pages.get(Math.floor(position / PAGE))?.rows.find((row) => row.position === position);
    }

    /** Makes the run begin anew around a position, if it is not in it. */
    async jump(position: number): Promise<void> {
        const page = Math.max(0, Math.min(Math.floor(position / PAGE), Math.ceil(this.tail / PAGE) - 1));
        if (page >= this.low && page < this.high) return;
        const generation = (this.generation += 1);
        await this.load(page);
        if (generation !== this.generation) return;
        this.low = page;
        this.high = page + 1;
        this.trim();
        this.changed();
    }

    /** Loads the page before the run, or the one after it. */
    async grow(side: "before" | "after"): Promise<void> {
        const page = side === "before" ? this.low - 1 : this.high;
        if (page < 0 || page * PAGE >= this.tail || this.isEmpty || this.loading.has(page)) return;
        const generation = this.generation;
        await this.load(page);
        if (generation !== this.generation) return;
        if (page === this.low - 1) {
            this.low = page;
            if (this.high - this.low > RUN_MAX) this.high -= 1;
        } else if (page === this.high) {
            this.high = page + 1;
            if (this.high - this.low > RUN_MAX) this.low += 1;
        } else return;
        this.trim();
        this.changed();
    }

    private grown: Promise<void> | undefined;

    /** The session has more events: reads those of the run's last page, where the run is at the end. */
    async grew(tail: number): Promise<void> {
        if (tail <= this.tail) return;
        const wasAtEnd = this.atEnd;
        this.tail = tail;
        if (!wasAtEnd || this.isEmpty) {
            this.changed();
            return;
        }
        // One at a time: each continues where the one before ended.
        this.grown = (this.grown ?? Promise.resolve()).then(() => this.append(), () => this.append());
        await this.grown;
    }

    private async append(): Promise<void> {
        for (;;) {
            const last = this.pages.get(this.high - 1);
            if (last === undefined) return;
            const generation = this.generation;
            const end = this.high * PAGE;
            const { next } = last;
            if (next >= this.tail) break;
            if (next < end) {
                const { page } = await readPage(this.session, next, Math.min(end, this.tail));
                if (generation !== this.generation || page.next <= next) return;
                last.next = page.next;
                const known = new Set(last.rows.map((row) => row.position));
                last.rows = [...last.rows, ...page.rows.filter((row) => !known.has(row.position))];
                await this.answerCalls(page.rows);
            } else {
                await this.load(this.high);
                if (generation !== this.generation) return;
                this.high += 1;
                if (this.high - this.low > RUN_MAX) this.low += 1;
                await this.answerCalls(this.pages.get(this.high - 1)?.rows ?? []);
                this.trim();
            }
            this.changed();
        }
        this.changed();
    }

    /** Reads the rows of calls again whose results came. */
    private async answerCalls(rows: Row[]): Promise<void> {
        for (const { of } of rows) {
            if (of === undefined) continue;
            const page = this.pages.get(Math.floor(of / PAGE));
            const index = page?.rows.findIndex((row) => row.position === of && row.result === undefined) ?? -1;
            if (page === undefined || index < 0) continue;
            const row = await readRow(this.session, of);
            if (row !== undefined) page.rows = page.rows.with(index, row);
        }
    }

    private load(number: number): Promise<void> {
        // A page that was the last one when it was read may lack what came since.
        const known = this.pages.get(number);
        if (known !== undefined && known.next >= Math.min((number + 1) * PAGE, this.tail)) return Promise.resolve();
        const under = this.loading.get(number);
        if (under !== undefined) return under;
        const whole = () => readPage(this.session, number * PAGE, Math.min((number + 1) * PAGE, this.tail));
        const load = (takeEarly(this.session, number)?.catch(whole) ?? whole())
            .then(({ page, tail }) => {
                this.pages.set(number, page);
                if (tail > this.tail) void this.grew(tail);
            })
            .finally(() => this.loading.delete(number));
        this.loading.set(number, load);
        return load;
    }

    /** Keeps only pages of the run. */
    private trim(): void {
        for (const page of this.pages.keys()) if (page < this.low || page >= this.high) this.pages.delete(page);
    }
}

/** The positions of one kind of row, read in scans: for outlines, filters and jumps. */
export async function scan(
    session: string,
    filter: { types?: string; thread?: string; q?: string; content?: boolean },
    from: number,
    most: number,
    signal?: AbortSignal,
): Promise<{ rows: Row[]; next: number; tail: number; complete: boolean }> {
    const rows: Row[] = [];
    let next = from;
    for (;;) {
        const answer = await get<Rows>(path`/v1/sessions/${session}/views/rows`, { ...filter, from: next, limit: Math.min(500, most - rows.length) }, signal);
        rows.push(...answer.rows);
        const stuck = answer.next_position <= next;
        next = answer.next_position;
        const done = next >= answer.tail || stuck;
        if (done || rows.length >= most) return { rows, next, tail: answer.tail, complete: done };
    }
}

/** The marks of events, by the ids of these. */
export type Marks = ReadonlyMap<string, string[]>;

/** Adds the marks that were set since they were read before. */
export async function readMarks(session: string, before: { marks: Marks; next: number }, signal?: AbortSignal): Promise<{ marks: Marks; next: number }> {
    const marks = new Map(before.marks);
    let { next } = before;
    for (;;) {
        const answer = await get<Events>(path`/v1/sessions/${session}/events`, { from: next, limit: PAGE, "types[]": ["event.marked"], allow_gaps: true }, signal);
        for (const { of, mark } of answer.data) {
            if (typeof of === "string" && typeof mark === "string") marks.set(of, [...new Set([...(marks.get(of) ?? []), mark])]);
        }
        const stuck = answer.next_position <= next;
        next = answer.next_position;
        if (stuck || next >= answer.tail) return { marks, next };
    }
}

/** The row at a position, as it is now. */
export async function readRow(session: string, position: number, signal?: AbortSignal): Promise<Row | undefined> {
    return (await get<Rows>(path`/v1/sessions/${session}/views/rows`, { from: position, to: position + 1, limit: 1 }, signal)).rows[0];
}

/** The event at a position, whole. */
export async function event(session: string, position: number, signal?: AbortSignal): Promise<Event | undefined> {
    const answer = await get<Events>(path`/v1/sessions/${session}/events`, { from: position, to: position + 1, limit: 1 }, signal);
    return answer.data.find((one) => one.position === position);
}
