// A session with bits that flipped on the disk: what is lost is named, everything else is shown.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { once } from "node:events";
import { pageOf, show } from "./browser.mjs";
import { Server } from "./server.mjs";

export async function damageCheck({ browser, check }) {
    const server = await Server.start();
    await server.call("/v1/sessions", { id: "hurt", title: "A flipped bit", workspace: "/work/hurt" });
    for (let from = 0; from < 2000; from += 50) {
        await server.append("hurt", Array.from({ length: 50 }, (_, n) => ({ type: "user.message", content: `message ${from + n} ${Math.random()}` })));
    }
    // What is stopped is flushed to the session's files.
    const gone = once(server.process, "exit");
    server.process.kill("SIGTERM");
    await gone;
    const files = readdirSync(join(server.directory, "segments"), { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
    for (const file of files) {
        const path = join(file.parentPath ?? file.path, file.name);
        const bytes = readFileSync(path);
        for (const part of [0.5, 0.6, 0.7]) bytes[Math.floor(bytes.length * part)] ^= 0x55;
        writeFileSync(path, bytes);
    }
    check("there was a file to damage", files.length === 1, `${files.length} files`);
    await server.restart();
    const page = await pageOf(browser, server.url);
    // Damage is found when it is read.
    await server.call("/v1/admin/verify", {}).catch(() => undefined);
    await show(page, "#/s/hurt");
    const alert = await page.textContent("[role=alert]");
    check("a damaged session names the lost positions and the command", /Positions \d+ to \d+ are lost/.test(alert) && alert.includes("sessionlog repair hurt"), alert);
    check("what is not lost is shown", (await page.textContent("main")).includes("message 3 "));
    await show(page, "#/s/hurt/e/1999");
    check("the end behind the damage is shown", (await page.textContent("main")).includes("message 1999 "));
    await show(page, "#/");
    check("the list marks it", (await page.locator(".state.damaged").count()) === 1);
    check("damage makes no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
}
