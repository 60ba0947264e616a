"""The process of a PU with a runtime that goes wrong: FAULT="PU how call [kind]" in the environment."""

import os
import sys
import time

from codedag.stages.measuring import worker


class Faulty:
    """A loaded block that goes wrong from the n-th request to run on; as soon as it is loaded if n is 0."""

    requests = 0

    def __init__(self, inner, outputs, how, at):
        self._inner, self._outputs, self._how, self._at = inner, outputs, how, at

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def run(self):
        if self._how == "prints":
            print("a library that prints", flush=True)
            sys.stderr.write("and says things\n")
        if Faulty.requests < self._at or self._how == "prints":
            return self._inner.run()
        return getattr(self, self._how)()

    def crashes(self):
        os.abort()

    def hangs(self):
        time.sleep(600)

    def memory(self):
        raise MemoryError("no memory of the device is left")

    def nan(self):
        self._inner.run()
        for array in self._outputs.values():
            array[...] = float("nan")

    def lies(self):
        for array in self._outputs.values():
            array[...] = 1


def faulty(runner, how, at, kind):
    load = runner.load

    def loaded(program, sizes, inputs, outputs):
        inner = load(program, sizes, inputs, outputs)
        return Faulty(inner, outputs, how, int(at)) if not kind or kind in program.kinds else inner

    runner.load = loaded
    return runner


def main():
    pu, how, at, *kind = os.environ["FAULT"].split()
    make = worker.runner_of

    def runner_of(name, threads):
        return faulty(make(name, threads), how, at, kind[0] if kind else "") if name == pu else make(name, threads)

    run = worker._ACTIONS["run"]

    def counted(*arguments):
        Faulty.requests += 1
        return run(*arguments)

    worker.runner_of, worker._ACTIONS["run"] = runner_of, counted
    worker.main()


if __name__ == "__main__":
    main()
