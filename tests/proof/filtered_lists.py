#!/usr/bin/env python3
"""What lists with filters take of a server that has very many sessions of one tenant, and of another tenant's reads.

    tests/proof/filtered_lists.py --binary target/release/sessionlog [--sessions 200000] [--rounds 5]

A tenant makes the sessions over HTTP, some with a status, an agent or a workspace, those with a rare one first, so that a list finds them
last. Each filter's pages are followed to the end, once with the sessions as they were just made and once after a restart, when
they rest. Then another tenant reads one session of its own, in turns alone and while four processes follow filtered lists. Prints the
time of the requests and both tenants' quantiles. It checks that each list is complete, and that no request takes a second (--judge).
"""

import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

RARE = 5
LISTS = [
    ("statuses[]=running&limit=1", RARE),
    ("statuses[]=running", RARE),
    ("statuses[]=rescheduling&limit=1", 0),
    ("statuses[]=terminated", RARE),
    ("agent_id=rare", RARE),
    ("agent_id=nobody", 0),
    ("statuses[]=idle&agent_id=rare&order=asc", RARE),
    ("statuses[]=running&order=asc", RARE),
    ("workspace=rare", RARE),
    ("statuses[]=running&workspace=rare", 0),
    ("statuses[]=running&created_at[gte]=2020-01-01T00:00:00Z", RARE),
    ("statuses[]=idle&limit=1000", None),
    ("limit=1000", None),
]
LOAD = "statuses[]=running&limit=1"


def token(binary, tokens, tenant, user):
    command = [binary, "tokens", "create", "--tokens-file", tokens, "--tenant", tenant, "--user", user]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"authorization": "Bearer " + made.stdout.strip().splitlines()[-1]}


