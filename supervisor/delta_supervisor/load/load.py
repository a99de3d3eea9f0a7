"""Where every value comes from: flags, `DELTA_*`, files, defaults, in this order of precedence."""

from __future__ import annotations

import hashlib
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec

from delta_protocol.codecs import exact_json
from delta_protocol.config import StackConfig
from delta_protocol.wire.message import ACTOR_ROLES
from delta_supervisor.load import connectors as ready
from delta_supervisor.load.auth import check_auth, resolve_auth
from delta_supervisor.load.clients import read_client_file
from delta_supervisor.load.expand import Expander
from delta_supervisor.load.programs import Programs
from delta_supervisor.load.shape import ConfigurationError, Shaper, dotted, nearest
from delta_supervisor.load.shape import Path as Keys
from delta_supervisor.places import config_file, default_state_dir

DEFAULT = "default"
"""The origin of what nobody set."""

SECTIONS = ("http", "auth", "limits", "supervision")
_FLAGS = {"http.host": "--host", "http.port": "--port", "mode": "--mode"}
_OWN_VARIABLES = ("DELTA_CONFIG", "DELTA_STATE_DIR")


@dataclass(frozen=True, slots=True)
class Flags:
    """What the command line said. `settings` are dotted keys with text values (`--set http.port=0`, `--port`)."""

    config: tuple[Path, ...] = ()
    state_dir: Path | None = None
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """The resolved configuration. `origins` maps dotted paths to where the value came from; what is not in it is a
    default. `chosen` says whether anything was configured at all. `notes` are for the person who starts the stack."""

    config: StackConfig
    state_dir: Path
    state_dir_origin: str
    origins: dict[str, str]
    notes: tuple[str, ...]
    files: tuple[Path, ...]
    chosen: bool

    @property
    def faults(self) -> dict[str, str]:
        """Why each connector that cannot start cannot."""
        return {name: connector.fault for name, connector in self.config.connectors.items() if connector.fault}

    def origin(self, keys: Keys) -> str:
        """Return where the value at `keys` came from."""
        for end in range(len(keys), 0, -1):
            if (origin := self.origins.get(dotted(keys[:end]))) is not None:
                return origin
        return DEFAULT

    def fingerprints(self) -> dict[str, str]:
        """Return a short hash per dotted value: tells which differ without showing any."""
        return {
            dotted(keys): hashlib.sha256(exact_json.canonical(value)).hexdigest()[:16]
            for keys, value in leaves(msgspec.to_builtins(self.config))
        }


@dataclass(slots=True)
class _Sources:
    tree: dict[str, Any] = field(default_factory=dict[str, Any])
    origins: dict[Keys, str] = field(default_factory=dict[Keys, str])
    texts: set[Keys] = field(default_factory=set[Keys])
    notes: list[str] = field(default_factory=list[str])
    bases: dict[str, Path] = field(default_factory=dict[str, Path])

    def set(self, keys: Keys, value: Any, origin: str, *, text: bool = False) -> None:  # noqa: ANN401 - plain data
        table = self.tree
        for index, key in enumerate(keys[:-1]):
            inner = table.setdefault(key, {})
            if not isinstance(inner, dict):
                raise ConfigurationError(f"`{dotted(keys[: index + 1])}` must be a table [{origin}]", path=dotted(keys))
            table = cast("dict[str, Any]", inner)
        table[keys[-1]] = value
        self.origins[keys] = origin
        if text:
            self.texts.add(keys)

    def origin(self, keys: Keys) -> str:
        for end in range(len(keys), 0, -1):
            if keys[:end] in self.origins:
                return self.origins[keys[:end]]
        return next((origin for path, origin in self.origins.items() if path[: len(keys)] == keys), "")

    def is_text(self, keys: Keys) -> bool:
        return any(keys[:end] in self.texts for end in range(len(keys), 0, -1))


