"""A program under `codedag run` begins and ends as under `python`: same names, output, tracebacks and exit status."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

SHOW = """
    import sys, __main__
    print(list(globals()), __name__, __file__, __spec__ and __spec__.name, __package__, __doc__, __cached__)
    print(type(__builtins__), sys.argv, sys.path[0], len(sys.path), __main__.__dict__ is globals(), __main__)
"""
POOL = """
    import multiprocessing as m
    class K:
        def __init__(self, n): self.n = n
    def work(k): return k.n * 2, __name__
    if __name__ == "__main__":
        m.set_start_method("{}")
        with m.Pool(2) as p: print(p.map(work, [K(i) for i in range(4)]))
        q = m.Queue(); p = m.Process(target=q.put, args=(5,)); p.start(); print(q.get()); p.join(); print(p.exitcode)
"""
EXIT = "import sys\nprint('x')\nsys.exit({})"
HOOK = "import sys\ndef h(*a): {}\nsys.excepthook = h\n1/0"
Files = dict[str, str | bytes]
Outcome = tuple[int, bytes, bytes]

CASES: dict[str, Files] = {
    "names of __main__": {"a.py": SHOW},
    "a traceback through modules, chained": {
        "a.py": """
            import b
            def f():
                try:
                    b.g(1)
                except KeyError as e:
                    raise ValueError("x") from e
            f()
        """,
        "b.py": """
            def g(x):
                try:
                    return [1][x
                               + 1]
                except IndexError:
                    return {}[x]
        """,
    },
    "a syntax error in a module": {"a.py": "import b", "b.py": "def f(:\n  pass"},
    "a late syntax error in a module": {"a.py": "import b", "b.py": "x = 1\nreturn 5"},
    "an error while a module is imported": {
        "a.py": "import b",
        "b.py": "import c",
        "c.py": "x = 1\nraise RuntimeError(x)",
    },
    "a module that is not there": {"a.py": "import nothere.x"},
    "a name that is not there": {"a.py": "from b import zz", "b.py": ""},
    "a syntax error": {"a.py": "x = (\n"},
    "a late syntax error": {"a.py": "x = 1\nreturn 5\n"},
    "null bytes": {"a.py": b'x = "\x00"'},
    "another encoding": {"a.py": b'# coding: latin-1\nprint(ascii("\xe9"))'},
    "a wrong encoding": {"a.py": b'print("\xe9")'},
    "an unknown encoding": {"a.py": b"# coding: nothing\nprint(1)"},
    "a byte order mark and carriage returns": {
        "a.py": b'\xef\xbb\xbfprint("bom")\r\nfor i in range(2):\r\n    print(i)\r\n1/0\r\n'
    },
    "standard input": {"a.py": "import sys\nprint(input())\nfor line in sys.stdin: print(line.strip() * 2)"},
    "a script that removes itself": {"a.py": "import os\nos.remove(__file__)\ndef f(): return 1/0\nf()"},
    "exit functions and threads": {
        "a.py": """
            import atexit, threading, time
            atexit.register(print, "exit 1"); atexit.register(print, "exit 2")
            def w():
                time.sleep(1.5); print("thread done")
            threading.Thread(target=w).start()
            print("main done")
        """
    },
    "failures in a thread and in the program": {
        "a.py": """
            import atexit, threading, time
            atexit.register(print, "exit 1")
            def w():
                time.sleep(1.5); print("thread done"); [][1]
            threading.Thread(target=w, name="T").start()
            raise ValueError("main")
        """
    },
    "os._exit": {"a.py": "import os\nprint('lost')\nos._exit(7)"},
    "abort": {"a.py": "import os\nprint('kept', flush=True)\nos.abort()"},
    "KeyboardInterrupt": {
        "a.py": "import atexit\natexit.register(print, 'bye')\nprint('before')\nraise KeyboardInterrupt"
    },
    "SIGINT": {"a.py": "import os, signal, time\nprint('before')\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)"},
    "SIGTERM": {"a.py": "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(5)"},
    "a hook for exceptions": {"a.py": HOOK.format("print('hook', a[0], a[2].tb_lineno)")},
    "a hook that fails": {"a.py": HOOK.format("raise KeyError('in hook')")},
    "a hook that exits": {"a.py": HOOK.format("sys.exit(9)")},
    "no stderr": {"a.py": "import sys\nsys.stderr = None\nsys.exit('text')"},
    "a closed stdout": {"a.py": "import sys\nprint('x')\nsys.stdout.close()"},
    "spawn": {"a.py": POOL.format("spawn")},
    "fork": {"a.py": POOL.format("fork")},
    "forkserver": {"a.py": POOL.format("forkserver")},
    "a forked child that ends by itself": {
        "a.py": """
            import os
            pid = os.fork()
            if pid == 0:
                print("child", flush=True)
                raise SystemExit(4)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    },
    "warnings appear as often": {
        "a.py": "import warnings\nfor i in range(3):\n    warnings.warn('w')\n    import b\nx = 1 is 1\n",
        "b.py": "y = 'a' is 'b'",
    },
    "sources of modules": {
        "a.py": """
            import inspect, importlib, b
            print(inspect.getsource(b.f), b.__spec__.name, b.__spec__.cached, b.__loader__.get_source("b"))
            importlib.reload(b)
            print(b.f(2))
        """,
        "b.py": "def f(x):\n    return x[0] if x == 3 else x * 2",
    },
    "pickled classes": {
        "a.py": "import pickle\nclass K: pass\nprint(pickle.dumps(K()), pickle.loads(pickle.dumps(K)) is K)"
    },
    **{
        f"exit {e}": {"a.py": EXIT.format(e)}
        for e in ("", "None", "3", "300", "-1", "2**70", "'text'", "True", "(1, 2)")
    },
}
TARGETS: dict[str, tuple[Files, list[str]]] = {
    "arguments": ({"sub/a.py": SHOW}, ["sub/a.py", "-v", "--x=1", "--", "-m"]),
    "a directory": ({"d/__main__.py": SHOW + "    import h", "d/h.py": "print(__file__)\n1/0"}, ["d", "1"]),
    "a module of a package": (
        {
            "p/__init__.py": "print('init')",
            "p/m.py": SHOW + "    from . import o\n    o.f()",
            "p/o.py": "def f(): {}[1]",
        },
        ["-m", "p.m", "z"],
    ),
    "a package": ({"p/__init__.py": "", "p/__main__.py": SHOW}, ["-m", "p", "z"]),
    "a module with a syntax error": ({"m.py": "def f(:\n"}, ["-m", "m"]),
}


