"""`[auth]` made ready: one mode, with all that it needs and nothing that it ignores; its URLs checked, its secret
fetched."""

from __future__ import annotations

import msgspec

from delta_protocol.config import AuthConfig, IntrospectionConfig
from delta_supervisor.load.expand import Expander, Missing
from delta_supervisor.load.shape import ConfigurationError

_OF_OAUTH = ("public_url", "audience", "issuer", "jwks_url", "introspection", "algorithms", "leeway", "require_expiry")
_REFERENCES = ("env:", "file:")


def check_auth(auth: AuthConfig, where: str) -> None:
    """Raise `ConfigurationError` for a mode that lacks something, or for what means nothing in it."""
    fault = _fault(auth)
    if fault:
        raise ConfigurationError(f"{fault[1]} [{where}]" if where else fault[1], path=fault[0])


def resolve_auth(auth: AuthConfig, expander: Expander) -> AuthConfig:
    """Return the section with its variables replaced and its secret fetched.

    Raises `ConfigurationError` where something is missing, and for URLs, scopes or algorithms that cannot be used.
    """
    try:
        texts = {
            name: expander.text(value, field=f"auth.{name}")
            for name in ("public_url", "audience", "issuer", "jwks_url")
            if (value := getattr(auth, name)) is not None
        }
        introspection = _resolve_introspection(auth.introspection, expander)
    except Missing as missing:
        raise ConfigurationError(str(missing), path="auth") from None
    resolved = msgspec.structs.replace(auth, **texts, introspection=introspection)
    if resolved != AuthConfig():
        _check_values(resolved)
    return resolved


def _fault(auth: AuthConfig) -> tuple[str, str] | None:
    """Return the path and the words of what is wrong with the section's shape."""
    if auth.mode == "open" and auth.require_token:
        return "auth.require_token", '`auth.mode` "open" and `auth.require_token` contradict each other: leave one out'
    default = AuthConfig()
    stray = [name for name in _OF_OAUTH if getattr(auth, name) != getattr(default, name)]
    if auth.chosen != "oauth":
        return (f"auth.{stray[0]}", f'`auth.{stray[0]}` means nothing unless `auth.mode` is "oauth"') if stray else None
    missing = next((name for name in ("public_url", "issuer") if not getattr(auth, name)), None)
    if missing:
        return f"auth.{missing}", f'`auth.mode` "oauth" needs `auth.{missing}`'
    if not auth.jwks_url and not auth.introspection.url:
        return "auth.jwks_url", '`auth.mode` "oauth" needs `auth.jwks_url` or `auth.introspection.url` to verify tokens'
    return _introspection_fault(auth.introspection)


def _introspection_fault(introspection: IntrospectionConfig) -> tuple[str, str] | None:
    path = "auth.introspection"
    if introspection != IntrospectionConfig() and not introspection.url:
        return f"{path}.url", f"`{path}` needs its `url`"
    if introspection.client_secret is None:
        return None
    if introspection.client_id is None:
        return f"{path}.client_id", f"`{path}.client_secret` needs the `client_id` that it belongs to"
    if not introspection.client_secret.startswith(_REFERENCES):
        return f"{path}.client_secret", f"`{path}.client_secret` must be a reference: `env:NAME` or `file:PATH`"
    return None


def _resolve_introspection(introspection: IntrospectionConfig, expander: Expander) -> IntrospectionConfig:
    path, given = "auth.introspection", introspection
    return msgspec.structs.replace(
        given,
        url=given.url and expander.text(given.url, field=f"{path}.url"),
        client_id=given.client_id and expander.text(given.client_id, field=f"{path}.client_id"),
        client_secret=given.client_secret and expander.secret(given.client_secret, field=f"{path}.client_secret"),
    )


def _check_values(auth: AuthConfig) -> None:
    # Loaded here: the relay reads a configuration on the path of a client's start.
    from delta_protocol.mcp.access_tokens import ALGORITHMS, TokenRules
    from delta_protocol.mcp.bearer import check_scopes, describe
    from delta_protocol.mcp.oauth.errors import MetadataRefused
    from delta_protocol.mcp.oauth.urls import check_url

    try:
        for scopes in (auth.scopes, auth.implied_scopes, *auth.implied_scopes.values()):
            check_scopes(scopes)
        if auth.public_url is None or auth.issuer is None:
            return
        describe(auth.public_url, [auth.issuer])
        TokenRules(auth.audience or auth.public_url, (auth.issuer,), auth.algorithms or ALGORITHMS, auth.leeway)
        for name, url in (("jwks_url", auth.jwks_url), ("introspection.url", auth.introspection.url)):
            if url:
                check_url(url, f"`auth.{name}`")
    except ValueError as error:
        raise ConfigurationError(f"`auth`: {error}", path="auth") from None
    except MetadataRefused as error:
        raise ConfigurationError(error.message, path="auth") from None
