"""The vocabulary of chains: which calls treat each element by itself, which only rearrange, which copy.

Only operations that are bit-equal by construction are here: + - * /, sqrt, casts, comparisons, clamping and integer
operations give the same bits for the same element wherever it stands.  exp, log, power and sums are not in this list.
"""

from __future__ import annotations

from dataclasses import dataclass

Operand = int | str

MAP, PERMUTE, SLICE, PACK = "map", "permute", "slice", "pack"


@dataclass(frozen=True, slots=True)
class Role:
    """What an operation does to the array that goes through a chain."""

    kind: str
    operands: tuple[Operand, ...]  # where the array may stand
    in_place: bool = False
    order: str = "K"  # memory order of the result: that of the input (K), or C
    copies: bool = False  # a pack that moves bytes, so that it is worth ending a chain with
    makes_tensor: bool = False


def _maps() -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for name in ("add", "sub", "mul", "truediv"):
        roles[f"operator.{name}"] = Role(MAP, (0, 1))
        roles[f"operator.i{name}"] = Role(MAP, (0,), in_place=True)
    for name in ("neg", "pos"):
        roles[f"operator.{name}"] = Role(MAP, (0,))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        roles[f"operator.{name}"] = Role(MAP, (0, 1))
    for name in ("add", "subtract", "multiply", "divide", "true_divide", "minimum", "maximum"):
        roles[f"numpy.{name}"] = Role(MAP, (0, 1))
    for name in (
        "sqrt",
        "square",
        "absolute",
        "negative",
        "clip",
        "float32",
        "float64",
        "uint8",
        "int16",
        "int32",
    ):
        roles[f"numpy.{name}"] = Role(MAP, (0,))
    for name in ("astype", "clip"):
        roles[f"numpy.ndarray.{name}"] = Role(MAP, ("self",))
    for name in ("add", "sub", "mul", "div", "clamp", "clip", "true_divide", "neg", "abs"):
        roles[f"torch.Tensor.{name}"] = Role(MAP, ("self",))
        roles[f"torch.Tensor.{name}_"] = Role(MAP, ("self",), in_place=True)
        roles[f"torch.{name}"] = Role(MAP, (0,))
    for name in ("float", "double", "int", "long", "short", "type", "to"):
        roles[f"torch.Tensor.{name}"] = Role(MAP, ("self",))
    return roles


ROLES: dict[str, Role] = {
    **_maps(),
    "numpy.ndarray.transpose": Role(PERMUTE, ("self",)),
    "numpy.ndarray.swapaxes": Role(PERMUTE, ("self",)),
    "numpy.transpose": Role(PERMUTE, (0,)),
    "numpy.swapaxes": Role(PERMUTE, (0,)),
    "numpy.moveaxis": Role(PERMUTE, (0,)),
    "numpy.rollaxis": Role(PERMUTE, (0,)),
    "torch.Tensor.permute": Role(PERMUTE, ("self",)),
    "torch.Tensor.transpose": Role(PERMUTE, ("self",)),
    "operator.getitem": Role(SLICE, (0,)),
    "numpy.ascontiguousarray": Role(PACK, (0,), order="C", copies=True),
    "numpy.ndarray.copy": Role(PACK, ("self",), order="C", copies=True),
    "numpy.array": Role(PACK, (0,), copies=True),
    "numpy.asarray": Role(PACK, (0,)),
    "torch.from_numpy": Role(PACK, (0,), makes_tensor=True),
    "torch.as_tensor": Role(PACK, (0,), makes_tensor=True),
    "torch.tensor": Role(PACK, (0,), order="C", copies=True, makes_tensor=True),
    "torch.Tensor.contiguous": Role(PACK, ("self",), order="C", copies=True),
    "torch.Tensor.clone": Role(PACK, ("self",), copies=True),
}

#: Keyword arguments that none of these operations gives another meaning.
KEYWORDS = frozenset({"dtype", "copy", "min", "max", "a_min", "a_max"})


def role_of(name: str, operand: Operand | None = None) -> Role | None:
    """The role of an operation for an array that stands at `operand` (None: at any place), if it has one."""
    role = ROLES.get(name)
    if role is None or (operand is not None and operand not in role.operands):
        return None
    return role
