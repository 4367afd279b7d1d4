"""What a run takes is estimated before it is run, and refused with the cause where it does not fit."""

import resource
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import everystep as es
from everystep.cli import main
from everystep.errors import EverystepError
from everystep.experiments import estimate, experiment, needs
from everystep.experiments.engines import local
from everystep.experiments.folder import rerun
from everystep.runtime import memory

GB = 10**9
POND = ("SF", "FG")


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    """A machine with 4 GB of memory and 10 GB of disk free."""
    monkeypatch.setattr(memory, "free_memory", lambda: 4.0 * GB)
    monkeypatch.setattr(memory, "free_disk", lambda path: 10.0 * GB)


@pytest.fixture
def pond():
    return es.problems.from_map(POND, horizon=4)


def said_by(capsys, arguments):
    assert main.main([str(each) for each in arguments]) == 2
    return capsys.readouterr().err


@pytest.mark.quick
@pytest.mark.parametrize("dry", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("flags", "cause", "of"),
    [
        (["--episodes", "1e12"], "episodes", "memory"),
        (["--episodes", "1e7"], "episodes", "disk space"),
        (["--seeds", "1e8"], "seeds", "memory"),
        (["--seeds", "1e9"], "seeds", "memory"),
        (["--seeds", "50000"], "seeds", "disk space"),
        (["--horizon", "1e6"], "horizon", "memory"),
        (["--horizon", "1e8"], "horizon", "memory"),
        (["--horizon", "4e5"], "horizon", "memory"),
    ],
)
def test_the_command_refuses_at_once_what_cannot_fit_with_the_cause(tmp_path, capsys, flags, cause, of, dry):
    (tmp_path / "pond.txt").write_text("\n".join(POND), encoding="utf-8")
    tracemalloc.start()
    try:
        given = ["run", "--problem", tmp_path / "pond.txt", "--out", tmp_path / "out", *flags, *dry]
        said = said_by(capsys, given)
        assert tracemalloc.get_traced_memory()[1] < 0.2 * GB
    finally:
        tracemalloc.stop()
    assert said.startswith(f"everystep: {cause} is ")
    assert f" of {of}" in said
    assert " are free; give at most " in said
    assert not (tmp_path / "out").exists()


@pytest.mark.quick
def test_what_the_advice_allows_is_accepted(pond):
    with pytest.raises(EverystepError, match="give at most") as error:
        experiment.prepare(pond, ["lsvi"], 10, 10**7)
    most = int(str(error.value).rpartition(" ")[2].rstrip("."))
    assert most > 1000
    needs.check_counts(1, most, 10, pond)


@pytest.mark.quick
def test_a_grid_is_counted_before_it_is_made(tmp_path, capsys):
    values = [round(0.1 + i / 100, 2) for i in range(60)]
    grid = ", ".join(f"{key} = {values}" for key in ("beta", "lam", "beta_cost", "lam_cost", "floor"))
    text = f'problems = ["bandit"]\n[[agents]]\nname = "lsvi-ae"\ngrid = {{{grid}}}\n'
    (tmp_path / "grid.toml").write_text(text, encoding="utf-8")
    said = said_by(capsys, ["run", tmp_path / "grid.toml", "--out", tmp_path / "out"])
    assert "the number of combinations in the grid of lsvi-ae is 777600000" in said
    assert "give at most" in said


@pytest.mark.quick
def test_a_result_in_memory_is_refused_where_a_folder_would_do(pond):
    prepared = experiment.prepare(pond, ["lsvi-ae", "lsvi"], 1000, 20_000)
    with pytest.raises(EverystepError, match=r"^seeds is 20000: .* 8 GB"):
        prepared.run()
    needs.check_in_folders({Path("out"): prepared})


@pytest.mark.quick
def test_runs_on_the_same_disk_are_added_up(pond):
    prepared = experiment.prepare(pond, ["lsvi-ae"], 1000, 40_000)
    needs.check_in_folders({Path("one"): prepared})
    with pytest.raises(EverystepError, match=r"disk space at 'three'"):
        needs.check_in_folders({Path(name): prepared for name in ("one", "two", "three")})


