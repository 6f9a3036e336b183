"""Which characters of a PDF's text layer reach the portal, and in what form.

Nothing here ever lets NUL, another control character or a lone surrogate through.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .glyphs import LAST_CODE, RIGHT, Glyphs, code_set

REPLACEMENT = 0xFFFD
SOFT_HYPHEN = 0xAD
_INVISIBLE = code_set(
    SOFT_HYPHEN, 0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF, 0xFFFE, 0xFFFF
)
# Where Symbol and Wingdings put their bullets once a PDF maps them to the private use area.
_BULLETS = {0xF0B7, 0xF0A7, 0xF06C, 0xF06E, 0xF075, 0xF076, 0xF0D8, 0xF0FC, 0xF0E8}

# Compatibility characters that fonts' tables produce where the author typed the plain one.
_COMPATIBLE = re.compile("[\u2e80-\u2fdf\uf900-\ufaff\ufb00-\ufdff\ufe70-\ufefe]")
_HIGH_LATIN_RUN = re.compile("[\u00a1-\u00ff\u0152\u0153\u0160\u0161\u017d\u017e\u0178\u0192\u2013-\u2122]{4,}")
_CJK = re.compile("[\u2e80-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")
_SPACED_CJK = re.compile(r"(?:[\u3400-\u9fff\u3001\u3002\uff00-\uff60] ){3,}[\u3400-\u9fff\u3001\u3002\uff00-\uff60]")
_MIX = 1_000_003  # a prime larger than any font size in tenths of a point or place on a page that matters
_PAGE_BITS = 44  # above every code times that prime
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def is_cjk(code: NDArray[Any]) -> NDArray[np.bool_]:
    """Characters that are written without spaces between them."""
    return (
        ((code >= 0x2E80) & (code <= 0x9FFF))
        | ((code >= 0xF900) & (code <= 0xFAFF))
        | ((code >= 0xFF00) & (code <= 0xFFEF))
        | ((code >= 0x20000) & (code <= 0x3FFFF))
    )


def is_cjk_char(char: str) -> bool:
    value = ord(char)
    return (
        0x2E80 <= value <= 0x9FFF
        or 0xF900 <= value <= 0xFAFF
        or 0xFF00 <= value <= 0xFFEF
        or 0x20000 <= value <= 0x3FFFF
    )


def cjk_count(text: str) -> int:
    """How many characters of a text are written without spaces between them."""
    return len(_CJK.findall(text)) if not text.isascii() else 0


def is_rtl(code: NDArray[Any]) -> NDArray[np.bool_]:
    """Hebrew, Arabic and their presentation forms."""
    return (
        ((code >= 0x590) & (code <= 0x8FF))
        | ((code >= 0xFB1D) & (code <= 0xFDFF))
        | ((code >= 0xFE70) & (code <= 0xFEFC))
    )


def clean_glyphs(glyphs: Glyphs) -> tuple[Glyphs, int]:
    """Drop invisible and forbidden characters, join surrogate pairs, draw doubled glyphs once.

    Returns the glyphs that remain and how many forbidden characters (NUL, controls, lone surrogates) went.
    """
    if len(glyphs) and glyphs.code.min() >= 0x20 and glyphs.code.max() < 0x7F:  # nothing in there needs a look
        return _without_doubles(glyphs), 0
    code = glyphs.code.copy()
    high = (code >= 0xD800) & (code < 0xDC00)
    low = (code >= 0xDC00) & (code < 0xE000)
    pair = np.zeros(len(code), np.bool_)
    pair[:-1] = high[:-1] & low[1:]
    at = np.flatnonzero(pair)
    code[at] = 0x10000 + ((code[at] - 0xD800) << 10) + (code[at + 1] - 0xDC00)
    joined = np.zeros(len(code), np.bool_)
    joined[at + 1] = True
    lone = (high & ~pair) | (low & ~joined) | (code > LAST_CODE)
    code[lone] = REPLACEMENT
    # A soft hyphen that takes room was drawn: it is the hyphen that one sees, at a line's end or in a word.
    drawn = (code == SOFT_HYPHEN) & (glyphs.box[:, 2] - glyphs.box[:, 0] > 0.1 * glyphs.em)
    code[drawn & (glyphs.frame == RIGHT)] = 0x2D
    control = (code < 0x20) | ((code >= 0x7F) & (code < 0xA0))
    drop = joined | control | _INVISIBLE[code]
    private = (code >= 0xE000) & (code < 0xF900)
    if private.any():
        code[np.isin(code, list(_BULLETS))] = 0x2022
    glyphs = replace(glyphs, code=code, space=_carry_spaces(glyphs.space, drop))
    keep = ~drop
    if not keep.all():
        glyphs = glyphs.take(np.flatnonzero(keep))
    if is_rtl(code).any():
        glyphs = _right_to_left(glyphs)
    return _without_doubles(glyphs), int(control.sum() + lone.sum())


def _right_to_left(glyphs: Glyphs) -> Glyphs:
    """Words of Hebrew and Arabic whose letters come in the order in which they stand from left to right, turned round.

    PDFium turns most of them itself; those that a browser printed it turns twice.
    """
    rtl = is_rtl(glyphs.code) & (glyphs.frame == RIGHT)
    joined = rtl[1:] & rtl[:-1] & (glyphs.line[1:] == glyphs.line[:-1]) & (glyphs.space[1:] == 0)
    order = np.arange(len(glyphs))
    space = glyphs.space.copy()
    ends = np.flatnonzero(~np.concatenate([joined, [False]]))
    starts = np.concatenate([[0], ends[:-1] + 1])
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        if last == first or not rtl[first]:
            continue
        steps = np.diff(glyphs.box[first : last + 1, 0])
        if (steps > 0).sum() > 0.6 * len(steps):
            order[first : last + 1] = order[first : last + 1][::-1]
    if (order == np.arange(len(glyphs))).all():
        return glyphs
    return replace(glyphs.take(order), space=space)


def _carry_spaces(space: NDArray[np.int8], drop: NDArray[np.bool_]) -> NDArray[np.int8]:
    """A space before a dropped glyph belongs to the next one that stays."""
    spaced = np.flatnonzero((space > 0) & drop)
    if not len(spaced):
        return space
    carried = space.copy()
    for at in spaced:
        follower = at + 1
        while follower < len(drop) and drop[follower]:
            follower += 1
        if follower < len(drop):
            carried[follower] = max(carried[follower], space[at])
    return carried


def _without_doubles(glyphs: Glyphs) -> Glyphs:
    """Fake bold and shadows draw the same character twice, a fraction of its width apart: keep the first."""
    doubled = doubles_among(glyphs)
    return glyphs.take(np.flatnonzero(~doubled)) if doubled.any() else glyphs


def doubles_among(glyphs: Glyphs, page: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
    """Which glyphs only draw an earlier one again. `page` tells apart glyphs of several pages."""
    count = len(glyphs)
    doubled = np.zeros(count, np.bool_)
    if count < 2:
        return doubled
    x, y, em = glyphs.origin[:, 0], glyphs.origin[:, 1], glyphs.em
    step = np.maximum(em, 1.0) * 0.12
    kind = glyphs.code.astype(np.int64) * _MIX + np.round(em * 10).astype(np.int64)
    if page is not None:
        kind += page << _PAGE_BITS
    # Twice, with cells shifted by half, so that no pair is missed at a cell's border.
    for shift in (0.0, 0.5):
        column = np.floor(x / step + shift).astype(np.int64)
        row = np.floor(y / step + shift).astype(np.int64)
        key = (kind * _MIX + row) * _MIX + column  # runs over and round, as a hash may
        order = np.argsort(key, kind="stable")
        ranked = key[order]
        at = np.flatnonzero(ranked[1:] == ranked[:-1])
        if not len(at):
            continue
        later, earlier = order[at + 1], order[at]
        same = (kind[later] == kind[earlier]) & (row[later] == row[earlier]) & (column[later] == column[earlier])
        # Pieces of one ligature share box and text object and may repeat a letter ("ff"): no doubles.
        twin = (glyphs.owner[later] == glyphs.owner[earlier]) & (glyphs.box[later] == glyphs.box[earlier]).all(axis=1)
        doubled[later[same & ~twin]] = True
    return doubled


def decode(codes: NDArray[np.uint32]) -> str:
    """Codes to text, one character a code."""
    return codes.astype("<u4").tobytes().decode("utf-32-le")


def tidy(text: str) -> str:
    """Compatibility forms to plain ones, mis-declared GBK to Chinese, letter-spaced Chinese joined."""
    if text.isascii():
        return text
    if _COMPATIBLE.search(text):
        text = _COMPATIBLE.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    if _HIGH_LATIN_RUN.search(text):
        text = _HIGH_LATIN_RUN.sub(_gbk_again, text)
    if " " in text:
        text = _SPACED_CJK.sub(lambda found: found[0].replace(" ", ""), text)
    return text


def _gbk_again(found: re.Match[str]) -> str:
    """`È«ÊÀ½ç` is 全世界 whose bytes were declared as Western: no language writes four accents in a row."""
    try:
        decoded = found[0].encode("cp1252").decode("gb2312")
    except (UnicodeEncodeError, UnicodeDecodeError):
        return found[0]
    return decoded if all(is_cjk_char(char) for char in decoded) else found[0]


def scrub(text: str) -> str:
    """Text from elsewhere (fallback, outline, metadata): the same promise as for glyphs."""
    return tidy(_FORBIDDEN.sub(lambda found: "\ufffd" if "\ud800" <= found[0] <= "\udfff" else "", text))
