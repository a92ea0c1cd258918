// The research scenario through the official TypeScript SDK: 200 steps, the owner killed in the
// middle, recovery by another client without an id, one step by its number, a refusal and the way
// out of it.
//
//     node scenario.mjs PROGRAM DIRECTORY stdio|http legacy|2026-07-28 sdk|client
//
// The packages are looked for from the working directory. The SDK itself checks every structured
// answer against the tool's output schema. The last line gives the counts; what does not hold ends
// it with 1.

import { spawn } from 'node:child_process';
import http from 'node:http';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';

const STEPS = 200;
const KILLED_AT = 103;
const [program, directory, transport, generation, flavour] = process.argv.slice(2);
const require = createRequire(path.join(process.cwd(), 'here.js'));
const { Client, StdioClientTransport, StreamableHTTPClientTransport } =
    flavour === 'sdk'
        ? {
              ...require('@modelcontextprotocol/sdk/client/index.js'),
              ...require('@modelcontextprotocol/sdk/client/stdio.js'),
              ...require('@modelcontextprotocol/sdk/client/streamableHttp.js')
          }
        : { ...require('@modelcontextprotocol/client'), ...require('@modelcontextprotocol/client/stdio') };
const data = path.join(directory, 'data');
const counts = { calls: 0, checks: 0, repeated: 0 };

function check(holds, what, seen) {
    counts.checks += 1;
    if (holds) return;
    console.log(`does not hold: ${what}: ${String(JSON.stringify(seen) ?? seen).slice(0, 2000)}`);
    process.exit(1);
}
const pause = ms => new Promise(done => setTimeout(done, ms));
const gone = child => new Promise(done => child.once('exit', done));

// -- what is killed: the owner behind a front end on stdio, the server on HTTP --------------------

let server;
let port;
const url = () => `http://127.0.0.1:${port}`;

async function start() {
    if (transport === 'stdio') return;
    port ??= await new Promise(done => {
        const probe = net.createServer().listen(0, '127.0.0.1', () => {
            const { port } = probe.address();
            probe.close(() => done(port));
        });
    });
    const listen = `127.0.0.1:${port}`;
    server = spawn(program, ['--data-dir', data, 'serve', '--listen', listen], { stdio: 'ignore' });
    while (!(await fetch(`${url()}/readyz`).catch(() => null))?.ok) await pause(50);
}

function owner() {
    if (server) return server.pid;
    return new Promise((done, fail) => {
        const at = { socketPath: path.join(data, 'owner.sock'), path: '/v1/admin/owner' };
        http.get({ ...at, headers: { host: 'localhost' } }, answer => {
            let text = '';
            answer.on('data', part => (text += part));
            answer.on('end', () => done(JSON.parse(text).pid));
        }).on('error', fail);
    });
}

async function kill() {
    const pid = await owner();
    const ended = server && gone(server);
    process.kill(pid, 'SIGKILL');
    await ended;
    await start();
}

async function stop() {
    process.kill(await owner(), 'SIGTERM');
    if (server) await gone(server);
}

// -- one connection -------------------------------------------------------------------------------

async function connect(headers = { 'sessionlog-directory': '/research/scenario' }) {
    const options = generation === 'legacy' ? {} : { versionNegotiation: { mode: { pin: generation } } };
    const client = new Client({ name: 'scenario', version: '1' }, options);
    const wire =
        transport === 'stdio'
            ? new StdioClientTransport({
                  command: program,
                  args: ['--data-dir', data, 'mcp', '--toolsets', 'research,events'],
                  cwd: directory
              })
            : new StreamableHTTPClientTransport(
                  new URL(`${url()}/mcp?toolsets=research,events`),
                  { requestInit: { headers } }
              );
    await client.connect(wire);
    const { tools } = await client.listTools();
    check(tools.length === 11 && tools.every(tool => tool.outputSchema), 'eleven tools', tools);
    if (client.getProtocolEra) {
        const era = generation === 'legacy' ? 'legacy' : 'modern';
        check(client.getProtocolEra() === era, 'the generation', client.getProtocolEra());
    }
    return client;
}

async function ok(client, name, args) {
    counts.calls += 1;
    const result = await client.callTool({ name, arguments: args });
    check(!result.isError, name, [args, result.content]);
    const { text } = result.content[0];
    const told = result.structuredContent;
    // Of where a session stands the text is Markdown for a model.
    if (name === 'get_research_session' && !text.startsWith('{')) {
        check(text.includes('<sessionlog trust=') && !text.includes('{"'), 'a text for a model', text);
    } else {
        const same = JSON.stringify(JSON.parse(text)) === JSON.stringify(told);
        check(same, 'text and structure are the same', text);
    }
    return told;
}

async function refused(client, name, args) {
    counts.calls += 1;
    const result = await client.callTool({ name, arguments: args });
    check(result.isError, `${name} is refused`, [args, result.content]);
    const text = result.content[0].text;
    return JSON.parse(text.slice(text.indexOf('\n\n'))).error;
}