@pytest.mark.quick
def test_a_model_that_keeps_its_observations_is_refused_by_its_episodes(pond):
    growing = es.agents.lsvi_ae(cost="gp(rbf(1, on=position), points=growing)")
    needs.check_in_folders({Path("out"): experiment.prepare(pond, [growing], 200, 2)})
    with pytest.raises(EverystepError, match=r"^episodes is 100000: "):
        needs.check_in_folders({Path("out"): experiment.prepare(pond, [growing], 100_000, 2)})


@pytest.mark.quick
def test_a_kernel_that_tells_too_many_points_apart_is_refused_before_its_covariance_is_made():
    arms = es.problems.bandit_continuum(resolution=200)  # 40,000 points, whose covariance has 1.6e9 numbers
    with pytest.raises(EverystepError, match=r"is 40000: .* at most 9400"):
        experiment.prepare(arms, [es.agents.lsvi_ae(cost="gp")], 2, 1)


@pytest.mark.quick
def test_the_chunks_of_a_long_run_are_found_without_listing_them():
    assert next(local.chunk_spans(10**9, done=5 * 10**8 + 7)) == (5 * 10**8, 5 * 10**8 + 500)
    assert list(local.chunk_spans(1200)) == [(0, 500), (500, 1000), (1000, 1200)]


def test_a_chunk_in_pieces_gives_the_same_result(pond, monkeypatch):
    agents = ["lsvi-ae", es.agents.lsvi_ae(cost="gp(rbf(1, on=position), points=growing)").called("growing")]
    prepared = experiment.prepare(pond, agents, 40, 2)
    whole = prepared.run()
    monkeypatch.setattr(local, "PIECE", 1e-9)
    steps = []
    pieces = prepared.run(steps.append)
    assert len(steps) > 40
    for label, curves in whole.columns.items():
        for name, curve in curves.items():
            assert (pieces.columns[label][name] == curve).all()


def test_a_piece_is_one_episode_until_its_pace_is_known(pond, monkeypatch):
    """A run can be stopped after a piece; the first one took minutes where episodes are much slower than expected."""
    growing = es.agents.lsvi_ae(cost="gp(rbf(1, on=position), points=growing)")
    monkeypatch.setattr(local, "_pace", {})
    monkeypatch.setattr(local, "FIRST", 1)
    monkeypatch.setattr(local, "CHUNK", 40)
    for agent, episodes, expected in (("lsvi-ae", 40, [1, 40]), ("lsvi-ae", 40, [40]), (growing, 70, [1, 40, 41, 70])):
        prepared = experiment.prepare(pond, [agent], episodes, 1)
        spans = local.chunks(prepared.pairs, np.zeros(1, np.uint32), episodes)
        assert [states[0].done for states, _ in spans] == expected


@pytest.mark.quick
@pytest.mark.parametrize(
    ("seconds", "text"), [(3, "3 s"), (600, "10 min"), (2e4, "5.6 h"), (1e6, "12 days"), (1e9, "32 years")]
)
def test_durations_are_readable_at_any_size(seconds, text):
    assert estimate.duration(seconds) == text


def test_a_limit_on_the_address_space_counts_as_well(tmp_path):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "statm").write_text("100 1 1\n", encoding="ascii")
    limit, most = resource.getrlimit(resource.RLIMIT_AS)
    try:
        resource.setrlimit(resource.RLIMIT_AS, (2**45, most))
        assert list(memory._of_the_process(tmp_path)) == [2**45 - 100 * resource.getpagesize()]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def test_columns_that_do_not_fit_into_memory_are_not_read(tmp_path, monkeypatch, pond):
    result = experiment.prepare(pond, ["lsvi-ae"], 40, 2).run()
    result.save(tmp_path / "run", figures=False)
    monkeypatch.setattr(memory, "free_memory", lambda: 1000.0)
    with pytest.raises(EverystepError, match=r"80 rows, .* `everystep summary "):
        rerun.read(tmp_path / "run")
