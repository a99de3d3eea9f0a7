"""Actors of one's own inside one's own trio program: messages, an ask table, two actors, supervision.

`python docs/examples/embed_actors.py` prints what came of it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import msgspec
import trio

from delta_actors.runtime import Actor, Call, Context, Handlers, open_actors
from delta_protocol.errors import ActorCrashed, NotFound
from delta_protocol.supervision import Backoff, Intensity
from delta_protocol.wire.message import Done, Event, Progress, Request

# Messages. A request names the type of its reply, so a handler or a caller that disagrees fails the type check.


class Price(Request[float], frozen=True):
    """What does `item` cost? `NotFound` when nobody sells it."""

    item: str


class Total(Request[float], frozen=True):
    """What does all of it cost? Tells its progress on the way."""

    items: tuple[str, ...]


class NewPrice(Event, frozen=True):
    """From now on `item` costs this much."""

    item: str
    price: float


class Burn(Request[Done], frozen=True):
    """Break the actor, to see what supervision does."""


INBOXES = {"prices": (Price, NewPrice, Burn), "till": (Total,)}

# Who may ask whom. It must have no circle: `open_actors` refuses one that has.
ASKS = {"till": frozenset({"prices"}), "app": frozenset({"till", "prices"})}


class Prices(Actor):
    """Knows what things cost."""

    role = "prices"
    inboxes = INBOXES

    async def start(self, context: Context) -> tuple[str, ...]:
        """Begin with what was on paper. Another incarnation begins here again."""
        self.context = context
        self.prices = {"tea": 2.5, "cake": 4.0}
        return ()

    def handlers(self) -> Handlers:
        """Price never waits, so it runs inline, which is several times cheaper than in a task."""
        handlers = Handlers()
        handlers.ask_inline(Price, self.price)
        handlers.ask(Burn, self.burn)
        handlers.tell(NewPrice, self.new_price)
        return handlers

    def price(self, request: Price, _call: Call) -> float:
        """Look it up."""
        if request.item not in self.prices:
            raise NotFound(f"nobody sells {request.item!r}", nearest=sorted(self.prices))
        return self.prices[request.item]

    def new_price(self, event: NewPrice) -> None:
        """Write it down."""
        self.prices[event.item] = event.price

    async def burn(self, _request: Burn, _call: Call) -> Done:
        """Fail in a task of the actor itself; an error of a handler would only be that call's."""
        self.context.nursery.start_soon(self.fire)
        await trio.sleep_forever()
        return Done()

    async def fire(self) -> None:
        """Fail."""
        raise RuntimeError("the shop burns")


class Till(Actor):
    """Adds up."""

    role = "till"
    inboxes = INBOXES

    async def start(self, context: Context) -> tuple[str, ...]:
        """Keep the way to the prices; the link opens when it is first used."""
        self.prices = context.ref("prices")
        return ()

    def handlers(self) -> Handlers:
        """One request."""
        handlers = Handlers()
        handlers.ask(Total, self.total)
        return handlers

    async def total(self, request: Total, call: Call) -> float:
        """Ask for each price. What is left of the caller's deadline and its principal travel along by themselves."""
        total = 0.0
        for number, item in enumerate(request.items, 1):
            total += await self.prices.ask(Price(item))
            await call.emit(Progress(number, len(request.items)))
        return total


async def main() -> list[str]:
    """Use the actors; return what happened, in words."""
    said: list[str] = []
    with tempfile.TemporaryDirectory() as state_dir:
        async with open_actors(
            {"prices": Prices, "till": Till},
            state_dir=Path(state_dir),
            asks=ASKS,
            intensity=Intensity(max_restarts=3, window=5.0),
            backoff=Backoff(first=0.01),
        ) as system:
            till = system.ref("till", as_="app")
            prices = system.ref("prices", as_="app")
            with trio.fail_after(10):
                await prices.tell(NewPrice("tea", 3.0))
                async with till.stream(Total(("tea", "cake"))) as items:
                    said += [
                        f"{item.progress:.0f} of {item.total:.0f}"
                        async for item in items
                        if isinstance(item, Progress) and item.total
                    ]
                said.append(f"total {await till.ask(Total(('tea', 'cake')))}")
                try:
                    await till.ask(Total(("gold",)))
                except NotFound as error:
                    said.append(f"{error.message}; there is {', '.join(error.detail['nearest'])}")
                try:
                    await prices.ask(Burn())
                except ActorCrashed as error:
                    said.append(f"crashed, executed: {error.detail['executed']}")
                said.append(f"total {await till.ask(Total(('tea', 'cake')))} after {system.restarts('prices')} restart")
            assert msgspec.json.decode(system.statistics("till").extra)["calls"]["failed"] == 1
    return said


if __name__ == "__main__":
    print("\n".join(trio.run(main)))
