"""A deterministic synthetic corpus: Chinese and English prose with a realistic distribution of words."""

from __future__ import annotations

import random
from collections.abc import Iterator

_SUBJECTS = (
    "传感器",
    "网关",
    "温度探头",
    "压力变送器",
    "采购申请",
    "年假",
    "报销单",
    "客户合同",
    "安全规范",
    "质量报告",
    "固件版本",
    "校准证书",
    "sensor",
    "gateway",
    "probe",
    "transmitter",
    "invoice",
    "holiday",
    "contract",
    "policy",
    "firmware",
    "certificate",
    "shipment",
    "warehouse",
)
_VERBS = (
    "需要",
    "支持",
    "记录",
    "检查",
    "更新",
    "提交",
    "影响",
    "说明",
    "requires",
    "supports",
    "records",
    "checks",
    "updates",
    "affects",
    "explains",
    "limits",
)
_OBJECTS = (
    "每年一次的复核",
    "部门负责人的批准",
    "三个工作日内的答复",
    "完整的测试数据",
    "最新的接口文档",
    "备用电源",
    "a yearly review",
    "the manager's approval",
    "an answer within three days",
    "complete test data",
    "the newest API document",
    "a spare power supply",
)
_PLACES = (
    "在上海工厂",
    "在苏州仓库",
    "对海外客户",
    "按照第七条",
    "in the Berlin office",
    "for customers abroad",
    "under section seven",
)


def documents(count: int, sections: int, *, seed: int = 20260101) -> Iterator[tuple[str, str]]:
    """(name, Markdown) of `count` documents with `sections` sections of about one leaf each.

    The same arguments give the same text in every run and on every machine.
    """
    chance = random.Random(seed)  # noqa: S311 (a corpus, not a secret)
    for number in range(count):
        lines = [f"# 文档 {number} Document {number}", ""]
        for section in range(sections):
            lines += [f"## {chance.choice(_SUBJECTS)} {number}-{section}", ""]
            lines += [_paragraph(chance, number, section), ""]
        yield f"bench-{number:05d}.md", "\n".join(lines)


def _paragraph(chance: random.Random, number: int, section: int) -> str:
    chinese = (number + section) % 2 == 0
    sentences = []
    for place in range(8 if chinese else 6):
        # Zipf-like: some subjects are everywhere, codes stand in one place only.
        subject = _SUBJECTS[min(int(chance.paretovariate(1.1)) - 1, len(_SUBJECTS) - 1)]
        code = f"TH-{number:04d}-{section:02d}{place}" if chance.random() < 0.15 else ""
        parts = [subject, code, chance.choice(_VERBS), chance.choice(_OBJECTS), chance.choice(_PLACES)]
        sentence = ("" if chinese else " ").join(part for part in parts if part)
        sentences.append(sentence + ("。" if chinese else ". "))
    return "".join(sentences)
