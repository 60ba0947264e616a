"""Coroutines that pass messages through queues; short waits, and some work on each message."""

import asyncio
import hashlib
import json
import sys


def encode(number):
    words = [str((number * 7919 + k * 104729) % 10007) for k in range(120)]
    return json.dumps({"id": number, "words": words, "longest": max(words, key=len)}, sort_keys=True)


async def produce(queue, count):
    for number in range(count):
        await queue.put(encode(number))
        if number % 400 == 0:
            await asyncio.sleep(0.001)
    await queue.put(None)


async def consume(queue, digest):
    while (text := await queue.get()) is not None:
        message = json.loads(text)
        digest.update(f"{message['id']} {sum(map(int, message['words']))}".encode())


async def main():
    queue, digest = asyncio.Queue(16), hashlib.sha256()
    await asyncio.gather(produce(queue, 100 * int(sys.argv[1])), consume(queue, digest))
    print("messages", digest.hexdigest())


asyncio.run(main())
