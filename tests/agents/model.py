"""A model's API that says what a script tells it to: Anthropic's Messages and OpenAI's Responses,
streamed as their clients want it, on loopback, for bounded runs of real agents without a network.

    model.py LOG        prints its port; writes every request to LOG, one JSON object a line

A script is a file beside the log, LOG.script: one word a line, the next answer of the model each:
`bash COMMAND`, `tool NAME [JSON]` (an MCP tool of sessionlog and its arguments), `own NAME JSON` (a tool of
the agent itself; a JSON string is the input of a free-form tool), `say TEXT`, and `words TEXT`, which the
model says before the call on the next line, in one answer with it. A request for a summary
is answered with one, whatever the script says; at the end of the script the model is done.
It must not be taken for a model: it reads nothing of what it is sent but what kind of request it is.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock

LOG = Path(sys.argv[1])
SCRIPT = Path(sys.argv[1] + ".script")
SUMMARY = "<summary>The model was asked to look at the harbour.</summary>"
LOCK = Lock()
COUNT = [0]


def number():
    with LOCK:
        COUNT[0] += 1
        return COUNT[0]


def next_line():
    """The next line of the script, taken off it."""
    with LOCK:
        lines = SCRIPT.read_text().splitlines() if SCRIPT.exists() else []
        SCRIPT.write_text("\n".join(lines[1:]))
        return lines[0] if lines else "say All done."


def next_answer():
    """The next answer: what the model says before it, its verb and the rest."""
    line, words = next_line(), None
    if line.startswith("words "):
        line, words = next_line(), line.removeprefix("words ")
    verb, _, rest = line.partition(" ")
    return words, verb, rest


def called(rest):
    """Name and arguments of a tool."""
    name, _, arguments = rest.partition(" ")
    return name, json.loads(arguments or "{}")


def said(name, text):
    """A message of the model, as OpenAI's Responses have it."""
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": content}


def wants_summary(text):
    return "CONTEXT CHECKPOINT COMPACTION" in text or "<summary> block" in text


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.say(b"", "text/plain")

    def do_GET(self):
        self.say(b"{}", "application/json")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with LOCK, LOG.open("a") as log:
            log.write(json.dumps({"path": self.path, "body": body.decode("utf-8", "replace")}) + "\n")
        path = self.path.split("?")[0]
        if path.endswith("/messages"):
            self.messages(json.loads(body))
        elif path.endswith("/responses"):
            self.answer_items(json.loads(body))
        else:
            self.say(b'{"input_tokens": 10}', "application/json")

    def say(self, body, kind):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events):
        lines = (f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n" for kind, data in events)
        self.say("".join(lines).encode(), "text/event-stream")

    def messages(self, asked):
        """Anthropic's Messages."""
        n = number()
        last = json.dumps([m for m in asked["messages"] if m["role"] == "user"][-1:])
        words = None
        if wants_summary(last):
            block = {"type": "text", "text": SUMMARY}
        elif not asked.get("tools"):
            block = {"type": "text", "text": "A title"}
        else:
            words, verb, rest = next_answer()
            call = {"type": "tool_use", "id": f"toolu_{n:04}"}
            if verb == "bash":
                block = call | {"name": "Bash", "input": {"command": rest, "description": "look"}}
            elif verb == "tool":
                name, arguments = called(rest)
                block = call | {"name": f"mcp__sessionlog__{name}", "input": arguments}
            elif verb == "own":
                name, arguments = called(rest)
                block = call | {"name": name, "input": arguments}
            else:
                block = {"type": "text", "text": rest}
        blocks = [{"type": "text", "text": words}, block] if words else [block]
        stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
        message = {
            "id": f"msg_{n}", "type": "message", "role": "assistant", "model": asked["model"],
            "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 1},
        }
        if not asked.get("stream"):
            whole = message | {"content": blocks, "stop_reason": stop}
            return self.say(json.dumps(whole).encode(), "application/json")
        events = [("message_start", {"message": message})]
        for index, block in enumerate(blocks):
            if block["type"] == "tool_use":
                start = block | {"input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            else:
                start = {"type": "text", "text": ""}
                delta = {"type": "text_delta", "text": block["text"]}
            events += [
                ("content_block_start", {"index": index, "content_block": start}),
                ("content_block_delta", {"index": index, "delta": delta}),
                ("content_block_stop", {"index": index}),
            ]
        self.stream(events + [
            ("message_delta", {
                "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 9},
            }),
            ("message_stop", {}),
        ])

    def answer_items(self, asked):
        """OpenAI's Responses."""
        n = number()
        call = {"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n:04}", "status": "completed"}
        names = [tool.get("name") or tool["type"] for tool in asked.get("tools", [])]
        if wants_summary(json.dumps(asked["input"][-1:])):
            words, verb, rest = None, "say", "The model was asked to look at the harbour."
        else:
            words, verb, rest = next_answer()
        if verb == "bash" and "exec_command" in names:
            item = call | {"name": "exec_command", "arguments": json.dumps({"cmd": rest})}
        elif verb == "bash":
            item = call | {"name": "shell_command", "arguments": json.dumps({"command": rest})}
        elif verb == "tool":
            name, arguments = called(rest)
            named = {"name": f"mcp__sessionlog__{name}"}
            # Where tools are searched for, they are not listed.
            if "mcp__sessionlog" in names or "tool_search" in names:
                named = {"name": name, "namespace": "mcp__sessionlog"}
            item = call | named | {"arguments": json.dumps(arguments)}
        elif verb == "own":
            name, arguments = called(rest)
            item = call | {"name": name, "arguments": json.dumps(arguments)}
            if isinstance(arguments, str):
                item = {"type": "custom_tool_call", "id": f"ctc_{n}", "call_id": f"call_{n:04}",
                        "status": "completed", "name": name, "input": arguments}
        else:
            item = said(f"m_{n}", rest)
        items = [said(f"w_{n}", words), item] if words else [item]
        usage = {
            "input_tokens": 200, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 205,
        }
        answer = {"id": f"resp_{n}", "object": "response", "model": asked["model"]}
        events = [("response.created", {"response": answer | {"status": "in_progress", "output": []}})]
        for index, item in enumerate(items):
            for kind in ("added", "done"):
                events.append((f"response.output_item.{kind}", {"output_index": index, "item": item}))
        completed = answer | {"status": "completed", "output": items, "usage": usage}
        self.stream(events + [("response.completed", {"response": completed})])


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
