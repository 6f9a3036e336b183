"""The recogniser (RapidOCR with the models that its wheel brings): pixels to lines in level coordinates.

Runs in the sandbox's child only. Long screenshots are read in tiles, because the recogniser shrinks
what is longer than `LONGEST_SIDE`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import rapidocr
from numpy.typing import NDArray
from rapidocr import RapidOCR

from knowledge.ingestion.ocr.lines import Line, RecognisedPage

LONGEST_SIDE = 2000  # pixels
LEAST_SCORE = 0.6
ENLARGED = 4  # times at most that lines are looked for in: more finds no more of them, and costs by the square
THREADS = min(4, os.cpu_count() or 1)
TALL = 2.5  # times its shorter side: from there on a picture is read in tiles
TILE, OVERLAP = 2.0, 0.15  # a tile's length and what neighbours share, in shorter sides
MOST_TILES = 40
STEEP = math.radians(15)  # lines more askew say nothing about the page
LEVEL = math.radians(0.15)

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]


def recognise(pixels: Pixels, scale: float = 1.0) -> RecognisedPage:
    """The lines on an RGB picture of shape (rows, columns, 3), in pixels divided by `scale`."""
    rows, columns = pixels.shape[:2]
    quads: list[Floats] = []
    texts: list[tuple[str, float]] = []
    for offset, tile, first, last in _tiles(pixels):
        for quad, text, score in _read(tile):
            placed = quad + np.asarray(offset, np.float64)
            # What stands where two tiles overlap is taken from the one in whose own stretch its middle lies.
            along = float(placed[:, 1 if rows >= columns else 0].mean())
            if first <= along < last and score >= LEAST_SCORE and text.strip():
                quads.append(placed / scale)
                texts.append((text.strip(), score))
    skew = _skew(quads)
    lines = [Line(text, _level(quad, skew), score) for quad, (text, score) in zip(quads, texts, strict=True)]
    return RecognisedPage(columns / scale, rows / scale, skew, tuple(lines))


@cache
def _engine() -> Any:
    """The recogniser over sessions of our own: the models of the wheel, and threads that sleep while they wait.

    ONNX Runtime's threads spin by default, which on a busy machine costs twice the processor time.
    """
    cv2.setNumThreads(1)
    models = Path(rapidocr.__file__).parent / "models"
    engine: Any = RapidOCR(params={"Global.log_level": "critical", "Global.max_side_len": LONGEST_SIDE})
    engine.cfg._set_flag("allow_objects", True)
    for part, pattern in (("Det", "*_det_*.onnx"), ("Cls", "*_cls_*.onnx"), ("Rec", "*_rec_*.onnx")):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = THREADS
        # Neither arena nor plans: pictures have all sizes, and what is kept for one hardly serves another. Keeping
        # it read a page in 4.9 s of processor time instead of 6, and took 1.5 GB for three pages instead of 0.8.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        (model,) = models.glob(pattern)
        engine.cfg[part].session = onnxruntime.InferenceSession(
            str(model), sess_options=options, providers=["CPUExecutionProvider"]
        )
    engine._load_det_model()
    return engine


def _read(pixels: Pixels) -> Iterator[tuple[Floats, str, float]]:
    """Corners (4, 2) from the top left clockwise, text and score of each line."""
    engine = _engine()
    engine.text_det.limit_side_len = min(engine.cfg.Det.limit_side_len, ENLARGED * min(pixels.shape[:2]))
    found = engine(np.ascontiguousarray(pixels[:, :, ::-1]))
    if found.boxes is None or found.txts is None:
        return
    for quad, text, score in zip(found.boxes, found.txts, found.scores, strict=True):
        yield np.asarray(quad, np.float64), str(text), float(score)


def _tiles(pixels: Pixels) -> Iterator[tuple[tuple[int, int], Pixels, float, float]]:
    """(x, y) of each tile's corner, the tile, and the stretch of the long side that is its own."""
    rows, columns = pixels.shape[:2]
    short, long = sorted((rows, columns))
    if long <= max(TALL * short, LONGEST_SIDE):
        yield (0, 0), pixels, -math.inf, math.inf
        return
    length = max(TILE * short, long / MOST_TILES)
    count = math.ceil(long / length)
    borders = [-math.inf, *(long * i / count for i in range(1, count)), math.inf]
    for low, high in pairwise(borders):
        first = 0 if low == -math.inf else max(0, int(low - OVERLAP * short))
        last = long if high == math.inf else min(long, int(high + OVERLAP * short))
        if rows >= columns:
            yield (0, first), pixels[first:last], low, high
        else:
            yield (first, 0), pixels[:, first:last], low, high


def _skew(quads: list[Floats]) -> float:
    """The middling angle of the long lines, weighted by their lengths; 0 when the page is as good as level."""
    angles, weights = [], []
    for quad in quads:
        along, across = quad[1] - quad[0], quad[3] - quad[0]
        width, angle = float(np.hypot(*along)), math.atan2(along[1], along[0])
        if width > 4 * float(np.hypot(*across)) and abs(angle) < STEEP:
            angles.append(angle)
            weights.append(width)
    if not angles:
        return 0.0
    order = np.argsort(angles)
    reached = np.cumsum(np.asarray(weights)[order])
    skew = float(np.asarray(angles)[order][int(np.searchsorted(reached, reached[-1] / 2))])
    return skew if abs(skew) > LEVEL else 0.0


def _level(quad: Floats, skew: float) -> tuple[float, float, float, float]:
    """The box of a line when the page is turned level: centre turned back, width and height as measured."""
    cosine, sine = math.cos(-skew), math.sin(-skew)
    x, y = quad.mean(axis=0).tolist()
    u, v = x * cosine - y * sine, x * sine + y * cosine
    width = float(np.hypot(*(quad[1] - quad[0])) + np.hypot(*(quad[2] - quad[3]))) / 2
    height = float(np.hypot(*(quad[3] - quad[0])) + np.hypot(*(quad[2] - quad[1]))) / 2
    return u - width / 2, v - height / 2, u + width / 2, v + height / 2
