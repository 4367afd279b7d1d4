"""Inputs of the Python API: every public name with valid arguments, some of them replaced, and hostile environments.

A call must return or raise an `EverystepError`. Where the arguments do not fit the signature, Python's own TypeError is
fine; what an environment, a function or an object of the input raises may come back as it is, too.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import gymnasium
import numpy as np

from fuzz import cases, results
from fuzz.cases import PYTHON_API, Bench, Case, Unruly
from fuzz.experiments import SETTINGS, kernel, model
from fuzz.problem_files import AGENTS, arrays_of_a_problem, damaged_array, damaged_bytes, npz, rows_of_a_map


class EnvironmentFailed(RuntimeError):  # noqa: N818
    """What a hostile environment raises."""


OWN = (EnvironmentFailed, Unruly.Failed)


def tiny() -> Any:
    import everystep as es

    return es.problems.from_map(("SF", "FG"), horizon=2)


def batch() -> dict[str, Any]:
    n = 6
    return {
        "observations": np.arange(n) % 4, "actions": np.zeros(n, int), "rewards": np.ones(n), "costs": -np.ones((n, 1)),
        "next_observations": (np.arange(n) + 1) % 4, "terminated": np.zeros(n, bool), "steps": np.arange(n) % 3,
        "episode": np.arange(n) // 3,
    }  # fmt: skip


def space() -> Any:
    from gymnasium import spaces

    return spaces.Box(-1, 1, (2,))


Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def valid_calls(bench: Bench) -> dict[str, Callable[[], Call]]:
    """A valid call for each public name; made when it is chosen."""
    import everystep as es

    pond = tiny
    on = {"on": "position"}
    file = lambda name, data: str(bench.here / bench.path(name, data))
    solved = lambda: es.planner.solve(pond())
    calls: dict[str, Callable[[], Call]] = {
        "FiniteCMDP": lambda: (es.FiniteCMDP, (), _problem_fields(bench)),
        "Factored": lambda: (
            lambda **k: es.FiniteCMDP(es.Factored(**k), np.zeros((2, 1)), -np.ones((2, 1))),
            (),
            {"phi": np.ones((2, 1, 1)), "mu": np.full((1, 2), 0.5)},
        ),
        "Successors": lambda: (
            lambda **k: es.FiniteCMDP(es.Successors(**k), np.zeros((2, 1)), -np.ones((2, 1))).check(),
            (),
            {"states": np.array([[[0, 1]], [[1, 1]]]), "probabilities": np.full((2, 1, 2), 0.5)},
        ),
        "Known": lambda: (
            lambda **k: _with(known=es.Known(**k)),
            (),
            {"threshold": 0.5, "safe_action": np.zeros(4, int), "triples": None},
        ),
        "Noise": lambda: (
            lambda **k: _with(noise=es.Noise(**k)),
            (),
            {"reward_on_arrival": None, "cost_on_arrival": None, "reward_sigma": 0.1, "cost_sigma": 0.1},
        ),
        "EverystepError": lambda: (es.EverystepError, ("a sentence.",), {}),
        "gp": lambda: (es.gp, (), {"kernel": kernel(bench), "points": "grid"}),
        "kernel_values": lambda: (es.kernel_values, (), {"kernel": es.kernels.RBF(1.0, on="position")}),
        "run": lambda: (
            es.run,
            (),
            {
                "problem": pond(),
                "agents": bench.pick(AGENTS),
                "episodes": 2,
                "seeds": 1,
                "progress": None,
                "certify": False,
            },
        ),
        "train": lambda: (
            es.train,
            (Ring(),),
            {
                "agent": "lsvi-ae",
                "episodes": 1,
                "constraint": safe,
                "horizon": 2,
                "length": 3,
                "reward_range": (0, 1),
                "seed": 0,
                "envs": 1,
                "features": None,
                "warm_start": None,
                "progress": None,
                "reseed": False,
                "memory": 10,
                "on_episode": lambda learner: None,
                "on_plan": None,
                "without_exploration": 0,
                "evaluate": 0,
            },
        ),
        "Learner": lambda: (
            es.Learner,
            (Ring(),),
            {
                "agent": "lsvi-ae",
                "constraint": safe,
                "features": None,
                "cost_features": None,
                "horizon": 3,
                "length": 3,
                "reward_range": (0, 1),
                "seed": 0,
                "envs": 1,
                "reseed": False,
                "memory": 10,
                "on_episode": None,
                "on_plan": None,
                "actions": None,
            },
        ),
        "leaderboard": lambda: (
            lambda **k: es.leaderboard(**k).text(),
            (),
            {"paths": file("rows.parquet", results.altered_rows(bench)), "baseline": None},
        ),
        "convert_monitor": lambda: (
            es.convert_monitor,
            (),
            {
                "folder": _monitors(bench),
                "out": str(bench.here / "new.parquet"),
                "system": "s",
                "problem": "p",
                "harm_column": "harm",
                "final": None,
                "seeds": None,
                "kind": "rival",
                "command": "",
                "versions": {"torch": "2"},
                "force": False,
            },
        ),
        "actions.grid": lambda: (_in_box(es.actions.grid), (), {"points": 3}),
        "actions.sobol": lambda: (_in_box(es.actions.sobol), (), {"count": 4, "seed": 0}),
        "actions.listed": lambda: (_in_box(es.actions.listed), (), {"actions": np.array([[-1.0, 0.0], [0.5, 1.0]])}),
        "Learner.load": lambda: (
            es.Learner.load,
            (),
            {"folder": str(bench.here), "env": Ring(), "constraint": safe, "features": None, "cost_features": None},
        ),
        "Learner.learn": lambda: (
            lambda batch: es.Learner(Ring(), "lsvi-ae", constraint=safe, horizon=3).learn(batch),
            (),
            {"batch": es.Batch(**batch())},
        ),
        "callbacks.all_of": lambda: (es.callbacks.all_of, (lambda learner: None, None), {}),
        "compare": lambda: (
            es.compare,
            (),
            {
                "problems": ["streaming"],
                "agents": ["lsvi-ae"],
                "episodes": 2,
                "seeds": 1,
                "ablation": False,
                "progress": lambda episodes: None,
                "out": None,
                "force": False,
            },
        ),
        "callbacks.stop_at_return": lambda: (es.callbacks.stop_at_return, (), {"least": 1.0, "over": 2}),
        "callbacks.tensorboard": lambda: (es.callbacks.tensorboard, (), {"folder": str(bench.here)}),
        "check_constraint": lambda: (
            es.check_constraint,
            (),
            {"env": Ring(), "constraint": safe, "episodes": 1, "seed": 0},
        ),
        "evaluate": lambda: (
            es.evaluate,
            (),
            {"policy": trained_policy(), "env": Ring(), "constraint": safe, "episodes": 1, "seed": 0, "progress": None},
        ),
        "shield": lambda: (
            es.shield,
            (),
            {"guide": es.Learner(Ring(), "lsvi-ae", constraint=safe, horizon=3), "tolerance": 0.1, "optimism": 0.0},
        ),
        "Policy.load": lambda: (
            es.Policy.load,
            (),
            {"folder": str(bench.here), "features": None, "cost_features": None},
        ),
        "Result": lambda: (es.Result, (), {"problem": pond(), "spec": {}, "columns": {}, "visits": {}}),
        "agents.Recipe": lambda: (es.agents.Recipe, (), {"name": "lsvi-ae", "settings": {"beta": 0.5}, "alias": None}),
        "agents.recipe": lambda: (es.agents.recipe, (), {"agent": "lsvi"}),
        "agents.register": lambda: (
            es.agents.register,
            ("mine",),
            {"settings": ("beta",), "summary": "mine", "needs": "nothing", "title": "Mine"},
        ),
        "agents.register_cost_model": lambda: (
            es.agents.register_cost_model,
            (),
            {"name": "mine", "make": lambda: None},
        ),
        "features.bind": lambda: (
            es.features.bind,
            (),
            {"spec": es.features.fourier(3), "observation_space": space(), "actions": 2},
        ),
        "features.centres": lambda: (
            _bound(es.features.centres),
            (),
            {"centres": 2, "lengthscale": 1.0, "low": -1, "high": 1, "constant": False},
        ),
        "features.flatten": lambda: (es.features.flatten, (), {"observation": {"a": np.ones(2), "b": 1}}),
        "features.fourier": lambda: (
            _bound(es.features.fourier),
            (),
            {"size": 4, "lengthscale": 1.0, "seed": 0, "low": -1, "high": 1, "constant": False},
        ),
        "features.function": lambda: (
            _bound(es.features.function),
            (),
            {"f": lambda o: np.ones(2), "d": 2, "crossed": False, "normalise": False},
        ),
        "features.joined": lambda: (
            _bound(es.features.joined),
            (es.features.fourier(2), es.features.polynomial(1)),
            {},
        ),
        "features.landing": lambda: (
            _bound(es.features.landing),
            (),
            {"spec": es.features.fourier(2, low=-1, high=1), "lead": lambda o: np.zeros((2, 3))},
        ),
        "features.mirrored": lambda: (
            _bound(es.features.mirrored),
            (),
            {"spec": es.features.fourier(2), "actions": [1, 0], "signs": -1},
        ),
        "features.one_hot": lambda: (_bound(es.features.one_hot), (), {}),
        "features.polynomial": lambda: (_bound(es.features.polynomial), (), {"degree": 2, "low": -1, "high": 1}),
        "features.rebuild": lambda: (es.features.rebuild, (), {"json": {}, "arrays": {}, "function": None}),
        "features.table": lambda: (_bound(es.features.table), (), {"phi": np.ones((4, 2, 3)), "normalise": False}),
        "features.tiles": lambda: (
            _bound(es.features.tiles),
            (),
            {"tilings": 2, "bins": 2, "low": -1, "high": 1, "constant": False},
        ),
        "kernels.read": lambda: (es.kernels.read, (kernel(bench),), {}),
        "kernels.Difference": lambda: (es.kernels.Difference, (), {"field": es.kernels.RBF(1.0), "on": "move"}),
        "kernels.Custom": lambda: (es.kernels.Custom, (), {"function": lambda a, b: 1.0, "on": "position"}),
        "kernels.Categorical": lambda: (es.kernels.Categorical, (), {"alike": 0.1, **on}),
        "kernels.Constant": lambda: (es.kernels.Constant, (), {"value": 1.0}),
        "kernels.Linear": lambda: (es.kernels.Linear, (), {"weight": 1.0, **on}),
        **{
            f"kernels.{name}": lambda name=name: (getattr(es.kernels, name), (), {"length": 2.0, **on})
            for name in ("RBF", "Matern32", "Matern52")
        },
        "logged.Batch": lambda: (es.Batch.of, (), batch()),
        "logged.from_env": lambda: (
            es.logged.from_env,
            (Ring(),),
            {"policy": None, "episodes": 2, "seed": 0, "constraint": safe, "length": 3},
        ),
        "logged.from_minari": lambda: (es.logged.from_minari, (), {"data": [], "constraint": safe}),
        "logged.read": lambda: (es.logged.read, (), {"path": _log(bench, file), "action_count": 2}),
        "logged.write": lambda: (
            es.logged.write,
            (),
            {"batch": es.Batch(**batch()), "path": str(bench.here / "log.csv")},
        ),
        "planner.solve": lambda: (es.planner.solve, (), {"problem": pond(), "safe": True, "tolerance": 0.1}),
        "planner.least_harm": lambda: (es.planner.least_harm, (), {"problem": pond()}),
        "planner.viable": lambda: (es.planner.viable, (), {"problem": pond()}),
        "planner.dead_ends": lambda: (es.planner.dead_ends, (), {"problem": pond()}),
        "planner.has_safe_actions": lambda: (es.planner.has_safe_actions, (), {"problem": pond()}),
        "planner.harm_of_actions": lambda: (
            es.planner.harm_of_actions,
            (),
            {"of": pond(), "h": 0, "C_next": np.zeros(pond().states)},
        ),
        "planner.evaluate": lambda: (es.planner.evaluate, (), {"problem": pond(), "policy": solved().policy}),
        "planner.highest_value": lambda: (es.planner.highest_value, (), {"problem": pond()}),
        "planner.occupancy": lambda: (es.planner.occupancy, (), {"problem": pond(), "policy": solved().policy}),
        "planner.distribution": lambda: (es.planner.distribution, (), {"problem": pond(), "policy": solved().policy}),
        "planner.most_likely_states": lambda: (
            es.planner.most_likely_states,
            (),
            {"problem": pond(), "solution": solved()},
        ),
        "problems.Comparison": lambda: (
            es.problems.Comparison,
            (),
            {"episodes": 10, "parameters": {}, "settings": {}, "ablation": False},
        ),
        "problems.bandit": lambda: (es.problems.bandit, (), {"arms": 3, "seed": 0, "noise": 0.1, "horizon": 1}),
        "problems.bandit_continuum": lambda: (
            es.problems.bandit_continuum,
            (),
            {"resolution": 3, "noise": 0.1, "horizon": 1},
        ),
        "problems.from_arrays": lambda: (
            es.problems.from_arrays,
            (),
            {"path": file("p.npz", npz(arrays_of_a_problem(bench))), "horizon": None},
        ),
        "problems.from_map": lambda: (
            es.problems.from_map,
            (),
            {
                "rows": rows_of_a_map(bench),
                "horizon": 3,
                "reward": "once",
                "cost": "intended",
                "name": "map",
                "slip": 0.1,
            },
        ),
        "problems.frozen_lake": lambda: (
            es.problems.frozen_lake,
            (),
            {"horizon": 3, "reward": "once", "cost": "realised"},
        ),
        "problems.hard_instance": lambda: (
            es.problems.hard_instance,
            (),
            {"d": 3, "horizon": 3, "episodes": 100, "u": None, "seed": 0},
        ),
        "problems.inventory": lambda: (
            es.problems.inventory,
            (),
            {"horizon": 3, "capacity": 2, "delay": 1, "order": 1, "demand": [0.5, 0.5], "holding": 0.1},
        ),
        "problems.linear": lambda: (
            es.problems.linear,
            (),
            {
                "states": 5,
                "actions": 2,
                "d": 2,
                "horizon": 2,
                "margin": 0.1,
                "seed": 0,
                "concentration": 1.0,
                "noise": 0.1,
            },
        ),
        "problems.load": lambda: (es.problems.load, (), {"name": "synthetic", "horizon": None}),
        "problems.racetrack": lambda: (
            es.problems.racetrack,
            (),
            {"map": ["S.G"], "top_speed": 1, "failure": 0.1, "horizon": 3, "finish": "crossing"},
        ),
        "problems.racetrack_from": lambda: (
            es.problems.racetrack_from,
            (),
            {
                "rows": [row.replace("H", "#") for row in rows_of_a_map(bench)],
                "top_speed": 2,
                "failure": 0.1,
                "horizon": 3,
                "finish": "landing",
                "name": "track",
            },
        ),
        "problems.random_lake": lambda: (
            es.problems.random_lake,
            (),
            {"seed": 0, "size": 5, "hazards": 0.1, "horizon": 8},
        ),
        "problems.register": lambda: (es.problems.register, ("mine",), {"gym_id": "mine/Pond-v0", "compared": False}),
        "problems.robot_map": lambda: (es.problems.robot_map, (), {"seed": 0, "horizon": 12, "size": 5}),
        "problems.streaming": lambda: (es.problems.streaming, (), {"horizon": 3, "levels": 3, "limit": 0.2}),
        "problems.synthetic": lambda: (
            es.problems.synthetic,
            (),
            {"d": 3, "horizon": 2, "seed": 0, "states": 4, "directions": 2, "levels": 2, "noise": 0.01},
        ),
        "problems.terrain": lambda: (
            es.problems.terrain,
            (),
            {"seed": 0, "size": 6, "length": 2.0, "limit": None, "horizon": 10, "sigma": 0.0},
        ),
        "problems.terrain_from": lambda: (
            es.problems.terrain_from,
            (),
            {
                "heights": bench.rng.standard_normal((4, 4)),
                "start": None,
                "goal": None,
                "limit": None,
                "horizon": 8,
                "sigma": 0.0,
                "length": 2.0,
            },
        ),
        "problems.thermostat": lambda: (
            es.problems.thermostat,
            (),
            {"horizon": 3, "band": 3, "gust": 0.2, "tariff": [1.0]},
        ),
        "gym.CMDPEnv": lambda: (_played(es.gym.CMDPEnv), (), {"problem": pond(), "render_mode": None}),
        "gym.make_env": lambda: (_played(es.gym.make_env), (), {"problem": pond(), "render_mode": None}),
        "gym.from_toy_text": lambda: (
            es.gym.from_toy_text,
            (Ring(),),
            {"horizon": 3, "constraint": safe, "tolerance": 0.5, "start": None},
        ),
        "gym.FromSixValueStep": lambda: (_played(es.gym.FromSixValueStep), (Ring(),), {"limit": 0.0}),
        "gym.SixValueStep": lambda: (_played(es.gym.SixValueStep), (es.gym.make_env(pond()),), {}),
        **{
            f"agents.{name.replace('-', '_')}": lambda name=name: (_resolved(name), (), _settings(bench))
            for name in AGENTS
        },
    }
    return calls


def public_names() -> set[str]:
    """Every public name, for a test that none is forgotten. Types that only describe results are left out."""
    import everystep as es

    found = set()
    for name in (*es.__all__, "gym"):
        each = getattr(es, name)
        if not inspect.ismodule(each):
            found.add(name)
            continue
        listed = getattr(each, "__all__", None) or [
            key
            for key, member in vars(each).items()
            if not key.startswith("_") and getattr(member, "__module__", None) == each.__name__
        ]
        found |= {f"{name}.{key}" for key in listed if callable(getattr(each, key))}
    return found


INTERNAL = {  # types of results and base classes, and functions on compressed arrays
    "Policy", "agents.Parts", "features.Features", "kernels.Kernel", "planner.Solution", "planner.Evaluation",
    "features.Spec", "planner.action_values", "planner.mean_under", "planner.policy_backup",
    "planner.violation_of_step", "planner.Baseline", "planner.DeadEnds",
    "planner.start_distribution", "planner.from_start", "actions.Candidates", "actions.ActionSet",
    "Batch", "BrokenError", "Comparison", "ConstraintCheck", "Diagnosis", "Evaluation", "Leaderboard", "Shield",
    "TrainingResult",
}  # fmt: skip


def _with(**fields: Any) -> Any:
    import everystep as es

    P = np.full((4, 2, 4), 0.25)
    return es.FiniteCMDP(P, np.zeros((4, 2)), -np.ones((4, 2)), horizon=2, **fields).check()


def _problem_fields(bench: Bench) -> dict[str, Any]:
    fields = {
        name: each
        for name, each in arrays_of_a_problem(bench).items()
        if name in ("P", "r", "g", "start", "features", "exempt")
    }
    fields.setdefault("P", np.ones((1, 1, 1)))
    return fields | {
        "horizon": 2,
        "name": "mine",
        "coordinates": {},
        "kernel": None,
        "linear_costs": True,
        "state_names": None,
        "remarks": (),
    }


def _settings(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(int(bench.rng.integers(0, 3))):
        key = bench.pick(SETTINGS)
        found[key] = (
            model(bench)
            if key in ("cost", "value") and bench.chance(0.6)
            else bench.pick((0, 1, 0.5, "auto", True, 2, "none"))
        )
    return found


def _resolved(name: str) -> Callable[..., Any]:
    def resolve(**settings: Any) -> Any:
        import everystep as es
        from everystep.experiments import experiment

        agent = getattr(es.agents, name.replace("-", "_"))(**settings)
        return experiment.prepare(tiny(), [agent], 2, 1)

    return resolve


def _bound(make: Callable[..., Any]) -> Callable[..., Any]:
    """A feature map on a small space, evaluated once."""

    def bind(*args: Any, **options: Any) -> Any:
        import everystep as es

        return es.features.bind(make(*args, **options), space(), 2)

    return bind


def _in_box(make: Callable[..., Any]) -> Callable[..., Any]:
    """A set of actions, made for a small space, and asked for the nearest."""

    def candidates(*args: Any, **options: Any) -> Any:
        from gymnasium import spaces

        from everystep.environments.play import action_sets

        return action_sets.candidates(spaces.Box(-1, 1, (2,)), make(*args, **options)).nearest([[0.1, 0.2]])

    return candidates


def _played(make: Callable[..., Any]) -> Callable[..., Any]:
    def play(*args: Any, **options: Any) -> None:
        env = make(*args, **options)
        env.reset(seed=0)
        env.step(0)
        env.close()

    return play


def _monitors(bench: Bench) -> str:
    """A folder of monitor files."""
    results.write_monitors(bench)
    return str(bench.here / "monitors")


def _log(bench: Bench, file: Callable[[str, bytes], str]) -> str:
    """A log of transitions in one of the formats, at times damaged."""
    import everystep as es

    ending = bench.pick(("csv", "npz", "parquet"))
    path = bench.here / f"log.{ending}"
    es.logged.write(es.Batch(**batch()), path)
    if bench.chance(0.6):
        path.write_bytes(damaged_bytes(bench, path.read_bytes()))
    return str(path)


@cache
def trained_policy() -> Any:
    import everystep as es

    return es.train(Ring(), "lsvi-ae", constraint=safe, horizon=3, episodes=1).policy


# --- calls ------------------------------------------------------------------------------------------------------------
HEAVY = ("run", "train", "Learner.learn", "logged.from_env", "evaluate")  # these may compile


@PYTHON_API.kind("calls", 80)
def call(bench: Bench) -> Case:
    """A public name with a few of its arguments replaced."""
    calls = valid_calls(bench)
    names = [name for name in calls if not (bench.quick and name in HEAVY)]
    name = bench.pick(names)
    function, args, options = calls[name]()
    args, options = list(args), dict(options)
    strange: list[str] = []
    for _ in range(int(bench.rng.integers(1, 3))):
        given = cases.value(bench)
        if args and bench.chance(0.3):
            at = int(bench.rng.integers(len(args)))
            args[at] = given
            strange.append(f"argument {at + 1} = {_shown(given)}")
        elif options:
            key = bench.pick(list(options))
            if isinstance(options[key], np.ndarray) and bench.chance(0.7):
                given = damaged_array(bench, options[key])
            elif bench.chance(0.03):
                key = bench.pick(("extra", "self", "seeds", "name"))
            options[key] = given
            strange.append(f"{key} = {_shown(given)}")
    if bench.quick and name == "run":
        options["episodes"] = 0
    return Case(call=lambda: function(*args, **options), shown=f"{name}: {'; '.join(strange)}", written=["."], own=OWN)


def _shown(given: Any) -> str:
    try:
        text = repr(given)
    except Exception:
        text = f"<{type(given).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()[:200]


# --- environments -----------------------------------------------------------------------------------------------------
def safe(obs: Any, action: Any, obs_next: Any, info: Any) -> float:
    return -1.0


def _spaces() -> tuple[Any, Any]:
    from gymnasium import spaces

    return spaces.Discrete(4), spaces.Discrete(2)


class Ring(gymnasium.Env):
    """A walk on four states, in which one thing may be wrong."""

    def __init__(self, **wrong: Any) -> None:
        self.observation_space, self.action_space = _spaces()
        self.wrong, self.steps = wrong, 0
        self.P = wrong.get("P", {x: {a: [(1.0, (x + a) % 4, float(a), False)] for a in range(2)} for x in range(4)})
        for name in ("observation_space", "action_space"):
            if name in wrong:
                setattr(self, name, wrong[name])

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.x, self.t = 0, 0
        if "reset" in self.wrong:
            return self._say(self.wrong["reset"])
        return self._say(self.wrong.get("observation", self.x)), {}

    def step(self, action: Any) -> Any:
        self.steps, self.t = self.steps + 1, self.t + 1
        self.x = (self.x + int(action)) % 4
        late = self.steps >= self.wrong.get("from", 0)
        of = lambda name, usual: self._say(self.wrong[name]) if late and name in self.wrong else usual
        if "step" in self.wrong and late:
            return self._say(self.wrong["step"])
        ended = of("terminated", False)
        return (
            of("observation", self.x),
            of("reward", float(action)),
            ended,
            of("truncated", self.t >= 3),
            of("info", {"cost": 0.0}),
        )

    def _say(self, what: Any) -> Any:
        if what is EnvironmentFailed:
            raise EnvironmentFailed("a wheel came off")
        return what

    def close(self) -> None:
        if self.wrong.get("close"):
            raise EnvironmentFailed("it cannot be closed")


def _odd_observations(bench: Bench) -> Any:
    from gymnasium import spaces

    return bench.pick([
        spaces.Discrete(4), spaces.Discrete(1), spaces.Discrete(3, start=-1), spaces.Box(-1, 1, (2,)),
        spaces.Box(-np.inf, np.inf, (3,)), spaces.Box(0, 255, (2, 2, 3), np.uint8),
        spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(3),
        spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (1,)))), spaces.Dict({"a": spaces.Discrete(2)}),
        spaces.Text(3),
        spaces.Box(0, 0, (0,)), spaces.Discrete(10**9), spaces.Sequence(spaces.Discrete(2)), None, 4,
    ])  # fmt: skip


REWARDS = (
    math.nan, math.inf, None, "x", np.ones(2), [1], 1e308, EnvironmentFailed, 1j, np.array(1.0), True, -1e300, 10**400,
)  # fmt: skip
INFOS = (
    None, [], {"cost": math.nan}, {"cost": None}, {"constraint": []}, {"constraint": [1, 2]}, {"cost": "x"},
    {"cost": np.ones((2, 2))}, {"constraint": {}}, 3,
)  # fmt: skip


def _odd_actions(bench: Bench) -> Any:
    from gymnasium import spaces

    return bench.pick(
        [
            spaces.Discrete(1),
            spaces.Discrete(2, start=1),
            spaces.Box(-1, 1, (1,)),
            spaces.MultiDiscrete([2, 2]),
            spaces.Discrete(500),
            None,
            3,
            spaces.Discrete(2),
        ]
    )


@PYTHON_API.kind("environments", 20)
def environment(bench: Bench) -> Case:
    """Training where the environment, the constraint or an option is wrong, from the start or after some steps."""
    import everystep as es

    wrong: dict[str, Any] = {"from": int(bench.rng.integers(0, 8))}
    shown = []
    for _ in range(int(bench.rng.integers(0, 3))):
        key = bench.pick(
            (
                "observation",
                "reward",
                "terminated",
                "truncated",
                "info",
                "step",
                "reset",
                "observation_space",
                "action_space",
                "close",
            )
        )
        given = {
            "observation_space": lambda: _odd_observations(bench), "action_space": lambda: _odd_actions(bench),
            "close": lambda: True,
            "reward": lambda: bench.pick(REWARDS), "info": lambda: bench.pick(INFOS),
        }.get(key, lambda: EnvironmentFailed if bench.chance(0.2) else cases.value(bench))()  # fmt: skip
        wrong[key] = given
        shown.append(f"{key} = {_shown(given)}")
    constraint = safe if bench.chance(0.6) else bench.pick([
        safe, safe, None, lambda *a: math.nan, lambda *a: None, lambda *a: "x", lambda *a: [], lambda *a: [1, -1],
        lambda *a: np.ones((2, 2)),
        lambda o: 1.0, lambda *a: math.inf, lambda *a: 1e308,
        lambda *a: bench.rng.standard_normal(int(bench.rng.integers(1, 3))), lambda *a: True, 3,
    ])  # fmt: skip
    options: dict[str, Any] = {
        "episodes": 1 if bench.quick else int(bench.pick((1, 3))),
        "constraint": constraint,
        "horizon": 3,
        "length": 4,
    }
    agent: Any = bench.pick(("lsvi-ae", "lsvi", "lsvi-primal") if bench.chance(0.85) else AGENTS)
    if bench.chance(0.3):
        options["features"] = bench.pick(
            [
                es.features.fourier(3),
                es.features.polynomial(1),
                es.features.tiles(2, 2),
                es.features.one_hot(),
                es.features.function(lambda o: np.full(2, math.nan)),
                es.features.function(lambda o: "x"),
                "fourier",
                3,
            ]
        )
    if bench.chance(0.3):
        key = bench.pick(
            ("episodes", "horizon", "length", "reward_range", "seed", "envs", "cost_features", "warm_start", "progress")
        )
        options[key] = cases.value(bench)
        shown.append(f"{key} = {_shown(options[key])}")
    if bench.quick:
        options["episodes"] = 0

    def train() -> Any:
        env = Ring(**wrong)
        return es.train(env, agent, **options)

    return Case(call=train, shown=f"train {agent}: {'; '.join(shown)}", own=OWN)


def names_tried() -> Iterator[str]:
    """The public names that `valid_calls` has."""
    from pathlib import Path

    yield from valid_calls(Bench(np.random.default_rng(0), Path(), Path()))
