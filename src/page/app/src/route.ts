// Where the page is, as text of the fragment: every state of it is a link.
import { useEffect, useState } from "preact/hooks";

export interface Route {
    /** The parts of the path, decoded. */
    parts: string[];
    query: URLSearchParams;
}

function decoded(part: string): string {
    try {
        return decodeURIComponent(part);
    } catch {
        return part;
    }
}

export function parse(fragment: string): Route {
    const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
    return { parts: path.split("/").filter((part) => part !== "").map(decoded), query: new URLSearchParams(query) };
}

/** The fragment of a place: `link(["s", id], {q})`. */
export function link(parts: (string | number)[], query: Record<string, string | number | undefined> = {}): string {
    const pairs = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") pairs.set(name, String(value));
    const text = pairs.toString();
    return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}${text === "" ? "" : `?${text}`}`;
}

export function go(to: string): void {
    location.hash = to;
}

/** Changes the address without a step of history: a person who moves through rows keeps "back". */
export function settle(to: string): void {
    if (location.hash !== to) history.replaceState(null, "", to);
}

export function useRoute(): Route {
    const [route, set] = useState(() => parse(location.hash));
    useEffect(() => {
        const changed = () => set(parse(location.hash));
        addEventListener("hashchange", changed);
        return () => removeEventListener("hashchange", changed);
    }, []);
    return route;
}
