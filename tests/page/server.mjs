// A server of the test's own over a directory of its own, which can be killed and started again on
// its port; and requests to it.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { join } from "node:path";

const running = new Set();

export class Server {
    constructor(url, directory) {
        this.url = url;
        this.directory = directory;
    }

    /** Starts one over a new directory; `more` are further arguments. */
    static async start(more = []) {
        const server = new Server(undefined, mkdtempSync(join(process.env.PAGE_WORK, "store-")));
        server.more = more;
        await server.run("127.0.0.1:0");
        return server;
    }

    async run(listen) {
        const args = ["serve", "--data-dir", this.directory, "--listen", listen, ...this.more];
        this.process = spawn(process.env.PAGE_PROGRAM, args, { stdio: ["pipe", "pipe", "pipe"] });
        running.add(this.process);
        this.process.on("exit", () => running.delete(this.process));
        let said = "";
        for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (data) => (said += data));
        for (let tries = 0; tries < 1_200 && this.process.exitCode === null; tries += 1) {
            const url = /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0];
            if (url !== undefined && (await fetch(`${url}/readyz`).then((one) => one.ok, () => false))) {
                this.url = url;
                return;
            }
            await new Promise((wake) => setTimeout(wake, 100));
        }
        throw new Error(`the server did not start: ${said}`);
    }

    async kill() {
        const gone = once(this.process, "exit");
        this.process.kill("SIGKILL");
        await gone;
    }

    async restart() {
        await this.run(this.url.replace("http://", ""));
    }

    async call(path, body, token) {
        const answer = await fetch(this.url + path, {
            method: body === undefined ? "GET" : "POST",
            headers: { "Content-Type": "application/json", ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }) },
            ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        });
        if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
        return answer.json();
    }

    append(session, events, token) {
        return this.call(`/v1/sessions/${session}/events`, { events }, token);
    }
}

export function endAll() {
    for (const one of running) one.kill("SIGKILL");
}
