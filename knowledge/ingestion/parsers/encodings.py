"""Bytes to text: the only place that decides in which encoding a text file is written.

Order: byte order mark; UTF-32/UTF-16 without a mark; strict UTF-8; UTF-8 with a few damaged bytes;
what the file itself declares, if the bytes bear it out; chardet, with a check of our own for short
Chinese, Japanese and Korean texts, on which every detector guesses. Decoding never fails: bytes that
no encoding explains become U+FFFD, and a warning says where the first one stands.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass

from knowledge.ingestion.parsers.characters import storable

SAMPLE = 200_000  # bytes that a detector looks at
CLEAR_SAMPLE = 8_000
CLEAR_BYTES = 60
MIXED_BYTES = 8  # non-ASCII bytes from which lines in a second encoding are told from damage
SHORT = 400  # non-ASCII bytes up to which the CJK check may overrule the detector
# A decoder for a superset reads all that its subset can, and the letters that only the superset has.
SUPERSET = {
    "gb2312": "gb18030", "gbk": "gb18030", "hz": "hz", "cp936": "gb18030",
    "shift_jis": "cp932", "shift-jis": "cp932", "sjis": "cp932", "euc_kr": "cp949", "ks_c_5601-1987": "cp949",
    "big5": "big5hkscs", "cp950": "big5hkscs", "iso8859-1": "cp1252", "ascii": "cp1252",
    "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis-620": "cp874",
    "shift_jis_2004": "cp932", "euc_jis_2004": "euc_jp", "euc_jisx0213": "euc_jp",
}  # fmt: skip
# What people's files are written in; DOS and Macintosh code pages only ever win by mistake on short texts.
CANDIDATES = (
    "gb18030", "big5", "cp932", "shift_jis", "euc-jp", "iso-2022-jp", "cp949", "euc-kr", "hz", "cp1250", "cp1251",
    "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874", "koi8-r", "koi8-u", "cp866",
    "iso8859-1", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-7", "iso8859-8",
    "iso8859-9", "iso8859-10", "iso8859-13", "iso8859-15", "iso8859-16",
)  # fmt: skip
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = frozenset(range(0x20)) - {0x09, 0x0A, 0x0C, 0x0D, 0x1B} | {0x7F}
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_HIGH = re.compile(rb"[\x80-\xff]")
_CONTROL_BYTE = re.compile(b"[" + re.escape(bytes(sorted(_CONTROL))) + b"]")
_ASIAN = re.compile(
    "[\u2000-\u206f\u20ac\u2100-\u2bff\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\ufe30-\uffef\U00020000-\U0003ffff·×÷§¨°±]"
)
_LATIN = re.compile("[A-Za-z]")
_LINE_ENDS = re.compile("\u2028|\u2029")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Text with `\\n` line ends and only storable characters, the encoding it was read by, and warnings."""

    text: str
    encoding: str
    warnings: tuple[str, ...] = ()


def decode(data: bytes, *, declared: str | None = None) -> Decoded:
    """The text of `data`. `declared` is an encoding that the file or its envelope claims; it is checked."""
    for mark, encoding in MARKS:
        if data.startswith(mark) and not (encoding.startswith("utf-32") and len(data) % 4):
            return _read(data[len(mark) :], encoding, offset=len(mark))
    encoding = _wide(data) or _seven_bit(data, declared) or _utf8(data) or _claimed(data, declared) or _detected(data)
    return (_mixed(data) if encoding == "utf-8" else None) or _read(data, encoding)


def normalise(text: str) -> str:
    """One kind of line end, nothing that can not be stored, no byte order mark inside."""
    return _LINE_ENDS.sub("\n", storable(text)).replace("\ufeff", "")


def known_codec(name: str | None) -> str | None:
    """The Python codec that should read what calls itself `name`, or None if there is none."""
    try:
        codec = codecs.lookup((name or "").strip().strip("\"'"))
    except (LookupError, ValueError):
        return None
    if not getattr(codec, "_is_text_encoding", True):
        return None
    return SUPERSET.get(codec.name, codec.name)


