"""When two questions that lie close together must not share an answer: what vectors do not tell apart.

Numbers, identifiers, negations and opposites move a vector little and an answer much. Both questions must have the
same of each, and be written in the same script: an answer is in the language of its question.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

# Digits, and words of numbers in both languages; 一 and "one" are too often no number to be worth a miss.
_NUMBER = re.compile(
    r"\d+(?:[.,:/-]\d+)*|[零二两三四五六七八九十百千万亿半]+|(?<![a-z])(?:zero|two|three|four|five|six|seven|eight"
    r"|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundred|thousand|million|half|double|twice"
    r"|first|second|third|last|next|previous)(?![a-z])"
)
# Tokens of a machine or a catalogue: a digit, a capital inside, an underscore, a dot or dash between letters.
_TOKEN = re.compile(r"[A-Za-z0-9_]+(?:[.\-/:+#@][A-Za-z0-9_]+)*[+#]*")
_IDENTIFIER = re.compile(r"\d|_|[a-z][A-Z]|[A-Z]{2}|[A-Za-z][.\-/:+#@]|[+#]$")
_QUOTED = re.compile(r"[\"“「『《`']([^\"”」』》`']{1,80})[\"”」』》`']")
# Each group: any of these words, found or not found, and how often.
_NEGATION = re.compile(
    r"(?<![a-z])(?:not|no|never|none|nobody|nothing|neither|nor|without|cannot|except|unless|but|only|un(?=able|paid"
    r"|limited|known|used|read|lock|install))(?![a-z])?|n['’]t\b|[不没無无非未别勿莫否除仅只]|禁止|拒绝"
)
_OPPOSITES = re.compile(
    r"(?<![a-z])(?:more|less|fewer|most|least|max\w*|min\w*|above|below|over|under|before|after|earl\w+|lat(?:e|er|est)"
    r"|start\w*|stop\w*|begin\w*|end\w*|open\w*|close\w*|enabl\w+|disabl\w+|on|off|in|out|up|down|buy\w*|sell\w*"
    r"|send\w*|receiv\w+|increas\w+|decreas\w+|add\w*|remov\w+|delet\w+|creat\w+|allow\w*|forbid\w*|deny|internal"
    r"|external|domestic|foreign|old\w*|new\w*|import\w*|export\w*|upload\w*|download\w*|install\w*|uninstall\w*"
    r"|why|when|where|who|whom|whose|which|how many|how much|how long|how often)(?![a-z])"
    r"|[多少大小高低上下前后早晚开关买卖进出增减加删旧新内外男女左右升降]|最|谁|哪|何时|为什么|怎么|如何|几"
)
_HAN = re.compile(r"[㐀-鿿]")


def may_share(one: str, other: str) -> bool:
    """Whether nothing that decides about an answer differs between two questions."""
    return _marks(one) == _marks(other)


def _marks(text: str) -> tuple[object, ...]:
    plain = unicodedata.normalize("NFKC", text)
    lower = plain.lower()
    identifiers = Counter(
        token.lower() for token in _TOKEN.findall(plain) if _IDENTIFIER.search(token) and not token.isdigit()
    )
    return (
        bool(_HAN.search(plain)),
        Counter(_NUMBER.findall(lower)),
        identifiers,
        _names(plain),
        Counter(quoted.strip().lower() for quoted in _QUOTED.findall(plain)),
        Counter(_NEGATION.findall(lower)),
        Counter(_OPPOSITES.findall(lower)),
    )


def _names(text: str) -> Counter[str]:
    """Words written with a capital that no sentence begins with: people, places, products."""
    return Counter(match.lower() for match in re.findall(r"(?<=[a-z,;:] )[A-Z][A-Za-z]+", text))
