// What a proxied call costs more than one that is not: the same server and the same calls, with the
// proxy and without it in turns, one call at a time. Prints medians in microseconds.
// usage: node overhead.mjs PROGRAM DATA_DIR CALLS -- SERVER…
import { spawn } from "node:child_process";

const [program, data, calls, , ...server] = process.argv.slice(2);

async function connect(command) {
  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "ignore"] });
  let rest = "";
  let hear = () => {};
  child.stdout.setEncoding("utf8").on("data", (text) => {
    rest += text;
    for (let end; (end = rest.indexOf("\n")) >= 0; rest = rest.slice(end + 1)) {
      const message = JSON.parse(rest.slice(0, end));
      if (message.id !== undefined && message.method === undefined) hear(message);
    }
  });
  let id = 0;
  const say = (message) => child.stdin.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
  const ask = (method, params) =>
    new Promise((heard) => {
      hear = heard;
      say({ id: ++id, method, params });
    });
  const clientInfo = { name: "overhead", version: "1" };
  await ask("initialize", { protocolVersion: "2025-06-18", capabilities: {}, clientInfo });
  say({ method: "notifications/initialized" });
  await ask("tools/list", {});
  return { ask, end: () => child.stdin.end() };
}

const median = (numbers) => numbers.sort((a, b) => a - b)[numbers.length >> 1];

async function measure(connection, count) {
  const took = [];
  for (let n = 0; n < count; n++) {
    const began = process.hrtime.bigint();
    const answer = await connection.ask("tools/call", { name: "echo", arguments: { message: `call ${n} ${Math.random()}` } });
    took.push(Number(process.hrtime.bigint() - began) / 1000);
    if (answer.result.isError) throw new Error(JSON.stringify(answer));
  }
  return median(took);
}

const direct = await connect(server);
const proxied = await connect([program, "--data-dir", data, "proxy", "--", ...server]);
const rounds = { direct: [], proxied: [] };
for (let round = 0; round < 7; round++) {
  rounds.direct.push(await measure(direct, Number(calls)));
  rounds.proxied.push(await measure(proxied, Number(calls)));
}
const [without, through] = [median(rounds.direct), median(rounds.proxied)];
console.log(`direct ${without.toFixed(0)} us, proxied ${through.toFixed(0)} us, overhead ${(through - without).toFixed(0)} us (median of ${calls} calls, median of 7 rounds)`);
direct.end();
proxied.end();
