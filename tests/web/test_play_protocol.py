"""What the playground's server refuses, and its sentences."""

import json
import sys

import pytest

import everystep as es
import everystep.web.playground
from everystep.cli import main
from everystep.errors import EverystepError
from everystep.mdp.arrays import digest
from everystep.web.playground import lakes, protocol, server

pytestmark = pytest.mark.quick

REFUSED = {
    "not JSON": ("{", "the message is not JSON"),
    "a number that is none": ('{"command": "speed", "rate": NaN}', "the message is not JSON"),
    "deeply nested": ('{"command": ' + "[" * 960 + "]" * 960 + "}", "the message opens more than 200 brackets"),
    "bytes": (b"{}", "not a text of at most 16384 bytes"),
    "too long": (json.dumps({"command": "x" * 20_000}), "not a text of at most 16384 bytes"),
    "a list": ("[]", "the message is list; send an object"),
    "no command": ("{}", "no command 'None'"),
    "a strange command": ('{"command": "delete"}', "no command 'delete'"),
    "a field too many": ('{"command": "play", "path": "/etc"}', "no field of the command play called 'path'"),
    "a field missing": ('{"command": "speed"}', "the command speed has no field rate"),
    "too fast": ('{"command": "speed", "rate": 100000}', "rate is '100000'; give a whole number from 1 to 2000"),
    "a speed that is a truth": ('{"command": "speed", "rate": true}', "rate is 'true'; give a whole number"),
}
REFUSED_SETTINGS = {
    "an unknown field": ({"out": "/tmp/x"}, "no field of the settings called 'out'"),
    "a wide map": ({"rows": ["S" + "F" * 19 + "G"]}, "rows has 1 rows of up to 21 cells"),
    "a tall map": ({"rows": ["SG"] * 21}, "a map is at most 20 x 20"),
    "no rows": ({"rows": []}, "rows has 0 rows"),
    "rows of two lengths": ({"rows": ["S", "GFF"]}, "rows have different lengths"),
    "rows that are no texts": ({"rows": [["S", "G"]]}, "give a list of texts"),
    "a strange letter": ({"rows": ["S<G"]}, "rows holds '<'; use the letters S, F, ., H, G, # only"),
    "a long name": ({"name": "x" * 61}, "give 1 to 60 printable characters"),
    "a name with a line end": ({"name": "a\nb"}, "give 1 to 60 printable characters"),
    "a long horizon": ({"horizon": 61}, "horizon is '61'; give a whole number from 1 to 60"),
    "too many episodes": ({"episodes": 10_001}, "give a whole number from 1 to 10000"),
    "half an episode": ({"episodes": 1.5}, "give a whole number from 1 to 10000"),
    "slip above one": ({"slip": 1.5}, "slip is '1.5'; give a number from 0 to 1"),
    "an unknown kind of map": ({"kind": "pond"}, "kind is 'pond'; choose lake or racetrack"),
    "a kind that is a list": ({"kind": ["lake"]}, "kind is '[\"lake\"]'; choose lake or racetrack"),
    "a car too fast": ({"kind": "racetrack", "top_speed": 4}, "top_speed is '4'; give a whole number from 1 to 3"),
    "failure above one": ({"kind": "racetrack", "failure": 2}, "failure is '2'; give a number from 0 to 1"),
    "a negative seed": ({"seed": -1}, "seed is '-1'"),
    "no agents": ({"agents": []}, "give a list of 1 to 4 agents"),
    "an agent twice": ({"agents": ["lsvi", "lsvi"]}, "agents names one agent twice"),
    "an unknown agent": ({"agents": ["../lsvi"]}, "agents holds '../lsvi'; choose from lsvi-ae"),
    "an agent that is a list": ({"agents": [["lsvi"]]}, "agents holds '[\"lsvi\"]'"),
    "a setting that is not on offer": ({"settings": {"features": 1}}, "no field of settings called 'features'"),
    "a custom cost model": ({"settings": {"cost": "gp(rbf(9))"}}, "cost is 'gp(rbf(9))'; choose 'auto'"),
    "a ridge of zero": ({"settings": {"lam": 0}}, "lam is '0'; give a number above 0, or auto"),
    "a width in words": ({"settings": {"beta": "wide"}}, "beta is 'wide'; give a number at least 0, or auto"),
    "a width as a text": ({"settings": {"beta": "0.5"}}, "beta is '0.5'; send a number, not a text"),
    "optimism out of range": ({"settings": {"optimism": 2}}, "give a number at least -1 and at most 1"),
    "a list of safe actions": ({"settings": {"known_safe": [1]}}, "send a number, a text, true or false"),
    "sharing by number": ({"settings": {"share_values": 1}}, "share_values is '1'; send true or false, not a number"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_message_that_is_not_understood_is_refused_in_a_sentence(case):
    text, sentence = REFUSED[case]
    with pytest.raises(EverystepError) as refused:
        protocol.parse_message(text)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("case", REFUSED_SETTINGS)
def test_settings_outside_the_limits_are_refused_in_a_sentence(case):
    settings, sentence = REFUSED_SETTINGS[case]
    with pytest.raises(EverystepError) as refused:
        protocol.parse_message(json.dumps({"command": "start", "settings": settings}))
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


def test_settings_that_are_left_out_are_those_of_the_papers_lake():
    request = protocol.parse_request({"seed": 3, "settings": {"beta": "auto", "share_costs": False}})
    assert request == protocol.DEFAULTS._replace(seed=3, settings={"beta": "auto", "share_costs": False})
    assert (
        lakes.prepare(request).spec["problem"]["digest"] == lakes.prepare(protocol.DEFAULTS).spec["problem"]["digest"]
    )


@pytest.mark.parametrize("name", protocol.playable_agents())
def test_every_agent_on_offer_can_run_on_a_lake_with_every_cost_model(name):
    for model in protocol.COST_MODELS:
        request = protocol.parse_request(
            {"rows": ["SFG", "FHF"], "horizon": 4, "agents": [name], "settings": {"cost": model}}
        )
        assert list(lakes.prepare(request).agents) == [name]


@pytest.mark.parametrize("name", protocol.playable_agents())
def test_agents_on_offer_run_on_a_racetrack_unless_they_need_a_safe_action_in_every_state(name):
    request = protocol.parse_request({"kind": "racetrack", "rows": ["S..G"], "horizon": 4, "agents": [name]})
    assert (request.top_speed, request.failure, request.episodes) == (2, 0, 1000)
    if lakes.required_settings(name):
        with pytest.raises(EverystepError, match=r"it must have g < 0 in every state\.$"):
            lakes.prepare(request)
    else:
        assert lakes.prepare(request).problem.states == 100


def test_a_racetrack_is_painted_with_its_own_letters_and_settings(tmp_path):
    track = {"kind": "racetrack", "rows": ["#S.", ".FG"], "top_speed": 1, "failure": 0.25, "horizon": 5, "name": "mine"}
    problem = lakes.painted(protocol.parse_request(track))
    same = es.problems.racetrack_from(["#S.", ".FG"], top_speed=1, failure=0.25, horizon=5)
    assert (digest(problem), problem.name) == (digest(same), "mine")
    file = tmp_path / "mine.track"
    file.write_text("#S.\n.FG\n", encoding="utf-8")
    usual = lakes.painted(protocol.parse_request(track | {"top_speed": 2, "failure": 0}))
    assert digest(es.problems.load(file, horizon=5)) == digest(usual)  # as the command on the page says
    verdict = lakes.check(protocol.parse_request(track))
    assert verdict["cells"] == []  # at rest a car can always stay where it is
    assert (verdict["scene"]["top_speed"], len(verdict["scene"]["actions"])) == (1, 9)
    verdict = lakes.check(protocol.parse_request(track | {"rows": ["SHG"]}))
    assert verdict["sentence"] == "row 1, column 2 is 'H'. Use S, F or ., G and # only."
    assert lakes.painted(protocol.DEFAULTS_OF["racetrack"]).states == 48 * 25


def test_cells_without_a_safe_action_are_marked_and_remarked():
    verdict = lakes.check(protocol.parse_request({"rows": ["HHFSFHH", "HFFFFFH", "FFFGFFF"]}))
    assert verdict["event"] == "scene"
    assert verdict["cells"] == [0, 6]
    (remark,) = verdict["remarks"]
    assert remark.startswith("2 states have no safe action (such as the cell in row 1, column 1): ")
    assert lakes.check(protocol.parse_request({"rows": ["SFG"]}))["cells"] == []


def test_a_map_without_a_goal_is_explained():
    verdict = lakes.check(protocol.parse_request({"rows": ["SFF"]}))
    assert verdict["event"] == "infeasible"
    assert verdict["sentence"] == "the map has no cell G. Give it a goal."


@pytest.mark.parametrize(
    ("host", "name", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:8765", True),
        ("127.0.0.1", "localhost:8765", True),
        ("127.0.0.1", "[::1]:8765", True),
        ("127.0.0.1", "127.0.0.1:80", False),
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "rebound.example:8765", False),
        ("127.0.0.1", "192.168.0.7:8765", False),
        ("127.0.0.1", "", False),
        ("box.example", "box.example:8765", True),
        ("0.0.0.0", "192.168.0.7:8765", True),
        ("0.0.0.0", "rebound.example:8765", False),
    ],
)
def test_the_server_accepts_its_own_names_only(host, name, accepted):
    assert server.Hosts(host, 8765).accepts(name) is accepted


@pytest.mark.parametrize(("name", "accepted"), [("127.0.0.1", True), ("127.0.0.1:80", True), ("other.example", False)])
def test_at_the_port_that_browsers_leave_out_the_name_alone_is_enough(name, accepted):
    assert server.Hosts("127.0.0.1", 80).accepts(name) is accepted


def test_a_port_that_is_taken_is_left_to_whoever_has_it():
    with server.listening("127.0.0.1", None) as one:
        one.listen()
        with server.listening("127.0.0.1", one.getsockname()[1]) as other:
            assert other.getsockname()[1] != one.getsockname()[1]


def test_without_its_extra_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "everystep.web.playground.server")
    monkeypatch.delattr(everystep.web.playground, "server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main.main(["play"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "everystep: `everystep play` needs the package uvicorn, which is not installed; pip install"
    )


def test_a_port_that_cannot_be_is_refused(capsys):
    assert main.main(["play", "--port", "70000"]) == 2
    assert capsys.readouterr().err == "everystep: port is 70000; give a whole number from 1 to 65535.\n"


def test_a_host_that_does_not_exist_is_refused_in_a_sentence():
    with pytest.raises(EverystepError, match=r"host is 'no\.such\.host\.invalid', which cannot be resolved"):
        server.listening("no.such.host.invalid", None)
