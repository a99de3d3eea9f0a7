"""The configuration: what is read, in which order, and how every mistake is told."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from delta_protocol.catalogue.model import Effect, Mode
from delta_protocol.config import EffectRule, OperationConfig
from delta_supervisor.load import ConfigurationError, Flags, Loaded, load
from delta_supervisor.load.load import leaves, printable
from delta_supervisor.load.names import RESERVED, fault_of, identifier
from delta_supervisor.load.shape import dotted


class Place:
    """A home, a workspace and an environment of the test's own."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.workspace = root / "work"
        self.home.mkdir()
        self.workspace.mkdir()
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": str(self.home)}

    def write(self, name: str, text: str) -> Path:
        file = self.home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def toml(self, text: str, *settings: tuple[str, str], **environment: str) -> Loaded:
        return self.load(self.write("delta.toml", f"version = 1\n{text}"), settings=settings, **environment)

    def load(self, *files: Path, settings: tuple[tuple[str, str], ...] = (), **environment: str) -> Loaded:
        flags = Flags(files, self.home / "state", settings)
        return load(flags, {**self.environment, **environment}, self.workspace)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


FULL = f"""
mode = "safe"
[http]
port = 0
hosts = ["delta.local"]
[auth]
require_token = true
[limits]
workers = 2
request_deadline = 5
[limits.program]
cpu = 0.5
[supervision]
max_restarts = 9
[actors.journal]
stop_timeout = 1.5
[connectors.mail]
command = "{sys.executable}"
args = ["-m", "mail"]
mode = "ask"
[connectors.mail.effects]
send = "irreversible"
query = [{{ when = {{ sql = "^select" }}, then = "read" }}]
[connectors.mail.modes]
send = "ask"
[connectors.mail.collections.message]
key = "id"
get = {{ tool = "get_message", key = "id", result = ["items", 0] }}
[connectors.web]
url = "https://example.org/mcp"
"""


def test_a_whole_file_becomes_the_typed_configuration(place: Place) -> None:
    config = place.toml(FULL).config
    assert config.mode is Mode.SAFE
    assert (config.http.port, config.http.hosts) == (0, ("delta.local",))
    assert config.limits.request_deadline == 5.0
    assert config.limits.program.cpu == 0.5
    assert config.limits.program.memory == 64 << 20
    mail = config.connectors["mail"]
    assert mail.effects == {"send": Effect.IRREVERSIBLE, "query": [EffectRule({"sql": "^select"}, Effect.READ)]}
    assert mail.collections["message"].get == OperationConfig("get_message", "id", result=("items", 0))
    assert list(config.connectors) == ["mail", "web"], "in the order of the file"


