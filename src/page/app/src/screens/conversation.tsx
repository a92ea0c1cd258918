// A session as a conversation: a virtual list over the run of loaded rows, moved by keys, links, the
// scroll bar and the tail of a session that is being written.
import { useCallback, useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { get, path, Refusal } from "../api";
import { count, plural } from "../format";
import type { Tail } from "../live";
import { Empty, Loading, Problem } from "../parts";
import { link, settle } from "../route";
import { type Marks, PAGE, RowRun } from "../rows";
import type { Compaction, Rows, Session, Strip, Thread } from "../types";
import { useKeys } from "../use";
import { useVirtual } from "../virtual";
import { Lost } from "./detail";
import { indexOf, isShown, type Item, items } from "./items";
import { Folded, RowItem } from "./row";

/** Pixels that a position takes before its row was ever drawn, and the most of a whole session. */
const POSITION_PX = 16;
const SESSION_PX_MAX = 12_000_000;
/** Items left before an end of the run at which the next page is read. */
const NEAR = 120;

interface Props {
    session: Session;
    /** The position of the link; undefined is the beginning, `end` the tail. */
    at: number | "end" | undefined;
    open: boolean;
    bookkeeping: boolean;
    compactions: Compaction[];
    live: Tail;
    marks: Marks;
    tasks: ReadonlyMap<string, Thread>;
    toggleBookkeeping: () => void;
}

function useRun(session: string, tail: number): RowRun {
    const [, draw] = useReducer((n: number, _: void) => n + 1, 0);
    return useMemo(() => new RowRun(session, tail, draw), [session]);
}

/** Whether the model no longer has a position at the end: the last compaction that dropped it. */
function useDropped(compactions: Compaction[]): (position: number) => number | undefined {
    return useCallback(
        (position: number) => compactions.find((one) => one.dropped.some((range) => range.from <= position && position < range.to))?.position,
        [compactions],
    );
}

export function Conversation(props: Props) {
    const { session } = props;
    const run = useRun(session.id, Math.max(session.tail, props.live.tail));
    const scroller = useRef<HTMLDivElement>(null);
    const [cursor, setCursor] = useState<number | undefined>(undefined);
    const [opened, setOpened] = useState<ReadonlySet<number>>(new Set());
    const [threads, setThreads] = useState<ReadonlySet<string>>(new Set());
    const [problem, setProblem] = useState<Refusal | undefined>(undefined);
    const live = props.live.state;
    const [gone, setGone] = useState<number | undefined>(undefined);
    const [said, say] = useState("");
    const [seen, setSeen] = useState(session.tail);
    const following = useRef(false);
    const target = useRef<{ position: number; align: "start" | "center" | "end" } | undefined>(undefined);
    const shows = useRef(0);
    const dropped = useDropped(props.compactions);

    const rows = run.rows();
    const list: Item[] = items(rows, { bookkeeping: props.bookkeeping, open: threads });
    const unit = Math.min(POSITION_PX, SESSION_PX_MAX / Math.max(run.tail, 1));
    const virtual = useVirtual({
        count: list.length,
        getScrollElement: () => scroller.current,
        estimateSize: (index) => estimate(list[index]),
        getItemKey: (index) => list[index]?.key ?? index,
        paddingStart: Math.round(run.from * unit),
        paddingEnd: Math.round((run.tail - run.to) * unit) + 24,
        overscan: 6,
    });

    const fail = (error: unknown) => setProblem(error instanceof Refusal ? error : new Refusal(0, "page", String(error), "reload the page"));

    /** Shows a position: loads its page and scrolls there. */
    const show = useCallback(
        (position: number, align: "start" | "center" | "end" = "start") => {
            shows.current += 1;
            target.current = { position, align };
            following.current = align === "end";
            setProblem(undefined);
            run.jump(position).then(() => say((text) => `${text}\u00a0`), fail);
        },
        [run],
    );

    /** Shows a position in its row, wherever that is: a result's call, a subagent's fold, bookkeeping. */
    const reveal = async (position: number, open: boolean) => {
        const mark = (at: number) => {
            setCursor(at);
            if (open) setOpened(new Set([at]));
            show(at, "center");
        };
        mark(position);
        const turn = shows.current;
        await run.jump(position);
        // Something else was shown since.
        if (turn !== shows.current) return;
        const row = run.row(position);
        if (row === undefined) return setGone(position);
        if (row.of === undefined && !isShown(row, props.bookkeeping)) props.toggleBookkeeping();
        const { thread } = row;
        if (thread !== undefined) setThreads((now) => new Set(now).add(thread));
        mark(row.of ?? position);
    };

    // The place of the link.
    useEffect(() => {
        const { at } = props;
        setGone(undefined);
        if (typeof at === "number" && at < run.tail) {
            // `show` says what went wrong.
            reveal(at, props.open).catch(() => undefined);
            return;
        }
        if (typeof at === "number") setGone(at);
        setCursor(undefined);
        if (at === undefined) show(0);
        else show(Math.max(0, run.tail - 1), "end");
    }, [run, props.at, props.open]);

    // Scrolls to the target once its row is there, and keeps it there while heights become known.
    const firstKey = list[0]?.key;
    const keep = list.length > 0 && run.isEmpty === false;
    useLayoutEffect(() => {
        const to = target.current;
        if (to === undefined || !keep || to.position < run.from || (to.position >= run.to && to.position < run.tail)) return;
        target.current = undefined;
        const row = run.row(to.position);
        const index = indexOf(list, row?.of ?? to.position);
        if (index < 0) return;
        if (to.align === "end") virtual.scrollToIndex(list.length - 1, { align: "end" });
        else virtual.scrollToIndex(index, { align: to.align === "center" && index > 0 ? "center" : "start" });
    });

    // Near an end of the run the next page is read; far outside of it the run begins anew.
    const drawn = virtual.getVirtualItems();
    const firstDrawn = drawn[0]?.index;
    const lastDrawn = drawn[drawn.length - 1]?.index;
    useEffect(() => {
        if (run.isEmpty || target.current !== undefined) return;
        const element = scroller.current;
        if (element === null) return;
        const height = element.clientHeight;
        const top = virtual.scrollOffset ?? 0;
        const start = run.from * unit;
        const end = virtual.getTotalSize() - (run.tail - run.to) * unit - 24;
        if (top + height < start - 50 || top > end + 50) {
            const position = top < start ? Math.floor(top / unit) : run.to + Math.floor((top - end) / unit);
            // Scrolled faster than the next page came: it still is the next page.
            if (position >= run.from - PAGE && position < run.to + PAGE) {
                run.grow(top < start ? "before" : "after").catch(fail);
                return undefined;
            }
            const timer = setTimeout(() => show(Math.max(0, Math.min(position, run.tail - 1)), "start"), 40);
            return () => clearTimeout(timer);
        }
        if (run.from > 0 && (firstDrawn ?? 0) < NEAR) run.grow("before").catch(fail);
        if (run.to < run.tail && !run.atEnd && (lastDrawn ?? 0) > list.length - NEAR) run.grow("after").catch(fail);
        return undefined;
    }, [run, firstKey, list.length, firstDrawn, lastDrawn, run.from, run.to, Math.round((virtual.scrollOffset ?? 0) / 50)]);

    // The tail of a session that is being written.
    useEffect(() => void run.grew(props.live.tail).catch(() => undefined), [run, props.live.tail]);
    const atEnd = run.atEnd && !run.isEmpty && virtual.isAtEnd(80);
    useFollowing(scroller, following, run.atEnd && !run.isEmpty && target.current === undefined);
    useEffect(() => {
        if (atEnd && seen !== run.tail) setSeen(run.tail);
    }, [atEnd, run.tail]);

    const select = (index: number, align: "auto" | "center" = "auto") => {
        const item = list[index];
        if (item === undefined) return;
        setCursor(item.key);
        virtual.scrollToIndex(index, { align });
        if ("row" in item) {
            settle(link(["s", session.id, "e", item.row.position]));
            say(`${item.row.position}: ${item.row.line}`);
        } else say(`Subagent ${item.thread}, ${plural(item.calls, "call")}`);
    };
    const toggle = (item: Item) => {
        setCursor(item.key);
        if ("row" in item) {
            setOpened((now) => flipped(now, item.row.position));
            settle(link(["s", session.id, "e", item.row.position]));
        } else setThreads((now) => flipped(now, item.thread));
    };
    const top = () => virtual.scrollOffset ?? 0;
    const seenFirst = () => drawn.find((one) => one.start >= top() - 1)?.index ?? 0;
    const seenLast = () => drawn.filter((one) => one.end <= top() + (scroller.current?.clientHeight ?? 0) + 1).pop()?.index ?? list.length - 1;
    const current = () => (cursor === undefined ? -1 : indexOf(list, cursor));

    const nextFailure = async (forward: boolean) => {
        const from = cursor === undefined ? (forward ? -1 : run.tail) : Math.ceil(cursor);
        const found = await findFailure(session.id, run.tail, from, forward);
        if (found === undefined) {
            say(forward ? "No later failure." : "No earlier failure.");
            return;
        }
        settle(link(["s", session.id, "e", found]));
        await reveal(found, false);
        say(`Failure at ${found}`);
    };
    const nextMessage = (forward: boolean) => {
        for (let index = current() + (forward ? 1 : -1); index >= 0 && index < list.length; index += forward ? 1 : -1) {
            const item = list[index]!;
            if ("row" in item && item.row.kind === "user") return select(index, "center");
        }
    };

    useKeys((key, event) => {
        const on = event.target instanceof HTMLElement ? event.target : undefined;
        const inRow = on?.closest(".row-line, .fold-line") != null;
        switch (key) {
            case "j":
            case "ArrowDown":
                if (key === "ArrowDown" && on?.closest("pre, .outline") != null) return false;
                select(cursor === undefined ? seenFirst() : Math.min(current() + 1, list.length - 1));
                return true;
            case "k":
            case "ArrowUp":
                if (key === "ArrowUp" && on?.closest("pre, .outline") != null) return false;
                select(cursor === undefined ? seenLast() : Math.max(0, current() - 1));
                return true;
            case "Enter": {
                if (on !== undefined && on.closest("a, button") !== null && !inRow) return false;
                const item = list[current()];
                if (item !== undefined) toggle(item);
                return item !== undefined;
            }
            case "Escape":
                setOpened(new Set());
                return true;
            case "]":
            case "[":
                nextFailure(key === "]").catch(fail);
                return true;
            case "n":
            case "p":
                nextMessage(key === "n");
                return true;
            case "g":
            case "Home":
                setCursor(undefined);
                settle(link(["s", session.id]));
                show(0);
                return true;
            case "G":
            case "End":
                jumpToEnd();
                return true;
            case "b":
                // What is seen stays.
                target.current =
                    cursor !== undefined && drawn.some((one) => one.key === cursor)
                        ? { position: Math.floor(cursor), align: "center" }
                        : { position: Math.floor(list[seenFirst()]?.key ?? 0), align: "start" };
                props.toggleBookkeeping();
                return true;
            default:
                return false;
        }
    });
    const jumpToEnd = () => {
        setCursor(undefined);
        settle(link(["s", session.id, "end"]));
        show(Math.max(0, run.tail - 1), "end");
    };

    const running = session.status === "running";
    const waiting = run.tail - seen;
    return (
        <div class="conversation">
            {gone !== undefined && <Lost session={session.id} position={gone} tail={run.tail} />}
            {problem !== undefined && <Problem error={problem} what="These rows cannot be read." again={() => show(target.current?.position ?? 0)} />}
            {session.damage.length > 0 && <Damage session={session} />}
            <div class="rows" ref={scroller} role="feed" aria-label="Events of the session" aria-busy={run.isEmpty} tabindex={0}>
                {run.isEmpty && problem === undefined && <Loading what="rows" />}
                {run.tail === 0 && <Empty>Nothing was recorded yet. Rows appear here by themselves as the agent works.</Empty>}
                <div class="rows-all" style={{ height: `${virtual.getTotalSize()}px` }}>
                    {drawn.map((one) => {
                        const item = list[one.index];
                        if (item === undefined) return null;
                        const shared = {
                            "data-index": one.index,
                            ref: virtual.measureElement,
                            style: { transform: `translateY(${one.start}px)` },
                            isCurrent: cursor === item.key,
                            toggle: () => toggle(item),
                            item,
                        };
                        return "row" in item ? (
                            <RowItem
                                key={item.key}
                                {...shared}
                                item={item}
                                session={session}
                                marks={props.marks.get(item.row.id)}
                                isOpen={opened.has(item.row.position)}
                                dropped={item.row.dropped ?? dropped(item.row.position)}
                                tail={run.tail}
                            />
                        ) : (
                            <Folded key={item.key} {...shared} item={item} session={session.id} task={props.tasks.get(item.thread)} />
                        );
                    })}
                </div>
                {!run.isEmpty && run.tail > 0 && list.length === 0 && run.atEnd && run.from === 0 && (
                    <Empty>Everything that was recorded is bookkeeping. Press <kbd>b</kbd> to see it.</Empty>
                )}
            </div>
            <p class="tailing">
                <span class={`live ${live}`}>{live === "live" ? (running ? "live" : "up to date") : live === "waiting" ? "connecting…" : "no longer followed"}</span>{" "}
                <span>{count(run.tail)} events</span>
                {!atEnd && !run.isEmpty && (
                    <button type="button" onClick={jumpToEnd}>
                        {waiting > 0 ? `${count(waiting)} new: jump to the end` : "Jump to the end"}
                    </button>
                )}
            </p>
            <p class="aloud" role="status" aria-live="polite">{said}</p>
        </div>
    );
}

/** Distance from the end, in pixels, at which a person is at the end. */
const END_PX = 40;

/** Keeps the end in view while rows come, from when a person is there until the person scrolls up. */
function useFollowing(scroller: { current: HTMLDivElement | null }, following: { current: boolean }, hasEnd: boolean): void {
    const seen = useRef({ top: 0, height: 0 });
    useEffect(() => {
        const element = scroller.current;
        if (element === null) return undefined;
        const scrolled = () => {
            const { scrollTop: top, scrollHeight: height, clientHeight } = element;
            // Up while nothing grew: that was the person.
            if (top < seen.current.top - 1 && height === seen.current.height) following.current = false;
            if (height - clientHeight - top < END_PX) following.current = true;
            seen.current = { top, height };
        };
        // Before the list's own listener, which draws at once.
        element.addEventListener("scroll", scrolled, { passive: true, capture: true });
        return () => element.removeEventListener("scroll", scrolled, { capture: true });
    }, []);
    useLayoutEffect(() => {
        const element = scroller.current;
        if (element === null) return;
        const end = element.scrollHeight - element.clientHeight;
        if (hasEnd && following.current && element.scrollTop < end - 1) element.scrollTop = end;
        seen.current = { top: element.scrollTop, height: element.scrollHeight };
    });
}

function flipped<T>(set: ReadonlySet<T>, value: T): Set<T> {
    const next = new Set(set);
    if (!next.delete(value)) next.add(value);
    return next;
}

function estimate(item: Item | undefined): number {
    if (item === undefined || !("row" in item)) return 30;
    const extra = item.newDay ? 34 : 0;
    if (item.row.kind !== "user" && item.row.kind !== "agent") return 27 + extra;
    return 44 + Math.min(14, Math.ceil(item.row.bytes / 110)) * 21 + extra;
}

function Damage({ session }: { session: Session }) {
    return (
        <div class="note bad" role="alert">
            {session.damage.map((gap) => (
                <p>
                    <b>Positions {gap.from} to {gap.to - 1} are lost</b> ({gap.reason}).{" "}
                    {gap.accepted_at === undefined || gap.accepted_at === null ? <>Everything else can be read. <code>sessionlog repair {session.id} --accept-loss</code> continues without them.</> : "The loss was accepted."}
                </p>
            ))}
        </div>
    );
}

/** The next failure after a position, or the one before it: by the strip where, then by its row. A
    failed call is counted at its result, and shown in its own row. */
async function findFailure(session: string, tail: number, from: number, forward: boolean): Promise<number | undefined> {
    const [low, high] = forward ? [from + 1, tail] : [0, from];
    if (low >= high) return undefined;
    const strip = await get<Strip>(path`/v1/sessions/${session}/views/strip`, { from: low, to: high, buckets: 2000 });
    const buckets = strip.buckets.filter((bucket) => bucket.failed > 0);
    for (const bucket of forward ? buckets : buckets.reverse()) {
        const part = { from: Math.max(low, bucket.from), to: Math.min(high, bucket.from + strip.width), kinds: "failed", limit: 500 };
        if (part.from >= part.to) continue;
        const { rows } = await get<Rows>(path`/v1/sessions/${session}/views/rows`, part);
        const places = rows.map((row) => row.of ?? row.position).filter((at) => (forward ? at > from : at < from));
        const found = forward ? places[0] : places[places.length - 1];
        if (found !== undefined) return found;
    }
    return undefined;
}
