"""What may go wrong on the way to a token.

NotSent
└── OAuthError              the request went out without a token that counts, so it was not carried out
    ├── MetadataRefused     a document of the resource or its authorisation server must not be used
    ├── ResponseRefused     the authorisation response is not the answer to what was asked
    ├── TokenRefused        the token or registration endpoint said no
    ├── ConfigurationNeeded nothing here says who we are to the authorisation server
    └── SignInNeeded        a person has to sign in
"""

from __future__ import annotations

from delta_protocol.mcp.errors import NotSent


class OAuthError(NotSent):
    """Base of the errors of this package. No message holds a token, a code, a verifier or a secret."""


class MetadataRefused(OAuthError):
    """A metadata document is missing, malformed, or says what would send a token or a secret to the wrong place."""


class ResponseRefused(OAuthError):
    """The authorisation response has another state or issuer than the request, or reports an error."""


class TokenRefused(OAuthError):
    """`error` is the OAuth error code (RFC 6749 5.2), empty where the answer had none."""

    def __init__(self, message: str, error: str = "") -> None:
        super().__init__(message)
        self.error = error


class ConfigurationNeeded(OAuthError):
    """No registration is possible; the message says what to configure."""


class SignInNeeded(OAuthError):
    """No token is left that could be used or refreshed; the message says how to get one."""
