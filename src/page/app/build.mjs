// Makes ../dist of src: one script, one style sheet, one page. The same sources and the same
// package-lock.json give the same bytes. It must not let a way to make HTML of text into the page.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

const BYTES_MAX = 222 * 1024;
const FORBIDDEN =
    /\b(innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|createContextualFragment|DOMParser|srcdoc|eval|new Function)\b|setAttribute\(\s*["'`](style|on)/;

function sources(directory) {
    return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
        const path = join(directory, entry.name);
        return entry.isDirectory() ? sources(path) : [path];
    });
}

const root = import.meta.dirname;
const found = sources(join(root, "src")).flatMap((path) =>
    readFileSync(path, "utf8")
        .split("\n")
        .flatMap((line, number) => (FORBIDDEN.test(line) ? [`${path}:${number + 1}: ${line.trim()}`] : [])),
);
if (found.length > 0) {
    console.error(`A page of recorded text makes no HTML of it:\n${found.join("\n")}`);
    process.exit(1);
}

const dist = join(root, "../dist");
mkdirSync(dist, { recursive: true });
await build({
    absWorkingDir: root,
    entryPoints: { app: "src/main.tsx" },
    outdir: dist,
    bundle: true,
    minify: true,
    charset: "ascii",
    format: "iife",
    target: "es2022",
    jsx: "transform",
    jsxFactory: "h",
    jsxFragment: "Fragment",
    inject: ["src/jsx.ts"],
    tsconfigRaw: {},
    legalComments: "none",
    logLevel: "warning",
    define: { "process.env.NODE_ENV": '"production"' },
});
copyFileSync(join(root, "src/index.html"), join(dist, "index.html"));
const sizes = ["index.html", "app.js", "app.css"].map((name) => [name, statSync(join(dist, name)).size]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
for (const [name, size] of sizes) console.log(`${name} ${size}`);
console.log(`total ${total} of at most ${BYTES_MAX}`);
if (total > BYTES_MAX) process.exit(1);
