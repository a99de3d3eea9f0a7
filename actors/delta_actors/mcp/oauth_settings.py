"""Who we are to a server's authorisation server: as a program says it, or as a connector's configuration does."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from delta_protocol.config import OAuthConfig
from delta_protocol.mcp.oauth.registration import Given

FOLDER = "oauth"
"""Where a stack keeps its connectors' tokens, within its state directory."""


GrantKind = Literal["authorization_code", "client_credentials", "jwt_bearer"]


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Who turns the assertion, an ID token, into one that the authorisation server takes (enterprise-managed)."""

    token_endpoint: str
    client_id: str
    client_secret: str | None = None

    def __repr__(self) -> str:
        return f"IdentityProvider({self.token_endpoint!r}, {self.client_id!r})"


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Who we are and what we may do. `directory` keeps the tokens, `holder` is whose they are (a connector's name).

    `private_key` is PEM text; `dpop` asks for tokens that are bound to a key of ours (RFC 9449); `local` allows
    authorisation servers on this machine and in private networks; `hint` says what a person has to do where nobody can
    be sent to a sign-in. `assertion` is the file of the JWT that `jwt_bearer` asks with, `provider` who exchanges it.
    """

    directory: Path
    holder: str = ""
    grant: GrantKind = "authorization_code"
    given: Given = field(default_factory=Given)
    private_key: str | None = None
    algorithm: str = "ES256"
    scopes: tuple[str, ...] = ()
    local: bool = False
    dpop: bool = False
    assertion: Path | None = None
    provider: IdentityProvider | None = None
    hint: str = "sign in first"

    def __repr__(self) -> str:
        return f"OAuthSettings({self.holder!r}, {self.grant}, {self.given!r})"


def settings_of(name: str, config: OAuthConfig, state_dir: Path) -> OAuthSettings:
    """Return the settings of the connector `name` of the stack in `state_dir`."""
    given = Given(
        config.client_id,
        config.client_secret,
        has_key=config.private_key is not None,
        method=config.token_endpoint_auth,
        issuer=config.issuer,
        metadata_url=config.client_metadata_url,
    )
    provider = None
    if config.idp_token_endpoint is not None and config.idp_client_id is not None:
        provider = IdentityProvider(config.idp_token_endpoint, config.idp_client_id, config.idp_client_secret)
    return OAuthSettings(
        state_dir / FOLDER,
        name,
        config.grant,
        given,
        config.private_key,
        config.key_algorithm,
        config.scopes,
        config.private_network,
        config.dpop,
        Path(config.assertion_file) if config.assertion_file is not None else None,
        provider,
        f"to sign in, run `delta-supervisor login {name}` with the flags that the stack was started with",
    )
