// The browser, and a page that reports what must never happen: a dialog, a request to another
// server, a violation of the policy, an error of the script.
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-precise-memory-info"];

export async function open() {
    const profile = mkdtempSync(join(process.env.PAGE_WORK, "profile-"));
    return chromium.launch({ executablePath: process.env.CHROMIUM, args: FLAGS, env: { ...process.env, HOME: profile } });
}

/** A page of a window, with what it must not do in `page.faults`. */
export async function pageOf(browser, url, { width = 1280, height = 860, theme = "light", motion = "reduce" } = {}) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: theme, reducedMotion: motion });
    const page = await context.newPage();
    page.faults = [];
    page.url0 = url;
    const fault = (what) => page.faults.push(what);
    page.setDefaultTimeout(120_000);
    page.on("dialog", (dialog) => {
        fault(`dialog: ${dialog.message()}`);
        void dialog.dismiss();
    });
    page.on("pageerror", (error) => fault(`error: ${error.message}`));
    page.on("request", (request) => {
        const to = request.url();
        if (!to.startsWith(url) && !to.startsWith("data:image/") && to !== "data:," && !to.startsWith("about:")) fault(`request: ${to}`);
    });
    context.on("page", () => fault("another window"));
    await page.exposeFunction("reportViolation", (what) => fault(`policy: ${what}`));
    await page.addInitScript(countWork);
    await page.addInitScript(() => {
        addEventListener("securitypolicyviolation", (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
        // When the first row was drawn, from the beginning of the navigation.
        new MutationObserver((_, observer) => {
            if (document.querySelector(".row") === null) return;
            window.firstRow = performance.now();
            observer.disconnect();
        }).observe(document, { childList: true, subtree: true });
    });
    return page;
}

/** Counts in `window.work` what the page waits for: requests and their bodies, and short timers. A
    stream of events is no work, since it never ends. */
function countWork() {
    window.work = 0;
    const counted = async (made) => {
        window.work += 1;
        try {
            return await made();
        } finally {
            window.work -= 1;
        }
    };
    const { fetch, setTimeout, clearTimeout } = window;
    const isStream = (init) => String(new Headers(init?.headers).get("Accept")).includes("event-stream");
    window.fetch = (to, init) => (isStream(init) ? fetch(to, init) : counted(() => fetch(to, init)));
    const { json } = Response.prototype;
    Response.prototype.json = function () {
        return counted(() => json.call(this));
    };
    const timers = new Map();
    const over = (id) => {
        const forget = timers.get(id);
        timers.delete(id);
        forget?.();
    };
    window.setTimeout = (act, ms = 0, ...more) => {
        const id = setTimeout(() => {
            try {
                act(...more);
            } finally {
                over(id);
            }
        }, ms);
        // A longer one is no answer to what a person did.
        if (ms <= 1_000) {
            window.work += 1;
            timers.set(id, () => (window.work -= 1));
        }
        return id;
    };
    window.clearTimeout = (id) => {
        clearTimeout(id);
        over(id);
    };
    /** Returns after three frames in a row without work. */
    window.workDone = async () => {
        for (let calm = 0; calm < 3; calm += 1) {
            await new Promise(requestAnimationFrame);
            if (window.work > 0) calm = -1;
        }
    };
}

/** Shows a place of the page and waits until all of it is drawn. */
export async function show(page, fragment) {
    await page.goto(`${page.url0}/${fragment}`);
    await settled(page);
}

/** Waits until the page has drawn everything it knows and asked for. */
export async function settled(page) {
    await page.waitForFunction(() => document.querySelector("main, dialog.token") !== null);
    await page.evaluate(() => window.workDone());
}

/** What axe finds on the page as it is. Its script comes by the debugger, which no policy stops. */
export async function findings(page) {
    await page.evaluate(AXE);
    const result = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return result.violations.map((one) => `${one.id} (${one.impact}): ${one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} ${node.failureSummary?.split("\n")[1]?.trim() ?? ""}`).join(" | ")}`);
}

/** The text of an element as it was recorded: characters that are drawn by a picture are put back. */
export function recordedText(page, selector) {
    return page.evaluate((selector) => {
        const of = (element) => {
            const copy = element.cloneNode(true);
            for (const one of copy.querySelectorAll(".hidden-char")) one.replaceWith(String.fromCodePoint(parseInt(one.dataset.code, 16)));
            return copy.textContent;
        };
        return [...document.querySelectorAll(selector)].map(of);
    }, selector);
}
