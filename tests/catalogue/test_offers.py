"""Names of what connectors offer beside tools: unique, short, stable, and leading back (acceptance 3, 59)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.catalogue.offers import LONGEST_NAME, Offer, Offers, Shown, Target, short_name
from delta_protocol.codecs import exact_json

NAMES = st.sampled_from(["review", "a.review", "b.review", "x", "p" * 64, "p" * 65, "p" * 120, "q" * 90, "ä" * 70])
URIS = st.sampled_from(["file:///a", "file:///b", "x://y", "delta://a/file:///a", "delta://other/z"])
CONNECTORS = ("a", "b", "c.d")


def prompt(name: str) -> bytes:
    return exact_json.encode({"name": name})


def resource(uri: str) -> bytes:
    return exact_json.encode({"uri": uri, "name": uri})


offers = st.tuples(
    *(
        st.builds(
            lambda prompts, uris, connector=connector: Offer(
                connector,
                resources=tuple(map(resource, uris)),
                prompts=tuple(map(prompt, prompts)),
                has=("prompts", "resources"),
            ),
            st.lists(NAMES, unique=True, max_size=5),
            st.lists(URIS, unique=True, max_size=4),
        )
        for connector in CONNECTORS
    )
).map(lambda each: Offers(1, each))


def named(texts: list[bytes], key: str) -> list[str]:
    definitions: list[dict[str, Any]] = [exact_json.decode(text) for text in texts]
    return [definition[key] for definition in definitions]


@given(offers)
def test_every_shown_name_is_short_unique_and_leads_to_what_it_names(given_offers: Offers) -> None:
    shown = Shown(given_offers)
    prompts, uris = named(shown.prompts, "name"), named(shown.resources, "uri")
    assert len(set(prompts)) == len(prompts)
    assert len(set(uris)) == len(uris)
    assert all(len(name) <= LONGEST_NAME for name in prompts)
    there = {Target(offer.connector, name) for offer in given_offers.offers for name in named([*offer.prompts], "name")}
    assert {shown.prompt(name) for name in prompts} == there
    there = {Target(offer.connector, uri) for offer in given_offers.offers for uri in named([*offer.resources], "uri")}
    assert {shown.resource(uri) for uri in uris} == there
    assert all(shown.shown_uri(target.connector, target.name) in uris for target in there)


@given(offers)
def test_names_depend_on_what_is_offered_alone(given_offers: Offers) -> None:
    again = Offers(9, tuple(given_offers.offers))
    assert Shown(again).prompts == Shown(given_offers).prompts
    assert Shown(again).resources == Shown(given_offers).resources


def test_a_cut_name_keeps_the_whole_one_as_its_title() -> None:
    shown = Shown(Offers(1, (Offer("a", prompts=(prompt("p" * 120),)),)))
    (definition,) = [exact_json.decode(text) for text in shown.prompts]
    assert definition == {"name": short_name("p" * 120), "title": "p" * 120}


def test_a_resource_of_no_list_goes_where_its_scheme_is_at_home_and_nowhere_if_that_is_unclear() -> None:
    one = Offer("one", resources=(resource("one://a"),), has=("resources",))
    two = Offer("two", resources=(resource("two://a"), resource("one://b")), has=("resources",))
    alone = Shown(Offers(1, (one, Offer("none"))))
    assert alone.resource("any://thing") == Target("one", "any://thing")
    both = Shown(Offers(1, (one, two)))
    assert both.resource("two://z") == Target("two", "two://z")
    assert both.resource("one://z") is None
    assert both.resource("delta://one/one://z") == Target("one", "one://z")
    assert both.resource("delta://nobody/one://z") is None
