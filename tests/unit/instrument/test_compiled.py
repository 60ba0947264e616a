"""What another compiler reads is left alone: AutoGraph, in files that import TensorFlow."""

from __future__ import annotations

import ast

import pytest

from codedag.instrument.compiled import Compiled, left_alone

HEAD = "import numpy as np\nimport tensorflow as tf\n"


def left(source):
    tree = ast.parse(source)
    Compiled().mark(tree)
    return left_alone(tree)


@pytest.mark.parametrize(
    "decorator", ["tf.function", "tf.function(jit_compile=True)", "tf.autograph.experimental.do_not_convert"]
)
def test_a_decorated_function_and_what_it_calls(decorator):
    source = f"{HEAD}def helper(x): return x\ndef other(x): return x\n@{decorator}\ndef step(x): return helper(x)\n"
    assert left(source) == {"step", "helper"}


@pytest.mark.parametrize(
    "call",
    ["tf.function(step)", "tf.autograph.to_graph(step)", "data.map(step)", "data.filter(step)", "data.reduce(0, step)"],
)
def test_a_function_that_is_given_to_tensorflow(call):
    assert left(f"{HEAD}def step(x): return tf.cast(x, tf.float32)\nstepped = {call}\n") == {"step"}


def test_what_runs_in_python_inside_a_pipeline_is_not():
    source = f"""{HEAD}
def resize(image): return image[::2]
def load(path): return resize(np.fromfile(path))
def items():
    yield load("a")
def read(path):
    image = tf.numpy_function(load, [path], tf.float32)
    return tf.image.resize(image, (8, 8))
data = tf.data.Dataset.from_generator(items, tf.float32).map(read)
more = data.map(lambda path: tf.py_function(load, [path], tf.float32), num_parallel_calls=2)
"""
    assert left(source) == {"read"}


@pytest.mark.parametrize("call", ["pool.map(load, paths)", "table.map(load)", "executor.map(load, paths)"])
def test_the_map_of_others_is_not(call):
    assert left(f"{HEAD}def load(path): return np.fromfile(path)\nfound = {call}\n") == set()


def test_a_dataset_by_its_keywords():
    assert left(f"{HEAD}def half(x): return x / 2\nd = data.map(half, num_parallel_calls=4)\n") == {"half"}


def test_without_tensorflow_nothing_of_it_is_known():
    source = "import mytools as tf\n@tf.function\ndef step(x): return x\ndef half(x): return tf.half(x)\n"
    assert left(f"{source}d = data.map(half)\n") == set()