def _write(directory: Path, files: Files) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())


def _run(command: list[str], directory: Path) -> Outcome:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    done = subprocess.run(command, cwd=directory, input=b"first\nsecond\n", capture_output=True, env=env, timeout=600)
    return done.returncode, done.stdout, done.stderr


def _both(directory: Path, files: Files, arguments: list[str]) -> tuple[Outcome, Outcome]:
    results = []
    for program in ([sys.executable], [sys.executable, "-m", "codedag", "-q", "run"]):
        _write(directory, files)
        results.append(_run([*program, *arguments], directory))
    return results[0], results[1]


@pytest.mark.parametrize("name", CASES)
def test_a_script_runs_as_under_python(name: str, tmp_path: Path) -> None:
    plain, ours = _both(tmp_path / "w", CASES[name], ["a.py"])
    if name == "exit 2**70" and sys.version_info >= (3, 12):
        # Python leaves its own OverflowError set here; what it prints then depends on the modules that are loaded.
        plain, ours = plain[:2], ours[:2]
    assert ours == plain


@pytest.mark.parametrize("name", TARGETS)
def test_every_kind_of_target_runs_as_under_python(name: str, tmp_path: Path) -> None:
    plain, ours = _both(tmp_path / "w", *TARGETS[name])
    assert ours == plain


def test_an_archive_runs_as_under_python(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("__main__.py", textwrap.dedent(SHOW) + "1/0\n")
    plain = _run([sys.executable, "a.zip", "x"], tmp_path)
    assert _run([sys.executable, "-m", "codedag", "-q", "run", "a.zip", "x"], tmp_path) == plain


def test_ctrl_c_during_recording_reaches_the_program(tmp_path: Path) -> None:
    """A signal that arrives while the recorder runs belongs to the program: Ctrl-C and what its own handlers raise."""
    script = """
        import signal, numpy as np
        class Late(Exception): pass
        def late(*a): raise Late
        caught = 0
        for handler, kind in ((late, Late), (signal.default_int_handler, KeyboardInterrupt)):
            signal.signal(signal.SIGALRM, handler)
            for _ in range(30):
                signal.setitimer(signal.ITIMER_REAL, 0.004)
                try:
                    while True:
                        x = np.ones(3) + 1
                except kind:
                    caught += 1
        print(caught)
    """
    _write(tmp_path / "w", {"a.py": script})
    found = _run([sys.executable, "-m", "codedag", "-q", "run", "--observe-only", "a.py"], tmp_path / "w")
    assert found == (0, b"60\n", b"")
