"""A plan in force: what is replaced, what is declined and why, how it is verified, and that it is undone."""

from __future__ import annotations

import json
import sys
import threading

import numpy as np
import pytest
from toys import NAME, plan

import codedag
from codedag.api.migrator import PatchInjector, PipelineMigrator, UniversalWrapper, create_custom_migrator
from codedag.ir import BadFile, CodedagError, Move, Placement, Plan
from codedag.ir.verdict import No, Yes
from codedag.migrate.patches import proxies
from codedag.migrate.placement.modes import BadMode, Different, Mode
from codedag.migrate.placement.requests import BadPlan, requests_of
from codedag.migrate.trial import made

DOUBLE = f"{NAME}.double"


def calls(toys, count, value=1.5):
    return [toys.double(value) for _ in range(count)]


def test_apply_counts_and_restore_gives_the_original_back(toys):
    toys.register()
    original = toys.double
    held = [original]
    migrator = PipelineMigrator.from_plan(plan())
    assert migrator.apply() == {"patched": 1, "failed": 0, "skipped": 0}
    assert migrator.apply() == {"patched": 0, "failed": 0, "skipped": 0}
    assert migrator.is_applied()
    assert toys.double is not original
    assert held[0] is toys.double
    assert calls(toys, 60) == [3.0] * 60
    stats = migrator.get_stats()[DOUBLE]
    assert (stats["calls"], stats["mismatches"], stats["gain"], stats["active"]) == (60, 0, 2.0, True)
    assert stats["fast"] > 30
    assert stats["fast"] + stats["checked"] + sum(stats["declined"].values()) == 60
    assert migrator.restore() == 1
    assert migrator.restore() == 0
    assert (toys.double, held[0]) == (original, original)
    assert toys.double is original
    assert held[0] is original
    assert not migrator.is_applied()
    assert migrator.get_stats()[DOUBLE] == stats


def test_a_block_restores_also_if_it_was_applied_before_and_if_it_fails(toys):
    toys.register()
    original = toys.double
    migrator = codedag.apply(plan())
    assert proxies.is_proxy(toys.double)
    with pytest.raises(ZeroDivisionError), migrator:
        1 / 0
    assert toys.double is original


def test_a_slower_one_is_demoted_before_fifty_calls(toys):
    toys.register(seconds=2.5)
    with codedag.apply(plan()) as migrator:
        calls(toys, 50)
        toys.ran.clear()
        calls(toys, 20)
        stats = migrator.get_stats()[DOUBLE]
    assert toys.ran == ["original"] * 20
    assert (stats["active"], stats["gain"]) == (False, 0.8)
    assert stats["reason"].startswith("not faster here: 0.80x over")
    assert sum(stats["declined"].values()) + stats["checked"] == 70


def test_a_slower_one_can_be_kept_for_tests(toys):
    toys.register(seconds=2.5)
    with codedag.apply(plan(), demote=False) as migrator:
        calls(toys, 50)
        stats = migrator.get_stats()[DOUBLE]
    assert (stats["active"], stats["declined"]) == (True, {})
    assert stats["fast"] > 35


def test_one_that_becomes_slow_is_demoted(toys):
    costs = iter([1.0] * 300 + [9.0] * 10_000)
    toys.register(seconds=0.0, run=lambda x: (setattr(toys.clock, "now", toys.clock.now + next(costs)), x + x)[1])
    with codedag.apply(plan()) as migrator:
        calls(toys, 3000)
        stats = migrator.get_stats()[DOUBLE]
    assert not stats["active"]
    assert stats["fast"] < 1500


def test_calls_that_make_what_later_ones_copy_do_not_end_it(toys):
    from codedag.backends.remembered import Remembered

    kept = Remembered()

    def run(x):
        before = made()
        kept.shared(x, lambda: np.ones(3))
        toys.clock.now += 5.0 if made() > before else 0.5
        return x + x

    toys.register(seconds=0.0, run=run)
    with codedag.apply(plan()) as migrator:
        for number in (*range(12), *range(12), *range(12)):
            assert toys.double(number) == 2 * number
        stats = migrator.get_stats()[DOUBLE]
    assert stats["active"]
    assert stats["gain"] == 4.0


