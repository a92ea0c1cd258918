// The pictures of the README: the page and the player over the example session, and the window of a
// request before and after a compaction. tests/page/pictures.sh runs it.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { open, pageOf, show } from "./browser.mjs";
import { endAll, Server } from "./server.mjs";
import { exampleSession } from "./stores.mjs";

const into = (name) => join(process.env.PAGE_DOCS, name);
const server = await Server.start();
const browser = await open();

/** Runs the player on a terminal of its own and returns the screen, with its colours as escapes. */
async function playerScreen(keys) {
    const tmux = (...args) => execFileSync("tmux", ["-L", `pictures-${process.pid}`, "-f", "/dev/null", ...args], { encoding: "utf8" });
    const program = `env -u NO_COLOR SESSIONLOG_URL=${server.url} HOME=${process.env.PAGE_WORK} '${process.env.PAGE_PROGRAM}' replay rain-report`;
    tmux("new-session", "-d", "-x", "120", "-y", "30", program);
    try {
        for (const key of keys) {
            await new Promise((wake) => setTimeout(wake, 700));
            tmux("send-keys", key);
        }
        await new Promise((wake) => setTimeout(wake, 1_000));
        return tmux("capture-pane", "-e", "-p");
    } finally {
        tmux("kill-server");
    }
}

const COLOURS = ["#1e1e1e", "#f14c4c", "#23d18b", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#d4d4d4"];

/** Parts of a screen with one style each: text, colour, background, weight. */
function* styled(screen) {
    let style = {};
    for (const part of screen.split(/(\x1b\[[\d;]*m)/)) {
        const codes = /^\x1b\[([\d;]*)m$/.exec(part);
        if (codes === null) {
            if (part !== "") yield { text: part, ...style };
            continue;
        }
        const numbers = codes[1].split(";").map(Number);
        while (numbers.length > 0) {
            const code = numbers.shift();
            if (code === 0) style = {};
            else if (code === 1) style.bold = true;
            else if (code === 2) style.faint = true;
            else if (code === 7) style.reversed = true;
            else if (code >= 30 && code <= 37) style.colour = COLOURS[code - 30];
            else if (code >= 90 && code <= 97) style.colour = COLOURS[code - 90];
            else if (code >= 40 && code <= 47) style.ground = COLOURS[code - 40];
            else if (code === 39) delete style.colour;
            else if (code === 49) delete style.ground;
            else if (code === 38 || code === 48) {
                const [kind, index] = numbers.splice(0, numbers[0] === 5 ? 2 : 4);
                if (kind === 5 && index < 16) style[code === 38 ? "colour" : "ground"] = index === 8 ? "#808080" : COLOURS[index % 8];
            }
            style = { ...style };
        }
    }
}

try {
    await exampleSession(server);
    for (const [name, fragment, size] of [
        ["page-session.png", "#/s/rain-report/e/8", { width: 1180, height: 720 }],
        ["page-plots.png", "#/s/rain-report/plots", { width: 1180, height: 720 }],
        ["request-before.png", "#/s/rain-report/told/26", { width: 620, height: 560 }],
        ["request-after.png", "#/s/rain-report/told/31", { width: 620, height: 560 }],
    ]) {
        const page = await pageOf(browser, server.url, size);
        await show(page, fragment);
        if (name.startsWith("request")) {
            await page.evaluate(() => document.querySelector("input[type=range]")?.scrollIntoView({ block: "start" }));
        }
        await page.screenshot({ path: into(name) });
        await page.context().close();
    }
    const screen = await playerScreen(["]", "]"]);
    const page = await browser.newPage({ viewport: { width: 1060, height: 620 } });
    await page.setContent("<pre></pre>");
    await page.evaluate((parts) => {
        const pre = document.querySelector("pre");
        document.body.style.cssText = "margin:0;background:#1e1e1e";
        pre.style.cssText = "margin:14px;font:14px/1.32 'DejaVu Sans Mono',monospace;color:#d4d4d4;width:max-content";
        for (const { text, colour, ground, bold, faint, reversed } of parts) {
            const span = document.createElement("span");
            span.textContent = text;
            const [ink, paper] = reversed ? [ground ?? "#1e1e1e", colour ?? "#d4d4d4"] : [colour, ground];
            if (ink !== undefined) span.style.color = ink;
            if (paper !== undefined) span.style.background = paper;
            if (bold) span.style.fontWeight = "bold";
            if (faint) span.style.opacity = "0.65";
            pre.append(span);
        }
    }, [...styled(screen)]);
    await page.locator("pre").screenshot({ path: into("player.png") });
} finally {
    await browser.close();
    endAll();
}
