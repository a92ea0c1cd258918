// A server with tokens: the page asks once, keeps its place, and says what a token may not do; a
// revoked token is asked for again. Two tenants do not see each other.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { findings, pageOf, settled } from "./browser.mjs";
import { Server } from "./server.mjs";

export async function tokensCheck({ browser, check }) {
    const file = join(process.env.PAGE_WORK, "tokens");
    const tokens = (...args) => execFileSync(process.env.PAGE_PROGRAM, ["tokens", ...args, "--tokens-file", file, "--json"], { encoding: "utf8" });
    const made = (...args) => JSON.parse(tokens("create", ...args));
    const writer = made("--user", "ann", "--scopes", "read,write");
    const reader = made("--user", "ann", "--scopes", "read");
    const other = made("--user", "bob", "--tenant", "other", "--scopes", "read");
    const server = await Server.start(["--tokens-file", file]);
    await server.call("/v1/sessions", { id: "private", title: "Ann's session" }, writer.token);
    await server.append("private", [{ type: "user.message", content: "A secret of Ann" }, { type: "agent.message", content: "It is kept." }], writer.token);

    const page = await pageOf(browser, server.url);
    const give = async (token) => {
        await page.fill("dialog.token input", token);
        await page.keyboard.press("Enter");
        await settled(page);
    };
    await page.goto(`${server.url}/#/s/private/e/1`);
    await page.waitForSelector("dialog.token");
    check("a token is asked for", !(await page.textContent("body")).includes("secret of Ann"));
    check("axe finds nothing in the question", (await findings(page)).length === 0, (await findings(page)).join("\n"));
    await give("sl_wrong_token");
    await page.waitForSelector("dialog.token .bad");
    check("a wrong token is asked for again", (await page.textContent("dialog.token")).includes("does not take"));
    await give(reader.token);
    await settled(page);
    await page.waitForSelector(".detail");
    check("the place is kept", (await page.evaluate(() => location.hash)) === "#/s/private/e/1" && (await page.textContent("main")).includes("secret of Ann"));
    const kept = await page.evaluate(() => ({ cookie: document.cookie, local: localStorage.length, address: location.href }));
    check("the token is in no cookie, no address, and for the tab only", kept.cookie === "" && kept.local === 0 && !kept.address.includes(reader.token), JSON.stringify(kept));
    await page.locator(".detail button", { hasText: "Mark important" }).click();
    await settled(page);
    check("a token that is too narrow is said", (await page.textContent(".detail footer")).includes("Not marked"), await page.textContent(".detail footer"));
    await page.goto(`${server.url}/#/store`);
    await settled(page);
    check("the store says what this token may not see", (await page.textContent("main")).includes("scope"), await page.textContent("main"));

    tokens("revoke", reader.id);
    for (let tries = 0; tries < 1_200; tries += 1) {
        if (await server.call("/v1/sessions", undefined, reader.token).then(() => false, () => true)) break;
        await new Promise((wake) => setTimeout(wake, 100));
    }
    await page.goto(`${server.url}/#/s/private/e/1`);
    await page.reload();
    await page.waitForSelector("dialog.token", { timeout: 120_000 });
    check("a revoked token is asked for again", true);
    await give(writer.token);
    await settled(page);
    await page.waitForSelector(".detail");
    check("and the place is kept again", (await page.evaluate(() => location.hash)) === "#/s/private/e/1");
    check("tokens: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();

    const stranger = await pageOf(browser, server.url);
    await stranger.goto(`${server.url}/#/`);
    await stranger.waitForSelector("dialog.token");
    await stranger.fill("dialog.token input", other.token);
    await stranger.keyboard.press("Enter");
    await settled(stranger);
    check("another tenant sees none of it", !(await stranger.textContent("main")).includes("Ann"));
    await stranger.goto(`${server.url}/#/s/private`);
    await settled(stranger);
    check("not even that it is there", (await stranger.textContent("main")).includes("cannot be shown"), await stranger.textContent("main"));
    await stranger.context().close();
    await server.kill();
}
