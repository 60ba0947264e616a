"""What torchvision's functions do: the transforms that draw nothing, and the loaders of image files."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_FRESH = (
    "to_tensor pil_to_tensor adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_saturation "
    "adjust_sharpness affine autocontrast equalize gaussian_blur invert perspective posterize resized_crop rotate "
    "solarize to_pil_image"
)
#: What may give its own argument, or a view of it.
_MAY_BE_SAME = (
    "center_crop convert_image_dtype crop five_crop get_dimensions get_image_num_channels get_image_size hflip pad "
    "resize rgb_to_grayscale ten_crop to_grayscale vflip"
)


def learn_functional(table: Table, module: Any) -> None:
    """Adds torchvision.transforms.functional."""
    table.add_atoms((module.InterpolationMode,))
    table.functions_of(module, _FRESH, outs=(), by_threads=True)
    table.functions_of(module, _MAY_BE_SAME, outs=(), by_threads=True, fresh=False)
    table.functions_of(module, "normalize", outs=(), declines=_in_place)
    table.functions_of(module, "erase", outs=(), declines=_in_place)


def _in_place(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    is_given = keywords.get("inplace") or (len(args) > 3 and args[-1] is True)
    return "it changes the image in place" if is_given else ""


def learn_folder(table: Table, module: Any) -> None:
    """Adds the loaders of torchvision.datasets.folder, which read one file."""
    facts: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "path"), "declines": _device}
    table.functions_of(module, "pil_loader default_loader", **facts)


def learn_utils(table: Table, module: Any) -> None:
    """Adds what torchvision's datasets make images of arrays with."""
    table.functions_of(module, "_Image_fromarray", outs=(), fresh=False)


def _device(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return device(args[0] if args else keywords.get("path"))
