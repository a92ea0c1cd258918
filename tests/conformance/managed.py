"""The official `anthropic` client, unchanged, against `sessionlog serve`: sessions and events of its
Managed Agents API, every answer validated strictly against the client's own models; its typed errors
and retries; and, where it has one, its session tool runner, through a kill of the server.

    managed.py PROGRAM DIRECTORY [STORE]

STORE is the address of a database: each server is then a node of a store in a schema of its own.
The last line gives the counts; what does not hold ends it with 1.
"""

import asyncio
import inspect
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import typing
import urllib.request
from datetime import datetime, timedelta, timezone

import anthropic
import pydantic
from anthropic import Anthropic, AsyncAnthropic
from anthropic.types.beta import BetaManagedAgentsSession
from anthropic.types.beta.sessions import BetaManagedAgentsSessionEvent

httpx = sys.modules.get("httpx2") or sys.modules["httpx"]
program, directory, *store = sys.argv[1:]
counts = {"calls": 0, "checks": 0}


def check(holds, what, seen=None):
    counts["checks"] += 1
    if not holds:
        print(f"does not hold: {what}: {json.dumps(seen, default=str)[:3000]}", flush=True)
        os._exit(1)


def same(seen, expected, what):
    check(seen == expected, what, {"seen": seen, "expected": expected})


