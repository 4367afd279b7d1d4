"""Tables of options: how values are read, and what the error of each names."""

from dataclasses import MISSING, dataclass

import pytest

from everystep.errors import EverystepError
from everystep.experiments import options
from everystep.experiments.options import EngineChoice, SettingFlag

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, [0, 1, 2]),
        ("3", [0, 1, 2]),
        ("3:6", [3, 4, 5]),
        ("3,8", [3, 8]),
        ([8, 3], [8, 3]),
        (range(2, 4), [2, 3]),
        ((5,), [5]),
    ],
)
def test_seeds_are_a_number_a_range_or_a_list_wherever_they_are_given(given, seeds):
    assert list(options.seed_list("seeds", given)) == seeds


@pytest.mark.parametrize(
    "given", [0, "x", "3:6:9", "3:5,8", "6:3", [], [3, 3], [-1], [2.5], 10**30, object(), range(3, 3)]
)
def test_what_is_no_seed_is_refused_with_its_name(given):
    with pytest.raises(EverystepError, match=r"^seeds"):
        options.seed_list("seeds", given)


@dataclass(frozen=True)
class Table:
    name: str = options.option(options.TEXT, "N", "a name", MISSING)
    steps: int | None = options.option(options.whole(2), "S", "steps", None, "elsewhere")
    pair: tuple = options.option(options.PAIR, "A,B", "two numbers", (0.0, 1.0))
    keys: dict = options.option(options.SETTINGS, "K", "settings", {})  # noqa: RUF009  it is a field


def test_a_table_has_a_row_for_each_field_with_its_default():
    rows = options.rows(Table)
    assert list(rows) == ["name", "steps", "pair", "keys"]
    assert (rows["steps"].default, rows["keys"].default, rows["steps"].travels) == (None, {}, ("elsewhere",))


@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("steps", None, None),
        ("steps", 5, 5),
        ("pair", [-1, 2], (-1.0, 2.0)),
        ("keys", {"beta": "0.3", "react": True}, {"beta": "0.3", "react": True}),
        ("name", "lake", "lake"),
    ],
)
def test_values_are_read_by_their_form(name, given, read):
    assert options.rows(Table)[name].checked(given) == read


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("steps", 1),
        ("steps", "5"),
        ("steps", True),
        ("pair", [1]),
        ("pair", "ab"),
        ("keys", {"beta": []}),
        ("keys", 3),
        ("name", None),
        ("name", ""),
        ("name", "a\nb"),
    ],
)
def test_other_values_are_refused_with_the_name(name, given):
    with pytest.raises(EverystepError, match=f"^({name}|setting beta)"):
        options.rows(Table)[name].checked(given)


def test_a_setting_is_for_all_agents_or_for_one():
    assert SettingFlag.parse("beta=0.5") == (None, "beta", "0.5")
    assert SettingFlag.parse(" lsvi-ae.cost = gp(rbf(2.0)) ") == ("lsvi-ae", "cost", "gp(rbf(2.0))")
    assert str(SettingFlag.parse("lsvi-ae.beta=1")) == "lsvi-ae.beta=1"
    for text in ("beta", "=3", ""):
        with pytest.raises(EverystepError, match="key=value"):
            SettingFlag.parse(text)


def test_an_engine_is_one_of_two_and_only_a_cluster_has_an_address():
    assert EngineChoice().checked().name == "local"
    assert EngineChoice("ray", "auto").checked().address == "auto"
    for choice, words in ((EngineChoice("rai"), "ray"), (EngineChoice(address="auto"), "engine ray")):
        with pytest.raises(EverystepError, match=words):
            choice.checked()


def test_names_are_separated_by_commas():
    assert options.split_names(" a, b ,,c") == ["a", "b", "c"]
