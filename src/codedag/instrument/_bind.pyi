import types
from typing import Any

def fill(code: types.CodeType, sites: list[Any], switches: list[Any], spread: Any, /) -> types.CodeType: ...
