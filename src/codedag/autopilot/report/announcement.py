"""One line while the program runs: from where on it is faster, once its own turns have shown by how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codedag.autopilot.judge.judging import Judging

GAIN_LOW_MIN = 1.1  # of the interval: less is not worth a word in the middle of somebody's output


@dataclass(slots=True)
class Announcement:
    """Called now and then by the pilot's thread; speaks once."""

    judging: Callable[[], Judging | None]
    say: Callable[[str], object]
    _is_said: bool = False

    def __call__(self) -> None:
        """Says it if the turns have shown it by now."""
        judging = None if self._is_said else self.judging()
        gain = judging.judge.gain if judging is not None else None
        if judging is None or gain is None or gain.low < GAIN_LOW_MIN:
            return
        self._is_said = True
        turns = sum(each.turns for each in judging.clock.speeds)
        self.say(f"from here on about {gain.middle:.1f}x faster ({judging.source or 'turn'} {turns:,})")
