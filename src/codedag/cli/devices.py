"""`codedag devices`: the processing units of this machine, the links between them, and what was not found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codedag.cli.options import tell

if TYPE_CHECKING:
    from codedag.ir import Link, Machine, Pu


@click.command("devices", short_help="List the processing units, how fast data gets there, and what is missing.")
@click.option("--machine", "file", metavar="FILE", help="Show this machine.json, made elsewhere, as simulated.")
@click.option("--no-links", is_flag=True, help="Do not measure links and peaks.")
@click.option("-o", "--output", metavar="FILE", help="Write the inventory to this file (machine.json).")
@click.option("--json", "as_json", is_flag=True, help="Print machine.json.")
@click.pass_context
def command(ctx: click.Context, file: str | None, no_links: bool, output: str | None, as_json: bool) -> None:
    """List every processing unit (PU) that was found, with links as measured, and why the others were not found.

    A PU is a runtime on a resource: two runtimes on the same cores take turns.
    """
    from codedag.ir import save

    machine = _machine(ctx, file, not no_links)
    if output:
        save(machine, output)
    if as_json:
        import msgspec

        tell(msgspec.json.encode(machine).decode())
        return
    tell(*_lines(machine), f"next: codedag profile RUN{'' if file is None else f'; codedag plan RUN --machine {file}'}")


def _machine(ctx: click.Context, file: str | None, measure: bool) -> Machine:
    from codedag.cli.progress import progress
    from codedag.devices.families import FAMILIES
    from codedag.devices.inventory import from_elsewhere, inventory

    if file is not None:
        return from_elsewhere(file)
    names = list(FAMILIES)
    with progress(ctx, "looking", len(names)) as advance:
        return inventory(measure=measure, told=lambda family: advance(names.index(family), family))


def _lines(machine: Machine) -> list[str]:
    found = [line for pu in machine.pus for line in _pu(pu)]
    links = [_link(machine, link) for link in machine.links]
    absent = [f"  {each.name:<14} {each.reason}" for each in machine.absent or ()]
    return [
        f"{len(machine.pus)} processing units",
        *found,
        *(["links (measured)" if not _simulated(machine) else "links (of the file)", *links] if links else []),
        *(["not found", *absent] if absent else []),
    ]


def _simulated(machine: Machine) -> bool:
    return any(pu.simulated for pu in machine.pus)


def _pu(pu: Pu) -> list[str]:
    name = f"{pu.name}{' (simulated)' if pu.simulated else ''}"
    takes_turns = f"on {pu.resource}" if isinstance(pu.resource, str) else "on its own"
    threads = f", {pu.threads} threads" if isinstance(pu.threads, int) else ""
    lines = [
        f"  {name:<14} {pu.memory_nbytes / 1e9:.1f} GB, {takes_turns}{threads}, {pu.runtime or 'runtime not said'}"
    ]
    if pu.capability:
        lines.append(f"  {'':<14} {', '.join(pu.capability)}")
    if isinstance(pu.flop_per_second, float) and isinstance(pu.stream_bytes_per_second, float):
        flop, stream = pu.flop_per_second / 1e9, pu.stream_bytes_per_second / 1e9
        watts = f", {pu.watts:.0f} W" if isinstance(pu.watts, float) else ""
        lines.append(f"  {'':<14} peaks: {flop:.0f} G float32 operations/s, {stream:.1f} GB/s of memory{watts}")
    return lines


def _link(machine: Machine, link: Link) -> str:
    ends = (machine.pu(link.src), machine.pu(link.dst))
    label = " (simulated)" if any(end is not None and end.simulated for end in ends) else ""
    how = f", {link.how}" if isinstance(link.how, str) else ""
    sizes = ""
    if link.measured:
        sizes = ": " + ", ".join(f"{_size(each.nbytes)} {each.seconds * 1e6:.1f} us" for each in link.measured)
    return f"  {link.src} -> {link.dst}{label}{how}{sizes or _rate(link)}"


def _rate(link: Link) -> str:
    return f": {link.latency_seconds * 1e6:.1f} us and {link.bytes_per_second / 1e9:.1f} GB/s"


def _size(nbytes: int) -> str:
    for unit, size in (("MB", 1 << 20), ("KB", 1 << 10)):
        if nbytes >= size:
            return f"{nbytes // size} {unit}"
    return f"{nbytes} B"
