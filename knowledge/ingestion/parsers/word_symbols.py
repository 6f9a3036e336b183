"""Characters that Word draws from symbol fonts, and formulas, as plain Unicode.

Source: the code charts of the Symbol and Wingdings fonts; ECMA-376 part 1, 22.1 (maths).
"""

from __future__ import annotations

from knowledge.ingestion.parsers.xml import Element

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_GREEK_UPPER, _GREEK_LOWER = "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"
_SYMBOL = {
    **{0x41 + place: letter for place, letter in enumerate(_GREEK_UPPER)},
    **{0x61 + place: letter for place, letter in enumerate(_GREEK_LOWER)},
    **dict(zip((0x22, 0x24, 0x27, 0x2D, 0x40, 0x5C, 0x5E, 0x7E), "∀∃∍−≅∴⊥∼", strict=True)),
    **dict(zip(range(0xA2, 0xB1), "′≤⁄∞ƒ♣♦♥♠↔←↑→↓°", strict=True)),
    **dict(zip(range(0xB1, 0xBD), "±″≥×∝∂•÷≠≡≈…", strict=True)),
    **dict(zip(range(0xC4, 0xD7), "⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√", strict=True)),
    **dict(zip((0xD7, 0xD8, 0xD9, 0xDA, 0xDB, 0xDC, 0xDE, 0xE5, 0xF2), "⋅¬∧∨⇔⇐⇒∑∫", strict=True)),
}
_WINGDINGS = {
    **dict(zip((0x6C, 0x6E, 0x6F, 0x71, 0x72, 0x75, 0x76, 0x77, 0xA7, 0xA8), "●■□❑❒◆❖◆▪□", strict=True)),
    **dict(zip((0xD8, 0xDF, 0xE0, 0xE1, 0xE2, 0xE8, 0xF0, 0xFB, 0xFC, 0xFD, 0xFE), "➢←→↑↓➔⇨✗✓☒☑", strict=True)),
    **{0x8C + place: chr(0x2460 + place) for place in range(10)},
}
_WINGDINGS_2 = dict(zip((0x50, 0x4F, 0x51, 0x52, 0x53, 0x54, 0xA3), "✓✗☒☑☒☒□", strict=True))
_FONTS = {"symbol": _SYMBOL, "wingdings": _WINGDINGS, "wingdings 2": _WINGDINGS_2}


def symbol(font: str, code: str) -> str:
    """The character that `w:sym` draws: `code` is hexadecimal, usually F0xx."""
    try:
        number = int(code, 16)
    except ValueError:
        return ""
    table = _FONTS.get(font.strip().lower())
    low = number - 0xF000 if 0xF000 <= number <= 0xF0FF else number
    if table is not None:
        return table.get(low, chr(low) if font.lower() == "symbol" and 0x20 <= low < 0x7F else "•")
    if 0xE000 <= number <= 0xF8FF:
        return chr(low) if 0x20 <= low < 0x7F else "•"
    return chr(number) if 0x20 <= number < 0xD800 or 0xDFFF < number <= 0x10FFFF else ""


def private_use(text: str, font: str) -> str:
    """Ordinary text set in a symbol font: its private-use characters as what they look like."""
    return "".join(symbol(font, f"{ord(sign):X}") if "\uf020" <= sign <= "\uf0ff" else sign for sign in text)


def maths(element: Element) -> str:
    """A formula (`m:oMath` and below) on one line: `(a+b)/c`, `x^2`, `a_i`, `√(x)`."""
    name = element.tag[len(M) :] if str(element.tag).startswith(M) else ""
    if name == "t":
        return element.text or ""
    if name.endswith("Pr") or not isinstance(element.tag, str):
        return ""
    if name == "f":
        return f"{_grouped(element, 'num')}/{_grouped(element, 'den')}"
    if name in ("sSup", "sSub", "sSubSup"):
        lower = f"_{_grouped(element, 'sub')}" if name != "sSup" else ""
        upper = f"^{_grouped(element, 'sup')}" if name != "sSub" else ""
        return f"{_part(element, 'e')}{lower}{upper}"
    if name == "rad":
        return f"{_part(element, 'deg')}√({_part(element, 'e')})"
    if name == "nary":
        drawn = _sign(element, "naryPr/{M}chr", "∫")
        return f"{drawn}_{_grouped(element, 'sub')}^{_grouped(element, 'sup')} {_part(element, 'e')}"
    if name == "d":
        opening, closing = _sign(element, "dPr/{M}begChr", "("), _sign(element, "dPr/{M}endChr", ")")
        return f"{opening}{', '.join(maths(part) for part in element.iterchildren(f'{M}e'))}{closing}"
    if name == "func":
        return f"{_part(element, 'fName')} {_part(element, 'e')}"
    if name in ("limLow", "limUpp"):
        return f"{_part(element, 'e')}{'_' if name == 'limLow' else '^'}{_grouped(element, 'lim')}"
    if name == "acc":
        return f"{_part(element, 'e')}{_sign(element, 'accPr/{M}chr', chr(0x302))}"
    if name == "mr":
        return "  ".join(maths(part) for part in element.iterchildren(f"{M}e")) + "; "
    return "".join(maths(child) for child in element)


def _sign(element: Element, path: str, usual: str) -> str:
    """A sign that the properties name (`path` below the element); they may say that there is none."""
    found = element.find(f"{M}{path}".replace("{M}", M))
    value: str = found.get(f"{M}val", usual) if found is not None else usual
    return value


def _part(element: Element, name: str) -> str:
    part = element.find(f"{M}{name}")
    return maths(part) if part is not None else ""


def _grouped(element: Element, name: str) -> str:
    text = _part(element, name)
    return text if len(text) <= 1 or text.isalnum() else f"({text})"
