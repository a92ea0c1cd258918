// Two sessions side by side: what they share, where they part, and what each did then.
import { get, path } from "../api";
import { count, plural, time } from "../format";
import { Empty, Loading, Problem, Session as SessionLink } from "../parts";
import { link, type Route } from "../route";
import { Line } from "../text";
import type { Compared, Hunk, Row, Session } from "../types";
import { useAnswer, useInterval, useTitle } from "../use";

/** Rows of one side of a hunk that are shown. */
const SHOWN = 60;

export function Compare({ route }: { route: Route }) {
    const [, a = "", b = ""] = route.parts;
    useTitle("Compare");
    const sides = useAnswer((signal) => Promise.all([a, b].map((id) => get<Session>(path`/v1/sessions/${id}`, {}, signal))), [a, b]);
    useInterval(sides.again, 5000);
    const compared = useAnswer(
        (signal) => get<Compared>(path`/v1/sessions/${a}/compare`, { with: b, at: route.query.get("at") ?? undefined, with_at: route.query.get("with_at") ?? undefined }, signal),
        [a, b, route.query.toString()],
        0,
        sides.value?.map((side) => side.tail).join(),
    );
    const [left, right] = sides.value ?? [];
    return (
        <main class="page wide">
            <h1>Compare two sessions</h1>
            {compared.error !== undefined && <Problem error={compared.error} what="They cannot be compared." again={compared.again} />}
            {compared.value === undefined && compared.error === undefined && <Loading what="the comparison" />}
            <div class="sides head">
                <p><b>A</b> <SessionLink id={a} title={left?.title} /></p>
                <p><b>B</b> <SessionLink id={b} title={right?.title} /></p>
            </div>
            {compared.value !== undefined && (
                <>
                    <p>
                        {compared.value.common.until > 0 ? <>The first {plural(compared.value.common.until, "event")} are the same, {compared.value.common.by === "lineage" ? "because one was forked from the other" : "by their content"}.</> : "They share no beginning."}{" "}
                        {compared.value.first_difference === undefined ? "Nothing differs." : <>They part at <a href={link(["s", a, "e", compared.value.first_difference.a])}>A @{compared.value.first_difference.a}</a> and <a href={link(["s", b, "e", compared.value.first_difference.b])}>B @{compared.value.first_difference.b}</a>.</>}{" "}
                        {!compared.value.complete && "Only the first part was compared."}
                    </p>
                    {compared.value.hunks.length === 0 && <Empty>There is nothing to compare.</Empty>}
                    {compared.value.hunks.slice(0, 40).map((hunk) => <One a={a} b={b} hunk={hunk} />)}
                    {compared.value.hunks.length > 40 && <p class="quiet">{count(compared.value.hunks.length - 40)} later parts are not shown.</p>}
                </>
            )}
        </main>
    );
}

function One({ a, b, hunk }: { a: string; b: string; hunk: Hunk }) {
    const events = Math.max(hunk.a.to - hunk.a.from, hunk.b.to - hunk.b.from);
    if (hunk.kind === "same") return <p class="same"><a href={link(["s", a, "e", hunk.a.from])}>{plural(events, "equal event")}</a></p>;
    return (
        <div class="sides">
            <Side session={a} rows={hunk.rows_a} of={hunk.a.to - hunk.a.from} sign="minus" />
            <Side session={b} rows={hunk.rows_b} of={hunk.b.to - hunk.b.from} sign="plus" />
        </div>
    );
}

function Side({ session, rows, of, sign }: { session: string; rows: Row[] | undefined; of: number; sign: string }) {
    const shown = (rows ?? []).filter((row) => row.bookkeeping !== true && row.of === undefined);
    if (of === 0) return <div class="side"><p class="quiet">nothing here</p></div>;
    return (
        <div class="side">
            <ul>
                {shown.slice(0, SHOWN).map((row) => (
                    <li class={sign}><a href={link(["s", session, "e", row.position])}><time>{time(row.at)}</time> <span class="kind">{row.kind}</span> <span class={row.failed === true ? "failed" : undefined}><Line text={row.line} /></span></a></li>
                ))}
            </ul>
            {shown.length > SHOWN && <p class="quiet">and {plural(shown.length - SHOWN, "row")} more</p>}
            {shown.length === 0 && <p class="quiet">{plural(of, "event")} of bookkeeping</p>}
        </div>
    );
}
