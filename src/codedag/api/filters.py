"""The guides' filter: asks a FilterConfig about a function by its name and its module."""

from __future__ import annotations

from codedag.instrument.selection import FilterConfig


class FunctionFilter:
    """Says which functions are traced."""

    def __init__(self, config: FilterConfig | None = None) -> None:
        self.config = config or FilterConfig()

    def should_trace(self, func_name: str, module: str = "") -> bool:
        """Whether a function of this name in this module is traced."""
        return self.config.wants_module(module) and self.config.wants_function(func_name)
