"""Functions of installed packages opened in real programs: the compiler process, pickled code, exit and output."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

PROGRAM = """
import select, sys, time
from pathlib import Path
from codedag.instrument.compiler_process import CompilerProcess
from codedag.instrument.opening import Opened
from codedag.instrument.program import Program
from codedag.ir.verdict import Code, No

def opened(program, wanted, compiler, seconds=250):
    until = time.monotonic() + seconds
    while True:
        found = program.open(wanted, compiler)
        if not any(isinstance(each, No) and each.code is Code.NOT_READY for each in found.values()):
            return found
        assert time.monotonic() < until, found
        if compiler.descriptor() >= 0:
            select.select([compiler.descriptor()], [], [], 0.1)
        compiler.poll()
"""


def _run(tmp_path: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM + textwrap.dedent(body))
    variables = {**os.environ, "CODEDAG_HOME": str(tmp_path / "home"), **environment}
    command = [sys.executable, script]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)


def test_a_function_of_an_installed_package_is_opened_by_the_compiler_process(tmp_path: Path) -> None:
    pytest.importorskip("rich")
    done = _run(tmp_path, """
        import rich.text, sys
        path = rich.text.__file__
        before = {owner: vars(rich.text.Text)[owner].__code__ for owner in ("append", "truncate")}
        expected = rich.text.Text("some words").append(" and more").plain
        program, compiler = Program([Path("/nowhere")]), CompilerProcess(only_idle=False)
        found = opened(program, [(path, {"Text.append", "Text.truncate", "Text.nowhere"})], compiler)
        assert isinstance(found[path, "Text.append"], Opened), found
        assert found[path, "Text.nowhere"].code is Code.NO_FUNCTION
        assert rich.text.Text.append.__code__ is not before["append"]
        assert rich.text.Text("some words").append(" and more").plain == expected
        program.restore()
        assert all(vars(rich.text.Text)[owner].__code__ is code for owner, code in before.items())
        second = Program([Path("/nowhere")])
        second.opening._searched = program.opening._searched
        found = second.open([(path, {"Text.append"})], CompilerProcess({}))  # from the cache
        assert isinstance(found[path, "Text.append"], Opened)
        print("done")
    """)  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)


def test_a_program_that_ends_leaves_no_compiler_process(tmp_path: Path) -> None:
    done = _run(tmp_path, """
        compiler = CompilerProcess(only_idle=False)
        ticket = compiler.ask("digests", __file__, "")
        while not ticket.is_answered:
            select.select([compiler.descriptor()], [], [], 1)
            compiler.poll()
        import os, socket
        print(os.environ["MARK"])
    """, MARK="codedag-mark-of-a-test")  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("codedag-mark-of-a-test\n", "", 0)
    for _ in range(600):
        if not _processes_with("codedag-mark-of-a-test"):
            return
        time.sleep(0.05)
    pytest.fail("the compiler process is still there")


def _processes_with(mark: str) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in place.read_bytes().decode(errors="replace") and place.parent.name != str(os.getpid()):
                found.append(place.parent.name)
        except OSError:
            continue
    return found


def test_a_program_with_a_default_sigpipe_survives_the_end_of_the_process(tmp_path: Path) -> None:
    done = _run(tmp_path, """
        import os, signal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        compiler = CompilerProcess(only_idle=False)
        ticket = compiler.ask("digests", __file__, "")
        while not ticket.is_answered:
            select.select([compiler.descriptor()], [], [], 1)
            compiler.poll()
        signal.pidfd_send_signal(compiler._pid_handle, signal.SIGKILL)
        time.sleep(0.5)
        tickets = [compiler.ask("digests", __file__, "") for _ in range(3)]
        while not all(ticket.is_answered for ticket in tickets):
            compiler.poll()
        print([type(ticket.answer).__name__ for ticket in tickets])
        compiler.close()
    """)  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("['dict', 'dict', 'dict']\n", "", 0)


@pytest.mark.parametrize("library", ["cloudpickle", "joblib"])
def test_opened_functions_are_sent_to_other_processes(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library)
    source = "def work(n):\n    out = []\n    for i in range(n):\n        out.append(i * 2)\n    return out\n"
    (tmp_path / "helping.py").write_text(source)
    sending = {
        "cloudpickle": """
            import cloudpickle, subprocess
            cloudpickle.register_pickle_by_value(helping)
            data = cloudpickle.dumps(helping.work)
            code = "import sys, pickle; print(pickle.loads(sys.stdin.buffer.read())(4))"
            out = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True, check=True).stdout
            print(out.decode().strip())
        """,
        "joblib": """
            import joblib
            print(joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(helping.work)(n) for n in (4, 4))[1])
        """,
    }
    done = _run(tmp_path, """
        import helping
        program = Program([Path(__file__).parent])
        found = program.open([(helping.__file__, {"work"})])
        assert isinstance(found[helping.__file__, "work"], Opened), found
    """ + textwrap.dedent(sending[library]).replace("\n", "\n        "))  # fmt: skip
    assert done.stdout == "[0, 2, 4, 6]\n", done.stderr


def test_functions_compiled_by_numba_are_refused_and_work(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    (tmp_path / "helping.py").write_text(
        "import numba\n@numba.njit\ndef fast(x):\n    return slow(x) + 1\n@numba.njit\ndef slow(x):\n    return x * 2\n"
        "def free(x):\n    return x + 1\n"
    )
    done = _run(tmp_path, """
        import helping
        program = Program([Path(__file__).parent])
        found = program.open([(helping.__file__, {"fast", "slow", "free"})])
        print(sorted((owner, type(each).__name__) for (_, owner), each in found.items()), helping.fast(3))
    """)  # fmt: skip
    assert done.stdout == "[('fast', 'No'), ('free', 'Opened'), ('slow', 'No')] 7\n", done.stderr


def test_functions_that_torch_compile_reads_are_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "model.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        return x + 1\n"
        "def free(x):\n    return x + 1\n"
    )
    (tmp_path / "uses.py").write_text("import torch, model\nf = torch.compile(model.Net(), backend='eager')\n")
    done = _run(tmp_path, """
        import model, uses
        program = Program([Path(__file__).parent])
        found = program.open([(model.__file__, {"Net.forward", "free"})])
        print(sorted((owner, type(each).__name__) for (_, owner), each in found.items()))
    """)  # fmt: skip
    assert done.stdout == "[('Net.forward', 'No'), ('free', 'Opened')]\n", done.stderr


def test_a_debugger_and_coverage_do_not_change_what_is_opened(tmp_path: Path) -> None:
    (tmp_path / "helping.py").write_text("def work(n):\n    y = n + 1\n    return y * 2\n")
    done = _run(tmp_path, """
        import helping
        lines = []
        def trace(frame, event, arg):
            if event == "line" and frame.f_code.co_name == "work":
                lines.append(frame.f_lineno)
            return trace
        sys.settrace(trace)
        plain = helping.work(3)
        program = Program([Path(__file__).parent])
        found = program.open([(helping.__file__, {"work"})])
        assert isinstance(found[helping.__file__, "work"], Opened), found
        assert helping.work(3) == plain
        sys.settrace(None)
        print(lines)
    """)  # fmt: skip
    assert done.stdout == "[2, 3, 2, 3]\n", done.stderr
