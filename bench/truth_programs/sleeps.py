"""A program that mostly waits: it polls, does a little work, and sleeps again."""

import hashlib
import json
import sys
import time


def poll(turn):
    time.sleep(0.02)
    return json.dumps({"turn": turn, "rows": [[turn * k % 97, k] for k in range(300)]})


digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    rows = json.loads(poll(turn))["rows"]
    digest.update(repr(sorted(rows)[:5]).encode())
print("polls", digest.hexdigest())
