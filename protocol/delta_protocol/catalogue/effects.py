"""Read or write? Every tool gets an effect and the reason for it (three-tools 4, plan-apply-undo 5.4).

The first that answers decides: the user's configuration; a shipped profile; argument rules; the tool's annotations,
unless its connector is not trusted or its name contradicts them; the verb of its name; else it writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

from delta_protocol.catalogue import schemas
from delta_protocol.catalogue.model import ArgumentRule, Effect, Tool
from delta_protocol.catalogue.names import word_set, words
from delta_protocol.catalogue.profiles import Profile, tool_profile
from delta_protocol.codecs import exact_json
from delta_protocol.config import ConnectorConfig
from delta_protocol.wire.message import Json

READ_VERBS = word_set("get list search find read describe show fetch lookup count view retrieve query whoami")
STRONG_WRITES = word_set(
    "create update delete remove send post merge approve set put patch add drop rename move archive execute run "
    "publish transfer pay write edit insert upsert destroy erase purge truncate overwrite revoke grant deploy "
    "kill"
)
"""Verbs that no claim of being read-only makes believable. The list of plan-apply-undo 5.4, and its near synonyms."""

_HTTP_READS = frozenset({"get", "head", "options"})
_HTTP_VERBS = _HTTP_READS | {"post", "put", "patch", "delete"}
_METHOD_ARGUMENTS = frozenset({"method", "http_method", "httpmethod"})
_ACTION_ARGUMENTS = frozenset({"action", "operation", "command", "mode", "op"})
_DRY_RUN_ARGUMENTS = frozenset({"dry_run", "dryrun", "dry-run"})
_CODE_ARGUMENTS = frozenset({"code", "script", "sql", "statement", "command", "expression"})
"""Text that a machine carries out: it may do anything, required or not."""
_BODY_ARGUMENTS = word_set(
    "body text message content html markdown data payload comment note instructions prompt value values"
)


class Decision(NamedTuple):
    """`rules` are tried in order before `effect` holds."""

    effect: Effect
    reason: str
    rules: tuple[ArgumentRule, ...] = ()


def decide(definition: Mapping[str, Any], config: ConnectorConfig, profile: Profile | None = None) -> Decision:
    """Return what the tool may do and why. Never raises for what a connector sent: the doubtful writes."""
    name = str(definition.get("name", ""))
    parameters = schemas.properties(definition.get("inputSchema"))
    configured = config.effects.get(name)
    if isinstance(configured, Effect):
        return Decision(configured, "configured")
    rules = [rule for given in configured or () if (rule := _configured_rule(given.when, given.then))]
    known = tool_profile(profile, name, parameters)
    trusted = config.trust != "annotations-off"
    if known:
        rules += known.rules
        if known.effect:
            return Decision(known.effect, "known from the server's profile", tuple(rules))
    if trusted:
        rules += _argument_rules(parameters)
    base = _http_verb(name, parameters) or _claimed(name, definition, parameters, trusted=trusted)
    chosen = next((option for option in map(_choice, parameters, parameters.values()) if option), None)
    if chosen and base.effect is Effect.READ:
        base = Decision(Effect.WRITE, f'"{chosen}" decides what it does')
    return Decision(base.effect, base.reason, tuple(rules))


def effect_of(tool: Tool, arguments: Json) -> Effect:
    """Return what this call of the tool may do: the first rule that all its arguments match, else the tool's effect.

    A string argument is matched as it is, any other value as its JSON text. Raises `Invalid` if `arguments` is not
    JSON.
    """
    if not tool.rules:
        return tool.effect
    given = exact_json.decode(arguments, what="arguments")
    if not isinstance(given, dict):
        return tool.effect
    for rule in tool.rules:
        if all(
            _matches(cast("dict[str, Any]", given), name, pattern)
            for name, pattern in {rule.argument: rule.pattern, **rule.also}.items()
        ):
            return rule.then
    return tool.effect


def _matches(arguments: Mapping[str, Any], name: str, pattern: str) -> bool:
    if name not in arguments:
        return False
    value = arguments[name]
    return re.search(pattern, value if isinstance(value, str) else exact_json.encode(value).decode()) is not None


def _configured_rule(when: Mapping[str, str], then: Effect) -> ArgumentRule | None:
    if not when:
        return None
    (argument, pattern), *others = when.items()
    return ArgumentRule(argument, pattern, then, dict(others))


def _argument_rules(parameters: Mapping[str, schemas.Schema]) -> list[ArgumentRule]:
    """Rules that the parameters themselves show: a choice of verbs, or a switch for trying out."""
    rules: list[ArgumentRule] = []
    for name, schema in parameters.items():
        plain = name.lower()
        options = _options(schema)
        if plain in _METHOD_ARGUMENTS and options:
            reads = [option for option in options if option.lower() in _HTTP_READS]
        elif plain in _ACTION_ARGUMENTS and options:
            reads = [option for option in options if _reads(words(option))]
        elif plain in _DRY_RUN_ARGUMENTS and schema.get("type") == "boolean":
            reads = ["true"]
        else:
            continue
        if reads and len(reads) < max(len(options), 2):
            rules.append(ArgumentRule(name, rf"\A(?:{'|'.join(map(re.escape, reads))})\Z", Effect.READ))
    return rules


def _choice(name: str, schema: schemas.Schema) -> str | None:
    """The parameter's name, if by it the caller chooses a method or an action that is not a read."""
    if name.lower() not in _METHOD_ARGUMENTS | _ACTION_ARGUMENTS:
        return None
    options = [words(option) for option in _options(schema)]
    writes = any(
        option and (option[0] in STRONG_WRITES or option[0] in _HTTP_VERBS - _HTTP_READS) for option in options
    )
    return name if writes else None


