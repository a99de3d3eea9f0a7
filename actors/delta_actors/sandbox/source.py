"""Preparing a program: TypeScript blanked in place, conditions guarded, syntax errors found with their column.

Runs in the worker, since the parser is C over hostile text. Every position is kept: types become spaces, and what is
inserted is listed so that the prelude can subtract it again (spec/sandbox 5).
"""

from __future__ import annotations

import bisect
from typing import Final, NamedTuple

import tree_sitter
import tree_sitter_typescript

_PARSER: Final = tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))

_TYPES: Final = frozenset(
    {
        "type_annotation",
        "type_arguments",
        "type_parameters",
        "interface_declaration",
        "type_alias_declaration",
        "accessibility_modifier",
        "override_modifier",
        "opting_type_annotation",
        "omitting_type_annotation",
        "asserts_annotation",
        "type_predicate_annotation",
        "ambient_declaration",
        "abstract_method_signature",
        "function_signature",
        "implements_clause",
        "index_signature",
    }
)
_KEPT_OPERAND: Final = frozenset({"as_expression", "satisfies_expression", "non_null_expression"})
_MEANINGFUL: Final = {
    "enum_declaration": "enum",
    "internal_module": "namespace",
    "module": "module",
    "import_alias": "import alias",
    "decorator": "decorator",
}
_MODULES: Final = {"import_statement": "import", "export_statement": "export"}
_MARKED: Final = frozenset(
    {"optional_parameter", "required_parameter", "public_field_definition", "variable_declarator", "method_definition"}
)
_MARKS: Final = frozenset({"?", "!", "readonly", "declare", "abstract"})
_CONDITIONS: Final = frozenset(
    {"if_statement", "while_statement", "do_statement", "for_statement", "ternary_expression"}
)
_LOGIC: Final = frozenset({"&&", "||", "??"})
_EQUALITY: Final = frozenset({"===", "!==", "==", "!="})
_SIGNS: Final = frozenset({"-", "+", "~"})
_LATER: Final = frozenset({"||=", "&&=", "??="})
_NUMBERS: Final = frozenset({"number", "unary_expression", "update_expression", "true", "false", "null", "undefined"})
_FUNCTIONS: Final = frozenset(
    {
        "function_expression",
        "function_declaration",
        "arrow_function",
        "method_definition",
        "generator_function",
        "generator_function_declaration",
        "class_static_block",
    }
)
_VALUES: Final = frozenset(
    {
        "identifier",
        "member_expression",
        "subscript_expression",
        "call_expression",
        "await_expression",
        "template_string",
        "assignment_expression",
        "parenthesized_expression",
        "non_null_expression",
        "as_expression",
    }
)


PLUS: Final = "_plus"
"""What the guard's name has more where it stands for a sum."""
RETURN: Final = "_return"
"""What it has more where it stands for what the program returns."""


