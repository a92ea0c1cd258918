// Why a file is as it is: every session that changed it, the request behind each change, its diff.
import { useState } from "preact/hooks";
import { get } from "../api";
import { changes, command } from "../body";
import { moment, place, plural } from "../format";
import { Box, Diff, Empty, Loading, Problem, Session as SessionLink } from "../parts";
import { go, link, type Route } from "../route";
import { event, readRow } from "../rows";
import { Line } from "../text";
import type { Event, FileChange, FileChanges } from "../types";
import { useAnswer, usePaced, useTitle, useWritten } from "../use";

/** How often it is looked whether the store was written to, and how often the changes are asked for. */
const LOOK_MS = 5000;
const ASK_MS = 20_000;

export function Why({ route }: { route: Route }) {
    const file = route.query.get("path") ?? "";
    const workspace = route.query.get("workspace") ?? "";
    useTitle(file === "" ? "Why" : `Why ${place(file)}`);
    const full = file === "" || file.startsWith("/") ? file : `${workspace.replace(/\/$/, "")}/${file}`;
    // The index names files without the first slash, those of the workspace within it.
    const also = full === file ? undefined : `/${file}`;
    const found = useAnswer(async (signal) => (full === "" ? undefined : get<FileChanges>("/v1/file-changes", { file: full, also, limit: 100 }, signal)), [full], 0, usePaced(useWritten(LOOK_MS), ASK_MS));
    const submit = (submitted: SubmitEvent) => {
        submitted.preventDefault();
        const input = (submitted.currentTarget as HTMLFormElement).elements.namedItem("path") as HTMLInputElement;
        go(link(["why"], { path: input.value.trim(), workspace }));
    };
    const total = found.value?.data.reduce((sum, one) => sum + one.changes.length, 0) ?? 0;
    return (
        <main class="page">
            <h1>Why did this file change?</h1>
            <form class="bar-form" onSubmit={submit}>
                <label class="aloud" for="path">Path of the file</label>
                <input id="path" name="path" data-slash="1" key={file} defaultValue={file} placeholder="/home/you/project/src/main.rs" autocomplete="off" spellcheck={false} required />
                <button type="submit">Show</button>
            </form>
            {full === "" && <Empty>Give the whole path of a file; or open a session, and choose one of its changed files.</Empty>}
            {found.error !== undefined && <Problem error={found.error} what="Its changes cannot be listed." again={found.again} />}
            {full !== "" && found.value === undefined && found.error === undefined && <Loading what="changes" />}
            {found.value !== undefined && total === 0 && <Empty>No recorded session changed this file by a tool. A command such as sed may have; <a href={link(["search"], { q: place(file) })}>search for its name</a>.</Empty>}
            {total > 0 && <p class="quiet">{plural(total, "change")} in {plural(found.value?.data.length ?? 0, "session")}, the newest first.{found.value?.complete === false && " Older sessions were not looked at."}</p>}
            {found.value?.data.map((one) => (
                <section class="group" key={one.session}>
                    <h2><SessionLink id={one.session} title={one.title} /> <small>{moment(one.updated_at)}</small></h2>
                    <Requests session={one.session} file={full} changes={[...one.changes].reverse()} />
                </section>
            ))}
        </main>
    );
}

/** Changes under the request that a person made before them. */
function Requests({ session, file, changes: all }: { session: string; file: string; changes: FileChange[] }) {
    const groups: { asked: FileChange["asked"]; changes: FileChange[] }[] = [];
    for (const change of all) {
        const last = groups[groups.length - 1];
        if (last !== undefined && last.asked?.position === change.asked?.position) last.changes.push(change);
        else groups.push({ asked: change.asked, changes: [change] });
    }
    return (
        <>
            {groups.map((group) => (
                <div class="asked">
                    <p class="request">
                        {group.asked == null ? <span class="quiet">No request was recorded before it.</span> : <><a class="position" href={link(["s", session, "e", group.asked.position])}>@{group.asked.position}</a> <Line text={group.asked.text} /></>}
                    </p>
                    <ul>{group.changes.map((change, index) => <One key={change.position} session={session} file={file} change={change} isFirst={index === 0} />)}</ul>
                </div>
            ))}
        </>
    );
}

function One({ session, file, change, isFirst }: { session: string; file: string; change: FileChange; isFirst: boolean }) {
    const [open, set] = useState(isFirst);
    return (
        <li>
            <details open={open} onToggle={(toggled: { currentTarget: HTMLDetailsElement }) => set(toggled.currentTarget.open)}>
                <summary><span class="tool"><Line text={change.tool} /></span> {change.how} <small>{moment(change.at)}</small></summary>
                <a class="position" href={link(["s", session, "e", change.position])}>in the session @{change.position}</a>
                {open && <Shown session={session} file={file} position={change.position} />}
            </details>
        </li>
    );
}

/** The call at a position; where its result is there, the call that it answers. */
async function callAt(session: string, position: number, signal: AbortSignal): Promise<Event | undefined> {
    return event(session, (await readRow(session, position, signal))?.of ?? position, signal);
}

function Shown({ session, file, position }: { session: string; file: string; position: number }) {
    const read = useAnswer((signal) => callAt(session, position, signal), [session, position]);
    if (read.error !== undefined) return <Problem error={read.error} what="The change cannot be read." />;
    if (read.value === undefined) return <Loading what="the change" />;
    const input = read.value["input"];
    const made = changes(input);
    const run = command(input);
    // A patch may change other files, too.
    const own = made.filter((change) => change.path !== "" && file.endsWith(change.path.replace(/^\.\//, "")));
    if (made.length > 0) return <>{(own.length > 0 ? own : made).map((change) => <Diff change={change} />)}</>;
    if (run !== undefined) return <Box label="Command that changed it" content={run} />;
    return <p class="quiet">Its input has no text to compare; <a href={link(["s", session, "e", position])}>open the event</a>.</p>;
}
