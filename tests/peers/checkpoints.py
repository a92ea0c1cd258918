#!/usr/bin/env python3
"""Checkpoints after every turn of a growing conversation: this store beside LangGraph's SqliteSaver, in one run.

    python3 -m venv v && v/bin/pip install langgraph-checkpoint-sqlite==3.1.2
    v/bin/python tests/peers/checkpoints.py --binary target/release/sessionlog --turns 50 100 200 400

Each turn appends a reply of --bytes bytes and makes a checkpoint, each durable before the next: here over HTTP, two requests
a turn; there in the process itself, one `put` of the checkpoint as an agent graph has it (the messages so far in a channel).
Rounds alternate. Bytes are those of files on disk after a clean stop; the journal, a ring of fixed size that
all sessions of a store share, is left out and said beside. At the end the state at the last and at the first
checkpoint is read back and compared on both sides. Nothing else should run meanwhile.

    v/bin/python tests/peers/checkpoints.py --binary target/release/sessionlog --long 10000

One session of ours alone, with so many turns: what a checkpoint costs beside its turn, in bytes (against the same session
without checkpoints) and in time; what listing and resuming cost at the end; and after `kill -9` how long it takes from the
start of a new process until a harness has the lease, the last checkpoint and its state.
"""

import argparse
import http.client
import json
import os
import pathlib
import random
import sqlite3
import statistics
import subprocess
import tempfile
import time


def size(path):
    return sum(file.stat().st_size for file in pathlib.Path(path).rglob("*") if file.is_file())


def replies(turns, count):
    """Words, as a model writes them: they compress like text, not like noise."""
    words, chance = ("the agent read a file and ran its tests then noted which of them failed on line "
                     "number because value was not expected here").split(), random.Random(7)
    for _ in range(turns):
        text = ""
        while len(text) < count:
            text += chance.choice(words) + " " + str(chance.randrange(10_000)) + " "
        yield text[:count]


class Ours:
    name = "sessionlog"

    def __init__(self, binary, home):
        self.binary, self.data = binary, os.path.join(home, "data")
        self.start()
        self.ask("POST", "/v1/sessions", {"id": "s"})
        self.ids = []

    def start(self):
        command = [self.binary, "serve", "--json", "--listen", "127.0.0.1:0", "--data-dir", self.data]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        url = json.loads(self.server.stdout.readline())["listening"]
        self.http = http.client.HTTPConnection(url.split("//")[1])

    def crash(self):
        self.http.close()
        self.server.kill()
        self.server.wait()

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.http.request(method, path, text, {"content-type": "application/json"})
        answer = self.http.getresponse()
        told = json.loads(answer.read())
        assert answer.status < 300, told
        return told

    def turn(self, number, reply):
        event = {"type": "agent.message", "content": reply}
        self.ask("POST", "/v1/sessions/s/events", {"events": [event]})
        made = self.ask("POST", "/v1/sessions/s/checkpoints", {"state_delta": {"turn": number}})
        self.ids.append(made["id"])

    def back(self, index):
        """What a harness has at a checkpoint: its state, and the messages before it."""
        found = self.ask("GET", f"/v1/sessions/s/checkpoints/{self.ids[index]}")
        to = found["position"]
        messages = self.ask("GET", f"/v1/sessions/s/events?to={to}&limit=10000")["data"]
        return found["state"]["turn"], [message["content"] for message in messages]

    def close(self):
        self.http.close()
        self.server.terminate()
        self.server.wait()
        journal = size(os.path.join(self.data, "journal"))
        rest = size(os.path.join(self.data, "segments")) + size(os.path.join(self.data, "settled"))
        return rest, journal


class LangGraph:
    name = "langgraph-checkpoint-sqlite"

    def __init__(self, _binary, home):
        from langgraph.checkpoint.sqlite import SqliteSaver
        self.path = os.path.join(home, "checkpoints.sqlite")
        self.connection = sqlite3.connect(self.path, check_same_thread=False)
        self.saver = SqliteSaver(self.connection)
        self.saver.setup()
        self.config = {"configurable": {"thread_id": "s", "checkpoint_ns": ""}}
        self.messages, self.configs = [], []

    def turn(self, number, reply):
        from langgraph.checkpoint.base import empty_checkpoint
        self.messages.append({"role": "assistant", "content": reply})
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(self.messages), "turn": number}
        versions = {"messages": number, "turn": number}
        checkpoint["channel_versions"] = versions
        metadata = {"source": "loop", "step": number, "parents": {}}
        self.config = self.saver.put(self.config, checkpoint, metadata, versions)
        self.configs.append(self.config)

    def back(self, index):
        values = self.saver.get_tuple(self.configs[index]).checkpoint["channel_values"]
        return values["turn"], [message["content"] for message in values["messages"]]

    def close(self):
        self.connection.close()
        return sum(size_of(self.path + end) for end in ("", "-wal", "-shm")), 0


def size_of(path):
    return os.path.getsize(path) if os.path.exists(path) else 0