MISTAKES = [
    ("[htpp]\nport = 1", "htpp", "http"),
    ("[http]\nprot = 1", "http.prot", "port"),
    ('[http]\nport = "x"', "http.port", "int"),
    ("[http]\nport = -1", "http.port", ">= 0"),
    ("http = 3", "http", "table"),
    ("[limits.program]\ncpus = 1", "limits.program.cpus", "cpu"),
    ("[limits]\nworkers = 0", "limits.workers", ">= 1"),
    ("[limits]\nrequest_deadline = -1", "limits.request_deadline", ">= 0"),
    ("[actors.jurnal]\ncredit = 1", "actors.jurnal", "journal"),
    ("[actors.operator]\ncredit = 1", "actors.operator", "no actor"),
    ('[actors.journal]\nplacement = "task"', "actors.journal.placement", "no known key"),
    ("[actors.journal]\nheartbeat = 0", "actors.journal.heartbeat", "> 0"),
    ('mode = "sfae"', "mode", "safe"),
    ('[connectors.a]\ncommand = "x"\nargz = []', "connectors.a.argz", "args"),
    ('[connectors.a]\ncommand = "x"\nargs = "-v"', "connectors.a.args", "list"),
    ('[connectors.a]\ncommand = "x"\ntrust = "annotation-off"', "connectors.a.trust", "annotations-off"),
    ('[connectors.a]\ncommand = "x"\nurl = "http://y"', "connectors.a", "both"),
    ('[connectors.a]\nmode = "ask"', "connectors.a", "needs a `command` or a `url`"),
    ('[connectors.a]\nurl = "http://y"\nargs = ["x"]', "connectors.a.args", "beside `url`"),
    ('[connectors.a]\ncommand = "x"\n[connectors.a.oauth]\nclient_id = "c"', "connectors.a.oauth", "beside `command`"),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\nclientid = "c"',
        "connectors.a.oauth.clientid",
        "client_id",
    ),
    ('[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\nclient_secret = "s"', "connectors.a.oauth", "client_id"),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\ngrant = "client_credentials"',
        "connectors.a.oauth",
        "private_key",
    ),
    (
        '[connectors.a]\nurl = "http://y"\nheaders = {Authorization = "x"}\n[connectors.a.oauth]\nscopes = ["s"]',
        "connectors.a.oauth",
        "headers.Authorization",
    ),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\ngrant = "jwt_bearer"',
        "connectors.a.oauth",
        "assertion_file",
    ),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\ngrant = "jwt_bearer"\nassertion_file = "x"',
        "connectors.a.oauth",
        "client_id",
    ),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\nidp_client_id = "x"',
        "connectors.a.oauth",
        "go together",
    ),
    (
        '[connectors.a]\nurl = "http://y"\n[connectors.a.oauth]\nidp_client_id = "x"\nidp_token_endpoint = "https://i"',
        "connectors.a.oauth",
        "jwt_bearer",
    ),
    ('[connectors.get-it]\ncommand = "x"', "connectors.get-it", "get_it"),
    ('[connectors.class]\ncommand = "x"', "connectors.class", "class_server"),
    ('[connectors.journal]\ncommand = "x"', "connectors.journal", "reserved"),
    ('[connectors.a]\ncommand = "x"\nfault = "no"', "connectors.a.fault", "no known key"),
    ('[connectors.a]\ncommand = "x"\n[connectors.a.effects]\nsend = "wirte"', "connectors.a.effects.send", "write"),
    (
        '[connectors.a]\ncommand = "x"\n[connectors.a.collections.t]\nget = { tol = "g" }',
        "connectors.a.collections.t.get.tol",
        "tool",
    ),
]


