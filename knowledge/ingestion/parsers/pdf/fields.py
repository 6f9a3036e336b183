"""Form fields and text boxes that a PDF stores without a drawing of them.

Viewers draw them when they show the page (`NeedAppearances`); PDFium's text does not hold them. Fields with a drawing
are read from it, where they stand.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pypdfium2.raw as pdfium

from .paragraphs import Draft
from .strings import contents_of, read_string

WITH_TEXT = (pdfium.FPDF_FORMFIELD_TEXTFIELD, pdfium.FPDF_FORMFIELD_COMBOBOX, pdfium.FPDF_FORMFIELD_LISTBOX)
LABEL_GAP = 150.0  # points between a label and its field
LONGEST_LABEL = 100  # characters
_Wide = ctypes.POINTER(pdfium.FPDF_WCHAR)


def undrawn_text(annotation: Any, form: Any) -> str:
    """The value of a field, or the words of a text box, that has no drawing; "" for any other annotation.

    `form` is PDFium's form environment, None when the document has none.
    """
    if pdfium.FPDFAnnot_GetAP(annotation, pdfium.FPDF_ANNOT_APPEARANCEMODE_NORMAL, None, 0) > 2:
        return ""
    kind = pdfium.FPDFAnnot_GetSubtype(annotation)
    if kind == pdfium.FPDF_ANNOT_FREETEXT:
        return contents_of(annotation)
    if kind != pdfium.FPDF_ANNOT_WIDGET or form is None:
        return ""
    if pdfium.FPDFAnnot_GetFormFieldType(form, annotation) not in WITH_TEXT:
        return ""
    return read_string(_filling(pdfium.FPDFAnnot_GetFormFieldValue, form, annotation))


def with_undrawn(drafts: list[Draft], fields: Sequence[Draft]) -> list[Draft]:
    """The drafts of a page with those of `undrawn_text`, each behind the label to its left, if there is one."""
    found = list(drafts)
    for field in fields:
        if any(field.text in draft.text for draft in drafts):  # drawn all the same
            continue
        label = _label(drafts, field)
        if label:
            field.text = f"{label} {field.text}"
        found.append(field)
    return found


def _label(drafts: Sequence[Draft], field: Draft) -> str:
    left, middle = field.box[0], (field.box[1] + field.box[3]) / 2
    beside = [
        draft
        for draft in drafts
        if draft.box[1] <= middle <= draft.box[3] and 0 <= left - draft.box[2] + 4 <= LABEL_GAP
    ]
    nearest = max(beside, key=lambda draft: draft.box[2], default=None)
    return nearest.text if nearest is not None and len(nearest.text) <= LONGEST_LABEL else ""


def _filling(call: Callable[..., int], form: Any, annotation: Any) -> Callable[[Any, int], int]:
    return lambda buffer, size: call(form, annotation, ctypes.cast(buffer, _Wide) if buffer is not None else None, size)
