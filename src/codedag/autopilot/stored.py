"""What a program changes while it runs, as far as its source says: a change that is taken back leaves no trace."""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field

from codedag.autopilot.aliases import CHANGES, Aliases
from codedag.instrument.program import Program
from codedag.instrument.rewrite import parsed


@dataclass(slots=True)
class Stored:
    """The names that a program's code sets elsewhere than where objects are made."""

    attributes: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    inside: set[str] = field(default_factory=set)  # of what is changed in place
    others: set[str] = field(default_factory=set)  # of what may be changed in place under another name; "*": anything


def stored_while_running(program: Program, asking: Collection[tuple[str, str]] = ()) -> Stored:
    """The names of attributes and globals that the program's code sets elsewhere than where objects are made.

    Functions that ask before they write into something change nothing that others hold.
    """
    found, aliases = Stored(), Aliases()
    for path, file in list(program.files.items()):
        tree = parsed(file.source, path)
        _look(tree, found, "", False)
        aliases.read(tree, path, {owner for where, owner in asking if where == path})
    found.others = aliases.names()
    return found


def _look(node: ast.AST, found: Stored, function: str, loops: bool) -> None:
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "") if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        inside = loops or isinstance(child, ast.For | ast.While)
        if isinstance(child, ast.Attribute) and not isinstance(child.ctx, ast.Load) and name != "__init__":
            found.attributes.add(child.attr)
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store) and not name and inside:
            found.globals.add(child.id)
        elif isinstance(child, ast.Global):
            found.attributes.update(child.names)  # another module may read them as attributes
        elif name != "__init__" and (name or inside):  # else it is done once, before there are batches
            _in_place(child, found)
        _look(child, found, name, inside)


def _in_place(node: ast.AST, found: Stored) -> None:
    """Notes what is changed by a subscript or a method, under all names on the way to it."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        found.inside |= _on_the_way(node.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
        found.inside |= _on_the_way(node.func.value)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
        found.attributes |= {str(each.value) for each in node.args[1:2] if isinstance(each, ast.Constant)}


def _on_the_way(node: ast.AST) -> set[str]:
    """The names in `a.b[0].c`."""
    names = set()
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        node = node.value
    return names | {node.id} if isinstance(node, ast.Name) else names
