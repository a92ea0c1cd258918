// A session drawn: how full the context was, what it did and what it cost, and which sessions of the
// workspace touched which files. A click goes to the event.
import { useMemo, useState } from "preact/hooks";
import uPlot from "uplot";
import { get, path, post } from "../api";
import { count, place, plural, second, short, time } from "../format";
import { Empty, Loading, Problem } from "../parts";
import { type Colours, Plot } from "../plot";
import { go, link } from "../route";
import { Line } from "../text";
import type { Bucket, EntityList, Session, Strip, StripMark, Usage, UsageRow } from "../types";
import { type Answer, useAnswer } from "../use";

const MARKS: Record<string, string> = { compaction: "compaction", checkpoint: "checkpoint", clear: "cleared", fork: "fork", gap: "lost", injected: "brief" };

export function Plots({ session, usage, stamp }: { session: Session; usage: Answer<Usage>; stamp: number }) {
    const strip = useAnswer((signal) => get<Strip>(path`/v1/sessions/${session.id}/views/strip`, { buckets: 600 }, signal), [session.id], 0, stamp);
    return (
        <div class="page-part">
            {strip.error !== undefined && <Problem error={strip.error} what="The session cannot be drawn." again={strip.again} />}
            {strip.value === undefined && strip.error === undefined && <Loading what="the plots" />}
            {strip.value !== undefined && <Drawn session={session} strip={strip.value} />}
            {usage.value !== undefined && <Spent usage={usage.value} />}
            {session.workspace != null ? <FilesBySession workspace={session.workspace} since={stamp} /> : <section><h2>Files of the workspace</h2><Empty>This session names no workspace, so it shares no files with others.</Empty></section>}
        </div>
    );
}

function axes(colour: Colours, value: (n: number) => string, at: (position: number) => string): uPlot.Axis[] {
    const shared = { stroke: colour.quiet, grid: { stroke: colour.line, width: 1 }, ticks: { stroke: colour.line, width: 1 }, font: "12px system-ui, sans-serif" };
    return [
        { ...shared, space: 90, values: (_plot, ticks) => ticks.map((tick) => at(tick)) },
        { ...shared, size: 56, values: (_plot, ticks) => ticks.map((tick) => value(tick)) },
    ];
}

/** Draws limits across, and marks down. */
function drawMarks(colour: Colours, marks: StripMark[], lines: { at: number; colour: string }[]): uPlot.Hooks.Arrays {
    const draw = (plot: uPlot) => {
        const { ctx } = plot;
        const { left, top, width, height } = plot.bbox;
        ctx.save();
        ctx.lineWidth = devicePixelRatio;
        for (const line of lines) {
            const y = plot.valToPos(line.at, "y", true);
            if (y < top || y > top + height) continue;
            ctx.strokeStyle = line.colour;
            ctx.setLineDash([6, 4]);
            ctx.beginPath();
            ctx.moveTo(left, y);
            ctx.lineTo(left + width, y);
            ctx.stroke();
        }
        ctx.setLineDash([]);
        for (const mark of marks) {
            const x = plot.valToPos(mark.position, "x", true);
            if (x < left || x > left + width) continue;
            ctx.strokeStyle = mark.kind === "compaction" ? colour.warm : mark.kind === "gap" ? colour.bad : colour.quiet;
            ctx.globalAlpha = mark.kind === "compaction" || mark.kind === "gap" ? 1 : 0.35;
            ctx.beginPath();
            ctx.moveTo(x, top);
            ctx.lineTo(x, top + height);
            ctx.stroke();
        }
        ctx.restore();
    };
    return { draw: [draw] };
}

/** Bars of the plot of calls. */
const BARS_MAX = 120;
const BARS = { paths: uPlot.paths.bars!({ size: [0.8, 40], align: 1 }), points: { show: false } };

function bars(buckets: Bucket[]): uPlot.AlignedData {
    const each = Math.max(1, Math.ceil(buckets.length / BARS_MAX));
    const groups = Array.from({ length: Math.ceil(buckets.length / each) }, (_, index) => buckets.slice(index * each, (index + 1) * each));
    const sum = (value: (bucket: Bucket) => number) => groups.map((group) => group.reduce((total, one) => total + value(one), 0));
    return [groups.map((group) => group[0]!.from), sum((one) => one.calls), sum((one) => one.failed)];
}

