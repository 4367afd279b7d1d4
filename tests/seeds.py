"""The seed of all tests that draw at random. A test session prints it, and EVERYSTEP_TEST_SEED repeats its draws.

It seeds generators made by `generator` and Hypothesis's examples. Only draws repeat: where a test kills a process at a
random time, what the process is doing at that time still depends on the machine.
"""

import os
import secrets

import numpy as np

NAME = "EVERYSTEP_TEST_SEED"
# Kept in the environment, so that the worker processes of one session share it.
os.environ[NAME] = os.environ.get(NAME) or str(secrets.randbits(32))
if not os.environ[NAME].isdecimal():
    raise SystemExit(f"{NAME} is {os.environ[NAME]!r}; give a whole number of at least 0.")
SEED = int(os.environ[NAME])
HOW = f"seed of the random tests: {SEED} ({NAME}={SEED} repeats their draws)"


def generator() -> np.random.Generator:
    """A generator with the seed of this session, which is also printed into the test's captured output."""
    print(HOW)
    return np.random.default_rng(SEED)
