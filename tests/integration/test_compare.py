"""`codedag compare`: its exit codes, what it compares, and that the comparison sees a difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from codedag.cli.compare import _allowed, _subject
from codedag.experiment.comparison import Bench, Subject
from codedag.experiment.digest import digest
from codedag.experiment.equality import passed_around
from codedag.ir import Move, Plan, RunInfo, save

# Programs that behave otherwise when CodeDAG optimises them: what no program of a user does, and a bug of ours would.
OPTIMISED = "'codedag.autopilot.sampled_run' in sys.modules"

TRAINING = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset
from codedag.experiment import MetricsLogger

class Numbers(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return torch.full((2,), float(index) + WRONG), index

torch.manual_seed(SEED)
model = torch.nn.Linear(2, 1)
optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
logger = MetricsLogger()
for batch, (x, index) in enumerate(DataLoader(Numbers(), batch_size=2, num_workers=WORKERS)):
    loss = model(x).sum()
    loss.backward()
    optimiser.step()
    logger.log_loss(0, batch, loss)
    logger.log_accuracy(0, batch, index.sum().item())
print("done")
"""


def _training(tmp_path, wrong="0", seed="1", workers="0"):
    script = tmp_path / "training.py"
    script.write_text(TRAINING.replace("WRONG", wrong).replace("SEED", seed).replace("WORKERS", workers))
    return script


SAME = (0, 3)  # the programs here end at once, so that CodeDAG can only cost


def _compare(*arguments, cwd, code=SAME):
    done = subprocess.run(
        [sys.executable, "-m", "codedag", "compare", *map(str, arguments)], cwd=cwd, capture_output=True, text=True
    )
    assert done.returncode in (code if isinstance(code, tuple) else (code,)), done.stdout + done.stderr
    return done


def _facts(*arguments, cwd, code=SAME):
    return json.loads(_compare("--json", *arguments, cwd=cwd, code=code).stdout)


def test_equal_programs_are_said_to_be_equal(tmp_path):
    (tmp_path / "plain.py").write_text("import sys\nprint('hello', *sys.argv[1:])\nopen('out.txt', 'w').write('x')\n")
    found = _compare("--rounds", "2", "--files", "*.txt", "plain.py", "--rounds", "7", cwd=tmp_path)
    assert "results: identical" in found.stdout
    assert "files: equal" in found.stdout
    assert found.stdout.startswith("plain.py --rounds 7: 2 rounds")
    assert "next: codedag run plain.py --rounds 7" in found.stdout.splitlines()[-1]


WRONG = f"""
import sys
wrong = {OPTIMISED}
model = type("Model", (), dict(coef_=[wrong]))
open("out.txt", "w").write(str(wrong))
print(1 if wrong else 2)
"""


def test_differences_end_with_1_and_each_is_named(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG)
    found = _facts("--rounds", "2", "--files", "*.txt", "--value", "model.coef_", "wrong.py", cwd=tmp_path, code=1)
    assert found["identical"] is False
    assert found["exit_code"] == 1
    same = {each["what"]: each["equal"] for each in found["compared"]}
    assert same == {"exit code": True, "stdout": False, "named values": False, "files": False}


def test_another_exit_code_is_a_difference(tmp_path):
    (tmp_path / "wrong.py").write_text(f"import sys\nsys.exit('mine' if {OPTIMISED} else 0)\n")
    found = _facts("--rounds", "2", "wrong.py", cwd=tmp_path, code=1)
    assert [each["what"] for each in found["compared"] if each["equal"] is False] == ["exit code"]
    notes = " ".join(found["notes"])
    assert "the last it said was: mine" in notes
    assert ("the program ends within" in notes) is (max(found["seconds"]["plain"]) < 2.0)


@pytest.mark.long
def test_slower_ends_with_3(tmp_path):
    (tmp_path / "slow.py").write_text(f"import sys, time\ntime.sleep(6 if {OPTIMISED} else 0)\n")
    found = _facts("--rounds", "3", "slow.py", cwd=tmp_path, code=3)
    assert found["identical"] is True
    assert found["verdict"] == "slower"
    assert found["ratio"]["high"] < 1
    assert len(found["seconds"]["plain"]) == len(found["seconds"]["optimised"]) == 3


