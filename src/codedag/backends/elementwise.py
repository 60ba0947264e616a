"""The vocabulary of chains: which calls treat each element by itself, which only rearrange, which copy.

Only operations that are bit-equal by construction are here: + - * /, sqrt, casts, comparisons, clamping and integer
operations give the same bits for the same element wherever it stands.  exp, log, power and sums are not in this list.
Each role also says which arguments are understood; a call with any other runs as the program wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

Operand = int | str

MAP, PERMUTE, SLICE, PACK = "map", "permute", "slice", "pack"
NUMPY, TORCH, EITHER = "numpy", "torch", ""


@dataclass(frozen=True, slots=True)
class Role:
    """What an operation does to the array that goes through a chain."""

    kind: str
    operands: tuple[Operand, ...]  # where the array may stand
    takes: str = EITHER  # the kind of value that it is understood for
    parameters: int = 0  # how many positional arguments it may have beside the array
    keywords: frozenset[str] = frozenset()  # keyword arguments that are understood
    in_place: bool = False
    chooses: bool = False  # it hands on one of several values, so that the sign of a zero may depend on the loop
    order: str = "K"  # memory order of a result that it allocates: that of the input (K), or C
    always: bool = False  # a pack that copies even if the input has that order already
    copies: bool = False  # a pack that moves bytes, so that it is worth ending a chain with
    makes_tensor: bool = False


def _operators() -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for name in ("add", "sub", "mul", "truediv"):
        roles[f"operator.{name}"] = Role(MAP, (0, 1), parameters=1)
        roles[f"operator.i{name}"] = Role(MAP, (0,), parameters=1, in_place=True)
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        roles[f"operator.{name}"] = Role(MAP, (0, 1), parameters=1)
    for name in ("neg", "pos"):
        roles[f"operator.{name}"] = Role(MAP, (0,))
    return roles


def _numpy() -> dict[str, Role]:
    one, two = Role(MAP, (0,), NUMPY), Role(MAP, (0, 1), NUMPY, parameters=1)
    clip = Role(MAP, (0,), NUMPY, 2, frozenset({"min", "max", "a_min", "a_max"}), chooses=True)
    roles = {f"numpy.{name}": two for name in ("add", "subtract", "multiply", "divide", "true_divide")}
    roles |= {f"numpy.{name}": replace(two, chooses=True) for name in ("minimum", "maximum")}
    roles |= {f"numpy.{name}": one for name in ("sqrt", "square", "absolute", "negative")}
    roles |= {f"numpy.{name}": one for name in ("float32", "float64", "uint8", "int16", "int32")}
    roles["numpy.clip"] = clip
    roles["numpy.ndarray.clip"] = replace(clip, operands=("self",))
    roles["numpy.ndarray.astype"] = Role(MAP, ("self",), NUMPY, 1, frozenset({"dtype", "copy"}))
    return roles


def _torch() -> dict[str, Role]:
    roles: dict[str, Role] = {}
    for name in ("add", "sub", "mul", "div", "true_divide", "neg", "abs", "clamp", "clip"):
        unary, bounds = name in ("neg", "abs"), name in ("clamp", "clip")
        keywords = frozenset({"min", "max"}) if bounds else frozenset[str]()
        role = Role(MAP, ("self",), TORCH, 0 if unary else 2 if bounds else 1, keywords, chooses=bounds)
        roles[f"torch.Tensor.{name}"] = role
        roles[f"torch.Tensor.{name}_"] = replace(role, in_place=True)
        roles[f"torch.{name}"] = replace(role, operands=(0,))
    for name in ("float", "double", "int", "long", "short"):
        roles[f"torch.Tensor.{name}"] = Role(MAP, ("self",), TORCH)
    roles["torch.Tensor.type"] = Role(MAP, ("self",), TORCH, 1)
    roles["torch.Tensor.to"] = Role(MAP, ("self",), TORCH, 2, frozenset({"dtype"}))
    return roles


def _views() -> dict[str, Role]:
    return {
        "numpy.ndarray.transpose": Role(PERMUTE, ("self",), NUMPY, 5),
        "numpy.ndarray.swapaxes": Role(PERMUTE, ("self",), NUMPY, 2),
        "numpy.transpose": Role(PERMUTE, (0,), NUMPY, 1),
        "numpy.swapaxes": Role(PERMUTE, (0,), NUMPY, 2),
        "numpy.moveaxis": Role(PERMUTE, (0,), NUMPY, 2),
        "numpy.rollaxis": Role(PERMUTE, (0,), NUMPY, 2),
        "torch.Tensor.permute": Role(PERMUTE, ("self",), TORCH, 5),
        "torch.Tensor.transpose": Role(PERMUTE, ("self",), TORCH, 2),
        "operator.getitem": Role(SLICE, (0,), NUMPY, 1),
    }


def _packs() -> dict[str, Role]:
    dtype = frozenset({"dtype"})
    return {
        "numpy.ascontiguousarray": Role(PACK, (0,), NUMPY, 1, dtype, order="C", copies=True),
        "numpy.ndarray.copy": Role(PACK, ("self",), NUMPY, order="C", always=True, copies=True),
        "numpy.array": Role(PACK, (0,), NUMPY, 1, dtype, always=True, copies=True),
        "numpy.asarray": Role(PACK, (0,), NUMPY, 1, dtype),
        "torch.from_numpy": Role(PACK, (0,), NUMPY, makes_tensor=True),
        "torch.as_tensor": Role(PACK, (0,), EITHER, 0, dtype, makes_tensor=True),
        "torch.tensor": Role(PACK, (0,), NUMPY, 0, dtype, always=True, copies=True, makes_tensor=True),
        "torch.Tensor.contiguous": Role(PACK, ("self",), TORCH, order="C", copies=True),
        "torch.Tensor.clone": Role(PACK, ("self",), TORCH, always=True, copies=True),
    }


ROLES: dict[str, Role] = {**_operators(), **_numpy(), **_torch(), **_views(), **_packs()}


def role_of(name: str, operand: Operand | None = None) -> Role | None:
    """The role of an operation for an array that stands at `operand` (None: at any place), if it has one."""
    role = ROLES.get(name)
    if role is None or (operand is not None and operand not in role.operands):
        return None
    return role
