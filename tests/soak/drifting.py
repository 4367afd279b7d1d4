"""A small environment, a training of it in a folder, and the same in a process that is killed. Not a test.

Used by test_training_life.py, for a few kills in every test session, and by training_soak.py, for many.
"""

import multiprocessing
import os
import signal

import numpy as np
from environments_for_tests.walks import Drift

import everystep as es
from everystep.training.folder import training_folder

LENGTH = 4
EPISODES = 8


def options(**changed):
    return {"features": es.features.fourier(6), "horizon": LENGTH, "seed": 3} | changed


def train(out, env=None, agent="lsvi-ae", episodes=EPISODES, progress=None, **changed):
    return es.train(env or Drift(), agent, episodes=episodes, out=out, progress=progress, **options(**changed))


def arrays_of(result):
    """Everything that a result holds, as arrays by name."""
    plan = result.policy.plan
    parts = {"values": plan.values, "costs": plan.costs, "ahead": plan.harm_ahead}
    of_plan = {
        f"{name}.{key}": array
        for name, part in parts.items()
        if part is not None
        for key, array in part.arrays().items()
    }
    return {**result.columns, **of_plan, "price": plan.price, "plans": np.array(result.plans)}


def check_same(one, other):
    """Two results are equal, bit for bit."""
    left, right = arrays_of(one), arrays_of(other)
    assert left.keys() == right.keys()
    for name, array in left.items():
        assert array.dtype == right[name].dtype
        np.testing.assert_array_equal(array, right[name], err_msg=name)
    assert one.spec == other.spec
    assert one.remarks == other.remarks


def commit_at_random(rng):
    """In place of a clock: a checkpoint after about half of the episodes."""

    def commit_if_due(keeper):
        if rng.random() < 0.5:
            keeper.commit()

    return commit_if_due


# --- in a process of its own ------------------------------------------------------------------------------------------
def work(out, writing, episodes):
    """Train with a checkpoint after about half of the episodes; send s at every step, c and C around every write."""
    tell = lambda letter: os.write(writing.fileno(), letter)
    commit, finish = training_folder._Keeper.commit, training_folder._Keeper.finish

    def around(call):
        def told(*given):
            tell(b"c")
            call(*given)
            tell(b"C")

        return told

    training_folder._Keeper.commit_if_due = commit_at_random(np.random.default_rng())
    training_folder._Keeper.commit, training_folder._Keeper.finish = around(commit), around(finish)
    train(out, Drift(lambda: tell(b"s")), episodes=episodes)


def kill_after(letters, out, episodes):
    """Kill a child with SIGKILL once it has sent so many letters: what it sent, or None if it ended before."""
    own = multiprocessing.get_context("forkserver")
    reading, writing = own.Pipe(duplex=False)
    child = own.Process(target=work, args=(out, writing, episodes))
    child.start()
    writing.close()
    heard = b""
    while len(heard) < letters and (more := os.read(reading.fileno(), 1)):
        heard += more
    child.kill()
    while more := os.read(reading.fileno(), 4096):
        heard += more
    child.join()
    reading.close()
    assert child.exitcode in (0, -signal.SIGKILL)
    return heard.decode() if child.exitcode else None
