"""Contests in real measuring processes: crashes, hangs, lies, resuming, and what the table says of it all."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from codedag.backends.registry import Equivalence
from codedag.ir import Alternative, CannotWrite, CostRow, CostTable, Graph, Machine, Op, Pu
from codedag.ir.costs import written_seconds
from codedag.profile.profiler import Profiler
from codedag.profile.sample import Samples
from codedag.profile.store import BadStore, Cell, Store
from codedag.profile.table import Tabulator
from codedag.profile.variants import Variant

PUS = frozenset({"cpu", "torch:cpu"})


def profiler(store, **settings):
    """A profiler that a busy machine does not hurry."""
    return Profiler(store, PUS, budget_seconds=600, cell_seconds=0.05, **{"answer_seconds": 300.0, **settings})


def contest(store, sample, **settings):
    """The contest over one call, measured; and the profiler that did it."""
    measuring = profiler(store, **settings)
    made = measuring.contests([sample])
    measuring.run(made.values())
    return made[sample.key], measuring


def named(made, pu, name=None):
    return next(cell for v, cell in made.cells.items() if v.pu == pu and (name is None or name in v.name))


def test_every_variant_is_measured_in_turn(plugin, keep, numbers):
    made, measuring = contest(Store(), keep("numpy.sort", numbers))
    cells = [made.cells[Variant("cpu")], named(made, "torch:cpu")]
    assert [cell.status for cell in cells] == ["ok", "ok"]
    rounds = [len(cell.batches.seconds) for cell in cells]
    assert rounds[0] == rounds[1] >= 3
    assert cells[0].facts["in_nbytes"] == numbers.nbytes
    assert cells[0].facts["peak_nbytes"] >= numbers.nbytes
    assert measuring.measured >= 2


@pytest.mark.slow
def test_what_is_known_is_not_measured_again(plugin, keep, numbers):
    store = Store()
    sample = keep("numpy.sort", numbers)
    first, _ = contest(store, sample)
    again, measuring = contest(store, sample)
    assert measuring.measured == 0
    assert [c.batches.seconds for c in again.cells.values()] == [c.batches.seconds for c in first.cells.values()]
    _, measuring = contest(store, sample, fresh=True)
    assert measuring.measured > 0


def test_calls_of_equal_shape_share_one_contest(keep, numbers):
    measuring = profiler(Store())
    samples = [
        keep("numpy.sort", numbers),
        keep("numpy.sort", numbers + 1, line=2),
        keep("numpy.sort", numbers[:9], line=3),
    ]
    assert len(measuring.contests(samples)) == 2


def test_a_crash_is_a_failed_cell_and_the_others_go_on(plugin, keep, numbers):
    made, _ = contest(Store(), keep("numpy.cumsum", numbers))
    assert named(made, "torch:cpu").status == "failed"
    assert "SIGSEGV" in named(made, "torch:cpu").reason
    assert made.cells[Variant("cpu")].status == "ok"


@pytest.mark.long
def test_a_hang_is_a_failed_cell(plugin, keep, numbers):
    made, _ = contest(Store(), keep("numpy.cumprod", numbers), answer_seconds=12.0)
    assert named(made, "torch:cpu").status == "failed"
    assert "no answer in 12 seconds" in named(made, "torch:cpu").reason
    assert made.cells[Variant("cpu")].status == "ok"


@pytest.mark.long
def test_a_substitute_that_raises_or_lies_is_a_failed_cell(plugin, keep, numbers):
    store = Store()
    raising, _ = contest(store, keep("numpy.flip", numbers))
    assert "ZeroDivisionError" in named(raising, "torch:cpu", "raise").reason
    lying, _ = contest(store, keep("numpy.square", numbers))
    assert "differs from the original" in named(lying, "cpu", "wrong").reason
    assert named(lying, "cpu", "wrong").status == "failed"


@pytest.mark.long
def test_a_call_that_a_guard_declines_is_unsupported(plugin, keep, numbers):
    made, _ = contest(Store(), keep("numpy.argsort", numbers))
    assert (named(made, "torch:cpu").status, named(made, "torch:cpu").reason) == ("unsupported", "only on Sundays")


def test_a_call_that_changes_the_world_is_not_run_again(keep, numbers, tmp_path):
    target = tmp_path / "precious.npy"
    target.write_text("precious")
    made, _ = contest(Store(), keep("numpy.save", str(target), numbers))
    assert {cell.status for cell in made.cells.values()} == {"unsupported"}
    assert target.read_text() == "precious"


def test_nothing_is_imported_just_because_a_sample_names_it(keep):
    made, _ = contest(Store(), keep("antigravity.geohash", 1.0, 2.0, b"3"))
    assert {cell.reason for cell in made.cells.values()} == {
        "what the functions of antigravity do beside their results is not known"
    }


@pytest.mark.long
def test_what_a_call_writes_is_given_back_before_the_next(keep):
    """Halving in place a few hundred times would end in zeros, which cost another time."""
    made, _ = contest(Store(), keep("operator.imul", np.full(2_000, 3.0), 0.5))
    cell = made.cells[Variant("cpu")]
    assert cell.status == "ok"
    assert cell.facts["writes"]


@pytest.mark.long
def test_reused_buffers_are_measured_where_a_function_takes_them(keep):
    made, _ = contest(Store(), keep("operator.add", np.ones(1 << 20), np.ones(1 << 20)))
    fresh, reused = made.cells[Variant("cpu")], made.cells[Variant("cpu", buffers="reused")]
    assert (fresh.status, reused.status) == ("ok", "ok")
    assert reused.batches.figures().page_faults <= fresh.batches.figures().page_faults


@pytest.mark.long
def test_ctrl_c_ends_the_measuring_and_keeps_what_is_known(plugin, keep, numbers):
    def told(done, at):
        if done > 0:
            raise KeyboardInterrupt

    measuring = profiler(Store())
    contests = measuring.contests([keep("numpy.sort", numbers), keep("numpy.sort", numbers[:99], line=2)])
    measuring.run(contests.values(), told)
    assert measuring.interrupted
    first, second = contests.values()
    assert first.cells[Variant("cpu")].status == "ok"
    assert second.cells[Variant("cpu")].status == "new"


# -- the store


def test_a_killed_profile_loses_at_most_one_batch(plugin, keep, numbers, tmp_path):
    sample = keep("numpy.sort", numbers)
    keep("numpy.sort", numbers[:4_000], line=2)
    code = f"""
        import os, signal
        from pathlib import Path
        from codedag.profile import profiler
        from codedag.profile.sample import read
        from codedag.profile.store import Store
        written = []
        def write(cell, keep=Store.write):
            keep(STORE, cell)
            written.append(len(cell.batches.seconds))
            if sum(written) > 8:
                print(written[-1], flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        STORE = Store()
        STORE.write = write
        made = profiler.Profiler(STORE, frozenset({{"cpu", "torch:cpu"}}), cell_seconds=5)
        made.run(made.contests([read(Path({str(sample.path)!r}))]).values())
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=600)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kept = profiler(Store()).contests([sample])[sample.key]
    rounds = sorted(len(cell.batches.seconds) for cell in kept.cells.values() if cell.status == "partial")
    assert rounds
    assert max(rounds) == int(killed.stdout)
    before = [list(cell.batches.seconds) for cell in kept.cells.values()]
    again, _ = contest(Store(), sample)
    for cell, seconds in zip(again.cells.values(), before, strict=True):
        assert cell.done
        assert cell.batches.seconds[: len(seconds)] == seconds


