"""What a run of a real agent must have left: check.py AGENT SESSION DIRECTORY.

Prints `ok` or `FAILED` and what was looked at, a line each. It must not run anything.
"""

import json
import re
import sys
from pathlib import Path

agent, session, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
events = [json.loads(line) for line in (directory / "events").read_text().splitlines()]
requests = [json.loads(line) for line in (directory / "requests").read_text().splitlines()]
# Those of the three days are for days.py.
requests = requests[: int((directory / "points").read_text().split()[0])]
kinds = [event["type"] for event in events]
WALL = "the harbour wall is 4.2 m high"
FRAME = '<sessionlog trust="untrusted-external-content">'


def told(name, held, seen=""):
    print(("ok" if held else "FAILED"), agent, name, "" if held else seen)


def of(kind):
    return [event for event in events if event["type"] == kind]


def texts(body):
    """Every text a request holds."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, dict):
        for value in body.values():
            yield from texts(value)
    elif isinstance(body, list):
        for value in body:
            yield from texts(value)


def framed(text):
    """What each of our answers in a text frames."""
    parts = text.split(FRAME + "\n")[1:]
    return [part.split("\n</sessionlog>")[0] for part in parts]


def is_of(text, name):
    """Whether a text begins with the state of a session."""
    return text.startswith(f"# Where the work stands (session {name},")


def part(text, heading):
    """The items of a list of a text."""
    found = re.search(rf"^{heading}[^\n]*:\n((?:- .*\n?|  .*\n?)+)", text, re.M)
    return re.split(r"^- ", found.group(1), flags=re.M)[1:] if found else []


def line(text, heading):
    """What stands behind a heading."""
    found = re.search(rf"^\*\*{heading}\.\*\* (.*)$", text, re.M)
    return found.group(1) if found else ""


def summarizes(text):
    """Whether a request asks for the summary of a compaction."""
    return "CONTEXT CHECKPOINT COMPACTION" in text or "<summary> block" in text


def asked(request):
    """What a request says last: what it is for."""
    try:
        body = json.loads(request["body"])
    except ValueError:
        return {}
    return body


told("session is the agent's own", len(session) == 36 and events, session)
told("starts", kinds[:1] == ["session.status_running"], kinds)
prompts = [event["content"] for event in of("user.message")]
told("prompts", prompts[:1] == ["Measure the harbour wall"] and "Where were we" in prompts, prompts)
calls = [event for event in of("agent.tool_use") if event["name"] == "Bash"]
told("the call of a tool", len(calls) == 1 and WALL in calls[0]["input"]["command"], calls)
results = {event["call_id"]: event for event in of("agent.tool_result")}
result = results.get(calls[0]["call_id"], {}) if calls else {}
told("its result", WALL in str(result.get("content")) and result.get("is_error") is False, results)
told("the compaction", len(of("context.compacted")) == 1, kinds)
told("what the agent said", "It is 4.2 m high." in [e["content"] for e in of("agent.message")], kinds)
told("the end", kinds[-1] == "session.status_terminated", kinds)
told("every id once", len({event["id"] for event in events}) == len(events))

bodies = [asked(request) for request in requests]
whole = ["\n".join(texts(body)) for body in bodies]
own = [(at, one) for at, text in enumerate(whole) for one in framed(text) if is_of(one, session)]
told("injected text reaches the model", bool(own), f"{len(requests)} requests")
last = own[-1][1] if own else ""
told("with the task", line(last, "Task") == "Measure the harbour wall", last)
told("with what the tool said", any(WALL in one for _, one in own), last)
told("and without JSON", not any('{"' in one for _, one in own), last)
compaction = next((at for at, text in enumerate(whole) if summarizes(text)), None)
after = [at for at, _ in own if compaction is not None and at > compaction]
told("after the compaction", bool(after), (compaction, [at for at, _ in own]))
told("under ten thousand characters", all(len(one) < 10_000 for _, one in own))

recovered = [event for event in of("agent.tool_use") if event["name"] == "get_research_session"]
told("our tool was called", len(recovered) == 1 and recovered[0].get("server") == "sessionlog", kinds)
told("without an id it answers with the state as a text", any("Where were we" in one for _, one in own), last)

found = [text for text in whole if "The best first; get_events reads more" in text]
told("what a search finds arrives as its text", bool(found), f"{len(whole)} requests")
told("and not as its JSON", not any('"blocks":' in text.replace("\\", "") for text in whole))
given = [event for event in of("context.injected") if event.get("text")]
told("what the model was given is kept whole", any(event["text"] in text for event in given for text in whole), given)

news = [one for text in whole for one in framed(text) if one.startswith("# What earlier sessions of ")]
news = [one for one in news if f"## Where the work stands (session {session}," in one]
told("a new session receives what the last one left", bool(news), f"{len(whole)} requests")
told("of no branch where there is no repository", not any(" on branch " in one for one in news), news)
begun = (directory / "research").read_text()
worked = [json.loads(line) for line in (directory / "research.events").read_text().splitlines()]
steps = [event["number"] for event in worked if event["type"] == "research.step"]
told("research goes on after a restart", steps == [1, 2, 3], steps)
prompts = [event["content"] for event in worked if event["type"] == "user.message"]
told("in the session that its hooks record", prompts == ["Look at the walls", "Go on"], prompts)
listed = json.loads((directory / "research.sessions").read_text())["data"]
told("and in no other", [session["id"] for session in listed] == [begun], listed)
told("of the repository", listed[0]["workspace"].endswith("/repository"), listed)

# The working session: what the first request after its compaction holds must be enough to go on.
working = (directory / "working").read_text()
done = [json.loads(line) for line in (directory / "working.events").read_text().splitlines()]
called = [event["name"] for event in done if event["type"] == "agent.tool_use"]
ran = [str(event["content"]) for event in done if event["type"] == "agent.tool_result"]
failing = [text for text in ran if re.search(r"\b[12] failed", text)]
passing = [text for text in ran if "1 passed" in text]
worked = len(called) >= 12 and len(failing) == 2 and len(passing) == 1
told("the working session did its work", worked, (called, failing, passing))
WORDS = [
    "The float cuts 1.15 to 114, so the text itself must be read.",
    "That file is back as it was.",
]
messages = [event["content"] for event in done if event["type"] == "agent.message"]
counts = [messages.count(text) for text in WORDS + ["Two tests fail.", "Left alone."]]
told("what it said between its calls is recorded, each once", counts == [1] * 4, messages)
at = max((at for at, text in enumerate(whole) if summarizes(text)), default=len(whole))
about = [[one for one in framed(text) if is_of(one, working)] for text in whole]
told("four resumptions give it nothing anew", not any(about[:at]), [len(one) for one in about])
following = [at for at in range(at + 1, len(bodies)) if bodies[at].get("tools")]
copies = [len(about[at]) for at in following]
told("after the compaction and a resumption it is told once", copies == [1, 1], (at, copies))
held = about[following[0]] if following else []
view = held[-1] if held else ""
TASK = "Make the shop count money in cents, never in floats"
said = [text.strip().removesuffix(" <- the latest request") for text in part(view, "Your user also said")]
told("the task of the work", line(view, "Task") == TASK, view)
for words in [
    "Round the tax half up, its rate is 19 percent",
    "Leave stock.py alone, another team owns it",
    "Note every change in CHANGES.md under ticket SHOP-417",
]:
    told(f"the instruction: {words}", words in said, said)
asked = [text for text in said if "Which currency is on a receipt?" in text]
answered = len(asked) == 1 and "CHF" in asked[0] and "EUR" not in asked[0]
told("what its user answered", answered or agent == "codex", said)
told("no word that only agrees", "ok" not in said, said)
failures = part(view, "Still failing")
why = len(failures) == 1 and "test_tax" in failures[0] and "9 != 10" in failures[0]
told("the test that fails, and why", why, failures)
told("the mended one not as failing", not any("test_price" in text for text in failures), failures)
changed = next((text for text in part(view, "Changed") if text.startswith("files: ")), "files: ")
told_of = changed.strip().removeprefix("files: ").split(", ")
files = [name for name in told_of if "(reverted" not in name]
for name in ["price.py", "tax.py", "cart.py", "money.py", "CHANGES.md", "README.md"]:
    told(f"the edited file {name}", name in files, files)
told("and no other file", len(files) == 6, files)
reverted = [name.split(" ")[0] for name in told_of if "(reverted" in name]
told("the reverted file, as reverted", reverted == ["stock.py"], told_of)
# The summary that the program made of it is shown as one, without the program's introduction.
summed = line(view, "The conversation before, as its client summed it up")
told("nothing of its own compaction as work", "look at the harbour" not in view.replace(summed or "\0", ""), view)
told("no introduction of a summary", "Another language model" not in view, view)
told("the words between calls", all(text in view for text in WORDS), view)
told("and nothing twice", all(view.count(text) == 1 for text in WORDS + said), view)
told("no JSON", '{"' not in view and '\\"' not in view, view)
plan = [text.strip() for text in part(view, "Plan")]
opened = {"[ ] Round the tax half up (in progress)", "[ ] Print receipts in cents", "[ ] Ask the stock team"}
told("the open items of the plan", opened <= set(plan), plan)
headings = ["Your user also said", "Plan", "Still failing", "Changed"]
same = [part(one, heading) == part(view, heading) for one in held for heading in headings]
told("the same in every frame", all(same), held)
told("what of it is done", "\nPlan, 1 of 4 done:" in view, plan)

shop = {one["id"] for one in json.loads((directory / "shop.sessions").read_text())["data"]}
# At its first prompt, or at its start where that has it already.
earlier = r"- @\d+ of session |# What earlier sessions of \S+/shop left"
recalled = [one for text in whole for one in framed(text) if re.match(earlier, one)]
told("unasked, what an earlier session of the project said", any("LAW-88" in one for one in recalled), recalled)
of_sessions = {name for one in recalled for name in re.findall(r"(?:^- @\d+ of |\()session ([^\s,]+)", one, re.M)}
told("of no other project, and not of its own", of_sessions <= shop - {working}, of_sessions)


def said_by_kind(events):
    """How much of each kind a session has, without what programs put into a person's messages."""
    made = [event for event in events if str(event.get("content")).lstrip("[{'\"").startswith("<")]
    kinds = ["user.message", "agent.message", "agent.tool_use", "agent.tool_result"]
    return [len([e for e in events if e["type"] == kind and e not in made]) for kind in kinds]


