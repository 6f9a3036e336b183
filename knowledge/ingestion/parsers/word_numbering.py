"""Word's automatic numbers: which label a numbered paragraph shows, as Word would draw it.

Counters belong to the abstract list, so several lists (`w:num`) over one abstract list count on,
unless one overrides the start. Source: ECMA-376 part 1, 17.9 (numbering) and 17.18.59 (ST_NumberFormat).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from knowledge.ingestion.parsers.xml import Element, integer

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
VAL = f"{W}val"
BULLET = "-"
_PLACE = re.compile(r"%([1-9])")
_HAN, _HAN_UNITS = "〇一二三四五六七八九", ("", "十", "百", "千")
_LEGAL, _LEGAL_UNITS = "零壹贰叁肆伍陆柒捌玖", ("", "拾", "佰", "仟")
_CYCLES = {
    "ideographTraditional": "甲乙丙丁戊己庚辛壬癸",
    "ideographZodiac": "子丑寅卯辰巳午未申酉戌亥",
    "aiueo": "ｱｲｳｴｵｶｷｸｹｺｻｼｽｾｿﾀﾁﾂﾃﾄﾅﾆﾇﾈﾉﾊﾋﾌﾍﾎﾏﾐﾑﾒﾓﾔﾕﾖﾗﾘﾙﾚﾛﾜｦﾝ",
    "aiueoFullWidth": "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン",
    "ganada": "가나다라마바사아자차카타파하",
    "russianLower": "абвгдежзиклмнопрстуфхцчшщыэюя",
    "russianUpper": "АБВГДЕЖЗИКЛМНОПРСТУФХЦЧШЩЫЭЮЯ",
}


@dataclass(slots=True)
class Level:
    """One level of an abstract list."""

    start: int = 1
    kind: str = "decimal"
    pattern: str = ""
    legal: bool = False
    glued: bool = False
    restart: int | None = None
    style: str = ""


@dataclass(slots=True)
class _List:
    abstract: str
    starts: dict[int, int] = field(default_factory=dict)
    levels: dict[int, Level] = field(default_factory=dict)


class Numbering:
    """The counters of one document. `label` must be called for every numbered paragraph, in order."""

    def __init__(self, root: Element | None) -> None:
        self._abstract: dict[str, dict[int, Level]] = {}
        self._lists: dict[str, _List] = {}
        self._counters: dict[str, dict[int, int]] = {}
        self._started: set[str] = set()
        if root is not None:
            self._read(root)

    def level_of_style(self, list_id: str, style: str) -> int | None:
        """The level of a list that a paragraph style is tied to."""
        for number, level in self._levels(list_id).items():
            if level.style == style:
                return number
        return None

    def label(self, list_id: str, level: int) -> str | None:
        """Count the paragraph and give its label, ending as it would be followed by text; None if it is in no list.

        A bullet is `- `; a level that shows nothing gives "".
        """
        found = self._lists.get(list_id)
        levels = self._levels(list_id)
        if found is None or level not in levels:
            return None
        counters = self._counters.setdefault(found.abstract, {})
        if list_id not in self._started:
            self._started.add(list_id)
            for number in found.starts:
                counters.pop(number, None)
        this = levels[level]
        start = found.starts.get(level, this.start)
        counters[level] = counters[level] + 1 if level in counters else start
        for deeper in [number for number in counters if number > level]:
            restart = levels[deeper].restart if deeper in levels else None
            if restart is None or (restart and level < restart):
                del counters[deeper]
        if this.kind == "bullet":
            return f"{BULLET} "
        text = _PLACE.sub(lambda place: self._number(int(place[1]) - 1, this, levels, counters, found), this.pattern)
        return text if this.glued or not text.strip() else f"{text.strip()} "

    def _number(self, place: int, this: Level, levels: dict[int, Level], counters: dict[int, int], found: _List) -> str:
        level = levels.get(place)
        if level is None:
            return ""
        value = counters.get(place, found.starts.get(place, level.start))
        counters.setdefault(place, value)
        return number_text(value, "decimal" if this.legal else level.kind)

    def _levels(self, list_id: str) -> dict[int, Level]:
        found = self._lists.get(list_id)
        if found is None:
            return {}
        return {**self._abstract.get(found.abstract, {}), **found.levels}

    def _read(self, root: Element) -> None:
        by_style: dict[str, str] = {}
        links: dict[str, str] = {}
        for element in root.iterchildren(f"{W}abstractNum"):
            key = element.get(f"{W}abstractNumId", "")
            self._abstract[key] = dict(map(_level, element.iterchildren(f"{W}lvl")))
            style, link = element.find(f"{W}styleLink"), element.find(f"{W}numStyleLink")
            if style is not None:
                by_style[style.get(VAL, "")] = key
            if link is not None:
                links[key] = link.get(VAL, "")
        for element in root.iterchildren(f"{W}num"):
            abstract = element.find(f"{W}abstractNumId")
            key = abstract.get(VAL, "") if abstract is not None else ""
            entry = _List(by_style.get(links.get(key, ""), key))
            for override in element.iterchildren(f"{W}lvlOverride"):
                number = integer(override.get(f"{W}ilvl"))
                start, level = override.find(f"{W}startOverride"), override.find(f"{W}lvl")
                if level is not None:
                    entry.levels[number] = _level(level)[1]
                if start is not None:
                    entry.starts[number] = integer(start.get(VAL), 1)
            self._lists[element.get(f"{W}numId", "")] = entry


def _level(element: Element) -> tuple[int, Level]:
    level = Level()
    for child in element:
        name, value = child.tag, child.get(VAL)
        if name == f"{W}start":
            level.start = integer(value, 1)
        elif name == f"{W}numFmt":
            level.kind = value or "decimal"
        elif name == f"{W}lvlText":
            level.pattern = value or ""
        elif name == f"{W}isLgl":
            level.legal = value not in ("0", "false")
        elif name == f"{W}suff":
            level.glued = value == "nothing"
        elif name == f"{W}lvlRestart":
            level.restart = integer(value)
        elif name == f"{W}pStyle":
            level.style = value or ""
    return integer(element.get(f"{W}ilvl")), level


def number_text(value: int, kind: str) -> str:
    """A number in one of Word's number formats; unknown formats fall back to digits."""
    if kind == "none":
        return ""
    if value < 1 or value > 1_000_000:
        return str(value)
    if kind in ("lowerLetter", "upperLetter"):
        letter = chr(97 + (value - 1) % 26) * min(1 + (value - 1) // 26, 40)
        return letter if kind == "lowerLetter" else letter.upper()
    if kind in ("lowerRoman", "upperRoman"):
        roman = _roman(value)
        return roman.lower() if kind == "lowerRoman" else roman
    if kind in _CYCLES:
        return _CYCLES[kind][(value - 1) % len(_CYCLES[kind])]
    return _east_asian(value, kind)


def _east_asian(value: int, kind: str) -> str:
    if kind in ("chineseLegalSimplified", "ideographLegalTraditional", "japaneseLegal"):
        return _counted(value, _LEGAL, _LEGAL_UNITS)
    if kind in ("ideographDigital", "japaneseDigitalTenThousand", "taiwaneseDigital", "koreanDigital"):
        return "".join(_HAN[int(digit)] for digit in str(value))
    if kind.startswith(("chineseCounting", "japaneseCounting", "taiwaneseCounting", "koreanCounting")):
        return _counted(value, _HAN, _HAN_UNITS)
    if kind in ("decimalEnclosedCircle", "decimalEnclosedCircleChinese") and value <= 20:
        return chr(0x2460 + value - 1)
    if kind == "decimalEnclosedParen" and value <= 20:
        return chr(0x2474 + value - 1)
    if kind in ("ideographEnclosedCircle",) and value <= 10:
        return chr(0x3280 + value - 1)
    if kind in ("decimalFullWidth", "decimalFullWidth2"):
        return "".join(chr(0xFF10 + int(digit)) for digit in str(value))
    if kind == "decimalZero":
        return f"{value:02d}"
    if kind == "ordinal":
        ending = "th" if value % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(value % 10, "th")
        return f"{value}{ending}"
    return str(value)


def _counted(value: int, digits: str, units: tuple[str, ...]) -> str:
    """二十三, 一百〇五: read out with units, zeros between digits once."""
    if value >= 10_000:
        return "".join(digits[int(digit)] for digit in str(value))
    text, zero = "", False
    for place in range(3, -1, -1):
        digit = value // 10**place % 10
        if digit:
            text += (digits[0] if zero and text else "") + digits[digit] + units[place]
            zero = False
        else:
            zero = bool(text)
    return text[1:] if text.startswith("一十") else text


def _roman(value: int) -> str:
    if value > 3999:
        return str(value)
    pairs = ((1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"), (50, "L"), (40, "XL"))
    text = ""
    for size, sign in (*pairs, (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")):
        text += sign * (value // size)
        value %= size
    return text
