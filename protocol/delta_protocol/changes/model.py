"""What a program asked to change, and the plan made of it. Shared by sandbox (recording), plan and journal.

Values are JSON text with exact integers (`delta_protocol.codecs.exact_json`). Where a value stands for something that
exists only after an earlier planned call was made, the JSON holds null at that place and a `Hole` names the place and
what goes there.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from delta_protocol.wire.message import Json

Path = tuple[str | int, ...]
"""Keys and indexes from a value's root."""


class ResultRef(msgspec.Struct, frozen=True, array_like=True, tag="ref"):
    """A part of the decoded result of an earlier write of the same program; `write` is the recording's write id."""

    write: int
    path: Path = ()


class Text(msgspec.Struct, frozen=True, array_like=True, tag="text"):
    """Literal text between references, in a template string."""

    text: str


class Hole(msgspec.Struct, frozen=True, array_like=True):
    """What fills `path`: one `ResultRef` alone keeps its JSON type; several parts are joined as text."""

    path: Path
    parts: tuple[ResultRef | Text, ...]


class Value(msgspec.Struct, frozen=True, array_like=True):
    """A JSON value with holes."""

    json: Json
    holes: tuple[Hole, ...] = ()


class Op(StrEnum):
    """One recorded mutation of an entity (sandbox 6)."""

    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SPLICE = "splice"
    REPLACE = "replace"


class Mutation(msgspec.Struct, frozen=True, array_like=True):
    """`path` is where, from the entity's root. `value`: the new value (set, replace) or list of values (append,
    splice).
    """

    op: Op
    path: Path
    value: Value | None = None
    start: int = 0
    remove: int = 0
    line: int = 0


class EntityRef(msgspec.Struct, frozen=True, array_like=True):
    """Which entity: connector, collection, and the key as JSON text."""

    connector: str
    collection: str
    key: Json


class EntityChange(msgspec.Struct, frozen=True, array_like=True):
    """An entity the program read and then mutated. `after` is our own replay of `mutations` on `before`, never the
    worker's word. `complete` is False when it came from a list that may show less than the entity has."""

    entity: EntityRef
    before: Json
    after: Value
    mutations: tuple[Mutation, ...]
    seq: int
    """Order of the first mutation among all changes and writes of the program."""
    line: int = 0
    complete: bool = True
    read_fields: tuple[str, ...] = ()
    """Top-level fields the program looked at; checked for conflicts too."""


class Write(msgspec.Struct, frozen=True, array_like=True):
    """A write tool called by name, or a collection's create or delete. `id` is what `ResultRef.write` names."""

    id: int
    connector: str
    tool: str
    arguments: Value
    seq: int
    line: int = 0
    column: int = 0
    operation: str = "call"
    """`call` | `create` | `delete`."""
    entity: EntityRef | None = None
    """delete: what is deleted."""
    before: Json | None = None
    """delete: the entity as this program read it, if it did."""
    changes: tuple[Mutation, ...] = ()
    """create: mutations of the new entity after its creation, already folded into `arguments` where its tool can take
    them; what is left becomes updates that depend on this call."""


class Read(msgspec.Struct, frozen=True, array_like=True):
    """One read the program made, kept so that the plan can be derived again."""

    connector: str
    tool: str
    arguments: Json
    occurrence: int
    result: Json
    """The decoded result as the program saw it (structured content, JSON text, or text as a JSON string)."""
    error: bool = False


class Recording(msgspec.Struct, frozen=True, array_like=True):
    """Everything one program run asked for, after the trusted replay."""

    changes: tuple[EntityChange, ...] = ()
    writes: tuple[Write, ...] = ()
    reads: tuple[Read, ...] = ()
    notes: tuple[str, ...] = ()


class Reversibility(StrEnum):
    """Class of a planned call (plan-apply-undo 5.4): R0 true inverse, R1 update with before-image, R2 restorable as a
    new object, R3 irreversible or unknown."""

    R0 = "R0"
    R1 = "R1"
    R2 = "R2"
    R3 = "R3"


