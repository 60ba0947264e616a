"""What Pillow's functions and image methods do.

An image that was opened is read when its pixels are first needed: until then a method also changes the image itself.
"""

from __future__ import annotations

from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_SURE = (
    "convert copy crop getbands getbbox getchannel getcolors getextrema getpixel getprojection histogram entropy "
    "filter "
    "point quantize reduce resize rotate tobytes transform transpose remap_palette split get_flattened_data"
)
_INTO = "paste putalpha putdata putpalette putpixel thumbnail alpha_composite load draft seek"
_IMAGE = "new merge blend composite alpha_composite linear_gradient radial_gradient frombytes eval"
_ALIASES = "fromarray frombuffer"
_OPERATIONS = (
    "autocontrast colorize contain cover crop deform equalize expand fit flip grayscale invert mirror pad posterize "
    "scale solarize exif_transpose"
)
_ENHANCE = "Brightness Color Contrast Sharpness"
_FILTERS = "GaussianBlur BoxBlur UnsharpMask Kernel MedianFilter MinFilter MaxFilter ModeFilter RankFilter"
_ENUMS = "Resampling Transpose Transform Dither Palette Quantize"


def learn(table: Table, image: Any) -> None:
    """Adds PIL.Image: opening, making, and the methods of images."""
    kind = image.Image
    table.hold(kind, lambda value: True)
    table.families["PIL"] = kind
    table.add_atoms(getattr(image, name) for name in _ENUMS.split() if hasattr(image, name))
    table.methods_of(kind, _SURE, outs=())
    table.methods_of(kind, _INTO, outs=(), into_self=True, fresh=False)
    table.methods_of(kind, "show save", outs=(), declines=lambda args, keywords: "it writes a file")
    table.functions_of(image, _IMAGE, outs=())
    table.functions_of(image, _ALIASES, outs=(), fresh=False)
    table.functions_of(image, "open", effect=Effect.READS, outs=(), files=(0, "fp"), declines=_not_a_name)


def _not_a_name(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    name = args[0] if args else keywords.get("fp")
    if type(name).__module__ not in ("builtins", "pathlib", "pathlib._local"):
        return "it is given an open file, which it reads later"
    return device(name)


def learn_operations(table: Table, module: Any) -> None:
    """Adds PIL.ImageOps."""
    table.functions_of(module, _OPERATIONS, outs=(), declines=_in_place)
    table.functions_of(module, "exif_transpose", outs=(), declines=_in_place, fresh=True)


def _in_place(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return "it changes the image in place" if keywords.get("in_place") else ""


def learn_enhance(table: Table, module: Any) -> None:
    """Adds PIL.ImageEnhance: an enhancer keeps the image and a degenerate one, `enhance` blends them."""
    table.functions_of(module, _ENHANCE, outs=(), fresh=False)
    for name in _ENHANCE.split():
        kind = getattr(module, name)
        table.hold(kind)
        table.methods_of(kind, "enhance", outs=())


def learn_filters(table: Table, module: Any) -> None:
    """Adds PIL.ImageFilter: filters are values that images are filtered with."""
    table.functions_of(module, _FILTERS, outs=())
    constant = "BLUR CONTOUR DETAIL EDGE_ENHANCE EDGE_ENHANCE_MORE EMBOSS FIND_EDGES SHARPEN SMOOTH SMOOTH_MORE"
    for name in f"{_FILTERS} {constant}".split():
        table.hold(getattr(module, name))
