"""How long a training lasts: a number of episodes, the last of them without exploration, or a number of steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from everystep.errors import LARGEST, EverystepError, whole_number

if TYPE_CHECKING:
    from everystep.training.learner import Learner

EPISODES = 100  # if neither is given


class Schedule(NamedTuple):
    """The numbers of episodes after which exploration, and training, is over; with copies, of full rounds.

    With `steps` the episode in which that number of steps is reached is the last one.
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
                    f"without_exploration is {last}, and steps {steps}: which episodes are the last is not known; "
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

    def is_over(self, learner: Learner) -> bool:
        """Whether a learner has played all of it."""
        return self.is_reached(learner.number - 1, learner.so_far.steps)

    def is_reached(self, episodes: int, steps: int) -> bool:
        """Whether so many episodes and steps are all of it."""
        return episodes >= self.total if self.steps is None else steps >= self.steps


def interrupt_remark(episodes: int, of: int | None, unfinished: list[int]) -> str:
    """How far training got: `episodes` of `of` were played, among them `unfinished` ones of these lengths."""
    remark = f"stopped by Ctrl-C after {episodes - len(unfinished)} {'' if of is None else f'of {of} '}episodes"
    if not unfinished:
        return remark
    what = "an unfinished one" if len(unfinished) == 1 else f"{len(unfinished)} unfinished ones"
    verb = "is" if len(unfinished) == 1 else "are"
    return f"{remark}; {what} of {', '.join(map(str, unfinished))} steps {verb} kept"
