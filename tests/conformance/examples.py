"""What an example of a client printed, compared with the log.

    examples.py SESSION OUTPUT EVENTS

What does not hold ends it with 1 and is printed.
"""

import json
import pathlib
import re
import sys
from itertools import groupby

# Who speaks in a window, by the type of the event.
ROLES = {
    "user.message": "user",
    "agent.tool_result": "user",
    "agent.tool_use": "assistant",
    "agent.message": "assistant",
}


def client(session, output, events):
    said = pathlib.Path(output).read_text().splitlines()
    log = [json.loads(line) for line in pathlib.Path(events).read_text().splitlines()]
    assert [event["position"] for event in log] == [0, 1, 2, 3, 4], log
    task = log[0]["content"]
    roles = " ".join(role for role, _ in groupby(log, lambda event: ROLES[event["type"]]))
    expected = [
        f"emitted: 0 to 3 in {session}",
        *(f"slice: {event['position']} {event['type']} {event['id']}" for event in log[1:3]),
        "tailed: 0 1 2 3 4",
        f"recovered: {task} (5 events)",
        f"continued: {task} (TOKENS of 1000 tokens)",
        f"window: {roles} (TOKENS of 1000 tokens)",
    ]
    spent = [int(count) for count in re.findall(r"\((\d+) of 1000 tokens\)", "\n".join(said))]
    assert len(spent) == 2 and all(0 < count <= 1000 for count in spent), said
    said = [re.sub(r"\(\d+ of", "(TOKENS of", line) for line in said]
    assert said == expected, "\n".join(["it said:", *said, "the log has:", *expected])


def main():
    arguments = sys.argv[1:]
    try:
        client(*arguments)
    except AssertionError as error:
        sys.exit(str(error))


main()
