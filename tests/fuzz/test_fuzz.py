"""The fuzzer's cases without sanitizers, a few thousand of them: nothing but an error that states it, and never another answer than the reference implementation's."""

import base64
import json

import pytest
from backports import zstd
from fuzz.cases import SEEDS, Fuzzer, bare, packed_events
from fuzz.pgoutput_cases import PostgresFuzzer

CASES = 4000
KINDS = {"binlog": Fuzzer, "pgoutput": PostgresFuzzer}


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_packets_and_rows_are_met_alike_by_decoder_and_reference(kind: str, seed: int) -> None:  # number 32 of the worker's safety
    fuzzer = KINDS[kind](seed)

    for number in range(CASES):
        try:
            fuzzer.run(number, compare=True)
        except Exception as error:
            message = f"case {number} of seed {seed}: make fuzz ARGS='--only {kind} --seed {seed} --from-case {number} --cases 1'"
            raise AssertionError(message) from error


def test_the_seeds_have_every_kind_of_event_that_the_decoder_reads() -> None:
    kinds = set()
    for recorded in json.loads(zstd.decompress(SEEDS.read_bytes())):
        for packet in recorded["packets"]:
            event = bare(base64.b64decode(packet))
            for found in [] if event is None else [event, *packed_events(event)]:
                kinds.add(found[4])

    assert kinds >= {2, 16, 19, 23, 24, 25, 29, 30, 31, 32, 33, 38, 39, 40, 42, 160, 162, 165, 166, 167}


def test_the_seeds_have_every_kind_of_message_that_pgoutput_sends() -> None:
    assert PostgresFuzzer(1).letters == {bytes([letter]) for letter in b"BCDIMORTUYSEcA"}
