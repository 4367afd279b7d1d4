"""Environments from their ids, in copies; their names and the length of their episodes."""

import gymnasium
import pytest
from environments_for_tests.rings import Ring

import everystep as es
from everystep.environments.play.making import environment_name, episode_limit, made
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick


def test_an_environment_is_used_as_it_is_and_an_id_makes_one():
    ring = Ring()
    assert made(ring) is ring
    assert environment_name(made("CartPole-v1")) == "CartPole-v1"
    assert environment_name(ring) == "Ring"


def test_copies_are_made_from_an_id_or_from_the_spec_of_an_environment():
    for given in ("CartPole-v1", gymnasium.make("CartPole-v1")):
        copies = made(given, 3)
        assert copies.num_envs == 3
        copies.close()
    with pytest.raises(EverystepError, match=r"envs is 3.*give its id"):
        made(Ring(), 3)


def test_an_id_that_is_unknown_is_named():
    with pytest.raises(EverystepError, match=r"Nothing-v0.*give the id of an installed"):
        made("Nothing-v0")


def test_the_limit_of_an_episode_is_that_of_its_spec_or_the_horizon_of_its_problem():
    assert episode_limit(gymnasium.make("CartPole-v1", max_episode_steps=60)) == 60
    assert episode_limit(es.gym.make_env(es.problems.from_map(["SFG", "FHF"], horizon=4))) == 4
    assert episode_limit(Ring()) is None
