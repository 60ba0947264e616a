"""`python -m codedag` is the command line."""

from codedag.cli.main import main

if __name__ == "__main__":
    main()