@pytest.mark.parametrize(
    ("arguments", "script", "message"),
    [
        (["none.py"], "", "there is no script"),
        (["broken.py"], "raise ValueError('no data')", "ValueError: no data"),
        (["--timeout", "0.5", "broken.py"], "import time; time.sleep(60)", "within 0.5 s"),
        (["--plan", "none.json", "broken.py"], "", "none.json"),
        ([], "", "Name the script"),
        (["--value", "a b", "broken.py"], "", "--value a b"),
        (["--allow", "much", "broken.py"], "", "'much' is no class of equivalence"),
        (["--value", "x.y", "broken.py"], "x = 1", "no global variable x.y"),
    ],
)
def test_errors_end_with_2_and_say_what_to_do(tmp_path, arguments, script, message):
    (tmp_path / "broken.py").write_text(script)
    assert message in _compare(*arguments, cwd=tmp_path, code=2).stderr


def test_an_earlier_run_is_compared_where_it_ran(tmp_path):
    home = tmp_path / "there"
    home.mkdir()
    (home / "program.py").write_text("import os, sys\nprint(os.path.basename(os.getcwd()), sys.argv[1:])\n")
    run = [sys.executable, "-m", "codedag", "-q", "run", "-o", str(tmp_path / "run"), "program.py", "a b"]
    subprocess.run(run, cwd=home, check=True, capture_output=True)
    found = _facts("--budget", "0", tmp_path / "run", cwd=tmp_path)
    assert found["rounds"] == 2
    assert found["argv"] == ["program.py", "a b"]
    assert found["cwd"] == str(home)
    assert "come before it" in _compare(tmp_path / "run", "--rounds", "2", cwd=tmp_path, code=2).stderr
    (home / "program.py").unlink()
    home.rmdir()
    assert "no directory" in _compare(tmp_path / "run", cwd=tmp_path, code=2).stderr


@pytest.mark.parametrize(("moves", "has_plan"), [([], False), ([Move(kind="fuse", ops=[1])], True)])
def test_the_plan_of_a_run_is_used_if_it_changes_anything(tmp_path, moves, has_plan):
    run = tmp_path / "run"
    info = RunInfo(command="run", argv=["-m", "program", "x"], cwd=str(tmp_path), versions={}, status="ok")
    save(info, run / "run.json")
    times = {"makespan_seconds": 1.0, "lower_bound_seconds": 1.0, "baseline_seconds": 1.0}
    save(Plan(sources=[], placement=[], moves=moves, **times), run / "plan.json")
    found = _subject(False, (str(run),), None)
    assert found == Subject(("-m", "program", "x"), tmp_path, run / "plan.json" if has_plan else None)
    save(Plan(sources=[], placement=[], moves=[], **times), tmp_path / "other.json")
    assert _subject(False, (str(run),), str(tmp_path / "other.json")).plan == tmp_path / "other.json"


@pytest.mark.long
def test_a_module_is_compared_as_python_runs_it(tmp_path):
    (tmp_path / "program.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    assert _facts("--rounds", "2", "-m", "program", "x", cwd=tmp_path)["argv"] == ["-m", "program", "x"]


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.long)])
def test_a_watched_training_tells_its_batches_losses_and_weights(tmp_path, workers):
    torch = pytest.importorskip("torch")
    script = _training(tmp_path, workers=workers)
    ended, streams = Bench(Subject((str(script),), tmp_path), tmp_path).watched("plain")
    assert (ended.code, ended.output) == (0, "done\n")
    assert {kind: len(each) for kind, each in streams.items()} == {
        "batch": 3, "loss": 3, "value": 3, "log_loss": 3, "log_accuracy": 3, "weights": 1,
    }  # fmt: skip
    batches = [
        [torch.tensor([[i, i], [i + 1, i + 1]], dtype=torch.float32), torch.tensor([i, i + 1])] for i in (0, 2, 4)
    ]
    assert [code for code, _ in streams["batch"]] == [digest(batch) for batch in batches]
    assert [shown for _, shown in streams["value"]] == ["1", "5", "9"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("wrong", "seed", "equal"), [(f"({OPTIMISED})", "1", False), ("0", "__import__('os').getpid()", None)]
)
def test_batches_losses_and_weights_are_compared(tmp_path, wrong, seed, equal):
    pytest.importorskip("torch")
    bench = Bench(Subject((str(_training(tmp_path, wrong, seed)),), tmp_path), tmp_path)
    runs = {name: [bench.watched(name)[1] for _ in range(2)] for name in ("plain", "optimised")}
    same = {each.what: each.equal for each in passed_around(runs["plain"], runs["optimised"])}
    assert same["losses (backward)"] is same["losses logged"] is same["final weights"] is equal
    assert same["batches"] is (equal is not False)  # the seed is only that of the weights


