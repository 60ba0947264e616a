"""What the tests of this room share."""

from toys import toys

__all__ = ["toys"]
