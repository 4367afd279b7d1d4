"""Environments and constraints by name: ids, and what a module of the current folder defines."""

import sys

import pytest

from everystep.environments.play import named
from everystep.errors import EverystepError

pytestmark = pytest.mark.quick
MODULE = """
import gymnasium

def pole():
    return gymnasium.make("CartPole-v1", max_episode_steps=7)

def limit(obs, action, obs_next, info):
    return abs(obs_next[2]) - 0.1

class inside:
    limit = staticmethod(limit)

def fails():
    raise KeyError("no pole")

number = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "by_name_for_test.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("by_name_for_test", None)


@pytest.mark.parametrize(
    ("name", "imported"),
    [
        ("mine:make", True),
        ("mine.envs:Factory.make", True),
        ("CartPole-v1", False),
        ("everystep:everystep/FrozenLake-v0", False),
        ("mine:", False),
        ("mine", False),
    ],
)
def test_a_factory_is_told_from_an_id(name, imported):
    assert named.is_imported(name) is imported


def test_what_a_module_of_the_current_folder_names_is_found(here):
    assert named.environment("by_name_for_test:pole").spec.max_episode_steps == 7
    assert named.environments("by_name_for_test:pole", 2).num_envs == 2
    limit = named.constraint("by_name_for_test:limit")
    assert limit([0] * 4, 0, [0, 0, 0.3, 0], {}) == pytest.approx(0.2)
    assert named.constraint("by_name_for_test:inside.limit") is limit
    assert named.function("render", "by_name_for_test:pole")().spec.id == "CartPole-v1"
    assert named.constraint(None) is named.function("render", None) is None
    assert "" not in sys.path[:1]


def test_an_id_is_made_with_its_options():
    assert named.environment("CartPole-v1", max_episode_steps=9).spec.max_episode_steps == 9


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: named.environment("by_name_for_test:number"), "which is 3"),
        (lambda: named.environment("by_name_for_test:fails"), "raised KeyError"),
        (lambda: named.environment("by_name_for_test:absent"), "has no 'absent'"),
        (lambda: named.environment("no_such_module:make"), "cannot be imported"),
        (lambda: named.environment("Nothing-v0"), "cannot be made"),
        (lambda: named.constraint("CartPole-v1"), "module:function"),
        (lambda: named.constraint("by_name_for_test:number"), "by_name_for_test:number.*module:function"),
        (lambda: named.function("render", "by_name_for_test:number"), "module:function"),
    ],
)
def test_what_a_name_cannot_be_is_refused(here, call, words):
    with pytest.raises(EverystepError, match=words):
        call()


def test_modules_are_found_where_the_current_folder_was_removed(here, tmp_path, monkeypatch):
    assert named.constraint("by_name_for_test:limit")
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert named.constraint("by_name_for_test:limit")
    monkeypatch.chdir(tmp_path)
