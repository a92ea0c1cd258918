// Every screen in both themes at two widths: photographed, looked over by axe, without a fault, and
// without anything that is wider than the window.
import { join } from "node:path";
import { findings, pageOf, show } from "./browser.mjs";

const WORKSPACE = encodeURIComponent("/work/wx");
const SCREENS = {
    sessions: "#/",
    conversation: "#/s/rain-report",
    opened: "#/s/rain-report/e/8",
    failed: "#/s/rain-report/e/6",
    compacted: "#/s/rain-report/e/28",
    end: "#/s/rain-report/end",
    found: "#/s/rain-report?q=round",
    subagent: "#/s/rain-report/thread/explore-1",
    gone: "#/s/rain-report/e/99999",
    told: "#/s/rain-report/told/30",
    plots: "#/s/rain-report/plots",
    branches: "#/s/rain-report/compare",
    compare: "#/compare/rain-report/rain-fork",
    search: "#/search?q=rounding",
    why: `#/why?path=${encodeURIComponent("/work/wx/report.py")}&workspace=${WORKSPACE}`,
    memory: `#/memory/${WORKSPACE}`,
    workspaces: "#/memory",
    store: "#/store",
    missing: "#/s/no-such-session",
    nowhere: "#/nowhere",
};

export async function screensCheck({ browser, server, check }) {
    // The index of the search is made in the background.
    for (let tries = 0; tries < 1_200; tries += 1) {
        const found = await server.call("/v1/search?q=rounding&limit=1");
        if (found.complete.is_complete) break;
        await new Promise((wake) => setTimeout(wake, 100));
    }
    for (const [theme, width] of [["light", 1280], ["dark", 1280], ["light", 390], ["dark", 390], ["light", 320]]) {
        const page = await pageOf(browser, server.url, { theme, width, height: width < 500 ? 780 : 860 });
        for (const [name, fragment] of Object.entries(SCREENS)) {
            const where = `${name}, ${theme}, ${width} px`;
            await show(page, fragment);
            if (width !== 320) await page.screenshot({ path: join(process.env.PAGE_PICTURES, `${name}-${theme}-${width}.png`) });
            const found = await findings(page);
            check(`${where}: axe finds nothing`, found.length === 0, found.join("\n"));
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            check(`${where}: nothing is wider than the window`, wide <= 0, `${wide} px`);
            const title = await page.title();
            check(`${where}: it has a title`, title.includes("sessionlog"), title);
        }
        check(`${theme}, ${width} px: no fault`, page.faults.length === 0, page.faults.join("\n"));
        await page.context().close();
    }
    const page = await pageOf(browser, server.url);
    await show(page, "#/s/rain-report/e/99999");
    check("a position that is gone says so", (await page.textContent("[role=alert]")).includes("Position 99999 is not there"));
    await show(page, "#/s/no-such-session");
    check("a session that is gone says so", (await page.textContent("[role=alert]")).includes("cannot be shown"));
    await server.call("/v1/sessions", { id: "unwanted", title: "To be deleted" });
    await fetch(`${server.url}/v1/sessions/unwanted`, { method: "DELETE" });
    await show(page, "#/s/unwanted");
    const said = await page.textContent("[role=alert]");
    check("a deleted session says what to do", said.includes("sessionlog restore"), said);
    await server.call("/v1/sessions", { id: "untouched", title: "Nothing yet" });
    await show(page, "#/s/untouched");
    check("an empty session says what will come", (await page.textContent("main")).includes("Nothing was recorded yet"));
    await server.append("untouched", [{ type: "user.message", content: "The first event" }]);
    const comes = await page.waitForFunction(() => document.querySelector(".rows")?.textContent.includes("The first event"), undefined, { timeout: 120_000 }).then(() => true, () => false);
    check("and its first row appears by itself", comes, await page.textContent("main"));
    await show(page, "#/s/rain-report/e/8");
    check("an edit is shown as a diff", (await page.locator(".diff .plus").count()) === 2);
    await page.context().close();

    const plain = await browser.newContext({ javaScriptEnabled: false });
    const still = await plain.newPage();
    await still.goto(server.url);
    check("without scripts there is a sentence", (await still.textContent("noscript, body")).includes("sessionlog view"));
    await plain.close();
}
