"""Loading backends while another thread imports one: neither waits for the other for ever."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pandas")

PROGRAM = """
import importlib, os, threading
import pandas
from codedag.backends import registry

inside, held = threading.Event(), threading.Event()
add, load_one = registry._Table.add, registry._Table._load_one

def late(self, made):
    if threading.current_thread().name == "importer":
        inside.set()
        held.wait(5)
    add(self, made)

def loading(self, name, load):
    held.set()
    load_one(self, name, load)

registry._Table.add, registry._Table._load_one = late, loading
importer = threading.Thread(
    target=importlib.import_module, args=("codedag.backends.more_pandas_",), name="importer", daemon=True
)
importer.start()
inside.wait(60)
finder = threading.Thread(target=registry.find, args=("pandas.DataFrame.apply",), daemon=True)
finder.start()
finder.join(60)
importer.join(60)
os._exit(int(finder.is_alive() or importer.is_alive()))
"""


def test_a_backend_can_be_imported_while_the_registry_loads_it():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
