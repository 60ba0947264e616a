"""Processing units that can run stages: which are here, in which phase they are measured, what the guide calls them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from codedag.devices.inventory import inventory
from codedag.ir import CodedagError, Machine

#: Families of `codedag devices` whose PUs run stages.
FAMILIES = ("cpu", "openvino", "onnxruntime", "torch", "inductor", "numba")
_FAMILY_OF = {"ov": "openvino", "ort": "onnxruntime", "torch": "torch", "inductor": "inductor", "numba": "numba"}
LIBRARIES = ("openvino", "onnxruntime", "torch", "numba", "onnx")
#: PUs that `codedag devices` lists and that run no stages of models.
_OTHERS = frozenset(("cpu",))
#: Host runtimes that are also measured on a half of the cores each.
LAYOUT_PUS = ("ov:cpu", "ort:cpu", "torch:cpu", "numba:cpu")
PHASES = ("CPU", "GPU", "NPU", "other runtimes")


class UnknownPu(CodedagError):  # noqa: N818 - reads as what happened
    """A PU that is not here, or that nobody knows."""

    slug = "unknown-pu"


def guide_name(pu: str) -> str:
    """The name of a PU in the guide's files: CPU, GPU and NPU for OpenVINO's devices, ours for the others."""
    family, _, resource = pu.partition(":")
    return resource.upper() if family == "ov" else pu


def our_name(pu: str) -> str:
    """The name of a PU of the guide's files here."""
    return f"ov:{pu.lower()}" if _kind(pu) in PHASES[:3] else pu


def phase_of(pu: str) -> str:
    """The phase in which a PU is measured."""
    kind = _kind(guide_name(pu))
    return kind if kind in PHASES else PHASES[3]


def _kind(name: str) -> str:
    """CPU, GPU or NPU of a name that may have a number or cores behind it."""
    return name.partition("@")[0].partition(".")[0]


def with_layouts(machine: Machine, count: int) -> Machine:
    """The machine with each host runtime on one half of the cores, too: two such PUs on other halves work side by side.

    Inductor is left out: it would compile everything twice more.
    """
    half = count // 2
    if not half:
        return machine
    more = [
        replace(pu, name=f"{pu.name}@{cores[0]}-{cores[-1]}" if half > 1 else f"{pu.name}@{cores[0]}",
                resource=f"cores {cores[0]}-{cores[-1]}", cores=list(cores), threads=half)
        for pu in machine.pus if pu.name in LAYOUT_PUS
        for cores in (range(half), range(half, 2 * half))
    ]  # fmt: skip
    known = {pu.name for pu in machine.pus}
    links = [
        replace(link, src=_bound(link.src, pu.name), dst=_bound(link.dst, pu.name))
        for pu in more for link in machine.links if pu.name.partition("@")[0] in (link.src, link.dst)
    ]  # fmt: skip
    new = [pu for pu in more if pu.name not in known]
    names = {pu.name for pu in new}
    return replace(
        machine, pus=[*machine.pus, *new], links=[*machine.links, *(one for one in links if {one.src, one.dst} & names)]
    )


def _bound(name: str, pu: str) -> str:
    return pu if name == pu.partition("@")[0] else name


def versions() -> dict[str, str]:
    """The versions of the libraries that PUs are made of, as installed."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def families_of(pus: Sequence[str]) -> tuple[str, ...]:
    """The families that have these PUs; all that run stages if none is named."""
    if not pus:
        return FAMILIES
    wanted = {"cpu", *(_FAMILY_OF.get(our_name(pu).partition(":")[0], "torch") for pu in pus)}
    return tuple(family for family in FAMILIES if family in wanted)


def here(families: Sequence[str] = FAMILIES, told: Callable[[str], None] = lambda family: None) -> Machine:
    """This machine with the PUs of these families, and why others are absent."""
    return inventory(families, told=told)


def joined(one: Machine, more: Machine) -> Machine:
    """A machine that was probed in two parts; the newer part counts."""
    names = {pu.name for pu in more.pus} | {each.name for each in more.absent or ()}
    kept = [pu for pu in one.pus if pu.name not in names]
    links = [link for link in one.links if not {link.src, link.dst} & (names - {"cpu"})]
    absent = [each for each in one.absent or () if each.name not in names]
    return Machine(pus=[*kept, *more.pus], links=[*links, *more.links], absent=[*absent, *(more.absent or ())])


def chosen(machine: Machine, names: Sequence[str] = ()) -> list[str]:
    """The PUs of a machine that run stages, by phases; of those that are named, the ones that are here.

    Raises UnknownPu for a name that nobody knows, and if none of those named is here.
    """
    found = [pu.name for pu in machine.pus if pu.name not in _OTHERS]
    absent = {one.name: one.reason for one in machine.absent or ()}
    wanted = dict.fromkeys(map(our_name, names)) if names else dict.fromkeys(found)
    for name in wanted:
        if name not in found and name not in absent:
            raise _unknown(name, "`codedag devices` does not know it", found)
    here_now = [name for name in wanted if name in found]
    if not here_now and wanted:
        name = next(iter(wanted))
        raise _unknown(name, absent[name], found)
    return sorted(here_now, key=lambda name: (PHASES.index(phase_of(name)), here_now.index(name)))


def _unknown(name: str, why: str, found: Sequence[str]) -> UnknownPu:
    hint = f"PUs that run stages here: {', '.join(found)}." if found else "`codedag devices` lists what is here."
    return UnknownPu(f"there is no PU `{name}` here: {why}", hint=hint)
