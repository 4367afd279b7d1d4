"""The progress of a training: episodes, steps, violation so far, and that programs are being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from everystep.runtime.progress import counting

if TYPE_CHECKING:
    from everystep.training.learner import Learner

COMPILED = 2  # episodes after which the programs of learning and of planning have been compiled


@contextmanager
def shown(
    learner: Learner, episodes: int, given: Callable[[int], None] | None, steps: int | None = None
) -> Iterator[Callable[[int], None]]:
    """The function to call with the number of new episodes: the given one, or a bar, or lines in a log."""
    if given is not None:
        yield given
        return
    first, before = learner.number, learner.so_far.steps  # a training in a folder may then go on with a later one

    def words() -> str:
        played, done = learner.number - first, learner.so_far
        if played < COMPILED:
            return "compiling"
        other = f"{done.steps:,} steps" if steps is None else f"{played:,} episodes"
        return f"{other}, violation {done.violation:.4g}"

    with counting(steps or episodes, "episodes" if steps is None else "steps", words) as count:

        def report(_: int) -> None:
            done = learner.number - first if steps is None else learner.so_far.steps - before
            count(done - count.done)

        yield report
