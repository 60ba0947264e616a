"""Builds the C extension; without a compiler the package still installs and says so."""

import compileall
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext


class BuildOrSayWhyNot(build_ext):
    """Turns a failed build of the extension into a loud warning: the plain-Python twin takes over."""

    def run(self) -> None:
        """Builds them; in place, compiles the Python files too: where nobody may write them they would be each time."""
        super().run()
        if self.inplace:
            compileall.compile_dir("src/codedag", quiet=2)

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # noqa: BLE001 - any compiler failure means the same thing here
            print(
                f"codedag: C extension {ext.name} was NOT built ({error}).\n"
                "codedag: the plain-Python twin will be used: same graphs and results, slower tracing,\n"
                "codedag: and frames of CodeDAG are visible to the program. `codedag doctor` says which one runs.",
                file=sys.stderr,
            )


FLAGS = [] if sys.platform == "win32" else ["-O2", "-std=c11"]
GATHERER = ["_gather.c", "gather_names.c", "gather_values.c", "gather_flow.c", "gather_tables.c"]
# Kernels that must round as libraries do: no product and sum are contracted into one operation.
EXACT_FLAGS = [] if sys.platform == "win32" else ["-O3", "-std=gnu11", "-ffp-contract=off"]
PARTS = ("resample", "turn", "affine", "lines", "places", "distance", "colour", "table", "blur", "bytes")
PARTS += ("shrink", "slope", "finite", "glass", "convolve", "bank", "ranks", "blend", "reduce", "text")
PIXELS = ["_pixels.c", *(f"pixels_{part}.c" for part in PARTS)]

setup(
    ext_modules=[
        Extension(
            "codedag.instrument._site",
            ["src/codedag/instrument/_site.c"],
            depends=["src/codedag/instrument/_recorder.h"],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.instrument._bind",
            ["src/codedag/instrument/_bind.c"],
            depends=["src/codedag/instrument/objects.h"],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.instrument._sampler",
            ["src/codedag/instrument/_sampler.c"],
            depends=sorted(map(str, Path("src/codedag/instrument").glob("sampler_*.h"))),
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.trace._gather",
            [f"src/codedag/trace/{name}" for name in GATHERER],
            depends=["src/codedag/instrument/_recorder.h", *sorted(map(str, Path("src/codedag/trace").glob("*.h")))],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.backends._pixels",
            [f"src/codedag/backends/{name}" for name in PIXELS],
            depends=["src/codedag/backends/pixels.h"],
            extra_compile_args=EXACT_FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.plan._sim",
            ["src/codedag/plan/_sim.c"],
            depends=sorted(map(str, Path("src/codedag/plan").glob("*.h"))),
            # No contraction: the twin in Python rounds every operation.
            extra_compile_args=[*FLAGS, "-ffp-contract=off"] if FLAGS else FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.migrate._patch",
            ["src/codedag/migrate/_patch.c"],
            depends=["src/codedag/instrument/objects.h"],
            extra_compile_args=FLAGS,
            optional=True,
        ),
        Extension(
            "codedag.migrate._chain",
            ["src/codedag/migrate/_chain.c"],
            depends=["src/codedag/migrate/chain_table.h", "src/codedag/migrate/own_error.h"],
            extra_compile_args=EXACT_FLAGS,  # tables must round as numpy and torch do
            optional=True,
        ),
    ],
    cmdclass={"build_ext": BuildOrSayWhyNot},
)
