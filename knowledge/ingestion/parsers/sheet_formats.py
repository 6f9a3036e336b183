"""How a stored number is shown: the number formats of a spreadsheet's cells, and its dates and times.

Dates are written year first, whatever order the format has. Other formats: `sheet_numbers.py`.
Source: ECMA-376 part 1, 18.8.30 (numFmt) and 18.8.31 (numFmts).
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from knowledge.ingestion.parsers.sheet_numbers import Show, number_display, number_text, text_display
from knowledge.ingestion.parsers.xml import Element, integer

_DATES = {14, 15, 16, 17, 22, *range(27, 37), *range(50, 59)}
BUILT_IN = {9: "0%", 10: "0.00%", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM"}
BUILT_IN |= {19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 45: "mm:ss", 46: "[h]:mm:ss"}
BUILT_IN |= {32: "h:mm", 33: "h:mm:ss", 47: "mm:ss"}
# 5 to 8 and 41 to 44 name the currency of whoever looks, so they only group here.
BUILT_IN |= {2: "0.00", 3: "#,##0", 4: "#,##0.00", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 48: "##0.0E+0"}
BUILT_IN |= dict.fromkeys((5, 6, 37, 38, 41, 42), "#,##0;(#,##0)")
BUILT_IN |= dict.fromkeys((7, 8, 39, 40, 43, 44), "#,##0.00;(#,##0.00)")
_QUOTED = re.compile(r'"[^"]*"|\\.|_.|\*.')
_BRACKETS = re.compile(r"\[(?!h+\]|m+\]|s+\])[^\]]*\]", re.IGNORECASE)
EPOCH_1900, EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
LAST_SERIAL = 2_958_466  # the day after 9999-12-31


class Format(NamedTuple):
    """How a cell style shows a stored number and a text; None for as it is."""

    number: Show | None
    text: Show | None


AS_IT_IS = Format(None, None)


def styles(root: Element | None, *, date1904: bool = False) -> list[Format]:
    """The format of each cell style (`cellXfs`) in order."""
    if root is None:
        return []
    codes = dict(BUILT_IN)
    for element in root.iter("{*}numFmt"):
        codes[integer(element.get("numFmtId"), -1)] = element.get("formatCode", "")
    found: list[Format] = []
    cache: dict[str, Format] = {"": AS_IT_IS}
    for xfs in root.iter("{*}cellXfs"):
        for xf in xfs:
            number = integer(xf.get("numFmtId"))
            code = codes.get(number, "yyyy-mm-dd" if number in _DATES else "")
            if code not in cache:
                cache[code] = Format(display(code, date1904=date1904), text_display(code))
            found.append(cache[code])
    return found


def is_date(code: str) -> bool:
    """Whether a format code shows a date, a time or a duration."""
    lowered = _bare(code).lower()
    if "general" in lowered:
        return False
    lowered = re.sub(r"am/pm|a/p|上午/下午", "", lowered)
    if re.search(r"[^\W\d_ymdhsegabn\x80-\uffff]", lowered):
        return False  # `Standard`: a word of another language's program
    return bool(re.search(r"[ymdhs年月日]|aaa", lowered)) and not re.search(r"[0#?]", re.sub(r"s[.,]0+", "s", lowered))


def display(code: str, *, date1904: bool = False) -> Show | None:
    """How a format code shows a stored number, or None when it shows the plain digits."""
    if is_date(code):
        bare = _bare(code)
        return _date_display(re.sub(r"am/pm|a/p", "", bare.lower()), EPOCH_1904 if date1904 else EPOCH_1900)
    return number_display(code)


def _bare(code: str) -> str:
    """The section for positive numbers without quoted text, escapes, colours and locales."""
    return _BRACKETS.sub("", _QUOTED.sub("", code.split(";")[0]))


def _date_display(code: str, epoch: datetime) -> Show:
    elapsed = re.search(r"\[(h+|m+|s+)\]", code)
    if elapsed:
        return lambda raw: _elapsed(raw)
    has_date = bool(re.search(r"[yd]|aaa", code)) or ("m" in code and not re.search(r"[hs]", code))
    has_time = bool(re.search(r"[hs]", code))
    has_day = "d" in code or not re.search(r"y.*m|m.*y", code)
    seconds = "s" in code
    return lambda raw: _date(raw, epoch, has_date=has_date, has_time=has_time, has_day=has_day, seconds=seconds)


def _date(raw: str, epoch: datetime, *, has_date: bool, has_time: bool, has_day: bool, seconds: bool) -> str:
    try:
        serial = float(raw)
    except ValueError:
        return raw
    if not 0 <= serial < LAST_SERIAL:
        return number_text(raw)
    if epoch is EPOCH_1900 and 1 <= serial < 60:
        serial += 1  # Excel keeps Lotus' 29 February 1900, so the first two months are off by one
    moment = epoch + timedelta(seconds=round(serial * 86_400))
    clock = f"{moment:%H:%M:%S}" if seconds else f"{moment:%H:%M}"
    if not has_date:
        return clock
    day = f"{moment.year:04d}-{moment:%m-%d}" if has_day else f"{moment.year:04d}-{moment:%m}"
    return f"{day} {clock}" if has_time else day


def _elapsed(raw: str) -> str:
    try:
        total = round(float(raw) * 86_400)
    except (ValueError, OverflowError):
        return raw
    hours, rest = divmod(abs(total), 3600)
    return f"{'-' if total < 0 else ''}{hours}:{rest // 60:02d}:{rest % 60:02d}"
