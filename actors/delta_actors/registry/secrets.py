"""What a connector is given and must not tell: kept out of every word about it that is stored or shown."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from delta_protocol.changes.redaction import Redactor, is_secret
from delta_protocol.config import ConnectorConfig

_TOKENS = 32
"""How many of the tokens sent last are known; what the connector says is about one of these."""


class ConnectorSecrets:
    """The secrets of one connector: those of its configuration, and the tokens it is sent."""

    def __init__(self, config: ConnectorConfig) -> None:
        self._configured = tuple(_configured(config))
        self._tokens: deque[str] = deque(maxlen=_TOKENS)
        self._redactor = Redactor(self._configured)

    def add(self, token: str) -> None:
        """Know one more token."""
        if token not in self._tokens:
            self._tokens.append(token)
            self._redactor = Redactor((*self._configured, *self._tokens))

    def text(self, text: str) -> str:
        """Return the text without any of them."""
        return self._redactor.text(text)


def _configured(config: ConnectorConfig) -> Iterator[str]:
    """Yield its client's and its environment's secrets, and all its headers."""
    yield from (value for name, value in config.env.items() if is_secret(name))
    for value in config.headers.values():
        yield from (value, value.partition(" ")[2])
    oauth = config.oauth
    for secret in (oauth.client_secret, oauth.private_key, oauth.idp_client_secret) if oauth is not None else ():
        if secret is not None:
            yield secret
