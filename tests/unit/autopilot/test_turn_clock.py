"""The turn clock: blocks from a running loop or a library's method, flags flipped by the judge, everything put back."""

import os
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from codedag.autopilot.judge.change import Change, Place, State
from codedag.autopilot.judge.judge import Decision, Judge
from codedag.autopilot.judge.policy import POLICY
from codedag.autopilot.judge.turn_clock import Flags, TurnClock
from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import CALL, VARIANT, SiteInfo, make, native

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "migrate"))


class World:
    """A clock, a judge and the flag of one change; a turn takes as long as the test says."""

    def __init__(self, on=0.02, off=0.03, move="substitute"):
        self.seconds, self.verdicts = 0.0, []
        self.times = {True: on, False: off}
        self.judge = Judge(POLICY, lambda: self.seconds, seed=1)
        self.change = Change(1, move, Place("a.py"), "it")
        self.site = make(SiteInfo(0, CALL, "", "a.py", 1, 0, 1, 0, "f"))
        self.site.variant, self.site.mode = (lambda *args: True), VARIANT
        self.flags = Flags()
        self.clock = TurnClock(
            self.judge, self.flags, lambda: self.seconds, lambda: self.seconds, on_verdict=self.verdicts.append
        )

    def begin(self):
        self.flag = self.flags.add(1, [self.site])
        self.judge.add(self.change)
        return self

    def work(self, *_):
        """One turn of the program; the site says whether its variant ran."""
        self.seconds += self.times[self.site(bool, 0)]
        return self.flag.on


LOOP = b"""
seen = []
for turn in range(turns):
    seen.append(work(turn))
"""


def run_loop(world, turns):
    file = InstrumentedFile("/generated/loop.py", LOOP, main=True)
    world.clock.follow_switch(file.switches[0])
    space = {"turns": turns, "work": world.work}
    exec(file.full, space)
    return file.switches[0], space["seen"]


# -- from a loop


def test_a_loop_is_judged_by_its_turns_and_a_faster_change_kept():
    world = World().begin()
    _, seen = run_loop(world, 3000)
    assert [each.decision for each in world.verdicts][:1] == [Decision.KEEP]
    assert world.change.state is State.IN_USE
    assert world.judge.gain.middle == pytest.approx(1.5)
    assert 0 < seen.count(False) < 400
    assert world.clock.failure is None


def test_a_slower_change_is_off_for_good():
    world = World(on=0.03, off=0.02).begin()
    _, seen = run_loop(world, 600)
    assert [each.decision for each in world.verdicts] == [Decision.SLOWER]
    assert world.change.state is State.TAKEN_BACK
    assert not any(seen[-300:])


def test_the_turns_after_a_flip_are_not_counted():
    """A turn that pays for a flip would show in every pair."""
    world = World(on=0.02, off=0.02).begin()
    before = [True]

    def work(*_):
        flipped, before[0] = before[0] is not world.flag.on, world.flag.on
        world.seconds += 0.2 if flipped else 0.02

    file = InstrumentedFile("/generated/loop.py", LOOP, main=True)
    world.clock.follow_switch(file.switches[0])
    exec(file.full, {"turns": 300, "work": work})
    assert world.judge.gain.low == pytest.approx(1.0)
    assert world.judge.gain.high == pytest.approx(1.0)


def test_leaving_turns_everything_on_and_the_switch_plain_again():
    world = World().begin()
    switch, _ = run_loop(world, 1 + 1 + 3 + 1 + 3)
    assert type(switch) is native.CountingSwitch
    world.flag.on = False
    world.clock.leave()
    assert type(switch) is native.Switch
    assert world.flag.on
    world.clock.leave()  # once more is nothing


def test_dirty_blocks_are_void():
    world = World(on=0.03, off=0.02).begin()
    work = world.work

    def dirtying(*_):
        world.clock.dirty()
        return work()

    world.work = dirtying
    run_loop(world, 600)
    assert not world.verdicts
    assert not world.clock.speeds


