"""Connectors made ready to start: variables expanded, secrets fetched, programs found. One at fault never stops others.

A connector that cannot start keeps its place and carries the reason in `fault`; the registry shows it as failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from delta_protocol.catalogue.model import Mode
from delta_protocol.config import ConnectorConfig, OAuthConfig
from delta_supervisor.load.expand import Expander, Missing
from delta_supervisor.load.names import fault_of, identifier
from delta_supervisor.load.programs import Programs
from delta_supervisor.load.shape import ConfigurationError

SECRETS = ("client_secret", "private_key", "idp_client_secret")
"""The keys of `oauth` that are secrets."""


def check_name(name: str, where: str) -> None:
    """Raise `ConfigurationError` with a suggestion when `name` cannot be a connector's name."""
    fault = fault_of(name)
    if fault:
        raise ConfigurationError(
            f"`connectors.{name}`: {name!r} {fault}, and programs use it as a variable; "
            f"call it `{identifier(name)}` [{where}]",
            path=f"connectors.{name}",
        )


def check_shape(name: str, connector: ConnectorConfig, where: str) -> None:
    """Raise `ConfigurationError` unless exactly one of `command` and `url` is given, with only what belongs to it."""
    path = f"connectors.{name}"
    if (connector.command is None) == (connector.url is None):
        problem = "has both `command` and `url`" if connector.command else "needs a `command` or a `url`"
        raise ConfigurationError(f"`{path}` {problem} [{where}]", path=path)
    stray = ("args", "env", "cwd") if connector.url is not None else ("headers", "oauth")
    for field in stray:
        if getattr(connector, field):
            raise ConfigurationError(
                f"`{path}.{field}` means nothing beside `{'url' if connector.url else 'command'}` [{where}]",
                path=f"{path}.{field}",
            )
    if connector.oauth is not None:
        _check_oauth(path, connector, connector.oauth, where)


def _check_oauth(path: str, connector: ConnectorConfig, oauth: OAuthConfig, where: str) -> None:
    """Raise `ConfigurationError` for settings of which one can never be used."""
    authorization = next((name for name in connector.headers if name.lower() == "authorization"), None)
    if authorization is not None:
        problem = f"`{path}.oauth` means nothing beside `{path}.headers.{authorization}`, which is sent instead"
    elif oauth.client_id is None and (oauth.client_secret or oauth.private_key):
        problem = f"`{path}.oauth` has a secret or a key, and needs the `client_id` that it belongs to"
    elif oauth.grant == "client_credentials" and not (oauth.client_secret or oauth.private_key):
        problem = f"`{path}.oauth` with client_credentials needs `client_id`, and `client_secret` or `private_key`"
    elif (oauth.grant == "jwt_bearer") != (oauth.assertion_file is not None):
        problem = f"`{path}.oauth`: the grant `jwt_bearer` and an `assertion_file` go together"
    elif oauth.grant == "jwt_bearer" and oauth.client_id is None and oauth.client_metadata_url is None:
        problem = f"`{path}.oauth` with jwt_bearer needs a `client_id`"
    elif (oauth.idp_token_endpoint is None) != (oauth.idp_client_id is None):
        problem = f"`{path}.oauth`: `idp_token_endpoint` and `idp_client_id` go together"
    elif oauth.idp_token_endpoint is not None and oauth.grant != "jwt_bearer":
        problem = f"`{path}.oauth`: an identity provider is for the grant `jwt_bearer`"
    else:
        return
    raise ConfigurationError(f"{problem} [{where}]", path=f"{path}.oauth")


def resolve(name: str, connector: ConnectorConfig, expander: Expander, programs: Programs) -> ConnectorConfig:
    """Return the connector with nothing left to look up, or with `fault` saying what is missing."""
    if not connector.enabled:
        return connector
    try:
        return programs.found(f"connectors.{name}", _expand(f"connectors.{name}", connector, expander))
    except Missing as missing:
        return msgspec.structs.replace(connector, fault=str(missing))


def _expand(path: str, connector: ConnectorConfig, expander: Expander) -> ConnectorConfig:
    return msgspec.structs.replace(
        connector,
        command=connector.command and expander.path(connector.command, field=f"{path}.command"),
        args=tuple(expander.path(arg, field=f"{path}.args[{index}]") for index, arg in enumerate(connector.args)),
        env={key: expander.secret(text, field=f"{path}.env.{key}") for key, text in connector.env.items()},
        cwd=connector.cwd and expander.folder(connector.cwd, field=f"{path}.cwd"),
        url=connector.url and expander.text(connector.url, field=f"{path}.url"),
        headers={key: expander.secret(text, field=f"{path}.headers.{key}") for key, text in connector.headers.items()},
        oauth=connector.oauth and _expand_oauth(f"{path}.oauth", connector.oauth, expander),
    )


def _expand_oauth(path: str, oauth: OAuthConfig, expander: Expander) -> OAuthConfig:
    texts = ("client_id", "issuer", "client_metadata_url", "idp_token_endpoint", "idp_client_id")
    given: dict[str, str | None] = {name: getattr(oauth, name) for name in (*texts, *SECRETS)}
    file = oauth.assertion_file
    return msgspec.structs.replace(
        oauth,
        assertion_file=file and expander.folder(file, field=f"{path}.assertion_file"),
        **{
            name: (expander.text if name in texts else expander.secret)(value, field=f"{path}.{name}")
            for name, value in given.items()
            if value is not None
        },
    )


def built_in(state_dir: Path, workspace: Path, home: Path) -> tuple[dict[str, ConnectorConfig], list[str]]:
    """Return the connectors of a stack without a configuration file, and notes for the person who starts it.

    The files connector reads the working directory; it is left out where that would show the whole home, the whole
    machine or the state directory to a model.
    """
    tickets = ConnectorConfig(
        command=sys.executable,
        args=("-m", "delta_actors.demo.tickets", "--db", str(state_dir / "tickets.db")),
        reviewed=True,
        mode=Mode.SAFE,
    )
    connectors = {"tickets": tickets}
    workspace = workspace.resolve()
    state = state_dir.resolve()
    if workspace in (Path("/"), home.resolve()) or state.is_relative_to(workspace) or workspace.is_relative_to(state):
        return connectors, [f"no files connector: {workspace} is too much to show (start in a project's folder)"]
    connectors["files"] = ConnectorConfig(
        command=sys.executable,
        args=("-m", "delta_actors.demo.files", "--root", str(workspace)),
        mode=Mode.READ,
    )
    return connectors, []