def test_each_class_of_calls_has_its_own_verdict(toys):
    import numpy

    small, large = numpy.ones(4), numpy.ones(4000)

    def run(x):
        toys.clock.now += 5.0 if numpy.size(x) < 100 else 0.5
        return x + x

    toys.register(seconds=0.0, run=run)
    with codedag.apply(plan()) as migrator:
        for _ in range(50):
            assert (toys.double(small) == 2).all()
            assert (toys.double(large) == 2).all()
        toys.ran.clear()
        toys.double(small)
        assert toys.ran == ["original"]
        toys.ran.clear()
        toys.double(large)
        assert toys.ran == ["toy"]
        assert migrator.get_stats()[DOUBLE]["active"]
        assert migrator.get_stats()[DOUBLE]["declined"]["it is not faster for calls of this size"] > 30


def test_many_classes_of_calls_that_are_all_slower_end_it(toys):
    import numpy

    toys.register(seconds=3.0)
    with codedag.apply(plan()) as migrator:
        for power in range(20):
            for dtype in (numpy.uint8, numpy.float32, numpy.float64):
                toys.double(numpy.ones(2**power, dtype)[:0].reshape(0, *(1,) * power))
        assert not migrator.get_stats()[DOUBLE]["active"]


def test_the_faster_of_two_substitutes_serves(toys):
    toys.register("slow", 1.5)
    toys.register("quick", 0.5)
    with codedag.apply(plan()) as migrator:
        calls(toys, 400)
        assert migrator.get_stats()[DOUBLE]["gain"] == 4.0
    assert toys.ran[-40:].count("quick") > 35


def test_a_plan_can_name_the_variant(toys):
    toys.register("slow", 1.5)
    toys.register("quick", 0.5)
    with codedag.apply({**plan(), "variants": {DOUBLE: "slow"}}):
        calls(toys, 40)
    assert "quick" not in toys.ran
    assert "slow" in toys.ran


# ---- verification ----


def wrong_after(count, value=7.0):
    seen = iter(range(10**9))
    return lambda x: x + x if next(seen) < count else value


def proven(toys, run, **options):
    """A substitute that has passed its proof before it goes wrong."""
    now = [lambda x: x + x]
    toys.register(run=lambda x: now[0](x), **options)
    with codedag.apply(plan()):
        pass
    now[0] = run


def test_a_late_difference_gives_the_verdict_and_the_unverified_calls(toys):
    proven(toys, wrong_after(100))
    with codedag.apply(plan()) as migrator:
        results = calls(toys, 1000)
        stats, verdict = migrator.get_stats()[DOUBLE], migrator.verdict()
    assert verdict["verdict"] == "DIFFERENT"
    assert (verdict["mismatches"], stats["active"]) == (1, False)
    assert results.count(7.0) <= verdict["unverified"] == stats["unverified"] == stats["fast"]
    assert "differed from the original's" in stats["reason"]
    assert stats["evidence"].startswith("(1.5) at ")
    assert "test_migrator.py:" in stats["evidence"]
    assert results[-1] == 3.0


def test_shadow_runs_both_always_and_the_program_sees_the_original(toys):
    proven(toys, wrong_after(30))
    with codedag.apply(plan(), mode="shadow") as migrator:
        assert calls(toys, 100) == [3.0] * 100
        stats = migrator.get_stats()[DOUBLE]
    assert (stats["fast"], stats["checked"], stats["mismatches"], stats["unverified"]) == (0, 31, 1, 0)
    assert migrator.verdict()["verdict"] == "DIFFERENT"


