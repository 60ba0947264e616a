"""A pipeline of albumentations in two parts: all that it draws, in the item's turn, and the work, beside other items.

A transform draws its parameters, from the shape and the type of the image at most, before it works, and its work draws
nothing.  So the parameters of all transforms are drawn one after the other, as the library would have drawn them, and
the images are worked on when the turn has been passed on.  The shape that an image will have is foretold, and compared
once it is there: if it is another one, the item is given up, and such transforms work within the turn from then on.

A transform keeps the parameters of its last call.  They are kept in the turn too, so in the order of the items.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any

from codedag.backends.requirements import satisfied
from codedag.instrument.program import Program

LIBRARY = "albumentations>=2.0.8,<2.1"  # the order of its draws; another release may change it
_KEYS = frozenset({"image", "mask"})
_INTERFACE, _COMPOSITION = "albumentations.core.transforms_interface", "albumentations.core.composition"
#: What a transform must have left as the library's base class has it, for its call to be taken apart.
_CALL = ("__call__", "should_apply", "apply_with_params", "update_transform_params")
#: Transforms that look at no more of an image than its shape and its type when they draw.
_OUTLINE = frozenset({
    "AdditiveNoise", "ChannelDropout", "GaussNoise", "MultiplicativeNoise", "RandomBrightnessContrast",
    "RandomToneCurve", "SaltAndPepper",
})  # fmt: skip
#: Transforms of images and masks after which an image has the shape that it had.
_KEEP = frozenset({
    "Affine", "CoarseDropout", "ElasticTransform", "GridDistortion", "GridDropout", "HorizontalFlip", "NoOp",
    "OpticalDistortion", "Rotate", "ShiftScaleRotate", "VerticalFlip", "XYMasking",
})  # fmt: skip
_BY_SIZE = frozenset({"RandomResizedCrop", "RandomSizedCrop"})
_BY_SIDES = frozenset({"CenterCrop", "RandomCrop", "Resize"})
_BY_SCALE = frozenset({"LongestMaxSize", "SmallestMaxSize"})
_BY_PADS = frozenset({"Pad", "PadIfNeeded"})
_INTO_FLOATS = frozenset({"Normalize", "ToFloat"})

#: Words by which a program gets at the parameters of the last call.
_KEPT = (b".params", b"applied_params", b"'params'", b'"params"', b"applied_in_replay")

Form = tuple[tuple[int, ...], Any]  # shape and dtype of an image
Foretell = Callable[[Any, Form, dict[str, Any]], Form | None]  # from a transform, what it is given and its parameters


class Outline:
    """What an image will be like, for those who ask for no more."""

    __slots__ = ("dtype", "ndim", "shape")

    def __init__(self, form: Form) -> None:
        self.shape, self.dtype = form
        self.ndim = len(self.shape)


class Kind:
    """What is known about one class of transforms."""

    __slots__ = ("after", "by_outline", "is_apart", "reads_data")

    def __init__(self, kind: type) -> None:
        base = vars(sys.modules[_INTERFACE])["BasicTransform"]
        name = kind.__name__
        own = all(getattr(kind, method) is getattr(base, method) for method in _CALL)
        self.is_apart = own and base in kind.__mro__ and all(map(_is_own, kind.__mro__))
        self.reads_data = self.is_apart and _loads(kind.get_params_dependent_on_data, "data")  # type: ignore[attr-defined]
        self.by_outline = name in _OUTLINE
        self.after = _foretold(kind, name)


class Pipelines:
    """Takes the calls of pipelines apart."""

    def __init__(self) -> None:
        self._kinds: dict[type, Kind] = {}
        self._is_known: bool | None = None

    def takes(self, pipeline: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> bool:
        """Whether a call of a pipeline with these keywords can be taken apart."""
        module = sys.modules.get(_COMPOSITION)
        if module is None or type(pipeline) is not module.Compose or len(names) != len(values):
            return False
        if self._is_known is None:
            self._is_known = bool(satisfied(LIBRARY))
        return self._is_known and _is_plain(pipeline) and _are_images(pipeline, names, values)

    def run(self, check: Any, item: Any, pipeline: Any, /, **data: Any) -> Any:
        """What the pipeline gives; `Compose.__call__` and the calls of its transforms, in another order."""
        item.draw(pipeline, "Compose", check)
        if not pipeline.py_random.random() < pipeline.p:
            item.drew(check)
            return data
        pipeline.preprocess(data)
        work = Work(item, data, self._kind)
        for transform in pipeline.transforms:
            self._draw(work, transform, False)
        item.drew(check)
        work.finish()
        return pipeline.postprocess(work.data)

    def _kind(self, kind: type) -> Kind:
        if kind not in self._kinds:
            self._kinds[kind] = Kind(kind)
        return self._kinds[kind]

    def _draw(self, work: Work, transform: Any, force: bool) -> None:
        """Draws what a transform will work with, as its call would have."""
        if type(transform) is sys.modules[_COMPOSITION].OneOf and not transform.replay_mode:
            if transform.transforms_ps and (force or transform.py_random.random() < transform.p):
                chosen = transform.random_generator.choice(len(transform.transforms), p=transform.transforms_ps)
                self._draw(work, transform.transforms[chosen], True)
            return
        kind = self._kind(type(transform))
        if not kind.is_apart or transform.replay_mode or transform.deterministic or transform.targets_as_params:
            work.whole(transform, force)
            return
        transform.params = {}
        if transform.should_apply(force_apply=force):
            transform.params = params = _parameters(work, transform, kind)
            work.later(transform, params, kind)


def _parameters(work: Work, transform: Any, kind: Kind) -> dict[str, Any]:
    """The parameters of one call."""
    params = transform.get_params()
    outlined = not kind.reads_data or (kind.by_outline and getattr(transform, "brightness_by_max", True))
    data = work.outlined() if outlined else work.finish()
    params = transform.update_transform_params(params=params, data=data)
    params.update(transform.get_params_dependent_on_data(params=params, data=data))
    return params  # type: ignore[no-any-return]


class Work:
    """What is to be done to one item's images once the turn has been passed on."""

    def __init__(self, item: Any, data: dict[str, Any], kind: Callable[[type], Kind]) -> None:
        self.item, self.data, self._kind = item, data, kind
        self._steps: list[tuple[Any, dict[str, Any], Form | None]] = []
        self._form: Form | None = _form(data)

    def outlined(self) -> dict[str, Any]:
        """What stands for the images as they will be."""
        if self._form is None:
            self.finish()
        return self.data if self._form is None else {"image": Outline(self._form)}

    def later(self, transform: Any, params: dict[str, Any], kind: Kind) -> None:
        """Has a transform work later on, with these parameters."""
        self._form = kind.after(transform, self._form, params) if self._form is not None else None
        self._steps.append((transform, params, self._form))

    def whole(self, transform: Any, force: bool) -> None:
        """Has a transform that cannot be taken apart do all of it now."""
        self.finish()
        self.data = transform(force_apply=True, **self.data) if force else transform(**self.data)
        self._form = _form(self.data)

    def finish(self) -> dict[str, Any]:
        """The images, once all transforms so far have worked."""
        steps, self._steps = self._steps, []
        for transform, params, form in steps:
            self.data = transform.apply_with_params(params, **self.data)
            if form is not None and _form(self.data) != form:
                self._kind(type(transform)).after = _unknown
                why = f"{type(transform).__name__} gave an image of another shape than foretold"
                self.item.give_up(why, wants=True)
        self._form = _form(self.data)
        return self.data


