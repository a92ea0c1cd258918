// Numbers, times and names as a person reads them.

const dateOf = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", year: "numeric" });
const dayOf = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

const valid = (at: string) => !Number.isNaN(Date.parse(at));

export function day(at: string): string {
    return valid(at) ? dateOf.format(new Date(at)) : at;
}
export function time(at: string): string {
    return valid(at) ? clock.format(new Date(at)) : "";
}
export function second(at: string): string {
    return valid(at) ? clockSeconds.format(new Date(at)) : "";
}
export function moment(at: string): string {
    return valid(at) ? `${dateOf.format(new Date(at))}, ${clockSeconds.format(new Date(at))}` : at;
}

/** "5 min ago", "yesterday, 14:20", "3 Jun": what says most in a list. */
export function when(at: string, now = Date.now()): string {
    if (!valid(at)) return at;
    const then = new Date(at);
    const seconds = (now - then.getTime()) / 1000;
    if (seconds < 60) return seconds < -60 ? moment(at) : "just now";
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
    const today = new Date(now);
    if (then.toDateString() === today.toDateString()) return clock.format(then);
    today.setDate(today.getDate() - 1);
    if (then.toDateString() === today.toDateString()) return `yesterday, ${clock.format(then)}`;
    const year = then.getFullYear() === new Date(now).getFullYear() ? "" : ` ${then.getFullYear()}`;
    return `${dayOf.format(then)}${year}`;
}

export function count(n: number): string {
    return String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

/** "9.0M", "57k", "812". */
export function short(n: number): string {
    if (n >= 9.95e9) return `${Math.round(n / 1e9)}G`;
    if (n >= 9.95e5) return `${(n / 1e6).toFixed(n < 9.95e6 ? 1 : 0)}M`;
    if (n >= 1000) return `${(n / 1e3).toFixed(n < 9950 ? 1 : 0)}k`;
    return String(n);
}

export function bytes(n: number): string {
    if (n < 1024) return `${n} B`;
    if (n < 1024 * 1024) return `${(n / 1024).toFixed(n < 10240 ? 1 : 0)} KB`;
    if (n < 1024 ** 3) return `${(n / 1024 ** 2).toFixed(1)} MB`;
    return `${(n / 1024 ** 3).toFixed(1)} GB`;
}

export function took(ms: number): string {
    if (ms < 1000) return `${Math.round(ms)} ms`;
    if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
    if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
    return `${Math.floor(ms / 3_600_000)} h ${Math.round((ms % 3_600_000) / 60_000)} min`;
}

export function span(seconds: number): string {
    if (seconds === 0) return "never";
    if (seconds % 86_400 === 0) return plural(seconds / 86_400, "day");
    if (seconds % 3600 === 0) return plural(seconds / 3600, "hour");
    return took(seconds * 1000);
}

export function plural(n: number, one: string, many = `${one}s`): string {
    return `${count(n)} ${n === 1 ? one : many}`;
}

/** The last two parts of a path, which say most. */
export function place(path: string): string {
    const parts = path.split(/[\\/]/).filter((part) => part !== "");
    return parts.length <= 2 ? path : `${parts.slice(-2).join("/")}`;
}

/** A session's title; where it has none the first line of what it was asked, but for tags, else its id. */
export function title(session: { id: string; title?: string | null | undefined }, goal?: string | null): string {
    const lines = (goal ?? "").split("\n").map((line) => line.trim()).filter((line) => line !== "" && !/^<[^<>\s]*>$/.test(line));
    const first = lines[0] ?? session.id;
    return session.title ?? (first.length > 100 ? `${first.slice(0, 99)}…` : first);
}
