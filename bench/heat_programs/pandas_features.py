"""Feature generation with pandas: many short calls into a deep library."""

import sys
import time

import numpy as np
import pandas as pd


def features_of(group):
    values = group["value"]
    rolled = values.rolling(5).mean()
    return {
        "mean": values.mean(), "deviation": values.std(), "rolled": rolled.max(),
        "rank": values.rank().iloc[-1], "unique": values.round(1).nunique(), "text": group["name"].str.upper().iloc[0],
    }  # fmt: skip


def generate(table):
    return pd.DataFrame([features_of(group) for _, group in table.groupby("key")])


def main(seconds):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({
        "key": rng.integers(0, 40, 4000), "value": rng.normal(size=4000), "name": rng.choice(["a", "b", "c"], 4000),
    })  # fmt: skip
    until = time.process_time() + seconds
    while time.process_time() < until:
        merged = generate(table).merge(table.head(40), left_index=True, right_index=True)
        merged.sort_values("mean")


if __name__ == "__main__":
    main(float(sys.argv[1]))
