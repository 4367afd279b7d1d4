"""A learner between two episodes, as a folder: everything that decides how it goes on.

    learner.json        what it is (environment, agent, settings, features), versions, counters, generators, checksums
    arrays-....npz      the state of the estimators, slots, the plan in force, a row for each episode

The arrays are named after their content, and learner.json names them: it is put in place last, so that a folder that
is written again holds the learner before, or the learner now, whenever the process is killed. Not saved are functions
(the constraint, custom features, custom kernels), which are passed again, and regressors, which are not saved at all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from everystep import files
from everystep.agents.registry import Recipe
from everystep.agents.resolve.context import setting_as_text
from everystep.environments.play.action_sets import Candidates
from everystep.environments.protocols import AnyEnv
from everystep.errors import UNLIKE, EverystepError, quoted, shown
from everystep.experiments.experiment import versions
from everystep.features.automatic import AUTO
from everystep.mdp.arrays import digest
from everystep.mdp.cmdp import FiniteCMDP
from everystep.training.agent.acting import ActingPlan, HarmAhead
from everystep.training.agent.encoders import Encoder, KernelEncoder, encoder_from_json
from everystep.training.agent.slot_table import PlannedActions
from everystep.training.agent.stored_agent import StoredAgent
from everystep.training.folder import env_state
from everystep.training.folder.plain_values import Arrays, UnknownContentError, alike, from_plain, to_plain
from everystep.training.options import CHECKPOINT, names

if TYPE_CHECKING:
    from everystep.training.learner import Learner

FORMAT = 1
NAME = "learner.json"
# Made again from the arguments, or saved on their own; everything else that these objects hold is saved as it is.
CALLED = ("on_episode", "on_plan", "stopped")  # of one training, not of what was learnt
OF_LEARNER = (
    *("recipe", "seed", "stage", "name", "length", "horizon", "resolved", "requested", "agent", "automatic"),
    "_as_arrays",
    *CALLED,
)
OF_AGENT = ("resolved", "constraints", "agent", "plan_in_force")
OF_PLAN = ("values", "costs", "value_encoder", "cost_encoder", "choice", "look_up", "ahead")
LOOK_UP = ("actions", "used", "merges")
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
        "actions": _digest(stage.candidates.arrays()) if stage.candidates.arrays() else None,
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
    return found | ({"digest": digest(problem)} if isinstance(problem, FiniteCMDP) else {})


def _described(encoder: Encoder) -> dict[str, Any]:
    """The features or the kernel of a model, and a checksum of their arrays."""
    return {**encoder.to_json(), "arrays": _digest(encoder.arrays())}


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    """A short checksum of named arrays."""
    sha = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        sha.update(f"{name} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return sha.hexdigest()[:16]


def check_same(where: Path, saved: Mapping[str, Any], now: Mapping[str, Any], remedy: str) -> None:
    """Raise the first difference between what is saved and what would go on."""
    now = json.loads(json.dumps(now))
    for key in [*now, *saved]:
        if saved.get(key) != now.get(key):
            before, wanted = (_in_words(each.get(key)) for each in (saved, now))
            other = "others" if before == wanted else wanted
            raise EverystepError(f"'{shown(where)}' was trained with {key} {before}, not {other}; {remedy}.")


def _in_words(value: Any) -> str:
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={each}" for name, each in value.items() if name not in ("arrays", "actions"))
    return quoted(value)


def refuse_regressors(learner: Learner) -> None:
    """Raise if a learner cannot be saved."""
    if learner.resolved.value.regression is not None:
        raise EverystepError("a training by regressors cannot be saved without pickle; train a linear or kernel model.")


# --- writing ----------------------------------------------------------------------------------------------------------
def write(learner: Learner, folder: Path) -> None:
    """Write a learner into a folder that is being filled."""
    refuse_regressors(learner)
    arrays: Arrays = {}
    agent = learner.agent
    content: dict[str, Any] = {
        "format": FORMAT,
        "versions": _versions(),
        "identity": identity(learner),
        "recipe": _recipe_to_json(learner.recipe),
        "environment": env_state.save(learner.stage, arrays),
        "automatic": None if learner.automatic is None else to_plain(learner.automatic.state(), arrays, "automatic"),
        "learner": _but(learner, OF_LEARNER, arrays, "learner"),
        "constraints": None if agent is None else agent.constraints,
        "agent": None if agent is None else _but(agent, OF_AGENT, arrays, "agent"),
        "plan": None,
    }
    if agent is not None and agent.plan_in_force is not None:
        content["plan"] = to_plain(_plan_fields(agent.plan_in_force), arrays, "plan")
    arrays |= {f"candidates.{key}": array for key, array in learner.stage.candidates.arrays().items()}
    for name, encoder in (("features", learner.resolved.value), ("cost_features", learner.resolved.cost)):
        arrays |= {f"{name}.{key}": array for key, array in encoder.arrays().items()}
    name = f"arrays-{_digest(arrays)}.npz"
    files.write_npz(folder / name, arrays.items())
    content["arrays"] = {"name": name, "sha256": files.seal(folder / name).sha256}
    text = json.dumps({**content, "checksum": _checksum(content)}, indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def save(learner: Learner, target: Path, force: bool) -> None:
    """`write` into a folder of its own, whole or not at all; an existing learner is replaced."""
    refuse_regressors(learner)
    with files.replacing(target, NAME, force) as partial:
        write(learner, partial)
    remove_old_arrays(target)


def remove_old_arrays(folder: Path) -> None:
    """Remove the arrays of learners that were replaced."""
    now = files.read_json(folder / NAME)["arrays"]["name"]
    for path in folder.glob("arrays-*.npz"):
        if path.name != now and path.name in files.recorded(folder):
            path.unlink(missing_ok=True)


def _but(thing: Any, left_out: tuple[str, ...], arrays: Arrays, path: str) -> dict[str, Any]:
    """The fields of an object but some."""
    return {
        name: to_plain(value, arrays, f"{path}.{name}") for name, value in vars(thing).items() if name not in left_out
    }


def _plan_fields(plan: ActingPlan) -> dict[str, Any]:
    """A plan without what the agent has: encoders, kernels, the choice, and the table of slots."""
    found = {each.name: getattr(plan, each.name) for each in fields(plan) if each.name not in OF_PLAN}
    found["values"] = plan.values.arrays()
    found["costs"] = None if plan.costs is None else plan.costs.arrays()
    found["ahead"] = None if plan.ahead is None else plan.ahead._asdict() | {"predictor": plan.ahead.predictor.arrays()}
    look_up = plan.look_up
    assert look_up is None or isinstance(look_up, PlannedActions)
    found["look_up"] = None if look_up is None else {name: getattr(look_up, name) for name in LOOK_UP}
    return found


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


def _checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------
class DamagedError(EverystepError):
    """The files of a learner are not those that were written."""


class SavedLearner:
    """A folder that `write` filled, checked: its format, its version, and the checksums of both files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            content = files.read_json(folder / NAME)
            if content["format"] != FORMAT:
                raise EverystepError(
                    f"learner '{shown(folder)}' has format {shown(content['format'])}, and this version reads format "
                    f"{FORMAT}; load it with the version that wrote it."
                )
            if content["versions"]["everystep"] != versions()["everystep"]:
                raise EverystepError(
                    f"learner '{shown(folder)}' was written by everystep {shown(content['versions']['everystep'])}, "
                    f"and this is {versions()['everystep']}; load it with the version that wrote it."
                )
            whole = content.pop("checksum") == _checksum(content)
            name = content["arrays"]["name"]
            whole = (
                whole and Path(name).name == name and files.seal(folder / name).sha256 == content["arrays"]["sha256"]
            )
        except EverystepError:
            raise
        except (OSError, *UNLIKE):
            raise self._unreadable() from None
        if not whole:
            raise DamagedError(
                f"learner '{shown(folder)}' has changed since it was saved (its checksum differs); restore its files, "
                "or train it again."
            )
        try:
            self.arrays = files.read_npz(folder / name, lambda name: name.startswith(ARRAYS))
        except (EverystepError, OSError):
            raise self._unreadable() from None
        self.content: dict[str, Any] = content

    def check_environment(self, name: str) -> None:
        """Raise if the environment has another name: said before anything of it is compared with the features."""
        with self._as_written():
            trained_in = {"environment": self.content["identity"]["environment"]}
        check_same(self.folder, trained_in, {"environment": name}, SAME)

    def arguments(
        self, env: AnyEnv | str, agent: Any, constraint: Any, features: Any, cost_features: Any
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

    def _actions(self) -> Any:
        """The candidates, where the action space is no list of numbers."""
        before = "candidates."
        arrays = {key.removeprefix(before): each for key, each in self.arrays.items() if key.startswith(before)}
        return Candidates.from_arrays(arrays) if arrays else None

    def _features(self, name: str) -> Any:
        """Saved features; None for a kernel, which is a setting of the agent."""
        described = self.content["identity"][name]
        arrays = {key.removeprefix(f"{name}."): each for key, each in self.arrays.items() if key.startswith(f"{name}.")}
        if described == AUTO or "kernel" in described:
            return AUTO if described == AUTO else None
        encoder = encoder_from_json({key: each for key, each in described.items() if key != "arrays"}, arrays)
        return encoder.phi  # type: ignore[attr-defined]

    def restore(self, learner: Learner, remedy: str = SAME) -> None:
        """Make a new learner the saved one, after a check that it was made from the same arguments."""
        content, arrays = self.content, self.arrays
        with self._as_written():
            check_same(self.folder, content["identity"], identity(learner), remedy)
            if learner.automatic is not None:
                learner.use_features(learner.automatic.restore(from_plain(content["automatic"], arrays)))
            if content["agent"] is not None:
                agent = learner._ready(content["constraints"])
                _set(agent, OF_AGENT, content["agent"], arrays)
                if content["plan"] is not None:
                    agent.plan_in_force = _plan(from_plain(content["plan"], arrays), agent)
            sizes = _sizes(learner)
            _set(learner, OF_LEARNER, content["learner"], arrays)
            _check_rows(learner, sizes)
            remarks = [env_state.restore(learner.stage, content["environment"], arrays), self._about_versions()]
            learner._interrupts += [each for each in remarks if each is not None]

    @contextmanager
    def _as_written(self) -> Iterator[None]:
        """Content that is whole, but not as this version writes it, becomes a sentence."""
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

    def _unreadable(self) -> DamagedError:
        return DamagedError(
            f"learner '{shown(self.folder)}' cannot be read; give a folder that Learner.save wrote, with all its files."
        )


def _set(thing: Any, left_out: tuple[str, ...], content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    now = {name: value for name, value in vars(thing).items() if name not in left_out}
    if set(now) != set(content):
        raise ValueError("other fields")
    made = {name: alike(from_plain(each, arrays, now[name]), now[name]) for name, each in content.items()}
    vars(thing).update(made)


def _sizes(learner: Learner) -> list[tuple[int, ...]]:
    """The shapes of what is kept of observations, which the environment decides."""
    return [each.shape for each in (learner.observed.low, learner.observed.high, learner.observed.visited)]


def _check_rows(learner: Learner, sizes: list[tuple[int, ...]]) -> None:
    """Raise if the columns of the episodes are not numbers, as many in each, or coordinates are missing."""
    columns = [np.asarray(each) for each in learner._columns.values()]
    if any(each.ndim != 1 or each.dtype.kind not in "biuf" or each.shape != columns[0].shape for each in columns):
        raise ValueError("other columns")
    if _sizes(learner) != sizes:
        raise ValueError("other observations")


def _plan(saved: dict[str, Any], agent: StoredAgent) -> ActingPlan:
    """The plan that was in force, with what the agent has."""
    value, cost = agent.resolved.value, agent.resolved.cost
    ahead, look_up = saved.pop("ahead"), saved.pop("look_up")
    values, costs = saved.pop("values"), saved.pop("costs")
    if ahead is not None:
        ahead = HarmAhead(**ahead | {"predictor": _predictor(value, ahead["predictor"])})
    if look_up is not None:
        look_up = PlannedActions(agent._slot_table, **{name: look_up[name] for name in LOOK_UP})
    return ActingPlan(
        values=_predictor(value, values),
        costs=None if costs is None else _predictor(cost, costs),
        value_encoder=value,
        cost_encoder=cost,
        choice=jax.tree.map(np.asarray, agent.agent.choice),
        look_up=look_up,
        ahead=ahead,
        **saved,
    )


def _predictor(encoder: Encoder, arrays: Mapping[str, np.ndarray]) -> Any:
    """A predictor as a plan makes it, in which the numbers of a kernel are arrays."""
    made: Any = encoder.predictor(arrays)
    return made._replace(kernel=jax.tree.map(np.asarray, made.kernel)) if isinstance(encoder, KernelEncoder) else made
