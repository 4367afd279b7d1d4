"""What the playground's server refuses, and in which words."""

import json
import sys

import pytest

import everystep.web
from everystep import cli
from everystep.errors import EverystepError
from everystep.web import lakes, protocol, server

pytestmark = pytest.mark.quick

REFUSED = {
    "not JSON": ("{", "the message is not JSON"),
    "a number that is none": ('{"do": "speed", "rate": NaN}', "the message is not JSON"),
    "deeply nested": ('{"do": ' + "[" * 960 + "]" * 960 + "}", "the message opens more than 200 brackets"),
    "bytes": (b"{}", "not a text of at most 16384 bytes"),
    "too long": (json.dumps({"do": "x" * 20_000}), "not a text of at most 16384 bytes"),
    "a list": ("[]", "the message is list; send an object"),
    "no command": ("{}", "no command 'None'"),
    "a strange command": ('{"do": "delete"}', "no command 'delete'"),
    "a field too many": ('{"do": "play", "path": "/etc"}', "no field of the command play called 'path'"),
    "a field missing": ('{"do": "speed"}', "the command speed has no field rate"),
    "too fast": ('{"do": "speed", "rate": 100000}', "rate is '100000'; give a whole number from 1 to 2000"),
    "a speed that is a truth": ('{"do": "speed", "rate": true}', "rate is 'true'; give a whole number"),
}
UNWISE = {
    "an unknown field": ({"out": "/tmp/x"}, "no field of the settings called 'out'"),
    "a wide map": ({"rows": ["S" + "F" * 19 + "G"]}, "rows has 1 rows of up to 21 cells; a map is at most 20 x 20"),
    "a tall map": ({"rows": ["SG"] * 21}, "a map is at most 20 x 20"),
    "no rows": ({"rows": []}, "rows has 0 rows"),
    "rows of two lengths": ({"rows": ["S", "GFF"]}, "rows are of different lengths"),
    "rows that are no texts": ({"rows": [["S", "G"]]}, "give a list of texts"),
    "a strange letter": ({"rows": ["S<G"]}, "rows holds '<'; use the letters S, F, ., H, G, # only"),
    "a long name": ({"name": "x" * 61}, "give 1 to 60 printable letters"),
    "a name with a line end": ({"name": "a\nb"}, "give 1 to 60 printable letters"),
    "a long horizon": ({"horizon": 61}, "horizon is '61'; give a whole number from 1 to 60"),
    "too many episodes": ({"episodes": 10_001}, "give a whole number from 1 to 10000"),
    "half an episode": ({"episodes": 1.5}, "give a whole number from 1 to 10000"),
    "slip above one": ({"slip": 1.5}, "slip is '1.5'; give a number from 0 to 1"),
    "a negative seed": ({"seed": -1}, "seed is '-1'"),
    "no agents": ({"agents": []}, "give a list of 1 to 4 agents"),
    "an agent twice": ({"agents": ["lsvi", "lsvi"]}, "agents names one twice"),
    "an agent nobody knows": ({"agents": ["../lsvi"]}, "agents holds '../lsvi'; choose from lsvi-ae"),
    "an agent that is a list": ({"agents": [["lsvi"]]}, "agents holds '[\"lsvi\"]'"),
    "a setting nobody offers": ({"settings": {"features": 1}}, "no field of settings called 'features'"),
    "a cost model of one's own": ({"settings": {"cost": "gp(rbf(9))"}}, "cost is 'gp(rbf(9))'; choose 'auto'"),
    "a ridge of zero": ({"settings": {"lam": 0}}, "lam is '0'; give a number from 1e-09 to 1000"),
    "sharing by number": ({"settings": {"share_values": 1}}, "share_values is '1'; choose 'auto', 'true', 'false'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_message_that_is_not_understood_is_refused_in_a_sentence(case):
    text, sentence = REFUSED[case]
    with pytest.raises(EverystepError) as refused:
        protocol.read(text)
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize("case", UNWISE)
def test_settings_outside_the_limits_are_refused_in_a_sentence(case):
    settings, sentence = UNWISE[case]
    with pytest.raises(EverystepError) as refused:
        protocol.read(json.dumps({"do": "start", "settings": settings}))
    assert sentence in str(refused.value)
    assert len(str(refused.value)) < 400


def test_what_is_left_out_of_settings_is_as_on_the_papers_lake():
    wish = protocol.wish({"seed": 3, "settings": {"beta": "auto", "share_costs": False}})
    assert wish == protocol.DEFAULTS._replace(seed=3, settings={"beta": "auto", "share_costs": False})
    assert lakes.prepared(wish).spec["problem"]["digest"] == lakes.prepared(protocol.DEFAULTS).spec["problem"]["digest"]


@pytest.mark.parametrize("name", protocol.AGENT_NAMES)
def test_every_agent_on_offer_can_walk_a_lake_with_every_cost_model(name):
    for model in protocol.COST_MODELS:
        wish = protocol.wish({"rows": ["SFG", "FHF"], "horizon": 4, "agents": [name], "settings": {"cost": model}})
        assert list(lakes.prepared(wish).agents) == [name]


def test_cells_without_a_safe_action_are_named_and_explained():
    said = lakes.examined(protocol.wish({"rows": ["HHFSFHH", "HFFFFFH", "FFFGFFF"]}))
    assert said["say"] == "infeasible"
    assert said["cells"] == [0, 6]
    assert said["sentence"].startswith("The 2 marked cells have no safe action: every move from there aims at a hazard")


def test_a_map_without_a_goal_is_explained_though_no_cell_is_to_blame():
    said = lakes.examined(protocol.wish({"rows": ["SFF"]}))
    assert (said["say"], said["cells"]) == ("infeasible", [])
    assert said["sentence"] == "the map has no cell G. Give it a goal."


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
def test_the_server_goes_by_its_own_names_only(host, name, accepted):
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
    monkeypatch.delitem(sys.modules, "everystep.web.server")
    monkeypatch.delattr(everystep.web, "server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert cli.main(["play"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("everystep: `everystep play` needs the package uvicorn, which is not installed; pip install")


def test_a_port_that_cannot_be_is_refused(capsys):
    assert cli.main(["play", "--port", "70000"]) == 2
    assert capsys.readouterr().err == "everystep: port is 70000; give a whole number from 1 to 65535.\n"


def test_a_host_that_does_not_exist_is_refused_in_a_sentence():
    with pytest.raises(EverystepError, match=r"host is 'no\.such\.host\.invalid', which cannot be found"):
        server.listening("no.such.host.invalid", None)
