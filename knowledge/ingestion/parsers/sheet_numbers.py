"""How a number format that is no date shows a number or a text: currency, groups, signs, units, sections.

The look of the format is applied wherever it loses nothing: `1234.5` is `€1,234.50`, and `3.14159` under
`0.00` keeps its digits. Only a tail that nobody typed (`0.333333333333333`) is cut as the sheet cuts it.
Source: ECMA-376 part 1, 18.8.31 (numFmts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from fractions import Fraction

Show = Callable[[str], str]
_TOKEN = re.compile(r'"([^"]*)"?|\\(.)|_.|\*.|\[([^\]]*)\]|([Ee][+-])|(General)|(.)', re.DOTALL | re.IGNORECASE)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)(-?\d+(?:\.\d+)?)")
_PLAIN = re.compile(r"(-?)(\d{1,15})(?:\.(\d{1,15}))?")
CALCULATED = 5  # decimals beyond those shown from which on nobody typed them
PLACES = "0#?"


def number_text(raw: str) -> str:
    """A stored number with its own digits; binary noise beyond 15 digits and exponents are taken out."""
    if len(raw) < 16 and "E" not in raw and "e" not in raw:
        return raw
    if raw.lstrip("-").isdecimal():
        return raw
    try:
        value = Decimal(f"{float(raw):.15g}")
    except (ValueError, InvalidOperation):
        return raw
    if not value.is_finite() or abs(value.adjusted()) > 20:
        return raw
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@dataclass(slots=True)
class Section:
    """One part of a format between semicolons: literals with the number's pattern among them.

    `kind` is number, poured (`000-0000`), fraction, scientific, general, text, literal or odd (not understood).
    """

    pieces: list[tuple[bool, str]] = field(default_factory=list)  # (is it of the pattern, text)
    kind: str = "literal"
    condition: tuple[str, Decimal] | None = None
    grouped: bool = False
    thousands: int = 0
    percents: int = 0
    whole: int = 0  # digits before the point at least
    least: int = 0  # decimals at least
    most: int = 0  # decimals shown

    @property
    def pattern(self) -> str:
        return "".join(text for of_pattern, text in self.pieces if of_pattern)

    @property
    def literal(self) -> str:
        return "".join(text for of_pattern, text in self.pieces if not of_pattern)

    def around(self, number: str) -> str:
        """The literals with `number` where the pattern begins."""
        places = [index for index, piece in enumerate(self.pieces) if piece[0]]
        first = places[0] if places else len(self.pieces)
        before = "".join(text for of_pattern, text in self.pieces[:first] if not of_pattern)
        after = "".join(text for of_pattern, text in self.pieces[first:] if not of_pattern)
        return f"{before}{number}{after}"


def sections(code: str) -> list[Section]:
    """The sections of a format code, at most four."""
    found = [Section()]
    for token in _TOKEN.finditer(code):
        quoted, escaped, bracket, exponent, general, sign = token.groups()
        section = found[-1]
        if sign == ";":
            found.append(Section())
        elif quoted is not None or escaped is not None:
            section.pieces.append((False, quoted if quoted is not None else escaped))
        elif bracket is not None:
            _bracket(section, bracket)
        elif exponent or general:
            section.kind = "scientific" if exponent else "general"
            section.pieces.append((True, "E" if exponent else "G"))
        elif sign:
            _sign(section, sign)
    for section in found:
        _measure(section)
    return found[:4]


def _bracket(section: Section, text: str) -> None:
    condition = _CONDITION.fullmatch(text)
    if condition:
        section.condition = condition[1], Decimal(condition[2])
    elif text.startswith("$"):
        section.pieces.append((False, text[1:].partition("-")[0]))


def _sign(section: Section, sign: str) -> None:
    if sign in PLACES or sign in ".,/@":
        if sign == "@":
            section.kind = "text"
        elif sign == "/" and section.kind == "literal":
            section.kind = "fraction"
        section.pieces.append((True, sign))
    elif sign == "%":
        section.percents += 1
        section.pieces.append((False, sign))
    elif sign.isascii() and sign.isalpha():
        section.kind = "odd"  # such letters need quotes; what stands here is a word of another language's program
    else:
        section.pieces.append((False, sign))


def _measure(section: Section) -> None:
    pattern = section.pattern
    if section.kind in ("odd", "general", "text"):
        return
    if not any(place in pattern for place in PLACES):
        section.kind = "literal"
        section.pieces = [(False, text) for _, text in section.pieces]
        return
    whole, _, decimals = pattern.partition("E")[0].partition(".")
    bare = whole.rstrip(",")
    section.thousands = len(whole) - len(bare) + len(decimals) - len(decimals.rstrip(","))
    section.grouped = "," in bare
    section.whole = bare.count("0")
    section.least, section.most = decimals.count("0"), sum(decimals.count(place) for place in PLACES)
    if section.kind == "fraction" and "/" in pattern:
        return
    if section.kind == "literal":
        runs = [text for of_pattern, text in _merged(section.pieces) if of_pattern]
        section.kind = "poured" if len(runs) > 1 and not decimals and not section.grouped else "number"


def _merged(pieces: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    merged: list[tuple[bool, str]] = []
    for of_pattern, text in pieces:
        if merged and merged[-1][0] == of_pattern:
            merged[-1] = of_pattern, merged[-1][1] + text
        elif text:
            merged.append((of_pattern, text))
    return merged


def number_display(code: str) -> Show | None:
    """How a format that is no date shows a stored number; None when it shows the plain digits."""
    found = sections(code)
    numeric = [section for section in found[:3] if section.kind != "text"]
    if not numeric or any(section.kind == "odd" for section in numeric):
        return None
    if len(found) == 1 and found[0].kind in ("general", "literal") and ";" not in code and not found[0].literal:
        return None
    only = found[0]
    plain = len(numeric) == 1 and only.kind == "number" and not (only.literal or only.grouped or only.condition)
    if plain and only.whole < 2 and not only.most and not only.thousands and not only.percents:
        return lambda raw: _number(raw, only, signed=True) if len(raw) > CALCULATED else raw
    return lambda raw: _shown(raw, numeric)


def text_display(code: str) -> Show | None:
    """How a format shows a text: what its text section adds or hides; None when it shows the text alone."""
    found = sections(code)
    section = found[3] if len(found) == 4 else found[-1] if found[-1].kind == "text" else None
    if section is None or section.kind not in ("text", "literal") or (section.kind == "text" and not section.literal):
        return None
    if section.kind == "literal":
        return lambda text: section.literal.strip()
    return lambda text: section.around(text).strip()


def _shown(raw: str, numeric: list[Section]) -> str:
    try:
        value = Decimal(raw)
    except InvalidOperation:
        return raw
    if not value.is_finite():
        return raw
    section, signed = _section_of(value, numeric)
    if section is None:
        return number_text(raw)
    if not signed and value < 0 and not ({"-", "(", "−"} & set(section.literal)) and section.kind != "literal":
        signed = True  # only the colour says that it is negative
    return _number(raw, section, signed=signed)


def _section_of(value: Decimal, numeric: list[Section]) -> tuple[Section | None, bool]:
    """The section for a value, and whether the sign has to be added to it."""
    if any(section.condition for section in numeric):
        for index, section in enumerate(numeric):
            if section.condition is None or _holds(value, *section.condition):
                return section, value < 0 and (index == 0 or section.condition is None or "-" not in section.literal)
        return None, True
    if value < 0 and len(numeric) > 1:
        return numeric[1], False
    if not value and len(numeric) > 2:
        return numeric[2], False
    return numeric[0], True


def _holds(value: Decimal, sign: str, bound: Decimal) -> bool:
    below, same = value < bound, value == bound
    return {"<": below, "<=": below or same, "=": same, "<>": not same, ">=": not below, ">": not below and not same}[
        sign
    ]


def _number(raw: str, section: Section, *, signed: bool) -> str:
    if section.kind == "literal":
        return section.literal.strip()
    text = number_text(raw)
    found = _PLAIN.fullmatch(text)
    if found is None:
        return text
    sign = "-" if found[1] and signed else ""
    digits, decimals = found[2], found[3] or ""
    if section.kind == "poured" and not decimals:
        return sign + _poured(digits, _merged(section.pieces))
    if section.kind == "fraction":
        return sign + section.around(_fraction(text.lstrip("-"), section.pattern)).strip()
    if section.kind == "scientific":
        return sign + section.around(_scientific(text.lstrip("-"), section)).strip()
    if section.kind == "general":
        return sign + section.around(text.lstrip("-")).strip()
    if section.percents or section.thousands:
        scaled = Decimal(f"{digits}.{decimals or 0}").scaleb(2 * section.percents - 3 * section.thousands)
        digits, _, decimals = f"{scaled:f}".partition(".")
        decimals = decimals.rstrip("0")
    if len(decimals) > section.most and (section.percents or len(decimals) >= section.most + CALCULATED):
        rounded = Decimal(f"{digits}.{decimals}").quantize(Decimal(1).scaleb(-section.most), ROUND_HALF_UP)
        digits, _, decimals = f"{rounded:f}".partition(".")
    decimals = decimals.ljust(section.least, "0")
    digits = digits.rjust(section.whole, "0")
    if digits == "0" and not (decimals or section.whole) and section.literal.strip():
        digits = ""  # `"-"??`, the nothing of accountants
    if section.grouped:
        padded = digits.rjust(-(-len(digits) // 3) * 3)
        digits = ",".join(padded[at : at + 3] for at in range(0, len(padded), 3)).lstrip()
    return sign + section.around(f"{digits}.{decimals}" if decimals else digits).strip()


def _poured(digits: str, pieces: list[tuple[bool, str]]) -> str:
    """Digits poured into a pattern like `000-0000` from the right."""
    rest, out = list(digits), []
    for of_pattern, text in reversed(pieces):
        for sign in reversed(text):
            if of_pattern and sign in PLACES:
                out.append(rest.pop() if rest else "0" if sign == "0" else "")
            elif not of_pattern:
                out.append(sign)
    poured = "".join(reversed(out)).strip()
    return "".join(rest) + (poured if digits == "0" or rest else re.sub(r"^[^\w(+]+", "", poured))


def _fraction(digits: str, pattern: str) -> str:
    """`0.5` as `1/2` where that is exact, else the digits."""
    head, _, below = pattern.partition("/")
    exact = Fraction(digits)
    places = max(1, len(below))
    bound = int(below) if below.isdecimal() and int(below) else 10**places - 1
    near = exact.limit_denominator(min(bound, 9_999))
    if near != exact or near.denominator == 1:
        return digits
    whole, rest = divmod(near.numerator, near.denominator)
    if "#" not in head[:-1] and "0" not in head[:-1] and len(head) == 1:
        return f"{near.numerator}/{near.denominator}"
    return f"{whole} {rest}/{near.denominator}" if whole else f"{rest}/{near.denominator}"


def _scientific(digits: str, section: Section) -> str:
    """`1500` as `1.50E+03` where that loses nothing, else the digits."""
    value = Decimal(digits)
    if len(value.normalize().as_tuple().digits) > section.most + 1:
        return digits
    mantissa, _, power = f"{value:.{section.most}E}".partition("E")
    return f"{mantissa}E{power[0]}{power[1:].rjust(2, '0')}"
