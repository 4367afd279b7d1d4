"""Inputs that no careful user would give: each is refused in one short sentence with status 2, without a traceback."""

import numpy as np
import pytest

from everystep import problems
from everystep.cli import main
from everystep.errors import EverystepError, quoted, real_number, shown, whole_number
from everystep.experiments import config
from everystep.mdp.arrays import save_problem

pytestmark = pytest.mark.quick

LONG = "x" * 35_000
EXPERIMENT = 'episodes = 2\nseeds = 1\nout = "out"\n'
LAKE = 'problems = ["frozen-lake"]\n'


def refusal(capsys, arguments):
    """The sentence with which a command ends."""
    try:
        status = main.main([str(each) for each in arguments])
    except SystemExit as stopped:
        status = stopped.code
    sentence = capsys.readouterr().err
    assert status == 2
    assert sentence.startswith("everystep")
    assert sentence.endswith(".\n")
    assert sentence.count("\n") == 1
    assert len(sentence) < 500
    return sentence


@pytest.fixture
def written(tmp_path):
    def write(text, encoding="utf-8"):
        (tmp_path / "hostile.toml").write_text(text, encoding=encoding)
        return tmp_path / "hostile.toml"

    return write


# --- flags ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--horizon", "1e18"], "horizon is 1e18; give a whole number from 1 to 2147483647."),
        (["--horizon", "2147483647"], "horizon is 2147483647: 500 episodes would take"),
        (["--episodes", "1e30"], "episodes is 1e30; give a whole number from 1 to"),
        (["--seeds", "9" * 5000], "seeds is 999"),
        (["--set", f"beta={LONG}"], "setting beta of lsvi-ae is 'xxx"),
        (["--set", LONG], "--set is 'xxx"),
        (["--agents", LONG], "no agent 'xxx"),
        ([f"--{LONG}"], "unrecognized arguments: --xxx"),
        (["--seed0", "7"], "use --seeds 7:20"),
    ],
    ids=range(9),
)
def test_flags_that_cannot_be_used_are_refused(capsys, tmp_path, flags, sentence):
    given = ["run", "--problem", "frozen-lake", "--agents", "lsvi-ae", "--out", tmp_path / "out", *flags]
    assert sentence in refusal(capsys, given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        [LONG],
        ["run", "--problem", LONG, "--out", "out"],
        ["run", "--problem", f"{LONG}.txt", "--out", "out"],
        ["run", LONG],
        ["summary", LONG],
        ["resume", LONG],
    ],
    ids=range(6),
)
def test_long_names_are_cut_in_the_middle(capsys, arguments):
    assert " ... " in refusal(capsys, arguments)


@pytest.mark.parametrize("host", ["a..b", LONG, "\u00df" * 70], ids=["dots", "long", "letters"])
def test_a_host_without_a_valid_name_is_refused(capsys, host):
    pytest.importorskip("uvicorn")
    assert "which cannot be resolved" in refusal(capsys, ["play", "--no-browser", "--host", host])


# --- experiment files -------------------------------------------------------------------------------------------------
def test_deeply_nested_toml_is_refused(capsys, written):
    sentence = refusal(capsys, ["run", written(f"a = {'[' * 5000}{']' * 5000}")])
    assert "nests tables or lists too deeply" in sentence


def test_a_number_of_thousands_of_digits_is_refused(capsys, written):
    refusal(capsys, ["run", written(f"episodes = {'9' * 5000}")])
    assert "from 1 to 9223372036854775807" in refusal(capsys, ["run", written(f"episodes = {'9' * 400}")])


def test_a_byte_order_mark_is_accepted(written):
    runs = config.read(written(EXPERIMENT + LAKE + 'agents = ["lsvi"]', encoding="utf-8-sig"))
    assert list(runs.runs) == ["frozen-lake"]


@pytest.mark.parametrize("key", ["beta", "lam", "cap", "p", "sigma", "optimism", "floor"])
def test_booleans_are_not_numbers(capsys, written, key):
    file = written(EXPERIMENT + LAKE + f'agents = ["lsvi-ae"]\n[settings]\n{key} = true')
    assert f"setting {key} of lsvi-ae is True" in refusal(capsys, ["run", file])


@pytest.mark.parametrize(
    ("problem", "parameter"),
    [
        ("linear", "states"),
        ("linear", "d"),
        ("streaming", "levels"),
        ("bandit", "arms"),
        ("bandit-continuum", "resolution"),
        ("synthetic", "states"),
        ("synthetic", "levels"),
        ("robot-map", "size"),
        ("terrain", "size"),
    ],
)
def test_problems_of_absurd_sizes_are_refused_before_anything_is_allocated(capsys, written, problem, parameter):
    for value in ("1e300", "1000000000", "true", "nan", '"x"', "[1]", "1979-05-27"):
        table = f'agents = ["lsvi"]\n[[problems]]\nname = "{problem}"\n{parameter} = {value}\n'
        assert f"{parameter} " in refusal(capsys, ["run", written(EXPERIMENT + table)])


def test_a_long_chain_is_refused_before_anything_is_drawn():
    with pytest.raises(EverystepError, match="horizon is 100000000: the problem would take"):
        problems.hard_instance(d=2, horizon=10**8, episodes=10**9)


# --- files of arrays --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("linear_costs", [1, 2], "linear_costs is [1 2]; save True or False."),
        ("kernel", "((((", "kernel is '(((('; write a kernel such as"),
        ("kernel", ["rbf(1)"], "kernel has shape (1,)"),
        ("name", ["a", "b"], "name has shape (2,) and type <U1; save one text."),
        ("cost_sigma", 1j, "cost_sigma is not an array of numbers"),
        ("reward_sigma", "loud", "reward_sigma is not an array of numbers"),
        ("horizon", 1e300, "horizon is 1e+300; give a whole number"),
        ("horizon", True, "horizon is True; give a whole number"),
        ("start", 0.5, "start has shape ()"),
        ("safe_action", 1j, "safe_action is not an array of numbers"),
    ],
)
def test_arrays_of_the_wrong_kind_are_refused(capsys, tmp_path, field, value, sentence):
    save_problem(problems.bandit(), tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as arrays:
        np.savez(tmp_path / "bad.npz", **{**arrays, field: np.asarray(value)})
    run = ["run", "--problem", tmp_path / "bad.npz", "--agents", "rpol", "--out", tmp_path / "out"]
    assert sentence in refusal(capsys, run)


# --- sentences --------------------------------------------------------------------------------------------------------
class Unprintable:
    def __repr__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    "value",
    [LONG, LONG.encode(), np.zeros((30, 30)), [[0.5] * 1000] * 1000, 10**5000, Unprintable(), {LONG: LONG}, "\x1b[2J"],
    ids=range(8),  # pytest cannot print all of them
)
def test_any_value_is_shown_in_one_short_printable_line(value):
    for text in (shown(value), str(EverystepError(f"x is {shown(value)}; give less."))):
        assert text.isprintable()
        assert len(text) <= 250
    with pytest.raises(EverystepError, match=r"^x is .*; give a whole number (of at least 1|from 1 to 2147483647)\.$"):
        whole_number("x", value)
    with pytest.raises(EverystepError, match=r"^x is .*; give a number"):
        real_number("x", value)


def test_the_beginning_and_the_end_of_a_long_sentence_survive():
    sentence = str(EverystepError(f"field is {LONG}; give less."))
    assert len(sentence) <= 500
    assert sentence.startswith("field is xxx")
    assert sentence.endswith("xxx; give less.")
    assert quoted("beta") == "'beta'"
    assert quoted(3) == "3"
