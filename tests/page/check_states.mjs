// Sessions that are held back: an expired one, an encrypted one with its key and without, an erased
// one. And the settings of the server, with their sources.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { findings, pageOf, show } from "./browser.mjs";
import { Server } from "./server.mjs";

async function stop(server) {
    const gone = once(server.process, "exit");
    server.process.kill("SIGTERM");
    await gone;
}

/** Two nodes over one database, of which one has other settings. */
async function checkNodes({ browser, check }) {
    const store = ["--store", process.env.PAGE_STORE];
    const one = await Server.start(store);
    const other = await Server.start([...store, "--retention", "7d"]);
    const page = await pageOf(browser, one.url);
    const places = [one, other].map((node) => `/${node.process.pid}`);
    await show(page, "#/store");
    const nodes = page.locator("section", { has: page.locator("h2", { hasText: "Nodes" }) });
    // A node learns of another with its next report; the screen asks again by itself.
    const lists = (count) => page.waitForFunction((count) => document.querySelector("main").textContent.includes(`${count} node`), count, { timeout: 60_000 });
    await lists(2);
    const rows = await nodes.locator("tbody tr").allTextContents();
    check("the store lists its nodes, first the one that answers", rows.length === 2 && places.every((place, n) => rows[n].includes(place)) && rows[0].includes("answers here"), rows.join("\n"));
    check("a node with other settings is marked", rows[0].includes("as here") && rows[1].includes("differ"), rows.join("\n"));
    check("the durability of the database is named", (await nodes.textContent()).includes("single"), await nodes.textContent());
    check("axe finds nothing in the nodes", (await findings(page)).length === 0, (await findings(page)).join("\n"));
    await stop(other);
    await lists(1);
    check("a node that stopped is off the list", (await nodes.locator("tbody tr").count()) === 1, await nodes.textContent());
    check("nodes: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
    await one.kill();
}

export async function statesCheck({ browser, check }) {
    if (process.env.PAGE_STORE !== undefined) await checkNodes({ browser, check });

    const server = await Server.start(["--retention", "1s"]);
    await server.call("/v1/sessions", { id: "old", title: "Work of last year" });
    await server.append("old", [{ type: "user.message", content: "What was it?" }]);
    // The server looks for what has expired when asked.
    for (let tries = 0; tries < 600; tries += 1) {
        await server.call("/v1/admin/retention", {});
        const { data } = await server.call("/v1/admin/retention?limit=100");
        if (data.some((row) => row.session === "old" && row.stage !== "alive")) break;
        await new Promise((wake) => setTimeout(wake, 100));
    }
    const page = await pageOf(browser, server.url);
    await show(page, "#/s/old");
    const expired = await page.textContent("main");
    check("an expired session says so, and what to do", /expired/.test(expired) && expired.includes("sessionlog restore old"), expired);
    await show(page, "#/");
    check("the list leaves it out", !(await page.textContent("main")).includes("Work of last year"));
    await show(page, "#/store");
    const store = await page.textContent("main");
    check("the store lists what has expired", store.includes("Work of last year"), store);
    check("a setting is shown with its source", /retention\s*1s\s*flag/.test(store), store);
    check("axe finds nothing in the store", (await findings(page)).length === 0, (await findings(page)).join("\n"));
    check("expired: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
    await server.kill();

    const key = join(process.env.PAGE_WORK, "key");
    writeFileSync(key, randomBytes(32).toString("base64"), { mode: 0o600 });
    const sealed = await Server.start(["--key-file", key]);
    await sealed.call("/v1/sessions", { id: "sealed", title: "A sealed one" });
    await sealed.append("sealed", [{ type: "user.message", content: "Nobody else reads this" }]);
    const open = await pageOf(browser, sealed.url);
    await show(open, "#/s/sealed");
    check("an encrypted session is read with its key", (await open.textContent("main")).includes("Nobody else reads this"));
    await show(open, "#/store");
    check("the store says that it is encrypted", (await open.textContent("main")).includes("Encrypted, and the master key that is given opens it"), await open.textContent("main"));
    check("encrypted: no fault", open.faults.length === 0, open.faults.join("\n"));
    await stop(sealed);
    await open.context().close();
    sealed.more = [];
    const refused = await sealed.restart().then(() => "", (error) => error.message);
    check("without its key the store is not opened", refused.includes("encrypted") && refused.includes("nothing was changed"), refused);
    sealed.more = ["--key-file", key];
    await sealed.restart();
    await sealed.call("/v1/sessions/sealed/erase", {});
    const erased = await pageOf(browser, sealed.url);
    await show(erased, "#/s/sealed");
    const said = await erased.textContent("main");
    check("an erased session says so", said.includes("cannot be shown") && said.includes("was deleted") && !said.includes("Nobody else"), said);
    check("erased: no fault", erased.faults.length === 0, erased.faults.join("\n"));
    await erased.context().close();
    await sealed.kill();
}
