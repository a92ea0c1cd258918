"""Speaks with one process of Claude Code as a person at a terminal does: talk.py PROGRAM [ARGUMENT…]

Reads prompts from standard input, a line each, and sends the next once the one before was answered.
Prints the session of each answer. It must not say anything of its own.
"""

import json
import subprocess
import sys

FORMAT = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
program = subprocess.Popen(
    [*sys.argv[1:], *FORMAT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
)
for prompt in sys.stdin.read().splitlines():
    message = {"role": "user", "content": prompt}
    program.stdin.write(json.dumps({"type": "user", "message": message}) + "\n")
    program.stdin.flush()
    for line in program.stdout:
        said = json.loads(line)
        if said.get("type") == "result":
            print(said["session_id"], flush=True)
            break
program.stdin.close()
sys.exit(program.wait())
