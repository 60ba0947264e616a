"""Series of time by pandas: gaps filled, windows, days, a pivot."""

import numpy as np
import pandas as pd

DRAW = np.random.default_rng(0)
TIMES = pd.date_range("2024-01-01", periods=20_000, freq="15min")
LEVELS = pd.DataFrame({"level": DRAW.random(20_000), "flow": DRAW.random(20_000)}, index=TIMES)
LEVELS.iloc[::17, 0] = np.nan


def prepared():
    filled = LEVELS.interpolate(limit_direction="both")
    smooth = filled.rolling(96, min_periods=1).mean()
    days = smooth.resample("1D").agg(["mean", "max"])
    hours = pd.pivot_table(filled.assign(hour=TIMES.hour, day=TIMES.day_of_week), "flow", "hour", "day")
    return days["level"]["mean"].iloc[3] + hours.to_numpy()[2, 2]


def main():
    return sum(float(prepared()) for _ in range(20))


if __name__ == "__main__":
    main()
