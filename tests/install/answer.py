#!/usr/bin/env python3
"""Runs a command on a terminal of its own and answers what it asks for: answer.py ANSWER... -- COMMAND...

Each answer goes out at the next prompt, a colon and a space at the end of what was printed."""
import os
import pty
import select
import sys

split = sys.argv.index("--")
answers, command = sys.argv[1:split], sys.argv[split + 1:]
child, terminal = pty.fork()
if child == 0:
    os.execvp(command[0], command)
pending = b""
while True:
    ready, _, _ = select.select([terminal], [], [], 60)
    if not ready:
        sys.exit(f"nothing more is said after: {pending!r}")
    try:
        said = os.read(terminal, 4096)
    except OSError:
        said = b""
    if not said:
        break
    os.write(1, said)
    pending += said
    if answers and pending.endswith(b": "):
        pending = b""
        os.write(terminal, answers.pop(0).encode() + b"\n")
_, status = os.waitpid(child, 0)
if answers:
    sys.exit(f"{len(answers)} answers were not asked for")
sys.exit(os.waitstatus_to_exitcode(status))