class SourceError(Exception):
    """The text is not a program. `line` and `column` are 1-based."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class Prepared(NamedTuple):
    """A function expression to evaluate. `shifts`: line -> [column, length, ...] of what was inserted; `arithmetic`:
    places of `+` between values that no text is part of."""

    text: str
    plain: str
    """The same without any change: what plain JavaScript is compiled from."""
    shifts: dict[int, list[int]]
    arithmetic: list[str]
    typed: bool
    """Whether there is TypeScript in it."""
    generic: bool
    """Whether a call has a predefined type as type argument, which is other JavaScript when read as such."""


class _Edits:
    """What the walk over the tree found; offsets are bytes."""

    def __init__(self, text: bytes, guard: str, connectors: frozenset[bytes]) -> None:
        self.guard = guard
        self.connectors = connectors
        self.blanked = bytearray(text)
        self.insertions: list[tuple[int, str]] = []
        self.pluses: list[int] = []
        self.typed = False
        self.generic = False

    def insert(self, node: tree_sitter.Node, before: str, after: str = ")") -> None:
        self.insertions.append((node.start_byte, before))
        self.insertions.append((node.end_byte, after))

    def blank(self, start: int, end: int) -> None:
        self.typed = True
        for index in range(start, end):
            if self.blanked[index] not in b"\r\n":
                self.blanked[index] = 0x20


def prepare(source: str, names: list[str], guard: str) -> Prepared:
    """Return `source` as an async function of `names`, then of `guard` (of conditions), `guard`_plus (of sums) and
    `guard`_return (which marks where the program ends).

    Raises `SourceError` for TypeScript that cannot be blanked and for a text that ends the function around it.
    """
    head = f"(async function program({','.join([*names, guard, guard + PLUS, guard + RETURN])}){{"
    text = f"{head}{source}\n}})"
    data = text.encode("utf-8", "replace")
    tree = _PARSER.parse(data)
    _refuse_breakout(tree.root_node, source, len(head))
    edits = _Edits(data, guard, frozenset(name.encode() for name in names))
    _walk(tree.root_node, edits, len(head.encode()))
    return _apply(text, data, edits, head)


def locate_error(source: str, line: int) -> tuple[int, int]:
    """Return the place of the first syntax error at or after `line` (0: anywhere), or (line, 1)."""
    lines = source.split("\n")
    if line > len(lines):
        return len(lines), len(lines[-1]) + 1
    lead = "async function program(){"
    data = f"{lead}{source}\n}}".encode("utf-8", "replace")
    for node in _errors(_PARSER.parse(data).root_node):
        row, column = node.start_point
        if row + 1 >= line:
            before = data.split(b"\n")[row][:column].decode("utf-8", "replace")
            return row + 1, max(1, len(before) + 1 - (len(lead) if row == 0 else 0))
    return max(1, line), 1


def _errors(root: tree_sitter.Node) -> list[tree_sitter.Node]:
    found: list[tree_sitter.Node] = []
    stack = [root]
    while stack:
        node = stack.pop()
        if node.is_error or node.is_missing:
            inner = [child for child in node.children if child.is_error or child.is_missing or child.has_error]
            found.append(node)
            stack.extend(reversed(inner))
        elif node.has_error:
            stack.extend(reversed(node.children))
    return sorted(found, key=lambda node: node.start_byte)


def _refuse_breakout(root: tree_sitter.Node, source: str, head: int) -> None:
    statements = [child for child in root.children if child.type != "comment"]
    if root.has_error or len(statements) <= 1:
        return
    row, column = statements[0].end_point
    lines = source.split("\n")
    shift = head if row == 0 else 0
    raise SourceError("an unmatched } ends the program", min(row + 1, len(lines)), max(1, column - shift))


def _walk(root: tree_sitter.Node, edits: _Edits, head: int) -> None:
    stack = [(root, 0)]
    while stack:
        node, functions = stack.pop()
        kind = node.type
        functions += kind in _FUNCTIONS
        if kind in _MEANINGFUL and node.is_named and node.start_byte >= head:
            row, column = node.start_point
            raise SourceError(
                f"TypeScript's {_MEANINGFUL[kind]} is not supported; types are removed, nothing is translated",
                row + 1,
                column + 1 - (head if row == 0 else 0),
            )
        if kind == "call_expression" and node.children[0].type == "import":
            kind = "import_statement"
        if kind in _MODULES and node.start_byte >= head:
            row, column = node.start_point
            raise SourceError(
                f"programs have no modules: {_MODULES[kind]} is not available; connectors are variables already",
                row + 1,
                column + 1 - (head if row == 0 else 0),
            )
        if kind in _TYPES:
            _blank_type(node, edits)
            continue
        if kind in _KEPT_OPERAND:
            edits.blank(node.children[0].end_byte, node.end_byte)
            stack.append((node.children[0], functions))
            continue
        if kind == "type_assertion":
            edits.blank(node.start_byte, node.children[-1].start_byte)
            stack.append((node.children[-1], functions))
            continue
        if kind in _MARKED:
            for child in node.children:
                if child.type in _MARKS:
                    edits.blank(child.start_byte, child.end_byte)
        if kind == "return_statement" and functions == 1:
            _mark_return(node, edits)
        _guard(node, edits)
        stack.extend((child, functions) for child in reversed(node.children))


def _blank_type(node: tree_sitter.Node, edits: _Edits) -> None:
    edits.blank(node.start_byte, node.end_byte)
    if node.type == "type_arguments" and any(child.type == "predefined_type" for child in node.children):
        edits.generic = True


def _guard(node: tree_sitter.Node, edits: _Edits) -> None:
    kind = node.type
    if kind in _CONDITIONS:
        _wrap(node.child_by_field_name("condition"), edits)
    elif kind == "unary_expression":
        _guard_unary(node, edits)
    elif kind in ("switch_statement", "switch_case"):
        _wrap(node.child_by_field_name("value"), edits)
    elif kind == "for_in_statement":
        # The engine tells no place for what an iteration begins with.
        _wrap(node.child_by_field_name("right"), edits, promised=False)
    elif kind in ("variable_declarator", "assignment_expression"):
        target = node.child_by_field_name("name") or node.child_by_field_name("left")
        if target is not None and target.type == "array_pattern":
            _wrap(node.child_by_field_name("value") or node.child_by_field_name("right"), edits)
    elif kind == "member_expression" and node.children[-1].text == b"length":
        # No place for this either; in what a loop asks on every turn, plain variables are left alone.
        if node.children[0].type != "identifier" or not _asked_by_loop(node):
            _wrap(node.children[0], edits)
    elif kind == "spread_element":
        _wrap(node.named_children[0] if node.named_child_count else None, edits)
    elif kind == "binary_expression":
        _guard_binary(node, edits)
    elif kind == "augmented_assignment_expression":
        _guard_augmented(node, edits)
    elif kind == "subscript_expression":
        # A placeholder itself refuses to be an index; a text that it was put into cannot.
        index = node.child_by_field_name("index")
        if index is not None and index.type == "template_string":
            _wrap(index, edits)
    elif kind == "computed_property_name":
        # The engine tells no place for this.
        _wrap(node.named_children[0] if node.named_child_count else None, edits)


def _mark_return(node: tree_sitter.Node, edits: _Edits) -> None:
    """Let the program say where it returns a value, since what is wrong with the value is found later."""
    value = next((child for child in node.named_children if child.type != "comment"), None)
    if value is None or node.has_error:
        return
    if value.type == "sequence_expression":
        edits.insert(value, f"{edits.guard}{RETURN}((", "))")
    else:
        edits.insert(value, f"{edits.guard}{RETURN}(")


def _guard_unary(node: tree_sitter.Node, edits: _Edits) -> None:
    operator, argument = node.children[0].type, node.child_by_field_name("argument")
    # typeof asks whether a variable is there at all, so a plain one is left alone.
    asked = operator == "typeof" and argument is not None and argument.type == "member_expression"
    if operator == "!" or operator in _SIGNS or asked:
        _wrap(argument, edits)


def _guard_augmented(node: tree_sitter.Node, edits: _Edits) -> None:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if left is None or right is None or node.has_error:
        return
    operator = node.children[1]
    if operator.type in _LATER and left.type == "identifier":
        edits.insert(node, f"({edits.guard}({_text(left)}),")
    elif operator.type == "+=" and not _has_text(right):
        if left.type == "identifier" and right.type not in _NUMBERS:
            edits.blanked[operator.start_byte : operator.end_byte] = b"= "
            edits.insert(right, f"{edits.guard}{PLUS}({_text(left)},")
        else:
            edits.pluses.append(left.start_byte)


def _guard_binary(node: tree_sitter.Node, edits: _Edits) -> None:
    operator = node.children[1]
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    if operator.type in _LOGIC:
        _wrap(left, edits, promised=False)
    elif operator.type in _EQUALITY or operator.type == "**":
        _wrap(left, edits)
        _wrap(right, edits)
    elif operator.type == "+" and left is not None and right is not None and not (_has_text(left) or _has_text(right)):
        if node.has_error or left.type in _NUMBERS or right.type in _NUMBERS:
            edits.pluses.append(right.start_byte)
        else:
            edits.blanked[operator.start_byte] = ord(",")
            edits.insert(node, f"{edits.guard}{PLUS}(")


def _text(node: tree_sitter.Node) -> str:
    return (node.text or b"").decode("utf-8", "replace")


def _asked_by_loop(node: tree_sitter.Node) -> bool:
    child, parent = node, node.parent
    while parent is not None and parent.type in ("binary_expression", "parenthesized_expression"):
        child, parent = parent, parent.parent
    loops = ("for_statement", "while_statement", "do_statement")
    return parent is not None and parent.type in loops and parent.child_by_field_name("condition") == child


def _has_text(node: tree_sitter.Node) -> bool:
    while node.type == "parenthesized_expression" and node.named_child_count:
        node = node.named_children[0]
    if node.type in ("string", "template_string"):
        return True
    if node.type == "binary_expression" and node.children[1].type == "+":
        return _has_text(node.children[0]) or _has_text(node.children[2])
    return False


def _wrap(node: tree_sitter.Node | None, edits: _Edits, *, promised: bool = True) -> None:
    """Let the guard see the value of `node`; where it is a connector's call, it must not be a promise."""
    if node is not None and node.type == "parenthesized_expression" and node.named_child_count:
        node = node.named_children[0]
    if node is None or node.type not in _VALUES or node.has_error:
        return
    called = promised and node.type == "call_expression" and _root(node) in edits.connectors
    edits.insert(node, f"{edits.guard}(", ",1)" if called else ")")


