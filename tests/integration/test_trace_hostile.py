"""`codedag trace` on programs that are hard on it: the program must not notice, and nothing may be lost in silence."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("numpy")

START = """
import numpy as np
x = np.sqrt(np.arange(9.0))
print((x + 1).sum(), flush=True)
"""


def _open(reason: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, reason=reason)


def _both(plain, codedag, tmp_path, source, *args, command="trace"):
    """(plain, traced): exit code, stdout and stderr of both, without our own lines."""
    (tmp_path / "s.py").write_text(START + textwrap.dedent(source))
    one = plain("s.py", *args)
    (tmp_path / "new").is_dir() and (tmp_path / "new").rmdir()
    two = codedag(command, "-o", tmp_path / "run", "s.py", *args)
    theirs = "".join(line for line in two.stderr.splitlines(True) if not line.startswith("codedag: "))
    return (one.returncode, one.stdout, one.stderr), (two.returncode, two.stdout, theirs)


def _calls(tmp_path, name):
    graph = json.loads((tmp_path / "run" / "graph.json").read_bytes())
    return sum(op["count"] for op in graph["ops"] if op["name"] == name)


SAME = {
    "exit with words": "import sys; sys.exit('words')",
    "exit code beyond a byte": "import sys; sys.exit(259)",
    "an own end": "class End(BaseException): pass\nraise End(1)",
    "a group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "an error that cannot be shown": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
    "own hook for errors": "import sys\nsys.excepthook = lambda *a: print(a[0], a[2].tb_frame.f_code.co_name)\n1/0",
    "abort": "import os; os.abort()",
    "terminated": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "left without ceremony": "import os; os._exit(7)",
    "replaced": "import os, sys\nif len(sys.argv) < 2: os.execv(sys.executable, [sys.executable, 's.py', 'again'])",
    "stdout closed": "import sys; sys.stdout.close()",
    "stderr closed": "import sys; sys.stderr.close()",
    "descriptors closed": "import os; os.closerange(1, 64)",
    "no streams": "import sys; sys.stdout = sys.stderr = None",
    "own folder removed": "import os, shutil; os.mkdir('d'); os.chdir('d'); shutil.rmtree(os.getcwd()); np.exp(x); 1/0",
    "child not waited for": "import os\nif os.fork() == 0: np.exp(x)",
    "threads at the end": """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.2), print(np.exp(x).sum()))).start()""",
    "endless daemon threads": """
        import threading
        def work():
            while True: np.exp(x)
        for _ in range(3): threading.Thread(target=work, daemon=True).start()""",
    "signal handlers": """
        import os, signal
        signal.signal(signal.SIGUSR1, lambda s, f: print(s, f.f_code.co_name, f.f_lineno))
        os.kill(os.getpid(), signal.SIGUSR1)""",
    "settrace": """
        import sys
        seen = []
        def f(a):
            b = a + 1
            return np.exp(b)
        def tracer(frame, event, arg):
            if frame.f_code is f.__code__: seen.append((frame.f_lineno, event))
            return tracer
        sys.settrace(tracer); f(x); sys.settrace(None)
        print(seen)""",
    "objects die on time": """
        import sys, weakref
        class A:
            def __del__(self): print("del")
        a, b = A(), np.exp(x)
        w = weakref.ref(b, lambda r: print("gone"))
        print(sys.getrefcount(a), sys.getrefcount(b))
        del b
        a = None
        print(w())""",
    "generated code": "exec(compile('y = np.exp(x)\\nraise ValueError(y.sum())', 'gen.py', 'exec'))",
    "standard names replaced": """
        import json, time
        time.time = time.monotonic = json.dumps = None
        print(np.exp(x).sum())""",
    "disk full": """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        np.exp(x)""",
}


@pytest.mark.parametrize("name", SAME)
def test_program_does_not_notice(plain, codedag, tmp_path, name):
    one, two = _both(plain, codedag, tmp_path, SAME[name])
    assert two == one


@pytest.mark.parametrize("command", ["trace", "run"])
def test_not_even_builtins_are_needed_to_leave_as_the_program_did(plain, codedag, tmp_path, command):
    one, two = _both(plain, codedag, tmp_path, "import builtins\nbuiltins.isinstance = None", command=command)
    assert two == one


MOCKED = ("stat", "open", "write", "getpid")
#: Whatever goes wrong on our side after the program, its exit code is its own.
OURS_FAILS = {
    "no temporary files": "import tempfile\ntempfile.mkstemp = None",
    "os.path.join replaced": "import os\nos.path.join = None",
    "no more open files": "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    "another user": "import os\nif os.geteuid() == 0: os.setuid(65534)\nelse: import tempfile; tempfile.mkstemp = None",
    "another root": "import os\nif os.geteuid() == 0: os.mkdir('new'); os.chroot('new')",
    "no imports": "import sys\nsys.meta_path = sys.path = None",
    **{
        f"os.{name} replaced": f"import os\nos.{name} = None" for name in ("replace", "stat", "open", "write", "getpid")
    },
    **{
        f"os.{name} mocked": f"import os\nos.{name} = lambda *a, **k: 7" for name in ("stat", "open", "write", "getpid")
    },
    "open replaced": "import builtins, io\nbuiltins.open = io.open = None",
    "clocks replaced": "import time\ntime.perf_counter = time.time = time.perf_counter_ns = None",
    "signals replaced": "import os, signal\nsignal.getsignal = signal.valid_signals = os.path.join = None",
}


@pytest.mark.parametrize("command", ["trace", "run"])
@pytest.mark.parametrize("name", OURS_FAILS)
def test_our_failure_is_not_the_programs(plain, codedag, tmp_path, command, name):
    (tmp_path / "run").mkdir(mode=0o700)
    one, two = _both(plain, codedag, tmp_path, f"{OURS_FAILS[name]}\nraise SystemExit(9)", command=command)
    assert two == one


@pytest.mark.parametrize("name", ["no temporary files", "os.open mocked", "os.getpid mocked", "open replaced"])
def test_mocks_that_a_program_leaves_do_not_cost_the_run(plain, codedag, tmp_path, name):
    _both(plain, codedag, tmp_path, OURS_FAILS[name])
    assert "numpy.sqrt" in json.dumps(json.loads((tmp_path / "run" / "graph.json").read_bytes()))
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["status"] == "ok"


@pytest.mark.parametrize("name", ["no more open files", "another user"])
def test_a_run_that_cannot_be_written_is_said(codedag, tmp_path, name):
    (tmp_path / "run").mkdir(mode=0o700)
    (tmp_path / "s.py").write_text(START + OURS_FAILS[name])
    said = codedag("trace", "-o", tmp_path / "run", "s.py").stderr
    assert "the run could not be written: cannot write" in said
    assert "codedag: operation " in said  # what was recorded is shown all the same


def test_own_profile_sees_c_functions(plain, codedag, tmp_path):
    source = """
        import cProfile, pstats
        p = cProfile.Profile()
        p.enable()
        sorted([3, 1])
        p.disable()
        print(sorted(k[2] for k in pstats.Stats(p).stats))"""
    one, two = _both(plain, codedag, tmp_path, source)
    assert two == one


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="the frames of the launcher are below the program's")
@pytest.mark.parametrize("command", ["trace", "run"])
@pytest.mark.parametrize(
    "source",
    [
        "import traceback; traceback.print_stack()",
        "import warnings; warnings.warn('deep', stacklevel=2)",
        "import sys; print(sys._getframe().f_back)",
        "n = 0\ndef f():\n    global n\n    n += 1\n    f()\ntry: f()\nexcept RecursionError: print(n)",
        "import sys\nsys.setrecursionlimit(300)\ndef f(n=0):\n    try: return f(n + 1)\n"
        "    except RecursionError: return n\nprint(f())\nraise KeyError(1)",
    ],
    ids=["print_stack", "stacklevel", "f_back", "recursion depth", "another limit"],
)
def test_bottom_of_the_stack(plain, codedag, tmp_path, source, command):
    one, two = _both(plain, codedag, tmp_path, source, command=command)
    assert two == one


@_open("a file that cannot be compiled shows our frames as well")
def test_expression_too_deep_for_python(plain, codedag, tmp_path):
    one, two = _both(plain, codedag, tmp_path, "y = " + "+".join(["x"] * 4000))
    assert two == one


@pytest.mark.parametrize("command", ["trace", "run"])
@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"mine/graph.json": '{"my": "graph"}'}, "is not a run"),
        ({"mine/run.json": '{"format": "mine"}'}, "is not a run"),
        ({"mine/.hidden": ""}, "is not a run"),
        ({"mine": "text"}, "is a file"),
    ],
    ids=["graph", "run", "hidden", "file"],
)
def test_foreign_files_are_not_touched(codedag, tmp_path, command, files, words):
    (tmp_path / "s.py").write_text(START)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    done = codedag(command, "-o", "mine", "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Name a new or an empty directory" in done.stderr
    left = {str(p.relative_to(tmp_path)): p.read_text() for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"s.py": START, **files}


@pytest.mark.parametrize("command", ["trace", "run"])
def test_empty_output_is_refused(codedag, tmp_path, command):
    (tmp_path / "s.py").write_text(START)
    done = codedag(command, "-o", "", "s.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert "empty" in done.stderr
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["s.py"]


def test_an_earlier_run_is_replaced_whole(codedag, tmp_path):
    (tmp_path / "s.py").write_text(START)
    assert codedag("run", "-o", "run", "s.py").returncode == 0
    (tmp_path / "run" / "records").mkdir()
    (tmp_path / "run" / "records" / "1.json").write_text("{}")
    (tmp_path / "run" / "picture.svg").write_text("mine")
    assert (tmp_path / "run" / "report.json").exists()
    assert codedag("trace", "-o", "run", "s.py").returncode == 0
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == [
        "costs.json", "events", "graph.json", "picture.svg", "run.json", "samples",
    ]  # fmt: skip


@_open("workers that a pool replaces or terminates lose what they did last, and nothing says so")
def test_workers_of_a_pool_lose_nothing(codedag, tmp_path):
    (tmp_path / "s.py").write_text(
        "import multiprocessing, numpy as np\n"
        "def f(i): return np.sqrt(np.full(4, i)).sum()\n"
        "if __name__ == '__main__':\n"
        "    for _ in range(12):\n"
        "        with multiprocessing.Pool(2) as pool: pool.map(f, range(4))\n"
    )
    codedag("trace", "-o", tmp_path / "run", "s.py")
    assert _calls(tmp_path, "numpy.sqrt") == 48


@_open("what a program did in its last second is lost by os._exit and os.execv, though both are calls that are seen")
@pytest.mark.parametrize("end", ["os._exit(0)", "os.execv(sys.executable, [sys.executable, '-c', ''])"])
def test_leaving_without_ceremony_keeps_the_graph(codedag, tmp_path, end):
    (tmp_path / "s.py").write_text(START + f"import os, sys\n{end}\n")
    codedag("trace", "-o", tmp_path / "run", "s.py")
    assert "numpy.sqrt" in codedag("view", tmp_path / "run").stdout


def test_view_says_that_the_graph_was_not_written(plain, codedag, tmp_path):
    _both(plain, codedag, tmp_path, SAME["disk full"])
    shown = codedag("view", tmp_path / "run").stdout
    assert "did not get to its end" not in shown
    assert "numpy.arange" in shown, "what was kept before the disk was full"
    assert "next: codedag trace s.py\n" in shown


def test_view_says_that_the_graph_is_missing(plain, codedag, tmp_path):
    _both(plain, codedag, tmp_path, "")
    (tmp_path / "run" / "graph.json").unlink()
    shown = codedag("view", tmp_path / "run").stdout
    assert "no graph: graph.json could not be written when the program ended, or was removed since" in shown
    assert "removed since" in json.loads(codedag("view", tmp_path / "run", "--json").stdout)["no_graph"]


@pytest.mark.parametrize("how", ["pytest", "exec", "profiler", "runpy"])
def test_code_that_was_not_looked_into_is_named(codedag, tmp_path, how):
    (tmp_path / "test_s.py").write_text(START + "def test_a(): assert np.exp(x).sum() > 0\n")
    (tmp_path / "s.py").write_text("exec(compile(open('test_s.py').read(), 'test_s.py', 'exec'))\n")
    (tmp_path / "r.py").write_text("import runpy\nkept = runpy.run_path('test_s.py')\n")
    args = {
        "pytest": ("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_s.py"),
        "exec": ("s.py",),
        "profiler": ("-m", "cProfile", "test_s.py"),
        "runpy": ("r.py",),
    }
    done = codedag("trace", "-o", tmp_path / "run", *args[how])
    assert done.returncode == 0
    ours = [line for line in done.stderr.splitlines() if line.startswith("codedag: ")]
    assert any("test_s.py" in line and "looked into" in line for line in ours)
    if how in ("pytest", "profiler"):
        assert any(f"`{' '.join(args[how])}`" in line and "--drill PACKAGE" in line for line in ours)


@pytest.mark.parametrize("source", [b"def f(:\n", b"x = '\xff'\n", b"x = 1\0\n"], ids=["syntax", "bytes", "null"])
def test_a_script_that_python_cannot_compile_is_said_to_be_one(codedag, tmp_path, source):
    (tmp_path / "s.py").write_bytes(source)
    done = codedag("trace", "-o", tmp_path / "run", "s.py")
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "codedag: s.py was not looked into: Python could not compile it" in done.stderr
    assert "--drill" not in done.stderr


def test_code_that_was_looked_into_is_not_called_passed_over(codedag, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package.part import f\n")
    (tmp_path / "package" / "part.py").write_text("def f(x): return x + 1\n")
    (tmp_path / "link.py").symlink_to(tmp_path / "package" / "part.py")
    (tmp_path / "s.py").write_text(START + "import collections, dataclasses, link, package\nprint(package.f(x))\n")
    for args in (["s.py"], ["-m", "s"]):
        assert "looked into" not in codedag("trace", "-o", tmp_path / "run", *args).stderr


def test_odd_file_name(codedag, tmp_path):
    (tmp_path / "a\nb.py").write_text(START)
    done = codedag("trace", "-o", tmp_path / "run", "a\nb.py")
    assert all(line.startswith("codedag: ") for line in done.stderr.splitlines())
    shown = codedag("view", tmp_path / "run").stdout
    assert shown.startswith("'a\\nb.py'  (trace, ")  # as a shell takes it
    assert "  a\\nb.py:" in shown


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("command", [["view", "run"], ["view", "run", "--json"], ["doctor"]], ids=" ".join)
def test_results_into_a_full_device(codedag, tmp_path, command):
    (tmp_path / "s.py").write_text(START)
    codedag("trace", "-o", tmp_path / "run", "s.py")
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "codedag", *command]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=600)
    assert done.returncode == 2
    assert done.stderr.startswith("codedag: error: cannot write the output: No space left on device\n")
    assert "Traceback" not in done.stderr


def test_results_that_nobody_reads(codedag, tmp_path):
    (tmp_path / "s.py").write_text(START)
    codedag("trace", "-o", tmp_path / "run", "s.py")
    command = [sys.executable, "-m", "codedag", "view", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as view:
        view.stdout.close()
        assert view.stderr.read() == b""
