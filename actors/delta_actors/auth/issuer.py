"""The issuer that the stack trusts, from `[auth]`: what verifies its tokens. Imported in the mode `oauth` alone."""

from __future__ import annotations

from delta_actors.mcp.resource_server import ResourceSettings, TokenVerifier, TrustedIssuer
from delta_actors.mcp.resource_server_introspection import Introspection
from delta_protocol.config import AuthConfig
from delta_protocol.errors import Invalid
from delta_protocol.mcp.access_tokens import ALGORITHMS


def open_verifier(config: AuthConfig) -> TokenVerifier:
    """Return the verifier. Raises `Invalid` for settings with which nothing could be verified."""
    asked = config.introspection
    introspection = (
        Introspection(asked.url, asked.client_id or "", asked.client_secret or "", asked.cache) if asked.url else None
    )
    try:
        return TokenVerifier(
            ResourceSettings(
                config.public_url or "",
                [TrustedIssuer(config.issuer or "", config.jwks_url or "", introspection)],
                audience=config.audience or "",
                algorithms=config.algorithms or ALGORITHMS,
                leeway=config.leeway,
                require_expiry=config.require_expiry,
            )
        )
    except ValueError as error:
        raise Invalid(f"[auth]: {error}", setting="auth") from None
