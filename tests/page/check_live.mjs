// An agent at work: its rows appear by themselves, and while the server is killed and started again
// on the same directory nothing is missing and nothing comes twice.
import { pageOf, settled, show } from "./browser.mjs";
import { Server } from "./server.mjs";

/** What stands around the rows moves, too: the head, every tab, the list, memory and search. */
async function checkAround({ browser, check, server }) {
    const WORKSPACE = "/work/moving";
    const make = (id, more = {}) => server.call("/v1/sessions", { id, title: `Session ${id}`, workspace: WORKSPACE, ...more });
    const page = await pageOf(browser, server.url);
    const text = (selector) => page.evaluate((selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent).join("|"), selector);
    const comes = (selector, pattern) => page.waitForFunction(([selector, pattern]) => new RegExp(pattern).test([...document.querySelectorAll(selector)].map((one) => one.textContent).join("|")), [selector, pattern], { timeout: 60_000 }).then(() => true, () => false);
    const goes = (selector, pattern) => page.waitForFunction(([selector, pattern]) => !new RegExp(pattern).test([...document.querySelectorAll(selector)].map((one) => one.textContent).join("|")), [selector, pattern], { timeout: 60_000 }).then(() => true, () => false);
    const request = { type: "span.model_request_end", model: "model-a", model_usage: { input_tokens: 4000, cache_read_input_tokens: 0, output_tokens: 50 } };
    const edit = (id) => [{ type: "agent.tool_use", call_id: id, name: "Edit", input: { file_path: `${WORKSPACE}/${id}.py`, old_string: "a", new_string: "b" } }, { type: "agent.tool_result", call_id: id, content: "ok" }];
    const holds = async (what, selector, pattern) => check(what, await comes(selector, pattern), await text(selector));

    await make("moving");
    await server.append("moving", [{ type: "user.message", content: "Begin" }]);
    await show(page, "#/s/moving");
    await server.append("moving", [{ type: "session.status_running" }, request, ...edit("one")]);
    await holds("the head says that it runs", ".facts", "running");
    await holds("and what was asked of the model", ".facts", "1 request, 4.0k tokens");
    await holds("and which files were changed", ".session-head .files summary", "1 changed file");
    await server.append("moving", [{ type: "user.message", content: "Go on, please" }, request, ...edit("two"), { type: "session.status_idle" }]);
    await holds("and again", ".facts", "2 requests");
    await holds("and the second file", ".session-head .files summary", "2 changed files");
    check("and that it runs no more", await goes(".facts", "running"), await text(".facts"));
    await holds("the outline has the new message", ".outline", "Go on, please");
    await show(page, "#/s/moving?q=please");
    await server.append("moving", [{ type: "user.message", content: "Once more, please" }]);
    await holds("what is found in the session grows", ".filtered", "Once more, please");
    await show(page, "#/s/moving/told");
    await server.append("moving", [{ type: "context.injected", what: "brief", text: "Prices are whole cents", begin: 0, until: 0 }, { type: "agent.message", content: "I know now" }]);
    await holds("a brief appears where it was told", ".tellings", "Prices are whole cents");
    await holds("and in the window of the end", ".window .messages", "I know now");
    await show(page, "#/s/moving/plots");
    await server.append("moving", edit("three"));
    check("a plot has the new calls", await page.waitForFunction(() => document.querySelector(".plot[aria-label^='Calls']")?.getAttribute("aria-label").includes("session: 3"), undefined, { timeout: 60_000 }).then(() => true, () => false));
    await show(page, "#/s/moving/compare");
    await server.call("/v1/sessions/moving/checkpoints", { label: "made elsewhere" });
    await server.append("moving", [{ type: "agent.message", content: "Next" }]);
    await holds("a checkpoint appears", "table", "made elsewhere");

    await show(page, "#/");
    await make("later");
    await server.append("later", [{ type: "user.message", content: "Begin" }, request, { type: "agent.tool_use", call_id: "open", name: "Bash", input: { command: "make" } }]);
    await holds("a session that began since has its tokens", ".sessions li", "Session later.*4.\\dk tokens");
    await holds("and is unfinished", ".sessions li", "Session laterunfinished");
    await server.append("later", [{ type: "agent.tool_result", call_id: "open", content: "ok" }]);
    check("and is not when its call was answered", await goes(".sessions li", "Session laterunfinished"), await text(".sessions li"));

    const add = async (rule) => {
        await page.getByRole("button", { name: "Add a rule or fact", exact: true }).click();
        await page.keyboard.type(rule);
        await page.keyboard.press("Enter");
        await settled(page);
    };
    await show(page, `#/memory/${encodeURIComponent(WORKSPACE)}`);
    await add("Round at the end");
    await add("Write whole cents");
    await holds("what a new session is given has both rules", ".start", "Round at the end[^]*Write whole cents|Write whole cents[^]*Round at the end");
    const item = page.locator(".items li", { hasText: "Round at the end" });
    await item.getByRole("button", { name: "Forget", exact: true }).click();
    await item.getByRole("button", { name: "Forget now" }).click();
    check("and not what was forgotten", (await goes(".start", "Round at the end")) && (await goes(".items", "Round at the end")), await text("main"));
    await server.call("/v1/sessions/moving/memory", { kind: "semantic", text: "Kept by an agent meanwhile" });
    await holds("what an agent keeps meanwhile appears", ".items", "Kept by an agent meanwhile");

    await make("beside");
    await server.append("beside", [{ type: "user.message", content: "Begin" }]);
    await show(page, "#/compare/moving/beside");
    await server.append("beside", [{ type: "agent.message", content: "Said while they are compared" }]);
    await holds("a comparison has what came since", ".sides", "Said while they are compared");

    await show(page, "#/search?q=zebra");
    await server.append("moving", [{ type: "user.message", content: "The zebra of the tests" }]);
    await holds("a search says that there is more since", "main [role=status]", "more since: 1 other hit");
    await page.getByRole("button", { name: "Search again" }).click();
    await holds("and shows it", ".hits", "zebra of the tests");
    check("around: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
}

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
    await checkAround({ browser, check, server });
    const faults = page.faults.filter((one) => !one.startsWith("error: Failed to fetch"));
    check("live: no fault", faults.length === 0, faults.join("\n"));
    await page.context().close();
    await server.kill();
}
