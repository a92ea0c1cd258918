// The page by keyboard alone.
import { pageOf, settled, show } from "./browser.mjs";

export async function keysCheck({ browser, server, check }) {
    const page = await pageOf(browser, server.url);
    const press = async (...keys) => {
        for (const key of keys) await page.keyboard.press(key);
        await settled(page);
    };
    const hash = () => page.evaluate(() => location.hash);
    await show(page, "#/");
    await press("j");
    check("j marks the first session", (await page.evaluate(() => document.activeElement?.className)) === "session-link");
    await press("Enter");
    await settled(page);
    check("Enter opens it", /^#\/s\//.test(await hash()), await hash());

    await show(page, "#/s/rain-report");
    await press("j", "j", "j", "j", "j");
    const first = await hash();
    check("j moves through rows", /^#\/s\/rain-report\/e\/\d+$/.test(first), first);
    await press("k");
    check("k moves back", (await hash()) !== first);
    await press("Enter");
    check("Enter opens a row in place", (await page.locator(".detail").count()) === 1);
    await press("Escape");
    check("Escape closes it", (await page.locator(".detail").count()) === 0);
    await press("g");
    await press("]");
    check("] finds the first failure", (await hash()) === "#/s/rain-report/e/6", await hash());
    await press("]");
    const second = await hash();
    check("] finds the next failure", second !== "#/s/rain-report/e/6", second);
    await press("[");
    check("[ goes back to the one before", (await hash()) === "#/s/rain-report/e/6", await hash());
    const before = await page.locator(".row").count();
    await press("g", "b");
    check("b shows bookkeeping", await page.locator(".switch input").isChecked(), before);
    await press("b", "G");
    check("G goes to the end", (await hash()) === "#/s/rain-report/end" && (await page.locator("[data-position]").last().getAttribute("data-position")) !== null, await hash());
    const last = await page.locator("[data-position]").last().getAttribute("data-position");
    await press("k");
    check("k at the end marks the last row", (await hash()).endsWith(`/e/${last}`), `${await hash()} is not ${last}`);
    await press("/");
    check("/ goes to the search field", (await page.evaluate(() => document.activeElement?.id)) === "find");
    await page.keyboard.type("rounding");
    await press("Enter");
    await settled(page);
    check("what is typed filters", (await hash()).includes("q=rounding"), await hash());
    await show(page, "#/s/rain-report");
    await press("?");
    check("? shows the keys", await page.locator("dialog.help").isVisible());
    await press("Escape");
    check("Escape closes them", (await page.locator("dialog.help").count()) === 0);
    await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    check("the focus is seen", outline !== "none", outline);

    await show(page, "#/search?q=rounding");
    await press("Enter");
    await settled(page);
    check("Enter in the search opens the best hit", /^#\/s\/[^/]+\/e\/\d+$/.test(await hash()), await hash());
    check("keys: no fault", page.faults.length === 0, page.faults.join("\n"));
    await page.context().close();
}