def _form(data: dict[str, Any]) -> Form | None:
    image = data["image"]
    return (image.shape, image.dtype) if type(image) is sys.modules["numpy"].ndarray else None


# ---- what is known about transforms and pipelines


def keeps_parameters(function: Any) -> bool:
    """Whether this is a transform, or a pipeline of them: what it keeps of one item, the next one overwrites."""
    return type(function).__module__.startswith("albumentations.")


def shows_parameters(program: Program) -> bool:
    """Whether the source of the program names what transforms keep: an item might read what another one left."""
    return any(word in file.source for file in list(program.files.values()) for word in _KEPT)


def _foretold(kind: type, name: str) -> Foretell:
    """What tells the shape and type of an image after a transform of this class."""
    if name in _BY_SIZE:
        return lambda transform, form, _: ((*transform.size, *form[0][2:]), form[1])
    if name in _BY_SIDES:
        return lambda transform, form, _: ((transform.height, transform.width, *form[0][2:]), form[1])
    if name in _INTO_FLOATS:
        return lambda _, form, __: (form[0], sys.modules["numpy"].dtype("float32"))
    if name in _BY_SCALE:
        return _scaled
    if name in _BY_PADS:
        return _padded
    image_only = vars(sys.modules[_INTERFACE])["ImageOnlyTransform"] in kind.__mro__
    return _as_it_was if name in _KEEP or image_only else _unknown


def _scaled(_: Any, form: Form, params: dict[str, Any]) -> Form | None:
    sides = (max(1, round(side * params["scale"])) for side in form[0][:2])
    return (*sides, *form[0][2:]), form[1]


def _padded(_: Any, form: Form, params: dict[str, Any]) -> Form | None:
    top, bottom, left, right = (params[f"pad_{side}"] for side in ("top", "bottom", "left", "right"))
    return (form[0][0] + top + bottom, form[0][1] + left + right, *form[0][2:]), form[1]


def _as_it_was(_: Any, form: Form, __: dict[str, Any]) -> Form | None:
    return form


def _unknown(*_: Any) -> Form | None:
    return None


def _is_own(kind: type) -> bool:
    """Whether a class, and the functions in it, are of the library or of Python itself."""
    functions = [value for value in tuple(vars(kind).values()) if callable(value) and hasattr(value, "__code__")]
    places = {kind.__module__, *(function.__module__ for function in functions)}
    return all(place.partition(".")[0] in ("albumentations", "builtins", "abc", "typing") for place in places)


def _loads(function: Any, name: str) -> bool:
    """Whether a function looks at an argument."""
    loads = [each.argval for each in dis.get_instructions(function) if each.opname.startswith("LOAD")]
    return any(name in value if type(value) is tuple else value == name for value in loads)


def _is_plain(pipeline: Any) -> bool:
    """Whether a pipeline has no boxes, key points or records to keep, and is the first of its kind."""
    odd = pipeline.processors or pipeline.check_each_transform or pipeline.save_applied_params or pipeline.replay_mode
    return not odd and pipeline.main_compose and type(pipeline.transforms) is list


def _are_images(pipeline: Any, names: tuple[str, ...], values: tuple[Any, ...]) -> bool:
    """Whether the pipeline is given images and masks and nothing else."""
    known = {**pipeline.additional_targets, "image": "image", "mask": "mask"}
    array = sys.modules["numpy"].ndarray
    pairs = zip(names, values, strict=True)
    return "image" in names and all(known.get(name) in _KEYS and type(value) is array for name, value in pairs)
