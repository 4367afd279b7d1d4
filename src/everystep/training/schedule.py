"""The length of a training: a number of episodes, of which the last are without exploration, or a number of steps."""

from __future__ import annotations

from typing import NamedTuple

from everystep.errors import LARGEST, EverystepError, whole_number

EPISODES = 100  # if neither is given


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
