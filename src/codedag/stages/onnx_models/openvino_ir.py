"""OpenVINO IR of ONNX files, written next to them by a process of its own, which runs this module."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from codedag.instrument.guard import Failed, attempt
from codedag.ir.files import write_atomically


def main(names: list[str]) -> None:
    """Converts the named files and prints, by file name, why some could not be."""
    reasons = {}
    for name in names:
        made = attempt(convert, Path(name))
        if isinstance(made, Failed):
            reasons[Path(name).name] = made.reason.strip().splitlines()[-1]
    sys.stdout.write("\n" + json.dumps(reasons) + "\n")


def convert(path: Path) -> None:
    """Writes PATH.xml and PATH.bin; weights first, so that an .xml always has its .bin."""
    import openvino

    model = openvino.Core().read_model(str(path))
    with tempfile.TemporaryDirectory() as folder:
        openvino.serialize(model, f"{folder}/ir.xml", f"{folder}/ir.bin")
        write_atomically(path.with_suffix(".bin"), Path(folder, "ir.bin").read_bytes())
        write_atomically(path.with_suffix(".xml"), Path(folder, "ir.xml").read_bytes())


if __name__ == "__main__":
    main(sys.argv[1:])
