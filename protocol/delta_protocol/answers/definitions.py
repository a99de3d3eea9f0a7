"""The three tools as a client sees them: constant, but for the connectors' API in the description of `code`.

Descriptions are read by a model before every task, so each stays under 90 tokens; clients cut descriptions and server
instructions, never an argument's description, so the API stands there (three-tools 2, acceptance 1 to 5, 15).
"""

from __future__ import annotations

from typing import Any

from delta_protocol.codecs import exact_json
from delta_protocol.mcp.types import ToolDefinition

DELTA = "delta"
DELTA_READ = "delta_read"
DELTA_APPLY = "delta_apply"

INSTRUCTIONS = (
    "Everything connected here is used through three tools. Write one program per task for `delta`: it reads now, its "
    "changes are planned, checked and then made together, read back, and can be undone with delta_apply "
    '{ undo: "d_…" }. The connectors\' API is the description of the `code` argument of `delta`; delta_read '
    '{ refs: [""] } lists it too, refs: ["<connector>.<name>"] gives exact types, refs: ["guide"] how programs are '
    "written. "
    "What the answer says is what happened: applied, rolled back, partial, unknown, or waiting for a person's approval."
)

GUIDE = """\
A program is JavaScript (ES2023; TypeScript types are allowed) with top-level await and return.
One program does one whole task.

Reads run at once; run independent ones together:
  const [a, b] = await Promise.all([tickets.ticket.get("T-1"), tickets.ticket.get("T-2")]);
Collections give entities. Change one like any object; at the end the changes become the fewest calls:
  a.status = "closed"; a.labels.push("late"); a.comments.push({ body: "Fixed" });
Lists page themselves:
  for await (const t of tickets.ticket.list({ status: "open" })) if (!t.assignee) t.assignee = "ada";
Create and delete:
  const n = await tickets.ticket.create({ title: "Follow-up" });
  await tickets.ticket.delete("T-9");
Every tool can also be called by its name:
  await tickets.add_comment({ ticket_id: "T-1", body: "see " + n.id });

Writes are only planned while the program runs. What a planned write returns stands for a value that is not there
yet: use it as an argument of a later write, put it into text, or return it. A condition, arithmetic or a read on it
fails and says where. After the program everything is checked, then made; if a call fails, what was made is taken back
where that is possible, and the answer says what remains.

Errors of reads can be caught with try/catch. A program that throws changes nothing. There are no files, no network,
no imports and no timers but sleep(ms). console.log is shown. Return only what you need: filter and count inside the
program. A long value is cut where it was too long, and says which result:<id> reads on.

dryRun: true plans only; delta_apply { delta } then makes the plan. A plan may have to wait for a person: say so, and
call delta_apply { delta } once they approved it. If something changed meanwhile: delta_apply { delta, onto: "now" }."""

_DELTA_ABOUT = (
    "Do a whole task with one program; its API is the description of `code`. Reads run now. Changes are planned, "
    "checked within the user's permissions, then made together with the fewest calls, read back, and can be undone "
    "(delta_apply { undo }). dryRun plans only."
)
_READ_ABOUT = (
    'Look up without changing anything. refs: "" (every connector), "<connector>", "<connector>.<name>" (exact types), '
    '"search:<words>", "result:<id>" with .path, [i], [a:b], "delta:<id>", "services", "journal", "guide". '
    "Or code: a program whose changes are only planned."
)
_APPLY_ABOUT = (
    'Make a plan that waits: { delta: "d_…" }, on fresh reads with onto: "now". Take an applied one back: '
    '{ undo: "d_…" }. Settle an interrupted one: { delta, resolve }.'
)


def definitions(api: str) -> tuple[ToolDefinition, ToolDefinition, ToolDefinition]:
    """Return the three tools; `api` is the connectors' API text."""
    return (
        ToolDefinition(
            DELTA,
            "Do it",
            _DELTA_ABOUT,
            _object(
                {
                    "code": {"type": "string", "description": api},
                    "dryRun": {"type": "boolean", "description": "plan only, change nothing"},
                    "again": {"type": "boolean", "description": "run although the same program was just applied"},
                },
                required=["code"],
            ),
            annotations=_annotations("Do it", reads=False),
        ),
        ToolDefinition(
            DELTA_READ,
            "Read",
            _READ_ABOUT,
            _object(
                {
                    "refs": {"type": "array", "items": {"type": "string"}, "description": "what to look up"},
                    "code": {"type": "string", "description": "a program, written as for delta; changes only planned"},
                }
            ),
            annotations=_annotations("Read", reads=True),
        ),
        ToolDefinition(
            DELTA_APPLY,
            "Apply or undo",
            _APPLY_ABOUT,
            _object(
                {
                    "delta": {"type": "string", "description": "id of the plan, d_…"},
                    "onto": {"type": "string", "enum": ["now"], "description": "run its program again, on fresh reads"},
                    "resolve": {"type": "string", "enum": ["finish", "roll_back"], "description": "if interrupted"},
                    "undo": {"type": "string", "description": "id of the delta to undo, d_…"},
                    "force": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": 'with undo: fields to put back although others changed them, as "T-1.status"',
                    },
                }
            ),
            annotations=_annotations("Apply or undo", reads=False),
        ),
    )


def _object(properties: dict[str, Any], required: list[str] | None = None) -> bytes:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return exact_json.encode({**schema, "additionalProperties": False})


def _annotations(title: str, *, reads: bool) -> bytes:
    if reads:
        return exact_json.encode({"title": title, "readOnlyHint": True, "openWorldHint": True})
    hints = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}
    return exact_json.encode({"title": title, **hints})
