"""The catalogue: numbered, immutable snapshots of what the connectors offer. Owned by the registry."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from delta_protocol.catalogue.names import connector_alias
from delta_protocol.wire.message import Json


class Effect(StrEnum):
    """What a tool may do. Anything unproven is `WRITE` (three-tools 4, plan-apply-undo 5.4)."""

    READ = "read"
    WRITE = "write"
    IRREVERSIBLE = "irreversible"
    OFF = "off"


class Mode(StrEnum):
    """How much happens without a person (plan-apply-undo 5.14); later members allow more."""

    READ = "read"
    ASK = "ask"
    SAFE = "safe"
    AUTO = "auto"
    FULL = "full"


class ConnectorState(StrEnum):
    """`gone`: known from an earlier run but no longer configured; its place in the API text is kept."""

    STARTING = "starting"
    READY = "ready"
    BACKOFF = "backoff"
    FAILED = "failed"
    GONE = "gone"


class Annotations(msgspec.Struct, frozen=True, array_like=True):
    """A tool's own claims (MCP ToolAnnotations); None = not stated. A claim, not a fact."""

    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class ArgumentRule(msgspec.Struct, frozen=True, array_like=True):
    """A tool whose effect depends on an argument: when `argument` matches `pattern`, the effect is `then`."""

    argument: str
    pattern: str
    then: Effect
    also: dict[str, str] = {}
    """Further arguments and the patterns that they must match too."""


class Tool(msgspec.Struct, frozen=True, array_like=True):
    """One tool of one connector, as first seen; `definition` is the upstream object, unchanged."""

    name: str
    alias: str
    """JavaScript identifier under the connector's namespace; unique there. Equals `name` where it can."""
    description: str
    input_schema: Json
    effect: Effect
    reason: str
    """Why it has this effect, in words: shown to people."""
    digest: str
    """sha256 over name, description, schemas and annotations (acceptance 71)."""
    definition: Json
    output_schema: Json | None = None
    annotations: Annotations = Annotations()
    rules: tuple[ArgumentRule, ...] = ()
    mode: Mode | None = None
    """A mode configured for this tool alone."""
    fault: str | None = None
    """Why the definition is unusable; such a tool is listed and refused when called (acceptance 18)."""
    gone: bool = False
    held: tuple[str, ...] = ()
    """What changed of it since its connector was looked at; until a person accepts that, `description` is the one from
    before (acceptance 71)."""


class Binding(msgspec.Struct, frozen=True, array_like=True):
    """How a collection's operation is called: which tool, and which of its parameters mean what.

    `key`: the parameter that takes the entity's key. `fields`: entity field -> parameter, for what the tool can
    set (update, create) or filter by (list). `result`: path of the entity (or the list of them) inside the
    tool's decoded result; empty = the result itself.

    With `content`, `fields` name members of the object (or objects) inside that parameter.
    """

    tool: str
    key: str | None = None
    fields: dict[str, str] = {}
    result: tuple[str | int, ...] = ()
    many: bool = False
    """The key parameter takes a list of keys, or the content parameter a list of entities."""
    content: str | None = None
    """The one parameter that takes the whole element or list of elements (`create_entities(entities)`)."""
    cursor: str | None = None
    """list: the parameter that takes the next page's cursor or number, where there is one."""
    wrapper: str | None = None
    """Elements: the one parameter, a list of objects, inside which `key`, `fields` and the element's key are
    (`add_observations(observations: [{entityName, contents}])`)."""


class Elements(msgspec.Struct, frozen=True, array_like=True):
    """An array field of an entity that has tools of its own: `comments` with `add_comment`/`delete_comment`.

    `add.fields`/`update.fields` map element fields to parameters; a scalar element (a label) is the single field
    ``""``.
    `key` is the element's field that `remove` and `update` take (``""`` for scalars).
    """

    field: str
    key: str = ""
    add: Binding | None = None
    remove: Binding | None = None
    update: Binding | None = None
    remove_key: str | None = None
    """The parameter of `remove` (and `update`) that takes the element's key; `Binding.key` takes the parent's."""


class Collection(msgspec.Struct, frozen=True, array_like=True):
    """A family of tools over one noun (three-tools 5). Only what is certain is bound; the rest stay plain tools."""

    name: str
    noun: str
    key: str
    """The entity's field that holds its key; a reader that does not repeat the key leaves it to the caller to add.
    Empty: it has none, all its fields together are what it is, and `delete` takes it whole (a relation)."""
    get: Binding | None = None
    list: Binding | None = None
    search: Binding | None = None
    create: Binding | None = None
    update: Binding | None = None
    delete: Binding | None = None
    elements: tuple[Elements, ...] = ()
    fields: tuple[str, ...] = ()
    """Entity fields known from the output schema, the create/update parameters, or a first result."""
    version: str | None = None
    """A field that changes with every write (`version`, `etag`, `updated_at`), used for conflicts."""
    edits: tuple[Binding, ...] = ()
    """Tools that change one entity, named by `key`, in their own way (`edit_file`): undone with `update` from a
    before-image that `get` gives."""
    source: str = "inferred"
    """`inferred` | `profile` | `configured`."""


class Connector(msgspec.Struct, frozen=True, array_like=True):
    """One upstream MCP server as the catalogue knows it. Tools stand in first-seen order."""

    name: str
    state: ConnectorState
    mode: Mode
    tools: tuple[Tool, ...] = ()
    collections: tuple[Collection, ...] = ()
    expose: str = "program"
    """`program`: reachable inside programs. `tools`: its tools are also passed through under their own names."""
    trusted: bool = True
    """False: the server's annotations are ignored."""
    server: str = ""
    """`serverInfo` name and version, for people."""
    detail: str = ""
    """Why it is not ready, for people."""
    alias: str = ""
    """As the registry gave it, empty where nobody did: `namespace` is what to read."""

    @property
    def namespace(self) -> str:
        """JavaScript identifier of its namespace in programs; unique in a catalogue. Equals `name` where it can."""
        return self.alias or connector_alias(self.name)


class Catalogue(msgspec.Struct, frozen=True, array_like=True):
    """One snapshot. `number` grows by one with every change; a plan names the number it was built on."""

    number: int
    connectors: tuple[Connector, ...]

    def connector(self, name: str) -> Connector | None:
        """Return the connector of that name, or None."""
        return next((c for c in self.connectors if c.name == name), None)


def find_tool(connector: Connector, name: str) -> Tool | None:
    """Return the connector's tool by its upstream name, or None."""
    return next((tool for tool in connector.tools if tool.name == name), None)
