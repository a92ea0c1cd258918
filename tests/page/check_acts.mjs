// What a person does on the page: it leaves a trace where it was done and can be done again; and
// what a row, a file and a link say leads to what they name.
import { findings, pageOf, settled, show } from "./browser.mjs";
import { Server } from "./server.mjs";

const PATCH = "*** Begin Patch\n*** Update File: src/tax.py\n@@\n-rate = 1\n+rate = 2\n*** Add File: src/new.py\n+made = True\n*** End Patch\n";
const call = (id, name, input, content = "ok", more = {}) => [
    { type: "agent.tool_use", call_id: id, name, input, ...more },
    { type: "agent.tool_result", call_id: id, content, ...more },
];

async function fill(server) {
    const bank = { workspace: "/work/bank" };
    await server.call("/v1/sessions", { id: "acts", title: "Change the rate", ...bank });
    await server.call("/v1/sessions", { id: "beside", title: "Work beside it", ...bank });
    await server.append("beside", [{ type: "user.message", content: "Look at it" }]);
    await server.append("acts", [
        { type: "user.message", content: "Set the rate to two." },
        ...call("p", "apply_patch", { command: PATCH }, "Success. Updated the following files:\nM src/tax.py\nA src/new.py\n"),
        ...call("e1", "Edit", { file_path: "/work/bank/CHANGES.md", old_string: "one", new_string: "two" }),
        ...call("e2", "Edit", { file_path: "/work/bank/CHANGES.md", old_string: "two", new_string: "three" }),
        ...call("e3", "Edit", { file_path: "/work/bank/stock.py", old_string: "a", new_string: "b" }),
        ...call("r", "Bash", { command: "git checkout stock.py" }),
        ...call("s", "Bash", { command: "sed -i s/two/2/ src/tax.py" }),
        ...call("d", "Task", { description: "Find other rates", subagent_type: "Explore", prompt: "Find each rate, please" }, "There are two other rates."),
    ]);
    await server.append("acts", [
        { type: "agent.tool_use", call_id: "t", name: "Task", input: { description: "Count the rates", subagent_type: "Explore", prompt: "Count each rate, please" } },
        { type: "agent.thread_started", session_thread_id: "thread-1", call_id: "t" },
        ...call("g", "Grep", { pattern: "rate" }, "3 lines", { session_thread_id: "thread-1" }),
        { type: "agent.tool_result", call_id: "t", content: "I counted three rates." },
    ]);
}

