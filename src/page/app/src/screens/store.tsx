// The store: whether it is well, what it holds, what a verification finds, and how it was set up.
import { useState } from "preact/hooks";
import { get, post, Refusal, send } from "../api";
import { bytes, count, moment, plural, span, took } from "../format";
import { Empty, Loading, Problem, Session as SessionLink } from "../parts";
import { Line } from "../text";
import type { Damage, Keys, Owner, RecoveryReport, Retention, Shared, UsageRow, Verified } from "../types";
import { type Answer, useAnswer, useInterval, useTitle, useWritten } from "../use";

export function Store() {
    useTitle("Store");
    const written = useWritten(10_000);
    const ready = useAnswer((signal) => get<{ status: string }>("/readyz", {}, signal), []);
    const owner = useAnswer((signal) => get<Owner>("/v1/admin/owner", {}, signal), []);
    const recovery = useAnswer((signal) => get<RecoveryReport>("/v1/admin/recovery-report", {}, signal), []);
    const keys = useAnswer((signal) => get<Keys>("/v1/admin/keys", {}, signal), []);
    const retention = useAnswer((signal) => get<Retention>("/v1/admin/retention", { limit: 100 }, signal), [], 0, written);
    const days = useAnswer((signal) => get<{ rows: UsageRow[] }>("/v1/usage", { by: "day" }, signal), [], 0, written);
    const metrics = useAnswer(async (signal) => (await send("/metrics", { signal })).text(), [], 0, written);
    useInterval(() => {
        ready.again();
        if (owner.value?.shared != null) owner.again();
    }, 5000);
    return (
        <main class="page">
            <h1>Store</h1>
            <section>
                <h2>Health</h2>
                <p>
                    {ready.error !== undefined ? <span class="state damaged">not reached</span> : ready.value === undefined ? "asking…" : <span class={`state ${ready.value.status === "ready" ? "well" : "damaged"}`}>{ready.value.status}</span>}{" "}
                    {ready.error !== undefined && <Line text={ready.error.action} />}
                </p>
                <Answered answer={owner} what="The owner is shown with the scope that allows it.">
                    {(value) => (
                        <dl class="pairs">
                            <div><dt>Version</dt><dd>{value.version}</dd></div>
                            <div><dt>Process</dt><dd>{value.pid}{value.on_demand && ", started on demand"}</dd></div>
                            <div><dt>Data directory</dt><dd class="mono"><Line text={value.data_dir} /></dd></div>
                        </dl>
                    )}
                </Answered>
            </section>
            {owner.value?.shared != null && <Nodes of={owner.value.shared} />}
            <Verification />
            {owner.value?.shared == null && (
                <section>
                    <h2>Last recovery</h2>
                    <Answered answer={recovery} what="The recovery report is shown with the scope that allows it.">
                        {(value) => (
                            <>
                                <p>
                                    {value.clean ? "The store was closed cleanly." : "The store was not closed cleanly; what was acknowledged is there."} {plural(value.sessions, "session")} read in {took(value.micros / 1000)}
                                    {value.frames_replayed > 0 && <>, {plural(value.frames_replayed, "frame")} of the journal replayed</>}
                                    {value.torn_bytes > 0 && <>, {bytes(value.torn_bytes)} cut that no caller was acknowledged</>}
                                    {value.made_good > 0 && <>, {plural(value.made_good, "file")} made good</>}.
                                </p>
                                {value.damage.length > 0 && <ul class="bad">{value.damage.map((line) => <li><Line text={line} /></li>)}</ul>}
                                {value.quarantined.length > 0 && <p>Set aside: {value.quarantined.map((line) => <span class="mono"><Line text={line} /> </span>)}</p>}
                                <p class="quiet">Read again in the background: {plural(value.scrub.rounds, "round")}, {plural(value.scrub.sessions, "session")}, {bytes(value.scrub.bytes)}{value.scrub.found.length === 0 ? ", nothing wrong found." : ":"} {value.scrub.found.map((line) => <Line text={line} />)}</p>
                            </>
                        )}
                    </Answered>
                </section>
            )}
            <section>
                <h2>Encryption</h2>
                <Answered answer={keys} what="Keys are shown with the scope operator.">
                    {(value) =>
                        value.encrypted ? (
                            <p>{value.opens ? "Encrypted, and the master key that is given opens it." : "Encrypted, and no key that is given opens it: its sessions cannot be read. Start the server with key_file or key_command."} {plural(value.keys, "key")} of sessions; {count(value.destroyed)} destroyed by erasure, {count(value.unreadable)} unreadable{value.behind > 0 && <>; {count(value.behind)} still under an earlier master key (<code>sessionlog keys rotate</code>)</>}.</p>
                        ) : (
                            <Empty>Not encrypted. A store is encrypted when it is made with <code>key_file</code> or <code>key_command</code>; <code>sessionlog migrate</code> moves this one into an encrypted one.</Empty>
                        )
                    }
                </Answered>
            </section>
            <section>
                <h2>Retention</h2>
                <Answered answer={retention} what="Retention is shown with the scope that allows it.">
                    {(value) => {
                        const due = value.data.filter((row) => row.due || row.stage !== "alive");
                        return (
                            <>
                                <p>A session expires after {span(value.retention_seconds)} without use. {due.length === 0 && "None is due."}</p>
                                {due.length > 0 && <ul class="plain">{due.slice(0, 50).map((row) => <li><SessionLink id={row.session} title={row.title} /> <span class="state">{row.stage}</span> {row.next}{row.at != null && <> on {moment(row.at)}</>} <small><Line text={row.why} /></small></li>)}</ul>}
                            </>
                        );
                    }}
                </Answered>
            </section>
            {(days.value?.rows.length ?? 0) > 0 && (
                <section>
                    <h2>Tokens by day</h2>
                    <div class="scroll-x" tabindex={0}>
                        <table>
                            <thead><tr><th scope="col">Day</th><th scope="col" class="n">Requests</th><th scope="col" class="n">Input</th><th scope="col" class="n">from cache</th><th scope="col" class="n">Output</th><th scope="col" class="n">USD</th></tr></thead>
                            <tbody>{days.value?.rows.slice(-31).reverse().map((row) => <tr><th scope="row">{row.key}</th><td class="n">{count(row.requests)}</td><td class="n">{count(row.input_tokens)}</td><td class="n">{count(row.cached_tokens)}</td><td class="n">{count(row.output_tokens)}</td><td class="n">{row.cost_usd?.toFixed(2) ?? ""}</td></tr>)}</tbody>
                        </table>
                    </div>
                </section>
            )}
            <section>
                <h2>Settings</h2>
                {owner.value !== undefined && <Settings of={owner.value.settings} />}
                <p class="quiet"><code>sessionlog config</code> says what each of them does.</p>
            </section>
            {metrics.value !== undefined && <details><summary>Metrics</summary><pre class="box" tabindex={0}>{metrics.value.slice(0, 60_000)}</pre></details>}
        </main>
    );
}