@pytest.mark.parametrize("mode", ["shadow", "strict"])
def test_what_only_watches_compares_every_call_of_every_substitute(toys, mode):
    toys.register("slow", 9.0, guard=lambda call: Yes if call.x > 0 else No("negative"))
    toys.register("quick", 0.1, guard=lambda call: Yes if call.x > 0 else No("negative"))
    with codedag.apply(plan(), mode=mode) as migrator:
        calls(toys, 150, -1.5)
        calls(toys, 100)
        stats = migrator.get_stats()[DOUBLE]
    assert (stats["checked"], stats["fast"], stats["declined"]) == (100, 0, {"negative": 150})
    assert toys.ran[-100:].count("slow") == toys.ran[-100:].count("quick") == 25


def test_strict_raises_a_clear_error(toys):
    proven(toys, wrong_after(3))
    with codedag.apply(plan(), mode="strict"), pytest.raises(Different, match=r"double -> toy\(1.5\) at .*7.0"):
        calls(toys, 10)


def test_off_compares_nothing_but_still_demotes(toys):
    proven(toys, wrong_after(0))
    with codedag.apply(plan(), mode="off") as migrator:
        assert 7.0 in calls(toys, 40)
        assert migrator.get_stats()[DOUBLE]["checked"] == 0
    toys.register(seconds=3.0)
    with codedag.apply(plan(), mode="off") as migrator:
        calls(toys, 50)
        assert not migrator.get_stats()[DOUBLE]["active"]


def test_sample_can_be_set(toys):
    toys.register()
    with codedag.apply(plan(), mode=Mode("sample", first=20, every=10_000)) as migrator:
        calls(toys, 60)
        assert 20 <= migrator.get_stats()[DOUBLE]["checked"] <= 22


@pytest.mark.parametrize("mode", ["never", "", Mode.__name__])
def test_a_mode_that_is_none(toys, mode):
    with pytest.raises(BadMode, match="off, sample, shadow, strict"):
        PipelineMigrator.from_plan(plan(), mode=mode)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_nan_that_the_original_would_not_have_made_is_located_and_falls_back(toys, bad):
    import numpy

    def run(x):
        result = x + x
        if next(count) >= 20:
            result[1, 2] = bad
        return result

    count = iter(range(10**9))
    proven(toys, run)
    image = numpy.ones((3, 4))
    with codedag.apply(plan(), mode=Mode("sample", every=10**6)) as migrator:
        results = [toys.double(image) for _ in range(50)]
        stats = migrator.get_stats()[DOUBLE]
    assert all(numpy.isfinite(result).all() for result in results)
    assert not stats["active"]
    word = "NaN" if bad != bad else "infinity"
    assert f"{word} at index (1, 2), where the original has 2.0 (1 in all)" in stats["reason"]


def test_a_nan_of_the_inputs_is_no_reason_to_check(toys):
    import numpy

    toys.register()
    image = numpy.array([1.0, numpy.nan])
    with codedag.apply(plan(), mode=Mode("sample", every=10**6)) as migrator:
        for _ in range(40):
            toys.double(image)
        assert migrator.get_stats()[DOUBLE]["checked"] == 8


def test_a_failing_substitute_is_tried_three_times_and_the_original_runs_once(toys):
    def run(x):
        raise MemoryError("no room")

    proven(toys, run)
    with codedag.apply(plan()) as migrator:
        assert calls(toys, 10) == [3.0] * 10
        stats = migrator.get_stats()[DOUBLE]
    assert toys.ran[-13:] == ["toy", "original"] * 3 + ["original"] * 7
    assert stats["reason"] == "it failed 3 times (MemoryError: no room)"


def test_a_call_that_raises_raises_once_as_written(toys):
    toys.register(guard=lambda call: No("None") if call.x is None else Yes)
    with codedag.apply(plan()), pytest.raises(KeyError) as caught:
        toys.double(None)
    assert caught.value.__context__ is None
    assert len(caught.traceback) == 2


# ---- what is declined ----


def reason_of(migrator, name=DOUBLE):
    return migrator.get_stats()[name]["reason"]


