// A session of 100 000 events: figures of its first rows and of jumps, and bounds of what is kept.
import { pageOf, settled, show } from "./browser.mjs";

const NODES_MAX = 2000;

export async function largeCheck({ browser, server, check }) {
    const { tail } = await server.call("/v1/sessions/big");
    const page = await pageOf(browser, server.url);
    const nodes = () => page.evaluate(() => document.querySelectorAll("*").length);
    // The second visit: the first one makes the server's own tables of a new session.
    const firsts = [];
    for (let n = 0; n < 4; n += 1) {
        await page.goto("about:blank");
        await show(page, "#/s/big");
        firsts.push(await page.evaluate(() => window.firstRow));
    }
    console.log(`  first rows of ${tail} events after ${firsts.map((ms) => ms.toFixed(0)).join(", ")} ms`);
    check("few nodes at first", (await nodes()) <= NODES_MAX, await nodes());

    const jumps = [];
    let most = 0;
    for (const part of [0.5, 0.9, 0.1, 0.999, 0.33, 0.66, 0.02, 0.75, 0.25, 0.4]) {
        // A row that is shown: a message.
        const position = Math.floor((tail * part) / 50) * 50;
        jumps.push(await page.evaluate(async (position) => {
            const began = performance.now();
            location.hash = `#/s/big/e/${position}`;
            for (;;) {
                const row = document.querySelector(`.rows [data-position="${position}"]`);
                const box = row?.getBoundingClientRect();
                const view = document.querySelector(".rows").getBoundingClientRect();
                if (box !== undefined && box.top >= view.top - 1 && box.top < view.bottom) return performance.now() - began;
                if (performance.now() - began > 60_000) return Infinity;
                await new Promise(requestAnimationFrame);
            }
        }, position));
        await settled(page);
        most = Math.max(most, await nodes());
    }
    console.log(`  jumps after ${jumps.map((ms) => ms.toFixed(0)).join(", ")} ms`);
    check("every jump arrives", jumps.every(Number.isFinite), jumps);

    // By the scroll bar: anywhere, and rows are there.
    const heights = await page.evaluate(() => document.querySelector(".rows").scrollHeight);
    for (const part of [0.2, 0.8, 0.05, 0.97, 0.5]) {
        await page.evaluate((top) => (document.querySelector(".rows").scrollTop = top), heights * part);
        const there = await page.waitForFunction(() => {
            const view = document.querySelector(".rows").getBoundingClientRect();
            return [...document.querySelectorAll(".rows .row")].some((row) => row.getBoundingClientRect().top < view.bottom && row.getBoundingClientRect().bottom > view.top);
        }, undefined, { timeout: 60_000 }).then(() => true, () => false);
        check(`rows are there at ${part} of the scroll bar`, there);
        const seen = await page.evaluate(() => Number(document.querySelector(".rows .row[data-position]")?.dataset.position));
        check(`they are of about that place (${part})`, Math.abs(seen / tail - part) < 0.06, seen);
        await settled(page);
        most = Math.max(most, await nodes());
    }
    // By the wheel, a long way: no row is missing on it.
    await show(page, "#/s/big/e/50000");
    const met = new Set();
    for (let n = 0; n < 160; n += 1) {
        for (const one of await page.evaluate(() => [...document.querySelectorAll(".rows .row[data-position]")].map((row) => Number(row.dataset.position)))) met.add(one);
        await page.evaluate(() => (document.querySelector(".rows").scrollTop += 300));
        await settled(page);
        // As a person does who waits for what is not there yet.
        await page.waitForFunction(() => {
            const bottom = document.querySelector(".rows").getBoundingClientRect().bottom;
            return [...document.querySelectorAll(".rows .row")].some((row) => row.getBoundingClientRect().bottom >= bottom);
        }, undefined, { timeout: 30_000 }).catch(() => undefined);
    }
    const positions = [...met].sort((a, b) => a - b);
    const holes = [];
    for (let position = positions[0] ?? 0; position < (positions.at(-1) ?? 0); position += 1) {
        const shown = position % 50 === 0 || position % 50 === 49 || position % 10 === 9 || (position % 10 < 8 && position % 2 === 1);
        if (shown && !met.has(position)) holes.push(position);
    }
    check("the wheel misses no row", holes.length === 0 && positions.length > 300, `${positions.length} rows, missing ${holes.slice(0, 20)}`);
    most = Math.max(most, await nodes());
    check(`at most ${NODES_MAX} nodes`, most <= NODES_MAX, most);

    const session = await page.context().newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { usedSize } = await session.send("Runtime.getHeapUsage");
    console.log(`  at most ${most} nodes; heap ${(usedSize / 1e6).toFixed(1)} MB`);

    // The event of 3 MB.
    await show(page, `#/s/big/e/${tail - 2}`);
    await page.waitForSelector(".detail footer", { timeout: 120_000 });
    const before = await nodes();
    check("a huge result is shown in part", (await page.locator(".detail .more button").count()) > 0);
    await page.locator(".detail .more button").first().click();
    await settled(page);
    check("and then further", before <= NODES_MAX && (await page.locator(".detail .more").first().textContent()).includes("of"));

    // Failures far apart.
    await show(page, "#/s/big");
    await page.keyboard.press("]");
    await page.waitForFunction(() => /\/e\/2501$/.test(location.hash), undefined, { timeout: 120_000 }).catch(() => undefined);
    check("the next failure is found far away", (await page.evaluate(() => location.hash)).endsWith("/e/2501"), await page.evaluate(() => location.hash));
    check("large: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
}
