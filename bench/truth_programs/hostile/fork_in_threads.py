"""Threads that fork children which work and end with os._exit, while the main thread is hot."""

import os
import threading


def work(seed):
    state, total = seed + 1, 0
    for _ in range(100_000):
        state = (state * 1103515245 + 12345) % 2147483648
        total ^= state >> 7
    return total


def forked(seed, found):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, repr(work(seed)).encode())
        os._exit(seed)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    _, status = os.waitpid(child, 0)
    found[seed] = text, os.waitstatus_to_exitcode(status)


found, total = {}, 0
for turn in range(24):
    threads = [threading.Thread(target=forked, args=(turn * 3 + k, found)) for k in range(3)]
    for each in threads:
        each.start()
    total += work(100 + turn) + work(200 + turn)
    for each in threads:
        each.join()
print(sorted(found.items()), repr(total))
