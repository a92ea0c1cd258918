"""Saving, restoring and the graph of a workspace through the official Python SDK: the calls of
handoff.json, on stdio. An MCP server of the same SDK finds entities in what is saved.

    handoff.py PROGRAM DIRECTORY
    handoff.py extractor

The SDK itself checks every structured answer against the tool's output schema. The last line gives
the counts; what does not hold ends it with 1.
"""

import asyncio
import json
import os
import signal
import socket
import sys

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

HERE = os.path.dirname(os.path.abspath(__file__))
counts = {"calls": 0, "checks": 0}


def check(holds, what, seen=None):
    counts["checks"] += 1
    if not holds:
        print(f"does not hold: {what}: {json.dumps(seen, default=str)[:2000]}")
        os._exit(1)


def extractor():
    """A server that finds two words."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("names")

    @server.tool()
    def find_names(text: str) -> dict:
        found = {word for word in text.replace(".", " ").split() if word in ("parser", "table")}
        return {"entities": [{"type": "concept", "id": word, "length": len(word)} for word in sorted(found)]}

    server.run()


def at(value, pointer):
    for part in pointer.split("/")[1:]:
        value = value[int(part)] if isinstance(value, list) else value.get(part)
    return value


# Tools whose text is Markdown for a model, beside the structure.
AS_TEXT = ("get_research_session", "continue_session", "restore_session")


class Session:
    def __init__(self, client):
        self.client, self.known = client, {}

    def filled(self, value):
        if isinstance(value, dict):
            return {name: self.filled(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.filled(one) for one in value]
        return self.known.get(value, value) if isinstance(value, str) else value

    async def step(self, step):
        counts["calls"] += 1
        arguments = self.filled(step["arguments"])
        result = await self.client.call_tool(step["tool"], arguments)
        text = result.content[0].text
        if "refused" in step:
            check(result.is_error, f"{step['tool']} is refused", [arguments, text])
            kind = json.loads(text.split("\n\n", 1)[1])["error"]["kind"]
            check(kind == step["refused"], f"{step['tool']} is refused as such", text)
            return None
        check(not result.is_error, step["tool"], [arguments, text])
        answer = result.structured_content
        if step["tool"] in AS_TEXT and not text.startswith("{"):
            check("<sessionlog trust=" in text, "a text for a model", text)
        else:
            check(json.loads(text) == answer, "text and structure are the same", text)
        for pointer, wanted in step.get("expect", {}).items():
            check(at(answer, pointer) == self.filled(wanted), f"{step['tool']} {pointer}", answer)
        for pointer, wanted in step.get("contains", {}).items():
            check(wanted in at(answer, pointer), f"{step['tool']} {pointer}", answer)
        for name, pointer in step.get("keep", {}).items():
            self.known[name] = at(answer, pointer)
        return answer


async def main(program, directory):
    data = os.path.join(directory, "data")
    asked = f"{sys.executable} {os.path.abspath(__file__)} extractor#find_names"
    environment = {**os.environ, "SESSIONLOG_EXTRACTORS": f"{asked}; no-such-extractor"}
    arguments = ["--data-dir", data, "mcp", "--toolsets", "research,workspace,graph"]
    wire = stdio_client(StdioServerParameters(
        command=program, args=arguments, cwd=directory, env=environment))
    async with Client(wire) as client:
        session = Session(client)
        with open(os.path.join(HERE, "handoff.json")) as steps:
            for step in json.load(steps):
                answer = await session.step(step)
                if step["tool"] == "save_session":
                    told = answer["notices"]
                    check(len(told) == 2 and "2 entities kept" in told[0], "entities are kept", told)
                    check("no-such-extractor is left out" in told[1], "an absent server", told)
        found = await session.step({
            "tool": "query_entities",
            "arguments": {"workspace": "workspace_1", "types": ["concept"]},
            "expect": {"/total": 2, "/entities/0/id": "parser", "/entities/0/properties/length": 6},
        })
        check(found["entities"][0]["properties"]["extracted_by"], "who found it", found)
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(os.path.join(data, "owner.sock"))
        door.sendall(b"GET /v1/admin/owner HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: door.recv(65536), b""))
    os.kill(json.loads(answer.split(b"\r\n\r\n", 1)[1])["pid"], signal.SIGTERM)
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    print(f"python handoff: {told}, 0 failed")


if sys.argv[1:] == ["extractor"]:
    extractor()
else:
    asyncio.run(main(*sys.argv[1:]))
