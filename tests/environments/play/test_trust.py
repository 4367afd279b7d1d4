"""What a folder may do: nothing that it names is imported unless this user named it, and nothing inside it ever."""

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import everystep as es
from everystep import files
from everystep.cli.main import main
from everystep.environments.play import trust
from everystep.reports.training import results as training_results
from everystep.training.seeds import run as training_seeds
from everystep.training.seeds.request import TrainingRequest

gymnasium = pytest.importorskip("gymnasium")

HONEST = """
import gymnasium

def lake():
    return gymnasium.make("FrozenLake-v1", max_episode_steps=4)

def fell(obs, action, obs_next, info):
    return 1.0 if obs_next in (5, 7, 11, 12) else -1.0

def never(obs, action, obs_next, info):
    return -1.0
"""
PLANTED = "import os\nwith open(os.environ['PLANTED_MARK'], 'a') as mark:\n    mark.write(__name__)\n" + HONEST
ARGUMENTS = [
    "--env",
    "honest_for_test:lake",
    "--constraint",
    "honest_for_test:fell",
    "--agent",
    "lsvi-ae",
    "--episodes",
    "3",
    "--seeds",
    "2",
]
READING = ("report", "summary", "figures", "compare", "certify", "theory")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder of two seeds that this user trained, beside its module."""
    place = tmp_path_factory.mktemp("trained")
    (place / "honest_for_test.py").write_text(HONEST)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", *ARGUMENTS, "--evaluate", "2", "--jobs", "1", "--out", "mine"]) == 0
    return place


@pytest.fixture
def home(trained, tmp_path, monkeypatch):
    """A copy of it, and a mark that planted modules write to; modules imported by a test are forgotten."""
    shutil.copytree(trained, tmp_path / "home", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "home")
    monkeypatch.setenv("PLANTED_MARK", str(tmp_path / "mark"))
    before = set(sys.modules)
    sys.modules.pop("honest_for_test", None)
    yield tmp_path / "home"
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("honest_for_test", "planted_for_test", "mine", "home"):
            del sys.modules[name]
    sys.modules.pop("honest_for_test", None)


def seal_again(folder):
    """As a thorough forger would: every record lists the files as they are now."""
    for record in folder.rglob(files.RECORD):
        record.unlink()
        found = [path for path in record.parent.iterdir() if path.is_file()]
        record.write_text("".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()}  {each.name}\n" for each in found))


def forge(folder, **names):
    """Put other names into a request; its signature stays, its checksum is computed again."""
    content = json.loads((folder / "training.json").read_text())
    content["request"] |= names
    (folder / "training.json").write_text(json.dumps(content))
    seal_again(folder)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def convert(folder, out):
    return ["leaderboard", "--convert", folder, "--system", "s", "--problem", "p", "--out", out]


# --- imports ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["inside", "beside", "above", "namespace", "an id"])
def test_a_module_that_a_folder_names_is_imported_by_no_command(home, where, tmp_path, monkeypatch, capsys, sketched):
    module = "planted_for_test"
    place = {"inside": home / "mine", "namespace": home / "mine", "above": tmp_path}.get(where, home)
    (place / f"{module}.py").write_text(PLANTED)
    name = f"mine.{module}" if where == "namespace" else module
    folder = "."
    if where in ("inside", "above"):
        monkeypatch.chdir(home / "mine" if where == "inside" else tmp_path)
        folder = "." if where == "inside" else "home/mine"
    else:
        folder = "mine"
    env = f"{name}:Planted-v0" if where == "an id" else f"{name}:lake"
    forge(home / "mine", env=env, constraint=f"{name}:fell", on_episode=f"{name}:lake", episodes=4)
    (home / "mine" / "evaluation.json").unlink()
    seal_again(home / "mine")
    for command in READING:
        assert main([command, folder]) == (2 if command in ("certify", "theory") else 0), command
    told = capsys.readouterr().out
    assert "--trust" in told  # where a command would import it, the page and the table say so
    assert main(convert(folder, str(tmp_path / "rows.parquet"))) == 2  # it is unfinished
    for command in ("evaluate", "resume"):
        capsys.readouterr()
        assert main([command, folder]) == 2
        told = capsys.readouterr().err
        assert f"names the module {name}" in told
        assert "--trust" in told
        assert f"--constraint {name}:fell" in told
    assert not (tmp_path / "mark").exists()
    if where in ("inside", "namespace"):  # not even for those who trust it, or name it
        for more in (["--trust"], ["--env", env, "--constraint", f"{name}:fell"]):
            assert main(["evaluate", folder, *more]) == 2
            told = capsys.readouterr().err
            assert ("No module named" if where == "inside" else "nothing is imported") in told
        assert main(["resume", folder, "--trust"]) == 2
        assert not (tmp_path / "mark").exists()
    if where == "beside":
        assert main(["evaluate", folder, "--trust", "--episodes", "1"]) == 0
        assert (tmp_path / "mark").read_text() == module


def test_in_a_process_of_its_own_nothing_in_the_current_folder_is_imported(home, tmp_path):
    for name in ("planted_for_test", "pygame", "PIL"):
        (home / "mine" / f"{name}.py").write_text(PLANTED)
    run = [sys.executable, "-m", "everystep.cli", "evaluate", ".", "--env", "FrozenLake-v1", "--constraint"]
    done = subprocess.run(
        [*run, "planted_for_test:never"], cwd=home / "mine", capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "planted_for_test" in done.stderr
    assert not (tmp_path / "mark").exists()


def test_worker_processes_import_nothing_from_the_current_folder(home, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(home))
    with training_seeds._held(home / "mine"):
        training_seeds.begin(home / "mine", replace(training_seeds.read_begun(home / "mine").request, episodes=4))
    for name in ("multiprocessing", "pickle", "struct", "threading"):  # which a new process imports before all else
        (home / "mine" / f"{name}.py").write_text(PLANTED)
    monkeypatch.chdir(home / "mine")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    assert main(["resume", ".", "--jobs", "2"]) == 0
    assert not (tmp_path / "mark").exists()
    assert "PYTHONSAFEPATH" not in os.environ


def test_ones_own_folder_needs_no_flag_and_the_names_again_do_instead_of_trust(home, tmp_path, capsys):
    assert main(["evaluate", "mine", "--episodes", "1"]) == 0
    request = training_seeds.read_begun(home / "mine").request
    assert training_seeds.read_begun(home / "mine").signed
    larger = replace(request, episodes=4)
    with training_seeds._held(home / "mine"):
        assert training_seeds.begin(home / "mine", larger)
    shutil.copytree(home / "mine", home / "theirs")
    assert main(["resume", "mine", "--jobs", "1"]) == 0
    forge(home / "theirs", evaluate=0)  # whatever it is
    assert not training_seeds.read_begun(home / "theirs").signed
    assert main(["resume", "theirs"]) == 2
    assert "was not begun by this user" in capsys.readouterr().err
    assert main(["resume", "theirs", "--env", "other:lake"]) == 2
    assert "--env is 'other:lake'" in capsys.readouterr().err
    assert main(["resume", "theirs", "--jobs", "1", *ARGUMENTS[:4]]) == 0
    for seed in (0, 1):
        learners = [home / name / f"seed-{seed}" / "learner" / "learner.json" for name in ("mine", "theirs")]
        assert learners[0].read_bytes() == learners[1].read_bytes()


@pytest.mark.quick
def test_the_key_is_closed_to_others_and_without_one_nothing_is_signed(tmp_path, monkeypatch):
    monkeypatch.setenv("EVERYSTEP_STATE", str(tmp_path / "state"))
    request = TrainingRequest("CartPole-v1", episodes=5).to_json()
    signature = trust.sign(request)
    assert trust.is_signed(request, signature)
    assert not trust.is_signed(request | {"env": "evil:make"}, signature)
    assert not trust.is_signed(request, None)
    key = tmp_path / "state" / "key"
    assert len(key.read_bytes()) == 32
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert [path.name for path in key.parent.iterdir()] == ["key"]
    key.chmod(0o644)  # others may have read it
    assert not trust.is_signed(request, signature)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EVERYSTEP_STATE", str(tmp_path / "file" / "state"))
    assert trust.sign(request) is None


@pytest.mark.quick
def test_processes_that_begin_together_use_one_key_and_an_empty_file_is_filled(tmp_path, monkeypatch):
    request = TrainingRequest("CartPole-v1", episodes=5).to_json()
    for i in range(20):
        state = tmp_path / f"state-{i}"
        monkeypatch.setenv("EVERYSTEP_STATE", str(state))
        if i % 2:  # a process was killed before it wrote the key
            state.mkdir(mode=0o700)
            (state / "key").touch(mode=0o600)
        with ThreadPoolExecutor(8) as pool:
            signed = list(pool.map(trust.sign, [request] * 8))
        assert len(set(signed)) == 1
        assert trust.is_signed(request, signed[0])


@pytest.mark.quick
@pytest.mark.parametrize("fault", ["shorter", "longer", "a folder", "a link", "others may read it", "others may write"])
def test_what_is_no_key_signs_nothing_and_stays(fault, tmp_path, monkeypatch):
    state = tmp_path / "state"
    monkeypatch.setenv("EVERYSTEP_STATE", str(state))
    request = TrainingRequest("CartPole-v1", episodes=5).to_json()
    signature, key = trust.sign(request), state / "key"
    content = key.read_bytes()
    match fault:
        case "shorter" | "longer":
            key.write_bytes(content[:10] if fault == "shorter" else content + b"x")
        case "a folder":
            key.unlink()
            key.mkdir()
        case "a link":
            key.rename(state / "other")
            key.symlink_to("other")
        case _:
            (key if "read" in fault else state).chmod(0o644 if "read" in fault else 0o777)
    before = key.lstat()
    assert not trust.is_signed(request, signature)
    assert trust.sign(request) is None
    assert (key.lstat().st_mode, key.lstat().st_size) == (before.st_mode, before.st_size)


def test_a_training_without_a_key_works_and_says_what_resume_needs(home, monkeypatch, capsys):
    monkeypatch.setenv("EVERYSTEP_STATE", "nowhere/relative")
    assert main(["train", *ARGUMENTS[:-2], "--evaluate", "0", "--out", "unsigned"]) == 0
    told = capsys.readouterr()
    assert "will need --trust" in told.err
    assert "everystep evaluate unsigned --trust" in told.out


# --- evaluations ------------------------------------------------------------------------------------------------------
def test_an_evaluation_under_another_constraint_is_kept_beside(home, capsys):
    before = contents(home / "mine")
    assert main(["evaluate", "mine", "--constraint", "honest_for_test:never", "--episodes", "3", "--seed", "5"]) == 0
    told = capsys.readouterr().out
    assert "kept beside" in told
    after = contents(home / "mine")
    (new,) = after.keys() - before.keys()
    assert {name for name in before if after[name] != before[name]} == {type(new)(files.RECORD)}
    saved = json.loads((home / "mine" / new).read_text())
    assert (saved["env"], saved["constraint"]) == ("honest_for_test:lake", "honest_for_test:never")
    assert (saved["first_seed"], saved["episodes"]) == (5, 3)
    assert "everystep" in saved["versions"]
    assert main(["summary", "mine"]) == 0
    told = capsys.readouterr().out
    assert "honest_for_test:lake, constraint honest_for_test:fell; episodes of seeds 1000000 to 1000001" in told
    assert "also evaluated: honest_for_test:lake, constraint honest_for_test:never: 3 episodes" in told
    shutil.copy(home / "mine" / new, home / "mine" / "evaluation.json")  # as if it were the training's own
    seal_again(home / "mine")
    assert main(["summary", "mine"]) == 2
    assert "not those of the training" in capsys.readouterr().err


def test_an_evaluation_that_cannot_be_saved_changes_no_card(home, capsys):
    (home / "mine" / "evaluation.json").unlink()
    (home / "mine" / "evaluation.json").mkdir()
    before = contents(home / "mine")
    assert main(["evaluate", "mine", "--episodes", "1"]) == 2
    assert "evaluation.json' is a folder, which is never replaced" in capsys.readouterr().err
    assert contents(home / "mine") == before


def test_summary_recommends_no_command_that_is_refused(home, capsys):
    lake = es.problems.from_map(["SFG", "FHF"], horizon=4)
    es.train(es.gym.make_env(lake), "lsvi-ae", episodes=2, out="single", progress=lambda n: None)
    assert main(["summary", "single"]) == 0
    assert "everystep evaluate single --env E --constraint C" in capsys.readouterr().out


# --- locks ------------------------------------------------------------------------------------------------------------
def test_a_refused_second_writer_changes_not_one_byte(home, capsys):
    before = contents(home / "mine")
    larger = ["train", *ARGUMENTS[:6], "--episodes", "5000", "--seeds", "2", "--out", "mine"]
    with files.held(home / "mine", home / "mine" / ".work" / "pid"):
        for command in (larger, ["evaluate", "mine"], ["evaluate", "mine", "--constraint", "honest_for_test:never"]):
            assert main(command) == 2
            assert "in use by another process" in capsys.readouterr().err
    assert contents(home / "mine") == before


def test_ctrl_c_promises_resume_only_where_something_is_left(home):
    from everystep.cli import train

    assert train._how_to_continue(home / "nowhere") == ""
    assert "the training is finished; `everystep evaluate" in train._how_to_continue(home / "mine")
    with training_seeds._held(home / "mine"):
        training_seeds.begin(home / "mine", replace(training_seeds.read_begun(home / "mine").request, episodes=9))
    assert train._how_to_continue(home / "mine") == f"`everystep resume {home / 'mine'}` continues"


# --- one reader -------------------------------------------------------------------------------------------------------
NAMES = (
    "training.json",
    "evaluation.json",
    "seed-0/spec.json",
    "seed-1/policy/policy.json",
    "seed-0/policy/policy.npz",
)


@pytest.mark.parametrize("name", [*NAMES, "another seed's policy", "no record"])
def test_every_command_refuses_a_file_that_is_not_the_one_that_was_written(home, name, capsys):
    policy = home / "mine" / "seed-0" / "policy"
    if name == "another seed's policy":
        shutil.rmtree(policy)
        shutil.copytree(home / "mine" / "seed-1" / "policy", policy)
    elif name == "no record":
        (home / "mine" / files.RECORD).unlink()
    else:
        with (home / "mine" / name).open("ab") as file:
            file.write(b" ")
    for command in ("summary", "report", "figures", "compare", "evaluate"):
        assert main([command, "mine"]) == 2, command
        told = capsys.readouterr().err
        assert any(words in told for words in ("altered since", "another policy", "list of what was written")), told
    assert main(convert("mine", "rows.parquet")) == 2
    if name == "another seed's policy":
        seal_again(home / "mine")
        assert main(["evaluate", "mine"]) == 2


def test_rows_of_a_whole_folder_are_read(home):
    results = training_results.read(home / "mine")
    assert results.signed
    assert [each.episodes for each in results.seeds] == [3, 3]
    assert np.isfinite(results.seeds[0].columns["return"]).all()
    assert os.path.isabs(trust.state_folder())