def declined(the_plan, **options):
    migrator = PipelineMigrator.from_plan(the_plan, **options)
    counts = migrator.apply()
    reasons = {name: stats["reason"] for name, stats in migrator.get_stats().items()}
    migrator.restore()
    return counts, reasons


def test_an_absent_device_is_a_stated_decline(toys):
    toys.register()
    original = toys.double
    counts, reasons = declined(plan("npu:7"))
    assert counts == {"patched": 0, "failed": 0, "skipped": 1}
    assert reasons[DOUBLE].startswith("npu:7 is not ")  # on this machine, or known where torch is not loaded
    assert toys.double is original


def test_a_default_device_is_for_entries_that_name_none(toys):
    toys.register()
    _, reasons = declined({"context_device_map": {DOUBLE: None}}, default_device="cuda:0")
    assert reasons[DOUBLE].startswith("cuda:0")


@pytest.mark.parametrize(
    "name", ["os.system", "antigravity.fly", "__import__('antigravity')", "antigravity", "", "a/../../b", "x" * 5000]
)
def test_names_select_registered_substitutions_and_run_nothing(toys, name):
    counts, _ = declined({"context_device_map": {name: "cpu"}})
    assert counts == {"patched": 0, "failed": 0, "skipped": 1}
    assert "antigravity" not in sys.modules


def test_a_library_that_the_program_does_not_use_is_not_imported(toys):
    toys.register(needs="sqlite-fictional>=1")
    counts, reasons = declined(plan())
    assert counts["skipped"] == 1
    assert reasons[DOUBLE] == "sqlite_fictional is not used by this program"


def test_a_library_out_of_range_is_stated(toys):
    toys.register(needs="numpy<1")
    counts, reasons = declined(plan())
    assert counts["failed"] == 1
    assert "numpy<1 is needed" in reasons[DOUBLE]


def test_what_is_not_proven_here_is_not_used(toys):
    toys.register(run=lambda x: x * 2.5)
    counts, reasons = declined(plan())
    assert counts["failed"] == 1
    assert "is not" in reasons[DOUBLE]


def test_classes_beyond_exact_are_opted_in(toys):
    toys.register(gives="ulp")
    counts, reasons = declined(plan())
    assert counts["skipped"] == 1
    assert reasons[DOUBLE].endswith("is ulp, which this plan does not allow")
    with codedag.apply(plan(), allow=("exact", "ulp")):
        assert proxies.is_proxy(toys.double)
    with codedag.apply(plan(), allow="ulp"):
        assert proxies.is_proxy(toys.double)
    for wrong in (("any",), "any", None):
        with pytest.raises(BadPlan, match=r"there is no class (?:'any'|None)"):
            codedag.apply(plan(), allow=wrong)


def test_two_migrators_at_once(toys):
    toys.register()
    first, second = (PipelineMigrator.from_plan(plan()) for _ in range(2))
    with first:
        proxy = toys.double
        assert second.apply() == {"patched": 0, "failed": 0, "skipped": 1}
        assert reason_of(second) == "another migrator has replaced it"
        assert second.restore() == 0
        assert toys.double is proxy
    assert second.apply()["patched"] == 1
    second.restore()


def test_disabled_by_the_environment(toys, monkeypatch):
    toys.register()
    original = toys.double
    monkeypatch.setenv("CODEDAG_DISABLE", "1")
    with codedag.apply(plan()) as migrator:
        assert toys.double is original
        assert reason_of(migrator) == "CODEDAG_DISABLE is set"


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (3, "a plan cannot be a int"),
        ({}, "context_device_map: is missing"),
        ({"context_device_map": [1]}, "context_device_map: is missing or not a mapping"),
        ({"context_device_map": {"a.b": 3}}, r"context_device_map\[a.b\]: 3 is not text"),
        ({"context_device_map": {3: "cpu"}}, "context: 3 is not text"),
        ({"context_device_map": {"a.b": "cpu"}, "version": 7}, "version: this CodeDAG reads version 1, got 7"),
        ({"context_device_map": {}, "variants": 1}, "variants: is not a mapping"),
        ({"context_device_map": {}, "format": "codedag/graph"}, "format: 'codedag/graph' is no plan"),
        ({"format": "codedag/plan", "version": 1}, "missing required field"),
    ],
)
def test_bad_plans_are_refused_and_nothing_is_changed(bad, words):
    with pytest.raises(BadPlan, match=words):
        codedag.apply(bad)


