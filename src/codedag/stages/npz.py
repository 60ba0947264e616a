"""Arrays in .npz files: read without pickle, written atomically and the same bytes for the same arrays."""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from typing import Any

from codedag.ir.files import write_atomically
from codedag.stages.model import Arrays, BadInput


def read_npz(path: Path) -> Arrays:
    """The arrays of a file by name; raises BadInput naming the file and the array that cannot be read."""
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            if not hasattr(file, "files"):
                raise BadInput(f"{path} is one array without a name", hint="Write it by numpy.savez(file, name=array).")
            return {name: _member(path, file, name) for name in file.files}
    except FileNotFoundError:
        raise BadInput(f"there is no file {path}") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise BadInput(f"{path} cannot be read as .npz: {error}") from None


def _member(path: Path, file: Any, name: str) -> Any:
    try:
        return file[name]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise BadInput(f"array `{name}` of {path} cannot be read: {error}") from None


def write_npz(path: Path, arrays: Arrays) -> None:
    """Writes the arrays atomically."""
    write_atomically(path, npz_bytes(arrays))


def npz_bytes(arrays: Arrays) -> bytes:
    """The arrays as the bytes of an .npz file, without the time at which it was made."""
    import numpy as np

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return stream.getvalue()
