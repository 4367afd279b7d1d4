"""Every argument of the public functions, replaced by what it cannot be: an EverystepError in one line, nothing else.

A call may also succeed: some of these values are valid somewhere. `make fuzz` tries many more, with random draws.
"""

import argparse
import inspect

import numpy as np
import pytest
from gymnasium import spaces
from jaxtyping import TypeCheckError

import everystep as es
from everystep.agents import registry
from everystep.agents.settings import SETTINGS
from everystep.cli.main import parser
from everystep.errors import EverystepError
from everystep.experiments.experiment import prepare
from everystep.mdp.cmdp import Grid
from everystep.training.seeds.request import TrainingRequest

pytestmark = pytest.mark.quick
S, A, H = 3, 2, 4
P, R, G = np.ones((S, A, S)) / S, np.zeros((S, A)), -np.ones((S, A))
BOX, LIST = spaces.Box(-1, 1, (2,)), spaces.Discrete(4)


class Hostile:
    """Raises whatever is asked of it."""

    def refuse(self, *arguments, **named):
        raise RuntimeError("no")

    __repr__ = __float__ = __index__ = __bool__ = __array__ = __eq__ = __len__ = __iter__ = refuse
    __hash__ = None


def refuse(*arguments, **named):
    raise RuntimeError("a function that fails")


def nested(depth):
    return [nested(depth - 1)] if depth else []


def wrong_values():
    """New ones for every call: a generator can be used once."""
    plain = [None, "", "x", "y" * 20_000, "a\0b", b"x", -1, 0, 0.5, True, 10**12, 10**400, 10**5000, 1e300, 1j]
    numbers = [float("nan"), float("inf"), -float("inf"), np.bool_(True), np.array(2.0), np.datetime64("2020-01-01")]
    lists = [[], [1, 2], [-1.0], ["a"], [[1], [1, 2]], [[[1.0]]], nested(200), {"a": 1}, {1}, range(2), (i for i in ())]
    arrays = [np.ones((2, 2)), np.empty((0, 3)), np.array([None]), np.full((2, 2), np.nan), np.ones(3) * 1j]
    return [*plain, *numbers, *lists, *arrays, object(), int, refuse, lambda *given, **named: None, Hostile()]


def problem(**changed):
    made = es.FiniteCMDP(**({"P": P, "r": R, "g": G, "horizon": H} | changed))
    made.check()
    return made


def bound(spec):
    return es.features.bind(spec, BOX, A)(np.zeros((1, 2)))


def bound_to_list(spec):
    return es.features.bind(spec, LIST, A)(np.zeros(1, int))


LAKE = es.problems.from_map(["SFG", "FFF"], horizon=H)
FEATURES = es.features.bind(es.features.fourier(2), BOX, A)

TABLE = {
    "observations": [0, 1],
    "actions": [0, 1],
    "rewards": [0.0, 1.0],
    "costs": [-1.0, 1.0],
    "next_observations": [1, 2],
    "terminated": [False, True],
    "steps": [0, 1],
    "episode": [0, 0],
    "action_count": 2,
}

SIGNALS = {"reward_on_arrival": np.zeros((S, A, S)), "cost_on_arrival": -np.ones((S, A, S))}

FIELDS = {
    "P": P, "r": R, "g": G, "start": 0, "horizon": H, "noise": None, "features": np.ones((S, A, 1)), "name": "x",
    "state_names": ("a", "b", "c"), "action_names": ("d", "e"), "exempt": None, "grid": None, "remarks": (),
    "coordinates": {}, "kernel": None, "linear_costs": True, "known": None,
}  # fmt: skip

