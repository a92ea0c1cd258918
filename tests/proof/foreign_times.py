#!/usr/bin/env python3
"""How long a server takes to say that a session is not there: one of somebody else's, and one that nobody has.

    tests/proof/foreign_times.py --binary target/release/sessionlog

Two users of a tenant; one has a session, the other asks for it and for one that does not exist, in turns of random order, over one
connection. Prints the quartiles of both for each route. Whoever can tell them apart learns which sessions others have.
Nothing is judged: a machine that is busy says nothing.
"""

import argparse
import http.client
import json
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

ROUTES = [
    ("GET", "/v1/sessions/{}"),
    ("GET", "/v1/sessions/{}/events"),
    ("GET", "/v1/sessions/{}/views/index"),
    ("GET", "/v1/sessions/{}/checkpoints"),
    ("DELETE", "/v1/sessions/{}"),
]


def token(binary, tokens, user):
    command = [binary, "tokens", "create", "--tokens-file", tokens, "--tenant", "acme", "--user", user]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"authorization": "Bearer " + made.stdout.strip().splitlines()[-1]}


def ask(connection, method, path, headers, body=None):
    began = time.perf_counter()
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    response.read()
    return response.status, (time.perf_counter() - began) * 1e6


def measure(host, owner, other, count):
    connection = http.client.HTTPConnection(host)
    events = json.dumps({"events": [{"type": "user.message", "content": "x"}] * 50})
    headers = owner | {"content-type": "application/json"}
    status, _ = ask(connection, "POST", "/v1/sessions/theirs/events?create=true", headers, events)
    assert status == 200, status
    for method, route in ROUTES:
        times = {"theirs": [], "nobodys": []}
        statuses = set()
        for _ in range(count):
            for name in random.sample(list(times), 2):
                status, took = ask(connection, method, route.format(name), other)
                statuses.add(status)
                times[name].append(took)
        quartiles = {
            name: " / ".join(f"{value:.0f}" for value in statistics.quantiles(took, n=4)) for name, took in times.items()
        }
        print(f"{method} {route}  {statuses}  theirs {quartiles['theirs']} us, nobody's {quartiles['nobodys']} us")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--binary", default="target/release/sessionlog")
    options.add_argument("--count", type=int, default=3000)
    options = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        tokens = str(pathlib.Path(place, "tokens.json"))
        owner, other = (token(options.binary, tokens, user) for user in ("ada", "bob"))
        command = [options.binary, "serve", "--json", "--listen", "127.0.0.1:0", "--tokens-file", tokens]
        server = subprocess.Popen(command + ["--data-dir", place + "/data"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            host = json.loads(server.stdout.readline())["listening"].split("//")[1]
            measure(host, owner, other, options.count)
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
