"""The playground: the real server, and a real browser where there is one."""

import asyncio
import contextlib
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import zipfile

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("uvicorn")

import uvicorn
from browser import chromium
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from everystep.cli import main
from everystep.experiments import figures
from everystep.mdp import planner
from everystep.problems import racetrack_from
from everystep.web.playground import protocol, server, sessions

ROWS = ["SFFG", "FFFF"]
HAZARD = 1  # the cell on the straight way: to go round takes all five steps
PAINTED = ["SHFG", "FFFF"]
EPISODES = 120
SETTINGS = {"rows": PAINTED, "horizon": 5, "agents": ["lsvi-ae", "lsvi"], "episodes": EPISODES, "seed": 7}


@pytest.fixture(scope="module")
def port():
    """The server itself, in a thread."""
    with server.listening("127.0.0.1", None) as ear:
        number = ear.getsockname()[1]
        config = server.configuration(server.application(server.Hosts("127.0.0.1", number), warm=False))
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([ear],))
        thread.start()
        while not running.started:
            time.sleep(0.02)
        yield number
        running.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def as_run(tmp_path_factory):
    """What `everystep run` writes with that map and seed: every column of every agent."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "lake.txt").write_text("\n".join(PAINTED), encoding="utf-8")
    words = f"run --problem {folder / 'lake.txt'} --horizon 5 --agents lsvi-ae,lsvi --seeds 7:8"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "write", lambda outcome, folder: [])
        assert main.main([*words.split(), "--episodes", str(EPISODES), "--out", str(folder / "out")]) == 0
    return by_agent(pq.read_table(folder / "out" / "episodes.parquet"))


def by_agent(table):
    agents = table["agent"].to_numpy()
    names = [name for name in table.column_names if name not in ("problem", "agent", "seed", "episode")]
    return {label: {name: table[name].to_numpy()[agents == label] for name in names} for label in np.unique(agents)}


# --- what is refused --------------------------------------------------------------------------------------------------
def fetch(port, path="/", method="GET", body=None, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


@pytest.mark.quick
def test_the_page_comes_with_a_policy_that_lets_no_foreign_script_in(port):
    status, page, headers = fetch(port)
    assert status == 200
    assert b"everystep" in page
    assert not re.search(rb"<script(?![^>]*\bsrc=)", page)
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]


@pytest.mark.quick
@pytest.mark.parametrize(
    ("status", "request_"),
    [
        (421, {"Host": "rebound.example"}),
        (403, {"Origin": "http://other.example"}),
        (405, {"method": "POST", "body": b"x"}),
        (405, {"method": "DELETE"}),
        (413, {"body": b"x" * 1000, "method": "GET"}),
        (404, {"path": "/../../etc/passwd"}),
        (404, {"path": "/..%2fsessions.py"}),
        (404, {"path": "/static/play.js"}),
    ],
)
def test_what_no_page_of_ours_would_ask_for_is_refused(port, status, request_):
    assert fetch(port, **request_)[0] == status


@pytest.mark.parametrize("origin", [None, "http://other.example", "null"])
def test_a_page_of_another_origin_gets_no_conversation(port, origin):
    with pytest.raises(InvalidStatus), connect(f"ws://127.0.0.1:{port}/learn", origin=origin):
        pass


def conversation(port):
    return connect(f"ws://127.0.0.1:{port}/learn", origin=f"http://127.0.0.1:{port}")


def test_a_message_that_is_too_long_ends_the_conversation(port):
    with conversation(port) as wire:
        wire.recv()
        wire.send("x" * (protocol.MESSAGE_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            wire.recv(timeout=10)
        assert closed.value.rcvd.code == 1009


def test_too_many_messages_in_a_second_end_the_conversation_with_a_sentence(port):
    with conversation(port) as wire:
        wire.recv()
        for _ in range(protocol.MESSAGES_PER_SECOND + 1):
            wire.send('{"command": "pause"}')
        sentences = [json.loads(wire.recv(timeout=10))["sentence"] for _ in range(protocol.MESSAGES_PER_SECOND + 1)]
        assert sentences[0] == "nothing was started yet; press run first."
        assert sentences[-1].startswith("the page sent more than 60 messages in a second")


def test_more_visitors_than_the_server_takes_are_asked_to_come_back(port):
    with contextlib.ExitStack() as visits:
        for _ in range(protocol.VISITORS):
            wire = visits.enter_context(conversation(port))
            assert json.loads(wire.recv(timeout=10))["event"] == "hello"
        late = visits.enter_context(conversation(port))
        assert "try again later" in json.loads(late.recv(timeout=10))["sentence"]


# --- a session --------------------------------------------------------------------------------------------------------
class Wire:
    """A page that receives every frame at once and keeps all messages."""

    def __init__(self):
        self.messages, self.files, self.session = [], [], None

    async def send_text(self, data):
        self.messages.append(json.loads(data))
        if self.messages[-1]["event"] == "frame":
            await asyncio.sleep(0)
            await self.session.receive(json.dumps({"command": "received", "frame": self.messages[-1]["frame"]}))

    async def send_bytes(self, data):
        self.files.append(data)

    async def until(self, event, count=1):
        while sum(each["event"] == event for each in self.messages) < count:
            await asyncio.sleep(0.01)

    def columns(self, run):
        frames = [each["agents"] for each in self.messages if each["event"] == "frame" and each["run"] == run]
        names = frames[0]["lsvi"]["curves"]
        return {
            label: {name: np.concatenate([each[label]["curves"][name] for each in frames]) for name in names}
            for label in frames[0]
        }


def same(one, other):
    return all(np.array_equal(one[label][name], other[label][name]) for label in one for name in one[label])


def test_a_session_paused_stepped_and_restarted_has_the_numbers_of_the_command(as_run, monkeypatch):
    monkeypatch.setattr(figures, "write", lambda outcome, folder: [])

    async def visit():
        wire, workers = Wire(), sessions.SharedWorkers()
        wire.session = session = sessions.Session(wire, workers)
        do = lambda name, **fields: session.receive(json.dumps({"command": name, **fields}))
        await do("speed", rate=2000)
        await do("start", settings=SETTINGS | {"name": "lake"})
        await do("pause")
        await do("step")
        await wire.until("paused")
        await do("step")
        await wire.until("frame", 2)
        await wire.until("paused", 2)
        await do("speed", rate=1000)
        await do("export")
        await do("play")  # while the export is made
        await wire.until("finished")
        while not wire.files:
            await asyncio.sleep(0.01)
        await do("restart")
        await wire.until("finished", 2)
        await do("export")
        while len(wire.files) < 2:
            await asyncio.sleep(0.01)
        await session.close()
        workers.close()
        return wire

    wire = asyncio.run(visit())
    assert [each["event"] for each in wire.messages].count("paused") == 2  # sent once each, whatever else was requested
    first, again = wire.columns(1), wire.columns(2)
    assert set(first["lsvi"]) == set(sessions.CURVES)
    assert len(first["lsvi"]["value"]) == EPISODES
    assert same(first, as_run)
    assert same(again, as_run)
    for zipped, episodes in zip(wire.files, (2, EPISODES), strict=True):
        with zipfile.ZipFile(io.BytesIO(zipped)) as folder:
            names = {name.removeprefix("everystep-run/") for name in folder.namelist()}
            table = pq.read_table(io.BytesIO(folder.read("everystep-run/episodes.parquet")))
            spec = json.loads(folder.read("everystep-run/spec.json"))
            visits = np.load(io.BytesIO(folder.read("everystep-run/visits.npz")))
        assert {"episodes.parquet", "spec.json", "summary.json", "problem.npz", "visits.npz", "map.txt"} <= names
        so_far = {label: {name: each[:episodes] for name, each in rows.items()} for label, rows in as_run.items()}
        assert same(so_far, by_agent(table))
        assert {visits[name].sum() for name in visits.files if name.endswith("_end")} == {5 * episodes}
        assert (spec["episodes"], spec["seeds"], spec["problem"]["name"]) == (episodes, [7], "lake")


def test_nothing_is_exported_before_something_was_run_or_while_it_runs():
    async def visit():
        wire = Wire()
        session = sessions.Session(wire, sessions.SharedWorkers())
        for name in ("export", "restart", "step", "play"):
            await session.receive(json.dumps({"command": name}))
        return [each["sentence"] for each in wire.messages]

    export, *others = asyncio.run(visit())
    assert export == "nothing was run yet; run at least one episode before you export."
    assert set(others) == {"nothing was started yet; press run first."}


def test_a_compilation_without_waiting_sessions_is_not_started(monkeypatch):
    all_asked, go, begun = threading.Event(), threading.Event(), []
    monkeypatch.setattr(sessions, "_program_structure", lambda prepared, label: all_asked.wait() and label)
    monkeypatch.setattr(sessions, "_compile", lambda prepared, label: (begun.append(label), go.wait()))

    async def visit():
        workers = sessions.SharedWorkers()
        waiting = [asyncio.create_task(workers.ensure_compiled(None, label)) for label in "abcd"]
        waiting.append(asyncio.create_task(workers.ensure_compiled(None, "d")))
        await asyncio.sleep(0)
        all_asked.set()  # otherwise the first two might keep both threads busy already
        while len(begun) < 2 or len(workers._programs) < 4 or workers._programs["d"].waiting < 2:
            await asyncio.sleep(0.01)
        for task in waiting[:4]:
            task.cancel()
        await asyncio.gather(*waiting[:4], return_exceptions=True)
        go.set()
        await waiting[4]
        workers.close()
        return set(workers._programs)

    kept = asyncio.run(visit())
    assert kept == {*begun[:2], "d"}  # two had started, and a session waited for d
    assert sorted(begun) == sorted(kept)


def test_an_error_of_the_server_is_reported_and_does_not_end_the_session(monkeypatch, capsys):
    monkeypatch.setattr(sessions.lakes, "check", lambda request: 1 / 0)

    async def visit():
        wire = Wire()
        session = sessions.Session(wire, sessions.SharedWorkers())
        await session.receive(json.dumps({"command": "check", "number": 1, "settings": {}}))
        return wire.messages

    assert "the server failed (ZeroDivisionError)" in asyncio.run(visit())[0]["sentence"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_slow_agent_gets_shorter_stretches_and_a_quick_one_the_speed_asked_for():
    pace = sessions.Pace()
    assert pace.episodes(2000) == 1
    for _ in range(40):
        pace.record(10, 0.001)
    assert pace.episodes(2000) == 100
    assert pace.episodes(1) == 1
    pace.record(10, 1.0)
    assert pace.episodes(2000) == 1


# --- the command ------------------------------------------------------------------------------------------------------
def test_the_command_takes_another_port_if_one_is_taken_and_ends_well_on_control_c():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = ["play", "--no-browser", "--port", str(taken.getsockname()[1])]
        play = subprocess.Popen(
            [sys.executable, "-c", "import sys; from everystep.cli.main import main; sys.exit(main())", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        line = play.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line + play.stderr.read()
        assert fetch(int(found[1]))[0] == 200
        play.send_signal(signal.SIGINT)
        out, error = play.communicate(timeout=60)
    assert play.returncode == 0
    assert out == "everystep playground: stopped.\n"
    assert error == f"note: port {words[-1]} is taken; another one was chosen.\n"


# --- a real browser ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def tab(browser, port):
    """Opens tabs; no page may write to its console."""
    contexts, complaints = [], []

    def opened(request=None):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(f"http://127.0.0.1:{port}/{'#' + linked(request) if request else ''}")
        page.wait_for_selector("body[data-connected]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def linked(request):
    """Settings as a link holds them."""
    import base64

    return base64.urlsafe_b64encode(json.dumps(request).encode()).decode().rstrip("=")


def press(page, cell):
    """Press the middle of a cell in the editor, where it is now: a verdict of the server draws the map again."""
    x, y = page.evaluate(
        """(cell) => {
            const box = document.querySelectorAll("#editor .cell")[cell].getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        }""",
        cell,
    )
    page.mouse.click(x, y)


def in_phase(page, phase):
    page.wait_for_selector(f"body[data-phase={phase}]", timeout=90_000)


def at_speed(page, notch):
    """Move the slider."""
    page.evaluate(f"document.getElementById('speed').value = {notch}")
    page.dispatch_event("#speed", "input")


def until(page, expression):
    """Wait for it to be true by polling: the page's policy forbids the evaluation of texts."""
    late = time.monotonic() + 90
    while not page.evaluate(expression):
        assert time.monotonic() < late, expression
        page.wait_for_timeout(30)


