// Hostile text in every field of every type: it is shown as the text it is, and does nothing.
import { pageOf, recordedText, settled, show } from "./browser.mjs";
import { eventsWith, PAYLOADS } from "./hostile.mjs";

export async function hostileCheck({ browser, server, check }) {
    const size = eventsWith("", 0).length;
    await server.call("/v1/sessions", { id: "hostile", title: PAYLOADS[0], workspace: `/work/${PAYLOADS[1]}`, metadata: { client: PAYLOADS[2] } });
    for (const [number, text] of PAYLOADS.entries()) await server.append("hostile", eventsWith(text, number));
    for (const [number, text] of PAYLOADS.entries()) {
        await server.call(`/v1/sessions/hostile/memory`, { kind: "semantic", text, topic: text.slice(0, 100), name: `${number} ${text}`.slice(0, 100), tags: [text.slice(0, 100)] });
        if (number < 30) await server.call("/v1/sessions", { id: `hostile-${number}`, title: text, workspace: `/work/${text}`.slice(0, 400) });
    }
    const page = await pageOf(browser, server.url, { width: 900 });
    for (const [number, text] of PAYLOADS.entries()) {
        const at = number * size;
        const name = JSON.stringify(text).slice(0, 60);
        // Text as recorded, or in the JSON of a body that is shown as stored; blocks end lines.
        const forms = [text, JSON.stringify(text).slice(1, -1)].map((form) => form.replaceAll("\n", ""));
        for (let offset = 0; offset < size; offset += 1) {
            await show(page, `#/s/hostile/e/${at + offset}`);
            const shown = (await recordedText(page, ".detail")).join("").replaceAll("\n", "");
            check(`${name} in event ${offset} is shown as it is`, forms.some((form) => shown.includes(form)), JSON.stringify(shown));
        }
    }
    // Hidden characters are drawn, wherever they are.
    await show(page, `#/s/hostile/e/${32 * size}`);
    check("a mark of direction is drawn", (await page.locator(".detail .hidden-char[data-code='202e']").count()) > 0);
    const raw = await page.evaluate(() => /[\u202a-\u202e\u2066-\u2069\u0000-\u0008]/.test(document.body.textContent));
    check("no such character is on the page itself", !raw);
    const hosts = await page.evaluate(() => [...document.querySelectorAll("a[href]")].filter((one) => !one.getAttribute("href").startsWith("#") && !/^https?:/.test(one.getAttribute("href"))).length);
    check("no link has another scheme", hosts === 0, hosts);
    await show(page, `#/s/hostile/e/${19 * size}`);
    const links = await page.evaluate(() => [...document.querySelectorAll(".detail a.out")].map((one) => one.dataset.host));
    check("a link shows its host", links.includes("evil.example"), links);

    const WORKSPACE = encodeURIComponent(`/work/${PAYLOADS[1]}`);
    for (const fragment of ["#/", "#/s/hostile", "#/s/hostile/end", "#/s/hostile/told/100", "#/s/hostile/plots", "#/s/hostile/compare", "#/search?q=alert", "#/search?q=evil", `#/memory/${WORKSPACE}`, "#/memory", "#/compare/hostile/rain-report", "#/store", "#/s/hostile?q=script", `#/why?path=${encodeURIComponent("/work/<script>alert(1)</script>")}`, `#/s/${encodeURIComponent("<img src=x onerror=alert(1)>")}`, "#/search?q=%3Cscript%3Ealert(1)%3C%2Fscript%3E"]) {
        await show(page, fragment);
    }
    // Bookkeeping too, through the whole session.
    await show(page, "#/s/hostile");
    await page.keyboard.press("b");
    for (let n = 0; n < 12; n += 1) {
        await page.mouse.wheel(0, 1500);
        await settled(page);
    }
    check("hostile text does nothing", page.faults.length === 0, [...new Set(page.faults)].join("\n"));
    const made = await page.evaluate(() => document.querySelectorAll("iframe, object, embed, base, form[action], script:not([src='/page/app.js']), style, link[rel=stylesheet]:not([href='/page/app.css']), meta[http-equiv]").length);
    check("no element came of it", made === 0, made);
    await page.context().close();
}
