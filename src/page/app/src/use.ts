// Hooks that every screen uses: an answer of the server, keys, a screen's title.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Refusal } from "./api";

export interface Answer<T> {
    value: T | undefined;
    error: Refusal | undefined;
    /** Asks again; what is shown stays until the answer is there. */
    again: () => void;
}

/** The answer of `ask`, which is asked again when `deps` change; with `after`, that many ms later, so
    that what a person waits for comes first. */
export function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T>, deps: unknown[], after = 0): Answer<T> {
    const [state, set] = useState<{ value?: T; error?: Refusal }>({});
    const [turn, next] = useState(0);
    const latest = useRef(deps.join("\n"));
    useEffect(() => {
        const stop = new AbortController();
        const key = deps.join("\n");
        if (latest.current !== key) {
            latest.current = key;
            set({});
        }
        const run = () =>
            void ask(stop.signal).then(
                (value) => stop.signal.aborted || set({ value }),
                (error: unknown) =>
                    stop.signal.aborted ||
                    set({ error: error instanceof Refusal ? error : new Refusal(0, "page", String(error), "reload the page") }),
            );
        const timer = after === 0 ? undefined : setTimeout(run, after);
        if (after === 0) run();
        return () => {
            clearTimeout(timer);
            stop.abort();
        };
    }, [...deps, turn]);
    return { value: state.value, error: state.error, again: useCallback(() => next((n) => n + 1), []) };
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