class Server:
    def __init__(self, binary, place, tokens):
        command = [binary, "serve", "--json", "--listen", "127.0.0.1:0", "--tokens-file", tokens]
        command += ["--data-dir", place + "/data", "--log", "error"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.host = json.loads(self.process.stdout.readline())["listening"].split("//")[1]

    def resident(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) // 1024

    def processor(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def ask(connection, path, headers):
    began = time.perf_counter()
    connection.request("GET", path, None, headers)
    response = connection.getresponse()
    body = response.read()
    took = time.perf_counter() - began
    assert response.status == 200, (path, response.status, body)
    return took, body


def body_of(number):
    session = {"id": f"s{number}"}
    rare = number % RARE if number < 4 * RARE else None
    if rare is None:
        return session
    kind = number // RARE
    if kind == 0:
        session["initial_events"] = [{"type": "session.status_running"}]
    elif kind == 1:
        session["agent"] = "rare"
    elif kind == 2:
        session["workspace"] = "rare"
    return session


def fill(host, headers, first, last):
    """Sends the requests of a hundred sessions in one write each, and reads their responses."""
    stream = socket.create_connection(host.rsplit(":", 1))
    answers = stream.makefile("rb")
    head = f"POST /v1/sessions HTTP/1.1\r\nhost: {host}\r\nauthorization: {headers['authorization']}\r\n"
    head += "content-type: application/json\r\ncontent-length: "
    for begin in range(first, last, 100):
        numbers = range(begin, min(begin + 100, last))
        bodies = [json.dumps(body_of(number)) for number in numbers]
        stream.sendall("".join(f"{head}{len(body)}\r\n\r\n{body}" for body in bodies).encode())
        for number in numbers:
            status = answers.readline()
            assert b" 201 " in status, (number, status)
            length = 0
            while (line := answers.readline()) not in (b"\r\n", b""):
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            answers.read(length)
    stream.close()


def make(host, headers, sessions):
    began = time.perf_counter()
    # Sessions with a rare value are created first, separately.
    fill(host, headers, 0, 4 * RARE)
    connection = http.client.HTTPConnection(host)
    for number in range(3 * RARE, 4 * RARE):
        connection.request("POST", f"/v1/sessions/s{number}/archive", None, headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        response.read()
    part = (sessions - 4 * RARE) // 8 + 1
    parts = [(4 * RARE + n * part, min(4 * RARE + (n + 1) * part, sessions)) for n in range(8)]
    workers = [multiprocessing.Process(target=fill, args=(host, headers, *part)) for part in parts]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    print(f"{sessions} sessions made in {time.perf_counter() - began:.1f} s")


def follow(connection, headers, query, pages_max=None):
    """Returns the times of all requests until a list ends, and the number of its sessions."""
    times, found, page = [], 0, None
    while True:
        path = "/v1/sessions?" + query + ("&page=" + urllib.parse.quote(page) if page else "")
        took, body = ask(connection, path, headers)
        times.append(took)
        answer = json.loads(body)
        found += len(answer["data"])
        page = answer["next_page"]
        if page is None or len(times) == pages_max:
            return times, found


def lists(server, headers, sessions, state):
    connection = http.client.HTTPConnection(server.host)
    worst = 0.0
    print(f"\n{state}: the server holds {server.resident()} MiB")
    for query, expected in LISTS:
        before = server.processor()
        times, found = follow(connection, headers, query)
        processor = server.processor() - before
        if expected is None:
            # A plain list has no archived sessions, and the list of idle ones no running sessions.
            expected = sessions - RARE - (RARE if "idle" in query else 0)
        assert found == expected, (query, found, expected)
        worst = max(worst, *times)
        middle, most = statistics.median(times) * 1e3, max(times) * 1e3
        print(
            f"  {query}: {found} found by {len(times)} requests; first {times[0] * 1e3:.0f} ms,"
            f" median {middle:.0f}, longest {most:.0f}, all {sum(times):.2f} s, processor {processor:.2f} s"
        )
    return worst


def load(host, headers, begun, stop, times):
    connection = http.client.HTTPConnection(host)
    mine = []
    begun.release()
    while not stop.is_set():
        mine += follow(connection, headers, LOAD, 1)[0]
    times.put(mine)


def read(host, headers, seconds):
    connection = http.client.HTTPConnection(host)
    times = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        times.append(ask(connection, "/v1/sessions/mine", headers)[0])
    return times


def quantiles(times):
    cuts = statistics.quantiles(times, n=100)
    return cuts[49] * 1e3, cuts[98] * 1e3, max(times) * 1e3


def beside(server, ada, eve, rounds, seconds):
    connection = http.client.HTTPConnection(server.host)
    connection.request("POST", "/v1/sessions", json.dumps({"id": "mine"}), eve | {"content-type": "application/json"})
    response = connection.getresponse()
    assert response.status in (201, 409), response.read()
    response.read()
    alone, under, requests = [], [], []
    for turn in range(rounds):
        alone.append(quantiles(read(server.host, eve, seconds)))
        begun, stop, times = multiprocessing.Semaphore(0), multiprocessing.Event(), multiprocessing.Queue()
        arguments = (server.host, ada, begun, stop, times)
        workers = [multiprocessing.Process(target=load, args=arguments) for _ in range(4)]
        for worker in workers:
            worker.start()
        for _ in workers:
            begun.acquire()
        under.append(quantiles(read(server.host, eve, seconds)))
        stop.set()
        for _ in workers:
            requests += times.get()
        for worker in workers:
            worker.join()
        for name, (p50, p99, most) in (("alone", alone[-1]), ("beside four lists", under[-1])):
            print(f"  round {turn + 1}, a plain read {name}: p50 {p50:.2f} ms, p99 {p99:.2f}, longest {most:.1f}")
    for name, found in (("alone", alone), ("beside four lists", under)):
        p50, p99 = (statistics.median(one[at] for one in found) for at in (0, 1))
        print(f"  medians of {rounds} rounds, {name}: p50 {p50:.2f} ms, p99 {p99:.2f}")
    p50, p99, most = quantiles(requests)
    print(f"  the lists meanwhile: {len(requests)} requests, p50 {p50:.0f} ms, p99 {p99:.0f}, longest {most:.0f}")
    return max(requests)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--binary", default="target/release/sessionlog")
    options.add_argument("--sessions", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--seconds", type=float, default=3.0)
    options.add_argument("--dir", help="where the data directory is made")
    options.add_argument("--judge", action="store_true", help="end with 1 when a request took a second")
    options = options.parse_args()
    with tempfile.TemporaryDirectory(dir=options.dir) as place:
        tokens = str(pathlib.Path(place, "tokens.json"))
        ada, eve = token(options.binary, tokens, "acme", "ada"), token(options.binary, tokens, "other", "eve")
        worst = 0.0
        for state in ("just made", "after a restart"):
            server = Server(options.binary, place, tokens)
            try:
                if state == "just made":
                    make(server.host, ada, options.sessions)
                worst = max(worst, lists(server, ada, options.sessions, state))
                worst = max(worst, beside(server, ada, eve, options.rounds, options.seconds))
            finally:
                server.stop()
        print(f"\nthe longest request: {worst * 1e3:.0f} ms; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
        sys.exit(1 if options.judge and worst >= 1 else 0)


if __name__ == "__main__":
    main()
