"""MySQL's own mappings, as data, for charsets that differ from Python's codecs or have none there.

Source: the charset files of the server (share/charsets/*.xml, strings/ctype-*.cc), read back with
``CONVERT(_cs x'..' USING utf8mb4)`` for every byte and every two- and three-byte character; MySQL
9.7 and MariaDB 10.11 agree. ``?`` stands for a character that Unicode lacks.
"""

# ruff: noqa: RUF001 - characters that look alike are the matter here

from __future__ import annotations

_C1 = "".join(map(chr, range(0x80, 0xA0)))

UPPER_HALVES: dict[str, str] = {
    "armscii8": _C1 + ("\xa0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"),
    "dec8": _C1 + ("\xa0¡¢£?¥?§¤©ª«????°±²³?µ¶·?¹º»¼½?¿ÀÁÂÃÄÅÆÇÈÉÊËÌÍÎÏ?ÑÒÓÔÕÖŒØÙÚÛÜŸ?ßàáâãäåæçèéêëìíîï?ñòóôõöœøùúûüÿ??"),
    "geostd8": (
        "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????\xa0¡¢£¤¥¦§¨©ª«¬\xad®¯°±²³´µ¶·¸¹º»¼½¾¿აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯ"
        "ჰჵ???????????????????????№??"
    ),
    "hp8": _C1 + ("\xa0ÀÂÈÊËÎÏ´ˋˆ¨˜ÙÛ₤¯Ýý°ÇçÑñ¡¿¤£¥§ƒ¢âêôûáéóúàèòùäëöüÅîØÆåíøæÄìÖÜÉïßÔÁÃãÐðÍÌÓÒÕõŠšÚŸÿÞþ·µ¶¾—¼½ªº«■»±?"),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀αßΓπ"
        "ΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0"
    ),
    "swe7": "?" * 128,
}
"""Bytes 0x80 to 0xFF of one-byte charsets without a codec in Python. Lower bytes are ASCII, except
for ``LOWER``.
"""

LOWER: dict[str, dict[int, str]] = {
    "swe7": {0x40: "É", 0x5B: "Ä", 0x5C: "Ö", 0x5D: "Å", 0x5E: "Ü", 0x60: "é", 0x7B: "ä", 0x7C: "ö", 0x7D: "å", 0x7E: "ü", 0x7F: "?"},
}

ONE_BYTE_EXCEPTIONS: dict[str, dict[int, str]] = {
    "cp1256": dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?"),
    "cp866": {0xFC: "ⁿ", 0xFD: "²"},
    "greek": {0xA1: "ʽ", 0xA2: "ʼ", 0xA4: "?", 0xA5: "?", 0xAA: "?"},
    "hebrew": {0xAF: "‾"},
    "koi8u": {0x95: "•"},
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "tis620": dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd"),
}
"""Characters of one-byte charsets that differ from Python's codec of that name."""

_IBM_EXTENSIONS = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪甁皂皞益礰礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻靍靑飯飼"
    "館馞髙魲鶴黑"
)
"""The characters of eucjpms from 0x8FF3F3 to 0x8FF4FE, in order."""

_IBM_CODES = [bytes((0x8F, 0xF3, low)) for low in range(0xF3, 0xFF)] + [bytes((0x8F, 0xF4, low)) for low in range(0xA1, 0xFF)]


def _user_defined(first: int) -> dict[bytes, str]:
    """Return rows 0xF5 to 0xFE of both planes of ujis and eucjpms: the private characters from
    U+E000 on.
    """
    plain = {bytes((high, low)): 94 * (high - first) + low - 0xA1 for high in range(first, 0xFF) for low in range(0xA1, 0xFF)}
    return {code: chr(0xE000 + n) for code, n in plain.items()} | {b"\x8f" + code: chr(0xE3AC + n) for code, n in plain.items()}


MANY_BYTE_EXCEPTIONS: dict[str, dict[bytes, str]] = {
    "big5": dict.fromkeys([b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"], "\ufffd")
    | {bytes((0xF9, 0xD6 + i)): char for i, char in enumerate("碁銹裏墻恒粧嫺")},
    "eucjpms": _user_defined(0xF5) | dict(zip(_IBM_CODES, _IBM_EXTENSIONS, strict=True)) | {b"\x8f\xa2\xb7": "～", b"\x8f\xa2\xc3": "￤"},
    "gb18030": {b"\xa8\xbc": "\u1e3f", b"\x81\x35\xf4\x37": "\ue7c7"},
    "sjis": {b"\x81\x5f": "\\"},
    "ujis": _user_defined(0xF5) | {b"\xa1\xc0": "\\"},
}
"""Characters of multi-byte charsets that differ from Python's codec of that name."""

FRAMES: dict[str, bytes] = {
    "big5": rb"[\xa1-\xf9][\x40-\x7e\xa1-\xfe]|.",
    "cp932": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|.",
    "eucjpms": rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}|.",
    "euckr": rb"[\x81-\xfe][\x41-\x5a\x61-\x7a\x81-\xfe]|.",
    "gb18030": rb"[\x81-\xfe][\x30-\x39][\x81-\xfe][\x30-\x39]|[\x81-\xfe][\x40-\x7e\x80-\xfe]|.",
    "gb2312": rb"[\xa1-\xf7][\xa1-\xfe]|.",
    "gbk": rb"[\x81-\xfe][\x40-\x7e\x80-\xfe]|.",
    "sjis": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]|.",
    "ujis": rb"\x8f[\xa1-\xfe]{2}|\x8e[\xa1-\xdf]|[\xa1-\xfe]{2}|.",
}
"""Patterns of one character of a multi-byte charset, as the server counts them (my_mbcharlen). A
byte that fits no longer form counts alone.
"""
