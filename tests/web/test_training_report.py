"""The report of a training: the page in a real browser, compared with the folder and the policy."""

import json
import shutil
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from browser import chromium

import everystep as es
from everystep import files
from everystep.cli.main import main
from everystep.errors import EverystepError
from everystep.experiments import tables
from everystep.reports.training import cost_slice, learnt
from everystep.reports.training import curves as training_curves
from everystep.reports.training import results as training_results
from everystep.training.seeds import filmstrip
from everystep.training.seeds import run as training_seeds
from everystep.web import assets, training_charts, training_report

pytest.importorskip("gymnasium")

NAME = "<i>Spot</i>"
MODULE = """
import gymnasium
import numpy as np

class Spot(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = self.np_random.uniform(-0.5, 0.5, 3)
        return self.x.copy(), {}

    def step(self, action):
        self.x = np.clip(self.x + [0.3 * action, 0, 0] + self.np_random.normal(0, 0.1, 3), -1, 1)
        return self.x.copy(), float(action), False, False, {}

    def render(self):
        return np.full((30, 40, 3), 128 + int(100 * self.x[0]), np.uint8)

Spot.__name__ = "<i>Spot</i>"

def blind():
    env = Spot()
    env.render_mode = None
    return env

def too_far(obs, action, obs_next, info):
    return obs_next[0] - 0.4
"""
EPISODES, LENGTH = 10, 6
ARGUMENTS = [
    "train",
    "--env",
    "spot_for_test:Spot",
    "--constraint",
    "spot_for_test:too_far",
    "--agent",
    "lsvi-ae",
    "--features",
    "fourier(6)",
]
ARGUMENTS += ["--length", str(LENGTH), "--horizon", "4", "--episodes", str(EPISODES), "--seeds", "2", "--evaluate", "2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the environment, and a finished training of two seeds in it with its report."""
    folder = tmp_path_factory.mktemp("training")
    (folder / "spot_for_test.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*ARGUMENTS, "--jobs", "1", "--out", "two"]) == 0
        assert main(["report", "two"]) == 0
        yield folder
    sys.modules.pop("spot_for_test", None)


@pytest.fixture(autouse=True)
def at_home(home, monkeypatch):
    monkeypatch.chdir(home)


def content_of(page):
    return json.loads(page.read_text(encoding="utf-8").split('id="content">')[1].split("</script>")[0])


@pytest.fixture(scope="module")
def content(home):
    return content_of(home / "two" / "report.html")


def floats(text, kind):
    import base64

    return np.frombuffer(base64.b64decode(text), kind)


def column(home, seed, name):
    return pq.read_table(home / "two" / f"seed-{seed}" / "episodes.parquet")[name].to_numpy()


def panel(content, name):
    return next(each for each in content["charts"] if each["name"] == name)


# --- in a browser -----------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def page(home):
    """The page opened from the disk; its errors and network requests are collected in `complaints`."""
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.complaints = []
        page.on("console", lambda line: page.complaints.append(line.text) if line.type != "log" else None)
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        local = ("file:", "data:")
        page.on("request", lambda sent: page.complaints.append(sent.url) if not sent.url.startswith(local) else None)
        page.goto((home / "two" / "report.html").as_uri())
        yield page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_complaint_network_or_overflow(page, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for _ in range(100):
        if page.evaluate("document.querySelectorAll('.js-plotly-plot').length") == 6:
            break
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)
    assert page.evaluate("document.querySelectorAll('.js-plotly-plot .main-svg').length") >= 6
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert page.evaluate("[...document.images].every((each) => each.naturalWidth > 0)")
    assert page.evaluate("document.images.length") > 10
    assert page.inner_text("h1") == NAME
    dark = "rgb(20, 24, 29)"
    assert (page.evaluate("getComputedStyle(document.body).backgroundColor") == dark) == (scheme == "dark")
    kinds = "[...document.querySelector('[data-chart=slice-0]').data].map((each) => each.type)"
    assert page.evaluate(kinds) == ["heatmap", "contour", "scatter"]
    assert page.complaints == []


# --- the numbers ------------------------------------------------------------------------------------------------------
def test_curves_are_those_of_the_rows_over_steps(home, content):
    for name, of in (("violation", "violation"), ("unsafe", "unsafe_steps")):
        chart = panel(content, name)
        curves = []
        for seed in (0, 1):
            ends = np.concatenate([[0], np.cumsum(column(home, seed, "length"))])
            curves.append(np.interp(chart["episodes"], ends, np.concatenate([[0], np.cumsum(column(home, seed, of))])))
        np.testing.assert_allclose(floats(chart["bands"]["lsvi-ae"]["mean"], "<f8"), np.mean(curves, 0), atol=0.02)
        singles = floats(chart["seeds"]["lsvi-ae"], "<f4").reshape(2, -1)
        assert singles[:, -1] == pytest.approx([column(home, seed, of).sum() for seed in (0, 1)], rel=1e-5)
    share = floats(panel(content, "unsafe-share")["bands"]["lsvi-ae"]["mean"], "<f8")
    window = training_curves.window(training_results.read(home / "two"))
    last = [sum(column(home, s, "unsafe_steps")[-window:]) / sum(column(home, s, "length")[-window:]) for s in (0, 1)]
    assert share[-1] == pytest.approx(np.mean(last))
    evaluated = json.loads((home / "two" / "evaluation.json").read_text())["seeds"]
    (reference,) = panel(content, "return")["references"]
    assert reference["value"] == pytest.approx(np.mean([each["return"] for each in evaluated]))


def test_the_cost_model_is_that_of_the_policy(home, content):
    policy = es.Policy.load(home / "two" / "seed-0" / "policy")
    seen = json.loads((home / "two" / "seed-0" / "spec.json").read_text())["found"]["seen"]
    (i, j), n = (int(panel(content, "slice-0")[axis][-2]) for axis in "xy"), cost_slice.POINTS
    for a in (0, 1):
        chart = panel(content, f"slice-{a}")
        labels, lower, upper = (floats(chart[key], "<f4").reshape(n, n) for key in ("labels", "lower", "upper"))
        for row, at in ((0, 0), (5, 40), (24, 24), (48, 3)):
            x = np.array(seen["median"])
            x[i], x[j] = chart["across"][at], chart["up"][row]
            low, high = policy.bounds(x)
            assert labels[row, at] == policy.certify(x)[a]
            assert lower[row, at] == pytest.approx(low[0, a], rel=1e-4, abs=1e-5)
            assert upper[row, at] == pytest.approx(high[0, a], rel=1e-4, abs=1e-5)
    assert 0 in (i, j)  # the constraint depends on this one alone


def test_the_page_names_what_was_trained_and_escapes_it(home):
    text = (home / "two" / "report.html").read_text(encoding="utf-8")
    assert NAME not in text
    assert "&lt;i&gt;Spot&lt;/i&gt;" in text
    for words in ("spot_for_test:too_far", "fourier(6)", "10 episodes of each seed", "0, 1", "tuned, not proved"):
        assert words in text
    found = json.loads((home / "two" / "seed-0" / "spec.json").read_text())["found"]
    for remark in found["remarks"]:
        assert remark[1:60].replace("<", "&lt;").replace(">", "&gt;") in text
    assert f"{found['fit']['error']:.3g}" in text
    total = column(home, 0, "violation").sum()
    assert tables.count_or_number(float(total)) in text
    assert len(text) - len(assets.plotly_script()) < 1.5e6


# --- pictures ---------------------------------------------------------------------------------------------------------
def test_pictures_are_of_the_first_episode_and_of_the_policy(home):
    results = training_results.read(home / "two")
    first, of_policy = training_report.contents(results).films
    assert first.strip.length == of_policy.strip.length == LENGTH
    assert first.strip.violation == pytest.approx(column(home, 0, "violation")[0])
    assert [each.step for each in first.strip.pictures] == list(range(LENGTH + 1))
    assert first.strip.pictures[-1].unsafe == first.strip.unsafe == column(home, 0, "unsafe_steps")[0]
    assert all(each.data.startswith("data:image/jpeg;base64,") for each in of_policy.strip.pictures)
    other = results.seeds[0].columns | {"return": results.seeds[0].columns["return"] + 1}
    with pytest.raises(EverystepError, match="seed 0 has return"):
        filmstrip.first_episode(results.request, 0, other)


def test_an_environment_without_pictures_leaves_a_sentence(home):
    request = replace(training_seeds.read_begun(home / "two").request, env="spot_for_test:blind")
    policy = es.Policy.load(home / "two" / "seed-0" / "policy")
    made = filmstrip.record(request, 0, SimpleNamespace(columns={}, policy=policy))
    assert list(made) == ["pictures/pictures.json"]
    about = json.loads(made["pictures/pictures.json"])
    assert "does not render pictures" in about["first"]["why"]
    assert "does not render pictures" in about["policy"]["why"]


def test_the_report_needs_no_environment_and_pictures_are_checked_before_they_are_decoded(home, tmp_path, monkeypatch):
    shutil.copytree(home / "two", tmp_path / "two")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "spot_for_test")
    assert main(["report", "two"]) == 0
    text = (tmp_path / "two" / "report.html").read_text(encoding="utf-8")
    assert "An episode of the policy, without exploration" in text
    assert text.count("data:image/jpeg;base64,") > 10
    assert "spot_for_test" not in sys.modules
    pictures = tmp_path / "two" / "seed-0" / "pictures"
    about = json.loads((pictures / "pictures.json").read_text())
    for wrong in ({"width": 10**9}, {"step": [0] * 99}, {"height": 31}, {"length": "x"}):
        (pictures / "pictures.json").write_text(json.dumps(about | {"first": about["first"] | wrong}))
        seal_again(pictures)
        with pytest.raises(EverystepError, match="cannot be read"):
            filmstrip.read(tmp_path / "two" / "seed-0", "restore it.")


def seal_again(folder):
    """As a forger would: the record of a folder lists the files as they are now."""
    (folder / files.RECORD).unlink()
    lines = [f"{files.seal(path).sha256}  {path.name}\n" for path in folder.iterdir() if path.is_file()]
    (folder / files.RECORD).write_text("".join(lines))


# --- other folders ----------------------------------------------------------------------------------------------------
def test_an_unfinished_training_says_so_and_shows_its_last_checkpoint(home, monkeypatch, capsys):
    monkeypatch.setattr(training_seeds, "OFTEN", 0.0)
    request = training_seeds.read_begun(home / "two").request

    def stop(message):
        if message.episodes == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training_seeds.train(request, home / "stopped", training_seeds.Means(jobs=1), stop)
    assert main(["report", "stopped"]) == 0
    text = (home / "stopped" / "report.html").read_text(encoding="utf-8")
    assert "Seeds 0, 1 are unfinished" in text
    assert "<code>everystep resume stopped</code>" in text
    assert 'data-chart="slice-0"' in text
    assert "pictures yet" in text
    assert "0 (unfinished)" in text
    assert main(["report", "stopped", "--no-player", "--out", "plain.html"]) == 0
    text = (home / "plain.html").read_text(encoding="utf-8")
    assert "Pictures were left out" in text
    assert 'data-chart="violation"' in text
    capsys.readouterr()
    assert main(["compare", "stopped", "two"]) == 0
    told = capsys.readouterr().out
    assert "stopped (unfinished)" in told
    assert "the numbers of steps differ" in told


@pytest.fixture(scope="module")
def single(home):
    """The folder of es.train(out=...), on a lake, and one of TrainingResult.save."""
    lake = es.problems.from_map(["SFG", "FHF"], horizon=4)
    result = es.train(es.gym.make_env(lake), "lsvi-ae", episodes=5, out=home / "single", progress=lambda n: None)
    result.save(home / "saved")
    return home / "single"


@pytest.mark.parametrize("name", ["single", "saved"])
def test_the_folder_of_one_seed_has_a_report_with_every_state(home, single, name):
    assert main(["report", name]) == 0
    content = content_of(home / name / "report.html")
    policy = es.Policy.load(home / name / "policy")
    for a in range(4):
        chart = panel(content, f"slice-{a}")
        assert floats(chart["labels"], "<f4").tolist() == [policy.certify(x)[a] for x in range(6)]
        assert chart["dots"] == []
    assert panel(content, "violation")["seeds"] == {}
    text = (home / name / "report.html").read_text(encoding="utf-8")
    assert "they are taken when a training of" in text
    assert main(["report", name, "--along", "0,1"]) == 2


def test_altered_and_foreign_folders_are_refused_in_a_sentence(home, tmp_path, capsys):
    for name in ("training.json", "evaluation.json", "seed-0/spec.json", "seed-1/policy/policy.npz"):
        shutil.copytree(home / "two", tmp_path / "two")
        with (tmp_path / "two" / name).open("ab") as file:
            file.write(b" ")
        assert main(["report", str(tmp_path / "two"), "--no-player"]) == 2
        assert "was altered since it was written" in capsys.readouterr().err
        shutil.rmtree(tmp_path / "two")
    spec = json.loads((home / "two" / "seed-0" / "spec.json").read_text())
    wrongs = ({"found": {"remarks": 3}}, {"found": {"fit": {"episodes": "x"}}}, {"settings": 1}, {"found": []})
    for wrong in (*wrongs, {"confidence": 7}, {"versions": {"jax": 3}}):
        shutil.copytree(home / "two" / "seed-0", tmp_path / "one")
        (tmp_path / "one" / "spec.json").write_text(json.dumps(spec | wrong))
        seal_again(tmp_path / "one")
        assert main(["report", str(tmp_path / "one")]) == 2
        assert "spec.json" in capsys.readouterr().err
        shutil.rmtree(tmp_path / "one")
    saved = json.loads((home / "two" / "evaluation.json").read_text())
    saved["seeds"][0]["return"][0] = 1e308  # whose sum would overflow
    shutil.copytree(home / "two", tmp_path / "two")
    (tmp_path / "two" / "evaluation.json").write_text(json.dumps(saved))
    assert main(["report", str(tmp_path / "two")]) == 2
    assert "evaluation.json" in capsys.readouterr().err
    assert main(["report", str(home)]) == 2


@pytest.mark.parametrize("along", ["0", "0,0", "1,3", "a,b", "0,1,2", "-1,0", "0,99999999999999999999"])
def test_coordinates_that_are_none_are_refused(along, capsys):
    assert main(["report", "two", "--no-player", "--out", "x.html", f"--along={along}"]) == 2
    assert "--along is" in capsys.readouterr().err


def test_the_cost_model_is_shown_along_the_coordinates_asked_for(home):
    assert main(["report", "two", "--no-player", "--out", "along.html", "--along", "2,1"]) == 0
    chart = panel(content_of(home / "along.html"), "slice-0")
    assert (chart["x"], chart["y"]) == ("observation[2]", "observation[1]")


def test_trainings_are_compared_within_an_environment_and_constraint(home, single, capsys):
    assert main(["compare", "two", "single", "saved"]) == 0
    told = capsys.readouterr().out
    assert "2 environments or constraints, each with a table of its own" in told
    lines = told.splitlines()
    (row,) = (line for line in lines if line.startswith("two "))
    violations = [column(home, seed, "violation").sum() for seed in (0, 1)]
    assert tables.count_or_number(float(np.mean(violations))) in row
    assert lines.index(row) < next(i for i, line in enumerate(lines) if "read from info" in line)
    for wrong, word in (
        (["two", "two"], "given twice"),
        (["two", "."], "holds no training"),
        (["two", "--agents", "lsvi"], "--agents is for runs"),
    ):
        assert main(["compare", *wrong]) == 2
        assert word in capsys.readouterr().err


# --- parts ------------------------------------------------------------------------------------------------------------
@pytest.mark.quick
def test_modules_of_the_page_neither_import_nor_clash():
    text = assets.one_module(training_report.SCRIPTS)
    tops = [
        line.split("(")[0].split()[1]
        for line in text.splitlines()
        if line.startswith(("function ", "class ", "const "))
    ]
    assert "import {" not in text
    assert len(set(tops)) == len(tops) > 10


def test_an_agent_that_sees_no_costs_has_no_cost_model(home):
    lake = es.problems.from_map(["SFG", "FHF"], horizon=4)
    policy = es.train(es.gym.make_env(lake), "lsvi", episodes=1, progress=lambda n: None).policy
    assert training_charts.model(learnt.Learnt(policy), None).why == "This agent does not estimate costs."
    with pytest.raises(EverystepError, match="does not estimate costs"):
        cost_slice.believed(policy, np.arange(3))
