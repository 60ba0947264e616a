"""Prints how often the judge is wrong, on simulated programs with noise, drifts, foreign load, periods and growth.

python bench/judge.py [--programs 200] [--seconds 60] [-o RESULTS.json]

A/A: changes that do nothing; any verdict of faster or slower is false.  `costs` and `gains`: changes of known effect.
Coverage: how often the true ratio lies in the claimed interval.  All times are simulated, so figures repeat exactly.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from judge_programs import SHAPES, Outcome, Program, simulate

from codedag.autopilot.judge.change import State
from codedag.autopilot.judge.judge import Decision
from codedag.ir.verdict import Code


def programs(count: int) -> list[Program]:
    return [Program(SHAPES[seed % len(SHAPES)], seed) for seed in range(count)]


def no_effect(count: int, seconds: float) -> dict[str, Any]:
    wrong: dict[str, int] = dict.fromkeys(SHAPES, 0)
    claims = held = 0
    for program in programs(count):
        outcome = simulate(program, {1: 1.0}, seconds, net=1.0)  # its account says that it gains
        wrong[program.shape] += any(
            outcome.decided(Decision.SLOWER) or outcome.decided(Decision.RETRY) or _says_faster(outcome)
        )
        if (gain := outcome.judge.gain) is not None:
            claims, held = claims + 1, held + (gain.low <= 1 <= gain.high)
    return {"false": sum(wrong.values()) / count, "by_shape": wrong, "claims": claims, "covered": held / max(claims, 1)}


def _says_faster(outcome: Outcome) -> list[float]:
    log = [entry for change in outcome.judge.changes.values() for entry in change.log]
    return [at for at, _, reason in log if reason is not None and reason.code is Code.FASTER]


def with_effect(count: int, factor: float, seconds: float) -> dict[str, Any]:
    """Changes that multiply the time of a turn by this factor: when turns decided, and what was claimed.

    Their accounts say that they gain; `gone_without_account`: taken back where the account says nothing.
    """
    truth, errors, held, decided = 1 / factor, [], 0, []
    gone = 0  # with an account that shows no gain
    by_shape: dict[str, list[float]] = {shape: [] for shape in SHAPES}
    missed: dict[str, int] = dict.fromkeys(SHAPES, 0)
    for program in programs(count):
        outcome = simulate(program, {1: factor}, seconds, net=1.0)
        slower = [*outcome.decided(Decision.SLOWER), *outcome.decided(Decision.RETRY)]
        at = slower if factor > 1 else _says_faster(outcome)
        if factor > 1:
            again = simulate(Program(program.shape, program.seed), {1: factor}, seconds)
            gone += again.judge.changes[1].state is State.TAKEN_BACK
        decided += [min(at)] if at else []
        by_shape[program.shape] += [min(at)] if at else []
        if (gain := outcome.judge.gain) is not None:
            errors.append(abs(gain.middle / truth - 1))
            held += gain.low <= truth <= gain.high
            missed[program.shape] += not gain.low <= truth <= gain.high
    return {
        "factor": factor, "decided": len(decided) / count,
        **({"gone_without_account": gone / count} if factor > 1 else {}),
        "decided_by_shape": {shape: len(at) for shape, at in by_shape.items()},
        "median_seconds": statistics.median(decided) if decided else None,
        "claims": len(errors), "missed_by_shape": missed, "covered": held / max(len(errors), 1),
        "mean_error": statistics.fmean(errors) if errors else None,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    results: dict[str, Any] = {"programs": options.programs, "seconds": options.seconds}
    results["no_effect"] = no_effect(options.programs, options.seconds)
    print("A/A", results["no_effect"])
    results["effects"] = []
    for factor in (1.8, 1.1, 1.03, 0.97, 0.95, 0.8, 0.5):
        results["effects"].append(with_effect(options.programs, factor, options.seconds))
        print(results["effects"][-1])
    if options.output:
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