class Server:
    """A server on a port of its own, which stays its own through a kill."""

    def __init__(self, name, *arguments):
        place = ["--data-dir", os.path.join(directory, name)]
        if store:
            place = ["--store", f"{store[0]}&schema={name}"]
        self.arguments = [program, *place, "serve", *arguments]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        log = open(os.path.join(directory, "serve.log"), "a")
        self.process = subprocess.Popen(
            [*self.arguments, "--listen", f"127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{self.url}/readyz", timeout=5).read()
                return
            except OSError:
                time.sleep(0.1)
        check(False, "the server starts")

    def kill(self):
        self.process.kill()
        self.process.wait()


def token(scopes):
    said = subprocess.run(
        [program, "tokens", "create", "--tokens-file", os.path.join(directory, "tokens.json"),
         "--tenant", "acme", "--user", "ada", "--scopes", scopes, "--json"],
        capture_output=True, text=True, check=True,
    ).stdout
    return max(re.findall(r"sl_[0-9a-z_]+", said), key=len)


class Counting(httpx.HTTPTransport):
    """Counts requests, keeps the last, and may lose the answer to the next one."""

    sent, last, lose = 0, None, 0

    def handle_request(self, request):
        self.sent, self.last = self.sent + 1, request
        counts["calls"] += 1
        response = super().handle_request(request)
        if self.lose:
            self.lose -= 1
            response.read()
            raise httpx.ReadError("the answer is lost on its way", request=request)
        return response


def client(server, key, **options):
    """A client as an application makes it, but strict: an answer outside its models is an error."""
    transport = Counting()
    made = Anthropic(
        base_url=server.url, api_key=key, http_client=httpx.Client(transport=transport),
        _strict_response_validation=True, **options,
    )
    return made, transport


def fitting(method, place, **options):
    """The options; those that an older client has no name for go where the newer ones put them."""
    known = inspect.signature(method).parameters
    older = {name: value for name, value in options.items() if name not in known}
    rest = {name: value for name, value in options.items() if name in known}
    return {**rest, place: older} if older else rest


def page(of, *session, **options):
    """A page of a listing."""
    fit = fitting(of.list, "extra_query", **options)
    query = {}
    for name, value in fit.pop("extra_query", {}).items():
        name = re.sub(r"created_at_(\w+)", r"created_at[\1]", name)
        query[name] = value.isoformat() if isinstance(value, datetime) else value
    return of.list(*session, **fit, **({"extra_query": query} if query else {}))


# ---- Samples of everything the client knows, made from its own models.

def sample(kind, whole, without=()):
    """A value of a type; `whole`: with every member, or only with the required ones."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return sample(arguments[0], whole)
    if origin is typing.Literal:
        return arguments[0]
    if origin is typing.Union:
        return sample(next(one for one in arguments if one is not type(None)), whole)
    if origin in (list, typing.List):
        return [sample(arguments[0], whole)]
    if origin in (dict, typing.Dict):
        return {"key": sample(arguments[1], whole)}
    if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
        return {
            (field.alias or name): sample(field.annotation, whole)
            for name, field in kind.model_fields.items()
            if (whole or field.is_required()) and name not in without
        }
    return {
        str: "text with \n, \u00e9, \U0001f600 and \u2028", int: 7, float: 0.1,
        bool: True, object: {"any": [9007199254740993, None, "x"]},
        datetime: "2026-11-21T10:00:00.123456Z",
    }[kind]


def kinds():
    """The client's classes of events."""
    union = BetaManagedAgentsSessionEvent
    if typing.get_origin(union) is typing.Annotated:
        union = typing.get_args(union)[0]
    return list(typing.get_args(union))


# ---- Sessions.

def sessions(server, key):
    api, wire = client(server, key)
    of = api.beta.sessions
    begun = datetime.now(timezone.utc)
    first = of.create(**fitting(
        of.create, "extra_body", agent="agent_01", environment_id="env_01", title="A title",
        metadata={"k": "v"},
        initial_events=[{"type": "user.message", "content": [{"type": "text", "text": "go"}]}],
    ))
    check(type(first) is BetaManagedAgentsSession, "create answers a session", str(type(first)))
    check("managed-agents-2026-04-01" in wire.last.headers["anthropic-beta"], "the client is unchanged")
    same((first.agent.id, first.agent.version, first.environment_id), ("agent_01", 1, "env_01"), "agent")
    same((first.title, first.metadata, first.status), ("A title", {"k": "v"}, "idle"), "what it was told")
    same((first.archived_at, first.type, first.vault_ids), (None, "session", []), "the rest")
    check(abs(first.created_at - begun) < timedelta(minutes=5), "created_at is a time", first.created_at)
    events = of.events.list(first.id).data
    same([event.type for event in events], ["user.message"], "initial events")
    same(events[0].content[0].text, "go", "their content")

    same(of.retrieve(first.id).to_dict(), first.to_dict(), "retrieve answers what create answered")
    changed = of.update(first.id, title="Another", metadata={"k": None, "l": "m"})
    same((changed.title, changed.metadata), ("Another", {"l": "m"}), "update")
    same(of.update(first.id, title=None).title, None, "a title is taken away")
    same(of.update(first.id, metadata={}).metadata, {"l": "m"}, "an empty change changes nothing")
    check(changed.updated_at >= first.updated_at, "updated_at does not go back")

    # Many of them, in pages; by agent, status and time.
    made = [first.id]
    for n in range(7):
        agent = {"type": "agent", "id": "agent_02", "version": n} if n else "agent_02"
        made.append(of.create(agent=agent, environment_id="env_02", metadata={"n": str(n)}).id)
    pairs = {f"key{n:02}": "x" * 512 for n in range(16)}
    full = of.create(agent="agent_03", environment_id="env_02", metadata=pairs)
    same(full.metadata, pairs, "16 pairs of metadata, whoever runs it")
    made.append(full.id)
    before = wire.sent
    seen = [one.id for one in of.list(limit=3)]
    same((seen, wire.sent - before), (made[::-1], 3), "every page, the newest first")
    same([one.id for one in of.list(limit=4, order="asc")], made, "and the oldest first")
    first_page = of.list(limit=5)
    check(first_page.has_next_page() and len(first_page.get_next_page().data) == 4, "pages by hand")
    same([one.id for one in of.list(agent_id="agent_02", order="asc")], made[1:8], "by agent")
    same([one.id for one in of.list(agent_id="agent_02", agent_version=3)], [made[4]], "by version")
    same(of.list(agent_id="nobody").data, [], "an agent nobody named")
    same(page(of, deployment_id="depl_1").data, [], "a deployment nobody has")
    middle = of.retrieve(made[4]).created_at
    for name, expected in [("gt", made[5:]), ("gte", made[4:]), ("lt", made[:4]), ("lte", made[:5])]:
        listed = page(of, order="asc", limit=2, **{f"created_at_{name}": middle})
        same([one.id for one in listed], expected, f"created_at {name}")

    archived = of.archive(made[2])
    same(archived.status, "terminated", "archive")
    check(archived.archived_at >= archived.created_at, "when it was archived")
    same(of.archive(made[2]).archived_at, archived.archived_at, "archived twice is once")
    check(made[2] not in [one.id for one in of.list()], "archived sessions are not listed")
    check(made[2] in [one.id for one in of.list(include_archived=True)], "unless asked for")
    statuses = [one.id for one in page(of, statuses=["terminated", "rescheduling"])]
    same(statuses, [made[2]], "by status")
    gone = of.delete(made[3])
    same((type(gone).__name__, gone.id, gone.type),
         ("BetaManagedAgentsDeletedSession", made[3], "session_deleted"), "delete")
    check(made[3] not in [one.id for one in of.list()], "a deleted session is not listed")


# ---- Events.

def events(server, key):
    api, wire = client(server, key)
    session = api.beta.sessions.create(agent="agent_01", environment_id="env_01").id
    of = api.beta.sessions.events

    # What an application may send comes back as the client's own classes.
    text = [{"type": "text", "text": "hello"}]
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    sent = of.send(session, events=[
        {"type": "user.message", "content": [*text, image]},
        {"type": "user.interrupt"},
        {"type": "user.tool_confirmation", "tool_use_id": "evt_x", "result": "deny", "deny_message": "no"},
        {"type": "user.custom_tool_result", "custom_tool_use_id": "evt_y", "content": text, "is_error": True},
    ]).data
    same([type(one).__name__ for one in sent],
         ["BetaManagedAgentsUserMessageEvent", "BetaManagedAgentsUserInterruptEvent",
          "BetaManagedAgentsUserToolConfirmationEvent", "BetaManagedAgentsUserCustomToolResultEvent"],
         "the classes of what was sent")
    check(all(one.id and one.processed_at for one in sent), "each has an id and a time")
    same((sent[0].content[1].source.data, sent[2].deny_message, sent[3].is_error), ("aGk=", "no", True),
         "what they say")
    if any(kind.__name__ == "BetaManagedAgentsUserDefineOutcomeEvent" for kind in kinds()):
        rubric = {"type": "text", "content": "be brief"}
        outcome = {"type": "user.define_outcome", "description": "a summary", "rubric": rubric, "id": "evt_o"}
        named = of.send(session, events=[outcome]).data[0]
        check(named.outcome_id.startswith("outc_"), "an outcome gets a name", named.outcome_id)
        same(of.send(session, events=[outcome]).data[0].outcome_id, named.outcome_id, "a retry the same")
        sent.append(named)
    same([one.id for one in of.list(session)], [one.id for one in sent], "and they are listed")

    # Every type of event the client knows, small and whole, as a harness writes them.
    session = api.beta.sessions.create(agent="agent_01", environment_id="env_01").id
    ours = ("id", "processed_at")
    samples = [sample(kind, whole, ours) for kind in kinds() for whole in (False, True)]
    for n, one in enumerate(samples):
        api.post(f"/v1/sessions/{session}/events", cast_to=object, body={"events": [one]})
    listed = list(of.list(session, limit=10))
    same(len(listed), len(samples), "all of them are listed")
    for event, expected, kind in zip(listed, samples, (kind for kind in kinds() for _ in "12")):
        same(type(event).__name__, kind.__name__, "each in its class")
        body = event.to_dict(mode="json")
        for name in (*ours, "position", "origin"):
            body.pop(name, None)
        same(body, expected, f"{event.type} comes back as it was")
    ids = [event.id for event in listed]
    before = wire.sent
    same([event.id for event in of.list(session, limit=7, order="desc")], ids[::-1], "the newest first")
    same(wire.sent - before, -(-len(ids) // 7), "in pages")
    check("types" not in str(wire.last.url), "nothing is added to what is asked", str(wire.last.url))
    wanted = ["agent.tool_use", "user.message"]
    of_types = [event.id for event in listed if event.type in wanted]
    same([event.id for event in page(of, session, types=wanted, limit=1)], of_types, "of two types")
    query = dict(types=wanted, order="desc", limit=3)
    same([event.id for event in page(of, session, **query)], of_types[::-1], "the newest of them first")
    times = [event.processed_at for event in listed]
    check(times == sorted(times), "in the order they were processed")
    middle = times[len(times) // 2]
    for name, holds in [("gt", middle.__lt__), ("gte", middle.__le__), ("lt", middle.__gt__), ("lte", middle.__ge__)]:
        for order in ("asc", "desc"):
            expected = [event.id for event in listed if holds(event.processed_at)]
            found = page(of, session, limit=9, order=order, **{f"created_at_{name}": middle})
            same([event.id for event in found], expected[:: 1 if order == "asc" else -1], f"{name} {order}")
    same([event.id for event in page(of, session, created_at_gt=middle.isoformat())],
         [event.id for event in listed if event.processed_at > middle], "a time as text")
    # Types of our own are in no model of the client's; as applications make it, it takes them.
    usual = Anthropic(base_url=server.url, api_key=key)
    session = usual.beta.sessions.create(agent="agent_01", environment_id="env_01").id
    usual.beta.sessions.events.send(session, events=[{"type": "research.goal", "goal": "g"}])
    seen = usual.beta.sessions.events.list(session).data[0]
    same((seen.type, seen.goal, seen.position), ("research.goal", "g", 0), "a type of our own")


# ---- Status, threads, resources.

def beside(server, key):
    api, _ = client(server, key)
    of = api.beta.sessions
    session = of.create(agent="agent_07", environment_id="env_01").id

    def say(*kinds):
        # What a harness writes is more than an application may send; the answer is no model's.
        events = [{"type": kind, **more} for kind, more in kinds]
        api.post(f"/v1/sessions/{session}/events", cast_to=object, body={"events": events})

    idle = ("session.status_idle", {"stop_reason": {"type": "end_turn"}})
    for said, expected in [
        ([("session.status_running", {})], "running"),
        ([idle, ("session.status_rescheduled", {})], "rescheduling"),
        ([("session.status_running", {}), idle], "idle"),
        ([("session.status_terminated", {})], "terminated"),
    ]:
        say(*said)
        same(of.retrieve(session).status, expected, f"status after {said}")
        listed = [one.status for one in of.list(agent_id="agent_07")]
        same(listed, [expected], "and in a listing")
    if hasattr(of, "threads"):
        [thread] = list(of.threads.list(session))
        same((type(thread).__name__, thread.session_id, thread.status, thread.parent_thread_id),
             ("BetaManagedAgentsSessionThread", session, "terminated", None), "the session's thread")
        same(thread.agent.id, "agent_07", "its agent")
        same(of.threads.retrieve(thread.id, session_id=session).to_dict(), thread.to_dict(), "the same by its id")
        events = [event.id for event in of.events.list(session)]
        same([event.id for event in of.threads.events.list(thread.id, session_id=session, limit=2)], events,
             "its events, page by page")
        with of.threads.events.stream(thread.id, session_id=session, extra_query={"from": "0"}) as stream:
            same(next(stream).id, events[0], "its stream")
        refused(lambda: of.threads.archive(thread.id, session_id=session),
                anthropic.UnprocessableEntityError, 422, "invalid_request")
        refused(lambda: of.threads.retrieve("sthr_other", session_id=session),
                anthropic.NotFoundError, 404, "invalid_request")
        refused(lambda: of.threads.list("nobody"), anthropic.NotFoundError, 404, "session_not_found")
    same(list(of.resources.list(session)), [], "no resources")
    refused(lambda: of.resources.list("nobody"), anthropic.NotFoundError, 404, "session_not_found")
    refused(lambda: of.resources.add(session, file_id="file_1", type="file"),
            anthropic.UnprocessableEntityError, 422, "invalid_request")
    for call in (
        lambda: of.resources.retrieve("sesrsc_1", session_id=session),
        lambda: of.resources.update("sesrsc_1", session_id=session, authorization_token="t"),
        lambda: of.resources.delete("sesrsc_1", session_id=session),
    ):
        refused(call, anthropic.NotFoundError, 404, "invalid_request")


# ---- Streams.

def streams(server, key):
    api, _ = client(server, key)
    of = api.beta.sessions.events
    session = api.beta.sessions.create(agent="agent_01", environment_id="env_01").id
    of.send(session, events=[{"type": "user.interrupt"}])
    message = {"type": "user.message", "content": [{"type": "text", "text": "a\nb\r\n\u2028"}]}
    with of.stream(session) as stream:
        sent = of.send(session, events=[message] * 3).data
        seen = [next(stream) for _ in sent]
        same([event.to_dict() for event in seen], [event.to_dict() for event in sent],
             "the stream brings what came after it was opened, as it was sent")
        # Heartbeats pass it by; what comes much later still comes.
        threading.Timer(2.5, of.send, [session], {"events": [message]}).start()
        same(next(stream).type, "user.message", "a quiet stream stays open")
    # Our extension: from any point on.
    query = {"from": "0", "types[]": "user.message"}
    with of.stream(session, extra_query=query) as stream:
        same([next(stream).id for _ in sent], [event.id for event in sent], "from a point on, of a type")
    with of.stream(session, extra_headers={"Last-Event-ID": "1"}) as stream:
        same(next(stream).id, sent[1].id, "from where a reader was")
    if "event_deltas" in of.stream.__code__.co_varnames:
        with of.stream(session, event_deltas=["agent.message", "agent.thinking"]) as stream:
            told = of.send(session, events=[message]).data[0].id
            same(next(stream).id, told, "deltas may be asked for")
    with of.stream(session) as stream:
        begun = time.monotonic()
        api.beta.sessions.delete(session)
        rest = list(stream)
        check(time.monotonic() - begun < 10, "at once")
        same([event.type for event in rest], ["session.deleted"], "a deleted session ends its stream")


# ---- Errors and retries.

def refused(call, kind, status, code):
    try:
        call()
    except anthropic.APIStatusError as error:
        check(type(error) is kind, f"{code} is {kind.__name__}", repr(error))
        seen = (error.status_code, error.body["error"]["type"], error.body["type"])
        same(seen, (status, code, "error"), "status and code")
        check(error.request_id and error.request_id == error.body["request_id"], "the request's id")
        return error
    check(False, f"it is refused with {code}")


def errors(server, key, reader):
    api, wire = client(server, key)
    of = api.beta.sessions
    session = of.create(agent="agent_01", environment_id="env_01").id
    refused(lambda: of.retrieve("nobody"), anthropic.NotFoundError, 404, "session_not_found")
    refused(lambda: of.events.list("nobody"), anthropic.NotFoundError, 404, "session_not_found")
    refused(lambda: of.events.stream("nobody"), anthropic.NotFoundError, 404, "session_not_found")
    refused(lambda: of.events.list(session, limit=0), anthropic.UnprocessableEntityError, 422, "invalid_request")
    refused(lambda: of.events.list(session, page="x"), anthropic.UnprocessableEntityError, 422, "invalid_request")
    refused(lambda: of.events.send(session, events=[]), anthropic.UnprocessableEntityError, 422, "invalid_request")
    refused(lambda: of.events.send(session, events=[{"content": []}]),
            anthropic.UnprocessableEntityError, 422, "invalid_request")
    pairs = {f"key{n}": "v" for n in range(17)}
    refused(lambda: of.update(session, metadata=pairs), anthropic.UnprocessableEntityError, 422, "invalid_request")
    reserved = {"sessionlog.agent": "another"}
    refused(lambda: of.update(session, metadata=reserved), anthropic.UnprocessableEntityError, 422, "invalid_request")
    large = [{"type": "user.message", "content": [{"type": "text", "text": "x" * (17 << 20)}]}]
    too_large = getattr(anthropic, "ContentTooLargeError", None) or anthropic.APIStatusError
    if too_large is anthropic.APIStatusError:
        too_large = anthropic._exceptions.RequestTooLargeError
    refused(lambda: of.events.send(session, events=large), too_large, 413, "body_too_large")
    stranger, _ = client(server, "sl_nobody")
    refused(lambda: stranger.beta.sessions.list(), anthropic.AuthenticationError, 401, "unauthenticated")
    only, _ = client(server, reader)
    check(only.beta.sessions.retrieve(session).id == session, "a reader reads")
    refused(lambda: only.beta.sessions.events.send(session, events=[{"type": "user.interrupt"}]),
            anthropic.PermissionDeniedError, 403, "forbidden")
    other, _ = client(server, "", default_headers={"X-Api-Key": key, "Authorization": anthropic.Omit()})
    check(other.beta.sessions.retrieve(session).id == session, "a credential as X-Api-Key")

    # Repeating would not help, so the client does not: one request each.
    before = wire.sent
    named = {"id": "named"}
    of.create(agent="agent_01", environment_id="env_01", extra_body=named)
    refused(lambda: of.create(agent="agent_01", environment_id="env_01", extra_body=named),
            anthropic.ConflictError, 409, "session_exists")
    refused(lambda: of.events.send(session, events=[{"type": "user.interrupt"}], extra_headers={"If-Position": "9"}),
            anthropic.ConflictError, 409, "position_conflict")
    same(wire.sent - before, 3, "a conflict is not sent again")
    of.delete("named")
    refused(lambda: of.retrieve("named"), anthropic.APIStatusError, 410, "session_deleted")

    # An answer that is lost is asked for again by the client, and nothing is written twice.
    message = {"type": "user.message", "content": [{"type": "text", "text": "once"}]}
    wire.lose, before = 1, wire.sent
    of.events.send(session, events=[message], extra_headers={"Idempotency-Key": "batch-1"})
    same((wire.sent - before, len(of.events.list(session).data)), (2, 1), "an idempotency key")
    wire.lose = 1
    of.events.send(session, events=[{**message, "id": "evt_mine"}])
    same([event.id for event in of.events.list(session)][1:], ["evt_mine"], "an id of the event's own")
    wire.lose = 1
    key = {"extra_headers": {"Idempotency-Key": "create-1"}}
    made = of.create(agent="agent_09", environment_id="env_01", **key)
    same([one.id for one in of.list(agent_id="agent_09")], [made.id], "a session is created once")
    wire.lose = 1
    same(of.update(session, title="again").title, "again", "an update is repeated")
    wire.lose = 1
    check(of.archive(session).archived_at, "archiving is repeated")
    refused(lambda: of.events.send(session, events=[message]),
            anthropic.APIStatusError, 423, "session_archived")


# ---- The session tool runner.

async def runner(server, key):
    # The server goes away in the middle: what the harness sends is repeated until it is back.
    api = AsyncAnthropic(base_url=server.url, api_key=key, max_retries=20, _strict_response_validation=True)
    of = api.beta.sessions
    if not hasattr(of.events, "tool_runner"):
        return
    runs = []

    @anthropic.beta_async_tool
    async def look_up(word: str) -> str:
        """Looks a word up."""
        runs.append(("look_up", word))
        return f"{word} means {word[::-1]}"

    @anthropic.beta_async_tool
    async def fails(reason: str) -> str:
        """Fails."""
        runs.append(("fails", reason))
        raise ValueError(reason)

    async def say(session, *events):
        named = [{"id": f"evt_h{len(said) + n}", **event} for n, event in enumerate(events)]
        said.extend(named)
        # What a harness writes is more than an application may send; the answer is no model's.
        await api.post(f"/v1/sessions/{session}/events", cast_to=object, body={"events": named})
        return [event["id"] for event in named]

    def use(name, kind="agent.tool_use", **more):
        return {"type": kind, "name": name, "input": {"word": "abc"} if name != "fails" else {"reason": "why"}, **more}

    async def drive(session, calls):
        async for call in of.events.tool_runner(session, tools=[look_up, fails], max_idle=1.0):
            calls.append(call)

    said, calls = [], []
    session = (await of.create(agent="agent_01", environment_id="env_self")).id
    # Two calls of before the runner came: one answered, one open.
    old = await say(session, {"type": "session.status_running"}, use("look_up"), use("look_up"))
    await say(session, {"type": "user.tool_result", "tool_use_id": old[1], "content": []})
    running = asyncio.create_task(drive(session, calls))
    await until(lambda: len(calls) == 1)
    same((calls[0].tool_use_id, calls[0].posted), (old[2], True), "the open call, not the answered one")
    custom, wrong, foreign, asked, denied = await say(
        session, use("look_up", "agent.custom_tool_use"), use("fails"), use("nobody's"),
        use("look_up", evaluated_permission="ask"), use("look_up", evaluated_permission="ask"))
    await until(lambda: len(calls) == 4)
    same([(call.tool_use_id, call.posted, call.is_error) for call in calls[1:]],
         [(custom, True, False), (wrong, True, True), (foreign, False, False)], "three more")
    await asyncio.sleep(0.3)
    same(len(calls), 4, "what is to be confirmed waits")
    await say(session, {"type": "user.tool_confirmation", "tool_use_id": denied, "result": "deny"},
              {"type": "user.tool_confirmation", "tool_use_id": asked, "result": "allow"})
    await until(lambda: len(calls) == 6)
    same({(call.tool_use_id, call.confirmation, call.posted) for call in calls[4:]},
         {(asked, "allow", True), (denied, "deny", False)}, "once it is")

    # The server dies and comes back; the runner finds its stream and what came meanwhile.
    server.kill()
    server.start()
    [late] = await say(session, use("look_up"))
    await until(lambda: any(call.tool_use_id == late for call in calls))
    same({(call.tool_use_id, call.posted) for call in calls[6:]}, {(foreign, False), (late, True)},
         "after a kill it goes on, and shows what is still another's")
    await say(session, {"type": "user.tool_result", "tool_use_id": foreign, "content": []},
              {"type": "session.status_idle", "stop_reason": {"type": "end_turn"}})
    await asyncio.wait_for(running, 30)
    same(runs.count(("look_up", "abc")), 4, "every call ran once")
    results = {}
    async for event in of.events.list(session, types=["user.tool_result", "user.custom_tool_result"]):
        call = getattr(event, "tool_use_id", None) or event.custom_tool_use_id
        check(call not in results, "one result for each call", call)
        results[call] = event
    same(set(results), {old[1], old[2], custom, wrong, foreign, asked, late}, "all answers are there")
    same(results[custom].content[0].text, "abc means cba", "what the tool said")
    check(results[wrong].is_error and "why" in results[wrong].content[0].text, "and what went wrong")

    # It ends with its session, too: terminated, or deleted under it.
    for end in ("terminated", "deleted"):
        session = (await of.create(agent="agent_01", environment_id="env_self")).id
        seen = []
        task = asyncio.create_task(drive(session, seen))
        await say(session, use("look_up"))
        await until(lambda: len(seen) == 1)
        if end == "terminated":
            await say(session, {"type": "session.status_terminated"})
        else:
            await of.delete(session)
        await asyncio.wait_for(task, 30)
        same(len(seen), 1, f"a session that is {end} ends it")


async def until(holds):
    for _ in range(1200):
        if holds():
            return
        await asyncio.sleep(0.05)
    check(False, "what is awaited comes")


def main():
    key = token("read,write,delete")
    reader = token("read")
    guarded = Server("guarded", "--tokens-file", os.path.join(directory, "tokens.json"))
    open_to_all = Server("open")
    try:
        sessions(guarded, key)
        events(open_to_all, "any key")
        beside(guarded, key)
        streams(guarded, key)
        errors(guarded, key, reader)
        asyncio.run(runner(guarded, key))
    finally:
        guarded.kill()
        open_to_all.kill()
    print(f"anthropic {anthropic.__version__}: {counts['calls']} requests counted, "
          f"{counts['checks']} checks, 0 failed")


main()
