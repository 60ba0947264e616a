"""Experiments end to end: the guide's own programs, and the `codedag experiment` commands."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from codedag.cli.main import cli
from codedag.experiment import environment, folder
from codedag.ir import CannotWrite, write_atomically

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLE = ROOT / "examples" / "birdclef"

# Experiment guide, 3.3: only the import line is changed, and the names it takes for granted are there.
TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
inputs = torch.randn(64, 8)
dataloader = DataLoader(TensorDataset(inputs, inputs[:, 0].gt(0).long()), batch_size=32)
model, criterion = nn.Linear(8, 2), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
num_epochs, accuracy = 2, 0.5

from codedag.experiment import ExperimentMonitor

# 创建监控器
monitor = ExperimentMonitor("BirdCLEF_2023", save_dir="./results")

# ===== 基线训练 =====
monitor.start_mode("baseline", config={"epochs": 2, "batch_size": 32})

for epoch in range(num_epochs):
    for batch_idx, (inputs, targets) in enumerate(dataloader):
        monitor.start_batch()

        # 训练逻辑
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        loss.backward()
        optimizer.step()

        # 记录 batch
        monitor.end_batch()
        monitor.log_loss(epoch, batch_idx, loss.item())
        monitor.log_accuracy(epoch, batch_idx, accuracy)

monitor.stop_mode()

# ===== 优化训练 =====
monitor.start_mode("optimization", config={"epochs": 2, "batch_size": 32})
# ...
monitor.stop_mode()

# ===== 保存结果 =====
monitor.save_json()      # 保存 JSON 数据
monitor.plot_metrics()   # 生成对比图表

# Q4
monitor = ExperimentMonitor("baseline_only")
monitor.start_mode("baseline")
# ... 训练代码 ...
monitor.stop_mode()
monitor.save_json()

# 5.3
monitor = ExperimentMonitor(
    experiment_name="my_exp",
    save_dir="./results",
)
monitor.start_mode("baseline", resource_interval=1.0)  # 1秒采样一次
monitor.stop_mode()
"""


def _python(*arguments, cwd, **environment):
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def _results(folder: Path, name: str) -> dict:
    (place,) = folder.glob(f"{name}_*.json")
    return json.loads(place.read_text())


@pytest.mark.slow
def test_the_guides_monitoring_runs(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "training.py").write_text(TRAINING)
    _python("training.py", cwd=tmp_path)
    found = _results(tmp_path / "results", "BirdCLEF_2023")
    assert list(found["modes"]) == ["baseline", "optimization"]
    baseline = found["modes"]["baseline"]
    assert [entry[:2] for entry in baseline["metrics"]["losses"]] == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert len(baseline["batch_times"]) == 4
    assert baseline["summary"]["loss"]["final"] == baseline["metrics"]["losses"][-1][2]
    assert _results(tmp_path / "results", "baseline_only")["modes"]["baseline"]["batch_times"] == []


