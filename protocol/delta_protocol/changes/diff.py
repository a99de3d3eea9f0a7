"""What differs between an entity as it was read and as the program left it, in terms that tools can make.

Pure. Top-level fields are what update tools set; an array field may have tools for its elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delta_protocol.catalogue.model import Elements
from delta_protocol.changes.holes import Tree
from delta_protocol.codecs.exact_json import is_array, is_object


@dataclass(frozen=True, slots=True)
class ElementChanges:
    """An array's change as element operations. `changed`: (key, fields that differ, the element before)."""

    added: tuple[dict[str, Tree], ...]
    removed: tuple[dict[str, Any], ...]
    changed: tuple[tuple[Any, dict[str, Tree]], ...] = ()


def changed_fields(before: dict[str, Any], after: dict[str, Tree]) -> dict[str, Tree]:
    """Return each differing top-level field with its new value; null for one that is gone."""
    differing = {name: value for name, value in after.items() if name not in before or not equal(before[name], value)}
    return differing | {name: None for name, value in before.items() if name not in after and value is not None}


def equal(a: Tree, b: Tree) -> bool:
    """Return whether two trees are the same JSON (so that true is not 1, while 1 is 1.0)."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if is_object(a) and is_object(b):
        return a.keys() == b.keys() and all(equal(item, b[key]) for key, item in a.items())
    if is_array(a) and is_array(b):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def element_changes(elements: Elements, before: Tree, after: Tree) -> ElementChanges | None:
    """Return the change as element operations, or None where they cannot express it (order, no key, no tool)."""
    if not is_array(before) or not is_array(after):
        return None
    found = _keyed(elements.key, before, after) if elements.key else _scalars(before, after)
    if found is None or (found.added and elements.add is None) or (found.removed and elements.remove is None):
        return None
    if found.changed and not _can_change(elements, found):
        return None
    return found if _takes_all(elements, found) else None


def _scalars(before: list[Any], after: list[Tree]) -> ElementChanges | None:
    kept: list[Tree] = []
    removed: list[Any] = []
    rest = list(after)
    for item in before:
        at = next((index for index, other in enumerate(rest) if equal(item, other)), None)
        if at is None:
            removed.append(item)
        else:
            kept.append(rest.pop(at))
    # Element tools append: any other order must be set as a whole.
    if not equal([*kept, *rest], after):
        return None
    return ElementChanges(tuple({"": item} for item in rest), tuple({"": item} for item in removed))


def _keyed(key: str, before: list[Any], after: list[Tree]) -> ElementChanges | None:
    if not all(is_object(item) and key in item for item in before):
        return None
    if not all(is_object(item) for item in after):
        return None
    known = {_name(item[key]): item for item in before}
    if len(known) != len(before):
        return None
    added = [item for item in after if _name(item.get(key)) not in known]
    staying = [item for item in after if _name(item.get(key)) in known]
    order = [_name(item[key]) for item in staying]
    if order != [name for name in known if name in set(order)] or not equal([*staying, *added], after):
        return None
    changed = tuple(
        (item[key], changed_fields(known[_name(item[key])], item))
        for item in staying
        if not equal(known[_name(item[key])], item)
    )
    return ElementChanges(tuple(added), tuple(item for name, item in known.items() if name not in set(order)), changed)


def _name(key: Tree) -> str:
    return repr(key)


def _can_change(elements: Elements, found: ElementChanges) -> bool:
    return elements.update is not None and all(
        set(fields) <= set(elements.update.fields) for _, fields in found.changed
    )


def _takes_all(elements: Elements, found: ElementChanges) -> bool:
    binding = elements.add
    if binding is None or binding.content is not None:
        return True
    return all(set(item) <= set(binding.fields) for item in found.added)


def calls_needed(elements: Elements, found: ElementChanges) -> int:
    """Return how many calls the element operations take."""
    add_many = elements.add is not None and elements.add.many
    remove_many = elements.remove is not None and elements.remove.many
    adds = min(1, len(found.added)) if add_many else len(found.added)
    removes = min(1, len(found.removed)) if remove_many else len(found.removed)
    return adds + removes + len(found.changed)
