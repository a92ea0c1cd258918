// An agent at work: its rows appear by themselves, and while the server is killed and started again
// on the same directory nothing is missing and nothing comes twice.
import { pageOf, settled, show } from "./browser.mjs";
import { Server } from "./server.mjs";

const BEFORE = 40;
const AFTER = 40;

export async function liveCheck({ browser, check }) {
    const server = await Server.start();
    await server.call("/v1/sessions", { id: "live", title: "An agent at work" });
    await server.append("live", [{ type: "session.status_running" }, { type: "user.message", content: "Count." }]);
    const page = await pageOf(browser, server.url, { height: 700 });
    await show(page, "#/s/live/end");
    const say = (n) => server.append("live", [{ type: "agent.message", id: `said-${n}`, content: `number ${n} of the count` }]);
    for (let n = 0; n < BEFORE; n += 1) await say(n);
    const sees = (n) => page.waitForFunction((text) => [...document.querySelectorAll(".row")].some((row) => row.textContent.includes(text)), `number ${n} of the count`, { timeout: 120_000 }).then(() => true, () => false);
    const state = () => page.evaluate(() => {
        const rows = document.querySelector(".rows");
        const last = [...document.querySelectorAll(".row")].at(-1)?.textContent;
        return `at ${rows.scrollTop} + ${rows.clientHeight} of ${rows.scrollHeight}, ${document.querySelector(".tailing").textContent}, last: ${last}`;
    });
    check("what an agent does appears by itself", await sees(BEFORE - 1));
    const began = Date.now();
    await say(BEFORE);
    check("at once", await sees(BEFORE));
    console.log(`  a new event is seen after ${Date.now() - began} ms`);

    await server.kill();
    await page.waitForFunction(() => document.querySelector(".live")?.textContent.includes("connecting")).catch(() => undefined);
    check("the page says that it waits", (await page.textContent(".live")).includes("connecting"), await page.textContent(".live"));
    await server.restart();
    for (let n = BEFORE + 1; n <= BEFORE + AFTER; n += 1) await say(n);
    check("it continues after a restart", await sees(BEFORE + AFTER), await state());

    // Every number once, in order, from the first row to the last.
    await page.evaluate(() => (document.querySelector(".rows").scrollTop = 0));
    await settled(page);
    const order = [];
    const twice = [];
    for (let n = 0; n < 80; n += 1) {
        const rows = await page.evaluate(() => [...document.querySelectorAll(".rows .row[data-position]")].map((row) => [Number(row.dataset.position), /number (\d+) of/.exec(row.textContent)?.[1]]));
        if (new Set(rows.map(([position]) => position)).size !== rows.length) twice.push(rows);
        for (const [position, number] of rows) if (number !== undefined && !order.some(([known]) => known === position)) order.push([position, Number(number)]);
        const end = await page.evaluate(() => {
            const rows = document.querySelector(".rows");
            const was = rows.scrollTop;
            rows.scrollTop += 250;
            return rows.scrollTop === was;
        });
        await settled(page);
        if (end) break;
    }
    const numbers = order.sort((a, b) => a[0] - b[0]).map(([, number]) => number);
    check("nothing comes twice", twice.length === 0 && new Set(numbers).size === numbers.length, numbers);
    check("nothing is missing", numbers.length === BEFORE + AFTER + 1 && numbers.every((number, index) => number === index), numbers);

    // A person who reads above is left there, and told.
    await page.keyboard.press("g");
    await settled(page);
    await say(1000);
    await page.waitForFunction(() => document.querySelector(".tailing button")?.textContent.includes("new"), undefined, { timeout: 120_000 }).catch(() => undefined);
    check("who reads above stays there", (await page.evaluate(() => document.querySelector(".rows").scrollTop)) < 50 && (await page.textContent(".tailing button")).includes("1 new"), await page.textContent(".tailing"));
    await page.locator(".tailing button").click();
    check("and jumps to the end", await sees(1000));
    const faults = page.faults.filter((one) => !one.startsWith("error: Failed to fetch"));
    check("live: no fault", faults.length === 0, faults.join("\n"));
    await page.context().close();
    await server.kill();
}
