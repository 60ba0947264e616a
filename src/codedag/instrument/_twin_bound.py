"""`f(*a)` in the twin: f is bound to its site before the arguments are spread."""

from __future__ import annotations

from typing import Any


class Spread:
    """Binds the function of `f(*a, **k)` to its site before the arguments are spread."""

    __slots__ = ("site",)

    def __init__(self, site: Any) -> None:
        self.site = site

    def __call__(self, function: Any, /) -> BoundSite:
        """What is called with the arguments once they are spread."""
        return BoundSite(self.site, function)


class BoundSite:
    """A function and the site where it is called; it has the name of the function, for Python's error messages."""

    __slots__ = ("function", "site")

    def __init__(self, site: Any, function: Any) -> None:
        self.site, self.function = site, function

    def __getattribute__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "function"), name)

    def __str__(self) -> str:
        return str(object.__getattribute__(self, "function"))

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        """The result of the call that stands here."""
        site = object.__getattribute__(self, "site")
        return site(object.__getattribute__(self, "function"), *args, **keywords)