def test_what_is_no_plan_at_all_is_refused_by_every_way_in():
    with pytest.raises(BadPlan, match="default_device: 17 is not text"):
        PipelineMigrator.from_plan(plan(), default_device=17)
    for path in (None, 3, plan()):
        with pytest.raises(BadPlan, match=r"path: .* is not a path"):
            PipelineMigrator.from_json(path)
    for partitions in (None, {}, {"optimized_partitions": []}):
        with pytest.raises(BadPlan, match="partitions: none are given"):
            PipelineMigrator.from_optimizer(codedag.OptimizerManager(), partitions)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"format": "codedag/plan", "version": 9}', '{"format": "x"}'])
def test_bad_files_are_refused_with_their_name(tmp_path, content):
    path = tmp_path / "some.json"
    path.write_text(content)
    with pytest.raises(BadFile, match=r"some\.json"):
        PipelineMigrator.from_json(path)


def test_missing_files(tmp_path):
    with pytest.raises(CodedagError, match="no such file"):
        codedag.apply(tmp_path / "none.json")


# ---- forms of a plan ----


def a_plan(context, variant="toy", **move):
    placement = Placement(op=1, name=DOUBLE, context=context, file="a.py", line=1, pu="cpu", variant=variant)
    other = Placement(
        op=2, name="numpy.sqrt", context="g/numpy.sqrt", file="a.py", line=2, pu="cpu", variant="original"
    )
    moves = [Move(kind="substitute", ops=[1], variant=variant, chain=[DOUBLE], **move)]
    return Plan(
        sources=[],
        placement=[placement, other],
        moves=moves,
        makespan_seconds=1,
        lower_bound_seconds=1,
        baseline_seconds=2,
    )


def test_plan_json_and_migration_plan_json_and_a_plan(toys, tmp_path):
    toys.register()
    from codedag.ir import save

    save(a_plan(DOUBLE), tmp_path / "plan.json")
    (tmp_path / "migration_plan.json").write_text(json.dumps(plan()))
    forms = [a_plan(DOUBLE), tmp_path / "plan.json", str(tmp_path / "migration_plan.json"), plan(), tmp_path]
    for form in forms:
        with codedag.apply(form) as migrator:
            assert proxies.is_proxy(toys.double), form
            assert migrator.is_applied()


def test_a_fused_chain_needs_the_command(toys):
    fused = Move(kind="fuse", ops=[1], file="a.py", line=4, chain=["operator.truediv"])
    made = a_plan(DOUBLE)
    made.moves[:] = [fused]
    requests = requests_of(made)
    assert requests.notes == ("fuse a.py:4: only `codedag run --plan` can do this",)
    assert [request.function for request in requests.wanted] == ["numpy.sqrt"]


def outer(toys):
    return inner(toys)


def inner(toys):
    return toys.double(1.5)


def elsewhere(toys):
    return next(toys.double(1.5) for _ in range(1))


def test_a_plan_reaches_the_places_that_it_names(toys):
    toys.register()
    with codedag.apply(a_plan(f"some_driver/outer/inner/{DOUBLE}")) as migrator:
        for _ in range(40):
            outer(toys)
        toys.ran.clear()
        outer(toys)
        assert toys.ran == ["toy"]
        for _ in range(5):
            elsewhere(toys)
        assert migrator.get_stats()[DOUBLE]["declined"]["the plan does not name this place"] == 5


