"""The research scenario through the official Python SDK: 200 steps, the owner killed in the middle,
recovery by another client without an id, one step by its number, a refusal and the way out of it.

    scenario.py PROGRAM DIRECTORY stdio|http legacy|2026-07-28

The SDK itself checks every structured answer against the tool's output schema. The last line gives
the counts; what does not hold ends it with 1.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request

import httpx2
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

STEPS = 200
KILLED_AT = 103
program, directory, transport, generation = sys.argv[1:]
counts = {"calls": 0, "checks": 0, "repeated": 0}


def check(holds, what, seen=None):
    counts["checks"] += 1
    if not holds:
        print(f"does not hold: {what}: {json.dumps(seen, default=str)[:2000]}")
        os._exit(1)


class Server:
    """What is killed: the owner behind a front end on stdio, the server on HTTP."""

    def __init__(self):
        self.data = os.path.join(directory, "data")
        self.process = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self):
        if transport == "stdio":
            return
        listen = f"127.0.0.1:{self.port}"
        log = open(os.path.join(directory, "serve.log"), "a")
        self.process = subprocess.Popen(
            [program, "--data-dir", self.data, "serve", "--listen", listen],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )

    async def ready(self):
        while transport == "http":
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5).read()
                return
            except OSError:
                await asyncio.sleep(0.05)

    def owner(self):
        if self.process:
            return self.process.pid
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(os.path.join(self.data, "owner.sock"))
            door.sendall(b"GET /v1/admin/owner HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = b"".join(iter(lambda: door.recv(65536), b""))
        return json.loads(answer.split(b"\r\n\r\n", 1)[1])["pid"]

    def kill(self):
        os.kill(self.owner(), signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()
        else:
            os.kill(self.owner(), signal.SIGTERM)


server = Server()
mode = "legacy" if generation == "legacy" else generation


class Session:
    """One connection; another takes its place when it breaks, which on stdio it must not."""

    def __init__(self, headers=True):
        self.headers = {"sessionlog-directory": "/research/scenario"} if headers else {}

    async def __aenter__(self):
        if transport == "stdio":
            arguments = ["--data-dir", server.data, "mcp", "--toolsets", "research,events"]
            wire = stdio_client(StdioServerParameters(command=program, args=arguments, cwd=directory))
        else:
            url = f"http://127.0.0.1:{server.port}/mcp?toolsets=research,events"
            self.http = httpx2.AsyncClient(headers=self.headers, timeout=30)
            wire = streamable_http_client(url, http_client=self.http, terminate_on_close=False)
        self.client = Client(wire, mode=mode)
        await self.client.__aenter__()
        wanted = "2025-11-25" if mode == "legacy" else mode
        check(self.client.protocol_version == wanted, "the generation", self.client.protocol_version)
        tools = (await self.client.list_tools()).tools
        check(len(tools) == 11 and all(tool.output_schema for tool in tools), "eleven tools", tools)
        return self

    async def __aexit__(self, *problem):
        await self.client.__aexit__(*problem)

    async def call(self, tool, arguments):
        counts["calls"] += 1
        return await self.client.call_tool(tool, arguments)

    async def ok(self, tool, arguments):
        result = await self.call(tool, arguments)
        check(not result.is_error, tool, [arguments, result.content])
        text, structure = result.content[0].text, result.structured_content
        # Of where a session stands the text is Markdown for a model.
        if tool == "get_research_session" and not text.startswith("{"):
            check("<sessionlog trust=" in text and '{"' not in text, "a text for a model", text)
        else:
            check(json.loads(text) == structure, "text and structure are the same", text)
        return structure

    async def refused(self, tool, arguments):
        result = await self.call(tool, arguments)
        check(result.is_error, f"{tool} is refused", [arguments, result.content])
        return json.loads(result.content[0].text.split("\n\n", 1)[1])["error"]


def step(number):
    arguments = {
        "searchStep": f"Read page {number}. It says fact-{number}. " + "More of it. " * 40,
        "stepNumber": number,
        "nextStepNeeded": number < STEPS,
        "delta": number % 7 > 0,
    }
    if number == 1:
        arguments["researchGoal"] = "Find out what the pages say"
    if number % 10 == 0:
        arguments["knowledgeGap"] = f"What does page {number} leave out?"
        arguments["confidence"] = "high"
    if number % 20 == 5 and number > 20:
        arguments["closesGap"] = f"What does page {number - 15} leave out?"
        arguments["rejectedApproaches"] = [f"guessing at page {number}"]
    return arguments


class Kill:
    """Ends the owner while a step is on its way, and puts another in its place."""

    def __init__(self, number):
        self.number, self.done = number, None

    def at(self, number):
        if self.done is None and number == self.number:
            self.done = asyncio.ensure_future(asyncio.to_thread(self.act))

    @staticmethod
    def act():
        server.kill()
        server.start()


async def on_one_connection(waiting, kill):
    async with Session() as session:
        while waiting:
            number = waiting[0]
            sent = asyncio.ensure_future(session.ok("sequential_search", step(number)))
            kill.at(number)
            answer = await asyncio.wait_for(sent, 60)
            check(answer["currentStep"] == number, "the step", answer)
            check(len(json.dumps(answer)) <= 10_000, "the bound", answer)
            waiting.pop(0)
            if number % 10 == 0:
                url = f"https://example.org/page/{number}"
                source = {"url": url, "title": f"Page {number}", "foundInStep": number}
                await session.ok("add_sources", {"sources": [source]})


async def record(numbers, kill_at):
    """Records the steps. Over HTTP the kill breaks the connection: another one is opened and the
    step sent again, which is a retry; on stdio nothing of it may be seen."""
    waiting, kill = list(numbers), Kill(kill_at)
    while waiting:
        connection = asyncio.ensure_future(on_one_connection(waiting, kill))
        await asyncio.wait([connection])
        broken = "cancelled" if connection.cancelled() else connection.exception()
        if broken:
            counts["repeated"] += 1
            check(transport == "http", "a front end outlives the owner", repr(broken))
            check(counts["repeated"] == 1, "one kill breaks one connection", repr(broken))
        await kill.done
        await server.ready()
    check(kill.done and kill.done.done(), "the owner was killed")


async def pages(session, overview, name, shown):
    """A whole list, the newest first."""
    items = list(reversed(overview[shown]))
    cursor = overview.get("cursors", {}).get(name)
    while cursor:
        page = await session.ok("get_research_session", {"cursor": cursor})
        items += reversed(page[shown])
        cursor = page.get("nextCursor")
    return items


async def main():
    server.start()
    await server.ready()
    async with Session() as session:
        empty = await session.ok("list_sessions", {})
        check(empty["sessions"] == [], "no session yet", empty)
        empty = await session.ok("review_history", {})
        check(empty["sessions"] == [], "no history yet", empty)
        error = await session.refused("get_research_session", {})
        check(error["kind"] == "session_required", "nothing is bound", error)
    await record(range(1, STEPS + 1), KILLED_AT)

    async with Session() as other:
        found = await other.ok("get_research_session", {})
        check(found["boundBy"] == "directory", "found without an id", found["boundBy"])
        check(found["stepCount"] == STEPS, "every step is there once", found["stepCount"])
        check(found["isComplete"], "it is complete", found)
        check(found["researchGoal"] == "Find out what the pages say", "the goal", found)
        numbers = [line["stepNumber"] for line in await pages(other, found, "steps", "stepIndex")]
        check(numbers == list(range(STEPS, 0, -1)), "paging yields every step once", numbers)
        gaps = await pages(other, found, "gaps", "gaps")
        check(len(gaps) == 20 - 9, "the open gaps", gaps)
        sources = await pages(other, found, "sources", "sources")
        check(len(sources) == 20, "every source once", sources)
        one = await other.ok("get_research_session", {"stepId": 137})
        check("fact-137." in one["step"]["description"], "one step in full", one)
        check(one["step"]["description"] == step(137)["searchStep"], "unchanged", one)

        changed = dict(step(50), searchStep="something else")
        error = await other.refused("sequential_search", changed)
        hint = error["recoveryHint"]
        check(error["kind"] == "step_conflict", "no step is overwritten", error)
        check(hint["lastKnownStep"] == STEPS, "the hint knows the last step", error)
        after = dict(step(STEPS + 1), nextStepNeeded=False)
        await other.ok("sequential_search", after)
        again = await other.ok("sequential_search", after)
        check(again["repeated"], "a retry is told", again)

        event = {"type": "user.message", "content": "thanks"}
        emitted = await other.ok("emit_event", {"event": event})
        slice_ = await other.ok("get_events", {"from": str(emitted["position"])})
        check(slice_["events"][0]["content"] == "thanks", "the event is read back", slice_)
        prompt = await other.client.get_prompt("continue", {})
        check("Find out what" in prompt.messages[0].content.text, "the prompt", prompt)
        resource = await other.client.read_resource(f"session://{found['sessionId']}/index")
        index = json.loads(resource.contents[0].text)
        check(index["stepCount"] == STEPS + 1, "the resource", index)
        listed = await other.client.list_resources()
        check(len(listed.resources) == 1, "one session, one resource", listed)

    if transport == "http":
        async with Session(headers=False) as stranger:
            error = await stranger.refused("get_research_session", {})
            check(error["kind"] == "session_required", "never a guess", error)
            candidate = error["recoveryHint"]["candidates"][0]["session"]
            found = await stranger.ok("get_research_session", {"sessionId": candidate})
            check(found["stepCount"] == STEPS + 1, "the candidate is it", found)
    server.stop()
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"python {transport} {generation}: {told}, 0 failed")


asyncio.run(main())