ROUNDED = f"""
import sys
import numpy as np
values = np.linspace(1, 2, 1000) * (1 + 1e-9 * ({OPTIMISED}))
print("mean", values.mean())
"""


def test_rounding_may_differ_where_it_is_allowed(tmp_path):
    (tmp_path / "rounded.py").write_text(ROUNDED)
    words = _compare("--rounds", "2", "--value", "values", "--allow", "ulp", "rounded.py", cwd=tmp_path).stdout
    assert "results: not bit-equal, but within what --allow ulp lets differ" in words
    assert "named values: equal (within 1e-09 of the largest value)" in words
    assert "stdout: equal (figures within 0.00035 of each other)" in words


@pytest.mark.parametrize(
    ("asked", "setting", "found"),
    [(None, "", ()), (None, "allow = 'ulp'", ("ulp",)), ("exact", "allow = 'ulp'", ()), ("level1", "", ("level1",))],
)
def test_what_is_allowed_is_asked_for_or_set_in_the_project(tmp_path, asked, setting, found):
    (tmp_path / "pyproject.toml").write_text(f"[tool.codedag]\n{setting}\n")
    assert _allowed(asked, tmp_path) == found


TENSORS = """
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
def rows():
    for i in range(6):
        yield np.full(2, i, np.float32), i % 2
kinds = (tf.TensorSpec((2,), tf.float32), tf.TensorSpec((), tf.int64))
dataset = tf.data.Dataset.from_generator(rows, output_signature=kinds).batch(2)
weight = tf.Variable([[1.0], [1.0]])
for x, y in dataset:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(x @ weight)
    tape.gradient(loss, weight)
iter(dataset).get_next()
model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(2)])
model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(dataset, epochs=2, verbose=0)
"""


@pytest.mark.long
def test_a_watched_training_in_tensorflow(tmp_path):
    if find_spec("tensorflow") is None:
        pytest.skip("TensorFlow is not installed")
    (tmp_path / "tensors.py").write_text(TENSORS)
    bench = Bench(Subject(("tensors.py",), tmp_path), tmp_path)
    (ended, streams), (_, again) = bench.watched("plain"), bench.watched("plain")
    assert ended.code == 0, ended.last_words
    assert {kind: len(streams[kind]) for kind in ("loss", "epoch")} == {"loss": 3, "epoch": 2}
    assert len(streams["batch"]) >= 4
    assert streams["batch"][0] == streams["batch"][3]  # the first batch again
    assert len(set(streams["batch"])) == 3
    assert all(each.equal for each in passed_around([streams], [again]))


def test_files_by_any_pattern_and_a_disabled_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("CODEDAG_DISABLE", "1")
    (tmp_path / "sub").mkdir()
    (tmp_path / "writes.py").write_text(f"import sys\nopen('sub/a.txt', 'w').write(str({OPTIMISED}))\n")
    files = ("**/*.txt", str(tmp_path / "*.py"))
    bench = Bench(Subject(("writes.py",), tmp_path, files=files), tmp_path)
    found = {name: bench.watched(name)[1]["file"] for name in ("plain", "optimised")}
    names = [str(tmp_path / "sub" / "a.txt"), str(tmp_path / "writes.py")]
    assert [shown for _, shown in found["plain"]] == [shown for _, shown in found["optimised"]] == names
    assert found["plain"][0] != found["optimised"][0]
    assert found["plain"][1] == found["optimised"][1]


def test_os_exit_does_not_lose_what_was_seen(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "leaves.py").write_text("import os, torch\ntorch.tensor(2.5).item()\nos._exit(0)\n")
    ended, streams = Bench(Subject(("leaves.py",), tmp_path), tmp_path).watched("plain")
    assert ended.code == 0
    assert [shown for _, shown in streams["value"]] == ["2.5"]


@pytest.mark.long
def test_values_that_cannot_be_looked_at_are_said_to_be_so(tmp_path):
    (tmp_path / "leaves.py").write_text("import os\nx = 1\nos._exit(0)\n")
    found = _facts("--rounds", "2", "--value", "x", "leaves.py", cwd=tmp_path)
    assert [each["equal"] for each in found["compared"] if each["what"] == "named values"] == [None]


def test_nothing_is_left_behind(tmp_path):
    """Neither in the working directory nor among the user's runs."""
    (tmp_path / "plain.py").write_text("print('hello')\n")
    _compare("--rounds", "2", "plain.py", cwd=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["plain.py"]
    assert not (Path(os.environ["CODEDAG_HOME"]) / "runs").exists()
