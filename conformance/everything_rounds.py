"""Tools and a prompt that ask the client in rounds: the official suite's multi round-trip scenarios."""

from __future__ import annotations

import json

from delta_actors.mcp import DeltaServer, PromptMessage, Question, RequestContext, TextContent, elicit, roots, sample


def add_rounds(server: DeltaServer) -> None:
    """Add the tools that ask once."""

    @server.tool()
    async def test_input_required_result_elicitation(context: RequestContext) -> str:
        """Asks for a name."""
        return f"Hello, {await _ask_for(context, 'user_name', 'What is your name?', 'name')}!"

    @server.tool()
    async def test_input_required_result_sampling(context: RequestContext) -> str:
        """Asks the client's model."""
        (answer,) = await context.ask(_prompt("What is the capital of France?", 100, "capital_question"))
        return str(json.loads(answer)["content"]["text"])

    @server.tool()
    async def test_input_required_result_list_roots(context: RequestContext) -> str:
        """Asks for the client's roots."""
        (answer,) = await context.ask(roots(key="client_roots"))
        return f"Roots: {', '.join(root['uri'] for root in json.loads(answer)['roots'])}"

    @server.tool()
    async def test_input_required_result_multiple_inputs(context: RequestContext) -> str:
        """Asks three questions at once."""
        name, greeting, client_roots = await context.ask(
            _form("user_name", "What is your name?", "name"),
            _prompt("Generate a greeting", 50, "greeting"),
            roots(key="client_roots"),
        )
        count = len(json.loads(client_roots)["roots"])
        return f"{json.loads(greeting)['content']['text']} {_value(name, 'name')}, you have {count} root(s)."


def add_states(server: DeltaServer) -> None:
    """Add the tools whose scenarios look at the state between the rounds."""

    @server.tool()
    async def test_input_required_result_request_state(context: RequestContext) -> str:
        """Asks for a confirmation; the library seals the state and checks it."""
        return f"state-ok: confirmed={await _ask_for(context, 'confirm', 'Please confirm', 'ok', 'boolean')}"

    @server.tool()
    async def test_input_required_result_tampered_state(context: RequestContext) -> str:
        """Asks for a confirmation; a changed state is refused before this runs again."""
        return f"Confirmed: {await _ask_for(context, 'confirm', 'Please confirm', 'ok', 'boolean')}"

    @server.tool()
    async def test_input_required_result_multi_round(context: RequestContext) -> str:
        """Asks twice, one after the other."""
        name = await _ask_for(context, "step1", "Step 1: What is your name?", "name")
        color = await _ask_for(context, "step2", "Step 2: What is your favorite color?", "color")
        return f"{name} likes {color}."

    @server.tool()
    async def test_input_required_result_capabilities(context: RequestContext) -> str:
        """Asks whatever the client declared that it answers."""
        offered = {
            "elicitation.form": _form("user_name", "What is your name?", "name"),
            "sampling": _prompt("Generate a greeting", 50, "greeting"),
            "roots": roots(key="client_roots"),
        }
        questions = [question for needed, question in offered.items() if needed in context.client_capabilities]
        if not questions:
            return "The client answers no questions."
        answers = await context.ask(*questions)
        return f"{len(answers)} answer(s)."

    @server.prompt()
    async def test_input_required_result_prompt(context: RequestContext) -> str:
        """Asks for its context."""
        found = await _ask_for(context, "user_context", "What context should the prompt use?", "context")
        return f"Use this context: {found}"


def _form(key: str, message: str, field: str, kind: str = "string") -> Question:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return elicit(message, schema, key=key)


def _prompt(text: str, max_tokens: int, key: str) -> Question:
    return sample([PromptMessage("user", TextContent(text=text))], max_tokens, key=key)


async def _ask_for(context: RequestContext, key: str, message: str, field: str, kind: str = "string") -> object:
    (answer,) = await context.ask(_form(key, message, field, kind))
    return _value(answer, field)


def _value(answer: bytes, field: str) -> object:
    content: dict[str, object] = json.loads(answer).get("content", {})
    return content.get(field)
