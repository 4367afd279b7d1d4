"""What public functions return is public as well, and old names say which one to use."""

import inspect
import typing

import pytest

import everystep as es
from everystep.training.learner import Learner
from everystep.training.options import CHECKPOINT, LEARNER, OPTIONS, names

pytestmark = pytest.mark.quick

MODELS = {"gp", "kernel_values", "regression"}  # what they return is a setting of an agent, and nothing else
FUNCTIONS = [name for name in es.__all__ if inspect.isfunction(getattr(es, name)) and name not in MODELS]


def classes(annotation):
    if inspect.isclass(annotation):
        yield annotation
    for each in typing.get_args(annotation):
        yield from classes(each)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_a_function_returns_is_a_public_name(name):
    returned = typing.get_type_hints(inspect.unwrap(getattr(es, name)))["return"]
    for each in classes(returned):
        if each.__module__.startswith("everystep"):
            assert getattr(es, each.__name__) is each
            assert each.__name__ in es.__all__


def test_results_are_read_and_printed_alike():
    trained = es.train(es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4)), episodes=2)
    run = es.run("streaming", "uniform", episodes=2, seeds=2)
    assert (trained.columns["return"].shape, run.columns["uniform"]["return"].shape) == ((2,), (2, 2))
    assert repr(trained) == "<TrainingResult of CMDPEnv: lsvi-ahead; 2 episodes>"
    assert repr(run) == "<Result of streaming: uniform; 2 seeds, 2 episodes>"
    assert "lsvi-ahead" in str(trained)
    assert "uniform" in str(run)


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: es.Trained, "use TrainingResult"),
        (lambda: es.kernel, "use kernel_values"),
        (lambda: es.run("streaming", "uniform", episodes=1, seeds=1).curves, "use columns"),
        (lambda: es.run("streaming", "uniform", seed0=3), r'seeds="10:42"'),
        (lambda: es.logged.from_env(None, None, 1, horizon=3), "use length="),
    ],
)
def test_an_old_name_says_which_one_to_use(call, remedy):
    with pytest.raises((AttributeError, es.EverystepError), match=remedy):
        call()


def test_learner_and_the_table_of_options_agree():
    keywords = inspect.signature(Learner).parameters
    assert set(keywords) - set(OPTIONS) == {"seed"}
    assert set(names(LEARNER)) | {"env", "agent", "envs", "seed"} == set(keywords)
    for name in set(names(LEARNER)) | {"agent", "envs"}:
        assert keywords[name].default == OPTIONS[name].default, name
    of_train = inspect.signature(es.train).parameters
    for name in ("episodes", "steps", "without_exploration"):
        assert of_train[name].default == OPTIONS[name].default, name
    env = es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))
    assert set(es.Learner(env).decided) == {"seed", *names(CHECKPOINT)}


def test_every_evaluation_plays_as_many_episodes():
    (flag,) = [each for each in parser_of("evaluate") if "--episodes" in each.option_strings]
    assert OPTIONS["evaluate"].default == inspect.signature(es.evaluate).parameters["episodes"].default == 20
    assert flag.default == "20"
    assert "None: 20 if" in es.train.__doc__


def parser_of(command):
    from everystep.cli.main import parser

    return parser()._subparsers._group_actions[0].choices[command]._actions


def test_columns_grow_with_the_training_and_keep_their_numbers():
    learner = es.Learner(es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4)), "lsvi-ae", seed=0)
    before = []
    for _ in range(5):
        learner.play(1)
        before.append(learner.columns)
        for name, column in learner.columns.items():
            wanted = learner._columns[name]
            assert column.dtype == learner.columns[name].dtype
            assert column.tolist() == list(wanted)
        assert learner.so_far == pytest.approx((sum(learner._columns["length"]), sum(learner._columns["violation"])))
    assert [len(each["return"]) for each in before] == [1, 2, 3, 4, 5]
    with pytest.raises(ValueError, match="read-only"):
        learner.columns["return"][0] = 1.0
    learner.result().columns["return"][0] = 1.0  # a result has its own


def test_no_limit_of_memory_is_0_or_none():
    made = [es.Learner("CartPole-v1", memory=memory).resolved.environment.memory for memory in (0, None, 500)]
    assert made == [None, None, 500]
