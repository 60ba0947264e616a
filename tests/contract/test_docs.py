"""The pages say what is so: every block of code is run or checked, every option is there, every link leads somewhere.

What is in a page, in the order in which it is tried, all in one folder with small files that pages may name
(`train.py`, `RUN`, `plan.json`, ...):

* a Python block with a title is a file of that name;
* commands are run one after the other, if their command is quick, and are parsed by the command line in any case;
* the other Python blocks of the page are one script;
* a `text` block after commands has lines of their output, with `...` for what differs from run to run.

`<!-- not run: why -->` before a block leaves it out. Pages in SLOW are part of the long suites.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
import yaml

import codedag
from codedag.backends.registry import all_substitutions
from codedag.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
WRITTEN = ("docs/reference/", "docs/adr/index.md")  # by scripts/write_reference.py, when the site is built
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("**/*.md")])
NAMES = [name for page in PAGES if not (name := page.relative_to(ROOT).as_posix()).startswith(WRITTEN)]

SLOW = ("README.zh-CN.md", "docs/profiling.md", "docs/howto/")
QUICK = {"run", "trace", "view", "plan", "explain", "runs", "doctor", "cache"}
LONG = QUICK | {"devices", "profile"}  # they measure: on slow pages only
ENDLESS = {"--serve"}
SHELL = ("codedag", "make", "pytest", "cd", ".", "pip", ".venv/bin/python", "python", "torchrun")
MARKED = re.compile(r"<!--\s*not run: (.+?)\s*-->\s*\Z", re.S)

TRAIN = """\
import argparse
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)


def prepare(picture):
    return np.sqrt(picture) / 255.0


def main():
    for epoch in range(parser.parse_args().epochs):
        print(epoch, sum(float(prepare(np.full((8, 8), i)).sum()) for i in range(8)))


