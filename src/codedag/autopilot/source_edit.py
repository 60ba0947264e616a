"""Edits of a program's source by its syntax tree (libcst): operations become one expression that a helper runs.

Everything else of the file, comments and layout included, stays as it is.  What cannot be edited without changing what
the program does raises LookupError with the reason.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codedag.ir.errors import MissingPackage

if TYPE_CHECKING:
    import libcst as cst

    from codedag.ir import Op

OPERATORS = {
    "add": "Add", "sub": "Subtract", "mul": "Multiply", "truediv": "Divide", "floordiv": "FloorDivide", "mod": "Modulo",
    "pow": "Power", "matmul": "MatrixMultiply", "and_": "BitAnd", "or_": "BitOr", "xor": "BitXor",
}  # fmt: skip
VALUE = "value"  # the parameter of the steps that were taken out


def libcst() -> Any:
    """The library that edits source; raises MissingPackage where it is not installed."""
    try:
        import libcst as found
    except ImportError:
        raise MissingPackage(
            "code to adopt is written by libcst, which is not installed",
            hint="`pip install 'codedag[patch]'` brings it.",
        ) from None
    return found


@dataclass(frozen=True, slots=True)
class Extracted:
    """Source in which some operations are run by a helper: the new text, and the steps as a function of `value`."""

    text: str
    steps: str  # the source of `def steps(value): ...`, to be tried by itself
    operand: str  # the source of what goes in


class Source:
    """One file that is edited, change after change."""

    def __init__(self, text: str) -> None:
        self.cst = libcst()
        self.text = text

    def names(self) -> set[str]:
        """Every name that the file uses."""
        return {node.value for node in self._walk(self._parse()[0]) if isinstance(node, self.cst.Name)}

    def replace_call(self, op: Op, name: str, is_method: bool) -> str:
        """The text with the call of `op` made to `name` instead; what a method is called on becomes an argument."""
        module, _, where, _ = self._parse()
        call = self._node(module, where, op)
        if not isinstance(call, self.cst.Call):
            raise LookupError("it is no call in the source")
        args = list(call.args)
        if is_method and isinstance(call.func, self.cst.Attribute):
            first = self.cst.Arg(call.func.value)
            args.insert(0, first.with_changes(comma=self._comma()) if args else first)
        return self._replaced(module, call, call.with_changes(func=self.cst.Name(name), args=args))

    def with_preamble(self, code: str) -> str:
        """The text with this code below its imports and before the first other statement."""
        module = self._parse()[0]
        at = 0
        for number, statement in enumerate(module.body):
            if self._is_import(statement) or (number == 0 and self._is_docstring(statement)):
                at = number + 1
            elif at:
                break
        blank = [self.cst.EmptyLine(indent=False)] * 2
        added, rest = list(self.cst.parse_module(f"{code}\n").body), list(module.body[at:])
        added[0] = added[0].with_changes(leading_lines=[*(blank if at else []), *added[0].leading_lines])
        if rest and not any(line.comment is None for line in rest[0].leading_lines[:1]):
            rest[0] = rest[0].with_changes(leading_lines=[*blank, *rest[0].leading_lines])
        elif rest:
            rest[0] = rest[0].with_changes(leading_lines=[*blank[:1], *rest[0].leading_lines])
        return str(module.with_changes(body=[*module.body[:at], *added, *rest]).code)

    def extract(self, ops: Sequence[Op], helper: str, steps_name: str) -> Extracted:
        """The text in which `helper(operand, steps)` stands for the operations, of which each reads the one before."""
        module, parents, where, _ = self._parse()
        nodes = [self._node(module, where, op) for op in ops]
        operand = self._operand(nodes[0], ops[0])
        lines = [self._statement(node, parents) for node in nodes]
        block, body = self._block(lines, parents)
        if len(block) == 1:
            return self._as_expression(module, nodes, operand, helper, parents)
        return self._as_function(module, block, body, nodes, operand, (helper, steps_name), parents)

    # -- within one statement: a lambda

    def _as_expression(
        self, module: cst.Module, nodes: list[Any], operand: Any, helper: str, parents: dict[Any, Any]
    ) -> Extracted:  # fmt: skip
        if not self._is_within(nodes[0], nodes[-1], parents):
            raise LookupError("its operations are no part of one expression")
        self._refuse_waiting(nodes[-1])
        inner = nodes[-1].deep_replace(operand, self.cst.Name(VALUE))
        code, source = module.code_for_node(inner), module.code_for_node(operand)
        if "\n" in code:
            code = " ".join(line.strip() for line in code.splitlines())
        call = self.cst.parse_expression(f"{helper}({source}, lambda {VALUE}: {code})")
        return Extracted(
            self._replaced(module, nodes[-1], call), f"def steps({VALUE}):\n    return {code}\n", source
        )  # fmt: skip

    # -- over several statements: a function

    def _as_function(
        self, module: cst.Module, block: list[Any], body: Any, nodes: list[Any], operand: Any, names: tuple[str, str],
        parents: dict[Any, Any],
    ) -> Extracted:  # fmt: skip
        helper, steps_name = names
        moved, last = block[:-1], block[-1]
        assigned = self._assigned(moved) - self._targets(last)  # what the last one assigns is what is read afterwards
        self._refuse_reads(assigned, moved, nodes[-1], self._function(last, parents) or module)
        first = moved[0].deep_replace(operand, self.cst.Name(VALUE))
        result = module.code_for_node(nodes[-1])
        inner = [self._plain(each) for each in (first, *moved[1:])]
        text = "".join(module.code_for_node(each) for each in inner)
        code = f"def {steps_name}({VALUE}):\n{_indented(text)}    return {_one_line(result)}\n"
        definition = self.cst.parse_module(code).body[0].with_changes(leading_lines=block[0].leading_lines)
        call = self.cst.parse_expression(f"{helper}({module.code_for_node(operand)}, {steps_name})")
        changed = last.deep_replace(nodes[-1], call)
        changed = changed.with_changes(leading_lines=[self.cst.EmptyLine(indent=False), *changed.leading_lines])
        at = body.body.index(block[0])
        new = body.with_changes(body=[*body.body[:at], definition, changed, *body.body[at + len(block) :]])
        made = module.deep_replace(body, new) if body is not module else new
        return Extracted(made.code, code.replace(f"def {steps_name}(", "def steps(", 1), module.code_for_node(operand))

    def _plain(self, statement: Any) -> Any:
        return statement.with_changes(leading_lines=[])

    def _assigned(self, statements: list[Any]) -> set[str]:
        names: set[str] = set()
        for line in statements:
            for each in getattr(line, "body", [None]):
                targets = [t.target for t in each.targets] if isinstance(each, self.cst.Assign) else None
                if targets is None or not all(isinstance(t, self.cst.Name) for t in targets):
                    raise LookupError("there are other statements than assignments to variables between its operations")
                names |= {target.value for target in targets}
            self._refuse_waiting(line)
        return names

    def _targets(self, line: Any) -> set[str]:
        (each,) = line.body[:1]
        targets = [one.target for one in each.targets] if isinstance(each, self.cst.Assign) else []
        return {target.value for target in targets if isinstance(target, self.cst.Name)}

    def _refuse_waiting(self, node: Any) -> None:
        kinds = (self.cst.Await, self.cst.Yield, self.cst.NamedExpr)
        if any(isinstance(each, kinds) for each in self._walk(node)):
            raise LookupError("an `await`, a `yield` or a `:=` stands between its operations")

    def _refuse_reads(self, names: set[str], moved: list[Any], result: Any, function: Any) -> None:
        """Raises if something else reads a variable that will be inside the steps only."""
        inside = {id(node) for part in (*moved, result) for node in self._walk(part)}
        assignments = [node for node in self._walk(function) if isinstance(node, self.cst.Assign)]
        stored = {id(target.target) for node in assignments for target in node.targets}
        for node in self._walk(function):
            is_read = isinstance(node, self.cst.Name) and node.value in names and id(node) not in inside | stored
            if is_read and not self._is_parameter(node, function) and self._comes_after(node, moved, function):
                raise LookupError(f"`{node.value}` is read again after its operations")

    def _is_parameter(self, node: Any, function: Any) -> bool:
        params = getattr(function, "params", None)
        return params is not None and any(node is each for each in self._walk(params))

    def _comes_after(self, node: Any, moved: list[Any], function: Any) -> bool:
        """Whether a name stands after the moved statements, or a loop may come back to it."""
        order = {id(each): at for at, each in enumerate(self._walk(function))}
        after = order[id(node)] > order[id(moved[-1])]
        loops = [each for each in self._walk(function) if isinstance(each, self.cst.For | self.cst.While)]
        around = [loop for loop in loops if any(each is moved[0] for each in self._walk(loop))]
        return after or any(each is node for loop in around for each in self._walk(loop.body))

    # -- finding nodes

    def _parse(self) -> tuple[Any, dict[Any, Any], dict[Any, Any], Any]:
        from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

        wrapper = MetadataWrapper(self.cst.parse_module(self.text))
        parents: Any = wrapper.resolve(ParentNodeProvider)
        places: Any = wrapper.resolve(PositionProvider)
        return wrapper.module, parents, places, wrapper

    def _walk(self, node: Any) -> list[Any]:
        found, left = [], [node]
        while left:
            each = left.pop()
            found.append(each)
            left += reversed(each.children)
        return found

    def _node(self, module: Any, where: dict[Any, Any], op: Op) -> Any:
        """The expression of an operation: the one of its name that begins where it begins."""
        last = op.name.rpartition(".")[2]
        for node in self._walk(module):
            if not isinstance(node, self.cst.Call | self.cst.BinaryOperation):
                continue
            start = where[node].start
            if (start.line, self._bytes(start.line, start.column)) != (op.line, op.col):
                continue
            if isinstance(node, self.cst.Call) and self._called(node) == last:
                return node
            if isinstance(node, self.cst.BinaryOperation) and OPERATORS.get(last) == type(node.operator).__name__:
                return node
        raise LookupError(f"{last} is not found in line {op.line} of the source")

    def _bytes(self, line: int, column: int) -> int:
        """Python counts columns in bytes of UTF-8, libcst in letters."""
        return len(self.text.splitlines()[line - 1][:column].encode())

    def _called(self, call: Any) -> str:
        func = call.func
        return func.attr.value if isinstance(func, self.cst.Attribute) else getattr(func, "value", "")

    def _operand(self, node: Any, op: Op) -> Any:
        """What goes into the first operation: a method's object, the first argument, or the side that is data."""
        if isinstance(node, self.cst.BinaryOperation):
            numbers = (self.cst.Integer, self.cst.Float)
            return node.right if isinstance(node.left, numbers) else node.left
        if is_method(op.name) and isinstance(node.func, self.cst.Attribute):
            return node.func.value
        if node.args and node.args[0].keyword is None and not node.args[0].star:
            return node.args[0].value
        raise LookupError("what goes in is not its first argument")

    def _statement(self, node: Any, parents: dict[Any, Any]) -> Any:
        while not isinstance(node, self.cst.SimpleStatementLine):
            node = parents.get(node)
            if node is None:
                raise LookupError("it stands in the head of a compound statement")
        return node

    def _block(self, lines: list[Any], parents: dict[Any, Any]) -> tuple[list[Any], Any]:
        """The statements from the first to the last of these, and the body that they stand in."""
        bodies = {id(parents[line]): parents[line] for line in lines}
        if len(bodies) != 1:
            raise LookupError("its statements stand in several blocks")
        (body,) = bodies.values()
        places = [body.body.index(line) for line in lines]
        return list(body.body[min(places) : max(places) + 1]), body

    def _is_within(self, node: Any, outer: Any, parents: dict[Any, Any]) -> bool:
        while node is not None and node is not outer:
            node = parents.get(node)
        return node is outer

    def _function(self, node: Any, parents: dict[Any, Any]) -> Any:
        while node is not None and not isinstance(node, self.cst.FunctionDef):
            node = parents.get(node)
        return node

    def _replaced(self, module: Any, old: Any, new: Any) -> str:
        return str(module.deep_replace(old, new).code)

    def _comma(self) -> Any:
        return self.cst.Comma(whitespace_after=self.cst.SimpleWhitespace(" "))

    def _is_import(self, statement: Any) -> bool:
        small = getattr(statement, "body", [None])
        kinds = (self.cst.Import, self.cst.ImportFrom)
        return isinstance(statement, self.cst.SimpleStatementLine) and isinstance(small[0], kinds)

    def _is_docstring(self, statement: Any) -> bool:
        small = getattr(statement, "body", [None])
        text = (self.cst.SimpleString, self.cst.ConcatenatedString)
        is_line = isinstance(statement, self.cst.SimpleStatementLine) and isinstance(small[0], self.cst.Expr)
        return is_line and isinstance(small[0].value, text)


def is_method(name: str) -> bool:
    """Whether the name of an operation is that of a method: the part before the last names a class."""
    owner = name.rpartition(".")[0]
    if owner.count(".") == 0:
        return False
    try:
        return importlib.util.find_spec(owner) is None
    except (ImportError, ValueError):  # what is above it is a class already, or cannot be loaded here
        return True


def _indented(code: str) -> str:
    return "".join(f"    {line}" if line.strip() else line for line in _dedented(code).splitlines(keepends=True))


def _dedented(code: str) -> str:
    from textwrap import dedent

    return dedent(code)


def _one_line(code: str) -> str:
    return " ".join(line.strip() for line in code.splitlines())