export async function actsCheck({ browser, check }) {
    const server = await Server.start();
    await fill(server);
    const page = await pageOf(browser, server.url);
    const button = (name, at = page) => at.getByRole("button", { name, exact: true });
    const press = async (...names) => {
        for (const name of names) await button(name).first().click();
        await settled(page);
    };
    const say = async (name, text) => {
        await press(name);
        await page.keyboard.type(text);
        await page.keyboard.press("Enter");
        await settled(page);
    };
    const comes = (text, selector = "main") => page.waitForFunction(([text, selector]) => [...document.querySelectorAll(selector)].some((one) => one.textContent.includes(text)), [text, selector], { timeout: 20_000 }).then(() => true, () => false);
    const main = () => page.textContent("main");

    // A row with its result.
    await show(page, "#/s/acts/e/3");
    await say("Fork after this", "With its result");
    const { data } = await server.call("/v1/sessions");
    const fork = data.find((one) => one.title === "With its result");
    check("a fork after a call has its result", fork?.tail === 5, fork?.tail);
    check("and can be made again", (await button("Fork after this").count()) === 1);
    await say("Checkpoint after this", "both");
    const checkpoints = await server.call("/v1/sessions/acts/checkpoints?limit=100");
    check("so has a checkpoint", checkpoints.data.find((one) => one.label === "both")?.position === 5, JSON.stringify(checkpoints.data));

    const looked = async (what) => {
        const found = await findings(page);
        check(`axe finds nothing: ${what}`, found.length === 0, found.join("\n"));
    };

    // Marks.
    await press("Mark wrong");
    await show(page, "#/");
    await show(page, "#/s/acts/e/3");
    check("a marked row shows its mark", await comes("wrong", ".row[data-position='3'] .row-line .mark-wrong"));
    check("and does not offer it again", (await button("Mark wrong").count()) === 0 && (await button("Mark done").count()) === 1, await page.textContent(".detail footer"));
    await show(page, "#/s/acts/end");
    const mark = page.locator(".row", { hasText: "as wrong" });
    await looked("a marked row and its mark");
    check("the mark's own row says what it marks", (await mark.count()) === 1 && (await mark.locator("a.position").getAttribute("href")) === "#/s/acts/e/3", await page.locator(".row").last().textContent());
    check("an id of an event is in no row", !(await page.locator(".rows").textContent()).includes("evt_"));

    // What was done can be done again, and undone.
    await show(page, "#/s/acts/compare");
    for (const title of ["Once", "Twice"]) {
        await say("Rename", title);
        check(`renamed: ${title}`, await comes(title, "h1"), await page.textContent("h1"));
    }
    await press("Archive", "Archive now");
    check("what is archived can be unarchived", await comes("Unarchive", "button"), await main());
    check("the head says the session's id", (await page.locator(".session-id").textContent()) === "acts");
    const others = await page.locator("#others option").evaluateAll((all) => all.map((one) => one.value));
    check("a session of the workspace can be picked to compare with", others.includes("beside") && !others.includes("acts"), others);
    await show(page, "#/?state=archived");
    check("the filter of archived ones finds them", (await main()).includes("Twice"), await main());
    await show(page, "#/s/acts/compare");
    await press("Unarchive", "Unarchive now");
    check("and unarchived", await comes("takes events again"), await main());

    // Files.
    await show(page, "#/s/acts");
    const files = page.locator(".session-head .files");
    await files.waitFor();
    await files.locator("summary").click();
    const names = await files.locator("li a.mono").allTextContents();
    check("files have their names, however they were left", ["CHANGES.md", "src/new.py", "src/tax.py", "stock.py"].every((name) => names.includes(name)), names);
    check("an undone change is not counted as one", (await files.locator("summary").textContent()) === "3 changed files, 1 reverted", await files.textContent());
    await files.getByRole("link", { name: "stock.py" }).click();
    await settled(page);
    check("the link of a reverted file leads to its changes", (await main()).includes("2 changes in 1 session"), await main());

    const why = async (path) => {
        await show(page, `#/why?path=${encodeURIComponent(path)}&workspace=${encodeURIComponent("/work/bank")}`);
        for (const summary of await page.locator(".asked details:not([open]) > summary").all()) await summary.click();
        await settled(page);
    };
    await why("/work/bank/src/tax.py");
    check("a patch is shown as the diff of the file", (await page.locator(".diff .plus").allTextContents()).join("").trim() === "+ rate = 2", await main());
    check("a command that changed the file is shown", (await main()).includes("sed -i s/two/2/"), await main());
    await why("/work/bank/CHANGES.md");
    check("the newest change is first", (await page.locator(".diff .plus").allTextContents()).map((one) => one.trim()).join() === "+ three,+ two", await main());
    await why("changes.md");
    check("a name as the index has it finds the file", (await main()).includes("2 changes in 1 session"), await main());

    // Subagents and sessions that continue others.
    const restored = await server.call(`/v1/workspaces/${encodeURIComponent("/work/bank")}/restore`, { session_id: "acts" });
    await show(page, "#/s/acts/end");
    check("a subagent's fold says its task", await comes("Count the rates", ".is-fold"), await page.locator(".rows").textContent());
    await show(page, "#/s/acts/thread/thread-1");
    check("a subagent alone has its task and its answer", (await comes("Count each rate, please", ".filtered")) && (await comes("I counted three rates.", ".filtered")), await main());
    const rows = await page.locator(".found-row").count();
    await looked("a subagent alone");
    check("and says how many rows it has", (await page.textContent(".filtered > p[role=status]")).trim() === `${rows} rows`, await page.textContent(".filtered > p[role=status]"));
    const next = restored.session_id;
    for (const [tab, selector] of [["", ".rows"], ["/told", ".tellings"]]) {
        await show(page, `#/s/${next}${tab}`);
        check(`a session that continues another names it${tab}`, await comes("continues Twice", selector), await main());
    }
    await show(page, `#/s/${next}`);
    await looked("a session that continues another");
    check("and leads to it", (await page.locator(".rows a", { hasText: "Twice" }).getAttribute("href")) === "#/s/acts");

    // A session is as long as its work.
    await page.route("**/v1/sessions/beside", async (route) => {
        const answer = await route.fetch();
        await route.fulfill({ response: answer, json: { ...(await answer.json()), updated_at: new Date(Date.now() + 3_600_000).toISOString() } });
    });
    await show(page, "#/s/beside");
    check("a title that was set an hour later makes no session longer", (await page.locator(".facts").count()) === 1 && !(await page.textContent(".facts")).includes("over "), await page.textContent(".facts"));
    await server.call("/v1/sessions", { id: "untitled" });
    await server.append("untitled", [{ type: "user.message", content: "Count the stars" }]);
    await show(page, "#/s/untitled");
    check("a session without a title is named by its first words", await comes("Count the stars", "h1"), await page.textContent("h1"));

    // Small screens.
    const names2 = Array.from({ length: 12 }, (_, n) => `/work/bank/src/deep/a_rather_long_file_name_${n}.py`);
    for (const [n, file_path] of names2.entries()) {
        await server.call("/v1/sessions", { id: `0191f6a0-${n}`, title: `Small work ${n}`, workspace: "/work/bank" });
        await server.append(`0191f6a0-${n}`, [{ type: "user.message", content: "Do it" }, ...call("x", "Edit", { file_path, old_string: "a", new_string: "b" })]);
    }
    await page.setViewportSize({ width: 390, height: 780 });
    for (const tab of ["#/s/acts/plots", `#/memory/${encodeURIComponent("/work/bank")}`]) {
        await show(page, tab);
        await comes("a_rather_long_file_name_3.py", ".matrix");
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        check(`${tab} fits a small screen`, wide <= 0, `${wide} px`);
        const lines = await page.evaluate(() => Math.max(...[...document.querySelectorAll(".matrix th[scope=row] a")].map((one) => one.getBoundingClientRect().height)));
        check(`${tab} breaks no name after two letters`, lines < 80, `${lines} px`);
    }
    check("acts: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
    await server.kill();
}