class Inverse(msgspec.Struct, frozen=True, array_like=True):
    """How a call is taken back. Holes may refer to the call's own result (`ResultRef.write` = the call's number).

    `tool` belongs to the call's own connector.
    """

    tool: str
    arguments: Value
    words: str


class ReadBack(msgspec.Struct, frozen=True, array_like=True):
    """How a call's effect is seen: call `tool`, take `path` of its decoded result, compare `expect`.

    `expect` maps top-level fields to wanted values (with holes). `absent`: the reader must say that it is not there.
    `contains`/`lacks`: (field, element) pairs that an array field must or must not hold, an element being matched on
    the fields it gives.
    """

    tool: str
    arguments: Value
    path: Path = ()
    expect: Value = Value(b"{}")
    absent: bool = False
    contains: tuple[tuple[str, Value], ...] = ()
    lacks: tuple[tuple[str, Value], ...] = ()
    changed: bool = False
    """The tool changes the entity in its own way (`edit_file`): the reader must show something else than before."""


class BeforeRead(msgspec.Struct, frozen=True, array_like=True):
    """The read that gives an entity's before-image. With `lacks`: it is not there if the list holds no such element."""

    entity: EntityRef
    read: ReadBack


class PlannedCall(msgspec.Struct, frozen=True, array_like=True):
    """One call of a plan. `number` is 1-based; holes refer to lower numbers only."""

    number: int
    connector: str
    tool: str
    arguments: Value
    reversibility: Reversibility
    words: str
    """What it does, for people: `T-1: status open → closed`."""
    entity: EntityRef | None = None
    operation: str = "call"
    """`update` | `create` | `delete` | `add` | `remove` | `call`."""
    fields: tuple[str, ...] = ()
    """Top-level fields of the entity that the call writes."""
    inverse: Inverse | None = None
    irreversible_because: str | None = None
    read_back: ReadBack | None = None
    probe: ReadBack | None = None
    """How to find out, after a lost reply, whether the call was made."""
    line: int = 0
    writes: tuple[tuple[int, Path], ...] = ()
    """Which of the recording's writes this call makes, and where each one's own result lies in the call's decoded
    result.
    """
    before_from: tuple[BeforeRead, ...] = ()
    """What is not known yet of the entities: the journal reads it when the plan is handed in, and completes the call.
    """


class Precondition(msgspec.Struct, frozen=True, array_like=True):
    """An entity as it was read: re-read with `tool`/`arguments` before anything is sent, and compared on `fields`.

    `before` null: it must not be there. The field ``""`` is the whole entity.
    """

    entity: EntityRef
    tool: str
    arguments: Json
    path: Path
    before: Json
    fields: tuple[str, ...]
    version: str | None = None


class Plan(msgspec.Struct, frozen=True, array_like=True):
    """Ordered calls with everything needed to check, make, read back and take them back.

    `hash` is sha256 over the canonical form of all other fields; an approval is bound to it.
    """

    catalogue: int
    calls: tuple[PlannedCall, ...]
    preconditions: tuple[Precondition, ...] = ()
    notes: tuple[str, ...] = ()
    hash: str = ""


class DeltaState(StrEnum):
    """The one state table of a delta (plan-apply-undo, States of a delta)."""

    PLANNED = "planned"
    WAITING = "waiting"
    APPLYING = "applying"
    APPLIED = "applied"
    UNDOING = "undoing"
    UNDONE = "undone"
    PARTLY_UNDONE = "partly_undone"
    DECLINED = "declined"
    EXPIRED = "expired"
    REFUSED = "refused"
    FAILED = "failed"
    """The program itself failed: there was never a plan."""
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"
    PARTIAL = "partial"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"


class CallState(StrEnum):
    """The state of one planned call (plan-apply-undo 5.10)."""

    PLANNED = "planned"
    INTENT = "intent"
    SENT = "sent"
    ACKED = "acked"
    FAILED = "failed"
    UNKNOWN = "unknown"
    VERIFIED = "verified"
    DIFFERS = "differs"
    UNVERIFIABLE = "unverifiable"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"


class FieldConflict(msgspec.Struct, frozen=True, array_like=True):
    """`wanted` is null where the program only read the field."""

    entity: str
    field: str
    was: Json
    now: Json
    wanted: Json