def test_the_curve_of_speed_is_kept():
    world = World().begin()
    run_loop(world, 300)
    speeds = world.clock.speeds
    assert [each.at for each in speeds] == sorted(each.at for each in speeds)
    assert {round(each.seconds / each.turns, 6) for each in speeds if each.on} == {0.02}
    assert {round(each.seconds / each.turns, 6) for each in speeds if not each.on} == {0.03}


def test_the_curve_is_bounded(monkeypatch):
    monkeypatch.setattr("codedag.autopilot.judge.turn_clock.SPEEDS_MAX", 64)
    world = World().begin()
    run_loop(world, 3000)
    assert len(world.clock.speeds) <= 64
    assert any(not each.on for each in world.clock.speeds)


def test_a_failure_of_ours_ends_the_clock_and_not_the_program():
    world = World().begin()
    world.judge.block = None
    _, seen = run_loop(world, 50)
    assert len(seen) == 50
    assert "NoneType" in world.clock.failure.reason
    assert seen[-1]


def test_a_turn_that_comes_while_the_judge_is_busy_waits_for_nobody():
    world = World(on=0.03, off=0.02).begin()
    with world.clock.lock:
        run_loop(world, 100)
    assert not world.verdicts
    run_loop(world, 400)
    assert [each.decision for each in world.verdicts] == [Decision.SLOWER]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_leaves_the_judge_alone():
    world = World().begin()
    run_loop(world, 20)
    world.clock._process = -1  # as in a child
    before = len(world.clock.speeds)
    run_loop(world, 50)
    assert len(world.clock.speeds) == before


# -- from a method


@pytest.fixture
def loader(monkeypatch):
    """A module with an iterator class, as torch has one."""
    module = types.ModuleType("toy_loader")
    exec(
        "class Iterator:\n"
        "    def __init__(self, count): self.count = count\n"
        "    def __iter__(self): return self\n"
        "    def __next__(self):\n"
        "        if not self.count: raise StopIteration\n"
        "        self.count -= 1\n"
        "        return self.count\n",
        vars(module),
    )
    monkeypatch.setitem(sys.modules, "toy_loader", module)
    return module


def test_batches_of_a_loader_are_turns(loader):
    world = World(on=0.03, off=0.02).begin()
    original = vars(loader.Iterator)["__next__"]
    assert world.clock.follow_method("toy_loader", "Iterator", "__next__")
    for _ in range(10):  # epochs
        assert [batch for batch in loader.Iterator(40) if world.work() in (True, False)] == [*range(39, -1, -1)]
    assert [each.decision for each in world.verdicts] == [Decision.SLOWER]
    world.clock.leave()
    assert vars(loader.Iterator)["__next__"] is original


def test_a_method_that_the_program_replaced_meanwhile_is_left(loader):
    world = World().begin()
    world.clock.follow_method("toy_loader", "Iterator", "__next__")

    def own(self):
        raise StopIteration

    loader.Iterator.__next__ = own
    world.clock.leave()
    assert vars(loader.Iterator)["__next__"] is own


def test_batches_of_another_thread_are_not_turns(loader):
    world = World().begin()
    world.clock.follow_method("toy_loader", "Iterator", "__next__")
    next(loader.Iterator(1))
    thread = threading.Thread(target=lambda: list(loader.Iterator(500)))
    thread.start()
    thread.join()
    assert not world.clock.speeds


@pytest.mark.parametrize("place", [("no_module", "A", "b"), ("toy_loader", "A", "b"), ("toy_loader", "Iterator", "b")])
def test_what_is_not_there_is_not_followed(loader, place):
    assert not World().begin().clock.follow_method(*place)


def test_a_torch_loader_is_followed_and_put_back():
    torch_loader = pytest.importorskip("torch.utils.data.dataloader")
    from codedag.autopilot.judge.turn_clock import LOADER

    world = World(on=0.03, off=0.02).begin()
    original = vars(torch_loader._BaseDataLoaderIter)["__next__"]
    assert world.clock.follow_method(*LOADER)
    data = torch_loader.DataLoader([*range(2000)], batch_size=4)
    assert sum(int(batch.sum()) for batch in data if world.work() in (True, False)) == sum(range(2000))
    world.clock.leave()
    assert [each.decision for each in world.verdicts] == [Decision.SLOWER]
    assert vars(torch_loader._BaseDataLoaderIter)["__next__"] is original