def measured(kind, binary, turns, count):
    with tempfile.TemporaryDirectory() as home:
        side, texts, took = kind(binary, home), list(replies(turns, count)), []
        for number, reply in enumerate(texts, 1):
            began = time.perf_counter()
            side.turn(number, reply)
            took.append(time.perf_counter() - began)
        began = time.perf_counter()
        assert side.back(-1) == (turns, texts)
        resumed = time.perf_counter() - began
        assert side.back(0) == (1, texts[:1])
        kept, shared = side.close()
    tenth = max(1, turns // 10)
    return {"bytes": kept, "shared_bytes": shared, "seconds": sum(took),
            "first_ms": 1e3 * statistics.median(took[:tenth]),
            "last_ms": 1e3 * statistics.median(took[-tenth:]), "resume_ms": 1e3 * resumed}


def said(side, reply):
    side.ask("POST", "/v1/sessions/s/events", {"events": [{"type": "agent.message", "content": reply}]})


def timed(act):
    began = time.perf_counter()
    answer = act()
    return answer, 1e3 * (time.perf_counter() - began)


def every_page(side):
    ids, page = [], ""
    while True:
        answer = side.ask("GET", f"/v1/sessions/s/checkpoints?limit=1000{page}")
        ids += [one["id"] for one in answer["data"]]
        if not answer["next_page"]:
            return ids
        page = "&page=" + answer["next_page"]


def state_of(number):
    """What changes of a state in a turn: where it is, what it did, what is next."""
    return {"turn": number, "current": {"file": f"src/part_{number % 97}.rs", "call": f"call_{number}"},
            "next": f"look at line {number % 1_000} again"}


def long_session(binary, turns, count):
    texts = list(replies(turns, count))
    with tempfile.TemporaryDirectory() as home:
        bare = Ours(binary, home)
        for text in texts:
            said(bare, text)
        without, _ = bare.close()
    with tempfile.TemporaryDirectory() as home:
        side, took, tenth = Ours(binary, home), [], max(1, turns // 10)
        path = "/v1/sessions/s/checkpoints"
        for number, text in enumerate(texts, 1):
            said(side, text)
            made, ms = timed(lambda: side.ask("POST", path, {"state_delta": state_of(number)}))
            side.ids.append(made["id"])
            took.append(ms)
        figures = [("checkpoint, first tenth, median ms", statistics.median(took[:tenth])),
                   ("checkpoint, last tenth, median ms", statistics.median(took[-tenth:]))]
        told, ms = timed(lambda: side.ask("GET", path + "?limit=100"))
        assert [one["id"] for one in told["data"]] == side.ids[:-101:-1]
        figures.append(("list the newest 100, ms", ms))
        ids, ms = timed(lambda: every_page(side))
        assert ids == side.ids[::-1]
        figures.append(("list all, ms", ms))
        for name, at in (("last", turns), ("middle", turns // 2), ("first", 1)):
            found, ms = timed(lambda: side.ask("GET", f"{path}/{side.ids[at - 1]}"))
            assert found["state"] == state_of(at) and found["position"] == at, found
            figures.append((f"state at the {name}, ms", ms))
        side.crash()
        woken, ms = timed(lambda: (side.start(), side.ask("POST", "/v1/sessions/s/wake", {"steal": True}))[1])
        last = woken["last_checkpoint"]
        assert last["id"] == side.ids[-1] and last["state"] == state_of(turns) and woken["tail"] == turns
        figures.append(("killed, started, woken with the last state, ms", ms))
        ids, ms = timed(lambda: every_page(side))
        assert ids == side.ids[::-1]
        figures.append(("then list all, ms", ms))
        kept, journal = side.close()
    figures[:0] = [("bytes of the turns, as kept", without), ("bytes a checkpoint adds", (kept - without) / turns),
                   ("bytes a checkpoint is sent as", len(json.dumps({"state_delta": state_of(turns)}))),
                   ("journal shared by all sessions, bytes", journal)]
    print("| what | figure |\n|---|--:|")
    for name, figure in figures:
        print(f"| {name} | {figure:.1f} |")


def main():
    wanted = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    wanted.add_argument("--binary", default="target/release/sessionlog")
    wanted.add_argument("--turns", type=int, nargs="+", default=[50, 100, 200, 400])
    wanted.add_argument("--bytes", type=int, default=2_048)
    wanted.add_argument("--rounds", type=int, default=3)
    wanted.add_argument("--ours-only", action="store_true", help="no peer: for many turns")
    wanted.add_argument("--long", type=int, help="turns of one long session of ours")
    asked = wanted.parse_args()
    if asked.long:
        return long_session(asked.binary, asked.long, asked.bytes)
    sides = [Ours] if asked.ours_only else [Ours, LangGraph]
    heads = ("turns", "side", "payload", "bytes", "times payload", "seconds", "early ms", "late ms", "resume ms")
    print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
    for turns in asked.turns:
        rounds = [[measured(side, asked.binary, turns, asked.bytes) for side in sides]
                  for _ in range(asked.rounds)]
        medians = [{name: statistics.median(one[at][name] for one in rounds) for name in rounds[0][at]}
                   for at in range(len(sides))]
        payload = turns * asked.bytes
        for side, found in zip(sides, medians):
            cells = (turns, side.name, payload, int(found["bytes"]), f'{found["bytes"] / payload:.2f}',
                     f'{found["seconds"]:.2f}', f'{found["first_ms"]:.2f}', f'{found["last_ms"]:.2f}',
                     f'{found["resume_ms"]:.1f}')
            print("| " + " | ".join(map(str, cells)) + " |")
        if len(sides) == 2:
            ours, theirs = medians
            ratios = {name: theirs[name] / ours[name] for name in ("bytes", "seconds", "last_ms")}
            told = ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items())
            print(f"theirs over ours at {turns} turns: {told}")


if __name__ == "__main__":
    main()
