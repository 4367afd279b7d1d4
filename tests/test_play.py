"""The playground, as a visitor meets it: the real server, and where there is one a real browser."""

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

from everystep import cli, figures
from everystep.web import protocol, server, sessions

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
    words = f"run --problem {folder / 'lake.txt'} --horizon 5 --agents lsvi-ae,lsvi --seeds 1 --seed0 7"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "write", lambda outcome, folder: [])
        assert cli.main([*words.split(), "--episodes", str(EPISODES), "--out", str(folder / "out")]) == 0
    return by_agent(pq.read_table(folder / "out" / "episodes.parquet"))


def by_agent(table):
    agents = table["agent"].to_numpy()
    names = [name for name in table.column_names if name not in ("problem", "agent", "seed", "episode")]
    return {label: {name: table[name].to_numpy()[agents == label] for name in names} for label in np.unique(agents)}


# --- what is refused --------------------------------------------------------------------------------------------------
def asked(port, path="/", method="GET", body=None, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers, method=method)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read(), refused.headers


def test_the_page_comes_with_a_policy_that_lets_no_foreign_script_in(port):
    status, page, headers = asked(port)
    assert status == 200
    assert b"everystep" in page
    assert not re.search(rb"<script(?![^>]*\bsrc=)", page)
    assert "script-src 'self';" in headers["Content-Security-Policy"]
    assert "default-src 'none'" in headers["Content-Security-Policy"]


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
    assert asked(port, **request_)[0] == status


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
            wire.send('{"do": "pause"}')
        said = [json.loads(wire.recv(timeout=10))["sentence"] for _ in range(protocol.MESSAGES_PER_SECOND + 1)]
        assert said[0] == "nothing was started yet; press run first."
        assert said[-1].startswith("more than 60 messages came in a second")


def test_more_visitors_than_the_server_takes_are_asked_to_come_back(port):
    with contextlib.ExitStack() as visits:
        for _ in range(protocol.VISITORS):
            wire = visits.enter_context(conversation(port))
            assert json.loads(wire.recv(timeout=10))["say"] == "hello"
        late = visits.enter_context(conversation(port))
        assert "try again later" in json.loads(late.recv(timeout=10))["sentence"]


# --- a session --------------------------------------------------------------------------------------------------------
class Wire:
    """A page that takes every frame at once and remembers what it was told."""

    def __init__(self):
        self.said, self.files, self.session = [], [], None

    async def send_text(self, data):
        self.said.append(json.loads(data))
        if self.said[-1]["say"] == "frame":
            await asyncio.sleep(0)
            await self.session.heard(json.dumps({"do": "shown", "frame": self.said[-1]["frame"]}))

    async def send_bytes(self, data):
        self.files.append(data)

    async def until(self, say, count=1):
        while sum(each["say"] == say for each in self.said) < count:
            await asyncio.sleep(0.01)

    def columns(self, run):
        told = [each["agents"] for each in self.said if each["say"] == "frame" and each["run"] == run]
        names = told[0]["lsvi"]["curves"]
        return {
            label: {name: np.concatenate([each[label]["curves"][name] for each in told]) for name in names}
            for label in told[0]
        }


def same(one, other):
    return all(np.array_equal(one[label][name], other[label][name]) for label in one for name in one[label])


def test_a_session_paused_stepped_and_restarted_has_the_numbers_of_the_command(as_run, monkeypatch):
    monkeypatch.setattr(figures, "write", lambda outcome, folder: [])

    async def visit():
        wire, workshop = Wire(), sessions.Workshop()
        wire.session = session = sessions.Session(wire, workshop)
        do = lambda name, **fields: session.heard(json.dumps({"do": name, **fields}))
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
        await wire.until("over")
        while not wire.files:
            await asyncio.sleep(0.01)
        await do("restart")
        await wire.until("over", 2)
        await do("export")
        while len(wire.files) < 2:
            await asyncio.sleep(0.01)
        await session.close()
        workshop.close()
        return wire

    wire = asyncio.run(visit())
    assert [each["say"] for each in wire.said].count("paused") == 2  # said once each, whatever else was asked
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
        session = sessions.Session(wire, sessions.Workshop())
        for name in ("export", "restart", "step", "play"):
            await session.heard(json.dumps({"do": name}))
        return [each["sentence"] for each in wire.said]

    export, *others = asyncio.run(visit())
    assert export == "nothing was run yet; run at least one episode before you export."
    assert set(others) == {"nothing was started yet; press run first."}


def test_a_compilation_nobody_waits_for_is_not_begun(monkeypatch):
    all_asked, go, begun = threading.Event(), threading.Event(), []
    monkeypatch.setattr(sessions, "_shape", lambda prepared, label: all_asked.wait() and label)
    monkeypatch.setattr(sessions, "_compile", lambda prepared, label: (begun.append(label), go.wait()))

    async def visit():
        workshop = sessions.Workshop()
        waiting = [asyncio.create_task(workshop.ready(None, label)) for label in "abcd"]
        waiting.append(asyncio.create_task(workshop.ready(None, "d")))
        await asyncio.sleep(0)
        all_asked.set()  # else the first two might already keep both threads busy
        while len(begun) < 2 or len(workshop._programs) < 4 or workshop._programs["d"].awaited < 2:
            await asyncio.sleep(0.01)
        for task in waiting[:4]:
            task.cancel()
        await asyncio.gather(*waiting[:4], return_exceptions=True)
        go.set()
        await waiting[4]
        workshop.close()
        return set(workshop._programs)

    kept = asyncio.run(visit())
    assert kept == {*begun[:2], "d"}  # two had begun, and somebody waited for d
    assert sorted(begun) == sorted(kept)


