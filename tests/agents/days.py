"""What the models of run.sh were given over three days of one project: days.py AGENT DIRECTORY.

Cuts each text out of the requests of a model, writes it to DIRECTORY/given and looks at it: facts
that it must have and may not have, and ten questions that a reader who has nothing else asks of it.
Prints `ok` or `FAILED` and what was looked at, a line each. It must not run anything.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

agent, directory = sys.argv[1], Path(sys.argv[2])
FRAME = '<sessionlog trust="untrusted-external-content">'
END = "</sessionlog>"

# What a text is, by the words before its frame; the first whose words are there.
KINDS = {
    "start": "earlier sessions of this directory.",
    "near": "said this of what your user asks",
    "compaction": "outside of the context window",
    "news": "Others recorded this",
}

# Marks of JSON, members of recorders, and what an agent only announces.
MARKS = ['{"', '\\"', "\\n", "toolu_", "call_id", "kind: ", "from: ", "hook_", "evt_", "uuid", "Let me look"]

TASK = ("What is the whole work about?", r"count money in cents, never in floats")
RULE = ("Which file is to be left alone, and why?", r"Leave stock\.py alone, another team owns it")
CURRENCY = ("In which currency are receipts printed?", r"\bCHF\b")
RATE = ("Which rate has the tax, and how is it rounded?", r"tax half up, its rate is 19 percent")
WHY = ("Why is the price not read by float()?", r"1\.15 to 114")
PUSHED = ("Was anything pushed?", r"git push origin main -> refused:")
TICKET = ("What was said of the commit of the prices?", r"commit names no ticket")


def changed(*names):
    """The files that are told as changed, in any order."""
    return r"(?m)^- files: " + "".join(rf"(?=[^\n]*\b{name}(?! \(reverted))" for name in names)


# What is so once the tax is mended. Claude Code keeps no list of an earlier session: its update of a
# step fails, and changes none.
TAX_DONE = (
    ("Do the tests pass?", r"both tests pass|\b2 passed\b"),
    ("Which files were changed?", changed("price.py", "tax.py")),
    ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
)

# Of each text ten questions, with what an answer looks like.
QUESTIONS = {
    "day-2-start": [
        TASK, RULE, CURRENCY, WHY, PUSHED, TICKET,
        ("Which test fails?", r"(?m)^Still failing:\n- .*test_tax"),
        ("With which values?", r"\b3 != 10\b"),
        ("Which file was changed?", changed("price.py")),
        ("Which step of the plan is next?", r"\[ \] Round the tax half up"),
    ],
    "day-2-compaction": [
        TASK, RULE, CURRENCY, RATE, WHY, PUSHED,
        ("What did the user ask for last?", r"Round the tax half up, its rate is 19 percent <- the latest request"),
        *TAX_DONE,
    ],
    "day-2-asked": [
        TASK, RULE, CURRENCY, RATE, WHY, PUSHED,
        ("What did the user ask for last?", r"Which step is next\?[^\n]* <- the latest request"),
        *TAX_DONE,
    ],
    "crash-start": [
        TASK, RULE, CURRENCY, RATE,
        ("What was asked last before the crash?", r"Commit the tax, then run soak\.sh"),
        ("Which command ran when the agent was killed?", r"sh soak\.sh"),
        ("Did it end?", r"(?m)^Begun, without a result so far:\n- \$ sh soak\.sh$"),
        ("What was committed last?", r'git commit[^\n]*"Round the tax half up"'),
        ("Which files were changed?", changed("price.py", "tax.py", "cart.py")),
        ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
    ],
    "crash-asked": [
        TASK, RULE, CURRENCY, RATE, WHY,
        ("What does the user want now?", r"Print receipts in cents <- the latest request"),
        ("What was asked last before the crash?", r"Commit the tax, then run soak\.sh"),
        ("Did the soak run end?", r"sh soak\.sh ->[^\n]*(no result|not ended|running|interrupted)"),
        ("Which files were changed?", changed("price.py", "tax.py", "cart.py")),
        ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
    ],
    "day-3-start": [
        TASK, RULE, CURRENCY, RATE,
        ("What is still to be done?", r"soak run is still to be done|\[ \] Ask the stock team"),
        ("Which file was written last?", changed("receipt.py")),
        ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
        ("What did the tiny session do?", r"Write a release note"),
        ("Was the soak run asked for?", r"then run soak\.sh"),
        ("Does any test fail?", r"(?s)\A(?!.*Still failing)"),
    ],
    "day-3-asked": [
        TASK, RULE, CURRENCY, RATE, WHY,
        ("What is still to be done?", r"soak run is still to be done"),
        ("Which files were changed?", changed("price.py", "tax.py", "cart.py", "receipt.py")),
        ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
        ("What does the user want now?", r"What is left to do\? <- the latest request"),
        ("Does any test fail?", r"(?s)\A(?!.*Still failing)"),
    ],
    "cleared-asked": [
        TASK, RULE, CURRENCY, RATE, WHY,
        ("What is still to be done?", r"soak run is still to be done"),
        ("Which files were changed?", changed("price.py", "tax.py", "cart.py", "receipt.py")),
        ("Which step of the plan is next?", r"\[ \] Print receipts in cents"),
        ("What does the user want now?", r"Which team owns stock\.py\?"),
        ("Where is the work of before?", r"memory_search|session [0-9a-f]{8}-"),
    ],
}


# How many of them are answered at least, where that is not all.
REACHED = {"cleared-asked": 5}


def told(name, held, seen=""):
    print(("ok" if held else "FAILED"), agent, "days:", name, "" if held else seen)


def strings(body, is_result=False):
    """Every text of a request, and whether a tool answered it."""
    if isinstance(body, str):
        yield body, is_result
    elif isinstance(body, list):
        for value in body:
            yield from strings(value, is_result)
    elif isinstance(body, dict):
        is_result = is_result or body.get("type") in ("tool_result", "function_call_output")
        for value in body.values():
            yield from strings(value, is_result)


def is_of(text, session):
    """Whether a text says where the work of a session stands."""
    return f"Where the work stands (session {session}," in text


def conversation(body):
    """The session of an agent that a request is of."""
    return str(body.get("prompt_cache_key") or body.get("metadata"))


def cut(text):
    """Each text of ours in a string: the sentence before its frame, the frame, what follows."""
    for part in re.finditer(rf"(?:^[^\n]*\n)?{FRAME}\n.*?\n{END}(?:\n[^\n]*)?", text, re.M | re.S):
        yield part.group()


def given():
    """The texts, in the order in which they arrived: point, kind and text; and how often each
    stood in one request at most."""
    points = [line.split() for line in (directory / "points").read_text().splitlines()]
    points = [(int(at), name) for at, name in points]
    known, texts, copies, begun = set(), [], {}, {}
    for at, line in enumerate((directory / "requests").read_text().splitlines()):
        name = next((name for begin, name in reversed(points) if begin <= at), None)
        try:
            body = json.loads(json.loads(line)["body"])
        except ValueError:
            continue
        if name is None:
            continue
        here = [(text, asked) for whole, asked in strings(body) for text in cut(whole)]
        if here and begun.setdefault(name, conversation(body)) != conversation(body):
            name = "cleared"
        for text, is_asked in here:
            head = text.split(FRAME)[0]
            kind = next((kind for kind, words in KINDS.items() if words in head), "other")
            key = (conversation(body), text)
            copies[key] = max(copies.get(key, 0), [one for one, _ in here].count(text))
            if key in known:
                continue
            known.add(key)
            texts.append((f"{name}-{'asked' if is_asked else kind}", text))
    return texts, copies


def part(text, heading):
    """The items of a list of a text."""
    found = re.search(rf"^{heading}[^\n]*:\n((?:- .*\n?|  .*\n?)+)", text, re.M)
    return re.split(r"^- ", found.group(1), flags=re.M)[1:] if found else []


def events(name, session):
    """The events of a session, before the import, after it, or after importing again."""
    path = directory / f"days-{name}" / session
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def said(events):
    """What was said and called, each with how often, without what programs put into a person's
    messages."""
    kinds = ["user.message", "agent.message", "agent.tool_use"]
    of = [event for event in events if event["type"] in kinds]
    words = [(event["type"], str(event.get("call_id") or event.get("content"))) for event in of]
    return Counter(one for one in words if not one[1].lstrip("[{'\"").startswith("<"))



texts, copies = given()
out = directory / "given"
out.mkdir(exist_ok=True)
for number, (name, text) in enumerate(texts, 1):
    (out / f"{number:02}-{name}.md").write_text(text + "\n")
first, second, third, tiny, last = list(dict.fromkeys((directory / "days").read_text().split()))[:5]
by_name = dict(texts)
start = lambda name: by_name.get(f"{name}-start", "")

expected = ["day-2-start", "day-2-compaction", "day-2-asked", "crash-start", "crash-asked"]
expected += ["tiny-start", "day-3-start", "day-3-asked"]
if agent == "claude-code":
    expected += ["cleared-near", "cleared-asked"]
told("a text arrives at each point, and no other", [name for name, _ in texts] == expected, list(by_name))
told("each once in a context", set(copies.values()) == {1}, [name for name, _ in texts])
told("none is cut by the program", all(len(text) < 10_000 for _, text in texts))

# What no text may have.
for name, text in texts:
    items = [line for line in text.splitlines() if line.startswith("- ")]
    told(f"{name}: no item twice", len(items) == len(set(items)), items)
    marks = [mark for mark in MARKS if mark in text]
    told(f"{name}: no mark of JSON, no bookkeeping, no narration", not marks, marks)
    pushed = [line for line in text.splitlines() if "git push" in line]
    told(f"{name}: the refused call is not told as done",
         all(re.search("denied|rejected|refused", line) for line in pushed), pushed)
    files = [line for line in text.splitlines() if line.startswith("- files: ")]
    told(f"{name}: the reverted file is not told as changed",
         all("stock.py (reverted)" in line for line in files), files)
    failing = part(text, "Still failing")
    wanted = 1 if name == "day-2-start" else 0
    told(f"{name}: what fails is told and what was mended is not",
         len(failing) == wanted and not any("test_price" in one for one in failing), failing)

# What each must have.
for name in [name for name in expected if not name.startswith("cleared")]:
    text = by_name.get(name, "")
    told(f"{name}: the task once", text.count("never in floats") == 1, text)
    for what, (_, answer) in {"the task": TASK, "the standing rule": RULE, "the item of memory": CURRENCY}.items():
        told(f"{name}: {what}", re.search(answer, text), text)

crash = start("crash")
told("after the crash it continues the session that was killed", is_of(crash, second), crash[:600])
commits = [one for one in part(crash, "Changed") if "git commit" in one]
told("with its latest commit", "Round the tax half up" in "".join(commits[-1:]), commits)
told("with the call in which it was killed, as one without a result",
     [one.strip() for one in part(crash, "Begun, without a result so far")] == ["$ sh soak.sh"], crash)
told("and with no line for a day that the text has", not part(crash, "Other sessions"), crash)
is_killed = events("before", second)[-1:]
told("that session has no end", is_killed and is_killed[0]["type"] == "agent.tool_use", is_killed)
third_day = start("day-3")
told("the tiny run displaces nothing", is_of(third_day, third), third_day[:600])
others = part(third_day, "Other sessions")
told("it has a line", len(others) == 1 and tiny in others[0] and "Write a release note" in others[0], others)
told("the work before it is told", "The soak run is still to be done." in third_day, third_day)

# The import of the same transcripts.
days = {one["id"] for one in json.loads((directory / "days.before").read_text())["data"]}
told("an import makes no other session", days == {one["id"] for one in json.loads(
    (directory / "days.after").read_text())["data"]} == {first, second, third, tiny}, days)
for at, session in enumerate([first, second, third, tiny], 1):
    before, after, again = [said(events(name, session)) for name in ("before", "after", "again")]
    # What an agent said last before it was killed may be in its transcript alone.
    added = {one: count for one, count in after.items() if count > max(before[one], 1)}
    told(f"and says nothing twice in session {at}", not added and after == again, added)
    lost = [one for one in before if after[one] < before[one]]
    told(f"and loses nothing of session {at}", not lost, lost)
    ids = [event["id"] for event in events("again", session)]
    told(f"every id once in session {at}", len(ids) == len(set(ids)))
if agent == "claude-code":
    answer = "No file uses floats any more: cart.py sums whole cents."
    told("what a subagent answered", answer in third_day, third_day)
    asked = "Which files still use floats?"
    said = [one for _, text in texts for one in part(text, "Your user also said")]
    told("and what it was asked is no word of the user", not any(asked in one for one in said), said)
    near = by_name.get("cleared-near", "")
    told("after a clear the rule that a prompt asks for", re.search(RULE[1], near), near)
    told("nothing of what was cleared", "What is left to do?" not in by_name.get("cleared-asked", ""))

for key, questions in QUESTIONS.items():
    if key not in expected:
        continue
    text = by_name.get(key, "")
    missing = [question for question, answer in questions if not re.search(answer, text)]
    count = len(questions) - len(missing)
    held = len(questions) == 10 and count >= REACHED.get(key, 10)
    told(f"{key}: {count} of {len(questions)} questions are answered", held, missing)
