// Saving, restoring and the graph of a workspace through the official TypeScript SDK: the calls of
// handoff.json, on stdio.
//
//     node handoff.mjs PROGRAM DIRECTORY
//
// The packages are looked for from the working directory. The SDK itself checks every structured
// answer against the tool's output schema. The last line gives the counts; what does not hold ends
// it with 1.

import fs from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const [program, directory] = process.argv.slice(2);
const require = createRequire(path.join(process.cwd(), 'here.js'));
const { Client } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
const data = path.join(directory, 'data');
const steps = path.join(path.dirname(fileURLToPath(import.meta.url)), 'handoff.json');
const counts = { calls: 0, checks: 0 };
const known = {};

function check(holds, what, seen) {
    counts.checks += 1;
    if (holds) return;
    console.log(`does not hold: ${what}: ${String(JSON.stringify(seen) ?? seen).slice(0, 2000)}`);
    process.exit(1);
}
const at = (value, pointer) =>
    pointer.split('/').slice(1).reduce((value, part) => value?.[part], value);

function filled(value) {
    if (Array.isArray(value)) return value.map(filled);
    if (value && typeof value === 'object') {
        return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filled(one)]));
    }
    return known[value] ?? value;
}

// Tools whose text is Markdown for a model, beside the structure.
const AS_TEXT = ['get_research_session', 'continue_session', 'restore_session'];

async function step(client, { tool, arguments: given, refused, expect, contains, keep }) {
    counts.calls += 1;
    const args = filled(given);
    const result = await client.callTool({ name: tool, arguments: args });
    const text = result.content[0].text;
    if (refused) {
        check(result.isError, `${tool} is refused`, [args, text]);
        const { kind } = JSON.parse(text.slice(text.indexOf('\n\n'))).error;
        check(kind === refused, `${tool} is refused as such`, text);
        return;
    }
    check(!result.isError, tool, [args, text]);
    const answer = result.structuredContent;
    if (AS_TEXT.includes(tool) && !text.startsWith('{')) {
        check(text.includes('<sessionlog trust='), 'a text for a model', text);
    } else {
        check(JSON.stringify(JSON.parse(text)) === JSON.stringify(answer), 'text and structure', text);
    }
    for (const [pointer, wanted] of Object.entries(expect ?? {})) {
        check(at(answer, pointer) === filled(wanted), `${tool} ${pointer}`, answer);
    }
    for (const [pointer, wanted] of Object.entries(contains ?? {})) {
        check(at(answer, pointer).includes(wanted), `${tool} ${pointer}`, answer);
    }
    for (const [name, pointer] of Object.entries(keep ?? {})) known[name] = at(answer, pointer);
}

const client = new Client({ name: 'handoff', version: '1' });
const args = ['--data-dir', data, 'mcp', '--toolsets', 'research,workspace,graph'];
await client.connect(new StdioClientTransport({ command: program, args, cwd: directory }));
await client.listTools();
for (const one of JSON.parse(fs.readFileSync(steps, 'utf8'))) await step(client, one);
await client.close();
await new Promise((done, fail) => {
    const owner = { socketPath: path.join(data, 'owner.sock'), path: '/v1/admin/owner' };
    http.get({ ...owner, headers: { host: 'localhost' } }, answer => {
        let text = '';
        answer.on('data', part => (text += part));
        answer.on('end', () => done(process.kill(JSON.parse(text).pid, 'SIGTERM')));
    }).on('error', fail);
});
const told = Object.entries(counts).map(([name, count]) => `${count} ${name}`).join(', ');
console.log(`typescript handoff: ${told}, 0 failed`);
