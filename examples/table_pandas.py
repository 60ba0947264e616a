"""A tabular competition: features from transactions with pandas, month after month, and a linear model.

Makes its own table (the file is reused), prints scores.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import time

import numpy as np
import pandas as pd


def make_table(path, rows):
    if os.path.exists(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rng = np.random.default_rng(23)
    amount = rng.gamma(2, 30, rows).round(2)
    table = pd.DataFrame(
        {
            "customer": rng.integers(0, max(1, rows // 20), rows),
            "day": rng.integers(0, 365, rows),
            "amount": np.where(rng.random(rows) < 0.05, np.nan, amount),
            "quantity": rng.integers(1, 10, rows),
            "shop": rng.choice([f"shop_{i:02d}" for i in range(24)], rows),
            "channel": rng.choice(["web", "app", "store", "phone"], rows, p=[0.4, 0.3, 0.25, 0.05]),
            "target": (amount > 60).astype(int),
        }
    )
    table.to_csv(path, index=False)


def season(row):
    if row["day"] < 80 or row["day"] >= 355:
        return 0.0
    return 1.0 if row["day"] < 172 else 2.0


def features(table):
    table = table.sort_values(["customer", "day"]).reset_index(drop=True)
    table["amount"] = table["amount"].fillna(table["amount"].median())
    table["price"] = table["amount"] / table["quantity"]
    table["log_amount"] = np.log1p(table["amount"])
    table["weekday"] = table["day"] % 7
    table["season"] = table.apply(season, axis=1)
    grouped = table.groupby("customer")["amount"]
    table["mean_amount"] = grouped.transform("mean")
    table["last_amount"] = grouped.shift(1).fillna(0.0)
    table["share"] = table["amount"] / table["mean_amount"]
    table["shop_code"] = table["shop"].map({name: i for i, name in enumerate(sorted(table["shop"].unique()))})
    channels = pd.get_dummies(table["channel"], prefix="channel", dtype=float)
    table = pd.concat([table.drop(columns=["shop", "channel"]), channels], axis=1)
    return table.to_numpy(dtype=np.float64)


def fit(x, y, steps):
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        guess = 1.0 / (1.0 + np.exp(-(x * weights).sum(axis=1)))
        weights -= 0.5 * (x * (guess - y)[:, None]).mean(axis=0)
    return ((guess > 0.5) == y).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-table"))
    parser.add_argument("--count", type=int, default=20000, help="rows")
    parser.add_argument("--epochs", type=int, default=6, help="months")
    parser.add_argument("--threads", type=int, default=0, help="for the other examples' sake; pandas has none to cap")
    parser.add_argument("--digest", help="write a digest of every month's features to this file")
    args = parser.parse_args()

    path = os.path.join(args.data, f"transactions_{args.count}.csv")
    make_table(path, args.count)
    digests = []
    for month in range(args.epochs):
        started = time.perf_counter()
        table = pd.read_csv(path)
        table["day"] = (table["day"] + 30 * month) % 365
        y = table.sort_values(["customer", "day"])["target"].to_numpy()
        x = features(table.drop(columns=["target"]))
        score = fit(x, y, 5)
        seconds = time.perf_counter() - started
        print(f"epoch {month}: accuracy {score:.6f}, {len(x) / seconds:.1f} items/s", flush=True)
        if args.digest:
            digests.append(hashlib.sha256(x.tobytes() + y.tobytes()).hexdigest())
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
