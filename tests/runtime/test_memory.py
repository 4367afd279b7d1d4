"""Sizes before arrays: what is free, who is to blame, and what would fit."""

import math
import tracemalloc

import numpy as np
import pytest

import everystep as es
from everystep.errors import EverystepError
from everystep.runtime import memory

pytestmark = pytest.mark.quick
GB = 10**9


@pytest.fixture
def small_machine(monkeypatch):
    """A machine with 4 GB free."""
    monkeypatch.setattr(memory, "free_memory", lambda: 4.0 * GB)


# --- what is free -----------------------------------------------------------------------------------------------------
def machine(tmp_path, group, available_kb=8_000_000):
    """Folders like /proc and /sys/fs/cgroup."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    groups.mkdir()
    (proc / "meminfo").write_text(f"MemTotal: 9 kB\nMemAvailable:  {available_kb} kB\n", encoding="ascii")
    (proc / "self" / "statm").write_text("1 1 1\n", encoding="ascii")
    (proc / "self" / "cgroup").write_text(group, encoding="ascii")
    return proc, groups


def limit(folder, names, most, used, cached):
    folder.mkdir(parents=True, exist_ok=True)
    for name, number in zip(names, (most, used), strict=True):
        (folder / name).write_text(f"{number}\n", encoding="ascii")
    (folder / "memory.stat").write_text(
        f"anon 5\n{'total_' * (len(names[0]) > 12)}inactive_file {cached}\n", encoding="ascii"
    )


V2 = ("memory.max", "memory.current")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def test_free_memory_is_what_the_system_calls_available(tmp_path):
    assert memory.free_memory(*machine(tmp_path, "0::/\n")) == 8_000_000 * 1024


def test_the_limit_of_a_container_counts_without_files_that_can_be_dropped(tmp_path):
    proc, groups = machine(tmp_path, "0::/mine/inner\n")
    limit(groups / "mine", V2, 3 * GB, 1 * GB, 500)
    limit(groups / "mine" / "inner", V2, "max", 1 * GB, 0)
    assert memory.free_memory(proc, groups) == 2 * GB + 500


def test_the_older_kind_of_control_groups_counts_too(tmp_path):
    proc, groups = machine(tmp_path, "5:cpu:/\n4:memory:/docker/x\n")
    limit(groups / "memory" / "docker" / "x", V1, GB, GB // 4, 100)
    limit(groups / "memory", V1, 2**63 - 1, 7, 0)
    assert memory.free_memory(proc, groups) == 3 * GB // 4 + 100


def test_a_group_that_is_over_its_limit_has_nothing_free(tmp_path):
    proc, groups = machine(tmp_path, "0::/\n")
    limit(groups, V2, GB, 2 * GB, 0)
    assert memory.free_memory(proc, groups) == 0


def test_unreadable_files_of_the_system_are_no_trouble(tmp_path):
    proc, groups = machine(tmp_path, "nonsense\n0::\n")
    limit(groups, V2, "what", "ever", 0)
    (proc / "meminfo").write_text("MemAvailable:\n", encoding="ascii")
    assert memory.free_memory(proc, groups) > 0
    assert memory.free_memory(tmp_path / "none", tmp_path / "none") > 0


def test_a_disk_is_found_by_a_folder_that_does_not_exist_yet(tmp_path):
    assert 0 < memory.free_disk(tmp_path / "a" / "b") < math.inf


# --- who is to blame --------------------------------------------------------------------------------------------------
def refused(sizes, needed, usual=None):
    with pytest.raises(EverystepError) as error:
        memory.check("it", sizes, needed, usual or {}, 4.0 * GB)
    return str(error.value)


def test_what_fits_is_not_refused():
    memory.check("it", {"n": 10}, lambda n: n, {}, 10.0)


def test_the_refusal_says_what_it_would_take_what_is_free_and_what_fits():
    said = refused({"states": 10**6}, lambda states: 8 * states**2)
    assert said == "states is 1000000: it would take 8 TB of memory, and 4 GB are free; give at most 21000."
    memory.check("it", {"states": 21000}, lambda states: 8 * states**2, {}, 4.0 * GB)


def test_the_size_furthest_above_its_usual_value_is_to_blame():
    needed = lambda seeds, episodes: 90 * seeds * episodes
    usual = {"seeds": 32, "episodes": 1000}
    assert refused({"seeds": 10**6, "episodes": 1000}, needed, usual).startswith("seeds is 1000000:")
    assert refused({"seeds": 32, "episodes": 10**7}, needed, usual).startswith("episodes is 10000000:")
    # neither alone suffices: 40 episodes of a million seeds would fit, but that is not what a run is for
    said = refused({"seeds": 10**6, "episodes": 10**8}, needed, usual)
    assert said.startswith("episodes is 100000000: ")
    assert said.endswith("; give smaller values of seeds and episodes.")


def test_numbers_that_no_float_holds_are_refused_as_well():
    said = refused({"n": 10**400}, lambda n: 8.0 * n)
    assert said.startswith("n is about 10^400: it would take more bytes than a number holds")
    assert said.endswith("give at most 450000000.")


# --- problems ---------------------------------------------------------------------------------------------------------
ABSURD = {
    "synthetic": {"states": 10**9},
    "linear": {"states": 10**9},
    "bandit": {"arms": 2 * 10**9},
    "bandit_continuum": {"resolution": 10**6},
    "hard_instance": {"horizon": 10**5},
    "streaming": {"levels": 10**7},
    "robot_map": {"size": 1000},
    "frozen_lake": {"horizon": 10**9},
    "random_lake": {"size": 10**6, "seed": 0},
}


@pytest.mark.parametrize("name", ABSURD)
def test_an_absurd_problem_is_refused_before_any_of_its_arrays_is_made(name, small_machine):
    tracemalloc.start()
    try:
        with pytest.raises(
            EverystepError, match=f"^{next(iter(ABSURD[name]))} is .* are free; give at most [0-9]+\\.$"
        ):
            getattr(es.problems, name)(**ABSURD[name])
        assert tracemalloc.get_traced_memory()[1] < 10**7
    finally:
        tracemalloc.stop()


def test_the_horizon_of_any_problem_is_checked(small_machine):
    arrays = np.ones((1, 1, 1)), np.zeros((1, 1)), np.zeros((1, 1))
    with pytest.raises(EverystepError, match=r"^horizon is 2000000000: .* give at most"):
        es.FiniteCMDP(*arrays, horizon=2 * 10**9)


def test_large_but_possible_problems_are_not_refused(small_machine):
    assert es.problems.linear(states=20_000).states == 20_000  # its one-hot rows once took S x S numbers
    memory.check_horizon(600, 300 * 300)
    memory.check_problem(memory.of_grid, cells=300 * 300)
