"""The fewest tool calls that bring one entity from its before-image to where the program left it (plan-apply-undo
5.8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delta_protocol.catalogue.model import Collection, Connector, Elements, find_tool
from delta_protocol.changes import binding as bind
from delta_protocol.changes.definitions import required_parameters
from delta_protocol.changes.diff import ElementChanges, calls_needed, changed_fields, element_changes
from delta_protocol.changes.holes import Tree
from delta_protocol.changes.words import article, short
from delta_protocol.errors import Invalid


@dataclass(frozen=True, slots=True)
class Subject:
    """The entity being covered. `complete`: the before-image shows all of it. `lines`: where each field was
    assigned.
    """

    connector: Connector
    collection: Collection
    key: Tree
    complete: bool
    line: int
    lines: dict[str, int]

    def line_of(self, field: str) -> int:
        """Return the program's line that assigned `field`, or that of the first change."""
        return self.lines.get(field) or self.line


Made = list[tuple[str, dict[str, Tree]]]
"""(tool, arguments) in order."""


def cover(subject: Subject, before: dict[str, Any], after: dict[str, Tree]) -> Made:
    """Return the calls. Raises `Invalid`, naming line and settable fields, for a change no tool makes."""
    fields = changed_fields(before, after)
    update = subject.collection.update
    settable = set(update.fields) if update is not None and update.content is None else set[str]()
    by_elements: dict[str, tuple[Elements, ElementChanges]] = {}
    for elements in subject.collection.elements:
        if elements.field in fields:
            found = element_changes(elements, before.get(elements.field) or [], after.get(elements.field) or [])
            if found is not None:
                by_elements[elements.field] = (elements, found)
    whole = {name for name in fields if name in settable and _may_set_whole(subject, before, fields[name], name)}
    stuck = [name for name in fields if name not in whole and name not in by_elements]
    if stuck:
        raise _unmatched(subject, stuck[0], before, fields[stuck[0]], settable)
    chosen = _choose(whole, by_elements)
    calls: Made = []
    if chosen:
        assert update is not None
        values = {name: fields[name] for name in update.fields if name in chosen}
        wanted = _with_required(subject, before, values)
        calls.append((update.tool, bind.update_arguments(update, subject.key, wanted)))
    for name, (elements, found) in by_elements.items():
        if name not in chosen:
            calls.extend(_element_calls(subject.key, elements, found))
    return calls


def _may_set_whole(subject: Subject, before: dict[str, Any], value: Tree, name: str) -> bool:
    nested = isinstance(value, dict | list) or isinstance(before.get(name), dict | list)
    return subject.complete or not nested


def _choose(whole: set[str], by_elements: dict[str, tuple[Elements, ElementChanges]]) -> set[str]:
    """Return the fields to set whole: all that have no other way, and arrays where that takes fewer calls."""
    must = whole - set(by_elements)
    either = whole & set(by_elements)
    cost = sum(calls_needed(*by_elements[name]) for name in either)
    # One update call carries any number of fields: it is worth it if made anyway, or if it saves more than it costs.
    return must | either if must or cost > 1 else must


def _with_required(subject: Subject, before: dict[str, Any], values: dict[str, Tree]) -> dict[str, Tree]:
    update = subject.collection.update
    assert update is not None
    tool = find_tool(subject.connector, update.tool)
    required = required_parameters(tool) if tool is not None else frozenset[str]()
    missing = {
        name: before[name]
        for name, parameter in update.fields.items()
        if parameter in required and parameter != update.key and name not in values and name in before
    }
    return {name: (values | missing)[name] for name in update.fields if name in values or name in missing}


def _element_calls(key: Tree, elements: Elements, found: ElementChanges) -> Made:
    calls: Made = []
    remove, add, change = elements.remove, elements.add, elements.update
    if found.removed and remove is not None:
        names = [item[elements.key] for item in found.removed]
        for some in [names] if remove.many else [[name] for name in names]:
            calls.append((remove.tool, bind.remove_arguments(elements, remove, key, some)))
    for name, fields in found.changed:
        assert change is not None
        calls.append((change.tool, bind.change_arguments(elements, change, key, name, fields)))
    if found.added and add is not None:
        for group in [list(found.added)] if add.many else [[item] for item in found.added]:
            calls.append((add.tool, bind.add_arguments(add, key, group)))
    return calls


def _unmatched(subject: Subject, name: str, before: dict[str, Any], value: Tree, settable: set[str]) -> Invalid:
    noun, line = subject.collection.noun, subject.line_of(name)
    can = sorted(settable | {elements.field for elements in subject.collection.elements})
    if name in settable:
        why = (
            f"`{name}` of {noun} {short(subject.key)} came from a list that may show only part of it; "
            f"read it with get first"
        )
    else:
        listed = ", ".join(f"`{field}`" for field in can) or "nothing"
        what = f"{short(before.get(name))} → {short(value)}"
        elements = next((e for e in subject.collection.elements if e.field == name), None)
        reason = "cannot be changed like that with its tools" if elements is not None else "cannot be set"
        why = f"`{name}` of {article(noun)} {reason} ({what}); settable: {listed}"
    return Invalid(why, line=line, field=name, settable=can)
