"""Plans: what a block costs, ties, splits, memory, deadlines, fronts and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
import stage_tables
from stage_tables import FakePu

from codedag.ir import CannotPlan, Machine, Pu
from codedag.stages.planning.divisible import PARTS, share_of
from codedag.stages.planning.item_line import passage
from codedag.stages.planning.peps import THROUGHPUT, Goal, plans
from codedag.stages.planning.prices import Prices
from codedag.stages.planning.splits import Splits, balanced, divided
from codedag.stages.planning.tables import Tables

SIZE = {"nodes": 10, "edges": 20}


def row(compute, transfer=0.0, **more):
    total = compute + transfer
    return {"compute_time_ms": compute, "transfer_time_ms": transfer, "total_time_ms": total, "std_ms": 0.0, **more}


def tables(folder, cells, blocks=None):
    """Cells by (pu, stage): compute, transfer; one size."""
    rows = {f"10,20,{pu},{stage}": row(*times) for (pu, stage), times in cells.items()}
    more = {f"10,20,{pu},{name}": row(*times) for (pu, name), times in (blocks or {}).items()}
    return Tables.load(stage_tables.write(folder, rows, more))


def machine(**pus):
    return Machine(
        pus=[
            Pu(name=name, launch_seconds=0.0, memory_nbytes=nbytes, resource=where)
            for name, (nbytes, where) in pus.items()
        ]
    )


def shown(pep):
    return [(block.name, *block.pus) for block in pep.blocks]


def test_the_first_block_pays_and_the_second_on_the_same_pu_does_not(tmp_path):
    found = plans(tables(tmp_path, {("A", 1): (4, 1), ("A", 2): (5, 2)}, {("A", "1-2"): (30, 1)}), SIZE)
    assert shown(found.chosen) == [("1", "A"), ("2", "A")]
    assert found.chosen.entries == pytest.approx((0.001, 0.0))
    assert found.seconds[0] == pytest.approx(0.010)
    assert found.baseline_seconds == pytest.approx(0.031), "a measured block is never the sum of its stages"


def test_a_measured_block_is_taken_where_it_is_faster(tmp_path):
    found = plans(tables(tmp_path, {("A", 1): (4, 1), ("A", 2): (5, 2)}, {("A", "1-2"): (6, 1)}), SIZE)
    assert shown(found.chosen) == [("1-2", "A")]
    assert found.seconds[0] == pytest.approx(0.007)


def test_one_best_runtime_wins_ties(tmp_path):
    cells = {("A", 1): (1, 0), ("A", 2): (2, 0), ("B", 1): (1, 0), ("B", 2): (2, 0)}
    found = plans(tables(tmp_path, cells), SIZE)
    assert found.chosen.is_whole
    assert found.runner_up is not None
    for goal in (Goal(), Goal(THROUGHPUT, 1)):
        assert plans(tables(tmp_path, cells), SIZE, goal).chosen.is_whole


def test_one_best_runtime_wins_where_intervals_show_no_gain(tmp_path):
    cells = {("A", 1): 10.0, ("A", 2): 10.0, ("B", 2): 7.0}
    for high, noise in ((7.5, False), (9.5, True), (30.0, True)):
        rows = {
            f"10,20,{pu},{stage}": row(time, low_ms=time, high_ms=high if pu == "B" else time)
            for (pu, stage), time in cells.items()
        }
        from_files = Tables.load(stage_tables.write(tmp_path, rows))
        assert plans(from_files, SIZE).exact, "tables alone: the least seconds count"
        found = plans(replace(from_files, machine=Machine(pus=[], links=[])), SIZE)
        assert shown(found.chosen) == ([("1-2", "A")] if noise else [("1", "A"), ("2", "B")])
        assert (found.is_within_noise, found.exact) == (noise, not noise)
        assert not noise or shown(found.runner_up[0]) == [("1", "A"), ("2", "B")]


def test_a_stage_that_a_pu_lacks_is_done_elsewhere(tmp_path):
    cells = {("A", 1): (1, 0), ("A", 3): (1, 0), ("B", 1): (9, 1), ("B", 2): (2, 1), ("B", 3): (9, 1)}
    found = plans(tables(tmp_path, cells), SIZE)
    assert shown(found.chosen) == [("1", "A"), ("2", "B"), ("3", "A")]
    assert found.seconds[0] == pytest.approx(0.005)
    assert found.baseline.pus == ("B",)


def test_a_stage_that_no_pu_can_do_is_named(tmp_path):
    with pytest.raises(CannotPlan, match="stage 2"):
        plans(tables(tmp_path, {("A", 1): (1, 0), ("A", 3): (1, 0)}), SIZE)
    found = plans(tables(tmp_path, {("A", 1): (1, 0), ("A", 3): (1, 0)}, {("A", "2-3"): (4, 0)}), SIZE)
    assert shown(found.chosen) == [("1", "A"), ("2-3", "A")], "a block can do what no stage alone could"


def test_a_size_too_far_away_is_refused_with_its_reason(tmp_path):
    found = Tables.load(stage_tables.write(tmp_path, stage_tables.lookup()))
    with pytest.raises(CannotPlan, match="beyond 2x"):
        plans(found, {"nodes": 1000, "edges": 1_000_000})
    assert plans(found, {"nodes": 4000, "edges": 6000}).seconds[0] > 0


def test_pus_without_room_are_left_out(tmp_path):
    rows = {"10,20,A,1": row(1, peak_nbytes=100), "10,20,B,1": row(5, peak_nbytes=100)}
    found = Tables.load(stage_tables.write(tmp_path, rows))
    assert shown(plans(found, SIZE, machine=machine(A=(100, None), B=(100, None))).chosen) == [("1", "A")]
    assert shown(plans(found, SIZE, machine=machine(A=(99, None), B=(100, None))).chosen) == [("1", "B")]
    with pytest.raises(CannotPlan, match="needs 100 bytes"):
        plans(found, SIZE, machine=machine(A=(99, None), B=(10, None)))


def test_pus_on_the_same_cores_take_turns(tmp_path):
    cells = {("A", 1): (3, 0), ("A", 2): (9, 0), ("B", 1): (9, 0), ("B", 2): (3, 0)}
    found = tables(tmp_path, cells)
    apart = plans(found, SIZE, Goal(THROUGHPUT, 10), machine=machine(A=(1, None), B=(1, None)))
    assert apart.seconds[0] == pytest.approx(0.006 + 9 * 0.003)
    shared = plans(found, SIZE, Goal(THROUGHPUT, 10), machine=machine(A=(1, "host"), B=(1, "host")))
    assert shared.seconds[0] == pytest.approx(10 * 0.006)
    assert shared.exact


def test_a_full_queue_holds_a_block_up_but_not_its_turn():
    alone = passage([1.0, 3.0], [frozenset("a"), frozenset("b")], 5, 1)
    assert alone.seconds == pytest.approx(16.0)
    turns = passage([1.0, 3.0], [frozenset("a"), frozenset("a")], 5, 1)
    assert turns.seconds == pytest.approx(20.0)
    assert alone.slowest_item > 4.0, "items wait in the queue"


def test_a_deadline_is_judged_and_limits_pipelines(tmp_path):
    cells = {("A", 1): (3, 0), ("A", 2): (9, 0), ("B", 1): (9, 0), ("B", 2): (3, 0)}
    found = tables(tmp_path, cells)
    assert plans(found, SIZE, Goal(deadline_seconds=0.006)).meets_deadline
    assert not plans(found, SIZE, Goal(deadline_seconds=0.0059)).meets_deadline
    assert not plans(found, SIZE, Goal(THROUGHPUT, 8, 2, 0.001)).meets_deadline
    assert plans(found, SIZE, Goal(THROUGHPUT, 8, 2, 0.1)).meets_deadline


def test_the_front_has_no_plan_that_another_beats(tmp_path):
    rows = {}
    for pu, speed, nbytes in (("A", 1.0, 900), ("B", 2.0, 10), ("C", 1.5, 200)):
        for stage in (1, 2, 3):
            rows[f"10,20,{pu},{stage}"] = row(speed * stage, 0.5, peak_nbytes=nbytes)
    found = plans(Tables.load(stage_tables.write(tmp_path, rows)), SIZE, front=True)
    merits = [(pep.seconds, pep.nbytes) for pep in found.front]
    assert len(merits) == len(set(merits)) > 1
    assert min(one[0] for one in merits) == pytest.approx(found.seconds[0])
    assert min(one[1] for one in merits) == 10


# -- splits


def equal_pus(count):
    return [FakePu(f"P{at}", 7, 0.0, 1.0) for at in range(count)]


def test_two_equal_pus_share_a_block_evenly(tmp_path):
    found = Tables.load(stage_tables.write(tmp_path, stage_tables.lookup(equal_pus(2))))
    best = plans(found, {"nodes": 4000, "edges": 8000}, pus=("P0", "P1"))
    block = best.chosen.blocks[0]
    assert block.is_split
    assert block.ratios == pytest.approx((0.5, 0.5), abs=0.02)
    assert sum(block.ratios) == pytest.approx(1.0)
    assert max(block.shares) / min(block.shares) < 1.05, "shares end together"
    assert best.seconds[0] < 0.75 * best.baseline_seconds


def test_blocks_whose_rows_depend_on_each_other_are_never_planned_split(tmp_path):
    pytest.importorskip("torch")
    from codedag.stages.torch_models.sage import sage7

    found = replace(Tables.load(stage_tables.write(tmp_path, stage_tables.lookup(equal_pus(2)))), model=sage7())
    sizes = {"nodes": 4000, "edges": 8000}
    splits = list(Splits(Prices(found, sizes)).all())
    assert {block.name for block in splits} <= {"1", "2", "1-2", "5", "6", "7", "5-6", "6-7", "5-7", "1-7"}
    by_edges = next(block for block in splits if block.name == "2")
    assert by_edges.shares[0] == pytest.approx(found.seconds(pu="P0", stage=2, nodes=4000, edges=4000), rel=0.05)
    assert share_of(sizes, 0.5, "edges") == {"nodes": 4000, "edges": 4000}
    in_parts = share_of(sizes, 0.5, PARTS)
    assert in_parts["edges"] == 4000
    assert 2000 < in_parts["nodes"] < 4000, "a part computes its halo too"


def test_pus_on_the_same_cores_share_no_block(tmp_path):
    found = Tables.load(stage_tables.write(tmp_path, stage_tables.lookup(equal_pus(2))))
    same = machine(P0=(1 << 40, "host"), P1=(1 << 40, "host"))
    assert not any(block.is_split for block in plans(found, {"nodes": 4000, "edges": 8000}, machine=same).chosen.blocks)


def test_without_figures_for_shares_nothing_is_split(tmp_path):
    one_size = stage_tables.lookup(equal_pus(2), sizes=[(4000, 8000)])
    found = Tables.load(stage_tables.write(tmp_path, one_size))
    assert plans(found, {"nodes": 4000, "edges": 8000}).chosen.is_whole


def test_a_slower_pu_gets_the_smaller_share(tmp_path):
    pus = [FakePu("fast", 7, 0.0, 3.0), FakePu("slow", 7, 0.0, 1.0)]
    found = Tables.load(stage_tables.write(tmp_path, stage_tables.lookup(pus)))
    block = plans(found, {"nodes": 8000, "edges": 9000}).chosen.blocks[0]
    shares = dict(zip(block.pus, block.ratios, strict=True))
    assert 0.6 < shares["fast"] < 0.8
    assert max(block.shares) / min(block.shares) < 1.1


def test_shares_add_up_to_whole_sizes():
    made = divided({"nodes": 10, "edges": 7}, [0.31, 0.33, 0.36])
    assert [sum(one[name] for one in made) for name in ("nodes", "edges")] == [10, 7]


def test_no_ratios_where_a_share_has_no_figure():
    import numpy as np

    nothing = np.full(63, np.inf)
    nothing[40:] = np.linspace(1, 2, 23)
    assert balanced([nothing, nothing]) is None, "each needs more than half"


def test_prices_say_why_a_pu_cannot(tmp_path):
    prices = Prices(tables(tmp_path, {("A", 1): (1, 0), ("A", 2): (1, 0), ("B", 1): (1, 0)}), SIZE)
    assert "no row for stage 2" in prices.refusals["B", "2"]
