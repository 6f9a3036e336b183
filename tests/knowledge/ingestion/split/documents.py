"""Documents made at random: every kind of block, recurring titles, long lines, big tables and fences."""

from __future__ import annotations

import random

from knowledge.ingestion.blocks import Block, ParsedDocument, assemble

TITLES = ["总则", "范围", "Overview", "FAQ", "总则", "3.1 报销", "Overview"]
WORDS = [
    "员工",
    "报销",
    "单据",
    "系统",
    "the",
    "quick",
    "policy",
    "API-42",
    "审批",
    "流程",
    "在",
    "的",
    "warehouse",
    "知識庫",
]
ENDS = ["。", "！", "？", ". ", "; ", "…", "，", ", ", "：", " ", "\n", "", "", ".\n", "。”"]
ODD = [
    "👨‍👩‍👧‍👦",
    "e\u0301\u0323",
    "🇨🇳🇯🇵",
    "ﷺ",
    "कि",
    "x" * 90,
    "http://a.example/b?c=d",
    "3.14",
    "e.g. this",
    "“好！”",
    "TH-01",
]


def paragraph(rng: random.Random, longest: int = 60) -> str:
    pieces = []
    for _ in range(rng.randrange(1, longest)):
        pieces.append(rng.choice(ODD) if rng.random() < 0.08 else rng.choice(WORDS))
        pieces.append(rng.choice(ENDS))
    return "".join(pieces).strip() or "空"


def table(rng: random.Random) -> str:
    width = rng.randrange(1, 5)
    rows = rng.choice([0, 1, 2, 5, 12, 40])
    lines = ["| " + " | ".join(f"列{i}" for i in range(width)) + " |", "|" + "---|" * width]
    for number in range(rows):
        cells = [
            rng.choice(["", "0", "值", f"r{number}", "a \\| b", "长" * rng.choice([1, 8, 30])]) for _ in range(width)
        ]
        cells[0] = f"行{number}"
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def code(rng: random.Random) -> str:
    fence = rng.choice(["```", "~~~", "````"])
    lines = [
        rng.choice(["# comment", "", "x = 1", "    | a | b |", "return 报销()", "y" * 150])
        for _ in range(rng.choice([0, 1, 4, 60]))
    ]
    return "\n".join([fence + rng.choice(["python", "bash", ""]), *lines, fence])


def bullets(rng: random.Random) -> str:
    return "\n".join(
        rng.choice(["- ", "* ", f"{number + 1}. ", "  - "]) + paragraph(rng, 8).replace("\n", " ")
        for number in range(rng.randrange(1, 12))
    )


def document(seed: int) -> ParsedDocument:
    rng = random.Random(seed)
    blocks: list[Block] = []
    titles: list[tuple[int, str]] = []
    page, slide, sheet = 1, None, None
    paged = rng.choice(["page", "slide", "sheet", "page", "page"])
    for _ in range(rng.randrange(1, 16)):
        path = tuple(title for _, title in titles)
        if rng.random() < 0.2:
            page += 1
        if paged == "slide":
            slide = page
        if paged == "sheet":
            sheet = f"表{page}"
        kind = rng.choice(
            ["heading", "heading", "paragraph", "paragraph", "paragraph", "list", "table", "code", "quote", "note"]
        )
        if kind == "heading":
            level, title = rng.randrange(1, 5), rng.choice(TITLES)
            titles = [one for one in titles if one[0] < level]
            path = tuple(title for _, title in titles)
            blocks.append(Block("heading", title, level=level, heading_path=path, page=page, slide=slide, sheet=sheet))
            titles.append((level, title))
            continue
        text = {"list": bullets, "table": table, "code": code}.get(kind, paragraph)(rng)
        rows = (3, 3 + text.count("\n") - 1) if kind == "table" and paged == "sheet" else None
        blocks.append(
            Block(kind, text, heading_path=path, page=page, slide=slide, sheet=sheet, rows=rows)  # type: ignore[arg-type]
        )
    return assemble("text/plain", blocks)