@pytest.mark.parametrize(("text", "path", "words"), MISTAKES)
def test_a_mistake_is_told_with_its_path_and_the_way_out(place: Place, text: str, path: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        place.toml(text)
    assert f"`{path}`" in caught.value.message
    assert words in caught.value.message
    assert "delta.toml" in caught.value.message


def test_a_file_without_a_version_or_of_a_newer_one_is_refused(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="version = 1"):
        place.load(place.write("a.toml", "[http]\nport = 1\n"))
    with pytest.raises(ConfigurationError, match="reads 1"):
        place.load(place.write("b.toml", "version = 2\n"))


def test_every_value_can_be_shown_by_name(place: Place) -> None:
    loaded = place.toml("[actors.journal]\nstop_timeout = 1.5")
    shown = {dotted(keys): value for keys, value in leaves(printable(loaded.config))}
    assert shown["limits.program.cpu"] == 2.0
    assert (shown["actors.journal.stop_timeout"], shown["actors.results.stop_timeout"]) == (1.5, 5.0)
    assert loaded.origin(("actors", "journal", "stop_timeout")).endswith("delta.toml")
    assert loaded.origin(("actors", "results", "stop_timeout")) == "default"


def test_broken_toml_says_where(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="line 2"):
        place.toml("[http\n")


def test_a_named_file_that_is_missing_is_an_error(place: Place) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml"):
        place.load(place.home / "nowhere.toml")


def test_flags_go_before_the_environment_before_the_file_before_defaults(place: Place) -> None:
    text = "[http]\nport = 1\nhost = '127.0.0.2'\n[limits]\nworkers = 3"
    loaded = place.toml(text, ("http.port", "3"), DELTA_HTTP_PORT="2", DELTA_HTTP_HOST="127.0.0.3")
    assert (loaded.config.http.port, loaded.config.http.host, loaded.config.limits.workers) == (3, "127.0.0.3", 3)
    assert loaded.origin(("http", "port")) == "--port"
    assert loaded.origin(("http", "host")) == "DELTA_HTTP_HOST"
    assert loaded.origin(("limits", "workers")).endswith("delta.toml")
    assert loaded.origin(("limits", "idle")) == "default"


def test_the_environment_reaches_nested_values_and_lists(place: Place) -> None:
    loaded = place.load(DELTA_LIMITS_PROGRAM_CPU="0.25", DELTA_HTTP_ORIGINS="https://a, https://b", DELTA_MODE="read")
    assert loaded.config.limits.program.cpu == 0.25
    assert loaded.config.http.origins == ("https://a", "https://b")
    assert loaded.config.mode is Mode.READ


def test_an_unknown_variable_of_a_section_is_told_and_others_are_left_alone(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="DELTA_HTTP_PORT"):
        place.load(DELTA_HTTP_PROT="1")
    assert place.load(DELTA_SOMETHING="1").config.http.port == 8420


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("${HERE}/x", "here/x"),
        ("${env:HERE}", "here"),
        ("${GONE:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${GONE:-}", ""),
        ("${workspaceFolder}/x", "WORK/x"),
        ("${userHome}/x", "HOME/x"),
        ("~/x", "HOME/x"),
        ("a~/x", "a~/x"),
        ("$${HERE}", "${HERE}"),
        ("$HERE", "$HERE"),
        ("plain", "plain"),
    ],
)
def test_variables_are_expanded(place: Place, text: str, result: str) -> None:  # acceptance 40
    quoted = json.dumps(text)
    loaded = place.toml(
        f'[connectors.a]\ncommand = "{sys.executable}"\nargs = [{quoted}]\nenv = {{ K = {quoted} }}',
        HERE="here",
        EMPTY="",
    )
    expected = result.replace("WORK", str(place.workspace)).replace("HOME", str(place.home))
    assert loaded.config.connectors["a"].args == (expected,)
    assert loaded.config.connectors["a"].env == {"K": expected}


