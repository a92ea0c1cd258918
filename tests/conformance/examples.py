"""What the examples say, compared with what the program says.

    examples.py client SESSION OUTPUT EVENTS      what a client printed, with the log
    examples.py settings PROGRAM FILE DIRECTORY   the example of a configuration file

What does not hold ends it with 1 and is printed.
"""

import json
import pathlib
import re
import subprocess
import sys
from itertools import groupby

# Who speaks in a window, by the type of the event.
ROLES = {
    "user.message": "user",
    "agent.tool_result": "user",
    "agent.tool_use": "assistant",
    "agent.message": "assistant",
}
# Settings that come from the environment alone.
SECRETS = {"token", "key", "key_previous"}


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


def settings(program, file, directory):
    lines = pathlib.Path(file).read_text().splitlines()
    shown = [line[1:] for line in lines if re.match(r"#[a-z_]+ = ", line)]
    names = [line.split(" = ")[0] for line in shown]

    def config(*arguments):
        command = [program, "config", "--json", *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
        return json.loads(ran.stdout)["settings"]

    usual = config("--config", file)
    changed = {name for name, one in usual.items() if one["source"] != "default"}
    assert not changed, f"as it is the file sets nothing, and it sets {changed}"
    wanted = set(usual) - SECRETS
    assert set(names) == wanted, f"missing, or unknown: {set(names) ^ wanted}"
    assert len(names) == len(wanted), f"one comes twice: {names}"
    # Two settings exclude each other.
    for left_out in ["key_file", "key_command"]:
        whole = pathlib.Path(directory, f"without-{left_out}.toml")
        kept = [line for line in shown if not line.startswith(f"{left_out} = ")]
        whole.write_text("\n".join(kept) + "\n")
        said = config("--config", str(whole))
        for name in wanted - {left_out}:
            assert said[name]["source"].startswith("file "), f"{name}: {said[name]}"
            value, default = said[name]["value"], usual[name]["value"]
            value = value.replace("~", str(pathlib.Path.home())) if name == "data_dir" else value
            assert default in (None, value), f"{name}: {value} is shown, the default is {default}"


def main():
    what, *arguments = sys.argv[1:]
    try:
        {"client": client, "settings": settings}[what](*arguments)
    except AssertionError as error:
        sys.exit(str(error))


main()
