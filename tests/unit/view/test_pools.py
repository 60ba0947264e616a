"""What pools spend on themselves: waiting, pickling, starting; what they call of the user's is not theirs."""

from __future__ import annotations

from codedag.ir import Heat, HotCall
from codedag.view.pools import lines, pools


def call(parent, name, own=0.0, waiting=0.0, package="python", text=""):
    return HotCall(
        parent=parent, name=name, file="x.py", line=1, package=package, text=text, self_seconds=own,
        waiting_seconds=waiting,
    )  # fmt: skip


def test_a_pool_of_processes():
    calls = [
        call(-1, "<module>", 2.0, package="", text="p.map()"),
        call(0, "Pool.map", 0.1),
        call(1, "ApplyResult.wait", 0.0, 5.0),
        call(-1, "Thread.run"),
        call(3, "Pool._handle_tasks", 0.2, 9.0),
        call(4, "_ForkingPickler.dumps", 1.0),
        call(1, "Pool._repopulate_pool_static", 0.5),
    ]
    found = {
        part.name: round(part.seconds, 6) for part in pools(Heat(sampled_seconds=9.0, cpu_seconds=4.0, calls=calls))
    }
    assert found == {"waiting for results": 5.0, "pickling": 1.0, "starting processes": 0.5, "handing over": 0.3}
    (line,) = lines(Heat(sampled_seconds=9.0, cpu_seconds=4.0, calls=calls))
    assert line == (
        "worker pools, in the main process: waiting for results 5.0 s, pickling 1.0 s, starting processes 0.5 s, "
        "handing over 0.3 s"
    )


def test_what_the_user_computes_in_threads_and_loaders_is_not_a_pools():
    calls = [
        call(-1, "<module>", 2.0, package="", text="Parallel()()"),
        call(0, "Parallel.__call__", 0.0, package="joblib"),
        call(1, "work", 5.0, package="", text="np.sort()"),
        call(-1, "_MultiProcessingDataLoaderIter.__init__", 2.0, package="torch"),
        call(3, "Popen.__init__", 2.0),
    ]
    assert pools(Heat(sampled_seconds=9.0, cpu_seconds=9.0, calls=calls)) == []
    assert lines(Heat(sampled_seconds=9.0)) == []
