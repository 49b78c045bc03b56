"""Tool calls from many deltas, whatever the habits of the server that sends them."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from interlock.models.provider import RequestedCall
from tests.harness.model_answers import call_chunks, call_delta, chunk
from tests.unit.models.assembled import assembled, calls_of


def test_parallel_calls_are_told_apart_by_their_index():
    assert calls_of(
        call_delta(0, name="a", arguments="", call_id="1"),
        call_delta(1, name="b", arguments="", call_id="2"),
        call_delta(1, arguments='{"x":'),
        call_delta(0, arguments='{"y":1}'),
        call_delta(1, arguments="2}"),
    ) == [("a", '{"y":1}'), ("b", '{"x":2}')]


def test_calls_are_in_the_order_of_their_index():
    assert calls_of(
        call_delta(1, name="b", arguments="{}", call_id="2"),
        call_delta(0, name="a", arguments="{}", call_id="1"),
    ) == [("a", "{}"), ("b", "{}")]


def test_calls_that_come_whole_at_once_are_told_apart():
    deltas = [call_delta(None, name=name, arguments='{"n":1}') for name in ("a", "a", "b")]
    assert calls_of(*deltas) == [("a", '{"n":1}'), ("a", '{"n":1}'), ("b", '{"n":1}')]
    together = assembled(chunk({"tool_calls": deltas}))
    assert [call.name for call in together.tool_calls] == ["a", "a", "b"]


def test_calls_without_arguments_in_one_chunk_are_told_apart():
    deltas = [call_delta(None, name="a", arguments="") for _ in range(2)]
    assert len(assembled(chunk({"tool_calls": deltas})).tool_calls) == 2


def test_calls_without_an_index_are_told_apart_by_their_id():
    assert calls_of(
        call_delta(None, name="a", arguments='{"x"', call_id="1"),
        call_delta(None, name="a", arguments='{"y"', call_id="2"),
        call_delta(None, arguments=":1}", call_id="1"),
        call_delta(None, arguments=":2}", call_id="2"),
    ) == [("a", '{"x":1}'), ("a", '{"y":2}')]


def test_without_index_and_id_a_name_begins_a_call():
    assert calls_of(
        call_delta(None, name="a", arguments='{"x"'),
        call_delta(None, arguments=":1}"),
        call_delta(None, name="b"),
        call_delta(None, arguments="{}"),
    ) == [("a", '{"x":1}'), ("b", "{}")]


def test_without_index_and_id_a_repeated_name_goes_on_with_a_call_that_is_not_whole():
    assert calls_of(
        call_delta(None, name="a", arguments='{"x"'),
        call_delta(None, name="a", arguments=":1}"),
        call_delta(None, name="a", arguments='{"x":2}'),
    ) == [("a", '{"x":1}'), ("a", '{"x":2}')]


def test_a_name_that_is_repeated_in_every_piece_is_one_name():
    assert calls_of(
        call_delta(0, name="read_file", arguments="{", call_id="1"),
        call_delta(0, name="read_file", arguments="}", call_id="1"),
    ) == [("read_file", "{}")]


def test_a_name_may_come_in_parts():
    assert calls_of(
        call_delta(0, name="read", call_id="1"),
        call_delta(0, name="_file"),
        call_delta(0, arguments="{}"),
    ) == [("read_file", "{}")]


def test_a_server_that_gives_every_call_the_same_index_is_understood():
    assert calls_of(
        call_delta(0, name="a", arguments='{"x":', call_id="1"),
        call_delta(0, arguments="1}"),
        call_delta(0, name="a", arguments='{"x":', call_id="2"),
        call_delta(0, arguments="2}"),
    ) == [("a", '{"x":1}'), ("a", '{"x":2}')]


def test_a_server_that_invents_an_id_for_every_piece_is_understood():
    assert calls_of(
        call_delta(0, name="a", arguments="{", call_id="1"),
        call_delta(0, arguments="}", call_id="2"),
    ) == [("a", "{}")]


def test_arguments_may_come_as_an_object():
    assert calls_of(call_delta(0, name="a", arguments={"x": [1]}, call_id="1")) == [("a", '{"x":[1]}')]


def test_arguments_are_kept_as_the_model_wrote_them():
    assert calls_of(call_delta(0, name="a", arguments='{"x": oops', call_id="1")) == [("a", '{"x": oops')]


def test_every_call_has_an_id_of_its_own():
    reply = assembled(
        *call_chunks(
            call_delta(0, name="a", arguments="{}", call_id="same"),
            call_delta(1, name="a", arguments="{}", call_id="same"),
            call_delta(2, name="a", arguments="{}"),
            call_delta(3, name="a", arguments="{}", call_id="x" * 1000),
            call_delta(4, name="a", arguments="{}", call_id="bad\nid"),
        )
    )
    ids = [call.call_id for call in reply.tool_calls]
    assert ids[0] == "same"
    assert len(set(ids)) == 5
    assert all(0 < len(identity) < 100 and identity.isprintable() for identity in ids)


def test_calls_without_an_id_never_repeat_one_of_an_earlier_turn():
    turns = [assembled(*call_chunks(call_delta(0, name="a", arguments="{}"))) for _ in range(2)]
    assert turns[0].tool_calls[0].call_id != turns[1].tool_calls[0].call_id


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["read_file", "bash", "server__tool"]),
        st.dictionaries(st.text(max_size=5), st.text(max_size=8) | st.integers(0, 99), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


@given(calls=CALLS, data=st.data())
def test_deltas_cut_anywhere_and_interleaved_give_the_same_calls(calls, data):
    queues = []
    for index, (name, arguments) in enumerate(calls):
        text = orjson.dumps(arguments).decode()
        places = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
        ends = [*sorted(places), len(text)]
        parts = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        first = call_delta(index, name=name, arguments=parts[0], call_id=f"c{index}")
        queues.append([first, *(call_delta(index, arguments=part) for part in parts[1:])])
    deltas = []
    while any(queues):
        deltas.append(data.draw(st.sampled_from([queue for queue in queues if queue])).pop(0))
    sizes = data.draw(st.lists(st.integers(1, 3), min_size=len(deltas), max_size=len(deltas)))
    chunks = []
    while deltas:
        size = sizes.pop()
        chunks.append(chunk({"tool_calls": deltas[:size]}))
        del deltas[:size]
    assert assembled(*chunks).tool_calls == tuple(
        RequestedCall(f"c{index}", name, orjson.dumps(arguments).decode())
        for index, (name, arguments) in enumerate(calls)
    )
