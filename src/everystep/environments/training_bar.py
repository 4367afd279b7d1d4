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
    learner: Learner, episodes: int, given: Callable[[int], None] | None
) -> Iterator[Callable[[int], None] | None]:
    """The function to call with the number of new episodes: the given one, or a bar if standard error is a terminal."""
    if given is not None or not sys.stderr.isatty():
        yield given
        return
    from tqdm import tqdm

    from everystep.experiments.progress import size, ticking

    with tqdm(total=episodes, unit=" episodes", leave=False, **size(sys.stderr)) as bar, ticking(bar):
        bar.set_postfix_str("compiling")
        first = learner.number  # a training in a folder may then go on with a later one

        def advance(more: int) -> None:
            bar.update(min(learner.number - first, episodes) - bar.n)
            if bar.n >= COMPILED:
                done = learner.so_far
                bar.set_postfix_str(f"{done.steps:,} steps, violation {done.violation:.4g}", refresh=False)

        yield advance
