"""Random small programs over numbers: every kind of control flow, names that are read, bound, deleted and captured."""

from __future__ import annotations

import random
from typing import Any

NAMES = "pqrst"


class Fuel(Exception):
    """Raised by the program itself, now and then."""


class Program:
    """Writes one program; `lines` is its text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.generator = self.random.random() < 0.15

    def function(self) -> str:
        self.lines = ["def f(p, q, r, s, t):", "    n = 0"]
        if self.random.random() < 0.2:
            self.lines.append("    late = lambda: g(r)")
        self.block(1, 3, False)
        self.lines.append(f"    return {self.expression(2)}")
        return "\n".join(self.lines) + "\n"

    def module(self) -> str:
        self.lines = ["p = q = r = s = t = 3", "n = 0", "def reads():", "    return t", "try:"]
        self.block(1, 3, False)
        self.lines += ["    out(g(p), g(q))", "except Fuel:", f"    out({self.name()}, reads())"]
        return "\n".join(self.lines) + "\n"

    # -- statements

    def block(self, depth: int, levels: int, loop: bool) -> None:
        for _ in range(self.random.randint(2, 6)):
            self.statement(depth, levels, loop)

    def statement(self, depth: int, levels: int, loop: bool) -> None:
        kinds = (
            ["assign"] * 12
            + ["augment"] * 3
            + ["out"] * 3
            + ["multi", "tuple", "delete", "closure", "lazy", "walrus", "annotate"]
        )
        if levels:
            kinds += ["if", "if", "for", "while", "try", "try", "with", "match", "finally"]
        if loop:
            kinds += ["break", "continue", "break"]
        if self.random.random() < 0.03:
            kinds = ["return"]
        getattr(self, "_" + self.random.choice(kinds))(depth, levels, loop)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        return self.random.choice(NAMES)

    def expression(self, depth: int) -> str:
        r = self.random
        if depth == 0 or r.random() < 0.25:
            return self.name() if r.random() < 0.9 else str(r.randint(0, 9))
        a, b = self.expression(depth - 1), self.expression(depth - 1)
        forms = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"g({a})",
            f"h({a}, k={b})",
            f"(-{a})",
            f"({a}).real",
            f"({a}).conjugate()",
        ]
        rare = [
            f"({a} if {b} else 1)",
            f"risky({a})",
            f"[{a}, {b}][0]",
            f"({a} or {b})",
            f"sum(x + {a} for x in [1])",
            f"len(f'{{{a}}}')",
        ]
        rare += [
            f"max(*[{a}, {b}])",
            f"h(*[{a}], k={b})",
            f"int({a} < {b})",
            f"box({a}).value",
            f"(lambda: {a})()",
            f"dict(k={a})['k']",
        ]
        return r.choice(forms * 3 + rare)

    def _assign(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()} = {self.expression(self.random.randint(1, 2))}")

    def _augment(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()} {self.random.choice('+-')}= {self.expression(1)}")

    def _out(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"out({self.expression(1)})")

    def _multi(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()} = {self.name()} = {self.expression(1)}")

    def _tuple(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()}, {self.name()} = {self.expression(1)}, {self.expression(1)}")

    def _delete(self, depth: int, levels: int, loop: bool) -> None:
        name = self.name()
        self.put(depth, f"del {name}")
        if self.random.random() < 0.8:
            self.put(depth, f"{name} = g(1)")

    def _closure(self, depth: int, levels: int, loop: bool) -> None:
        body = self.random.choice([f"return {self.name()}", "return g(t)"])
        default = f"z={self.name()}" if self.random.random() < 0.3 else ""
        self.put(depth, f"def inner({default}): {body}")
        if self.random.random() < 0.5:
            self.put(depth, f"{self.name()} = g({self.name()})")
        self.put(depth, "out(inner())")

    def _lazy(self, depth: int, levels: int, loop: bool) -> None:
        name = self.name()
        self.put(depth, f"lazy = (x + {name} for x in [1, 2])")
        self.put(depth, f"{name} = {self.expression(1)}")
        self.put(depth, "out(sum(lazy))")

    def _walrus(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()} = ({self.name()} := {self.expression(1)}) + {self.name()}")

    def _annotate(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"{self.name()}: int = {self.expression(1)}")

    def _if(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"if {self.expression(1)} {self.random.choice(['> 2', '% 2', '< n'])}:")
        self.block(depth + 1, levels - 1, loop)
        if self.random.random() < 0.4:
            self.put(depth, "else:")
            self.block(depth + 1, levels - 1, loop)

    def _for(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"for {self.name()} in [{self.expression(1)}, {self.expression(0)}, 2]:")
        self._loop(depth, levels)

    def _while(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"while (n := n + 1) % 4 and {self.expression(1)} != 77:")
        self._loop(depth, levels)

    def _loop(self, depth: int, levels: int) -> None:
        self.put(depth + 1, "tick()")
        self.block(depth + 1, levels - 1, True)
        if self.random.random() < 0.3:
            self.put(depth, "else:")
            self.block(depth + 1, levels - 1, False)

    def _try(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, "try:")
        self.block(depth + 1, levels - 1, loop)
        self.put(depth, f"except {self.random.choice(['Fuel', 'Fuel as ' + self.name(), '(Fuel, NameError)'])}:")
        self.put(depth + 1, "pass")
        self.block(depth + 1, levels - 1, loop)
        if self.random.random() < 0.3:
            self.put(depth, "else:")
            self.block(depth + 1, levels - 1, loop)
        if self.random.random() < 0.3:
            self.put(depth, "finally:")
            self.block(depth + 1, levels - 1, False)

    def _finally(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, "try:")
        self.block(depth + 1, levels - 1, loop)
        self.put(depth, "finally:")
        self.block(depth + 1, 0, False)

    def _with(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"with swallow({self.expression(1)}) as {self.name()}:")
        self.block(depth + 1, levels - 1, loop)

    def _match(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"match [{self.expression(1)}, {self.name()}]:")
        self.put(depth + 1, f"case [0, {self.name()}]:")
        self.block(depth + 2, levels - 1, loop)
        self.put(depth + 1, f"case [{self.name()}, 3 | 4]:")
        self.block(depth + 2, levels - 1, loop)

    def _break(self, depth: int, levels: int, loop: bool) -> None:
        self.put(depth, f"if {self.expression(1)} > 1: {self.random.choice(['break', 'continue'])}")

    _continue = _break

    def _return(self, depth: int, levels: int, loop: bool) -> None:
        if self.lines[0].startswith("def"):
            self.put(depth, f"if {self.name()} > 4: return {self.expression(1)}")
        else:
            self.put(depth, f"if {self.name()} > 4: raise Fuel")


def world(seed: int) -> dict[str, Any]:
    """What a program can call; `seen` gathers what it shows."""
    state = random.Random(seed)
    seen: list[Any] = []
    steps = [0]

    def tick() -> None:
        steps[0] += 1
        if steps[0] > 60:
            raise Fuel("enough")

    def risky(x: Any) -> Any:
        if state.random() < 0.3:
            raise Fuel(x)
        return x

    class swallow:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __enter__(self) -> Any:
            return self.x

        def __exit__(self, *a: Any) -> bool:
            return a[0] is Fuel

    class box:
        def __init__(self, value: Any) -> None:
            self.value = value

    def g(x: Any) -> Any:
        return x % 7 + 1

    def h(x: Any, k: Any = 0) -> Any:
        return x - k

    return {
        "out": lambda *a: seen.append(a), "seen": seen, "tick": tick, "risky": risky, "swallow": swallow, "box": box,
        "g": g, "h": h, "Fuel": Fuel,
    }  # fmt: skip
