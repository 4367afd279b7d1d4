"""What a training is asked for: the learner it makes, and which requests go on with a folder."""

import pytest
from helpers.by_name import REQUEST, module_here

from everystep.errors import EverystepError
from everystep.training.seeds.request import TrainingRequest

pytestmark = pytest.mark.quick


def request(**changed):
    return TrainingRequest(**(REQUEST | {"episodes": 3, "seeds": (2, 5)} | changed))


@pytest.fixture
def here(tmp_path):
    with module_here(tmp_path) as folder:
        yield folder


def test_a_learner_has_the_environment_constraint_and_settings_of_the_request(here):
    learner = request(settings={"beta": "0.25"}).learner(7)
    learner.play(1)
    spec = learner.result().spec
    assert (spec["environment"], spec["seed"], spec["horizon"], spec["length"]) == ("Walk", 7, 3, 6)
    assert spec["settings"]["beta"] == 0.25
    assert learner.columns["length"].tolist() == [6]
    assert learner.columns["violation"][0] == learner.columns["unsafe_steps"][0]  # g is 1 or -1


def test_a_request_says_how_long_it_lasts_and_what_it_imports():
    assert request().amount == "3 episodes"
    assert request(episodes=None, steps=100).amount == "100 steps"
    assert {name for name, value in request().names.items() if value} == {"env", "constraint"}
    assert request(settings={"beta": "0.25"}).recipe.label == "lsvi-ae(beta=0.25)"


def test_what_would_fail_in_the_first_step_is_raised_before(here):
    request().check()
    with pytest.raises(EverystepError, match="no sensor"):
        request(constraint="walk_by_name:fails").check()


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"agent": "lsvi"}, "agent"),
        ({"constraint": None}, "constraint"),
        ({"horizon": 4}, "horizon"),
        ({"settings": {"beta": "1"}}, "beta"),
        ({"seeds": (2, 6)}, "seed 5"),
        ({"episodes": 2}, "3 episodes"),
        ({"episodes": None, "steps": 100}, "3 episodes"),
    ],
)
def test_only_the_same_or_more_of_it_continues(changed, words, tmp_path):
    request(episodes=4, seeds=(5, 2, 9)).check_continues(request(), tmp_path)
    with pytest.raises(EverystepError, match=words):
        request(**changed).check_continues(request(), tmp_path)
