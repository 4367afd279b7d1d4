"""Experiments from files and flags: they run as written, and errors name the line."""

import json
from pathlib import Path

import numpy as np
import pytest

import everystep as es
from everystep.cli import main
from everystep.experiments import config, options

POND = "SFFF\nFHFH\nF.#G\n"
GOOD = """
out = "out"
episodes = 6
seeds = [3, 5]

[[problems]]
name = "pond.txt"
horizon = 8

[[problems]]
name = "bandit"
called = "one step"
episodes = 4
arms = 3

[settings]
lam = 0.5

[[agents]]
name = "lsvi-ae"
settings = { floor = "sqrt" }
grid = { beta = [0.1, 0.3], optimism = [0, 1.0] }

[[agents]]
name = "lsvi"
called = "greedy"
"""


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A folder to be in, and another one with the experiment and its map."""
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "pond.txt").write_text(POND, encoding="utf-8")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "there"


def written(desk, text):
    (desk / "mine.toml").write_text(text, encoding="utf-8")
    return desk / "mine.toml"


def settings(run):
    return {each["label"]: each["settings"] for each in run.spec["agents"]}


@pytest.mark.quick
def test_every_problem_meets_every_agent_at_every_point_of_its_grid(desk):
    plan = config.read(written(desk, GOOD))
    assert list(plan.runs) == ["pond", "one step"]
    pond, step = plan.runs.values()
    assert (pond.spec["episodes"], step.spec["episodes"]) == (6, 4)
    assert pond.spec["seeds"] == step.spec["seeds"] == [3, 5]
    assert pond.problem.horizon == 8
    given = settings(pond)
    assert [(each["beta"], each["optimism"]) for label, each in given.items() if label != "greedy"] == [
        (0.1, 0), (0.1, 1), (0.3, 0), (0.3, 1),
    ]  # fmt: skip
    assert all(each["lam"] == 0.5 for each in given.values())
    assert list(given)[-1] == "greedy"
    assert "floor" not in given["greedy"]


def test_flags_override_the_file(desk):
    flags = options.RunOptions(
        episodes=9, seeds="7:8", horizon=5, certify=True, out="other",
        settings=[options.SettingFlag(None, "beta", "0.7"), options.SettingFlag("lsvi", "lam", "2")],
    )  # fmt: skip
    plan = config.read(written(desk, GOOD.replace('"bandit"', '"frozen-lake"').replace("arms = 3", "")), flags)
    assert plan.out == Path("other")
    for run in plan.runs.values():
        assert (run.spec["episodes"], run.spec["seeds"], run.problem.horizon, run.spec["certify"]) == (9, [7], 5, True)
        given = settings(run)
        assert len(given) == 3  # beta is no longer in the grid
        assert all(each["beta"] == 0.7 for each in given.values())
        assert given["greedy"]["lam"] == 2
    only = options.RunOptions(problem="bandit", agents=["lsvi"])
    assert list(config.read(written(desk, GOOD), only).runs) == ["bandit-0"]


def test_a_file_runs_into_a_folder_for_each_problem_and_again_runs_nothing(desk, sketched, capsys):
    path = str(written(desk, GOOD.replace("grid = {", "# grid = {")))
    assert main.main(["run", path, "--dry-run"]) == 0
    assert "Nothing was run or written" in capsys.readouterr().out
    assert not Path("out").exists()
    assert main.main(["run", path]) == 0
    assert json.loads(Path("out/pond/spec.json").read_text(encoding="utf-8"))["seeds"] == [3, 5]
    assert Path("out/one step/episodes.parquet").is_file()
    capsys.readouterr()
    assert main.main(["run", path]) == 0
    assert "holds this run already: nothing was run" in capsys.readouterr().out


def test_the_example_is_in_order():
    plan = config.read(Path(__file__).parents[2] / "examples" / "experiment.toml")
    assert [len(run.agents) for run in plan.runs.values()] == [6, 6]


WRONG = {
    "no TOML": (GOOD.replace("episodes = 6", "episodes = = 6"), "is not valid TOML"),
    "unknown key": (
        GOOD.replace("episodes = 6", "episods = 6"),
        "line 3: no key of an experiment 'episods'. Did you mean",
    ),
    "words for episodes": (
        GOOD.replace("episodes = 6", 'episodes = "6"'),
        "line 3: episodes is '6'; write a whole number",
    ),
    "half a seed": (GOOD.replace("seeds = [3, 5]", "seeds = [3, 5.5]"), "line 4: seeds is 5.5"),
    "unknown agent": (GOOD.replace('"lsvi"', '"lsvi-a"'), "no agent 'lsvi-a'. Did you mean"),
    "unknown problem": (GOOD.replace('"bandit"', '"bandid"'), "no problem"),
    "unknown parameter": (GOOD.replace("arms", "armz"), "line 14: no parameter of bandit 'armz'. Did you mean arms"),
    "bad horizon": (GOOD.replace("horizon = 8", "horizon = 0"), "line 8: horizon is 0"),
    "unknown setting": (
        GOOD.replace("lam = 0.5", "lamb = 0.5"),
        "line 17: [settings] has lamb: no setting 'lamb'. Did you mean lam",
    ),
    "setting that no agent has": (
        GOOD.replace("lam = 0.5", "kappa = 0.5"),
        "line 17: [settings] has kappa: lsvi-ae, lsvi have no setting kappa",
    ),
    "bad setting": (GOOD.replace('"sqrt"', '"k2"'), "setting floor of lsvi-ae is 'k2'"),
    "a grid of one": (GOOD.replace("[0.1, 0.3]", "0.1"), "line 22: grid of beta is 0.1; write a list"),
    "settings that are no table": (GOOD.replace('{ floor = "sqrt" }', "3"), "settings is 3; write a table"),
    "no agents": ('out = "x"\nproblems = ["bandit"]', "agents is empty"),
    "no problems": ('out = "x"\nagents = ["lsvi"]', "problems is empty"),
    "no out": ('problems = ["bandit"]\nagents = ["lsvi"]', "has no out"),
    "a problem twice": ('out = "x"\nproblems = ["bandit", "bandit"]\nagents = ["lsvi"]', "is given twice"),
    "an agent twice": ('out = "x"\nproblems = ["bandit"]\nagents = ["lsvi", "lsvi"]', "agent 'lsvi' is given twice"),
    "a name instead of a list": (
        'out = "x"\nproblems = "bandit"\nagents = ["lsvi"]',
        "line 2: problems is 'bandit'",
    ),
    "a number for an agent": ('out = "x"\nproblems = ["bandit"]\nagents = [3]', "agents has 3; write names in quotes"),
    "a key that is there twice": (
        GOOD.replace("episodes = 4", "episodes = 0"),
        "line 13: episodes is 0; give a whole number",
    ),
    "a range without an end": (GOOD.replace("seeds = [3, 5]", 'seeds = "3:"'), "line 4: seeds is '3:'"),
    "a seed twice": (GOOD.replace("seeds = [3, 5]", "seeds = [3, 3]"), "give at least one seed, and each once"),
    "a setting in the grid as well": (
        GOOD.replace('floor = "sqrt"', "beta = 1.0"),
        "beta is in settings and in grid of lsvi-ae",
    ),
    "a bad parameter": (GOOD.replace("arms = 3", "arms = 0"), "line 14: problem bandit: arms is 0"),
    "a folder's name that cannot be": (GOOD.replace("one step", "one\\u0000step"), "use printable characters only"),
    "a folder's name that is too long": (GOOD.replace("one step", "x" * 300), "of at most 100 characters"),
    "a folder outside": (
        GOOD.replace('"one step"', '"../up"'),
        "write a valid folder name",
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_its_key_and_remedy_and_nothing_is_written(case, desk, capsys):
    text, message = WRONG[case]
    assert main.main(["run", str(written(desk, text))]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert not list(Path().iterdir())


def test_a_setting_by_flag_that_no_agent_has_is_said(desk):
    with pytest.raises(es.EverystepError, match=r"'kappa=1': .* no setting kappa"):
        config.read(written(desk, GOOD), options.RunOptions(settings=[options.SettingFlag.parse("kappa=1")]))


def test_a_flag_for_an_agent_that_is_not_there_is_said_as_it_was_given(desk):
    with pytest.raises(es.EverystepError, match=r"'rpol\.beta=1': .*lsvi-ae, lsvi"):
        config.read(written(desk, GOOD), options.RunOptions(settings=[options.SettingFlag.parse("rpol.beta=1")]))


def test_seeds_by_flag_replace_those_of_the_file(desk):
    plan = config.read(written(desk, GOOD), options.RunOptions(seeds="7:9"))
    assert [run.spec["seeds"] for run in plan.runs.values()] == [[7, 8], [7, 8]]


@pytest.mark.quick
def test_seeds_are_a_number_a_range_or_a_list():
    for given in (3, "3", np.int64(3), range(3), "0:3", "0,1,2", [0, 1, 2], (0, 1, 2), iter([0, 1, 2])):
        assert list(options.seed_list("seeds", given)) == [0, 1, 2]
    assert len(options.seed_list("seeds", 2**40)) == 2**40  # no list is made
    for given in (
        0,
        -1,
        2.5,
        True,
        None,
        "a",
        "1:",
        ":3",
        "1:2:3",
        "3:1",
        [],
        [1, 1],
        [0, -1],
        range(-1, 2),
        "1,,2",
        {},
    ):
        with pytest.raises(es.EverystepError, match=r"^seeds is"):
            options.seed_list("seeds", given)
    with pytest.raises(es.EverystepError, match="from 0 to 4"):
        options.seed_list("seeds", "3:6", 4)


def test_flags_alone_are_the_experiment_that_a_file_with_the_same_values_is(desk):
    flags = options.RunOptions(
        problem=str(desk / "pond.txt"), agents=["lsvi-ae", "lsvi"], episodes=6, seeds=2, horizon=8, out="out",
        settings=[options.SettingFlag.parse(text) for text in ("lam=0.5", "lsvi-ae.floor=sqrt")],
    )  # fmt: skip
    alone = config.read(None, flags)
    text = """
out = "out"
episodes = 6
seeds = 2
problems = [{ name = "pond.txt", horizon = 8 }]
agents = [{ name = "lsvi-ae", settings = { floor = "sqrt" } }, "lsvi"]
settings = { lam = 0.5 }
"""
    file = config.read(written(desk, text))
    assert (list(alone.runs), list(file.runs)) == ([""], ["pond"])
    assert alone.runs[""].spec == file.runs["pond"].spec
    assert list(alone.folders()) == [Path("out")]


def test_a_dry_run_refuses_what_a_run_would_refuse(desk, capsys):
    Path("out/one step").mkdir(parents=True)
    Path("out/one step/letter.txt").write_text("dear", encoding="utf-8")
    assert main.main(["run", str(written(desk, GOOD)), "--dry-run"]) == 2
    assert "'out/one step' holds other files" in capsys.readouterr().err
