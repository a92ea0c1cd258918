"""Transcripts of a gigabyte, imported by the program as it is shipped: time and memory of the first
import, of a second one, of one after the file has grown in the middle of a line, and of one that is
killed half-way and begun again; and whether what is exported is the file.

    large_import.py PROGRAM DIRECTORY [MEGABYTES]

Writes below DIRECTORY and takes it away again. The last line gives the counts; what does not hold
ends it with 1.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time

program, directory = sys.argv[1], os.path.abspath(sys.argv[2])
megabytes = int(sys.argv[3]) if len(sys.argv) > 3 else 1024
SESSION = "3f0c1d9e-52a7-4b8e-9c33-0d5f6a7b8c91"
THREAD = "0199f2a4-77aa-7c10-8f3e-2b1c0d9e8f70"
WORDS = [f"{word}{n}" for word in ("mill", "canal", "error", "value", "walk", "line") for n in range(500)]
checks = 0


def check(holds, what, seen=None):
    global checks
    checks += 1
    if not holds:
        sys.exit(f"does not hold: {what}: {seen}")


def text(random_, words):
    return " ".join(random_.choices(WORDS, k=words))


def claude(bytes_):
    """Yields lines of Claude Code: turns with tool calls, subagents, compactions, states."""
    of = random.Random(1)
    made, parent, turn = 0, None, 0
    uuids = []

    def line(kind, **more):
        nonlocal parent
        uuid = f"{of.getrandbits(128):032x}"
        uuid = "-".join([uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]])
        head = {"parentUuid": parent, "isSidechain": False, "cwd": "/home/ada/ghent", "sessionId": SESSION,
                "version": "2.1.330", "type": kind, "uuid": uuid,
                "timestamp": f"2026-11-20T{turn // 3600 % 24:02}:{turn // 60 % 60:02}:{turn % 60:02}.000Z", **more}
        if not head["isSidechain"]:
            parent = uuid
        uuids.append(uuid)
        return head

    while made < bytes_:
        turn += 1
        call = f"toolu_{turn}"
        lines = [
            {"type": "mode", "mode": "default", "sessionId": SESSION},
            line("user", message={"role": "user", "content": text(of, 30)}),
            line("assistant", message={"id": f"msg_{turn}", "role": "assistant", "content": [
                {"type": "text", "text": text(of, 60)},
                {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text(of, 20)}}]}),
            line("user", message={"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call, "content": text(of, of.choice([50, 400, 3000]))}]}),
            line("user", isSidechain=True, agentId="a17f", message={"role": "user", "content": text(of, 20)}),
            line("assistant", message={"id": f"msg_{turn}b", "role": "assistant", "content": [
                {"type": "text", "text": text(of, 100)}]}),
        ]
        if turn % 500 == 0:
            about = {"trigger": "auto", "preservedSegment": {"headUuid": uuids[-6], "tailUuid": uuids[-1]}}
            lines.append(line("system", subtype="compact_boundary", compactMetadata=about))
            lines.append(line("user", isCompactSummary=True, message={"role": "user", "content": text(of, 500)}))
        for one in lines:
            one = json.dumps(one) + "\n"
            made += len(one)
            yield one


def codex(bytes_):
    """Yields lines of a Codex rollout: every item twice, as the program writes it."""
    of = random.Random(2)
    made, ordinal = 0, 0

    def line(kind, payload):
        nonlocal ordinal, made
        said = json.dumps({"timestamp": "2026-11-20T09:00:00.000Z", "ordinal": ordinal, "type": kind,
                           "payload": payload}) + "\n"
        ordinal += 1
        made += len(said)
        return said

    yield line("session_meta", {"id": THREAD, "cwd": "/home/ada/ghent", "instructions": text(of, 3000)})
    while made < bytes_:
        call = f"call_{ordinal}"
        words = text(of, 40)
        yield line("response_item", {"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": words}]})
        yield line("event_msg", {"type": "user_message", "message": words})
        yield line("response_item", {"type": "function_call", "name": "shell", "call_id": call,
                                     "arguments": json.dumps({"command": ["cat", text(of, 5)]})})
        yield line("response_item", {"type": "function_call_output", "call_id": call,
                                     "output": text(of, of.choice([50, 400, 3000]))})
        yield line("event_msg", {"type": "token_count", "info": {"total": ordinal}})


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def environment(home):
    return {"HOME": home, "SESSIONLOG_DATA_DIR": os.path.join(home, "data"), "PATH": "/usr/bin:/bin",
            "SESSIONLOG_OWNER_IDLE": "20s"}


def owner(home):
    """Returns the process id of the owner of the data directory."""
    said = subprocess.run([program, "sessions", "--json"], env=environment(home), capture_output=True)
    check(said.returncode == 0, "an owner answers", said.stderr)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                arguments = file.read().split("\0")
            if "serve" in arguments and os.path.join(home, "data") in arguments:
                return int(pid)
        except OSError:
            continue
    check(False, "the owner is found")


def peak(pid):
    """Returns the peak memory of a process, in kilobytes."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def run(home, path, kill_after=None):
    """Imports a file; returns its report, seconds, and megabytes of importer and owner."""
    said = os.path.join(home, "said")
    begun = time.monotonic()
    with open(said, "w") as out:
        child = subprocess.Popen([program, "import", "--json", path], env=environment(home), stdout=out)
    if kill_after is not None:
        time.sleep(kill_after)
        child.kill()
        child.wait()
        return None, kill_after, 0, 0
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begun
    check(child.returncode == 0, "the import ends well", child.returncode)
    with open(said) as file:
        report = json.loads(file.read())
    return report, seconds, usage.ru_maxrss // 1024, peak(owner(home)) // 1024


