"""The length of a training, in episodes, of which the last are without exploration, or in steps; and its progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from everystep.errors import LARGEST, EverystepError, whole_number
from everystep.runtime.progress import counting

if TYPE_CHECKING:
    from everystep.training.learner import Learner

EPISODES = 100  # if neither is given
COMPILED = 2  # episodes after which the programs of learning and of planning have been compiled


class Schedule(NamedTuple):
    """The numbers of episodes after which exploration and training end, rounded up to full rounds of copies.

    With `steps` training ends after the episode in which that number of steps is reached.
    """

    exploring: int
    total: int
    steps: int | None = None

    @classmethod
    def of(
        cls, episodes: int | None, steps: int | None = None, without_exploration: int = 0, copies: int = 1
    ) -> Schedule:
        last = whole_number("without_exploration", without_exploration, 0)
        if steps is not None:
            steps = whole_number("steps", steps)
            if episodes is not None:
                raise EverystepError(f"episodes is {episodes}, and steps {steps}; give one of the two.")
            if last:
                raise EverystepError(
                    f"without_exploration is {last}, and steps {steps}: the last episodes are not known in advance; "
                    "give episodes."
                )
            return cls(LARGEST, LARGEST, steps)
        episodes = EPISODES if episodes is None else whole_number("episodes", episodes)
        if last >= episodes:
            raise EverystepError(
                f"without_exploration is {last}, and episodes {episodes}; explore in at least one: give less."
            )
        exploring, others = (-(-n // copies) * copies for n in (episodes - last, last))
        return cls(exploring, exploring + others)

    def is_over(self, episodes: int, steps: int) -> bool:
        """Whether a training of this many episodes and steps is complete."""
        return episodes >= self.total if self.steps is None else steps >= self.steps


def interrupt_remark(episodes: int, of: int | None, unfinished: list[int]) -> str:
    """How far training got: `episodes` of `of` were played, among them `unfinished` ones of these lengths."""
    remark = f"stopped by Ctrl-C after {episodes - len(unfinished)} {'' if of is None else f'of {of} '}episodes"
    if not unfinished:
        return remark
    what = "an unfinished one" if len(unfinished) == 1 else f"{len(unfinished)} unfinished ones"
    verb = "is" if len(unfinished) == 1 else "are"
    return f"{remark}; {what} of {', '.join(map(str, unfinished))} steps {verb} kept"


@contextmanager
def progress_shown(
    learner: Learner, episodes: int, given: Callable[[int], None] | None, steps: int | None = None
) -> Iterator[Callable[[int], None]]:
    """The function to call with the number of new episodes: the given one, or a bar, or lines in a log."""
    if given is not None:
        yield given
        return
    first, before = learner.number, learner.so_far.steps  # a training in a folder may then continue with a later one

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