imported = [json.loads(line) for line in (directory / "working.after").read_text().splitlines()]
counts = (said_by_kind(done), said_by_kind(imported))
told("an import of what hooks recorded says nothing twice", counts[0] == counts[1], counts)
shop_after = {one["id"] for one in json.loads((directory / "shop.after").read_text())["data"]}
told("and makes no session beside it", shop_after == shop, shop_after - shop)

if agent == "claude-code":
    # One process, cleared: two sessions, and the tools are in the one that the agent works in.
    lived = list(dict.fromkeys((directory / "living").read_text().split()))
    told("a clear begins another session", len(lived) == 2, lived)

    def lives(name):
        parts = (directory / f"living.{name}").read_text().split("\n\n")
        return [[json.loads(line) for line in part.splitlines()] for part in parts if part.strip()]

    first, second = lives("before")
    count = lambda events, kind: len([event for event in events if event["type"] == kind])
    steps = [count(events, "research.step") for events in (first, second)]
    told("each has the step that its agent recorded in it", steps == [1, 1], steps)
    ends = [event["type"] for event in first][-1:]
    told("the one that was cleared has ended", ends == ["session.status_terminated"], ends)
    calls = {event["call_id"]: event["name"] for event in second if event["type"] == "agent.tool_use"}
    results = {event["call_id"]: event for event in second if event["type"] == "agent.tool_result"}
    named = {name: results.get(call, {}) for call, name in calls.items()}
    told("an edit that the program refused is a failed call", named.get("Edit", {}).get("is_error") is True, named)
    told("a call without permission is closed", named.get("WebFetch", {}).get("is_error") is True, named)
    told("and refused", named.get("WebFetch", {}).get("refused") in ("rule", "user"), named)
    told("each call once", len(calls) == len(named) == count(second, "agent.tool_use"), calls)
    counts = [[said_by_kind(events) for events in lives(name)] for name in ("before", "after")]
    told("an import of the same transcripts says nothing twice", counts[0] == counts[1], counts)
    yard = {one["id"] for one in json.loads((directory / "yard.sessions").read_text())["data"]}
    told("and makes no other session", yard == set(lived), yard)
    equal = (directory / "equal").read_text().split() if (directory / "equal").exists() else []
    told("their lines are exported as they were", set(equal) == set(lived), equal)

told("uninstalling says so", "Done." in (directory / "uninstalled").read_text())
home = directory / "home"
settings = list(home.rglob("settings.json")) + list(home.rglob("hooks.json")) + list(home.glob(".claude.json"))
left = [str(path) for path in settings if "sessionlog" in path.read_text() and "mcp" in path.read_text()]
told("and nothing of ours is left", not [p for p in left if '"mcpServers":{"sessionlog"' in Path(p).read_text().replace(" ", "")], left)
