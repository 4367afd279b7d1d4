"""Keywords that do not exist: the error names what to write instead."""

import inspect

import pytest

import everystep as es
from everystep.agents import arguments, registry
from everystep.agents.settings import SETTINGS
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


def parameters(of):
    return inspect.signature(of).parameters


@pytest.mark.parametrize(
    ("call", "given", "sentence"),
    [
        (es.train, "total_timesteps", "no argument of train called 'total_timesteps'; use steps=."),
        (es.train, "n_envs", "use envs=."),
        (es.train, "max_episode_steps", "use length=."),
        (es.train, "policy", "give the name of an agent second"),
        (es.train, "gamma", "use horizon="),
        (es.train, "cost_fn", "safe where it is at most 0"),
        (es.train, "beta", "give it to the agent, as in es.agents.lsvi_ahead(beta=...)"),
        (es.train, "ridge", "give it to the agent, as in es.agents.lsvi_ahead(lam=...)"),
        (es.train, "tolerence", "did you mean tolerance? Give it to the agent"),
        (es.train, "episods", "Did you mean episodes"),
        (es.train, "seeds", "use seed=, because it trains one seed"),
        (es.Learner, "n_seeds", "use seed=, because it trains one seed"),
        (es.run, "random_state", "use seeds=, a number, a list or a range"),
        (es.compare, "seed", "use seeds=, a number, a list or a range"),
        (es.train, "xyzzy", "help(es.train) lists all"),
        (es.Learner, "total_timesteps", "no argument of Learner called 'total_timesteps'; give it to its train"),
        (es.Learner, "num_envs", "use envs=."),
        (es.Learner, "out", "learner.save"),
        (es.Learner, "violation_price", "es.agents.lsvi_priced(violation_price=...)"),
        (es.Learner, "constrain", "Did you mean constraint"),
        (es.Learner.load, "horizon", "it is saved with the learner"),
        (es.run, "n_episodes", "no argument of run called 'n_episodes'; use episodes=."),
        (es.agents.lsvi_ae, "ridge", "no setting of lsvi-ae called 'ridge'; use lam=."),
        (es.agents.lsvi_ae, "tolerance", "it is a setting of lsvi-ahead,"),
        (es.agents.lsvi_ae, "bta", "Did you mean beta"),
        (es.agents.lsvi_priced, "harm_price", "use violation_price=."),
        (es.agents.lsvi_ae, "constraint", "give it to es.train"),
        (es.agents.lsvi_ae, "learning_rate", "agents have beta and lam"),
    ],
)  # fmt: skip
def test_a_keyword_that_does_not_exist_is_refused_with_the_one_to_use(call, given, sentence):
    with pytest.raises(EverystepError) as refused:
        call(**{given: 1})
    assert sentence in str(refused.value)


def test_what_is_given_by_position_and_has_no_place_is_refused_in_a_sentence():
    with pytest.raises(EverystepError, match="500 by name"):
        es.train("CartPole-v1", "lsvi-ae", 500)
    with pytest.raises(EverystepError, match=r"lsvi_ae .* by name"):
        es.agents.lsvi_ae(0.3)


def test_names_that_are_suggested_exist():
    of_functions = {*parameters(es.train), *parameters(es.Learner), *parameters(es.run)}
    assert set(arguments.RENAMED.values()) <= {*of_functions, *SETTINGS}
    assert not {*arguments.RENAMED, *arguments.EXPLAINED} & {*of_functions, *SETTINGS}
    assert set(registry.OF_TRAIN) <= set(parameters(es.train))
