"""The command line called in this process: what a command says and how it exits, without a new interpreter."""

from __future__ import annotations

import contextlib
import io
import logging
import subprocess
from pathlib import Path

from codedag.cli.main import main


def called(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """called("stages", "plan", place): its exit code, stdout and stderr; an error that is not for users is raised."""
    words, out, err, code = [str(one) for one in arguments], io.StringIO(), io.StringIO(), 0
    with contextlib.chdir(cwd or "."), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _logger():
        try:
            main(words)
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else int(left.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _logger():
    """The command's handlers are taken off again."""
    logger = logging.getLogger("codedag")
    kept = list(logger.handlers), logger.level, logger.propagate
    try:
        yield
    finally:
        logger.handlers[:], logger.level, logger.propagate = kept
        logger.manager._clear_cache()
