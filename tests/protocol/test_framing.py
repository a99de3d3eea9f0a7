"""Frames: any chunking of any messages comes out as it went in; nothing else crashes the reader."""

from __future__ import annotations

import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_protocol.errors import ProtocolViolation
from delta_protocol.framing import DROP, LAST, MAX_FRAME, PART, FrameReader, FrameWriter


def written(writer: FrameWriter, step: int = 1 << 30) -> bytes:
    out = bytearray()
    while writer.buffer:
        piece = bytes(writer.buffer[:step])
        writer.sent(len(piece))
        out += piece
    assert writer.size == 0
    return bytes(out)


def read(reader: FrameReader, stream: bytes, cuts: list[int]) -> list[bytes]:
    messages: list[bytes] = []
    position = 0
    for cut in [*cuts, len(stream)]:
        messages += [msgspec.msgpack.decode(message) for message in reader.feed(stream[position : position + cut])]
        position += cut
    return messages


sizes = st.one_of(st.integers(1, 300), st.sampled_from([MAX_FRAME - 5, MAX_FRAME, MAX_FRAME + 1, 200_000]))


@given(st.lists(st.tuples(st.booleans(), sizes), max_size=8), st.lists(st.integers(1, 100_000), max_size=8))
def test_messages_come_out_whole_and_in_order_however_the_bytes_are_cut(
    sent: list[tuple[bool, int]], cuts: list[int]
) -> None:
    writer = FrameWriter()
    messages = [bytes([number]) * size for number, (_, size) in enumerate(sent)]
    for message in messages:
        writer.post(message)
    reader = FrameReader()
    assert read(reader, written(writer), cuts) == messages


@given(st.lists(st.tuples(st.booleans(), sizes), max_size=8), st.integers(1, 90_000))
def test_control_messages_keep_their_order_and_so_do_the_others(sent: list[tuple[bool, int]], step: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    control: list[bytes] = []
    data: list[bytes] = []
    received: list[bytes] = []
    for number, (is_control, size) in enumerate(sent):
        message = bytes([number]) * (min(size, 300) if is_control else size)
        (control if is_control else data).append(message)
        (writer.post_control if is_control else writer.post)(message)
        piece = bytes(writer.buffer[:step])
        writer.sent(len(piece))
        received += read(reader, piece, [])
    received += read(reader, written(writer), [])
    assert [message for message in received if message in data] == data
    assert [message for message in received if message in control] == control
    assert len(received) == len(sent)


def test_a_control_message_passes_a_long_one() -> None:
    writer, reader = FrameWriter(), FrameReader()
    writer.post(b"x" * (4 * MAX_FRAME))
    writer.post_control(b"now")
    assert [len(message) for message in read(reader, written(writer), [])] == [3, 4 * MAX_FRAME]


def test_a_message_behind_a_long_one_does_not_pass_it() -> None:
    writer, reader = FrameWriter(), FrameReader()
    writer.post(b"x" * (4 * MAX_FRAME))
    writer.post(b"then")
    assert [len(message) for message in read(reader, written(writer), [])] == [4 * MAX_FRAME, 4]


def test_a_waiting_message_can_be_withdrawn_also_when_it_has_begun() -> None:
    writer, reader = FrameWriter(), FrameReader()
    writer.post(b"x" * (4 * MAX_FRAME), key=1)
    writer.post(b"y" * 10, key=2)
    writer.post(b"z" * 10, key=3)
    assert writer.holds(1)
    assert writer.withdraw(2)
    assert writer.withdraw(1)
    assert read(reader, written(writer), []) == [b"z" * 10]


def test_a_message_that_stands_whole_in_the_buffer_cannot_be_withdrawn() -> None:
    writer = FrameWriter()
    writer.post(b"x", key=1)
    assert not writer.holds(1)
    assert not writer.withdraw(1)


def test_what_cannot_be_encoded_leaves_no_trace() -> None:
    writer = FrameWriter()
    writer.post(b"before")
    with pytest.raises(TypeError):
        writer.post([b"half of it", object()])
    writer.post(b"after")
    assert read(FrameReader(), written(writer), []) == [b"before", b"after"]


def test_a_writer_refuses_a_message_over_its_limit() -> None:
    with pytest.raises(ProtocolViolation, match="the most is"):
        FrameWriter(limit=2 * MAX_FRAME).post(b"x" * 2 * MAX_FRAME)
    with pytest.raises(ProtocolViolation, match="control"):
        FrameWriter().post_control(b"x" * (MAX_FRAME + 1))


def frame(flags: int, payload: bytes) -> bytes:
    return struct.pack("<I", flags | len(payload)) + payload


@pytest.mark.parametrize(
    "stream",
    [
        struct.pack("<I", MAX_FRAME + 1),
        frame(0, b"x" * 101),
        frame(PART, b"x" * 60) + frame(PART, b"x" * 60),
        frame(PART, b""),
        frame(LAST, b"x"),
        frame(PART | DROP, b"x"),
        frame(1 << 24, b"x"),
    ],
    ids=["frame too long", "message too long", "parts too long", "empty part", "last of none", "full drop", "unknown"],
)
def test_what_no_writer_of_ours_makes_is_a_violation(stream: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        FrameReader(limit=100).feed(stream)


@given(st.binary(max_size=300), st.lists(st.integers(1, 50), max_size=20))
def test_random_bytes_are_messages_or_a_violation_never_a_crash(stream: bytes, cuts: list[int]) -> None:
    reader = FrameReader(limit=1000)
    position = 0
    try:
        for cut in [*cuts, len(stream)]:
            for message in reader.feed(stream[position : position + cut]):
                assert len(message) <= 1000
            position += cut
    except ProtocolViolation:
        pass
