"""The table as a whole: names by strategy, words for every guard, and the page that is written from it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import codedag
import codedag.migrate
from codedag.backends.registry import all_substitutions, find, problems
from codedag.backends.same import same
from codedag.backends.supported import reasons_against, strategy_of

ROOT = Path(__file__).parents[3]
STRATEGIES = ["MoveOnly", "StandardOp", "FactoryOp", "PipelineOp", "NonMigratable"]


def test_names_by_strategy():
    found = codedag.migrate.list_supported_functions()
    assert list(found) == STRATEGIES
    assert all(found.values())
    names = [name for group in found.values() for name in group]
    assert len(names) == len(set(names))
    assert {made.source for made in all_substitutions()} <= set(names)
    for strategy, group in found.items():
        assert group == sorted(group)
        assert all(strategy_of(name) == strategy for name in group)


def test_what_is_never_replaced_has_a_reason_and_no_substitute():
    reasons = reasons_against()
    assert {"cv2.imread", "builtins.open", "numpy.load", "numpy.random.rand"} <= set(reasons)
    assert sorted(reasons) == codedag.migrate.list_supported_functions()["NonMigratable"]
    for name, reason in reasons.items():
        assert reason
        assert not find(name)


def test_asking_for_the_function_loads_no_framework():
    code = "import sys, codedag.migrate; codedag.migrate.list_supported_functions; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_all_files_load_and_all_guards_have_words():
    pytest.importorskip("numpy")
    assert not problems()
    assert len(all_substitutions()) >= 50
    for made in all_substitutions():
        if made.module.startswith("codedag."):
            assert made.takes.endswith("."), made.name


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("skimage.morphology.gray.erosion", "skimage.morphology.erosion"),
        ("skimage.exposure.exposure.rescale_intensity", "skimage.exposure.rescale_intensity"),
        ("scipy.signal._signaltools.medfilt", "scipy.signal.medfilt"),
        ("librosa.feature.spectral.melspectrogram", "librosa.feature.melspectrogram"),
    ],
)
def test_functions_are_found_by_the_module_they_live_in(name, source):
    assert {made.source for made in find(name)} == {source}
    assert not find("median")
    assert not find("scipy.other.medfilt2")


def test_a_name_of_another_library_is_not_found():
    assert not find("mylib.numpy.sum")
    assert not find("skimage.sum")


def test_the_page_is_up_to_date():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "write_substitutions.py", "--check"], check=False)
    assert done.returncode == 0, "run scripts/write_substitutions.py"


def test_containers_run_as_written_and_say_so():
    names = {"albumentations.Compose", "torch.nn.Sequential", "torchvision.transforms.Compose"}
    assert names <= set(codedag.migrate.list_supported_functions()["PipelineOp"])
    migrator = codedag.create_custom_migrator(dict.fromkeys(names, "cpu"))
    assert migrator.apply() == {"patched": 0, "failed": 0, "skipped": 3}
    reasons = {one["reason"] for one in migrator.get_stats().values()}
    migrator.restore()
    assert reasons == {"a container: it runs as written, and calls that its steps make are replaced one by one"}


def test_the_steps_of_a_container_of_albumentations_are_replaced():
    library, np = pytest.importorskip("albumentations"), pytest.importorskip("numpy")
    steps = library.Compose([library.HorizontalFlip(p=1.0), library.Normalize(p=1.0)])
    image = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8)
    expected = steps(image=image)["image"]
    with codedag.create_custom_migrator({"albucore.normalize": "cpu"}, demote=False) as migrator:
        results = [steps(image=image)["image"] for _ in range(20)]
        stats = migrator.get_stats()["albucore.normalize"]
    assert all(same(expected, result) for result in results)
    assert stats["fast"] >= 10, stats


def test_the_steps_of_a_container_of_torch_are_replaced():
    torch = pytest.importorskip("torch")

    class Middle(torch.nn.Module):
        def forward(self, values):
            return values - torch.quantile(values, 0.5)

    steps = torch.nn.Sequential(torch.nn.ReLU(), Middle())
    values = torch.linspace(-1, 1, 10_000)
    expected = steps(values)
    with codedag.create_custom_migrator({"torch.quantile": "cpu"}, demote=False) as migrator:
        results = [steps(values) for _ in range(20)]
        stats = migrator.get_stats()["torch.quantile"]
    assert all(same(expected, result) for result in results)
    assert stats["fast"] >= 10, stats
