// The tail of a session while an agent works: a stream of server-sent events read by fetch, so that
// the token goes in a header. It only says that the session grew; rows are read by position, so
// that nothing is missed and nothing comes twice, whatever the connection does.
import { useEffect, useState } from "preact/hooks";
import { headers, path, tokenAfter } from "./api";
import { usePaced } from "./use";

export type LiveState = "live" | "waiting" | "ended";

interface Listener {
    /** The session has events before this position. */
    grew: (tail: number) => void;
    state: (state: LiveState) => void;
}

const RETRY_MS_MIN = 300;
const RETRY_MS_MAX = 5000;

/** What a session that grows is asked for again, at most so often. */
const ASK_MS = 3000;
/** The stream begins so much later: what is shown first comes first. */
const FOLLOW_MS = 50;

export interface Tail {
    /** The session has events before this position. */
    tail: number;
    state: LiveState;
    /** Changes, at a bounded pace, when the session grew, was lost and found again, or ended. */
    stamp: number;
}

/** Follows a session for all parts of its screen. */
export function useTail(session: string, from: number): Tail {
    const [live, set] = useState({ tail: from, state: "waiting" as LiveState, turn: 0 });
    useEffect(() => {
        let stop = () => {};
        const start = setTimeout(() => {
            let wasLost = false;
            stop = follow(session, from, {
                grew: (tail) => set((now) => ({ ...now, tail: Math.max(tail, now.tail), turn: now.turn + 1 })),
                state: (state) => {
                    const turned = state === "ended" || (state === "live" && wasLost) ? 1 : 0;
                    wasLost = state === "waiting";
                    set((now) => ({ ...now, state, turn: now.turn + turned }));
                },
            });
        }, FOLLOW_MS);
        return () => {
            clearTimeout(start);
            stop();
        };
    }, [session]);
    return { tail: live.tail, state: live.state, stamp: usePaced(live.turn, ASK_MS) };
}

/** Follows the session from a position on, until the answer is called. */
export function follow(session: string, from: number, listener: Listener): () => void {
    const stop = new AbortController();
    let next = from;
    const line = (text: string): boolean => {
        if (text.startsWith("id:")) {
            const position = Number(text.slice(3));
            if (Number.isInteger(position) && position >= next) {
                next = position + 1;
                listener.grew(next);
            }
        } else if (text.startsWith("data:") && text.includes('"type":"ping"')) {
            // A quiet stream says its tail.
            const tail = Number(/"tail":(\d+)/.exec(text)?.[1] ?? 0);
            if (tail > next) listener.grew(tail);
        } else if (text === "event: error") return false;
        return true;
    };
    const run = async () => {
        let retry = RETRY_MS_MIN;
        while (!stop.signal.aborted) {
            const credential = headers();
            try {
                const answer = await fetch(`${path`/v1/sessions/${session}/events/stream`}?from=${next}`, {
                    headers: { Accept: "text/event-stream", ...credential },
                    credentials: "omit",
                    cache: "no-store",
                    signal: stop.signal,
                });
                if (answer.status === 401) {
                    await tokenAfter(credential["Authorization"]);
                    continue;
                }
                if (answer.status >= 400 && answer.status < 500 && answer.status !== 429) {
                    listener.state("ended");
                    return;
                }
                if (answer.ok && answer.body !== null) {
                    listener.state("live");
                    retry = RETRY_MS_MIN;
                    if (!(await read(answer.body, line))) {
                        listener.state("ended");
                        return;
                    }
                }
            } catch {
                if (stop.signal.aborted) return;
            }
            listener.state("waiting");
            await new Promise((wake) => setTimeout(wake, retry));
            retry = Math.min(retry * 2, RETRY_MS_MAX);
        }
    };
    void run();
    return () => stop.abort();
}

/** Gives every line that is short enough to matter; false when a line ended the session. */
async function read(body: ReadableStream<Uint8Array<ArrayBuffer>>, line: (text: string) => boolean): Promise<boolean> {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done) return true;
        const lines = (rest + value).split("\n");
        // Of a line that is not at its end the beginning is enough: bodies are of no use here.
        rest = (lines.pop() ?? "").slice(0, 4096);
        for (const one of lines) if (!line(one.replace(/\r$/, ""))) return false;
    }
}
