import types
from typing import Any

def fill(code: types.CodeType, sites: list[Any], switches: list[Any], spread: Any, /) -> types.CodeType: ...
def sites(
    site: Any, table: Any, what_of: bytes, kinds: list[int], functions: list[Any], returns: list[bool], /
) -> list[Any]: ...
