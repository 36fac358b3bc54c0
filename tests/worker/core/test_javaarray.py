"""Arrays as Java serializes them: written by a JDK 17, ``ObjectOutputStream.writeObject(new Object[] {...})``."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from dblog.core.javaarray import read_java_array

ARRAY = "aced0005757200135b4c6a6176612e6c616e672e4f626a6563743b90ce589f1073296c0200007870"
"""How each of them begins: Object[]."""

WRITTEN: dict[str, tuple[str, Any]] = {
    "int": (
        (
            "00000001737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c61"
            "6e672e4e756d62657286ac951d0b94e08b02000078700000002a"
        ),
        (42,),
    ),
    "neg": (
        (
            "00000003737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c61"
            "6e672e4e756d62657286ac951d0b94e08b0200007870ffffffff7372000e6a6176612e6c616e672e4c6f6e673b8be490cc8f23df020001"
            "4a000576616c75657871007e00030000000218711a007372000f6a6176612e6c616e672e53686f7274684d37133460da52020001530005"
            "76616c75657871007e00030007"
        ),
        (-1, 9_000_000_000, 7),
    ),
    "text": (
        (
            "00000003740004c3a9207871007e0002737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c75"
            "65787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b020000787000000005"
        ),
        ("é x", "é x", 5),
    ),
    "big": (
        (
            "00000002737200146a6176612e6d6174682e426967496e74656765728cfc9f1fa93bfb1d030006490008626974436f756e744900096269"
            "744c656e67746849001366697273744e6f6e7a65726f427974654e756d49000c6c6f776573745365744269744900067369676e756d5b00"
            "096d61676e69747564657400025b42787200106a6176612e6c616e672e4e756d62657286ac951d0b94e08b0200007870ffffffffffffff"
            "fffffffffefffffffe00000001757200025b42acf317f8060854e0020000787000000008ffffffffffffffff78737200146a6176612e6d"
            "6174682e426967446563696d616c54c71557f981284f0300024900057363616c654c0006696e7456616c7400164c6a6176612f6d617468"
            "2f426967496e74656765723b7871007e0004000000027371007e0002fffffffffffffffffffffffefffffffeffffffff7571007e000600"
            "00000204e27878"
        ),
        (18446744073709551615, Decimal("-12.50")),
    ),
    "bytes": (
        "00000001757200025b42acf317f8060854e00200007870000000030102ff",
        (b"\x01\x02\xff",),
    ),
    "null": (
        (
            "0000000270737200116a6176612e6c616e672e496e746567657212e2a0a4f781873802000149000576616c7565787200106a6176612e6c"
            "616e672e4e756d62657286ac951d0b94e08b020000787000000001"
        ),
        (None, 1),
    ),
    "time": (
        (
            "00000001737200126a6176612e73716c2e54696d657374616d702618d5c80153bf650200014900056e616e6f737872000e6a6176612e75"
            "74696c2e44617465686a81014b597419030000787077080000016f5e66e8007800000000"
        ),
        None,
    ),
    "none": (
        "00000000",
        (),
    ),
    "double": (
        (
            "00000001737200106a6176612e6c616e672e446f75626c6580b3c24a296bfb0402000144000576616c7565787200106a6176612e6c616e"
            "672e4e756d62657286ac951d0b94e08b02000078703ff8000000000000"
        ),
        (1.5,),
    ),
    "emoji": (
        "00000001740006eda0bdedb880",
        None,
    ),
}
"""By name, what is behind the beginning and the values; None where it is not read: a time, a character that Java writes in a form of its own."""


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_texts_decimals_and_bytes_are_read_and_nothing_else_is_guessed(name: str) -> None:
    text, values = WRITTEN[name]

    assert read_java_array(ARRAY + text) == values


@pytest.mark.parametrize("name", WRITTEN)
def test_what_ends_too_early_or_is_spoilt_is_none_or_other_values_and_never_an_error(name: str) -> None:
    whole = bytes.fromhex(ARRAY + WRITTEN[name][0])

    for end in range(len(whole)):
        assert read_java_array(whole[:end].hex()) is None
    for at in range(len(whole)):
        for byte in (0x00, 0x70, 0x71, 0x72, 0x73, 0x75, 0x7F, 0xFF):
            found = read_java_array((whole[:at] + bytes([byte]) + whole[at + 1 :]).hex())
            assert found is None or isinstance(found, tuple)


@pytest.mark.parametrize("text", ["", "ac", "no digits", "aced0005", "aced000570", "aced0005" + "75" * 1000])
def test_what_is_no_array_is_none(text: str) -> None:
    assert read_java_array(text) is None
