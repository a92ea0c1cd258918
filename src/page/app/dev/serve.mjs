// Development only: serves ../../dist as the program does and forwards everything else to a running
// server, so that a change of the page needs no build of the program. Usage:
// node dev/serve.mjs http://127.0.0.1:PORT   (it prints its own address)
import { createServer, request as forward } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const target = new URL(process.argv[2]);
const dist = join(import.meta.dirname, "../../dist");
const HEADERS = {
    "Content-Security-Policy":
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
};
const FILES = { "/": ["index.html", "text/html; charset=utf-8"], "/page/app.js": ["app.js", "text/javascript; charset=utf-8"], "/page/app.css": ["app.css", "text/css; charset=utf-8"] };

const server = createServer((asked, answer) => {
    const url = new URL(asked.url, "http://x");
    const file = url.pathname === "/" && !/text\/html/.test(asked.headers.accept ?? "") ? undefined : FILES[url.pathname];
    if (file) {
        answer.writeHead(200, { ...HEADERS, "Content-Type": file[1], "Cache-Control": "no-cache" });
        return answer.end(readFileSync(join(dist, file[0])));
    }
    const on = forward({ host: target.hostname, port: target.port, path: asked.url, method: asked.method, headers: { ...asked.headers, host: target.host, origin: target.origin } }, (got) => {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
        got.on("error", () => answer.destroy());
    });
    on.on("error", () => answer.destroy());
    answer.on("close", () => on.destroy());
    asked.pipe(on);
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}`));
