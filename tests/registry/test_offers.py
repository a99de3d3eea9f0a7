"""What the registry keeps of connectors' lists is bounded, whatever they list."""

from __future__ import annotations

from delta_actors.registry import offers
from delta_actors.registry.memory import OfferMemory
from delta_actors.registry.offers import OfferBook, parts


def resources(count: int, size: int) -> list[bytes]:
    return [b'{"uri":"x://%d","name":"%s"}' % (number, b"n" * size) for number in range(count)]


def test_lists_of_unreasonable_length_are_cut_and_leave_room_for_others() -> None:
    names = [f"c{number}" for number in range(20)]
    book = OfferBook(names, OfferMemory())
    book.listed("c0", "resources", resources(offers.MOST_ITEMS + 5, 1))
    assert len(book.newest.offers[0].resources) == offers.MOST_ITEMS
    for name in names:
        book.listed(name, "resources", resources(6_000, 1_000))
    total = sum(len(text) for offer in book.newest.offers for text in offer.resources)
    assert total <= offers.MOST_BYTES_IN_ALL
    assert all(sum(map(len, offer.resources)) <= offers.MOST_BYTES for offer in book.newest.offers)


def test_a_definition_without_a_name_does_not_spoil_the_list() -> None:
    book = OfferBook(["c"], OfferMemory())
    assert book.listed("c", "prompts", [b'{"name":"good"}', b'{"title":"bad"}', b"[]", b'{"name":7}'])
    assert book.newest.offers[0].prompts == (b'{"name":"good"}',)
    assert not book.listed("c", "prompts", [b'{"name":"good"}'])


def test_what_a_server_no_longer_has_is_forgotten_and_the_rest_survives_a_restart() -> None:
    book = OfferBook(["c"], OfferMemory())
    both = parts(b'{"prompts":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}')
    assert both == ("logging", "prompts", "prompts.listChanged", "resources", "resources.subscribe")
    book.opened("c", both)
    book.listed("c", "prompts", [b'{"name":"p"}'])
    book.listed("c", "resources", resources(1, 1))
    assert OfferBook(["c"], book.memory).newest.offers == book.newest.offers
    book.opened("c", parts(b'{"prompts":{}}'))
    assert book.newest.offers[0].resources == ()
    assert book.newest.offers[0].prompts == (b'{"name":"p"}',)
    assert parts(b'{"prompts":') == ()
