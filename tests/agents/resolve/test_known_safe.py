"""Agents with a known safe action: what they require of a problem, and how it is refused."""

import numpy as np
import pytest
from problems_for_tests.star import star

import everystep as es
from everystep import agents
from everystep.mdp.arrays import digest, save_problem
from everystep.mdp.cmdp import Known
from everystep.problems import from_map


@pytest.fixture(scope="module")
def bed():
    return star()


@pytest.fixture(scope="module")
def pond():
    return from_map(("SFF", "FHF", "FFG"), horizon=6)


@pytest.mark.quick
@pytest.mark.parametrize("name", ["slucb-qvi", "rslucb-qvi"])
def test_what_is_missing_is_named_with_how_to_give_it(pond, name):
    with pytest.raises(es.EverystepError, match="safe_action=safest"):
        agents.Recipe(name).resolve(pond, 10)


def test_they_are_refused_on_environments_because_these_list_no_safe_actions():
    pytest.importorskip("gymnasium")
    with pytest.raises(es.EverystepError, match="known safe action"):
        es.train("CartPole-v1", agents.slucb_qvi(), constraint=lambda *step: -1.0, episodes=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"safe_action": [0, 1]}, "give 8 actions from 0 to 15"),
        ({"safe_action": np.full(8, 15)}, "it must have g < 0"),
        ({"threshold": [0.1, 0.2]}, "2 numbers for 1 constraints"),
        ({"radius_cost": "coordinate"}, "choose paper .valid. or tuned"),
        ({"safe_action": "safe"}, "choose auto or safest"),
        ({"kappa": -1}, "at least 0, or auto"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused(bed, settings, message):
    with pytest.raises(es.EverystepError, match=message):
        agents.slucb_qvi(**settings).resolve(bed, 10)


def test_prior_knowledge_is_saved_read_back_and_part_of_the_identity_of_a_run(bed, tmp_path):
    save_problem(bed, tmp_path / "star.npz")
    again = es.problems.load(str(tmp_path / "star.npz"))
    np.testing.assert_array_equal(again.known.threshold, [0.5])
    np.testing.assert_array_equal(again.known.safe_action, bed.known.safe_action)
    assert again.known.triples is None
    assert digest(again) == digest(bed)
    others = [Known(), Known(0.4, np.zeros(8, int)), Known(0.5), Known(0.5, np.ones(8, int))]
    assert len({digest(bed), *(digest(star(known=known)) for known in others)}) == 5


@pytest.mark.parametrize(
    ("known", "message"),
    [
        (Known(safe_action=[0, 1]), "give 8 actions from 0 to 15"),
        (Known(safe_action=np.full(8, 15)), "give an action with g < 0"),
        (Known(threshold=[0.1, 0.2]), "give a finite number"),
        (Known(safe_action=[0, 0, 0, 0, 0, 0, 0, 16]), "safe_action holds 16; give 8 actions from 0 to 15"),
        (Known(triples=np.zeros((8, 16, 8, 0))), "a vector for every state, action and next state"),
        ({"safe_action": 0}, "known is {'safe_action': 0}; give es.Known"),
        (Known(triples=np.zeros((8, 16, 2))), "a vector for every state, action and next state"),
    ],
)
def test_prior_knowledge_must_fit_the_problem(known, message):
    with pytest.raises(es.EverystepError, match=message):
        star(known=known)