def test_a_place_can_be_left_as_it_is(toys):
    toys.register()
    the_plan = plan(**{DOUBLE: "cpu", f"elsewhere/{DOUBLE}": "cpu"})
    the_plan["variants"] = {f"elsewhere/{DOUBLE}": "original"}
    with codedag.apply(the_plan) as migrator:
        for _ in range(20):
            elsewhere(toys)
            outer(toys)
        stats = migrator.get_stats()[DOUBLE]
    assert stats["declined"]["the plan does not name this place"] == 20
    assert stats["fast"] + stats["checked"] == 20


# ---- faces ----


def test_the_other_names(toys):
    toys.register()
    original = toys.double
    with create_custom_migrator({DOUBLE: "cpu"}) as migrator:
        assert migrator.is_applied()
        assert proxies.is_proxy(toys.double)
    injector = PatchInjector({DOUBLE: "cpu"}, registry=None, processors=None)
    assert injector.apply_all() == {"patched": 1, "failed": 0, "skipped": 0}
    assert injector.restore_all() == 1
    wrapper = UniversalWrapper(DOUBLE, device="cpu")
    assert [wrapper(1.5) for _ in range(40)] == [3.0] * 40
    assert wrapper.get_stats()["fast"] > 10
    assert toys.double is original
    plain = UniversalWrapper("os.getcwd", lambda: "here")
    assert plain() == "here"
    assert plain.get_stats()["reason"] == "no substitution of this function is registered"
    with pytest.raises(BadPlan, match="is not loaded"):
        UniversalWrapper("antigravity.fly")


def test_from_optimizer(toys):
    toys.register()

    class Optimizer:
        def get_migration_plan(self, partitions, dag, gpu_count=0):
            assert (partitions, dag, gpu_count) == ("p", "d", 1)
            return plan()

    for migrator in (
        PipelineMigrator.from_optimizer(Optimizer(), "p", "d", 1),
        PipelineMigrator.from_optimizer(Optimizer(), {"optimized_partitions": "p", "coarsened_dag": "d"}, gpu_count=1),
        PipelineMigrator.from_optimizer(plan(), default_device="cpu"),
    ):
        with migrator:
            assert proxies.is_proxy(toys.double)