const DURABILITY = {
    weak: "A crash of the database may lose what was acknowledged.",
    single: "What was acknowledged survives a crash of the database, not the loss of its server.",
    replicated: "What was acknowledged is on a synchronous standby as well.",
};

/** Processes that share the store, as the one that answers knows them. */
function Nodes({ of }: { of: Shared }) {
    return (
        <section>
            <h2>Nodes</h2>
            <p>{plural(of.nodes.length, "node")} over one database. <span class={`state ${of.durability === "weak" ? "damaged" : "well"}`}>{of.durability}</span> {DURABILITY[of.durability]}</p>
            <div class="scroll-x" tabindex={0}>
                <table>
                    <thead><tr><th scope="col">Machine and process</th><th scope="col">Version</th><th scope="col">Last report</th><th scope="col">Settings</th></tr></thead>
                    <tbody>{of.nodes.map((node, at) => <tr><th scope="row" class="mono"><Line text={node.place} />{at === 0 && " (answers here)"}</th><td class="mono"><Line text={node.version} /></td><td>{took(node.silent_ms)} ago</td><td>{node.alike ? "as here" : <><span class="state damaged">differ</span> in lifetimes or version: give all nodes the same</>}</td></tr>)}</tbody>
                </table>
            </div>
        </section>
    );
}

/** Settings with their sources: those that somebody set are open. */
function Settings({ of }: { of: Owner["settings"] }) {
    const table = (rows: Owner["settings"]) => (
        <div class="scroll-x" tabindex={0}>
            <table>
                <thead><tr><th scope="col">Setting</th><th scope="col">Value</th><th scope="col">From</th></tr></thead>
                <tbody>{rows.map((row) => <tr><th scope="row" class="mono">{row.name}</th><td class="mono">{row.value === null ? "not set" : <Line text={row.value} />}</td><td><Line text={row.source} /></td></tr>)}</tbody>
            </table>
        </div>
    );
    const set = of.filter((row) => row.source !== "default");
    const others = of.filter((row) => row.source === "default");
    return (
        <>
            {set.length === 0 ? <Empty>Nothing was set: every setting has its default.</Empty> : table(set)}
            {others.length > 0 && <details><summary>{plural(others.length, "setting")} with their defaults</summary>{table(others)}</details>}
        </>
    );
}

function Answered<T>({ answer, what, children }: { answer: Answer<T>; what: string; children: (value: T) => preact.ComponentChild }) {
    if (answer.error instanceof Refusal) return answer.error.status === 403 ? <Empty>{what}</Empty> : <Problem error={answer.error} what="" again={answer.again} />;
    if (answer.value === undefined) return <Loading what="this" />;
    return <>{children(answer.value)}</>;
}

function Verification() {
    const [state, set] = useState<"idle" | "busy" | Verified | Error>("idle");
    const run = () => {
        set("busy");
        post<Verified>("/v1/admin/verify", {}).then(set, set);
    };
    const lost = (of: Damage[]) => <ul class="plain">{of.map((one) => <li><SessionLink id={one.session} at={one.from} /> positions {one.from} to {one.to - 1}: <Line text={one.reason} /></li>)}</ul>;
    return (
        <section>
            <h2>Verify</h2>
            <p>Reads every session, and checks every checksum and the chain. <button type="button" disabled={state === "busy"} onClick={run}>{state === "busy" ? "Reading…" : "Verify now"}</button></p>
            <div role="status">
                {state instanceof Error && <p class="bad">It could not be verified: <Line text={state.message} /></p>}
                {typeof state === "object" && !(state instanceof Error) && (
                    <>
                        <p><span class={`state ${state.damage.length === 0 ? "well" : "damaged"}`}>{state.damage.length === 0 ? "all well" : "damaged"}</span> {plural(state.sessions, "session")}, {plural(state.events, "event")}, {bytes(state.bytes)} read.</p>
                        {state.damage.length > 0 && lost(state.damage)}
                        {state.accepted.length > 0 && <><p>Losses that were accepted:</p>{lost(state.accepted)}</>}
                    </>
                )}
            </div>
        </section>
    );
}