def test_a_mistake_of_the_server_is_said_and_does_not_end_the_conversation(monkeypatch, capsys):
    monkeypatch.setattr(sessions.lakes, "examined", lambda wish: 1 / 0)

    async def visit():
        wire = Wire()
        session = sessions.Session(wire, sessions.Workshop())
        await session.heard(json.dumps({"do": "check", "number": 1, "settings": {}}))
        return wire.said

    assert "the server made a mistake (ZeroDivisionError)" in asyncio.run(visit())[0]["sentence"]
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_slow_agent_gets_shorter_stretches_and_a_quick_one_the_speed_asked_for():
    pace = sessions.Pace()
    assert pace.episodes(2000) == 1
    for _ in range(40):
        pace.took(10, 0.001)
    assert pace.episodes(2000) == 100
    assert pace.episodes(1) == 1
    pace.took(10, 1.0)
    assert pace.episodes(2000) == 1


# --- the command ------------------------------------------------------------------------------------------------------
def test_the_command_takes_another_port_if_one_is_taken_and_ends_well_on_control_c():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = ["play", "--no-browser", "--port", str(taken.getsockname()[1])]
        play = subprocess.Popen(
            [sys.executable, "-c", "import sys; from everystep.cli import main; sys.exit(main())", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        line = play.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found, line + play.stderr.read()
        assert asked(int(found[1]))[0] == 200
        play.send_signal(signal.SIGINT)
        out, error = play.communicate(timeout=60)
    assert play.returncode == 0
    assert out == "everystep playground: ended.\n"
    assert error == f"note: port {words[-1]} is taken; this is another.\n"


# --- a real browser ---------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def tab(browser, port):
    """Opens tabs; no page may have said anything on its console."""
    contexts, complaints = [], []

    def opened(wish=None):
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.goto(f"http://127.0.0.1:{port}/{'#' + linked(wish) if wish else ''}")
        page.wait_for_selector("body[data-connected]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def linked(wish):
    """Settings as a link holds them."""
    import base64

    return base64.urlsafe_b64encode(json.dumps(wish).encode()).decode().rstrip("=")


def press(page, cell):
    """Press the middle of a cell of the lake that is painted."""
    page.locator("#editor .cell").nth(cell).click(force=True)


def in_phase(page, phase):
    page.wait_for_selector(f"body[data-phase={phase}]", timeout=90_000)


def at_speed(page, notch):
    """Move the slider."""
    page.evaluate(f"document.getElementById('speed').value = {notch}")
    page.dispatch_event("#speed", "input")


def until(page, expression):
    """Wait for it to be true; the browser itself may not, for the page's policy lets nobody evaluate a text."""
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
    in_phase(page, "over")
    first = numbers(page)
    assert same(first, as_run)
    harm = {label: np.array(columns["violation"]) for label, columns in first.items()}
    assert harm["lsvi-ae"].sum() > 0
    assert harm["lsvi-ae"][EPISODES // 2 :].sum() == 0  # LSVI-AE has stopped
    assert harm["lsvi"][-20:].min() >= 0
    assert harm["lsvi"][EPISODES // 2 :].mean() > 0.5  # LSVI goes on
    shown = page.locator("#lanes .lane").all_inner_texts()
    assert f"{int(harm['lsvi'].sum())}" in shown[1]
    assert "0.00 each" in shown[0]
    page.click("#restart")
    until(page, "everystep.run() === 2")
    in_phase(page, "over")
    assert same(numbers(page), as_run)
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_an_infeasible_map_is_explained_on_the_map_and_a_second_tab_does_not_notice(tab):
    page, other = tab(SETTINGS), tab(SETTINGS | {"seed": 8})
    other.click("#run")
    in_phase(other, "playing")
    for cell in (0, 4, 5):
        press(page, cell)
    page.click("#tools label.S input")
    press(page, 2)
    page.wait_for_selector("#verdict.bad")
    assert "The 2 marked cells have no safe action" in page.inner_text("#verdict")
    assert page.locator("#editor .note").count() == 2
    page.click("#run")
    page.wait_for_selector("#status.bad")
    assert "no safe action" in page.inner_text("#status")
    in_phase(page, "idle")
    in_phase(other, "over")
    assert len(numbers(other)["lsvi"]["value"]) == EPISODES
    assert numbers(page) == {}


def test_a_map_called_script_is_shown_as_text(tab):
    name = "<script>alert(1)</script><img src=x>"
    page = tab(SETTINGS | {"name": name, "episodes": 1})
    until(page, "document.getElementById('name').value.startsWith('<')")
    page.click("#run")
    until(page, "document.getElementById('lanes').children.length === 2")
    in_phase(page, "over")
    assert page.locator("img").count() == 0
    assert page.locator("script:not([src])").count() == 0


def test_settings_are_shared_as_a_link_and_as_a_file(tab, tmp_path):
    given = {"beta": 0.5, "optimism": 0.5, "share_costs": False}
    wish = SETTINGS | {"slip": 0.25, "name": "my lake", "settings": given}
    page = tab(wish)
    until(page, "document.getElementById('name').value === 'my lake'")
    page.click("#copy-link")
    until(page, "location.hash.length > 20")
    with page.expect_download() as saved:
        page.click("#save-file")
    saved.value.save_as(tmp_path / "lake.json")
    assert json.loads((tmp_path / "lake.json").read_text(encoding="utf-8")) == wish
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
    until(page, "document.getElementById('verdict').textContent.includes('Best safe value')")
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
