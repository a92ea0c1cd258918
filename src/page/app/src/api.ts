// Requests to the server the page came from. The token is kept for the tab and sent as a header
// only: no cookie, so that no other page can use it. It must not decide what a screen shows.

const TOKEN = "sessionlog.token";

/** An answer that is no success, with what the server says of it. */
export class Refusal extends Error {
    constructor(
        readonly status: number,
        readonly code: string,
        message: string,
        readonly action: string,
    ) {
        super(message);
    }
}

let waiting: { ask: Promise<void>; done: () => void; reason: string } | undefined;
let asked: (reason: string) => void = () => {};

/** `ask` is called when the server wants a token that the page does not have, now or later. */
export function onTokenWanted(ask: (reason: string) => void): void {
    asked = ask;
    if (waiting !== undefined) ask(waiting.reason);
}

export function giveToken(token: string): void {
    sessionStorage.setItem(TOKEN, token);
    waiting?.done();
    waiting = undefined;
}

export function forgetToken(): void {
    sessionStorage.removeItem(TOKEN);
}

export function hasToken(): boolean {
    return sessionStorage.getItem(TOKEN) !== null;
}

export function headers(): Record<string, string> {
    const token = sessionStorage.getItem(TOKEN);
    return token === null ? {} : { Authorization: `Bearer ${token}` };
}

/** Waits until the person gave another token than `used`. */
export async function tokenAfter(used: string | undefined): Promise<void> {
    if (headers()["Authorization"] !== used) return;
    if (waiting === undefined) {
        let done = () => {};
        const ask = new Promise<void>((resolve) => (done = resolve));
        const reason = used === undefined ? "" : "The server does not take this token (any more).";
        waiting = { ask, done, reason };
        asked(reason);
    }
    await waiting.ask;
}

export type Query = Record<string, string | number | boolean | string[] | undefined>;

export function path(parts: TemplateStringsArray, ...values: (string | number)[]): string {
    return parts.reduce((text, part, index) => text + part + (index < values.length ? encodeURIComponent(values[index]!) : ""), "");
}

export function withQuery(to: string, query: Query = {}): string {
    const pairs = Object.entries(query).flatMap(([name, value]) =>
        value === undefined || value === ""
            ? []
            : (Array.isArray(value) ? value : [String(value)]).map((one) => `${encodeURIComponent(name)}=${encodeURIComponent(one)}`),
    );
    return pairs.length === 0 ? to : `${to}?${pairs.join("&")}`;
}

interface How { method?: string; body?: unknown; signal?: AbortSignal | undefined }

async function refusal(answer: Response): Promise<Refusal> {
    let message = `the server answered ${answer.status}`;
    let code = "";
    let action = "";
    try {
        const body = (await answer.json()) as { error?: { type?: string; message?: string; recovery_hint?: { action?: string } } };
        message = body.error?.message ?? message;
        code = body.error?.type ?? "";
        action = body.error?.recovery_hint?.action ?? "";
    } catch {
        // The status says enough.
    }
    return new Refusal(answer.status, code, message, action);
}

/** Sends a request; asks for a token and repeats it where the server wants one. */
export async function send(to: string, how: How = {}): Promise<Response> {
    for (;;) {
        const credential = headers();
        const init: RequestInit = {
            method: how.method ?? "GET",
            headers: { Accept: "application/json", ...credential, ...(how.body === undefined ? {} : { "Content-Type": "application/json" }) },
            credentials: "omit",
            cache: "no-store",
            ...(how.body === undefined ? {} : { body: JSON.stringify(how.body) }),
            ...(how.signal === undefined ? {} : { signal: how.signal }),
        };
        let answer: Response;
        try {
            answer = await fetch(to, init);
        } catch (error) {
            if (how.signal?.aborted) throw error;
            throw new Refusal(0, "unreachable", "the server does not answer", "start it again with `sessionlog serve`; this page continues by itself");
        }
        if (answer.ok) return answer;
        if (answer.status !== 401) throw await refusal(answer);
        await tokenAfter(credential["Authorization"]);
    }
}

export async function get<T>(to: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
    return (await (await send(withQuery(to, query), { signal })).json()) as T;
}

export async function post<T>(to: string, body: unknown, method = "POST"): Promise<T> {
    return (await (await send(to, { method, body })).json()) as T;
}

/** Runs at most `width` of the jobs at once; later ones wait. */
export function queue(width: number): <T>(job: () => Promise<T>) => Promise<T> {
    let free = width;
    const waits: (() => void)[] = [];
    return async (job) => {
        if (free === 0) await new Promise<void>((go) => waits.push(go));
        else free -= 1;
        try {
            return await job();
        } finally {
            const next = waits.shift();
            if (next === undefined) free += 1;
            else next();
        }
    };
}