# -- settings and flags


def test_a_setting_is_turned_by_its_own_function():
    turned = []
    flags = Flags()
    flags.add_setting(4, turned.append)
    flags.set({4})
    flags.set(())
    flags.remove(4)
    flags.set({4})
    assert turned == [True, False]


CHAIN = """
import numpy as np
def f(img, box):
    x = img.astype(np.float32)
    x = x * 1.5
    x = x + box.offset
    return np.clip(x, 0, 255)
"""


def test_a_chain_that_is_turned_off_in_the_middle_ends_as_it_began():
    np = pytest.importorskip("numpy")
    from fusing import fuse, plain

    img = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    fused = fuse(CHAIN, lambda module: module.f(img, types.SimpleNamespace(offset=2.0)))
    (chain,) = fused.chains
    flags = Flags()
    flag = flags.add(1, [chain.links[0].site], [link.site for link in chain.links[1:]])

    class Box:
        flips = False

        @property
        def offset(self):
            if self.flips:
                flag.on = False
            return 2.0

    box = Box()
    expected = plain(CHAIN).f(img, box)
    np.testing.assert_array_equal(fused.f(img, box), expected)
    served = chain.trial.calls
    assert served > 0
    box.flips = True
    np.testing.assert_array_equal(fused.f(img, box), expected)  # turned off between its second and third site
    assert not flag.on
    assert chain.trial.calls == served + 1  # and yet served as a whole
    box.flips = False
    result = fused.f(img, box)
    np.testing.assert_array_equal(result, expected)
    assert type(result) is np.ndarray
    assert chain.trial.calls == served + 1  # off: nothing begins
    flags.set({1})
    np.testing.assert_array_equal(fused.f(img, box), expected)
    assert chain.trial.calls == served + 2


def test_later_sites_pass_plain_values_through_without_a_flag():
    """Only the first site is turned off; the others see plain values, and their variants pass these through."""
    np = pytest.importorskip("numpy")
    from fusing import fuse, plain

    img = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    box = types.SimpleNamespace(offset=2.0)
    fused = fuse(CHAIN, lambda module: module.f(img, box))
    (chain,) = fused.chains
    flags = Flags()
    flags.add(1, [chain.links[0].site])
    flags.set(())
    np.testing.assert_array_equal(fused.f(img, box), plain(CHAIN).f(img, box))
    assert chain.trial.calls == 0


def test_a_kept_prefix_that_is_turned_off_runs_as_written(tmp_path):
    np = pytest.importorskip("numpy")
    from codedag.migrate.memo.prefix import Link, Prefix
    from codedag.migrate.memo.store import Memory
    from codedag.migrate.placeholder import Placeholder
    from codedag.migrate.trial import Trial

    path = str(tmp_path / "a.npy")
    np.save(path, np.arange(12.0))
    time.sleep(0.15)  # a file that was just written may change again, and is not kept
    first, second = (make(SiteInfo(at, CALL, "", __file__, 1, 0, 1, 1, "use")) for at in range(2))
    prefix = Prefix([Link(first, 0), Link(second, 0)], Trial("it", ignores_speed=True), Memory(), lambda: True)
    for site, variant in zip((first, second), prefix.variants().values(), strict=True):
        site.variant, site.mode = variant, VARIANT
    flags = Flags()
    flag = flags.add(1, [first], [second])
    for _ in range(40):
        assert second(np.negative, first(np.load, path))[-1] == -11
    before = first(np.load, path)
    assert type(before) is Placeholder  # answered from memory
    flag.on = False  # in the middle
    assert second(np.negative, before)[-1] == -11
    plain = first(np.load, path)
    assert type(plain) is np.ndarray  # off from the start
    assert second(np.negative, plain)[-1] == -11
    flag.on = True
    assert type(first(np.load, path)) is Placeholder
