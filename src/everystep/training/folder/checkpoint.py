"""A learner between two episodes, as a folder: everything that determines how it continues.

    learner.json        what it is (environment, agent, settings, features), versions, counters, generators, checksums
    arrays-....npz      the state of the estimators, slots, the plan in force, a row for each episode

The arrays are named after their content, and learner.json names them: it is put in place last, so that a folder that
is written again holds the old learner or the new one, whenever the process is killed. Functions (the constraint, custom
features, custom kernels) are not saved and must be passed again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from everystep import files
from everystep.agents.registry import Recipe
from everystep.agents.resolve.context import setting_as_text
from everystep.environments.play.action_sets import Candidates
from everystep.environments.play.constraints import MOST_CONSTRAINTS
from everystep.environments.protocols import AnyEnv
from everystep.errors import UNLIKE, EverystepError, quoted, shown, whole_number
from everystep.experiments.experiment import versions
from everystep.features.automatic import AUTO
from everystep.files import store
from everystep.mdp import arrays as problem_arrays
from everystep.mdp.cmdp import FiniteCMDP
from everystep.training.agent.encoders import Encoder, encoder_from_json
from everystep.training.agent.plan_files import named
from everystep.training.folder import env_state
from everystep.training.folder.plain_values import (
    Arrays,
    UnknownContentError,
    fields_but,
    from_plain,
    set_fields,
    to_plain,
)
from everystep.training.options import CHECKPOINT, names

if TYPE_CHECKING:
    from everystep.training.learner import Learner

NAME = "learner.json"
# Fields that the arguments determine, or that are saved separately; all other fields are saved as they are.
CALLED = ("on_episode", "on_plan", "stopped")  # of one training, not of what was learnt
OF_LEARNER = (
    *("recipe", "seed", "stage", "name", "length", "horizon", "resolved", "requested", "agent", "automatic"),
    "_as_arrays",
    *CALLED,
)
SAME = "give the same"
ARRAYS = ("environment", "automatic", "learner", "agent", "plan", "candidates", "features", "cost_features")
MADE_WITH = ("jax", "jaxlib", "numpy", "device")  # others may round differently


# --- what is trained --------------------------------------------------------------------------------------------------
def identity(learner: Learner) -> dict[str, Any]:
    """What a checkpoint must agree with, ready for JSON."""
    resolved, stage, automatic = learner.requested, learner.stage, learner.automatic
    chosen = () if automatic is None else automatic.chooses
    return {
        "environment": learner.name,
        "environment settings": environment_settings(stage.env),
        "observation space": shown(stage.observation_space),
        "number of actions": stage.actions,
        "first action": stage.first_action,
        "actions": store.digest(stage.candidates.arrays()) if stage.candidates.arrays() else None,
        "envs": stage.copies,
        "agent": learner.recipe.name,
        **{f"setting {name}": value for name, value in resolved.to_json().items()},
        "features": AUTO if "features" in chosen else _described(resolved.value),
        "cost_features": AUTO
        if "cost_features" in chosen
        else "the same"
        if resolved.cost is resolved.value
        else _described(resolved.cost),
        **learner.decided,
        "constraint": "read from info" if stage.constraint is None else "a function",
    }


def environment_settings(env: AnyEnv) -> dict[str, Any]:
    """The arguments that an environment was made with, if they are numbers or texts; of a problem, its digest."""
    given = getattr(getattr(env, "spec", None), "kwargs", None) or {}
    found = {
        str(key): value
        for key, value in given.items()
        if isinstance(value, str | bool | int | float) and key != "render_mode"
    }
    problem = getattr(getattr(env, "unwrapped", env), "problem", None)
    return found | ({"digest": problem_arrays.digest(problem)} if isinstance(problem, FiniteCMDP) else {})


def _described(encoder: Encoder) -> dict[str, Any]:
    """The features or the kernel of a model, and a checksum of their arrays."""
    return {**encoder.to_json(), "arrays": store.digest(encoder.arrays())}


def check_same(where: Path, saved: Mapping[str, Any], now: Mapping[str, Any], remedy: str) -> None:
    """Raise the first difference between the saved training and the one that would continue it."""
    now = json.loads(json.dumps(now))
    for key in [*now, *saved]:
        if saved.get(key) != now.get(key):
            before, wanted = (_in_words(each.get(key)) for each in (saved, now))
            other = "others" if before == wanted else wanted
            raise EverystepError(f"'{shown(where)}' was trained with {key} {before}, not {other}; {remedy}.")


def _in_words(value: object) -> str:
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={each}" for name, each in value.items() if name not in ("arrays", "actions"))
    return quoted(value)


# --- writing ----------------------------------------------------------------------------------------------------------
def write(learner: Learner, folder: Path) -> None:
    """Write a learner into a folder that is being filled."""
    arrays: Arrays = {}
    agent = learner.agent
    content: dict[str, Any] = {
        "format": _format(),
        "versions": _versions(),
        "identity": identity(learner),
        "recipe": _recipe_to_json(learner.recipe),
        "environment": env_state.save(learner.stage, arrays),
        "automatic": None if learner.automatic is None else to_plain(learner.automatic.state(), arrays, "automatic"),
        "learner": fields_but(learner, OF_LEARNER, arrays, "learner"),
        "constraints": None if agent is None else agent.constraints,
        "agent": None if agent is None else agent.saved(arrays),
    }
    arrays |= {f"candidates.{key}": array for key, array in learner.stage.candidates.arrays().items()}
    for name, encoder in (("features", learner.resolved.value), ("cost_features", learner.resolved.cost)):
        arrays |= {f"{name}.{key}": array for key, array in encoder.arrays().items()}
    store.write_sealed(folder / NAME, content, arrays)


def save(learner: Learner, target: Path, force: bool) -> None:
    """`write` into a separate folder, whole or not at all; an existing learner is replaced."""
    with files.replacing(target, NAME, force) as partial:
        write(learner, partial)
    remove_old_arrays(target)


def remove_old_arrays(folder: Path) -> None:
    """Remove the arrays of learners that were replaced."""
    now = files.read_json(folder / NAME)["arrays"]["name"]
    for path in folder.glob("arrays-*.npz"):
        if path.name != now and path.name in files.recorded(folder):
            path.unlink(missing_ok=True)


def _recipe_to_json(recipe: Recipe) -> dict[str, Any] | None:
    """An agent with its settings as text and numbers; None if one of them, such as a custom kernel, has no text."""
    settings: dict[str, Any] = {}
    for key, value in recipe.given.items():
        plain = value is None or isinstance(value, str | bool | int | float)
        settings[key] = value if plain else setting_as_text(recipe.settings[key])
    try:
        again = Recipe(recipe.name, settings, recipe.alias)
    except EverystepError:
        return None
    same = all(setting_as_text(again.settings[key]) == setting_as_text(recipe.settings[key]) for key in settings)
    return {"name": recipe.name, "settings": settings, "alias": recipe.alias} if same else None


def _versions() -> dict[str, str]:
    return versions() | {"device": jax.default_backend()}


def _format() -> str:
    """A learner is read by the version that wrote it."""
    return f"everystep {versions()['everystep']}"


# --- reading ----------------------------------------------------------------------------------------------------------
class SavedLearner:
    """A folder that `write` filled, checked: its version, and the checksums of both files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.content, self.arrays = store.read_sealed(folder / NAME, "learner", _format(), "Learner.save", ARRAYS)

    def check_environment(self, name: str) -> None:
        """Raise if the environment has another name. Call it first: this error is clearer than later ones."""
        with self._as_written():
            trained_in = {"environment": self.content["identity"]["environment"]}
        check_same(self.folder, trained_in, {"environment": name}, SAME)

    def arguments(
        self, env: object, agent: object, constraint: object, features: object, cost_features: object
    ) -> dict[str, Any]:
        """The arguments of `Learner` that make one to restore into: as given, else as saved."""
        with self._as_written():
            about, recipe = self.content["identity"], self.content["recipe"]
            if agent is None:
                if recipe is None:
                    raise EverystepError(
                        f"learner '{shown(self.folder)}' has a setting that is not saved, such as a custom kernel; "
                        "give agent= again."
                    )
                agent = Recipe(recipe["name"], recipe["settings"], recipe["alias"])
            if constraint is None and about["constraint"] == "a function":
                raise EverystepError(
                    f"learner '{shown(self.folder)}' had a constraint function, which is not saved; "
                    "give constraint= again."
                )
            features = self._features("features") if features is None else features
            if cost_features is None and about["cost_features"] != "the same":
                cost_features = self._features("cost_features")
            return {
                "agent": agent,
                "envs": 1 if hasattr(env, "num_envs") else about["envs"],
                "constraint": constraint,
                "features": features,
                "cost_features": cost_features,
                "actions": self._actions(),
                **{name: about[name] for name in ("seed", *names(CHECKPOINT))},
            }

    def _actions(self) -> Candidates | None:
        """The candidates, where the action space is no list of numbers."""
        arrays = named(self.arrays, "candidates.")
        return Candidates.from_arrays(arrays) if arrays else None

    def _features(self, name: str) -> object:
        """Saved features; None for a kernel, a setting of the agent, and for networks."""
        described = self.content["identity"][name]
        if described == AUTO or "kernel" in described or "networks" in described:
            return AUTO if described == AUTO else None
        encoder = encoder_from_json(
            {key: each for key, each in described.items() if key != "arrays"}, named(self.arrays, f"{name}.")
        )
        return encoder.phi  # type: ignore[attr-defined]

    def restore(self, learner: Learner, remedy: str = SAME) -> None:
        """Make a new learner the saved one, after a check that it was made from the same arguments."""
        content, arrays = self.content, self.arrays
        with self._as_written():
            check_same(self.folder, content["identity"], identity(learner), remedy)
            if learner.automatic is not None:
                learner.use_features(learner.automatic.restore(from_plain(content["automatic"], arrays)))
            if content["agent"] is not None:
                constraints = whole_number("constraints", content["constraints"], 0, MOST_CONSTRAINTS)
                learner._ready(constraints).restore(content["agent"], arrays)
            sizes = _sizes(learner)
            set_fields(learner, OF_LEARNER, content["learner"], arrays)
            _check_rows(learner, sizes)
            remarks = [env_state.restore(learner.stage, content["environment"], arrays), self._about_versions()]
            learner._interrupts += [each for each in remarks if each is not None]

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        """Report content that is whole, but not as this version writes it, in a sentence."""
        try:
            yield
        except UNLIKE as error:
            if isinstance(error, EverystepError) and not isinstance(error, UnknownContentError):
                raise
            raise EverystepError(
                f"learner '{shown(self.folder)}' was written by another version, whose state differs; load it with "
                "that version."
            ) from None

    def _about_versions(self) -> str | None:
        before, now = self.content["versions"], _versions()
        if other := [name for name in MADE_WITH if before.get(name) != now[name]]:
            listed = ", ".join(f"{name} {before.get(name)} before, {now[name]} now" for name in other)
            return f"training was resumed elsewhere ({listed}): the last digits of results may differ"
        return None


def _sizes(learner: Learner) -> list[tuple[int, ...]]:
    """The shapes of the arrays about observations, which the environment determines."""
    return [each.shape for each in (learner.observed.low, learner.observed.high, learner.observed.visited)]


def _check_rows(learner: Learner, sizes: list[tuple[int, ...]]) -> None:
    """Raise unless all columns of the episodes are numbers and equally long, and all coordinates are there."""
    columns = [np.asarray(each) for each in learner._columns.values()]
    if any(each.ndim != 1 or each.dtype.kind not in "biuf" or each.shape != columns[0].shape for each in columns):
        raise ValueError("other columns")
    if _sizes(learner) != sizes:
        raise ValueError("other observations")
