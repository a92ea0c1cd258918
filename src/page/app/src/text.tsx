// Recorded text on the page: always text, never HTML. Characters that hide or reorder text are
// drawn, links show the host they go to, and what is long is shown in pieces.
import type { ComponentChild } from "preact";
import { useState } from "preact/hooks";
import { bytes } from "./format";

/** Characters of one step of "show more". */
export const PIECE = 64_000;

// Controls but tab and newline, marks of direction, zero-width, separators, tags, variation of invisible kinds.
const HIDDEN =
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;
const URLS = /https?:\/\/[^\s<>"'`\u0000-\u001f\\^{}|]{1,2000}/g;

/** How a hidden character is drawn: the picture of a control, else its number. */
function drawn(character: string): string {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return `\u27e8${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

function visible(text: string, out: ComponentChild[]): void {
    let from = 0;
    for (const match of text.matchAll(HIDDEN)) {
        if (match.index > from) out.push(text.slice(from, match.index));
        const code = (match[0].codePointAt(0) ?? 0).toString(16);
        out.push(<span class="hidden-char" data-code={code} title={`U+${code.toUpperCase().padStart(4, "0")}`}>{drawn(match[0])}</span>);
        from = match.index + match[0].length;
    }
    if (from < text.length) out.push(text.slice(from));
}

function linked(text: string, out: ComponentChild[]): void {
    let from = 0;
    for (const match of text.matchAll(URLS)) {
        const shown = match[0].replace(/[.,;:!?)\]*_~]+$/, "");
        let host = "";
        try {
            host = new URL(shown).host;
        } catch {
            continue;
        }
        visible(text.slice(from, match.index), out);
        const inside: ComponentChild[] = [];
        visible(shown, inside);
        out.push(
            <a class="out" href={shown} target="_blank" rel="noreferrer noopener" data-host={host} title={`Opens ${host} in another tab`}>
                {inside}
            </a>,
        );
        from = match.index + shown.length;
    }
    visible(text.slice(from), out);
}

/** Text for places that hold no elements: hidden characters drawn. */
export const flat = (text: string) => text.replace(HIDDEN, drawn);

/** Text in a line: hidden characters drawn, no links. */
export function Line({ text }: { text: string }) {
    const out: ComponentChild[] = [];
    visible(text, out);
    return <bdi class="text">{out}</bdi>;
}

/** A piece of text with links, in its own direction. */
export function Plain({ text }: { text: string }) {
    const out: ComponentChild[] = [];
    linked(text, out);
    return <>{out}</>;
}

/** What a person or a model wrote. Fences, headings and `code` get a form; every character stays. */
function Prose({ text }: { text: string }) {
    const out: ComponentChild[] = [];
    let plain: string[] = [];
    let fence: string[] | undefined;
    const flush = () => {
        if (plain.length > 0) out.push(<div class="text" dir="auto">{plain.map((line, index) => <ProseLine text={line} last={index === plain.length - 1} />)}</div>);
        plain = [];
    };
    for (const line of text.split("\n")) {
        const marks = /^\s{0,3}(```|~~~)/.test(line);
        if (fence !== undefined) {
            fence.push(line);
            if (marks) {
                out.push(<pre class="fence text" tabindex={0}><Plain text={fence.join("\n")} /></pre>);
                fence = undefined;
            }
        } else if (marks) {
            flush();
            fence = [line];
        } else plain.push(line);
    }
    flush();
    if (fence !== undefined) out.push(<pre class="fence text" tabindex={0}><Plain text={fence.join("\n")} /></pre>);
    return <>{out}</>;
}

function ProseLine({ text, last }: { text: string; last: boolean }) {
    const end = last ? "" : "\n";
    if (/^#{1,6} /.test(text)) return <><b><Plain text={text} /></b>{end}</>;
    const parts = text.length > 4000 ? [text] : text.split(/(`[^`\n]+`)/);
    return <>{parts.map((part, index) => (index % 2 === 1 ? <code><Plain text={part} /></code> : <Plain text={part} />))}{end}</>;
}

/** A text of any length: its first piece, its length, and a way to the rest. */
export function Long({ text, form, piece = PIECE }: { text: string; form: "prose" | "box"; piece?: number }) {
    const [shown, show] = useState(1);
    let end = shown * piece;
    // A piece ends at a line where one is near.
    const line = text.lastIndexOf("\n", end);
    if (line > end - piece / 4) end = line + 1;
    const part = text.length > end ? text.slice(0, end) : text;
    const left = text.length - part.length;
    return (
        <>
            {form === "prose" ? <Prose text={part} /> : <pre class="box text" dir="auto" tabindex={0}><Plain text={part} /></pre>}
            {left > 0 && (
                <p class="more">
                    <button type="button" onClick={() => show(shown + (shown === 1 ? 1 : shown))}>Show more</button>{" "}
                    {bytes(part.length)} of {bytes(text.length)} shown
                </p>
            )}
        </>
    );
}

/** A snippet with the words that were found. Positions are characters. */
export function Marked({ text, marks }: { text: string; marks: [number, number][] }) {
    const characters = [...text];
    const out: ComponentChild[] = [];
    let from = 0;
    for (const [start, end] of [...marks].sort((a, b) => a[0] - b[0])) {
        if (start < from || end <= start || end > characters.length) continue;
        visible(characters.slice(from, start).join(""), out);
        const inside: ComponentChild[] = [];
        visible(characters.slice(start, end).join(""), inside);
        out.push(<mark>{inside}</mark>);
        from = end;
    }
    visible(characters.slice(from).join(""), out);
    return <bdi class="text">{out}</bdi>;
}
