"""Pictures for tests, drawn when they are asked for: with words on them, or without."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont


def words(lines: Sequence[str], form: str = "PNG", width: int = 900, size: int = 40, turned: float = 0) -> bytes:
    """Black lines on white, `turned` by degrees."""
    picture = page(lines, width, size)
    return packed(picture.rotate(turned, fillcolor="white", expand=False), form)


def page(lines: Sequence[str], width: int = 900, size: int = 40) -> Image.Image:
    picture = Image.new("RGB", (width, 60 + len(lines) * size * 2), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(size)
    for place, line in enumerate(lines):
        pen.text((40, 40 + place * size * 2), line, fill="black", font=font)
    return picture


def gradient(width: int = 800, height: int = 600, form: str = "PNG") -> bytes:
    """A picture without words, too large to be its own thumbnail."""
    noise = Image.effect_noise((width, height), 80).convert("RGB")
    return packed(noise, form)


def packed(picture: Image.Image, form: str, more: Sequence[Image.Image] = ()) -> bytes:
    data = io.BytesIO()
    picture.save(data, form, **({"save_all": True, "append_images": list(more)} if more else {}))
    return data.getvalue()


def in_markdown(alt: str, data: bytes, mime: str = "image/png") -> str:
    return f"![{alt}](data:{mime};base64,{base64.b64encode(data).decode()})"
