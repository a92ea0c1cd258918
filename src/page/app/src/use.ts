// Hooks that every screen uses: an answer of the server, keys, a screen's title.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, Refusal } from "./api";
import type { SessionList } from "./types";

export interface Answer<T> {
    value: T | undefined;
    error: Refusal | undefined;
    /** Asks again; what is shown stays until the answer is there. */
    again: () => void;
}

/** The answer of `ask`, which is asked for anew when `deps` change; with `after`, that many ms later, so
    that what a person waits for comes first. When `since` changes, or at `again`, it is asked for once
    more and what is known stays: one request at a time, so that a slow one is not cut off by the next.
    A `since` that was undefined says nothing yet. */
export function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T>, deps: unknown[], after = 0, since?: unknown): Answer<T> {
    const [state, set] = useState<{ value?: T; error?: Refusal | undefined }>({});
    const current = useRef(ask);
    current.current = ask;
    const run = useRef(() => {});
    useEffect(() => {
        const stop = new AbortController();
        let isBusy = false;
        let isWanted = false;
        const asks = async () => {
            isWanted = true;
            if (isBusy) return;
            isBusy = true;
            while (isWanted && !stop.signal.aborted) {
                isWanted = false;
                const answer = await current.current(stop.signal).then(
                    (value) => ({ value, error: undefined }),
                    (error: unknown) => ({ error: error instanceof Refusal ? error : new Refusal(0, "page", String(error), "reload the page") }),
                );
                if (!stop.signal.aborted) set((known) => ({ ...known, ...answer }));
            }
            isBusy = false;
        };
        set((known) => ("value" in known || "error" in known ? {} : known));
        run.current = () => void asks();
        const timer = after === 0 ? undefined : setTimeout(run.current, after);
        if (after === 0) run.current();
        return () => {
            clearTimeout(timer);
            stop.abort();
        };
    }, deps);
    const known = useRef(since);
    useEffect(() => {
        const was = known.current;
        known.current = since;
        if (was !== undefined && was !== since) run.current();
    }, [since]);
    return { value: state.value, error: state.error, again: useCallback(() => run.current(), []) };
}

/** The value as it was at most `ms` ago: after a pause at once, while it moves every `ms`, and its last. */
export function usePaced<T>(value: T, ms: number): T {
    const [paced, set] = useState({ value, at: 0 });
    useEffect(() => {
        if (value === paced.value) return undefined;
        const timer = setTimeout(() => set({ value, at: Date.now() }), Math.max(0, paced.at + ms - Date.now()));
        return () => clearTimeout(timer);
    }, [value, paced]);
    return paced.value;
}

/** When the store was last written to, as far as it is known: what a screen of many sessions asks again by. */
export function useWritten(ms: number): string | undefined {
    const last = useAnswer((signal) => get<SessionList>("/v1/sessions", { limit: 1, sort: "updated", order: "desc", include_archived: true }, signal), []);
    useInterval(last.again, ms);
    const [first] = last.value?.data ?? [];
    return first && `${first.updated_at} ${first.tail}`;
}

/** Calls `act` for a key that is pressed outside of text fields; true says that it was used. */
export function useKeys(act: (key: string, event: KeyboardEvent) => boolean): void {
    const current = useRef(act);
    current.current = act;
    useEffect(() => {
        const pressed = (event: KeyboardEvent) => {
            if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
            const on = event.target;
            if (on instanceof HTMLElement && on.closest("input:not([type=range]), textarea, select, dialog")) return;
            if (current.current(event.key, event)) event.preventDefault();
        };
        addEventListener("keydown", pressed);
        return () => removeEventListener("keydown", pressed);
    }, []);
}

export function useTitle(title: string): void {
    useEffect(() => {
        document.title = title === "" ? "sessionlog" : `${title} - sessionlog`;
    }, [title]);
}

/** Calls `act` every `ms` while the page is visible. */
export function useInterval(act: () => void, ms: number): void {
    const current = useRef(act);
    current.current = act;
    useEffect(() => {
        const timer = setInterval(() => document.visibilityState === "visible" && current.current(), ms);
        return () => clearInterval(timer);
    }, [ms]);
}
