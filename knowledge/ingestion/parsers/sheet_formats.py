"""How a stored number is shown: dates, times, percentages and padded numbers of a spreadsheet.

Only formats that change the meaning are applied. A plain number keeps its stored digits, because
rounding or grouping them would make the exact value impossible to find.
Source: ECMA-376 part 1, 18.8.30 (numFmt) and 18.8.31 (numFmts).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from knowledge.ingestion.parsers.xml import Element, integer

Show = Callable[[str], str]
_DATES = {14, 15, 16, 17, 22, *range(27, 37), *range(50, 59)}
BUILT_IN = {9: "0%", 10: "0.00%", 14: "yyyy-mm-dd", 15: "d-mmm-yy", 16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM"}
BUILT_IN |= {19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm", 45: "mm:ss", 46: "[h]:mm:ss"}
BUILT_IN |= {32: "h:mm", 33: "h:mm:ss", 47: "mm:ss"}
_QUOTED = re.compile(r'"[^"]*"|\\.|_.|\*.')
_BRACKETS = re.compile(r"\[(?!h+\]|m+\]|s+\])[^\]]*\]", re.IGNORECASE)
EPOCH_1900, EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)
LAST_SERIAL = 2_958_466  # the day after 9999-12-31


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


def styles(root: Element | None, *, date1904: bool = False) -> list[Show | None]:
    """For each cell style (`cellXfs`), how it shows a number; None when it shows the plain digits."""
    if root is None:
        return []
    codes = dict(BUILT_IN)
    for element in root.iter("{*}numFmt"):
        codes[integer(element.get("numFmtId"), -1)] = element.get("formatCode", "")
    found: list[Show | None] = []
    cache: dict[str, Show | None] = {}
    for xfs in root.iter("{*}cellXfs"):
        for xf in xfs:
            number = integer(xf.get("numFmtId"))
            code = codes.get(number, "yyyy-mm-dd" if number in _DATES else "")
            if code not in cache:
                cache[code] = display(code, date1904=date1904)
            found.append(cache[code])
    return found


def is_date(code: str) -> bool:
    """Whether a format code shows a date, a time or a duration."""
    lowered = _bare(code).lower()
    if "general" in lowered:
        return False
    lowered = re.sub(r"am/pm|a/p|上午/下午", "", lowered)
    return bool(re.search(r"[ymdhs年月日]", lowered)) and not re.search(r"[0#?]", re.sub(r"s[.,]0+", "s", lowered))


def display(code: str, *, date1904: bool = False) -> Show | None:
    """How a format code shows a stored number, or None when it shows the plain digits."""
    bare = _bare(code)
    if "general" in bare.lower():
        return None
    if is_date(code):
        return _date_display(re.sub(r"am/pm|a/p", "", bare.lower()), EPOCH_1904 if date1904 else EPOCH_1900)
    if "%" in bare:
        decimals = len(re.sub(r"[^0#?]", "", bare.partition(".")[2])) if "." in bare else 0
        return lambda raw: _percent(raw, decimals)
    section = code.split(";")[0]
    literal = re.sub(r'"([^"]*)"|\\(.)', lambda found: found[1] or found[2] or "", _BRACKETS.sub("", section))
    if re.fullmatch(r"[0#][0#\- ()]*0", literal) and literal.count("0") > 1:
        return lambda raw: _padded(raw, literal)
    return None


def _bare(code: str) -> str:
    """The section for positive numbers without quoted text, escapes, colours and locales."""
    return _BRACKETS.sub("", _QUOTED.sub("", code.split(";")[0]))


def _date_display(code: str, epoch: datetime) -> Show:
    elapsed = re.search(r"\[(h+|m+|s+)\]", code)
    if elapsed:
        return lambda raw: _elapsed(raw)
    has_date = bool(re.search(r"[yd]", code)) or ("m" in code and not re.search(r"[hs]", code))
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


def _percent(raw: str, decimals: int) -> str:
    try:
        value = Decimal(raw) * 100
        return f"{value.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):f}%"
    except InvalidOperation:
        return raw


def _padded(raw: str, pattern: str) -> str:
    """Digits poured into a pattern like `000-0000` from the right."""
    text = number_text(raw)
    digits = text.lstrip("-")
    if not digits.isdigit():
        return text
    rest, out = list(digits), []
    for sign in reversed(pattern):
        if sign in "0#":
            out.append(rest.pop() if rest else "0" if sign == "0" else "")
        else:
            out.append(sign)
    return ("-" if text.startswith("-") else "") + "".join(rest) + "".join(reversed(out)).strip()