FAULTS = [
    ('command = "python3"\nargs = ["${GONE}"]', ["connectors.a.args[0]", "GONE"]),
    ('command = "python3"\nenv = { KEY = "${env:GONE}" }', ["connectors.a.env.KEY", "GONE"]),
    ('command = "python3"\nenv = { KEY = "env:GONE" }', ["connectors.a.env.KEY", "GONE"]),
    ('command = "python3"\nenv = { KEY = "file:gone.txt" }', ["connectors.a.env.KEY", "gone.txt"]),
    ('url = "https://${GONE}/mcp"', ["connectors.a.url", "GONE"]),
    ('url = "https://x/mcp"\nheaders = { Authorization = "Bearer ${GONE}" }', ["headers.Authorization", "GONE"]),
    (
        'url = "https://x/mcp"\noauth = { client_id = "c", client_secret = "env:GONE" }',
        ["a.oauth.client_secret", "GONE"],
    ),
    ('url = "https://x/mcp"\noauth = { issuer = "https://${GONE}" }', ["a.oauth.issuer", "GONE"]),
    ('command = "pythom3"', ["connectors.a.command", "pythom3", "python3"]),
    ('command = "/nowhere/prog"', ["connectors.a.command", "/nowhere/prog"]),
    ('command = "python3"\ncwd = "nowhere"', ["connectors.a.cwd", "nowhere"]),
    ('command = "python3"\nargs = ["${not a name}"]', ["connectors.a.args[0]", "not a name"]),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_a_connector_that_lacks_something_says_so_and_stops_no_other(place: Place, text: str, words: list[str]) -> None:
    loaded = place.toml(f'[connectors.a]\n{text}\n[connectors.b]\ncommand = "{sys.executable}"')
    assert list(loaded.faults) == ["a"]
    for word in words:
        assert word in loaded.faults["a"]
    assert loaded.config.connectors["b"].fault == ""


def test_secrets_come_by_reference_and_are_never_shown(place: Place) -> None:
    place.write("token.txt", "s3cret-file\n")
    loaded = place.toml(
        '[connectors.a]\nurl = "https://x/mcp?key=s3cret-url"\n'
        'headers = { A = "env:TOKEN", B = "file:token.txt", C = "Bearer ${TOKEN}" }\n'
        '[connectors.a.oauth]\nclient_id = "${ID}"\nclient_secret = "env:TOKEN"\nprivate_key = "file:token.txt"',
        TOKEN="s3cret-env",
        ID="me",
    )
    oauth = loaded.config.connectors["a"].oauth
    assert oauth is not None
    assert (oauth.client_id, oauth.client_secret, oauth.private_key) == ("me", "s3cret-env", "s3cret-file")
    headers = loaded.config.connectors["a"].headers
    assert headers == {"A": "s3cret-env", "B": "s3cret-file", "C": "Bearer s3cret-env"}
    assert "s3cret" not in repr(printable(loaded.config))
    assert "s3cret" not in repr(loaded.fingerprints())


CLIENT_FILES = [
    {"mcpServers": {"a": {"command": "python3", "args": ["-V"], "env": {"K": "v"}}}},
    {"mcpServers": {"a": {"type": "stdio", "command": "python3"}}},
    {"mcpServers": {"a": {"url": "https://x/mcp"}}},
    {"mcpServers": {"a": {"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}}}},
    {"mcpServers": {"a": {"type": "sse", "url": "https://x/sse"}}},
    {"mcpServers": {"a": {"serverUrl": "https://x/mcp"}}},
    {"mcpServers": {"a": {"httpUrl": "https://x/mcp"}}},
    {"mcpServers": {"a": {"command": "python3", "cwd": "${userHome}"}}},
    {"mcpServers": {"a": {"command": "python3", "disabled": True, "autoApprove": ["x"]}}},
    {"mcpServers": {"a": {"command": "python3", "alwaysAllow": [], "timeout": 60}}},
    {"mcpServers": {"a": {"command": "python3", "args": [], "env": None}}},
    {"theme": "dark", "mcpServers": {"a": {"command": "python3"}}},
]


@pytest.mark.parametrize("document", CLIENT_FILES)
def test_a_clients_file_is_read_as_it_is(place: Place, document: dict[str, object]) -> None:
    loaded = place.load(place.write("mcp.json", json.dumps(document)))
    connector = loaded.config.connectors["a"]
    assert (connector.command is None) != (connector.url is None)
    assert loaded.faults == {}
    assert connector.mode is None, "a new connector asks"


def test_names_of_a_clients_file_are_mapped_and_the_map_is_told(place: Place) -> None:
    servers = {name: {"command": "python3"} for name in ("get-it", "get_it", "delete", "7up")}
    loaded = place.load(place.write("mcp.json", json.dumps({"mcpServers": servers})))
    assert list(loaded.config.connectors) == ["get_it", "get_it_2", "delete_server", "_7up"]
    assert any("`get-it` is called `get_it`" in note for note in loaded.notes)


def test_a_json_file_without_servers_names_what_it_has(place: Place) -> None:
    with pytest.raises(ConfigurationError, match="mcpServers"):
        place.load(place.write("mcp.json", '{"mcpservers": {}}'))


def test_files_add_up_and_a_connector_given_twice_is_refused(place: Place) -> None:
    toml = place.write("delta.toml", f'version = 1\n[connectors.a]\ncommand = "{sys.executable}"')
    other = place.write("mcp.json", '{"mcpServers": {"b": {"command": "python3"}}}')
    assert list(place.load(toml, other).config.connectors) == ["a", "b"]
    twice = place.write("twice.json", '{"mcpServers": {"a": {"command": "python3"}}}')
    with pytest.raises(ConfigurationError, match="given twice"):
        place.load(toml, twice)


def test_without_a_file_there_are_tickets_and_the_working_directory_to_read(place: Place) -> None:
    loaded = place.load()
    tickets, files = loaded.config.connectors.values()
    assert (tickets.mode, tickets.reviewed) == (Mode.SAFE, True)
    assert str(place.home / "state" / "tickets.db") in tickets.args
    assert files.mode is Mode.READ
    assert str(place.workspace) in files.args
    assert loaded.faults == {}
    assert not loaded.chosen


def test_home_root_and_the_state_directory_are_never_served_as_files(place: Place) -> None:
    for workspace in (Path("/"), place.home, place.home / "state"):
        loaded = load(Flags(state_dir=place.home / "state"), place.environment, workspace)
        assert list(loaded.config.connectors) == ["tickets"]
        assert loaded.notes


def test_the_users_own_file_is_found_and_one_in_the_working_directory_is_not(place: Place) -> None:
    (place.workspace / "delta.toml").write_text("version = 1\nmode = 'full'\n")
    assert place.load().config.mode is None
    place.write("delta/delta.toml", "version = 1\nmode = 'read'\n")
    assert place.load().config.mode is Mode.READ


def test_fingerprints_differ_exactly_where_values_do(place: Place) -> None:
    one, two = place.toml("[http]\nport = 1").fingerprints(), place.toml("[http]\nport = 2").fingerprints()
    assert {name for name in one if one[name] != two[name]} == {"http.port"}


def test_the_state_directory_of_the_file_yields_to_the_flag(place: Place) -> None:
    file = place.write("delta.toml", "version = 1\nstate_dir = '~/there'\n")
    assert load(Flags((file,)), place.environment, place.workspace).state_dir == place.home / "there"
    assert place.load(file).state_dir == place.home / "state"


@pytest.mark.parametrize("name", ["a b", "ünï", "", "class", "9", "fresh", "a.b"])
def test_a_suggested_name_can_always_be_used(name: str) -> None:
    assert fault_of(identifier(name)) == ""
    assert fault_of(name) != ""
    assert identifier(name) not in RESERVED


@pytest.mark.parametrize("more", ["", "cwd = '/tmp'", "env = {A = 'b'}"])
def test_a_program_that_only_the_login_shell_finds_is_found_and_gets_its_path(place: Place, more: str) -> None:
    """acceptance 39."""
    tools = place.home / "tools"
    tools.mkdir()
    for name, text in (
        ("serve", "#!/bin/sh\n"),
        ("shell", f'#!/bin/sh\necho Welcome; PATH=$PATH:{tools}; eval "$2"\n'),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    config = f'[connectors.x]\ncommand = "serve"\n{more}'
    found = place.toml(config, PATH="/usr/bin:/bin", SHELL=str(tools / "shell")).config.connectors["x"]
    assert (found.fault, found.env["PATH"]) == ("", f"/usr/bin:/bin:{tools}")
    for shell in ("", "shell", "/no/such/shell", "/bin/false"):
        found = place.toml(config, PATH="/usr/bin:/bin", SHELL=shell).config.connectors["x"]
        assert "is on no folder of PATH (/usr/bin:/bin)" in found.fault
    with_own = '[connectors.x]\ncommand = "serve"\nenv = {PATH = "/bin"}'
    assert place.toml(with_own, SHELL=str(tools / "shell")).config.connectors["x"].fault
