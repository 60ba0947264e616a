"""The C sampler reads the process while it runs, at any moment of it, and never stops or breaks it."""

import importlib.util
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

sampler = pytest.importorskip("codedag.instrument._sampler")
if not sampler.IS_SUPPORTED:
    pytest.skip("the C sampler does not know this interpreter", allow_module_level=True)


@pytest.fixture
def start():
    """A function that starts the sampler with empty tables; it is stopped at the end."""

    def begin(hz):
        sampler.stop()
        sampler.forget()
        sampler.start(hz, 1.0)  # cost what it may

    yield begin
    sampler.stop()


def names_seen():
    """Cumulative seconds by (file, qualified name, first line)."""
    rows = [(sampler.names(row[0]), row[2]) for row in sampler.functions(0)]
    return {names[:3]: total for names, total in rows if names is not None}


def busy(cpu_seconds):
    started = time.thread_time()
    while time.thread_time() - started < cpu_seconds:
        sum(range(1000))


def run(program, *, timeout=100):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=timeout,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def test_rates_and_arguments_are_checked(start):
    for wrong in (0.0, -1.0, 1e9, float("nan")):
        with pytest.raises(ValueError, match="rate"):
            sampler.start(wrong)
        with pytest.raises(ValueError, match="rate"):
            sampler.set_rate(wrong)
    start(100.0)
    with pytest.raises(RuntimeError, match="runs"):
        sampler.forget()
    assert sampler.names(10**9) is None


def test_stopping_takes_milliseconds_also_at_a_low_rate(start):
    start(0.1)
    before = time.monotonic()
    sampler.stop()
    assert time.monotonic() - before < 1.0  # not ten seconds
    assert not sampler.is_running()


def test_totals_go_on_after_a_pause(start):
    start(500.0)
    busy(0.2)
    sampler.stop()
    before = sampler.totals()
    busy(0.3)  # nobody looks
    sampler.start(500.0)
    busy(0.2)
    sampler.stop()
    after = sampler.totals()
    assert before["cpu"] > 0.1
    assert 0.1 < after["cpu"] - before["cpu"] < 0.29


def test_code_that_is_made_and_freed_all_the_time(start):
    start(1000.0)
    end = time.thread_time() + 2.0
    count = 0
    while time.thread_time() < end:
        source = f"\n\n\ndef made_{count}():\n    return sum(range(2000))\nfor _ in range(5): made_{count}()\n"
        space = {}
        exec(compile(source, f"<made {count % 7}>", "exec"), space)
        del space
        count += 1
    totals = sampler.totals()
    sampler.stop()
    seen = {name: total for name, total in names_seen().items() if name[0].startswith("<made")}
    assert seen
    assert all(first_line == (1 if name == "<module>" else 4) for _, name, first_line in seen), seen
    assert totals["samples"] > 20


@pytest.mark.slow
def test_an_address_with_a_new_tenant_is_noticed(start):
    start(1000.0)
    work = "\nstarted = time.thread_time()\nwhile time.thread_time() - started < 0.15: pass\n"
    for name in ("first", "second", "third", "fourth"):
        exec(compile(work, f"<{name}>", "exec"), {"time": time})
    sampler.stop()
    seen = {file: total for (file, _, _), total in names_seen().items()}
    for name in ("first", "second", "third", "fourth"):
        assert seen.get(f"<{name}>", 0.0) > 0.05, seen


def test_two_live_objects_with_the_same_contents_are_one(start):
    source = "def twin(go):\n    return go()\n"
    one, other = {}, {}
    exec(compile(source, "<twin>", "exec"), one)
    exec(compile(source, "<twin>", "exec"), other)
    assert one["twin"].__code__ is not other["twin"].__code__
    start(500.0)
    one["twin"](lambda: other["twin"](lambda: busy(0.4)))
    totals = sampler.totals()
    sampler.stop()
    assert totals["rejected"] < 0.5 * totals["samples"]
    assert names_seen()["<twin>", "twin", 1] > 0.2