def exported(home, session, kind):
    """Returns the digest of the export, and the megabytes that it took."""
    path = os.path.join(home, "exported")
    with open(path, "w") as out:
        child = subprocess.Popen([program, "export", session, "--format", kind], env=environment(home), stdout=out)
    _, _, usage = os.wait4(child.pid, 0)
    said = digest(path)
    os.remove(path)
    return said, usage.ru_maxrss // 1024


def measure(kind, session, lines):
    home = os.path.join(directory, kind)
    os.makedirs(home)
    path = os.path.join(home, ("rollout-" if kind == "codex" else "") + f"{session}.jsonl")
    with open(path, "w") as file:
        for line in lines(megabytes << 20):
            file.write(line)
    size = os.path.getsize(path) >> 20
    whole = digest(path)

    def told(what, of):
        report, seconds, importer, server = of
        print(f"{kind} {what}: {size} MB in {seconds:.1f} s, {size / seconds:.0f} MB/s, importer {importer} MB, "
              f"owner {server} MB: {report['added']} added, {report['known']} known, torn {report['torn']}", flush=True)
        return report

    answer = run(home, path)
    first, seconds = told("first import", answer), answer[1]
    check(first["known"] == 0 and not first["bad_lines"] and not first["torn"], "everything is new", first)
    out, took = exported(home, session, kind)
    check(out == whole, "what is exported is the file")
    print(f"{kind} export: {took} MB of memory, equal", flush=True)
    again = told("second import", run(home, path))
    check((again["added"], again["known"]) == (0, first["added"]), "nothing is added", again)
    with open(path, "a") as file:
        more = [line for _, line in zip(range(7), lines(1 << 20))]
        more = [line.replace("mill", "Mill").replace('"ordinal": ', '"ordinal": 9') for line in more]
        file.write("".join(more)[:-5])
    torn = told("grown, torn", run(home, path))
    check(torn["torn"] and 0 < torn["added"] < 20 and torn["known"] == first["added"], "what is new is added", torn)
    with open(path, "a") as file:
        file.write("".join(more)[-5:])
    last = told("whole again", run(home, path))
    check(not last["torn"] and 0 < last["added"] < 4, "the rest is added", last)
    grown = digest(path)
    check(exported(home, session, kind)[0] == grown, "what is exported is the grown file")

    # Importer and owner are killed half-way, and the import is started again.
    pid = owner(home)
    os.kill(pid, 9)
    shutil.rmtree(os.path.join(home, "data"))
    for part in (0.3, 0.5):
        run(home, path, kill_after=seconds * part)
        os.kill(owner(home), 9)
    after = told("after two kills", run(home, path))
    check(after["known"] > 0 and after["added"] + after["known"] == last["added"] + last["known"], "the whole", after)
    check(exported(home, session, kind)[0] == grown, "what is exported is the file, after kills")
    os.kill(owner(home), 9)
    shutil.rmtree(home)


os.makedirs(directory, exist_ok=True)
try:
    measure("claude-code", SESSION, claude)
    measure("codex", THREAD, codex)
finally:
    shutil.rmtree(directory, ignore_errors=True)
print(f"large imports: {checks} checks, 0 failed")