def _root(node: tree_sitter.Node) -> bytes:
    while node.type in ("call_expression", "member_expression", "subscript_expression"):
        node = node.children[0]
    return node.text or b"" if node.type == "identifier" else b""


def _apply(text: str, data: bytes, edits: _Edits, head: str) -> Prepared:
    # Byte offsets to lines and characters; insertions at one offset keep their order (closing before opening).
    starts = [0]
    for index, byte in enumerate(data):
        if byte == 0x0A:
            starts.append(index + 1)
    pieces: list[bytes] = []
    shifts: dict[int, list[int]] = {1: [1, len(head)]}
    done, grown = 0, {1: 0}
    marks: list[tuple[int, int]] = []
    order = sorted(enumerate(edits.insertions), key=_nesting)
    for offset, inserted in (insertion for _, insertion in order):
        pieces += [bytes(edits.blanked[done:offset]), inserted.encode()]
        done = offset
        line, column = _place(data, starts, offset)
        shifts.setdefault(line, []).extend((column + grown.get(line, 0), len(inserted)))
        grown[line] = grown.get(line, 0) + len(inserted)
        marks.append((offset, len(inserted)))
    pieces.append(bytes(edits.blanked[done:]))
    arithmetic: list[str] = []
    for offset in edits.pluses:
        line, column = _place(data, starts, offset)
        before = sum(size for at, size in marks if starts[line - 1] <= at <= offset)
        arithmetic.append(f"{line}:{column + before}")
    return Prepared(b"".join(pieces).decode("utf-8", "replace"), text, shifts, arithmetic, edits.typed, edits.generic)


def _nesting(item: tuple[int, tuple[int, str]]) -> tuple[int, bool, int]:
    """Order what is inserted at one offset: what closes before what opens, inner before outer, outer before inner."""
    index, (offset, inserted) = item
    opens = not inserted.endswith(")")
    return offset, opens, index if opens else -index


def _place(data: bytes, starts: list[int], offset: int) -> tuple[int, int]:
    line = bisect.bisect_right(starts, offset)
    return line, len(data[starts[line - 1] : offset].decode("utf-8", "replace")) + 1
