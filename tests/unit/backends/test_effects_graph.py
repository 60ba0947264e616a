"""The effects column: filled where names and kinds of values suffice, unknown elsewhere."""

import numpy as np
import pytest

from codedag.backends.known_graph import with_effects
from codedag.ir.graph import Graph, Op


def op(number, name, kind="call", in_sig="", **more):
    return Op(number, name, kind, "t.py", 1, name, 1, 0.1, 0.1, 0, in_sig=in_sig, **more)


@pytest.mark.parametrize(
    ("name", "kind", "in_sig", "said"),
    [
        ("numpy.concatenate", "call", "", "pure, writes out or argument 3 if given"),
        ("numpy.empty", "call", "", "pure, not the same each time"),
        ("builtins.next", "call", "", "unknown"),
        ("numpy.random.default_rng", "call", "", "unknown"),
        ("numpy.ndarray.transpose", "call", "uint8[3]", "pure"),
        ("numpy.ndarray.sort", "call", "uint8[3]", "writes its object"),
        ("numpy.load", "call", "", "reads a file that an argument names"),
        ("random.Random.random", "call", "", "draws from a generator"),
        ("operator.add", "operator", "float32[3],float", "pure"),
        ("operator.iadd", "operator", "float32[3],float", "writes its first operand"),
        ("operator.iadd", "operator", "float,float", "pure"),
        ("operator.setitem", "subscript", "float32[*,3],int", "writes its first operand"),
        ("operator.getitem", "subscript", "uint8[*,*,*]", "pure"),
        ("operator.add", "operator", "Mine,float", "unknown"),
        ("operator.add", "operator", "", "unknown"),
        ("__main__.load", "region", "", "unknown"),
        ("somebody.function", "call", "", "unknown"),
    ],
)
def test_effects_are_said_where_they_are_known(name, kind, in_sig, said):
    assert np.ndarray  # what is known of numpy is learned when it is loaded
    found = with_effects(Graph.build([op(1, name, kind, in_sig)]))
    assert found.ops[0].effects == said
    assert found.ops[0].name == name


def test_what_was_filled_before_stays():
    assert with_effects(Graph.build([op(1, "numpy.load", effects="pure")])).ops[0].effects == "pure"