@pytest.mark.long
def test_the_example_trains_as_it_is(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(EXAMPLE, tmp_path / "here")
    home = {"HOME": str(tmp_path), "BIRDCLEF_RECORDINGS": "20", "BIRDCLEF_EPOCHS": "1"}
    assert "Epoch 1: Loss=" in _python("baseline.py", cwd=tmp_path / "here", **home).stdout


@pytest.mark.slow
def test_the_guides_whole_experiment_runs(tmp_path):
    """7.2: baseline, trace, optimise, migrate, train again, save."""
    pytest.importorskip("torch")
    shutil.copytree(EXAMPLE, tmp_path / "here")
    home = {"HOME": str(tmp_path), "BIRDCLEF_RECORDINGS": "20", "BIRDCLEF_EPOCHS": "1"}
    done = _python("experiment.py", cwd=tmp_path / "here", **home)
    assert "阶段 3: 优化后训练" in done.stdout
    found = _results(tmp_path / "here" / "results", "BirdCLEF_2023")
    assert list(found["modes"]) == ["baseline", "optimization"]
    for mode in found["modes"].values():
        assert mode["config"]["train_batch_size"] == 16
        assert len(mode["batch_times"]) == len(mode["metrics"]["losses"]) == len(mode["metrics"]["accuracies"]) == 2
        assert mode["summary"]["total_time"] > 0


# A training without a framework, so that its environment is small.
SMALL = """
import json, random, sys
from pathlib import Path
from codedag.experiment import ExperimentMonitor

CONFIG = json.loads(Path("experiment_config.json").read_text())

def train(mode):
    random.seed(CONFIG["seed"])
    monitor = ExperimentMonitor(CONFIG["name"])
    monitor.start_mode(mode, config=CONFIG)
    for batch in range(CONFIG["batch_size"]):
        monitor.start_batch()
        monitor.end_batch()
        monitor.log_loss(0, batch, random.random())
    monitor.stop_mode()
    monitor.save_json()
    print(mode, sys.prefix)
    sys.exit(CONFIG.get("leave", 0))

if __name__ == "__main__":
    train("baseline")
"""


INTERRUPTED_TRAINING = """
import time
try:
    print("begun", flush=True)
    time.sleep(300)
finally:
    time.sleep(1)
    open("saved", "w").close()
"""


def _codedag(*arguments, cwd, code=0, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "codedag", "experiment", *map(str, arguments)],
        cwd=cwd, capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def small(tmp_path):
    """An experiment whose training needs nothing."""
    made = folder.create("small", "pytorch", tmp_path)
    (made.path / "baseline.py").write_text(SMALL)
    (made.path / "requirements.txt").write_text("")
    return made


@pytest.mark.parametrize("framework", folder.FRAMEWORKS)
def test_a_new_experiment_has_the_guides_files(tmp_path, framework):
    found = json.loads(_codedag("new", "birdclef_2023", "--framework", framework, "--json", cwd=tmp_path).stdout)
    made = tmp_path / "kaggle_birdclef_2023"
    assert found["folder"] == str(made)
    names = {"baseline.py", "optimization.py", "experiment_config.json", "requirements.txt"}
    assert {each.name for each in made.iterdir()} == names
    assert {each.name for each in (tmp_path / "docker").iterdir()} == {"Dockerfile.pytorch", "Dockerfile.tensorflow"}
    config = json.loads((made / "experiment_config.json").read_text())
    assert list(config) == ["name", "framework", "epochs", "batch_size", "seed", "dataset"]
    assert (config["name"], config["framework"]) == ("birdclef_2023", framework)
    for name in ("baseline.py", "optimization.py"):
        compile((made / name).read_text(), name, "exec")


def test_what_is_there_is_not_overwritten(tmp_path):
    (tmp_path / "docker").mkdir()
    (tmp_path / "docker" / "Dockerfile.pytorch").write_text("FROM mine\n")
    _codedag("new", "x", cwd=tmp_path)
    assert (tmp_path / "docker" / "Dockerfile.pytorch").read_text() == "FROM mine\n"
    assert "already there" in _codedag("new", "x", cwd=tmp_path, code=2).stderr


def test_an_experiment_that_cannot_be_written_is_not_in_the_way(tmp_path, monkeypatch):
    def full(path: Path, content: bytes) -> None:
        if path.name == "requirements.txt":
            raise CannotWrite("the disk is full")
        write_atomically(path, content)

    monkeypatch.setattr("codedag.experiment.folder.write_atomically", full)
    with pytest.raises(CannotWrite, match="full"):
        folder.create("x", "pytorch", tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["docker"]
    monkeypatch.undo()
    assert folder.create("x", "pytorch", tmp_path).program("baseline").is_file()


@pytest.mark.parametrize("name", ["", "../x", "a b", "a/b", "-x", ".hidden"])
def test_names_that_cannot_be(tmp_path, name):
    _codedag("new", "--", name, cwd=tmp_path, code=2)
    assert list(tmp_path.iterdir()) == []


def test_both_modes_run_here_and_are_shown_beside_each_other(small):
    assert "baseline" in _codedag("run", "baseline", "--no-install", cwd=small.path).stdout
    assert "no results of optimization" in _codedag("report", cwd=small.path, code=2).stderr
    done = _codedag("run", "optimization", small.path, "--no-install", cwd=small.path.parent)
    assert "optimization" in done.stdout
    assert "nothing was changed" in done.stderr  # it ran under `codedag run`
    assert (small.path / "results" / "run" / "report.json").is_file()
    found = json.loads(_codedag("report", "--json", cwd=small.path).stdout)
    assert found["same"] == {"losses": True, "accuracies": True}
    assert found["figures"]["final loss"]["baseline"] == found["figures"]["final loss"]["optimization"]
    assert "losses: equal" in _codedag("report", cwd=small.path).stdout


def test_a_report_sees_that_losses_differ(small):
    _codedag("run", "baseline", "--no-install", cwd=small.path)
    config = json.loads((small.path / "experiment_config.json").read_text())
    (small.path / "experiment_config.json").write_text(json.dumps({**config, "seed": 1}))
    _codedag("run", "optimization", "--no-install", cwd=small.path)
    assert "losses: DIFFERENT" in _codedag("report", cwd=small.path, code=1).stdout


def test_the_exit_code_is_that_of_the_training(small):
    config = json.loads((small.path / "experiment_config.json").read_text())
    (small.path / "experiment_config.json").write_text(json.dumps({**config, "leave": 7}))
    said = _codedag("run", "baseline", "--no-install", cwd=small.path, code=7).stderr
    assert "ended with exit code 7: correct baseline.py" in said
    assert "next: codedag experiment run baseline" in said


def test_what_an_interrupted_training_has_to_save_is_waited_for(small):
    (small.path / "optimization.py").write_text(INTERRUPTED_TRAINING)
    command = [sys.executable, "-m", "codedag", "experiment", "run", "optimization", "--no-install"]
    with subprocess.Popen(
        command, cwd=small.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        said = process.communicate()[1]
    assert process.returncode == 130
    assert "correct" not in said
    assert (small.path / "saved").is_file()
    assert (small.path / "results" / "run" / "report.html").is_file()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("{", "experiment_config.json"),
        ('{"name": "x"}', "framework"),
        ('{"name": "x", "framework": "caffe"}', "caffe"),
        ('{"name": "x", "framework": "pytorch", "epochs": 0}', "epochs"),
    ],
)
def test_a_bad_configuration_names_the_field(tmp_path, text, message):
    if text is not None:
        (tmp_path / "experiment_config.json").write_text(text)
    assert message in _codedag("run", "baseline", "--no-install", cwd=tmp_path, code=2).stderr


@pytest.mark.long
@pytest.mark.parametrize(("framework", "module"), [("pytorch", "torch"), ("tensorflow", "tensorflow")])
def test_a_new_experiment_runs_as_it_is(tmp_path, framework, module):
    pytest.importorskip(module)
    made = folder.create("first", framework, tmp_path)
    for mode in folder.MODES:
        _codedag("run", mode, "--no-install", cwd=made.path)
    found = json.loads(_codedag("report", "--json", cwd=made.path).stdout)
    assert found["same"] == {"losses": True, "accuracies": True}
    assert found["figures"]["final accuracy"]["baseline"] > 0.9


def _refuse(command, cwd):
    raise environment.NoEnvironment(" ".join(command))


@pytest.mark.long
def test_a_fresh_environment_is_made_and_kept_until_requirements_change(small, monkeypatch):
    """With pip as the user has set it up."""
    try:
        first = environment.make_venv(small)
    except environment.NoEnvironment as error:
        pytest.skip(f"pip cannot install here: {error.message}")
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([first, "-c", "import codedag.experiment, psutil"], env=alone, check=True)
    assert "baseline " + str(small.path / ".venv") in _codedag("run", "baseline", "--in", "venv", cwd=small.path).stdout
    mark = small.path / ".venv" / "mark"
    mark.write_text("")
    assert environment.make_venv(small) == first
    assert mark.exists()
    _codedag("run", "optimization", "--in", "venv", cwd=small.path)
    assert json.loads(_codedag("report", "--json", cwd=small.path).stdout)["same"]["losses"] is True
    (small.path / "requirements.txt").write_text("# changed\n")
    monkeypatch.setattr(environment, "_must", _refuse)
    with pytest.raises(environment.NoEnvironment, match="venv --clear"):
        environment.make_venv(small)


@pytest.mark.long
def test_requirements_that_cannot_be_installed_are_an_error(small):
    (small.path / "requirements.txt").write_text("no-such-package-as-this==1.0\n")
    done = _codedag(
        "run", "baseline", "--in", "venv", cwd=small.path, code=2, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull
    )
    assert "failed" in done.stderr
    assert not (small.path / ".venv" / ".codedag").exists()


# A stand-in for the engine: keeps what it is asked, and runs the program here when asked to run it.
DOCKER = """#!{python}
import os, subprocess, sys
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + chr(10))
if sys.argv[1] == "version":
    print("99.0")
elif sys.argv[1:3] == ["image", "inspect"]:
    sys.exit(1)
elif sys.argv[1] == "build":
    context = sys.argv[-1]
    names = sorted(os.listdir(context))
    with open({log!r}, "a") as log:
        log.write("context " + " ".join(names) + chr(10))
elif sys.argv[1] == "run":
    at = sys.argv.index("-v")
    folder = sys.argv[at + 1].split(":")[0]
    sys.exit(subprocess.run([sys.executable, *sys.argv[sys.argv.index("python") + 1:]], cwd=folder).returncode)
"""


@pytest.fixture
def engine(tmp_path):
    """A directory with a stand-in for `docker`, and its log."""
    place, log = tmp_path / "bin" / "docker", tmp_path / "docker.log"
    place.parent.mkdir()
    place.write_text(DOCKER.format(python=sys.executable, log=str(log)))
    place.chmod(0o755)
    return place.parent, log


def test_a_container_is_used_when_an_engine_answers(small, engine):
    path = {"PATH": f"{engine[0]}{os.pathsep}{os.environ['PATH']}"}
    done = _codedag("run", "baseline", cwd=small.path, **path)
    assert "baseline" in done.stdout
    asked = engine[1].read_text().splitlines()
    built = [line for line in asked if line.startswith("build")]
    assert built[0].startswith(f"build -t codedag-experiment-pytorch -f {small.docker / 'Dockerfile.pytorch'}")
    assert built[1].startswith("build -t codedag-experiment-small")
    assert [line for line in asked if line.startswith("context")] == [
        "context codedag", "context Dockerfile requirements.txt",
    ]  # fmt: skip
    (ran,) = [line for line in asked if line.startswith("run ")]
    assert f"-v {small.path}:/experiment codedag-experiment-small python baseline.py" in ran
    assert f"--user {os.getuid()}:{os.getgid()}" in ran


def test_images_are_built_from_the_dockerfiles(small, engine):
    path = {"PATH": f"{engine[0]}{os.pathsep}{os.environ['PATH']}"}
    assert "built codedag-experiment-tensorflow" in _codedag("build", cwd=small.path.parent, **path).stdout
    assert "Dockerfile" in _codedag("build", "--docker", "none", cwd=small.path.parent, code=2, **path).stderr


def test_check_says_what_is_missing(tmp_path, engine):
    found = json.loads(_codedag("check", "--json", cwd=tmp_path, PATH=str(engine[0])).stdout)
    assert found["docker"] == {"what": "docker", "is_there": True, "detail": "engine 99.0"}
    assert found["venv"]["is_there"] is True
    none = json.loads(_codedag("check", "--json", cwd=tmp_path, PATH=str(tmp_path)).stdout)
    assert none["docker"]["is_there"] is False
    assert "virtual environments are used" in none["docker"]["detail"]
    assert "missing  docker" in _codedag("check", cwd=tmp_path, PATH=str(tmp_path)).stdout
    assert "no Docker engine" in _codedag("build", cwd=tmp_path, code=2, PATH=str(tmp_path)).stderr


def test_the_page_about_experiments_runs(tmp_path):
    """Every block of Python in docs/experiments.md, one after the other, as one script."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "experiments.md").read_text(), re.M | re.S)
    assert len(blocks) == 2
    (tmp_path / "page.py").write_text("\n".join(blocks))
    _python("page.py", cwd=tmp_path)
    assert _results(tmp_path / "results", "birds")["modes"]["baseline"]["metrics"]["losses"][0] == [0, 0, 1.0]


@pytest.mark.parametrize("page", ["docs/experiments.md", "README.zh-CN.md"])
def test_every_command_and_option_on_the_page_is_there(page):
    """Commands of the pages, asked for their help: names and options must exist."""
    commands = re.findall(r"^    codedag ((?:experiment )?[a-z]+)(.*)$", (ROOT / page).read_text(), re.M)
    assert len(commands) >= 6
    for command, rest in commands:
        shown = CliRunner().invoke(cli, [*command.split(), "--help"])
        assert shown.exit_code == 0, command
        ours = rest.partition(".py")[0]
        assert all(option in shown.output for option in re.findall(r"(?<=\s)--[a-z-]+", ours)), (command, rest)


@pytest.mark.long
def test_the_tutorial_in_chinese_runs(tmp_path):
    """Its commands as they stand, apart from `compare` and `experiment`, which have tests of their own."""
    pytest.importorskip("torch")
    pytest.importorskip("cv2")
    tutorial = (ROOT / "README.zh-CN.md").read_text().split("## 五分钟教程")[1].split("\n## ")[0]
    commands = re.findall(r"^    codedag ((?:run|trace|view) .*)$", tutorial, re.M)
    assert len(commands) == 5
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for command in commands:
        _python("-m", "codedag", *command.split(), cwd=tmp_path, HOME=str(tmp_path))
    assert (tmp_path / "graph.svg").read_text().startswith("<svg")


@pytest.mark.filterwarnings("ignore")  # of MLflow's own libraries
def test_an_experiment_goes_to_a_real_mlflow_store(tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is an extra of its own and is not installed")
    from mlflow.tracking import MlflowClient

    from codedag.experiment import ExperimentMonitor
    from codedag.plugins.mlflow_logger import log_to_mlflow

    monitor = ExperimentMonitor("birds", tmp_path / "results")
    for mode in ("baseline", "optimization"):
        monitor.start_mode(mode, config={"epochs": 2, "model": {"rate": 0.1}})
        for batch in range(3):
            monitor.start_batch()
            monitor.end_batch()
            monitor.log_loss(0, batch, 1.0 / (batch + 1))
        monitor.log_loss(0, 3, float("nan"))
        monitor.stop_mode()
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artefacts of such a store
    runs = log_to_mlflow(monitor, store)
    client = MlflowClient(store)
    for run, mode in zip(runs, monitor.modes, strict=True):
        found = client.get_run(run)
        assert found.info.status == "FINISHED"
        assert found.data.tags["mode"] == mode
        assert found.data.params == {"epochs": "2", "model.rate": "0.1"}
        losses = client.get_metric_history(run, "loss")
        assert [(each.step, each.value) for each in losses] == [(0, 1.0), (1, 0.5), (2, pytest.approx(1 / 3))]
        assert len(client.get_metric_history(run, "batch_time")) == 3
        assert found.data.metrics["summary.total_time"] == pytest.approx(
            monitor.results()["modes"][mode]["summary"]["total_time"]
        )
        assert client.get_metric_history(run, "cpu_percent")


def test_any_configuration_has_names_that_mlflow_takes():
    from codedag.plugins.mlflow_logger import parameters

    config = {"lr (%)": 3, "lr [%]": 4, "a/../b": 1, "..": 5, "": 6, "\u540d": {"x": "", "none": {}}, "k" * 400: 7}
    found = parameters(config)
    names = [name for name, _ in found]
    assert len(set(names)) == len(names) == 8
    assert dict(found)["lr ___"] == "3"
    assert dict(found)["lr ____2"] == "4"
    assert dict(found)["\u540d.x"] == ""
    assert dict(found)["\u540d.none"] == "{}"
    for name in names:
        assert re.fullmatch(r"[\w.\- :]{1,250}", name), name
        assert posixpath.normpath(name) == name
        assert not name.startswith("..")
    assert parameters({"plain": 1, "nested": {"epochs": 2}}) == [("plain", "1"), ("nested.epochs", "2")]
    assert parameters({}) == []


def test_without_mlflow_the_error_names_it(tmp_path, monkeypatch):
    from codedag.experiment import ExperimentMonitor
    from codedag.plugins import mlflow_logger

    monkeypatch.setattr(mlflow_logger, "find_spec", lambda name: None)
    with pytest.raises(mlflow_logger.MissingPackage, match="mlflow"):
        mlflow_logger.log_to_mlflow(ExperimentMonitor("x", tmp_path))