def test_threads_lose_no_result(toys):
    toys.register()
    results = []
    with codedag.apply(plan()):
        threads = [threading.Thread(target=lambda: results.extend(calls(toys, 500))) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert results == [3.0] * 2000


def during_the_proof(toys, what):
    """Runs this in another thread while a plan is being applied; what it gave once it could."""
    given, threads = [], []

    def run(x):
        if not threads:
            threads.append(threading.Thread(target=lambda: given.append(what())))
            threads[0].start()
            threads[0].join(0.2)  # it waits for us, or is done
        return x + x

    toys.register(run=run)
    return given, threads


def test_two_threads_that_apply_one_migrator_apply_it_once(toys):
    original = toys.double
    migrator = PipelineMigrator.from_plan(plan())
    given, threads = during_the_proof(toys, migrator.apply)
    assert migrator.apply() == {"patched": 1, "failed": 0, "skipped": 0}
    threads[0].join(10)
    assert given == [{"patched": 0, "failed": 0, "skipped": 0}]
    assert migrator.restore() == 1
    assert toys.double is original


def test_two_migrators_of_two_threads_do_not_replace_one_function_both(toys):
    original = toys.double
    first, second = (PipelineMigrator.from_plan(plan()) for _ in range(2))
    given, threads = during_the_proof(toys, second.apply)
    assert first.apply()["patched"] == 1
    threads[0].join(10)
    assert given == [{"patched": 0, "failed": 0, "skipped": 1}]
    assert reason_of(second) == "another migrator has replaced it"
    assert (second.restore(), first.restore()) == (0, 1)
    assert toys.double is original


def test_what_is_imported_in_another_thread_while_a_plan_is_applied_is_looked_at(toys, monkeypatch):
    from codedag.migrate.patches.library_patches import _state
    from codedag.migrate.placement import migrator as room

    toys.register()

    def join(migrator):  # the last part of applying
        other = threading.Thread(target=_state.loaded, args=(toys.module,))
        other.start()
        other.join(5)
        assert not other.is_alive()

    monkeypatch.setattr(room.workers, "join", join)
    with codedag.apply(plan()):
        assert _state._news == []


def test_a_proof_compares_with_what_is_written_all_the_way_down(toys):
    """The original that is asked in a proof may call functions that are replaced already."""
    toys.register()
    exec("def triple(x): return double(x) + x", vars(toys.module))
    toys.module.triple.__module__ = NAME
    with codedag.apply(plan()) as inner:
        calls(toys, 60)
        before = inner.get_stats()[DOUBLE]
        toys.register("other", source="triple", run=lambda x: x * 2 + x)
        toys.ran.clear()
        with create_custom_migrator({f"{NAME}.triple": "cpu"}) as outer:
            assert outer.is_applied()
            assert proxies.is_proxy(toys.module.triple)
        stats = inner.get_stats()[DOUBLE]
    assert {"original", "other"} == set(toys.ran)
    assert stats["fast"] == before["fast"]
    assert (stats["calls"], stats["declined"]) == (before["calls"], before["declined"])  # no calls of the program


def test_a_function_that_is_loaded_later_is_replaced_then(toys):
    toys.register()
    module = sys.modules.pop(NAME)
    with codedag.apply(plan()) as migrator:
        assert reason_of(migrator) == f"{DOUBLE} is not loaded yet"
        sys.modules[NAME] = module
        from codedag.migrate.patches.library_patches import _state

        _state.loaded(module)
        assert proxies.is_proxy(module.double)
        calls(toys, 3)
        assert migrator.get_stats()[DOUBLE]["calls"] == 3
    assert not proxies.is_proxy(module.double)


def test_loopback_sends_every_call_through_and_into_the_original(toys):
    toys.register()
    with codedag.apply(plan("loopback")) as migrator:
        assert calls(toys, 40) == [3.0] * 40
        with pytest.raises(KeyError):
            toys.double(None)
        stats = migrator.get_stats()[DOUBLE]
    assert set(toys.ran) == {"original"}
    assert stats["fast"] + stats["checked"] == 40
    assert stats["fast"] > 25
    assert stats["declined"] == {"the original raises here": 1}


@pytest.mark.parametrize("part", ["pick", "add_pair", "add", "is_young"])
def test_no_fault_of_ours_reaches_the_program(toys, monkeypatch, part):
    from codedag.migrate.patches.bandit import Ballot

    def broken(*args):
        raise RuntimeError("deque mutated during iteration")

    toys.register()
    monkeypatch.setattr(Ballot, part, broken)
    with codedag.apply(plan()) as migrator:
        assert calls(toys, 100) == [3.0] * 100
        stats = migrator.get_stats()[DOUBLE]
    assert stats["calls"] == 100
    assert stats["fast"] + stats["checked"] + sum(stats["declined"].values()) == 100


def test_a_pipe_is_not_waited_for(tmp_path):
    import os

    os.mkfifo(tmp_path / "plan.json")
    with pytest.raises(BadFile, match="not a regular file"):
        codedag.apply(tmp_path / "plan.json")


def test_an_import_inside_a_proof_does_not_prove_again(toys):
    from codedag.migrate.patches.library_patches import _state

    depth = []

    def run(x):
        depth.append(1)
        _state.loaded(toys.module)  # as when a substitute imports a part of the library at its first call
        depth.append(-1)
        return x + x

    toys.register(run=run)
    with codedag.apply(plan()):
        assert proxies.is_proxy(toys.double)
    assert max(sum(depth[:n]) for n in range(len(depth) + 1)) == 1


@pytest.mark.parametrize(
    ("variant", "replaced"),
    [("toy", True), (f"{DOUBLE} -> toy", True), ("", True), ("original, reused buffers", False), ("other", False)],
)
def test_the_names_that_plans_have_for_variants(toys, variant, replaced):
    toys.register()
    made = a_plan(DOUBLE, variant)
    made.moves.clear()
    with codedag.apply(made):
        assert proxies.is_proxy(toys.double) == replaced


def test_an_import_in_another_thread_does_not_wait_for_a_proof(toys):
    """A proof may wait for that import: both would wait for ever."""
    from codedag.migrate.patches.library_patches import _state

    waited = []

    def run(x):
        if not waited:
            other = threading.Thread(target=_state.loaded, args=(toys.module,))
            other.start()
            other.join(5)
            waited.append(other.is_alive())
        return x + x

    toys.register(run=run)
    with codedag.apply(plan()):
        assert proxies.is_proxy(toys.double)
    assert waited == [False]
    assert _state._news == []


def test_a_stop_is_noticed_also_if_somebody_else_listens_to_the_trial(toys):
    toys.register()
    with codedag.apply(plan()) as migrator:
        patch = migrator._migrator.patches.patches[0]
        patch.guarded.arms[0].trial.on_stop = lambda: None
        calls(toys, 3)
        patch.guarded.arms[0].trial.stop("enough")
        assert patch.layer.run is not None
        calls(toys, 2)
        assert patch.layer.run is None
        assert migrator.get_stats()[DOUBLE]["declined"] == {"enough": 2}


def test_deciding_must_not_cost_more_than_it_saves(toys):
    """Most calls are declined, each at a price, and the few that are taken save little: better to leave it."""

    def guard(call):
        toys.clock.now += 0.01
        return Yes if call.x > 0 else No("negative")

    toys.costs["original"] = 0.02
    toys.register(seconds=0.001, guard=guard)
    with codedag.apply(plan()) as migrator:
        for number in range(3000):
            toys.double(1.5 if number % 20 == 0 else -float(number))
        stats = migrator.get_stats()[DOUBLE]
    assert not stats["active"]
    assert stats["reason"].startswith("deciding took ")
    assert sum(stats["declined"].values()) + stats["fast"] + stats["checked"] == 3000


def test_calls_from_elsewhere_are_told_by_their_code_alone(toys):
    toys.register()
    with codedag.apply(a_plan(f"outer/inner/{DOUBLE}")) as migrator:
        guarded = migrator._migrator.patches.patches[0].guarded
        for _ in range(3):
            elsewhere(toys)
            outer(toys)
        assert [code.co_qualname for code in guarded._outside.values()] == ["elsewhere.<locals>.<genexpr>"]
        assert migrator.get_stats()[DOUBLE]["declined"] == {"the plan does not name this place": 3}
        assert migrator.get_stats()[DOUBLE]["checked"] == 3


def test_a_kind_of_change_that_nobody_knows_is_said(toys):
    made = a_plan(DOUBLE)
    made.moves[:] = [Move(kind="explode", ops=[1], file="a.py", line=4)]
    assert requests_of(made).notes == ("explode a.py:4: this CodeDAG knows no such change, and leaves it out",)


def test_leaving_an_inner_block_of_the_same_migrator_leaves_the_outer_one_in_force(toys):
    toys.register()
    original = toys.double
    migrator = codedag.PipelineMigrator.from_plan(plan())
    with migrator:
        with migrator:
            assert proxies.is_proxy(toys.double)
        assert proxies.is_proxy(toys.double)
        assert migrator.is_applied()
    assert toys.double is original
    with migrator, pytest.raises(ValueError, match="x"), migrator:
        raise ValueError("x")
    assert not migrator.is_applied()
    assert toys.double is original


def test_restoring_inside_of_blocks_is_final(toys):
    toys.register()
    original = toys.double
    migrator = codedag.PipelineMigrator.from_plan(plan())
    with migrator:
        with migrator:
            migrator.restore()
            assert toys.double is original
        assert not migrator.is_applied()
    with migrator:
        assert proxies.is_proxy(toys.double)
    assert toys.double is original