function step(number) {
    const args = {
        searchStep: `Read page ${number}. It says fact-${number}. ${'More of it. '.repeat(40)}`,
        stepNumber: number,
        nextStepNeeded: number < STEPS,
        delta: number % 7 > 0
    };
    if (number === 1) args.researchGoal = 'Find out what the pages say';
    if (number % 10 === 0) args.knowledgeGap = `What does page ${number} leave out?`;
    if (number % 20 === 5 && number > 20) {
        args.closesGap = `What does page ${number - 15} leave out?`;
        args.rejectedApproaches = [`guessing at page ${number}`];
    }
    return args;
}

// Records the steps. Over HTTP the kill breaks the connection: another one is opened and the step
// sent again, which is a retry; on stdio nothing of it may be seen.
async function record() {
    let client = await connect();
    let killed;
    for (let number = 1; number <= STEPS; ) {
        try {
            const sent = ok(client, 'sequential_search', step(number));
            if (number === KILLED_AT) killed ??= kill();
            const answer = await sent;
            check(answer.currentStep === number, 'the step', answer);
            check(JSON.stringify(answer).length <= 10_000, 'the bound', answer);
            if (number % 10 === 0) {
                const address = `https://example.org/page/${number}`;
                const source = { url: address, title: `Page ${number}`, foundInStep: number };
                await ok(client, 'add_sources', { sources: [source] });
            }
            number += 1;
        } catch (broken) {
            counts.repeated += 1;
            check(transport === 'http', 'a front end outlives the owner', String(broken));
            check(counts.repeated === 1, 'one kill breaks one connection', String(broken));
            await killed;
            client = await connect();
        }
    }
    await killed;
    check(killed, 'the owner was killed');
    await client.close();
}

// A whole list, the newest first.
async function pages(client, overview, name, shown) {
    const items = overview[shown].toReversed();
    let cursor = overview.cursors?.[name];
    while (cursor) {
        const page = await ok(client, 'get_research_session', { cursor });
        items.push(...page[shown].toReversed());
        cursor = page.nextCursor;
    }
    return items;
}

async function recover() {
    const client = await connect();
    const found = await ok(client, 'get_research_session', {});
    check(found.boundBy === 'directory', 'found without an id', found.boundBy);
    check(found.stepCount === STEPS, 'every step is there once', found.stepCount);
    check(found.isComplete, 'it is complete', found);
    check(found.researchGoal === 'Find out what the pages say', 'the goal', found);
    const index = await pages(client, found, 'steps', 'stepIndex');
    const wanted = Array.from({ length: STEPS }, (_, at) => STEPS - at);
    const numbers = index.map(line => line.stepNumber);
    check(String(numbers) === String(wanted), 'paging yields every step once', numbers);
    const gaps = await pages(client, found, 'gaps', 'gaps');
    check(gaps.length === 20 - 9, 'the open gaps', gaps);
    const sources = await pages(client, found, 'sources', 'sources');
    check(sources.length === 20, 'every source once', sources);
    const one = await ok(client, 'get_research_session', { stepId: 137 });
    check(one.step.description === step(137).searchStep, 'one step in full', one);

    const changed = { ...step(50), searchStep: 'something else' };
    const error = await refused(client, 'sequential_search', changed);
    check(error.kind === 'step_conflict', 'no step is overwritten', error);
    check(error.recoveryHint.lastKnownStep === STEPS, 'the hint knows the last step', error);
    const after = { ...step(STEPS + 1), nextStepNeeded: false };
    await ok(client, 'sequential_search', after);
    const again = await ok(client, 'sequential_search', after);
    check(again.repeated, 'a retry is told', again);

    const event = { type: 'user.message', content: 'thanks' };
    const emitted = await ok(client, 'emit_event', { event });
    const slice = await ok(client, 'get_events', { from: String(emitted.position) });
    check(slice.events[0].content === 'thanks', 'the event is read back', slice);
    const prompt = await client.getPrompt({ name: 'continue', arguments: {} });
    check(prompt.messages[0].content.text.includes('Find out what'), 'the prompt', prompt);
    const resource = await client.readResource({ uri: `session://${found.sessionId}/index` });
    check(JSON.parse(resource.contents[0].text).stepCount === STEPS + 1, 'the resource', resource);
    const listed = await client.listResources();
    check(listed.resources.length === 1, 'one session, one resource', listed);
    await client.close();
}

async function stranger() {
    const client = await connect({});
    const error = await refused(client, 'get_research_session', {});
    check(error.kind === 'session_required', 'never a guess', error);
    const sessionId = error.recoveryHint.candidates[0].session;
    const found = await ok(client, 'get_research_session', { sessionId });
    check(found.stepCount === STEPS + 1, 'the candidate is it', found);
    await client.close();
}

await start();
const first = await connect();
check((await ok(first, 'list_sessions', {})).sessions.length === 0, 'no session yet');
check((await ok(first, 'review_history', {})).sessions.length === 0, 'no history yet');
const nothing = await refused(first, 'get_research_session', {});
check(nothing.kind === 'session_required', 'nothing is bound', nothing);
await first.close();
await record();
await recover();
if (transport === 'http') await stranger();
await stop();
const told = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
console.log(`typescript ${flavour} ${transport} ${generation}: ${told.join(', ')}, 0 failed`);
process.exit(0);