def numbers(page):
    return page.evaluate("everystep.numbers()")


def test_paint_a_hazard_run_pause_and_run_again(tab, as_run):
    page = tab(SETTINGS | {"rows": ROWS})
    until(page, "document.querySelectorAll('#editor .cell').length === 8")
    press(page, HAZARD)
    until(page, "document.querySelectorAll('#editor .hazard').length === 1")
    assert "SHFG" in page.text_content("#command")
    at_speed(page, 3)
    page.click("#run")
    in_phase(page, "playing")
    page.click("#pause")
    in_phase(page, "paused")
    done = len(numbers(page)["lsvi"]["value"])
    assert 0 < done < EPISODES
    page.wait_for_timeout(200)
    assert len(numbers(page)["lsvi"]["value"]) == done  # a pause is one
    page.click("#step")
    until(page, f"everystep.numbers().lsvi.value.length === {done + 1}")
    in_phase(page, "paused")
    at_speed(page, 10)
    page.click("#pause")
    in_phase(page, "finished")
    first = numbers(page)
    assert same(first, as_run)
    violations = {label: np.array(columns["violation"]) for label, columns in first.items()}
    assert violations["lsvi-ae"].sum() > 0
    assert violations["lsvi-ae"][EPISODES // 2 :].sum() == 0  # LSVI-AE has stopped
    assert violations["lsvi"][-20:].min() >= 0
    assert violations["lsvi"][EPISODES // 2 :].mean() > 0.5  # LSVI does not stop
    shown = page.locator("#lanes .lane").all_inner_texts()
    assert f"{int(violations['lsvi'].sum())}" in shown[1]
    assert "violations per episode\n0.00\n" in shown[0]
    page.click("#restart")
    until(page, "everystep.run() === 2")
    in_phase(page, "finished")
    assert same(numbers(page), as_run)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_dead_ends_are_marked_on_the_map_and_a_map_that_cannot_run_does_not_disturb_a_second_tab(tab):
    page, other = tab(SETTINGS), tab(SETTINGS | {"seed": 8})
    other.click("#run")
    in_phase(other, "playing")
    for cell in (0, 4, 5):
        press(page, cell)
    page.click("#tools label.S input")
    press(page, 2)
    until(page, "document.getElementById('verdict').textContent.includes('2 states have no safe action')")
    assert page.locator("#verdict.bad").count() == 0
    assert page.locator("#editor .note").count() == 2
    page.click("#tools label.H input")
    press(page, 3)  # the goal
    until(page, "document.getElementById('verdict').textContent.includes('the map has no cell G')")
    assert page.locator("#verdict.bad").count() == 1
    assert page.locator("#editor .note").count() == 0
    page.click("#run")
    page.wait_for_selector("#status.bad")
    assert "no cell G" in page.inner_text("#status")
    in_phase(page, "idle")
    in_phase(other, "finished")
    assert len(numbers(other)["lsvi"]["value"]) == EPISODES
    assert numbers(page) == {}


def test_a_map_called_script_is_shown_as_text(tab):
    name = "<script>alert(1)</script><img src=x>"
    page = tab(SETTINGS | {"name": name, "episodes": 1})
    until(page, "document.getElementById('name').value.startsWith('<')")
    page.click("#run")
    until(page, "document.getElementById('lanes').children.length === 2")
    in_phase(page, "finished")
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src])").count() == 0