def test_a_full_disk_is_said_and_what_was_measured_stays(tmp_path):
    store = Store(tmp_path / "costs.sqlite")
    store.write(Cell("a", "f", "", "cpu", "original", "ok"))
    store._base.execute(f"PRAGMA max_page_count={store._base.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(CannotWrite, match=r"full.*kept") as raised:
        store.write(Cell("b", "f" * 200_000, "", "cpu", "original", "ok"))
    assert "goes on from here" in raised.value.hint
    store.close()
    assert Store(tmp_path / "costs.sqlite").read(Cell("a", "f", "", "cpu", "original")).status == "ok"


def test_a_store_that_is_none_is_refused(tmp_path):
    (tmp_path / "costs.sqlite").write_text("hello, this is not a database at all, and long enough to say so" * 20)
    with pytest.raises(BadStore, match="damaged"):
        Store(tmp_path / "costs.sqlite")
    base = sqlite3.connect(tmp_path / "new.sqlite")
    base.execute("PRAGMA user_version=7")
    base.close()
    with pytest.raises(BadStore, match="another version"):
        Store(tmp_path / "new.sqlite")


# -- the table


def op(number, name, **fields):
    place = {"file": "/x/train.py", "line": 1, "context": name, "col": 0}
    facts = {"count": 10, "self_seconds": 0.5, "total_seconds": 0.5, "out_nbytes": 800, **place, **fields}
    return Op(id=number, name=name, kind="call", **facts)


def tabulated(spool, ops, samples, **settings):
    machine = Machine(
        pus=[Pu(name="cpu", memory_nbytes=1, launch_seconds=0.0, flop_per_second=1e10, stream_bytes_per_second=1e10)]
    )
    measuring = profiler(Store())
    contests = measuring.contests(samples)
    measuring.run(contests.values())
    found = Samples(spool.folder.parent)
    return Tabulator(Graph.build(ops), found, contests, machine, PUS, **settings).table()


def test_the_table_says_what_is_known_of_each_operation(plugin, spool, keep, numbers):
    samples = [keep("numpy.sort", numbers), keep("numpy.flip", numbers, line=2)]
    ops = [op(0, "numpy.sort"), op(1, "numpy.flip", line=2), op(2, "numpy.sort", line=3), op(3, "torch.load", line=4)]
    table = tabulated(spool, ops, samples)
    measured = table.row(0, "cpu")
    assert (measured.status, measured.source, measured.traced_seconds) == ("ok", "measured", 0.5)
    assert measured.seconds == pytest.approx(10 * measured.per_call.median_seconds)
    assert measured.low <= measured.seconds <= measured.high
    assert measured.roofline.bound_by in ("compute", "memory", "overhead")
    assert table.row(0, "torch:cpu").variant == "numpy.sort -> good"
    failed = table.row(1, "torch:cpu")
    assert (failed.status, failed.seconds) == ("failed", None)
    assert "ZeroDivisionError" in failed.reason
    missing = table.row(2, "torch:cpu")
    assert (missing.status, "no inputs were kept" in missing.reason) == ("unsupported", True)
    assert (table.row(2, "cpu").source, table.row(2, "cpu").seconds) == ("traced", 0.5)
    assert table.row(3, "torch:cpu") is None
    assert json.loads(json.dumps(table.pus)) == ["cpu", "torch:cpu"]


def test_the_program_as_written_is_the_sum_of_its_originals():
    original = Alternative(variant="original", status="ok", seconds=5.0)
    rows = [
        CostRow(op=0, pu="cpu", variant="original", status="ok", seconds=1.0),
        CostRow(op=1, pu="cpu", variant="f -> g", status="ok", seconds=2.0, alternatives=[original]),
        CostRow(op=1, pu="torch:cpu", variant="f -> h", status="ok", seconds=0.5),
    ]
    assert written_seconds(CostTable(pus=["cpu", "torch:cpu"], rows=rows)) == 6.0


@pytest.mark.long
def test_results_that_are_only_near_are_used_when_allowed(plugin, spool, keep, numbers):
    sample = keep("numpy.sinh", numbers)
    strict = tabulated(spool, [op(0, "numpy.sinh")], [sample])
    refused = strict.row(0, "torch:cpu")
    assert (refused.status, "--allow" in refused.reason) == ("unsupported", True)
    assert [each.status for each in refused.alternatives] == ["ok"]
    lenient = tabulated(spool, [op(0, "numpy.sinh")], [sample], allowed=(Equivalence.EXACT, Equivalence.ULP))
    assert (lenient.row(0, "torch:cpu").status, lenient.row(0, "torch:cpu").equivalence) == ("ok", "ulp")


@pytest.mark.long
def test_many_shapes_of_one_call_are_predicted_for_their_mean(plugin, spool, keep, numbers):
    sizes = {size: f"float64[{size}]" for size in (1_000, 2_000, 4_000)}
    samples = [keep("numpy.sort", numbers[:size], in_sig=sig) for size, sig in sizes.items()]
    samples.append(keep("numpy.sort", numbers[:1_500], in_sig="float64[*]"))
    whole = op(0, "numpy.sort", in_sig="float64[*]", out_nbytes=10 * 8 * 3_000)
    row = tabulated(spool, [whole], samples).row(0, "cpu")
    assert row.source == "predicted"
    assert row.low < row.seconds < row.high
    far = op(0, "numpy.sort", in_sig="float64[*]", out_nbytes=10 * 8 * 90_000)
    row = tabulated(spool, [far], samples).row(0, "cpu")
    assert (row.source, "too far" in row.reason) == ("measured", True)
