"""Coroutines and an async generator drive the work; a task is cancelled and one raises."""

import asyncio

import numpy as np


async def numbers(count):
    for k in range(count):
        if k % 100 == 0:
            await asyncio.sleep(0)
        yield np.random.default_rng(k).random(500)


async def consume(count, scale):
    total = 0.0
    async for each in numbers(count):
        total += float((each * scale).std())
    return total


async def endless():
    try:
        while True:
            await asyncio.sleep(0.001)
    except asyncio.CancelledError:
        print("cancelled")
        raise


async def fails():
    await consume(50, 1.0)
    raise ValueError("from a task")


async def main():
    task = asyncio.create_task(endless())
    found = await asyncio.gather(consume(60_000, 2.0), consume(45_000, 3.0), fails(), return_exceptions=True)
    task.cancel()
    print([repr(each) for each in found])


asyncio.run(main())
