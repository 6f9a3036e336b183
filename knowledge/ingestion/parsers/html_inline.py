"""What stands inside a line of HTML and means more than its letters: formulas and list numbers."""

from __future__ import annotations

from typing import Any

from knowledge.ingestion.parsers.word_numbering import number_text

Node = Any
_NUMBERINGS = {"a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
MAX_DEPTH = 60


def label(number: int, kind: str | None) -> str:
    """The number of a list item as its list shows it (`type`)."""
    return number_text(number, _NUMBERINGS.get(kind or "", "decimal"))


def formula(node: Node, depth: int = 0) -> str:
    """MathML on one line: `a/b`, `x^2`, `√(x)`; the author's own text form where there is one."""
    spoken = (node.attributes.get("alttext") or "").strip() if node.tag == "math" else ""
    if spoken:
        return spoken
    if node.tag == "-text":
        return " ".join((node.text_content or "").split())
    if node.tag in ("annotation", "annotation-xml", "-comment") or depth > MAX_DEPTH:
        return ""
    parts = []
    child = node.child
    while child is not None:
        if child.tag != "-text" or (child.text_content or "").strip():
            parts.append(formula(child, depth + 1))
        child = child.next
    if node.tag in ("mfrac", "msup", "msub") and len(parts) == 2:
        return _grouped(parts[0]) + {"mfrac": "/", "msup": "^", "msub": "_"}[node.tag] + _grouped(parts[1])
    if node.tag in ("msubsup", "munderover") and len(parts) == 3:
        return f"{parts[0]}_{_grouped(parts[1])}^{_grouped(parts[2])}"
    if node.tag == "msqrt":
        return f"√({''.join(parts)})"
    if node.tag == "mroot" and len(parts) == 2:
        return f"{parts[1]}√({parts[0]})"
    if node.tag in ("mtr", "mlabeledtr"):
        return ", ".join(parts) + "; "
    return "".join(parts)


def _grouped(text: str) -> str:
    return text if len(text) <= 1 or text.isalnum() else f"({text})"
