"""Experiments end to end: the guide's own programs, and the `codedag experiment` commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
# ... 同样的训练循环，但应用了 migrator ...
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


def test_the_example_trains_as_it_is(tmp_path):
    pytest.importorskip("torch")
    shutil.copytree(EXAMPLE, tmp_path / "here")
    home = {"HOME": str(tmp_path), "BIRDCLEF_RECORDINGS": "20", "BIRDCLEF_EPOCHS": "1"}
    assert "Epoch 1: Loss=" in _python("baseline.py", cwd=tmp_path / "here", **home).stdout


def test_the_guides_whole_experiment_runs(tmp_path):
    """7.2: baseline, trace, optimise, migrate, train again, save."""
    pytest.importorskip("torch")
    import codedag

    if not {"OptimizerManager", "PipelineMigrator"} <= set(codedag.__all__):
        pytest.skip("this build has no planner or no migrator yet")
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