function Drawn({ session, strip }: { session: Session; strip: Strip }) {
    const [said, say] = useState<number | undefined>(undefined);
    const { buckets } = strip;
    const made = useMemo(() => {
        const xs = buckets.map((one) => one.from);
        const running = (value: (bucket: (typeof buckets)[number]) => number) => {
            let sum = 0;
            return buckets.map((one) => (sum += value(one)));
        };
        return {
            fill: [xs, buckets.map((one) => one.tokens ?? null)] as uPlot.AlignedData,
            work: bars(buckets),
            out: [xs, running((one) => one.output_tokens ?? 0)] as uPlot.AlignedData,
        };
    }, [strip]);
    const hasTokens = buckets.some((one) => one.tokens !== undefined);
    const hasOutput = buckets.some((one) => (one.output_tokens ?? 0) > 0);
    const times = buckets.flatMap((one) => (one.at === undefined ? [] : [Date.parse(one.at)]));
    const isShort = (times.at(-1) ?? 0) - (times[0] ?? 0) < 900_000;
    const at = (position: number) => {
        // Bookkeeping that was imported has no time of its own: the nearest work before it says more.
        let index = Math.min(buckets.length - 1, Math.max(0, Math.floor((position - strip.from) / strip.width)));
        const works = (one: (typeof buckets)[number] | undefined) => one !== undefined && one.user + one.agent + one.calls > 0;
        while (index > 0 && !works(buckets[index])) index -= 1;
        if (!works(buckets[index])) index = Math.max(0, buckets.findIndex(works));
        const bucket = buckets[index];
        return bucket?.at === undefined ? String(Math.round(position)) : isShort ? second(bucket.at) : time(bucket.at);
    };
    const pick = (position: number) => go(link(["s", session.id, "e", position]));
    const scales = { x: { time: false, range: [strip.from, Math.max(strip.from + 1, strip.to)] as uPlot.Range.MinMax } };
    const cursor: uPlot.Cursor = { y: false, points: { size: 6 }, drag: { x: false, y: false } };
    const follow: uPlot.Hooks.Arrays = {
        setCursor: [(plot: uPlot) => {
            const position = plot.cursor.idx == null ? undefined : plot.data[0][plot.cursor.idx];
            say(position === undefined ? undefined : Math.floor((position - strip.from) / strip.width));
        }],
    };
    const hooks = (colour: Colours, marks: StripMark[], lines: { at: number; colour: string }[] = []) => ({ ...drawMarks(colour, marks, lines), ...follow });
    const here = said === undefined ? undefined : buckets[said];
    const marks = strip.marks.filter((mark) => mark.kind !== "checkpoint");
    return (
        <>
            <section>
                <h2>Context over time</h2>
                {hasTokens ? (
                    <>
                        <Plot
                            label={`Tokens in the model's context over the session: at most ${Math.max(...buckets.map((one) => one.tokens ?? 0))}, with a limit of ${strip.limit}`}
                            data={made.fill}
                            pick={pick}
                            options={(colour) => ({
                                scales: { ...scales, y: { range: (_plot: uPlot, _low: number, high: number) => [0, Math.max(high, high > strip.threshold * 0.6 ? strip.limit : high) * 1.05] as uPlot.Range.MinMax } },
                                series: [{}, { stroke: colour.accent, fill: `${colour.accent}22`, width: 1.5, spanGaps: true, points: { show: false } }],
                                axes: axes(colour, short, at),
                                cursor,
                                hooks: hooks(colour, marks, [{ at: strip.limit, colour: colour.bad }, { at: strip.threshold, colour: colour.warm }]),
                            })}
                        />
                        <p class="quiet">
                            <span class="key accent" /> tokens in the context <span class="key bad" /> limit {short(strip.limit)} <span class="key warm" /> threshold {short(strip.threshold)}, and compactions
                        </p>
                    </>
                ) : (
                    <Empty>No request of the model was recorded with its tokens. Hooks and imports of transcripts record them.</Empty>
                )}
            </section>
            <section>
                <h2>Calls and failures</h2>
                <Plot
                    label={`Calls of tools over the session: ${buckets.reduce((sum, one) => sum + one.calls, 0)}, of them ${buckets.reduce((sum, one) => sum + one.failed, 0)} failed`}
                    data={made.work}
                    height={140}
                    pick={pick}
                    options={(colour) => ({
                        scales: { ...scales, y: { range: (_plot: uPlot, _low: number, high: number) => [0, Math.max(1, high)] as uPlot.Range.MinMax } },
                        series: [{}, { fill: colour.accent, width: 0, ...BARS }, { fill: colour.bad, width: 0, ...BARS }],
                        axes: axes(colour, (n) => (Number.isInteger(n) ? String(n) : ""), at),
                        cursor,
                        hooks: hooks(colour, []),
                    })}
                />
                <p class="quiet"><span class="key accent" /> calls <span class="key bad" /> failed, in each {plural(made.work[0].length > 1 ? (made.work[0][1] ?? 0) - (made.work[0][0] ?? 0) : strip.width, "event")}</p>
            </section>
            {hasOutput && (
                <section>
                    <h2>Tokens that the model wrote</h2>
                    <Plot
                        label={`Output tokens, added up: ${made.out[1]?.at(-1) ?? 0}`}
                        data={made.out}
                        height={140}
                        pick={pick}
                        options={(colour) => ({
                            scales: { ...scales, y: { range: (_plot: uPlot, _low: number, high: number) => [0, Math.max(1, high)] as uPlot.Range.MinMax } },
                            series: [{}, { stroke: colour.good, width: 1.5, points: { show: false } }],
                            axes: axes(colour, short, at),
                            cursor,
                            hooks: hooks(colour, []),
                        })}
                    />
                </section>
            )}
            <p class="said" role="status">
                {here === undefined ? "Point at a plot to read it; a click opens the event." : <>{here.at === undefined ? "" : `${time(here.at)}, `}from @{here.from}: {plural(here.calls, "call")}, {count(here.failed)} failed{here.tokens !== undefined && `, context ${count(here.tokens)} tokens`}</>}
            </p>
            {strip.marks.length > 0 && (
                <details>
                    <summary>{plural(strip.marks.length, "mark")}: compactions, briefs, checkpoints, forks</summary>
                    <ul class="marks">
                        {strip.marks.slice(0, 200).map((mark) => <li><a href={link(["s", session.id, mark.kind === "compaction" || mark.kind === "injected" ? "told" : "e", mark.kind === "compaction" || mark.kind === "injected" ? mark.position + 1 : mark.position])}>@{mark.position} {MARKS[mark.kind] ?? mark.kind}</a> <Line text={mark.label} /></li>)}
                    </ul>
                </details>
            )}
        </>
    );
}