def _options(schema: schemas.Schema) -> list[str]:
    choices = schema.get("enum")
    return [str(choice) for choice in cast("list[object]", choices)] if isinstance(choices, list) else []


def _reads(parts: tuple[str, ...]) -> bool:
    return bool(parts) and parts[0] in READ_VERBS and not STRONG_WRITES & set(parts)


def _http_verb(name: str, parameters: Mapping[str, schemas.Schema]) -> Decision | None:
    """A tool that is one HTTP method on any path (`jira_get {path}`)."""
    parts = words(name)
    if len(parts) not in (1, 2) or not {"path", "url", "endpoint"} & set(parameters):
        return None
    *_, verb = parts
    if verb not in _HTTP_VERBS:
        return None
    return Decision(Effect.READ if verb in _HTTP_READS else Effect.WRITE, f"HTTP {verb.upper()} on any path")


def _claimed(
    name: str, definition: Mapping[str, Any], parameters: Mapping[str, schemas.Schema], *, trusted: bool
) -> Decision:
    hint = schemas.as_schema(definition.get("annotations")).get("readOnlyHint") if trusted else None
    verb = first_verb(words(name))
    if hint is True and verb in STRONG_WRITES:
        return Decision(Effect.WRITE, f'suspect: says it only reads, but its name says "{verb}"')
    if hint is True:
        return Decision(Effect.READ, "says it only reads (readOnlyHint)")
    if hint is False:
        return Decision(Effect.WRITE, "says it does not only read (readOnlyHint)")
    return _by_name(name, definition, parameters)


def _by_name(name: str, definition: Mapping[str, Any], parameters: Mapping[str, schemas.Schema]) -> Decision:
    parts = words(name)
    verb = first_verb(parts)
    strong = next((part for part in parts if part in STRONG_WRITES), None)
    if verb not in READ_VERBS:
        return Decision(Effect.WRITE, f'its name says "{verb}"' if verb else "nothing says that it only reads")
    if strong:
        return Decision(Effect.WRITE, f'its name says "{verb}" and also "{strong}"')
    required = schemas.required(definition.get("inputSchema"))
    body = next((given for given in parameters if _is_body(given, parameters, required)), None)
    if body:
        return Decision(Effect.WRITE, f'its name says "{verb}", but it takes free text in "{body}"')
    return Decision(Effect.READ, f'its name says "{verb}"')


def first_verb(parts: tuple[str, ...]) -> str | None:
    """Return the first word that is a verb we know, reading or writing."""
    return next((part for part in parts if part in READ_VERBS or part in STRONG_WRITES), None)


def _is_body(name: str, parameters: Mapping[str, schemas.Schema], required: tuple[str, ...]) -> bool:
    schema = parameters.get(name, schemas.EMPTY)
    if "enum" in schema or schema.get("type", "string") != "string":
        return False
    return name.lower() in _CODE_ARGUMENTS or (name.lower() in _BODY_ARGUMENTS and name in required)