def test_settings_are_shared_as_a_link_and_as_a_file(tab, tmp_path):
    given = {"beta": 0.5, "optimism": 0.5, "share_costs": False}
    request = SETTINGS | {"slip": 0.25, "name": "my lake", "settings": given}
    page = tab(request)
    until(page, "document.getElementById('name').value === 'my lake'")
    page.click("#copy-link")
    until(page, "location.hash.length > 20")
    with page.expect_download() as saved:
        page.click("#save-file")
    saved.value.save_as(tmp_path / "lake.json")
    unused = {"kind": "lake", "top_speed": 2, "failure": 0}
    assert json.loads((tmp_path / "lake.json").read_text(encoding="utf-8")) == request | unused
    other = tab()
    other.set_input_files("#file", tmp_path / "lake.json")
    until(other, "document.getElementById('name').value === 'my lake'")
    (tmp_path / "strange.json").write_text('{"out": "/"}', encoding="utf-8")
    other.set_input_files("#file", tmp_path / "strange.json")
    other.wait_for_selector("#status.bad")
    assert "no field of the settings called 'out'" in other.inner_text("#status")


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({"name": "x" * 20_000}, "more than 16384 bytes"),
        ({"__proto__": {"x": 1}}, "no field of the settings called '__proto__'"),
    ],
)
def test_a_link_that_holds_no_settings_is_refused_and_the_page_goes_on(tab, held, sentence):
    page = tab(held)
    page.wait_for_selector("#status.bad")
    assert sentence in page.inner_text("#status")
    until(page, "document.getElementById('verdict').textContent.includes('Safe optimum')")
    assert page.evaluate("({}).x === undefined")
    assert page.is_enabled("#run")


