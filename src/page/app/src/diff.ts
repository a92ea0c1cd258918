// Which lines of two texts differ, for an edit as it is shown. A pure function.

export interface DiffLine { sign: " " | "+" | "-"; text: string }

/** Product of lines up to which the longest common lines are looked for. */
const CELLS_MAX = 4_000_000;

export function diff(before: string, after: string): DiffLine[] {
    const a = before === "" ? [] : before.split("\n");
    const b = after === "" ? [] : after.split("\n");
    let start = 0;
    while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
    let end = 0;
    while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
    const out: DiffLine[] = a.slice(0, start).map((text) => ({ sign: " ", text }));
    out.push(...middle(a.slice(start, a.length - end), b.slice(start, b.length - end)));
    out.push(...a.slice(a.length - end).map((text): DiffLine => ({ sign: " ", text })));
    return out;
}

function middle(a: string[], b: string[]): DiffLine[] {
    const all = (sign: "+" | "-", lines: string[]): DiffLine[] => lines.map((text) => ({ sign, text }));
    if (a.length * b.length > CELLS_MAX || a.length === 0 || b.length === 0) return [...all("-", a), ...all("+", b)];
    const width = b.length + 1;
    const longest = new Uint32Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i -= 1)
        for (let j = b.length - 1; j >= 0; j -= 1)
            longest[i * width + j] =
                a[i] === b[j]
                    ? longest[(i + 1) * width + j + 1]! + 1
                    : Math.max(longest[(i + 1) * width + j]!, longest[i * width + j + 1]!);
    const out: DiffLine[] = [];
    let i = 0;
    let j = 0;
    while (i < a.length && j < b.length) {
        if (a[i] === b[j]) {
            out.push({ sign: " ", text: a[i]! });
            i += 1;
            j += 1;
        } else if (longest[(i + 1) * width + j]! >= longest[i * width + j + 1]!) out.push({ sign: "-", text: a[i++]! });
        else out.push({ sign: "+", text: b[j++]! });
    }
    return [...out, ...all("-", a.slice(i)), ...all("+", b.slice(j))];
}

/** Lines of a patch that brings its own signs (apply_patch, unified diffs). */
export function patch(text: string): DiffLine[] {
    return text.split("\n").map((line) => {
        const sign = line[0];
        return (sign === "+" || sign === "-") && !/^(\+\+\+|---) /.test(line) ? { sign, text: line.slice(1) } : { sign: " ", text: line.replace(/^ /, "") };
    });
}

/** The diff with only `near` equal lines around what changed; a number stands for that many lines left out. */
export function hunks(lines: DiffLine[], near = 3): (DiffLine | number)[] {
    const keep = new Uint8Array(lines.length);
    lines.forEach((line, index) => {
        if (line.sign !== " ") keep.fill(1, Math.max(0, index - near), index + near + 1);
    });
    const out: (DiffLine | number)[] = [];
    lines.forEach((line, index) => {
        const last = out[out.length - 1];
        if (keep[index] === 1) out.push(line);
        else if (typeof last === "number") out[out.length - 1] = last + 1;
        else out.push(1);
    });
    return out;
}
