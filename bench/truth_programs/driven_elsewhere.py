"""A main file of three lines: the loop runs inside a function of a package of the program's own."""

import sys

from driven.trainer import Trainer

Trainer(int(sys.argv[1])).fit()