function Spent({ usage }: { usage: Usage }) {
    const groups: [string, UsageRow[], string][] = [
        ["Model", usage.by_model, "without a name"],
        ["Agent", usage.by_thread.length > 1 ? usage.by_thread : [], "of the session"],
        ["Day", usage.by_day.length > 1 ? usage.by_day : [], "unknown"],
    ];
    if (usage.requests === 0) return null;
    return (
        <section>
            <h2>What it cost</h2>
            {usage.cost_usd !== undefined && <p>The program reported <b>{usage.cost_usd.toFixed(2)} USD</b>.</p>}
            <div class="scroll-x" tabindex={0}>
                <table>
                    <thead><tr><th scope="col">Part</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Input</th><th scope="col" class="n">from cache</th><th scope="col" class="n">Output</th></tr></thead>
                    <tbody>
                        <tr><th scope="row">All</th><td class="n">{count(usage.requests)}</td><td class="n">{count(usage.input_tokens)}</td><td class="n">{count(usage.cached_tokens)}</td><td class="n">{count(usage.output_tokens)}</td></tr>
                        {groups.flatMap(([name, rows, unnamed]) => rows.slice(0, 30).map((row) => (
                            <tr><th scope="row">{name} <span class="mono"><Line text={row.key ?? unnamed} /></span></th><td class="n">{count(row.requests)}</td><td class="n">{count(row.input_tokens)}</td><td class="n">{count(row.cached_tokens)}</td><td class="n">{count(row.output_tokens)}</td></tr>
                        )))}
                    </tbody>
                </table>
            </div>
        </section>
    );
}

/** Which sessions of a workspace touched which files. */
export function FilesBySession({ workspace, since }: { workspace: string; since: unknown }) {
    const files = useAnswer(
        () => post<EntityList>(path`/v1/workspaces/${workspace}/entities/query`, { types: ["file"], include_sessions: true, limit: 25, wait_ms: 2000 }),
        [workspace],
        0,
        since,
    );
    const entities = files.value?.entities ?? [];
    const sessions = [...new Map(entities.flatMap((file) => file.named_in ?? []).sort((a, b) => (a.last_at < b.last_at ? -1 : 1)).map((one) => [one.session, one])).keys()].slice(-16);
    const most = Math.max(1, ...entities.flatMap((file) => (file.named_in ?? []).map((one) => one.count)));
    return (
        <section>
            <h2>Files of the workspace by session</h2>
            {files.error !== undefined && <Problem error={files.error} what="The files cannot be listed." again={files.again} />}
            {files.value !== undefined && entities.length === 0 && <Empty>No file was named in this workspace yet, or the index is still behind.</Empty>}
            {entities.length > 0 && (
                <div class="scroll-x" tabindex={0}>
                    <table class="matrix">
                        <thead><tr><th scope="col">File</th>{sessions.map((session) => <th scope="col"><a href={link(["s", session])} title={session}>{session.slice(0, 6)}</a></th>)}</tr></thead>
                        <tbody>
                            {entities.map((file) => (
                                <tr>
                                    <th scope="row"><a class="mono" href={link(["why"], { path: file.id, workspace })} title={file.id}><Line text={place(file.id)} /></a></th>
                                    {sessions.map((session) => {
                                        const named = file.named_in?.find((one) => one.session === session);
                                        return <td>{named !== undefined && <a class="cell" href={link(["s", session], { q: place(file.id).split("/").pop() })} title={`${file.id}: ${plural(named.count, "time")}`}><svg viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r={2 + 5.5 * Math.sqrt(named.count / most)} /></svg><span class="aloud">{named.count}</span></a>}</td>;
                                    })}
                                </tr>
                            ))}
                        </tbody>
                    </table>
                </div>
            )}
        </section>
    );
}