def test_the_page_fits_a_phone_and_is_painted_by_keyboard(browser, port):
    context = browser.new_context(viewport={"width": 360, "height": 740}, color_scheme="dark")
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/#{linked(SETTINGS)}")
    until(page, "document.querySelectorAll('#editor .cell').length === 8")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.focus("#editor svg")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('#editor .hazard').length === 2")
    context.close()


def test_paint_a_racetrack_and_run_it(tab):
    track = {
        "kind": "racetrack",
        "rows": ["S...", "...G"],
        "horizon": 5,
        "agents": ["lsvi-ae"],
        "episodes": 30,
        "seed": 7,
    }
    page = tab(track)
    until(page, "document.querySelectorAll('#editor .cell').length === 8")
    assert page.locator("#tools label").all_inner_texts() == ["■\nwall", "□\ntrack", "S\nstart", "G\ngoal"]
    press(page, 2)
    until(page, "document.querySelectorAll('#editor .wall').length === 1")
    assert "--problem map.track --horizon 5" in page.text_content("#command")
    assert "#   S.#.\n#   ...G\n" in page.text_content("#command")
    assert page.is_visible("[name=top_speed]")
    assert not page.is_visible("[name=slip]")
    assert page.is_disabled("[name=agent][value=slucb-qvi]")
    at_speed(page, 10)
    page.click("#run")
    in_phase(page, "finished")
    values = numbers(page)["lsvi-ae"]["value"]
    assert (len(values), values[-1]) == (30, 1)
    assert page.locator("#lanes .path circle").count() == 6  # the plan, after each of five steps
    assert page.locator("#lanes .wall").count() == 1
    dead = ~planner.viable(racetrack_from(["S.#.", "...G"], top_speed=2, horizon=5))
    assert page.locator("#editor .harm").count() == page.locator("#lanes .harm").count() == dead[0].sum() > 0
    assert page.is_visible("#velocity")
    assert not page.is_checked("#show-marks")  # would be drawn over the states that are not viable
    page.select_option("#velocity", label="2 left")
    assert page.locator("#lanes .dead-end").count() == dead[0, 10::25].sum() > 0
    page.focus("#lanes svg")
    page.keyboard.press("ArrowUp")
    assert "velocity 2 left: not viable, least harm-to-go 1.00" in page.text_content("#look")
    assert page.locator("#harm-of-actions tr").count() == 11
    page.check("#kind-lake", force=True)
    until(page, "document.querySelectorAll('#editor .hazard').length > 1")
    assert page.is_visible("[name=slip]")
    page.check("#kind-racetrack", force=True)
    until(page, "document.querySelectorAll('#editor .wall').length === 1")
    assert page.input_value("[name=horizon]") == "5"