def load(flags: Flags, environment: Mapping[str, str], workspace: Path) -> Loaded:
    """Return the configuration that `flags`, `environment` and the files they name amount to.

    `workspace` is the working directory. Raises `ConfigurationError`; a single connector that lacks a variable, a
    secret or its program is no error here (see `Loaded.faults`).
    """
    sources = _Sources()
    files = _files(flags, environment, workspace)
    for file in files:
        _read_file(file, sources)
    _read_environment(environment, sources)
    for key, value in flags.settings:
        sources.set(tuple(key.split(".")), value, _FLAGS.get(key, f"--set {key}"), text=True)
    chosen = bool(sources.origins)
    state_dir, state_dir_origin = _state_dir(flags, environment, sources, workspace)
    config = Shaper(sources.is_text, sources.origin).struct(sources.tree, StackConfig, ())
    _check(config, sources)
    secret_of = sources.origins.get(("auth", "introspection", "client_secret"), "")
    base = next((file.parent for file in files if str(file) == secret_of), workspace)
    config = msgspec.structs.replace(config, auth=resolve_auth(config.auth, Expander(environment, workspace, base)))
    if not files:
        built_in, notes = ready.built_in(state_dir, workspace, Path(environment.get("HOME") or Path.home()))
        sources.notes.extend(notes)
        for name in built_in:
            sources.origins.setdefault(("connectors", name), "built in")
        config = msgspec.structs.replace(config, connectors={**built_in, **config.connectors})
    programs = Programs(environment)
    resolved = {
        name: ready.resolve(name, connector, _expander(name, sources, environment, workspace), programs)
        for name, connector in config.connectors.items()
    }
    origins = {dotted(keys): origin for keys, origin in sources.origins.items()}
    return Loaded(
        msgspec.structs.replace(config, connectors=resolved),
        state_dir,
        state_dir_origin,
        origins,
        tuple(sources.notes),
        files,
        chosen,
    )