main()
"""

# What the reader of a page already has in his program.
BEFORE = {
    "README.md": "import codedag\nfiles = range(3)\nmake_batch = list\n",
    "README.zh-CN.md": "import codedag\nfiles = range(3)\nmake_batch = list\n",
    "docs/migration.md": "def train():\n    return [x / 255.0 for x in range(3)]\n",
    "docs/effects.md": "import random\nimport cv2\nimport numpy as np\nimage = np.zeros((8, 8), np.uint8)\n"
    "a = np.zeros(3)\ndef my_function(): pass\n",
    "docs/run.md": "import cv2\nimport numpy as np\ncv2.imwrite('a.png', np.zeros((8, 8, 3), np.uint8))\n"
    "paths, labels, found = ['a.png'], [0], []\naugment = model = np.copy\n",
}


@dataclass(frozen=True)
class Block:
    """One block of a page: its language, its title, its text and its place."""

    kind: str  # python | shell | text | json | toml
    title: str
    text: str
    where: str
    why_not: str  # why it is not run, if it is marked so

    @property
    def lines(self) -> list[str]:
        """The commands of a block of commands, without comments, continued lines joined."""
        joined = self.text.replace("\\\n", " ")
        return [line.partition(" #")[0].strip() for line in joined.splitlines() if line.strip() and line[0] != "#"]


FENCED = re.compile(r"^( *)```([^\n]*)\n(.*?)^\1```", re.M | re.S)
INDENTED = re.compile(r"(?:\A|(?<=\n\n))((?: {4}[^\n]*\n|\n)+)")


def _blocks(name: str) -> list[Block]:
    text = (ROOT / name).read_text(encoding="utf-8")
    found = [(m.start(), m[2].strip(), m[3]) for m in FENCED.finditer(text)]
    bare = FENCED.sub(lambda m: re.sub(r"[^\n]", "x", m[0]), text)
    for m in INDENTED.finditer(bare):
        if m[1].strip() and not re.search(r"^\s*([*-]|\d+\.) [^\n]*\n(?:\s+[^\n]*\n|\n)*\Z", bare[: m.start()], re.M):
            found.append((m.start(), "", re.sub(r"^ {4}", "", m[1].strip("\n"), flags=re.M) + "\n"))
    return [_block(name, text, *each) for each in sorted(found)]


def _block(name: str, page: str, start: int, info: str, text: str) -> Block:
    language = info.split(" ")[0]
    title = re.search(r'title="([^"]+)"', info)
    marked = MARKED.search(page[:start].rstrip())
    where = f"{name}:{page[:start].count(chr(10)) + 1}"
    return Block(_kind(language, text), title[1] if title else "", text, where, marked[1] if marked else "")


def _kind(language: str, text: str) -> str:
    if language:
        return {"sh": "shell", "bash": "shell", "console": "shell"}.get(language, language)
    first = _without_variables(text.split())[0]
    return "json" if first[0] in "{[" else "shell" if first in SHELL else "text" if first.endswith(":") else "python"


def _without_variables(words: list[str]) -> list[str]:
    """A command without the environment variables that are set before it."""
    return list(itertools.dropwhile(re.compile(r"[A-Z_]+=").match, words))


def _commands(name: str) -> list[tuple[str, list[str]]]:
    """The commands of a page that can be parsed, by place."""
    shell = [block for block in _blocks(name) if block.kind == "shell"]
    return [(block.where, _without_variables(shlex.split(line))) for block in shell for line in block.lines]


def _parse(words: list[str]) -> None:
    """Reads words as the command line does, without running anything; raises what it raises."""
    command, context = cli, click.Context(cli, info_name="codedag")
    rest = words
    while isinstance(command, click.Group):
        given, found, rest = command.resolve_command(context, rest)
        assert found is not None, given
        command = found
        if not isinstance(command, click.Group):
            break
        context = click.Context(command, info_name=given, parent=context)
    command.make_context(words[0], list(rest), parent=context)


# -- what can be checked without running anything --------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_block_is_of_a_kind_that_is_checked(name):
    for block in _blocks(name):
        assert block.kind in {"python", "shell", "text", "json", "toml", "yaml"}, (
            f"{block.where}: what is {block.kind!r}?"
        )
        if block.kind == "json":
            json.loads(block.text)
        if block.kind == "toml":
            tomllib.loads(block.text)
        if block.kind == "yaml":
            yaml.safe_load(block.text)
        if block.kind == "python":
            compile(block.text, block.where, "exec")


def test_the_page_of_errors_is_what_help_shows():
    """An installed user has no docs/: `codedag help ERROR` reads its own copy."""
    assert (DOCS / "errors.md").read_text() == (ROOT / "src/codedag/cli/errors.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_output_is_that_of_commands_before_it(name):
    tried = False
    for block in _blocks(name):
        if block.kind == "shell":
            words = [shlex.split(line) for line in block.lines]
            tried = not block.why_not and any(_tried(each, slow=name.startswith(SLOW)) for each in words)
        elif block.kind == "text":
            assert tried or block.why_not, f"{block.where}: nobody compares this; say why: <!-- not run: ... -->"


@pytest.mark.parametrize("name", [name for name in NAMES if _commands(name)])
def test_commands_of_a_page_can_be_given(name, inputs, monkeypatch):
    monkeypatch.chdir(inputs)
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    for where, words in _commands(name):
        if words[0] == "codedag":
            try:
                _parse(words[1:])
            except click.UsageError as error:
                pytest.fail(f"{where}: {shlex.join(words)}: {error.format_message()}")
        elif words[0] == "make":
            assert {w for w in words[1:] if "=" not in w} <= targets, where
        elif words[0] == ".venv/bin/python" and words[1] != "-m":
            assert (ROOT / words[1]).is_file(), where
        elif words[0] == "pip":
            assert set(re.findall(r"\[([\w,]+)\]", " ".join(words))) <= extras, where
        else:
            assert words[0] in SHELL, f"{where}: nobody checks {words[0]}"


def _said(name: str) -> list[tuple[str, list[str]]]:
    """What a page names in passing: `codedag COMMAND ... --option`, as command and options."""
    text = FENCED.sub("", (ROOT / name).read_text(encoding="utf-8"))
    spans = [" ".join(span.split()) for span in re.findall(r"(?<!`)`(codedag [^`]+)`", text)]
    return [(span, re.findall(r"(?<![\w-])--[\w-]+", span)) for span in spans]


@pytest.mark.parametrize("name", [name for name in NAMES if "CHANGELOG" not in name and _said(name)])
def test_commands_that_are_named_in_passing_exist(name):
    context = click.Context(cli)
    for span, options in _said(name):
        word = span.split()[1]
        if not re.fullmatch(r"[a-z]+", word):
            continue
        command = cli.get_command(context, word)
        assert command is not None, f"{name}: `{span}`"
        own = re.split(r"\S+\.py\b|(?<=\s)-m ", span)[0]  # what follows the script is the script's
        known = {name for each in _family(command) for p in each.params for name in (*p.opts, *p.secondary_opts)}
        assert {o for o in options if o in own} <= known | {"--help", "--version"}, f"{name}: `{span}`"


def _family(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    return [command, *filter(None, (command.get_command(context, name) for name in command.list_commands(context)))]


# -- links -----------------------------------------------------------------------------------------------------------


def _anchors(text: str) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.M)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title.lower())).strip("-") for title in titles}


def _links(text: str) -> list[tuple[str, str]]:
    """Links to other pages and their anchors."""
    bare = re.sub(r"`[^`\n]*`", "", FENCED.sub("", text))
    return re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)", bare)


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name, reference):
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    for target, anchor in _links(text):
        path = (page.parent / target).resolve() if target else page
        body = reference.get(path)
        assert path.exists() or body is not None, f"{name}: {target}"
        if anchor:
            assert anchor in _anchors(body or path.read_text(encoding="utf-8")), f"{name}: {target}#{anchor}"


# -- what is run -----------------------------------------------------------------------------------------------------


def _runs(name: str) -> bool:
    kinds = {"python", "shell"}
    return any(b.kind in kinds and not b.why_not for b in _blocks(name)) and name != "CONTRIBUTING.md"


def _cases() -> list[object]:
    names = [name for name in NAMES if _runs(name)]
    return [pytest.param(name, marks=[pytest.mark.long] if name.startswith(SLOW) else []) for name in names]


def _tried(words: list[str], *, slow: bool) -> bool:
    words = _without_variables(words)
    if words[0] == "pytest":
        return True
    return words[0] == "codedag" and words[1] in (LONG if slow else QUICK) and not ENDLESS & set(words)


@pytest.mark.parametrize("name", _cases())
def test_the_blocks_of_a_page_run(name, inputs, tmp_path):
    folder = tmp_path / "reader"
    shutil.copytree(inputs, folder)
    blocks = [block for block in _blocks(name) if not block.why_not]
    for block in blocks:
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
    said = ""
    for block in blocks:
        if block.kind == "shell":
            said = _shell(block, folder, slow=name.startswith(SLOW))
        elif block.kind == "text":
            _compare(block, said)
    script = "\n".join(block.text for block in blocks if block.kind == "python" and not block.title)
    if script:
        (folder / "page.py").write_text(BEFORE.get(name, "") + script, encoding="utf-8")
        _call(["python", "page.py"], folder, name)


def _shell(block: Block, folder: Path, *, slow: bool) -> str:
    words = [shlex.split(re.sub(r"\bOP\b", _some_op(folder), line)) for line in block.lines]
    return "".join(_call(each, folder, block.where) for each in words if _tried(each, slow=slow))


def _some_op(folder: Path) -> str:
    """An operation that the plan of the run decides about: what a reader writes for OP."""
    return str(json.loads((folder / "plan.json").read_text())["placement"][0]["op"])


def _call(words: list[str], folder: Path, where: str) -> str:
    """What a command prints; it must end well."""
    command = _without_variables(words)
    variables = dict(word.split("=", 1) for word in words[: len(words) - len(command)])
    module = [] if command[0] == "python" else ["-m", command[0]]
    done = subprocess.run(
        [sys.executable, *module, *command[1:]],
        cwd=folder,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
        env={
            **os.environ,
            **variables,
            "HOME": str(folder),
            "MPLBACKEND": "agg",
            "PYTHONIOENCODING": "utf-8",
            "COLUMNS": "120",
        },
    )
    assert done.returncode == 0, f"{where}: {shlex.join(words)}\n{done.stdout}"
    return done.stdout


def _compare(block: Block, said: str) -> None:
    """The lines of a block are among those that were printed; in which order may depend on times."""
    printed = [" ".join(line.split()) for line in said.splitlines()]
    for line in block.text.splitlines():
        wanted = re.escape(" ".join(line.split())).replace(re.escape("..."), ".*")
        assert any(re.fullmatch(wanted, each) for each in printed), f"{block.where}: not printed: {line}\n{said}"


# -- the small files that pages name ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pages name: a program, a run with costs and a plan, and the same files alone."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "train.py").write_text(TRAIN)
    (folder / "tests").mkdir()
    (folder / "tests" / "test_small.py").write_text("def test_small():\n    assert sum([1, 2]) == 3\n")
    for place in (["examples"], ["kaggle_birdclef_2023"]):
        (folder / Path(*place)).mkdir()
    for example in ("images_cv2.py", "images_pil.py"):
        shutil.copy(ROOT / "examples" / example, folder / "examples")
    _call(["codedag", "trace", "-o", "RUN", "train.py"], folder, "inputs")
    _cost(folder / "RUN")
    _call(["codedag", "plan", "RUN", "--budget", "0"], folder, "inputs")
    for file in ("graph.json", "costs.json", "machine.json", "plan.json"):
        shutil.copy(folder / "RUN" / file, folder)
    migration = {"context_device_map": {"scipy.ndimage.median_filter": "cpu"}, "partition_device_map": {}}
    (folder / "migration_plan.json").write_text(json.dumps(migration))
    shutil.copytree(folder / "RUN", folder / "my-run")
    return folder


def _cost(run: Path) -> None:
    """Gives a run costs of one processing unit: the times of its own trace."""
    ops = json.loads((run / "graph.json").read_text())["ops"]
    rows = [{"op": op["id"], "pu": "cpu", "variant": "original", "seconds": op["self_seconds"]} for op in ops]
    rows = [{**row, "low": row["seconds"], "high": row["seconds"], "status": "ok", "scratch_nbytes": 0} for row in rows]
    costs = {"format": "codedag/costs", "version": 1, "pus": ["cpu"], "rows": rows}
    unit = {"name": "cpu", "resource": "host", "memory_nbytes": 2**34, "launch_seconds": 0.0, "simulated": False}
    machine = {"format": "codedag/machine", "version": 1, "pus": [unit], "links": []}
    (run / "costs.json").write_text(json.dumps(costs))
    (run / "machine.json").write_text(json.dumps(machine))


# -- the pages that are written from the code ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reference() -> dict[Path, str]:
    """The pages that are written from the code when the site is built, by place."""
    return runpy.run_path(str(ROOT / "scripts" / "write_reference.py"))["pages"]()


def test_the_reference_has_every_command_and_option(reference):
    page = reference[DOCS / "reference" / "commands.md"]
    sections = dict(part.split("\n", 1) for part in page.split("\n## ")[1:])
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command.help.split("\n")[0].split(":")[0] in sections[f"codedag {name}"]
        options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
        assert [o.opts for o in options if not any(f"{word}" in sections[f"codedag {name}"] for word in o.opts)] == []


def test_the_reference_has_every_public_name_with_its_docstring(reference):
    page = reference[DOCS / "reference" / "names.md"]
    names = [name for name in codedag.__all__ if not name.startswith("__")]
    assert [name for name in names if f"\n### codedag.{name}\n\n```text\n{name}(" not in page] == []
    assert not re.search(r"```\n\n\n+(#|\Z)", page), "a public name says nothing of itself"


def test_the_reference_counts_the_substitutions_of_the_registry(reference):
    page = reference[DOCS / "reference" / "libraries.md"]
    rows = re.findall(r"^\| \[\w+\][^|]*\|(.*)\|[^|]*\|$", page, re.M)
    assert sum(int(cell) for row in rows for cell in row.split("|") if cell.strip()) == len(all_substitutions())


def test_links_of_the_reference_lead_somewhere(reference):
    for page, text in reference.items():
        for target, anchor in _links(text):
            path = (page.parent / target).resolve()
            assert path.is_file(), f"{page.name}: {target}"
            assert not anchor or anchor in _anchors(path.read_text(encoding="utf-8")), f"{page.name}: {target}#{anchor}"


def _navigation(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [page for child in children for page in _navigation(child)]


def test_the_site_leads_to_every_page(reference):
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    shown = {(DOCS / page).resolve() for page in _navigation(site["nav"])}
    pages = {ROOT / name for name in NAMES if name.startswith("docs/")} | set(reference)
    assert shown - pages == set(), "`nav` of mkdocs.yml names pages that are not there"
    waiting = list(shown)
    while waiting:
        page = waiting.pop()
        links = _links(reference.get(page) or page.read_text(encoding="utf-8"))
        new = {(page.parent / target).resolve() for target, _ in links if target.endswith(".md")} - shown
        shown |= new
        waiting += [each for each in new if each in pages]
    assert pages - shown == set(), "neither `nav` of mkdocs.yml nor a link leads to these pages"
