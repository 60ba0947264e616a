"""`python -m codedag` is the command line."""

import gc

gc.disable()  # nothing of what is loaded here goes away again: looking for garbage would be in vain
from codedag.cli.main import main  # noqa: E402

gc.enable()
if __name__ == "__main__":
    main()
