"""What librosa's and soundfile's functions do."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_CORE = (
    "A_weighting amplitude_to_db autocorrelate db_to_amplitude db_to_power fft_frequencies frames_to_samples "
    "frames_to_time get_duration hz_to_mel hz_to_midi hz_to_octs istft magphase mel_frequencies mel_to_hz midi_to_hz "
    "note_to_hz pcen power_to_db resample samples_to_frames samples_to_time stft time_to_frames time_to_samples "
    "to_mono zero_crossings cqt_frequencies perceptual_weighting"
)
_PARTS = {
    "feature": "delta rms zero_crossing_rate stack_memory spectral_flatness",
    "filters": "chroma constant_q get_window mel window_bandwidth window_sumsquare",
    "effects": "preemphasis deemphasis trim split",
    "util": "fix_length frame normalize pad_center tiny",
}
#: They multiply by a filter bank, which BLAS does.
_PRODUCTS = {
    "feature": "chroma_stft melspectrogram mfcc poly_features spectral_bandwidth spectral_centroid spectral_contrast "
    "spectral_rolloff tonnetz",
    "effects": "harmonic hpss percussive pitch_shift time_stretch",
}


def _no_file(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    if "path" in keywords or "filename" in keywords:
        return "it reads a file"
    return ""


def _name(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    name = args[0] if args else keywords.get("path")
    return device(name) if type(name).__module__ in ("builtins", "pathlib") else "it is given an open file"


def learn_soundfile(table: Table, soundfile: Any) -> None:
    """Adds soundfile."""
    reads: dict[str, Any] = {"effect": Effect.READS, "files": (0, "file"), "declines": _sound_name}
    table.functions_of(soundfile, "read", outs=("out",), **reads)
    table.functions_of(soundfile, "info", outs=(), **reads)


def _sound_name(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    name = args[0] if args else keywords.get("file")
    return device(name) if type(name).__module__ in ("builtins", "pathlib") else "it is given an open file"


_FACTS: dict[str, Any] = {"outs": ("out",), "fresh": False, "declines": _no_file}
_LOAD: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "path"), "declines": _name}
#: What numba compiles on the first call is kept, and is the same code in every thread.
PACKAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "librosa.core.audio": ("load get_samplerate", _LOAD),
    "librosa.core": (_CORE, _FACTS),
    "librosa.feature.spectral": (_PRODUCTS["feature"], _FACTS | {"by_threads": True}),
    "librosa.effects": (f"{_PARTS['effects']} {_PRODUCTS['effects']}", _FACTS | {"by_threads": True}),
    "librosa.feature": (_PARTS["feature"], _FACTS),
    "librosa.filters": (_PARTS["filters"], _FACTS),
    "librosa.util": (_PARTS["util"], _FACTS),
}