def has_control_characters(data: bytes) -> bool:
    """Whether `data` looks like a program or a picture rather than text in a one-byte or CJK encoding."""
    if not data:
        return False
    control = sum(count for byte, count in Counter(data).items() if byte in _CONTROL)
    return control > max(2, len(data) // 200)


def wide_encoding(data: bytes) -> str | None:
    """`utf-16-le` and the like if `data` is UTF-16 or UTF-32, with or without a mark; otherwise None."""
    for mark, encoding in MARKS:
        if data.startswith(mark) and encoding != "utf-8":
            return encoding
    return _wide(data)


def _read(data: bytes, encoding: str, offset: int = 0) -> Decoded:
    try:
        return Decoded(normalise(data.decode(encoding)), encoding)
    except UnicodeDecodeError as error:
        first = error.start + offset
    text = data.decode(encoding, "replace")
    count = max(1, text.count("\ufffd"))
    warning = f"replaced_bytes: {count} places could not be read as {encoding}, the first at byte {first}."
    return Decoded(normalise(text), encoding, (warning,))


def _mixed(data: bytes) -> Decoded | None:
    """UTF-8 to which lines in another Asian encoding were appended (logs, joined files); None if that is not so."""
    lines = data.split(b"\n")
    other = [number for number, line in enumerate(lines) if not _is_utf8(line)]
    foreign = b"\n".join(lines[number] for number in other)[:SAMPLE]
    if not other or len(_HIGH.findall(foreign)) < MIXED_BYTES:
        return None
    score, encoding = max((_everyday(foreign, encoding), encoding) for encoding in _EVERYDAY)
    if score < 0.9:
        return None
    odd = set(other)
    text = "\n".join(
        line.decode(encoding, "replace") if number in odd else line.decode() for number, line in enumerate(lines)
    )
    warning = f"mixed_encodings: {len(other)} lines were read as {encoding}, the others as utf-8."
    return Decoded(normalise(text), "utf-8", (warning,))


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _seven_bit(data: bytes, declared: str | None) -> str | None:
    """Encodings whose bytes are all ASCII: ISO-2022 by its escapes, HZ and UTF-7 only when declared."""
    claim = known_codec(declared)
    candidates = ["iso2022_jp_ext", "iso2022_kr"] if b"\x1b$" in data else []
    candidates += [claim] if claim in ("hz", "utf-7") else []
    for encoding in candidates:
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return None


def _utf8(data: bytes) -> str | None:
    """UTF-8 if it is valid, or if it has many times more good sequences than stray bytes."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8"
    sequences = _MULTIBYTE.findall(data)
    long = sum(len(part) for part in sequences if len(part) > 2)
    good = sum(map(len, sequences))
    bad = len(_HIGH.findall(data)) - good
    # GBK holds two-byte "UTF-8" by chance quite often, three-byte sequences seldom.
    if long < 6 or long < bad:
        return None
    legacy = bad * 8 > long and any(_everyday(data[:SAMPLE], encoding) > 0.8 for encoding in _EVERYDAY)
    return None if legacy else "utf-8"


def _wide(data: bytes) -> str | None:
    """UTF-16 or UTF-32 without a mark, told by control bytes that no one-byte encoding contains."""
    sample = data[: SAMPLE - SAMPLE % 4]
    if len(data) < 4 or len(data) % 2 or not _CONTROL_BYTE.search(sample):
        return None
    if 0 not in sample and not data.isascii() and _is_utf8(data):  # a form feed in UTF-8
        return None
    if len(data) % 4 == 0 and sample.count(0) * 2 >= len(sample):
        for encoding in ("utf-32-le", "utf-32-be"):
            if _plausible(sample, encoding) > 0.95:
                return encoding
    scores = {encoding: _plausible(sample, encoding) for encoding in ("utf-16-le", "utf-16-be")}
    best = max(scores, key=lambda encoding: scores[encoding])
    other = min(scores.values())
    return best if scores[best] > 0.95 and scores[best] > other else None


def _plausible(sample: bytes, encoding: str) -> float:
    """Share of the characters that an ordinary text may hold; 0 if `sample` does not decode."""
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        text = decoder.decode(sample)
    except UnicodeDecodeError:
        return 0.0
    if not text:
        return 0.0
    counted = Counter(text)
    good = sum(count for character, count in counted.items() if _ordinary(character))
    # Low bytes of real text vary; a text all of whose characters differ in the high byte is swapped.
    spread = sum(count for character, count in counted.items() if ord(character) < 0x3100)
    return good / len(text) + 0.01 * spread / len(text)


def _ordinary(character: str) -> bool:
    code = ord(character)
    if code < 0x20:
        return code in (0x09, 0x0A, 0x0D)
    if code < 0x7F or 0xA0 <= code < 0x180 or 0x370 <= code < 0x700:
        return True
    return (
        0x2010 <= code < 0x2040
        or 0x3000 <= code < 0x3100
        or 0x4E00 <= code < 0x9FA6
        or 0xAC00 <= code < 0xD7A4
        or 0xFF00 <= code < 0xFFF0
        or code == 0xFEFF
        or 0x1F300 <= code < 0x1FA00
    )


def _claimed(data: bytes, declared: str | None) -> str | None:
    """The declared encoding, if the bytes are valid in it and it yields the script that detection sees."""
    encoding = known_codec(declared)
    if encoding is None or encoding.startswith("utf"):
        return None
    sample = _high_lines(data)
    try:
        claimed = sample.decode(encoding)
    except UnicodeDecodeError:
        return None
    if encoding == "cp1252":
        return None  # the value that servers and editors fill in by default; it says nothing
    if encoding in _EVERYDAY and _is_asian(claimed):
        rival = max(_everyday(sample, other) for other in _EVERYDAY if other != encoding)
        if rival < 0.9:  # rare characters (names, places) that no detector expects
            return encoding
    return encoding if _script(claimed) == _script(sample.decode(_detected(data), "replace")) else None


def _is_asian(text: str) -> bool:
    """Whether all letters beyond ASCII are Chinese, Japanese or Korean and few of them touch a Latin one.

    A Western text read as GBK gives Chinese characters too, each in the middle of a word.
    """
    foreign = [at for at, character in enumerate(text) if ord(character) > 0x7F]
    if not foreign or not all(_ASIAN.match(text[at]) for at in foreign):
        return False
    inside = sum(any(_LATIN.match(near) for near in (text[at - 1 : at], text[at + 1 : at + 2])) for at in foreign)
    return inside < 0.3 * len(foreign)


def _detected(data: bytes) -> str:
    sample = _high_lines(data)
    plain = _unmistakable(sample)
    if plain:
        return plain
    import chardet

    found = chardet.detect(
        sample, prefer_superset=True, compat_names=False, include_encodings=CANDIDATES, no_match_encoding="cp1252"
    )
    encoding = known_codec(found["encoding"]) or "cp1252"
    high = len(_HIGH.findall(sample))
    if high <= SHORT and (found["confidence"] or 0) < 0.99:
        return _short(sample, high, encoding)
    return encoding


def _high_lines(data: bytes) -> bytes:
    """The lines of `data` that are not pure ASCII: markup and code around a few words would mislead."""
    lines = [line for line in data.split(b"\n") if _HIGH.search(line)]
    return b"\n".join(lines)[:SAMPLE] or data[:SAMPLE]


# Ranges of lead bytes in which each standard keeps its everyday characters.
_EVERYDAY: dict[str, tuple[tuple[int, int], ...]] = {
    "gb18030": ((0xB0A1, 0xD7F9), (0xA1A1, 0xA1FE), (0xA3A1, 0xA3FE)),
    "big5hkscs": ((0xA440, 0xC67E), (0xA140, 0xA1FE)),
    "cp932": ((0x889F, 0x9872), (0x829F, 0x8396), (0x8140, 0x81AC), (0x824F, 0x829A)),
    "cp949": ((0xB0A1, 0xC8FE), (0xA1A1, 0xA1FE), (0xA3A1, 0xA3FE)),
    "euc_jp": ((0xB0A1, 0xCFD3), (0xA4A1, 0xA5F6), (0xA1A1, 0xA1FE), (0xA3A1, 0xA3FE)),
}


def _unmistakable(sample: bytes) -> str | None:
    """The one CJK standard that explains nearly all characters, where none of the others comes close.

    Spares most files the detector, whose tables take 65 ms and 27 MB to load.
    """
    part = sample[:CLEAR_SAMPLE]
    if len(sample) > CLEAR_SAMPLE:
        part = part[: part.rfind(b"\n")] if b"\n" in part else part
    if len(_HIGH.findall(part)) < CLEAR_BYTES:
        return None
    scores = sorted((_everyday(part, encoding), encoding) for encoding in _EVERYDAY)
    (second, _), (first, encoding) = scores[-2:]
    return encoding if first > 0.97 and second < 0.85 else None


def _short(sample: bytes, high: int, guess: str) -> str:
    """The encoding of a short text: the CJK standard whose everyday characters explain it, else `guess`."""
    scores = {encoding: _everyday(sample, encoding) for encoding in _EVERYDAY}
    if guess in scores and scores[guess] >= 0.95 and guess != "gb18030":
        return guess
    best = max(scores, key=lambda encoding: scores[encoding])
    # Letters with accents stand alone between ASCII letters; two-byte characters come in runs.
    longest = max((len(run) for run in re.findall(rb"[\x80-\xff]+", sample)), default=0)
    if scores[best] < 0.8 and longest <= 2:
        return _western(sample, guess)
    if scores[best] < 0.8 or (guess not in scores and (longest < 4 or high < 4)):
        return guess
    return guess if guess in scores and scores[guess] >= scores[best] else best


def _everyday(sample: bytes, encoding: str) -> float:
    """Share of the non-ASCII characters that are everyday ones in `encoding`; 0 if it does not decode."""
    try:
        text = sample.decode(encoding)
    except UnicodeDecodeError:
        return 0.0
    foreign = [character for character in text if ord(character) > 0x7F]
    if not foreign:
        return 0.0
    good = 0.0
    kana = sum("\u3041" <= character <= "\u30fe" for character in foreign)
    for character in foreign:
        raw = character.encode(encoding)
        code = int.from_bytes(raw, "big")
        good += len(raw) == 2 and any(low <= code <= top for low, top in _EVERYDAY[encoding])
    share = good / len(foreign)
    if encoding in ("cp932", "euc_jp") and not kana:
        share *= 0.8  # Japanese without a single kana is a name or a number
    return share


def _western(sample: bytes, guess: str) -> str:
    """Single accented letters between ASCII ones: Latin script, in Western Europe's encoding unless sure."""
    if _script(sample.decode(guess, "replace")) == "LATIN":
        return guess
    try:
        sample.decode("cp1252")
    except UnicodeDecodeError:
        return guess
    return "cp1252"


def _script(text: str) -> str:
    """The script that most letters beyond ASCII belong to, by the first word of their Unicode names."""
    names = Counter(unicodedata.name(character, "?").split()[0] for character in text if ord(character) > 0xBF)
    return names.most_common(1)[0][0] if names else ""
