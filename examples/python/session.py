"""A client of sessionlog that needs nothing but Python's standard library (3.9 or newer).

    python3 session.py [SESSION]

It writes a session, reads a slice, follows the session, recovers it and continues. The server is
SESSIONLOG_URL (default http://127.0.0.1:7717). SESSIONLOG_TOKEN is sent when it is set.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

URL = (os.environ.get("SESSIONLOG_URL") or "http://127.0.0.1:7717").rstrip("/")
TOKEN = os.environ.get("SESSIONLOG_TOKEN")
# Seconds without a byte. A quiet stream sends a ping every 15 s, so longer silence is a failure.
TIMEOUT = 30
ATTEMPTS = 4


class Refused(Exception):
    """The server answered with an error. Its text is the body: a code, a message and a hint."""

    def __init__(self, status, body, retryable):
        super().__init__(f"HTTP {status}: {body}")
        self.retryable = retryable


# A connection that failed, or broke before the answer was complete.
BROKEN = (urllib.error.URLError, http.client.HTTPException, OSError)


def ask(path, body=None, headers=None):
    """Sends a request and returns the open answer. A body makes it a POST."""
    headers = {"content-type": "application/json", **(headers or {})}
    if TOKEN:
        headers["authorization"] = f"Bearer {TOKEN}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data=data, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            retryable = error.headers.get("x-should-retry") == "true"
            raise Refused(error.code, error.read().decode(errors="replace"), retryable) from None


def call(path, body=None, query=None):
    """Sends a request and returns the JSON of its answer. Repeats it where that may help."""
    if query:
        path += "?" + urllib.parse.urlencode(query)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with ask(path, body) as answer:
                return json.load(answer)
        except Refused as error:
            if not error.retryable or attempt == ATTEMPTS:
                raise
        except BROKEN:
            if attempt == ATTEMPTS:
                raise
        time.sleep(0.2 * 2**attempt)


def place(session, rest):
    return f"/v1/sessions/{urllib.parse.quote(session, safe='')}/{rest}"


def emit(session, events):
    """Appends events and returns after they are on disk. An unknown session is created.

    Each event has an id of the client, so a request that is sent again writes nothing twice.
    """
    events = [{"id": f"evt_{uuid.uuid4().hex}", **event} for event in events]
    return call(place(session, "events"), {"events": events}, {"create": "true"})


def read(session, start, end):
    """Returns the events from position `start` up to, not including, `end`."""
    found = []
    while start < end:
        page = call(place(session, "events"), query={"from": start, "to": end})
        found += page["data"]
        # A page may end early; it says where the next one starts. At the tail it stays.
        if page["next_position"] <= start:
            break
        start = page["next_position"]
    return found


def tail(session, start, last=None):
    """Yields each event from position `start` on, live, and connects again after a failure.

    `last` is the position of the last event that was seen: with it the stream continues behind it.
    """
    while True:
        headers = {} if last is None else {"last-event-id": str(last)}
        try:
            with ask(place(session, f"events/stream?from={start}"), headers=headers) as stream:
                for kind, event in messages(stream):
                    if kind == "error":
                        raise Refused(200, json.dumps(event), False)
                    if kind == "done":  # The server stops. Another one will continue.
                        break
                    if kind == "gap":
                        print(f"lost for good: {event}", file=sys.stderr)
                    elif kind != "ping":
                        last = event["position"]
                        yield event
        except Refused as error:
            if not error.retryable:
                raise
        except BROKEN as error:
            print(f"the stream broke ({error}); connecting again", file=sys.stderr)
        time.sleep(1)


def messages(stream):
    """Splits a stream of server-sent events into pairs of type and data."""
    kind, data = "message", []
    for line in stream:
        name, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value[1:] if value.startswith(" ") else value
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif not name and not value:  # An empty line ends an event.
            if data:
                yield kind, json.loads("\n".join(data))
            kind, data = "message", []


def recover(session):
    """Returns the overview: what an agent needs to see after it lost its context."""
    return call(place(session, "views/index"))


def resume(session, tokens):
    """Returns the view to continue from, and the newest messages, each in a budget of tokens."""
    begin = call(place(session, "views/continuation"), query={"tokens_max": tokens})
    query = {"tokens_max": tokens, "format": "anthropic"}
    return begin, call(place(session, "views/window"), query=query)


def main():
    session = sys.argv[1] if len(sys.argv) > 1 else f"example-{uuid.uuid4().hex[:12]}"

    # The types are those of docs/events.md: views understand them. Any other type is stored, too.
    written = emit(session, [
        {"type": "user.message", "content": "Fix the failing tax test."},
        {"type": "agent.tool_use", "call_id": "c1", "name": "Bash",
         "input": {"command": "pytest test_tax.py"}},
        {"type": "agent.tool_result", "call_id": "c1", "content": "1 failed", "is_error": True},
        {"type": "agent.message", "content": "The rounding is wrong; I change it."},
    ])
    first, behind = written["first_position"], written["next_position"]
    print(f"emitted: {first} to {behind - 1} in {session}")

    # Any range of positions can be read, at any time, by any process.
    for event in read(session, first + 1, first + 3):
        print(f"slice: {event['position']} {event['type']} {event['id']}")

    # Follow the session, and drop the connection after two events.
    seen = []
    for event in tail(session, first):
        seen.append(event["position"])
        if len(seen) == 2:
            break
    # Meanwhile the session grows. The second stream misses nothing and repeats nothing.
    emit(session, [{"type": "agent.message", "content": "The test passes."}])
    for event in tail(session, first, last=seen[-1]):
        seen.append(event["position"])
        if event.get("content") == "The test passes.":
            break
    print("tailed:", *seen)

    # A new process knows the session's id and nothing else.
    overview = recover(session)
    print(f"recovered: {overview['goal']} ({overview['position']} events)")
    begin, window = resume(session, 1000)
    # Put `begin` into the first message of an empty context, or send the messages of `window`.
    print(f"continued: {begin['task']['text']} ({begin['tokens']} of {begin['tokens_max']} tokens)")
    roles = " ".join(message["role"] for message in window["messages"])
    print(f"window: {roles} ({window['tokens']} of {window['tokens_max']} tokens)")


if __name__ == "__main__":
    try:
        main()
    except Refused as error:
        sys.exit(str(error))
    except BROKEN as error:
        sys.exit(f"{URL}: {error}")
