"""The stack's configuration as data. Reading files, the environment and flags is the supervisor's (`load`)."""

from __future__ import annotations

from typing import cast

import msgspec

from delta_protocol.catalogue.model import Effect, Mode
from delta_protocol.wire.message import Role
from delta_protocol.wire.sandbox import ProgramLimits


class EffectRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME.effects.TOOL]`: by argument, the first matching `when` decides (plan-apply-undo 5.4)."""

    when: dict[str, str]
    then: Effect


class OperationConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a configured collection's operation is called; see `catalogue.model.Binding`."""

    tool: str
    key: str | None = None
    fields: dict[str, str] = {}
    result: tuple[str | int, ...] = ()
    many: bool = False
    content: str | None = None
    cursor: str | None = None


class ElementsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array field with tools of its own; see `catalogue.model.Elements`."""

    key: str = ""
    add: OperationConfig | None = None
    remove: OperationConfig | None = None
    update: OperationConfig | None = None
    remove_key: str | None = None


class CollectionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME.collections.NOUN]`: replaces or completes what was inferred (three-tools 5)."""

    key: str | None = None
    get: OperationConfig | None = None
    list: OperationConfig | None = None
    search: OperationConfig | None = None
    create: OperationConfig | None = None
    update: OperationConfig | None = None
    delete: OperationConfig | None = None
    elements: dict[str, ElementsConfig] = {}
    edits: tuple[OperationConfig, ...] = ()
    version: str | None = None


class ConnectorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME]`: either `command` (with `args`, `env`, `cwd`) or `url` (with `headers`). Seconds."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    enabled: bool = True
    mode: Mode | None = None
    """None: `ask`, or `safe` once `reviewed`."""
    reviewed: bool = False
    trust: str = "annotations"
    """`annotations`: the server's hints count. `annotations-off`: they do not."""
    effects: dict[str, Effect | list[EffectRule]] = {}
    modes: dict[str, Mode] = {}
    """A mode per tool."""
    infer: bool = True
    collections: dict[str, CollectionConfig] = {}
    expose: str = "program"
    session: str = "shared"
    start_timeout: float = 60.0
    call_timeout: float = 60.0
    queue: int = 64
    max_line: int = 64 << 20
    fault: str = ""
    """Set by loading, never by a file: why it cannot be started. Shown as failed, never started."""


class ActorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[actors.NAME]`. Seconds."""

    placement: str = "process"
    """`process` | `task`."""
    start_timeout: float = 10.0
    stop_timeout: float = 5.0
    heartbeat: float = 5.0
    heartbeat_timeout: float = 10.0
    credit: int = 64


class SupervisionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[supervision]`: how many restarts in how many seconds before the stack gives up; backoff in seconds."""

    max_restarts: int = 5
    window: float = 10.0
    backoff: float = 0.1
    backoff_max: float = 10.0


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[http]`. `hosts` and `origins` are allowed beside loopback."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: int = 8420
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_body: int = 4 << 20
    max_requests: int = 256
    """Requests in flight; more are answered 503 with Retry-After."""
    session_idle: float = 3600.0


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[auth]`. Off loopback a token is always required."""

    require_token: bool = False
    approve_without_terminal: bool = False
    """Whether `approve --yes` is allowed where nobody can be asked on a terminal."""


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits]`. Seconds, tokens, bytes, counts."""

    request_deadline: float = 60.0
    settle: float = 30.0
    """How long the journal may settle what was sent after the deadline."""
    approval_expiry: float = 1800.0
    repeat_window: float = 600.0
    answer_tokens: int = 8_000
    api_tokens: int = 12_000
    bulk_objects: int = 20
    bulk_deletes: int = 5
    journal_days: int = 30
    journal_deltas: int = 1_000
    results_bytes: int = 256 << 20
    results_hours: float = 24.0
    workers: int = 4
    """Warm sandbox workers."""
    idle: float = 600.0
    """How long an auto-started stack lives without clients."""
    program: ProgramLimits = ProgramLimits()


class StackConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole resolved configuration: nothing left to look up. Its canonical hash is "the same configuration"."""

    version: int = 1
    connectors: dict[str, ConnectorConfig] = {}
    actors: dict[Role, ActorConfig] = {}
    supervision: SupervisionConfig = SupervisionConfig()
    http: HttpConfig = HttpConfig()
    auth: AuthConfig = AuthConfig()
    limits: LimitsConfig = LimitsConfig()
    mode: Mode | None = None
    """A mode for the whole stack; a plan takes the strictest of stack, connector, tool."""

    def actor(self, role: str) -> ActorConfig:
        """Return the actor's configuration, the defaults where none was given."""
        return self.actors.get(cast(Role, role), ActorConfig())
