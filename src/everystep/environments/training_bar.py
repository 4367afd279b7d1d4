"""The progress of a training on a terminal: episodes, steps, violation so far, and that programs are being compiled."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everystep.environments.learner import Learner

COMPILED = 2  # episodes after which the programs of learning and of planning have been compiled


@contextmanager
def shown(
    learner: Learner, episodes: int, given: Callable[[int], None] | None, steps: int | None = None
) -> Iterator[Callable[[int], None] | None]:
    """The function to call with the number of new episodes: the given one, or a bar if standard error is a terminal."""
    if given is not None or not sys.stderr.isatty():
        yield given
        return
    from tqdm import tqdm

    from everystep.experiments.progress import size, ticking

    unit = " episodes" if steps is None else " steps"
    with tqdm(total=steps or episodes, unit=unit, leave=False, **size(sys.stderr)) as bar, ticking(bar):
        bar.set_postfix_str("compiling")
        first, before = learner.number, learner.so_far.steps  # a training in a folder may then go on with a later one

        def advance(more: int) -> None:
            played, done = learner.number - first, learner.so_far
            now = played if steps is None else done.steps - before
            bar.update(min(now, bar.total) - bar.n)
            if played >= COMPILED:
                other = f"{done.steps:,} steps" if steps is None else f"{played:,} episodes"
                bar.set_postfix_str(f"{other}, violation {done.violation:.4g}", refresh=False)

        yield advance
