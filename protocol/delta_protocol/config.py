"""The stack's configuration as data. Reading files, the environment and flags is the supervisor's (`load`)."""

from __future__ import annotations

from typing import Annotated, Literal, cast

import msgspec

from delta_protocol.catalogue.model import Effect, Mode
from delta_protocol.wire.message import Role

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Interval = Annotated[float, msgspec.Meta(gt=0)]
"""Seconds between two beats: none at all would be a loop that never rests."""
Count = Annotated[int, msgspec.Meta(ge=0)]
Amount = Annotated[int, msgspec.Meta(ge=1)]
"""A count or a number of bytes with which nothing would work if it were zero."""
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


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
    wrapper: str | None = None


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


class OAuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME.oauth]`: who the stack is to the connector's authorisation server (spec 1.16).

    Without any of it the stack registers by itself and a person signs in with `delta-supervisor login NAME`.
    """

    grant: Literal["authorization_code", "client_credentials", "jwt_bearer"] = "authorization_code"
    """With the others nobody signs in: `client_credentials` asks as the client, `jwt_bearer` with `assertion_file`."""
    client_id: str | None = None
    client_secret: str | None = None
    private_key: str | None = None
    """PEM; the client proves who it is by signing (private_key_jwt)."""
    key_algorithm: Literal["ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA"] = (
        "ES256"
    )
    token_endpoint_auth: Literal["client_secret_basic", "client_secret_post", "none"] | None = None
    """None: as the server says it takes."""
    issuer: str | None = None
    """The only authorisation server that the configured client is shown to."""
    client_metadata_url: str | None = None
    scopes: tuple[str, ...] = ()
    redirect_port: Port = 8421
    """Where a sign-in comes back to on this machine; the next free one where it is in use."""
    assertion_file: str | None = None
    """Read each time a token is asked for: a workload's JWT, or with `idp_token_endpoint` an ID token."""
    idp_token_endpoint: str | None = None
    """The identity provider that exchanges the ID token (enterprise-managed authorisation)."""
    idp_client_id: str | None = None
    idp_client_secret: str | None = None
    dpop: bool = False
    """Whether tokens are to be bound to a key of the stack's own (RFC 9449)."""
    private_network: bool = False
    """Whether its authorisation server may have a private address."""


class ConnectorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[connectors.NAME]`: either `command` (with `args`, `env`, `cwd`) or `url` (with `headers`). Seconds."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = {}
    oauth: OAuthConfig | None = None
    enabled: bool = True
    mode: Mode | None = None
    """None: `ask`, or `safe` once `reviewed`."""
    reviewed: bool = False
    trust: Literal["annotations", "annotations-off"] = "annotations"
    """`annotations`: the server's hints count. `annotations-off`: they do not."""
    effects: dict[str, Effect | list[EffectRule]] = {}
    modes: dict[str, Mode] = {}
    """A mode per tool."""
    infer: bool = True
    collections: dict[str, CollectionConfig] = {}
    expose: Literal["program", "tools"] = "program"
    session: Literal["shared", "principal", "conversation"] = "shared"
    start_timeout: Seconds = 60.0
    call_timeout: Seconds = 60.0
    queue: Amount = 64
    max_line: Amount = 64 << 20
    fault: str = ""
    """Set by loading, never by a file: why it cannot be started. Shown as failed, never started."""


class ActorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[actors.NAME]`. Seconds."""

    start_timeout: Seconds = 10.0
    stop_timeout: Seconds = 5.0
    heartbeat: Interval = 5.0
    heartbeat_timeout: Interval = 10.0
    credit: Amount = 64
    """Calls that one caller may have open at once."""


class SupervisionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[supervision]`: how many restarts in how many seconds before the stack gives up; backoff in seconds."""

    max_restarts: Count = 5
    window: Seconds = 10.0
    backoff: Seconds = 0.1
    backoff_max: Seconds = 10.0


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[http]`. `hosts` and `origins` are allowed beside loopback, whose origins can be left out."""

    enabled: bool = True
    host: str = "127.0.0.1"
    port: Port = 8420
    path: str = "/mcp"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    local_origins: bool = True
    max_body: Amount = 4 << 20
    max_requests: Amount = 256
    """Requests in flight; more are answered 503 with Retry-After."""
    rate_limit: Count = 0
    """Requests of one client in `rate_window`; more are answered 429 with Retry-After. 0 is no limit."""
    rate_window: Interval = 60.0
    proxies: Count = 0
    """Trusted proxies before the stack, which write `proxy_header`."""
    proxy_header: Literal["x-forwarded-for", "forwarded"] = "x-forwarded-for"
    formats: tuple[Literal["compact-json", "cbor"], ...] = ()
    """Forms of messages beside JSON; `gzip` compresses long answers for who asks, `takes_gzip` unpacks requests."""
    gzip: bool = True
    takes_gzip: bool = False
    session_idle: Seconds = 3600.0
    patience: Seconds = 5.0
    """How long an answer may stay silent before it becomes an event stream, which shows every `keep_alive` that it is
    there."""
    keep_alive: Interval = 15.0
    connections: Amount = 4096
    """Open at once, idle ones included; more wait to be accepted."""


class IntrospectionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[auth.introspection]`: where the issuer answers questions about a token (RFC 7662), and who we are to it."""

    url: str | None = None
    client_id: str | None = None
    client_secret: str | None = None
    """Only by reference in a file: `env:NAME`, `file:PATH`."""
    cache: Seconds = 30.0


class AuthConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[auth]`: who may come in over HTTP. Off loopback a token is always required.

    `open`: whoever is on this machine; `bearer`: who has a token made by `delta-supervisor token add`; `oauth`: who has
    a token of `issuer` for this stack. What belongs to `oauth` is nothing in another mode.
    """

    mode: Literal["open", "bearer", "oauth"] | None = None
    """None: `bearer` where `require_token` is set, else `open`."""
    require_token: bool = False
    scopes: tuple[str, ...] = ()
    """What every token must grant."""
    implied_scopes: dict[str, tuple[str, ...]] = {}
    """Which scopes a scope includes, so that a token with the larger one will do."""
    public_url: str | None = None
    """Where clients reach the endpoint: the resource that tokens are for (RFC 9728)."""
    audience: str | None = None
    """What tokens must name as their audience; None: `public_url`."""
    issuer: str | None = None
    jwks_url: str | None = None
    introspection: IntrospectionConfig = IntrospectionConfig()
    algorithms: tuple[str, ...] = ()
    """The signatures that are taken; none: every asymmetric one that is known."""
    leeway: Seconds = 30.0
    require_expiry: bool = True
    approve_without_terminal: bool = False
    """Whether `approve --yes` is allowed where nobody can be asked on a terminal."""

    @property
    def chosen(self) -> Literal["open", "bearer", "oauth"]:
        """The mode that holds."""
        return self.mode or ("bearer" if self.require_token else "open")

    @property
    def asks(self) -> bool:
        """Whether nobody comes in without a token."""
        return self.chosen != "open"


class ProgramLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits.program]`: hard limits of one run (three-tools 11, sandbox 7). Seconds and bytes."""

    fuel: Amount = 10_000_000_000
    cpu: Interval = 2.0
    memory: Amount = 64 << 20
    source: Amount = 256 << 10
    host_calls: Count = 256
    in_flight: Amount = 32
    per_connector: Amount = 8
    argument: Amount = 1 << 20
    result: Amount = 1 << 20
    host_answer: Amount = 4 << 20
    console: Count = 64 << 10
    depth: Amount = 64
    planned_calls: Count = 200


class LimitsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[limits]`. Seconds, tokens, bytes, counts."""

    request_deadline: Seconds = 60.0
    settle: Seconds = 30.0
    """How long the journal may settle what was sent after the deadline."""
    approval_expiry: Seconds = 1800.0
    repeat_window: Seconds = 600.0
    answer_tokens: Amount = 8_000
    api_tokens: Amount = 12_000
    bulk_objects: Count = 20
    bulk_deletes: Count = 5
    journal_days: Count = 30
    journal_deltas: Amount = 1_000
    results_bytes: Amount = 256 << 20
    results_hours: Seconds = 24.0
    workers: Amount = 4
    """Warm sandbox workers."""
    idle: Seconds = 600.0
    """How long an auto-started stack lives without clients."""
    program: ProgramLimits = ProgramLimits()


class StackConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole resolved configuration: nothing left to look up. Its canonical hash is "the same configuration"."""

    version: Literal[1] = 1
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