def leaves(tree: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:  # noqa: ANN401 - plain data
    """Walk a tree of plain values down to everything that is no non-empty table."""
    if isinstance(tree, dict) and tree:
        for key, value in cast("dict[str, Any]", tree).items():
            yield from leaves(value, (*keys, str(key)))
    else:
        yield keys, tree


def _files(flags: Flags, environment: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    if flags.config:
        return tuple(workspace / file for file in flags.config)
    if named := environment.get("DELTA_CONFIG"):
        return tuple(workspace / file for file in named.split(os.pathsep) if file)
    default = config_file(environment)
    return (default,) if default.is_file() else ()


def _read_file(file: Path, sources: _Sources) -> None:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read the configuration {file}: {error.strerror}", path=str(file)) from None
    if file.suffix == ".json":
        connectors, notes = read_client_file(text, str(file))
        sources.notes.extend(notes)
        _merge({"connectors": connectors}, file, sources)
        return
    try:
        tree = tomllib.loads(text.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {error}", path=str(file)) from None
    if "version" not in tree:
        raise ConfigurationError(f"{file} must begin with `version = 1`", path="version")
    if tree["version"] != 1:
        raise ConfigurationError(f"`version` is {tree['version']!r}; this program reads 1 [{file}]", path="version")
    _merge(tree, file, sources)


def _merge(tree: dict[str, Any], file: Path, sources: _Sources) -> None:
    connectors = tree.get("connectors")
    if isinstance(connectors, dict):
        for name in cast("dict[str, Any]", connectors):
            if name in sources.bases:
                raise ConfigurationError(
                    f"`connectors.{name}` is given twice, again in {file}", path=f"connectors.{name}"
                )
            sources.bases[name] = file.parent
    for keys, value in leaves(tree):
        sources.set(keys, value, str(file))


def _read_environment(environment: Mapping[str, str], sources: _Sources) -> None:
    if mode := environment.get("DELTA_MODE"):
        sources.set(("mode",), mode, "DELTA_MODE", text=True)
    sections = {field.name: field.type for field in msgspec.structs.fields(StackConfig) if field.name in SECTIONS}
    for name in sorted(environment):
        section = next((part for part in SECTIONS if name.startswith(f"DELTA_{part.upper()}_")), None)
        if section is None or name in _OWN_VARIABLES:
            continue
        keys = _variable_keys(name, section, sections[section])
        sources.set(keys, environment[name], name, text=True)


def _variable_keys(name: str, section: str, kind: Any) -> Keys:  # noqa: ANN401 - a type
    """`DELTA_LIMITS_PROGRAM_CPU` is `limits.program.cpu`: tables are descended into, the rest is one key."""
    rest = name.removeprefix(f"DELTA_{section.upper()}_").lower()
    fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for key, inner in fields.items():
        if rest.startswith(f"{key}_") and isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            names = {field.name for field in msgspec.structs.fields(inner)}
            if rest.removeprefix(f"{key}_") in names:
                return (section, key, rest.removeprefix(f"{key}_"))
    if rest not in fields:
        known = [f"DELTA_{section}_{key}".upper() for key in fields]
        raise ConfigurationError(f"the environment variable {name} is not known{nearest(name, known)}", path=name)
    return (section, rest)


def _state_dir(flags: Flags, environment: Mapping[str, str], sources: _Sources, workspace: Path) -> tuple[Path, str]:
    configured = sources.tree.pop("state_dir", None)
    origin = sources.origins.pop(("state_dir",), "")
    if flags.state_dir is not None:
        return Path(os.path.abspath(workspace / flags.state_dir)), "--state-dir"
    if named := environment.get("DELTA_STATE_DIR"):
        return Path(os.path.abspath(workspace / named)), "DELTA_STATE_DIR"
    if configured is None:
        return default_state_dir(), DEFAULT
    if not isinstance(configured, str):
        raise ConfigurationError(f"`state_dir` must be text [{origin}]", path="state_dir")
    return workspace / Expander(environment, workspace, workspace).path(configured, field="state_dir"), origin


def _check(config: StackConfig, sources: _Sources) -> None:
    for role in config.actors:
        if role not in ACTOR_ROLES:
            path = ("actors", str(role))
            raise ConfigurationError(
                f"`{dotted(path)}` is no actor{nearest(role, ACTOR_ROLES)} [{sources.origin(path)}]", path=dotted(path)
            )
    check_auth(config.auth, sources.origin(("auth",)))
    for name, connector in config.connectors.items():
        where = sources.origin(("connectors", name))
        ready.check_name(name, where)
        ready.check_shape(name, connector, where)
        if connector.fault:
            raise ConfigurationError(
                f"`connectors.{name}.fault` is no known key [{where}]", path=f"connectors.{name}.fault"
            )


def _expander(name: str, sources: _Sources, environment: Mapping[str, str], workspace: Path) -> Expander:
    return Expander(environment, workspace, sources.bases.get(name, workspace))


def printable(config: StackConfig) -> dict[str, Any]:
    """Return the configuration as plain values, every actor's included, with everything that may be a secret hidden."""
    plain = cast("dict[str, Any]", msgspec.to_builtins(config))
    plain["actors"] = {str(role): msgspec.to_builtins(config.actor(role)) for role in ACTOR_ROLES}
    if secret := plain["auth"]["introspection"]["client_secret"]:
        plain["auth"]["introspection"]["client_secret"] = f"(hidden, {len(secret)} characters)"
    for connector in plain["connectors"].values():
        # No setting: it is told as what it is.
        del connector["fault"]
        for section in ("env", "headers"):
            hidden = {key: f"(hidden, {len(value)} characters)" for key, value in connector[section].items()}
            connector[section] = hidden
        for key in ready.SECRETS if connector["oauth"] else ():
            if connector["oauth"][key] is not None:
                connector["oauth"][key] = f"(hidden, {len(connector['oauth'][key])} characters)"
        if connector["url"] and "?" in connector["url"]:
            connector["url"] = connector["url"].partition("?")[0] + "?(hidden)"
    return plain
