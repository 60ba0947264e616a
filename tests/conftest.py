"""The rotating seed: `make test` runs slices of what is marked `long` or `slow`, `--full` runs all of it."""

from __future__ import annotations

import random
import signal

import hypothesis
import pytest

from codedag.backends import registry

#: What part of the tests of a mark a run that is not `--full` takes.  slow: one takes four seconds or more.
SLICES = {"long": 0.03, "slow": 0.12}
#: Variables that whoever runs the tests may have set, and that change what programs do or say.
SETTINGS = ("CODEDAG_DISABLE", "CODEDAG_COMPILER", "CODEDAG_THREADS", "CODEDAG_SYNCHRONOUS", "CODEDAG_CHECK")
SETTINGS += ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=0, help="seed of the slice of the long suites and of random cases")
    parser.addoption("--full", action="store_true", help="run the long suites whole")


def pytest_configure(config: pytest.Config) -> None:
    """Random properties follow the printed seed, and no clock ends them: a busy machine must not fail a test."""
    calm = [hypothesis.HealthCheck.too_slow]
    hypothesis.settings.register_profile("calm", deadline=None, suppress_health_check=calm, print_blob=True)
    hypothesis.settings.load_profile("calm")
    hypothesis.core.global_force_seed = config.getoption("--seed")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what goes on in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests interrupt would never end


def pytest_report_header(config: pytest.Config) -> str:
    parts = ", ".join(f"{part:.0%} of the {mark} ones" for mark, part in SLICES.items())
    taken = "all tests" if config.getoption("--full") else parts
    return f"seed {config.getoption('--seed')} (repeat with --seed), {taken}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--full"):
        return
    seed = config.getoption("--seed")
    keep, drop = [], []
    for item in items:
        part = min((SLICES[mark] for mark in SLICES if item.get_closest_marker(mark) is not None), default=1.0)
        chosen = random.Random(f"{seed}:{item.nodeid}").random() < part
        (keep if chosen else drop).append(item)
    if drop:
        config.hook.pytest_deselected(items=drop)
        items[:] = keep


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The printed seed of this test run."""
    return int(request.config.getoption("--seed"))


@pytest.fixture(autouse=True)
def codedag_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch):
    """Every test has a CodeDAG home of its own, so that none touches the user's, and none of the user's settings."""
    home = tmp_path_factory.mktemp("codedag-home")
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CODEDAG_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def registered_substitutions():
    """What a test registers is gone when it ends; the backends that it loaded stay, as nothing loads them twice."""
    table = registry._table
    before = dict(table._by_key)
    yield
    strays = [key for key, made in table._by_key.items() if key not in before and not _ours(made)]
    for key in strays:
        del table._by_key[key]
    if strays:
        table._index()


def _ours(made: registry.Substitution) -> bool:
    return made.module.startswith("codedag.")