CALLS = {
    "FiniteCMDP": (problem, FIELDS),
    "Noise": (lambda **given: problem(noise=es.Noise(**given)), {**SIGNALS, "reward_sigma": 0.1, "cost_sigma": 0.1}),
    "Known": (
        lambda **given: problem(known=es.Known(**given)),
        {"threshold": 0.0, "safe_action": np.zeros(S, int), "triples": np.zeros((S, A, S, 2))},
    ),
    "Factored": (
        lambda **given: problem(P=es.Factored(**given)),
        {"phi": np.ones((S, A, 2)) / 2, "mu": np.ones((2, S)) / S},
    ),
    "Successors": (
        lambda **given: problem(P=es.Successors(**given)),
        {"states": np.zeros((S, A, 2), int), "probabilities": np.full((S, A, 2), 0.5)},
    ),
    "Grid": (lambda **given: problem(grid=Grid(**given)), {"rows": ("abc",), "heights": np.zeros((1, 3))}),
    "check": (LAKE.check, {"cap": 100.0}),
    "describe": (LAKE.describe, {"x": 0}),
    "gp": (es.gp, {"kernel": es.kernels.RBF(), "points": "grid"}),
    "kernel_values": (es.kernel_values, {"kernel": "rbf(1)"}),
    "prepare": (
        prepare,
        {"problem": LAKE, "agents": "uniform", "episodes": 2, "seeds": 1, "certify": False},
    ),
    "Recipe": (es.agents.Recipe, {"name": "lsvi", "settings": {}, "alias": None}),
    "RBF": (es.kernels.RBF, {"length": 1.0, "on": None}),
    "Linear": (es.kernels.Linear, {"weight": 1.0, "on": "action"}),
    "Categorical": (es.kernels.Categorical, {"alike": 0.0, "on": "action"}),
    "Difference": (es.kernels.Difference, {"field": es.kernels.RBF(), "on": "move"}),
    "Custom": (es.kernels.Custom, {"function": lambda y, z: 1.0, "on": None}),
    "k(y, z)": (lambda y, z: es.kernels.RBF()(y, z), {"y": np.zeros(2), "z": np.zeros(2)}),
    "c * kernel": (lambda c: c * es.kernels.RBF(), {"c": 0.5}),
    "kernels.read": (es.kernels.read, {"text": "rbf(1)"}),
    "table": (lambda **given: bound_to_list(es.features.table(**given)), {"phi": np.eye(4), "normalise": False}),
    "fourier": (
        lambda **given: bound(es.features.fourier(**given)),
        {"size": 2, "lengthscale": 1.0, "seed": 0, "low": None, "high": None, "constant": False},
    ),
    "centres": (lambda **given: bound(es.features.centres(**given)), {"centres": 2, "lengthscale": None, "low": None}),
    "tiles": (lambda **given: bound(es.features.tiles(**given)), {"tilings": 2, "bins": 2, "high": None}),
    "function": (
        lambda **given: bound(es.features.function(**given)),
        {"f": lambda x: np.ones((A, 3)) / 3, "d": 3, "crossed": False, "normalise": False},
    ),
    "Spec": (lambda **given: bound_to_list(es.features.Spec(**given)), {"kind": "one_hot", "settings": {}}),
    "bind": (es.features.bind, {"spec": es.features.one_hot(), "observation_space": LIST, "actions": A}),
    "phi(x)": (FEATURES, {"obs": np.zeros((1, 2))}),
    "Batch.of": (es.Batch.of, TABLE),
    "Batch.rows": (es.Batch.of(**TABLE).rows, {"which": 0}),
    "logged.read": (es.logged.read, {"path": "nowhere.npz"}),
    "planner.solve": (es.planner.solve, {"problem": LAKE, "safe": True, "tolerance": 0.1}),
    "planner.least_harm": (es.planner.least_harm, {"problem": LAKE}),
    "planner.viable": (es.planner.viable, {"problem": LAKE}),
    "planner.harm_of_actions": (es.planner.harm_of_actions, {"of": LAKE, "h": 0, "C_next": np.zeros(LAKE.states)}),
    "planner.evaluate": (es.planner.evaluate, {"problem": LAKE, "policy": es.planner.solve(LAKE).policy}),
    "from_map": (
        es.problems.from_map,
        {"rows": ["SFG", "FFF"], "horizon": H, "reward": "once", "cost": "intended", "name": "x", "slip": 0.1},
    ),
    "load": (es.problems.load, {"name": "bandit", "horizon": None}),
    "Policy.load": (es.Policy.load, {"folder": "nowhere"}),
}

CALLS |= {
    f"problems.{make.__name__}": (
        make,
        {name: each.default for name, each in inspect.signature(make).parameters.items()},
    )
    for make in (es.problems.bandit, es.problems.bandit_continuum, es.problems.streaming, es.problems.hard_instance)
}

CASES = [(name, argument) for name, (_, given) in CALLS.items() for argument in given]


def refused_or_accepted(call, given):
    """Call; only an EverystepError of one short line is an answer to a wrong argument."""
    try:
        call(**given)
    except EverystepError as error:
        sentence = str(error)
    except TypeCheckError:  # of the tests themselves (conftest.py): the annotation is wrong, too
        return True
    else:
        return False
    assert sentence.isprintable()
    assert len(sentence) <= 500
    return True


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "argument"), CASES, ids=[f"{name}: {argument}" for name, argument in CASES])
def test_a_wrong_argument_is_refused_in_one_line(name, argument):
    call, given = CALLS[name]
    refused = [refused_or_accepted(call, {**given, argument: value}) for value in wrong_values()]
    assert sum(refused) >= len(refused) / 3  # most of these values are wrong anywhere


@pytest.mark.parametrize("name", CALLS)
def test_the_arguments_that_are_replaced_are_valid_themselves(name):
    if name not in ("logged.read", "Policy.load"):  # they read files
        call, given = CALLS[name]
        call(**given)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_wrong_kind_is_refused_in_one_line(setting):
    agent = next(name for name, each in es.agents.REGISTERED.items() if setting in each.settings)
    recipe = lambda value: es.agents.Recipe(agent, {setting: value})
    assert sum(refused_or_accepted(recipe, {"value": value}) for value in wrong_values()) > 20


@pytest.mark.parametrize("flag", [True, np.bool_(True)])
def test_booleans_are_not_numbers(flag):
    for call, named in ((es.agents.lsvi, "beta"), (es.problems.frozen_lake, "horizon"), (es.problems.linear, "states")):
        with pytest.raises(EverystepError, match=f"{named}.* is True; give a"):
            call(**{named: flag})


def parameters(of):
    return inspect.signature(of).parameters


def command():
    (found,) = [each for each in parser()._actions if isinstance(each, argparse._SubParsersAction)]
    return found


def test_train_spells_out_every_argument_of_learner_with_its_type_and_default():
    train, learner = parameters(es.train), parameters(es.Learner)
    for name, each in learner.items():
        assert (train[name].kind, train[name].default, train[name].annotation) == (
            each.kind, each.default, each.annotation
        )  # fmt: skip
    own = [name for name in train if name not in learner]
    assert own == ["episodes", "steps", "without_exploration", "warm_start", "evaluate", "progress", "out"]
    assert all(each.annotation is not each.empty for each in [*train.values(), *learner.values()])


def test_the_agent_that_is_trained_by_default_is_the_one_that_is_recommended():
    defaults = {parameters(each)["agent"].default for each in (es.train, es.Learner, TrainingRequest)}
    assert defaults == {registry.TRAINED_BY_DEFAULT} == {"auto"}
    (flag,) = [each for each in command().choices["train"]._actions if "--agent" in each.option_strings]
    assert f"({registry.TRAINED_BY_DEFAULT}: lsvi-nets, or lsvi-ahead)" in flag.help
