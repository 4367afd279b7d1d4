"""Functions that a training calls: after every episode and every plan. Either of them may end it.

    def enough(learner):
        return learner.columns["return"][-20:].mean() > 450      # True ends the training after this episode

    es.train("CartPole-v1", on_episode=enough, ...)
    es.train("CartPole-v1", on_episode=es.callbacks.tensorboard("logs/cartpole"), ...)

They receive the `Learner`, whose `last_episode` is the newest row. They do not change the training, except that they
may end it. After a kill they are called again for the episodes that are repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from everystep import files
from everystep.errors import EverystepError, path_from, quoted, real_number, user_code, whole_number

if TYPE_CHECKING:
    from everystep.training.learner import Learner

__all__ = ["all_of", "stop_at_return", "tensorboard"]

Callback = Callable[["Learner"], Any]
CURVES = ("return", "length", "violation", "unsafe_steps")  # of TensorBoard


def asks_to_stop(name: str, function: Callback | None, learner: Learner) -> bool:
    """Call a function, if there is one, and check what it returns; its exceptions become an `EverystepError`."""
    if function is None:
        return False
    with user_code(lambda error, words: f"{name} raised {error} ({words}); correct it."):
        answer = function(learner)
    if answer is None or isinstance(answer, bool | np.bool_):
        return bool(answer)
    raise EverystepError(f"{name} returned {quoted(answer)}; return True to end training, or nothing.")


def all_of(*functions: Callback | None) -> Callback | None:
    """Combine several functions; training ends if one of them returns True.

    >>> too_harmful = lambda learner: learner.so_far.violation > 10
    >>> on_episode = es.callbacks.all_of(es.callbacks.stop_at_return(190), too_harmful)
    >>> es.callbacks.all_of(None, None) is None
    True
    """
    given = [each for each in functions if each is not None]
    if len(given) < 2:
        return given[0] if given else None
    return lambda learner: sum(asks_to_stop("on_episode", each, learner) for each in given) > 0  # all are called


def stop_at_return(least: float, over: int = 20) -> Callback:
    """For `on_episode`: end training once the mean return of the last `over` episodes is at least `least`.

    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> stop = es.callbacks.stop_at_return(0.0, over=2)
    >>> es.train(env, episodes=50, on_episode=stop).episodes.num_rows
    2
    """
    least, over = real_number("least of stop_at_return", least, -np.inf), whole_number("over of stop_at_return", over)

    def reached(learner: Learner) -> bool:
        return learner.number > over and float(learner.columns["return"][-over:].mean()) >= least

    return reached


class tensorboard:  # noqa: N801  used like a function
    """For `on_episode`: curves over steps for TensorBoard, in `folder`. Requires the extra `logs`.

    `close` writes the rest, as does the end of the program.

    >>> curves = es.callbacks.tensorboard("logs/pond")
    >>> env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    >>> result = es.train(env, episodes=2, on_episode=curves)
    >>> curves.close()
    """

    def __init__(self, folder: str | Path) -> None:
        from everystep.experiments import run_progress

        self._place = files.absolute(path_from("folder of tensorboard", folder))
        run_progress.check("tensorboard")
        self._writer: Any = None

    def __call__(self, learner: Learner) -> None:
        row, so_far = learner.last_episode, learner.so_far
        if self._writer is None:
            self._open(so_far.steps - int(row["length"]))
        for name in CURVES:
            self._writer.add_scalar(f"episode/{name}", float(row[name]), so_far.steps)
        self._writer.add_scalar("total/violation", so_far.violation, so_far.steps)
        self._writer.add_scalar("total/plans", learner.plans, so_far.steps)

    def _open(self, steps: int) -> None:
        """Open the log; what an earlier process logged after `steps` steps is replaced."""
        import tensorboardX

        try:
            self._writer = tensorboardX.SummaryWriter(str(self._place), purge_step=steps + 1 if steps else None)
        except OSError as error:
            raise EverystepError(
                f"'{self._place}' cannot be written ({error.strerror}); choose another folder."
            ) from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None