@pytest.mark.parametrize("name", ["ascii", "größe", "данные", "数据", "🙂🙂"])
def test_names_of_every_width_are_copied(start, tmp_path, name):
    path = tmp_path / f"{name}.py"
    identifier = name if name.isidentifier() else "plain"
    path.write_text(f"def {identifier}(go):\n    return go()\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("named", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    start(1000.0)
    getattr(module, identifier)(lambda: busy(0.2))
    sampler.stop()
    assert (str(path), identifier, 1) in names_seen()


def test_a_name_with_half_a_surrogate_is_copied(start):
    start(1000.0)
    exec(compile("go()", "<\udc80>", "exec"), {"go": lambda: busy(0.2)})
    sampler.stop()
    assert ("<\udc80>", "<module>", 1) in names_seen()


def down(depth, go):
    return go() if depth == 0 else down(depth - 1, go)


def test_deep_recursion(start):
    start(1000.0)
    down(900 - len(list(frames())), lambda: busy(0.4))
    totals = sampler.totals()
    sampler.stop()
    assert names_seen()[__file__, "down", down.__code__.co_firstlineno] > 0.2
    assert totals["rejected"] < 0.5 * totals["samples"]


def frames():
    frame = sys._getframe()
    while frame is not None:
        yield frame
        frame = frame.f_back


@pytest.mark.slow
def test_recursion_deeper_than_the_sampler_walks():
    out = run("""
        import sys, time
        from codedag.instrument import _sampler as sampler
        sys.setrecursionlimit(20000)
        def down(depth):
            if depth: return down(depth - 1)
            started = time.thread_time()
            while time.thread_time() - started < 0.3: pass
        sampler.start(500.0)
        down(9000)
        sampler.stop()
        totals = sampler.totals()
        print(totals["samples"] > 3, totals["cpu"] > 0.15)
    """)
    assert out.split() == ["True", "True"]


@pytest.mark.slow
def test_ten_thousand_short_threads():
    out = run("""
        import threading, time
        from codedag.instrument import _sampler as sampler
        sampler.start(1000.0, 1.0)
        def work():
            sum(range(2000))
        before = time.process_time()
        for _ in range(1000):
            threads = [threading.Thread(target=work) for _ in range(10)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
        used = time.process_time() - before
        sampler.stop()
        totals = sampler.totals()
        print(0.0 < totals["cpu"] <= 1.2 * used, totals["samples"] > 3, threading.active_count())
    """)
    assert out.split() == ["True", "True", "1"]


def test_all_threads_count(start):
    start(500.0)

    def one():
        busy(0.3)

    def two():
        busy(0.6)

    threads = [threading.Thread(target=one), threading.Thread(target=two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sampler.stop()
    seen = {name.rpartition(".")[2]: total for (file, name, _), total in names_seen().items() if file == __file__}
    assert 1.2 < seen["two"] / seen["one"] < 3.4, seen


def test_an_excluded_thread_is_the_samplers_own(start):
    start(500.0)

    def ours():
        sampler.exclude(threading.get_native_id())
        time.sleep(0.05)
        busy(0.4)

    thread = threading.Thread(target=ours)
    thread.start()
    thread.join()
    sampler.stop()
    assert sampler.totals()["own"] > 0.2
    assert not [name for _, name, _ in names_seen() if name.endswith("ours")]


def test_a_forked_child_samples_itself_and_the_parent_goes_on():
    out = run("""
        import os, sys, time
        from codedag.instrument import _sampler as sampler
        def busy(seconds):
            started = time.thread_time()
            while time.thread_time() - started < seconds: pass
        os.register_at_fork(before=sampler.stop)
        sampler.start(500.0)
        busy(0.2)
        for _ in range(5):
            child = os.fork()
            if not child:
                assert not sampler.is_running()
                assert sampler.totals()["cpu"] == 0.0
                sampler.start(500.0)
                busy(0.2)
                sampler.stop()
                os._exit(0 if 0.1 < sampler.totals()["cpu"] < 0.3 and sampler.totals()["samples"] > 3 else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert sampler.start_soon(500.0)
            busy(0.05)
            assert sampler.is_running()
        sampler.stop()
        print(sampler.totals()["cpu"] > 0.3)
    """)
    assert out.split() == ["True"]


def test_a_fork_that_nobody_announced_does_not_hang_the_child():
    """Extensions may fork without Python's hooks; here the hook is left out."""
    run("""
        import os, time, warnings
        warnings.simplefilter("ignore")
        from codedag.instrument import _sampler as sampler
        sampler.start(2000.0)
        for _ in range(50):
            child = os.fork()
            if not child:
                sampler.totals(); sampler.loops(); sampler.functions(10)
                sampler.start(500.0); sampler.stop()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    """)


def test_a_process_may_end_while_it_is_sampled():
    for ending in ("pass", "import os; os._exit(0)", "import sys; sys.exit(0)"):
        run(f"""
            from codedag.instrument import _sampler as sampler
            sampler.start(5000.0)
            sum(range(10**6))
            {ending}
        """)


def test_signals_go_to_the_program():
    out = run("""
        import os, signal, time
        from codedag.instrument import _sampler as sampler
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        sampler.start(1000.0)
        for _ in range(100):
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.001)
        sampler.stop()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        print(len(seen) >= 90, sorted(blocked))
    """)
    assert out.split() == ["True", "[]"]


def chain_of(length, number):
    """A function that goes through as many others as said before it calls its argument."""
    calls = [f"def f{i}(go): return f{i + 1}(go)\n" for i in range(length)]
    space = {}
    exec(compile("".join(calls) + f"def f{length}(go): return go()\n", f"<chain {number}>", "exec"), space)
    return space["f0"]


def test_full_tables_lose_only_what_is_small(start):
    chains = [chain_of(700, number) for number in range(8)]
    start(1000.0)
    busy(0.4)
    for chain in chains:
        chain(lambda: busy(0.1))
    sampler.stop()
    seen = names_seen()
    assert sampler.totals()["evictions"] > 0
    assert len(seen) <= 4096
    assert seen[__file__, "busy", busy.__code__.co_firstlineno] > 0.7


def test_the_open_files_stay_as_they_are(start):
    before = sorted(os.listdir("/proc/self/fd"))
    start(1000.0)
    busy(0.1)
    sampler.stop()
    assert sorted(os.listdir("/proc/self/fd")) == before
