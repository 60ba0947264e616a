"""Substitutions and vocabularies, one file per library."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """The C extension `_pixels`, or what stands for it, so that modules which use it in part can be loaded."""
    if name != "_pixels":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    try:
        return importlib.import_module(f"{__name__}._pixels")
    except ImportError:
        from codedag.backends.not_built import NotBuilt

        globals()[name] = made = NotBuilt()
        return made
