// What the body of an event says: its text, pictures, and what a call of a tool changes. It reads
// what anyone may have written, so every member is checked before it is used.
import { diff, type DiffLine, patch } from "./diff";
import type { Event } from "./types";

export interface Picture { type: string; data: string; bytes: number }
export type Piece = { text: string } | { picture: Picture } | { address: string } | { json: unknown };

const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
export const PICTURE_BYTES_MAX = 2 * 1024 * 1024;

export const record = (value: unknown): Record<string, unknown> | undefined =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
export const text = (value: unknown): string | undefined => (typeof value === "string" ? value : undefined);
const number = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined);

function picture(type: unknown, data: unknown): Piece | undefined {
    if (typeof data !== "string" || typeof type !== "string") return undefined;
    const isPicture = PICTURES.has(type) && /^[A-Za-z0-9+/=\s]*$/.test(data);
    return isPicture ? { picture: { type, data, bytes: Math.floor((data.length * 3) / 4) } } : undefined;
}

function piece(block: unknown): Piece {
    const one = record(block);
    if (one === undefined) return typeof block === "string" ? { text: block } : { json: block };
    const said = text(one["text"]);
    if (said !== undefined) return { text: said };
    const source = record(one["source"]);
    if (source !== undefined) {
        const shown = picture(source["media_type"], source["data"]);
        if (shown !== undefined) return shown;
        const url = text(source["url"]);
        if (url !== undefined) return { address: url };
    }
    const url = text(record(one["image_url"])?.["url"]) ?? text(one["image_url"]);
    if (url !== undefined) {
        const inline = /^data:([a-z/]+);base64,([\s\S]*)$/.exec(url);
        return (inline === null ? undefined : picture(inline[1], inline[2])) ?? { address: url };
    }
    return picture(one["mimeType"], one["data"]) ?? { json: block };
}

/** The pieces of a content: a text, or blocks of text, pictures and anything else. */
export function pieces(content: unknown): Piece[] {
    if (content === undefined || content === null || content === "") return [];
    if (typeof content === "string") return [{ text: content }];
    return Array.isArray(content) ? content.map(piece) : [piece(content)];
}

/** The text of a content, for a place that shows nothing else. */
export function plain(content: unknown): string {
    return pieces(content)
        .map((one) => ("text" in one ? one.text : "json" in one ? json(one.json) : ""))
        .filter((one) => one !== "")
        .join("\n");
}

export function json(value: unknown): string {
    return JSON.stringify(value, null, 2) ?? "";
}

/** Members that every event has, or that recorders add: no part of what it says. */
const RESERVED = new Set(["id", "type", "position", "processed_at", "created_at", "origin", "raw", "raw_format", "raw_in", "raw_before", "uuid", "parent_uuid", "recorded_from", "transcript", "session_thread_id"]);

export function members(event: Event): Record<string, unknown> {
    return Object.fromEntries(Object.entries(event).filter(([name]) => !RESERVED.has(name)));
}

export interface Change { path: string; lines: DiffLine[]; whole?: boolean }

/** What a call would change in files, by what it was given. */
export function changes(input: unknown): Change[] {
    const given = record(input);
    if (given === undefined) return [];
    const path = text(given["file_path"]) ?? text(given["path"]) ?? text(given["notebook_path"]) ?? "";
    const before = text(given["old_string"]) ?? text(given["old_str"]);
    const after = text(given["new_string"]) ?? text(given["new_str"]);
    if (before !== undefined && after !== undefined) return [{ path, lines: diff(before, after) }];
    const edits = given["edits"];
    if (Array.isArray(edits)) {
        return edits.flatMap((edit: unknown) => {
            const one = record(edit);
            const from = text(one?.["old_string"]);
            const to = text(one?.["new_string"]);
            return from === undefined || to === undefined ? [] : [{ path, lines: diff(from, to) }];
        });
    }
    const content = text(given["content"]) ?? text(given["file_text"]) ?? text(given["new_source"]);
    if (path !== "" && content !== undefined) return [{ path, lines: diff("", content), whole: true }];
    const patched = text(given["patch"]) ?? text(given["input"]) ?? text(given["diff"]) ?? "";
    if (/^(diff --git |--- )/m.test(patched)) return [{ path: "", lines: patch(patched) }];
    // Each file of a patch of apply_patch, which may be an argument or a text that a shell gives it.
    const body = /\*\*\* Begin Patch\n([^]*?)(?:^\*\*\* End Patch|$(?![^]))/m.exec(patched === "" ? (command(input) ?? "") : patched)?.[1];
    return (body ?? "").split(/^(?=\*\*\* (?:Add|Update|Delete) File: )/m).flatMap((part) => {
        const head = /^\*\*\* \w+ File: (.*)\n?/.exec(part);
        return head === null ? [] : [{ path: head[1]!.trim(), lines: patch(part.slice(head[0].length).replace(/\n$/, "")) }];
    });
}

/** Whether a command does nothing but apply a patch. */
export const isPatch = (command: string) => /^\s*(apply_?patch)?\s*(<<\s*\S+)?\s*\w*\s*$/.test(command.replace(/\*\*\* Begin Patch[^]*\*\*\* End Patch/, ""));

/** The command that a call runs, if it runs one. */
export function command(input: unknown): string | undefined {
    const given = record(input);
    const one = given?.["command"] ?? given?.["cmd"];
    if (Array.isArray(one) && one.every((word) => typeof word === "string")) {
        const [shell, flag, script] = one as string[];
        return one.length === 3 && /sh$/.test(shell ?? "") && /^-l?c$/.test(flag ?? "") ? script : one.join(" ");
    }
    return text(one);
}

export function isFailed(event: Event | undefined): boolean {
    const code = number(event?.["exit_code"]);
    return event?.["is_error"] === true || (code !== undefined && code !== 0);
}
