"""A table of pandas: columns made of others, groups, a join."""

import numpy as np
import pandas as pd

DRAW = np.random.default_rng(0)
SALES = pd.DataFrame(
    {"shop": DRAW.integers(0, 50, 60_000), "price": DRAW.random(60_000), "count": DRAW.integers(1, 9, 60_000)}
)
SHOPS = pd.DataFrame({"shop": np.arange(50), "region": np.arange(50) % 5})


def prepared():
    sales = SALES.copy()
    sales["total"] = sales["price"] * sales["count"]
    by_shop = sales.groupby("shop")["total"].sum().reset_index()
    joined = by_shop.merge(SHOPS, on="shop")
    return joined.sort_values("total").groupby("region")["total"].mean()


def main():
    return sum(float(prepared().iloc[0]) for _ in range(20))


if __name__ == "__main__":
    main()
