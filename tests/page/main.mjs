// Runs the checks; a line each, and at the end what failed.
import { open } from "./browser.mjs";
import { actsCheck } from "./check_acts.mjs";
import { damageCheck } from "./check_damage.mjs";
import { hostileCheck } from "./check_hostile.mjs";
import { keysCheck } from "./check_keys.mjs";
import { largeCheck } from "./check_large.mjs";
import { liveCheck } from "./check_live.mjs";
import { screensCheck } from "./check_screens.mjs";
import { statesCheck } from "./check_states.mjs";
import { tokensCheck } from "./check_tokens.mjs";
import { endAll, Server } from "./server.mjs";
import { bigSession, exampleSession } from "./stores.mjs";

const given = process.env.PAGE_URL;
const only = process.env.PAGE_ONLY?.split(",");
const failed = [];
let holds = 0;

/** Says whether something holds. */
function check(what, is, detail = "") {
    if (is) {
        holds += 1;
        return;
    }
    const line = `${what}${detail === "" ? "" : `: ${String(detail).slice(0, 1500)}`}`;
    failed.push(line);
    console.log(`  FAILED ${line}`);
}

const server = given === undefined ? await Server.start() : new Server(given);
const browser = await open();
const CHECKS = [
    ["screens", screensCheck, false],
    ["keys", keysCheck, false],
    ["acts", actsCheck, true],
    ["hostile", hostileCheck, false],
    ["large", largeCheck, false],
    ["live", liveCheck, true],
    ["tokens", tokensCheck, true],
    ["damage", damageCheck, true],
    ["states", statesCheck, true],
];
try {
    await exampleSession(server);
    if (only === undefined || only.includes("large")) await bigSession(server, Number(process.env.PAGE_EVENTS ?? 100_000));
    for (const [name, run, needsOwn] of CHECKS) {
        if ((only !== undefined && !only.includes(name)) || (needsOwn && given !== undefined)) continue;
        const began = Date.now();
        console.log(`${name}`);
        await run({ browser, server, check });
        console.log(`  took ${((Date.now() - began) / 1000).toFixed(1)} s`);
    }
} catch (error) {
    check("the run", false, error.stack);
} finally {
    await browser.close();
    endAll();
}
console.log(failed.length === 0 ? `the page: ${holds} checks hold` : `the page: ${failed.length} of ${holds + failed.length} checks failed`);
process.exit(failed.length === 0 ? 0 : 1);
