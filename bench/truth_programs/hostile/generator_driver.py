"""A generator is the driver: values are sent into it, exceptions thrown, and it is closed."""

import numpy as np


def machine():
    total, count = 0.0, 0
    try:
        while True:
            try:
                x = yield total
            except KeyError as error:
                total, x = -1.0, None
                count += len(str(error))
            if x is not None:
                total += float(np.clip(x, 0.2, 0.8).sum())
                count += 1
    finally:
        print("closed", count)


driver = machine()
next(driver)
found = []
for k in range(240_000):
    found.append(driver.send(np.random.default_rng(k).random(30)))
    if k % 36_000 == 35_999:
        found.append(driver.throw(KeyError("reset")))
driver.close()
print(len(found), repr(sum(found)))
