"""The table of options of a training is the one that flags, learners and checkpoints use."""

import inspect

import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.training.options import CHECKPOINT, LEARNER, MAY_DIFFER, OPTIONS, names

pytestmark = pytest.mark.quick


def test_every_option_of_a_learner_is_one_of_its_arguments():
    arguments = inspect.signature(es.Learner).parameters
    assert set(names(LEARNER)) <= set(arguments)
    assert set(names(CHECKPOINT)) <= set(names(LEARNER))
    assert not set(names(CHECKPOINT)) & set(names(MAY_DIFFER))


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "env"])
def test_every_default_is_a_value_of_its_option(name):
    default = OPTIONS[name].default
    assert OPTIONS[name].checked(default) == default


@pytest.mark.parametrize(
    ("name", "given"),
    [("horizon", 0), ("envs", 10**6), ("memory", -1), ("seeds", 10**4), ("reseed", 1), ("evaluate", 2.5)],
)
def test_values_have_limits(name, given):
    with pytest.raises(EverystepError, match=f"^{name} is"):
        OPTIONS[name].checked(given)
