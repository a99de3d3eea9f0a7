"""A server with an index of its tools and a budget for its results."""

from __future__ import annotations

from delta_actors.mcp import DeltaServer, Disclosure, RequestContext, ResultPolicy

server = DeltaServer(
    "library",
    "1.0",
    disclosure=Disclosure(delta_mcp=True),
    results=ResultPolicy(max_tokens=500, page_size=20),
)


@server.tool(summary="List the books of the library", read_only=True)
def list_books(author: str = "") -> list[str]:
    """List the titles of all books, or of an author's.

    There are a hundred of them: the answer comes in pages.
    """
    return [f"Book {number} {f'by {author}' if author else ''}".strip() for number in range(1, 101)]


@server.tool(summary="Lend a book to whoever asks")
async def lend(title: str, context: RequestContext) -> str:
    """Lend a book until it is brought back."""
    await context.log("info", f"lending {title}")
    return f"{title} is lent to {context.principal.id}"


if __name__ == "__main__":
    server.run()
