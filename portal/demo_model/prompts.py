"""What the demo model sees in a request, whatever wire format it came in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TOKEN = re.compile(r"[㐀-鿿]|\w+\s*|[^\w\s]\s*|\s+")
_TAGGED = re.compile(
    r"<(passage|document|source|context|chunk)\b[^>]*?\b(?:id|number|index|n)\s*=\s*[\"']?(\d+)[\"']?[^>]*>(.*?)</\1>",
    re.DOTALL | re.IGNORECASE,
)
_NUMBERED = re.compile(r"^\s*\[(\d+)\][:.)]?\s*(.+?)(?=^\s*\[\d+\]|\n\s*\n(?!\s*\[)|\Z)", re.DOTALL | re.MULTILINE)
_QUESTION = re.compile(r"^\s*(?:the )?(?:question|query|问题|提问)\s*[:：]\s*(.+)$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r"[a-z0-9]+", re.IGNORECASE)
_HAN = re.compile(r"[㐀-鿿]+")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]?")
_FENCED = re.compile(r"```json\s*(\{.*?\})\s*```", re.DOTALL)
_FILLERS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be by can do does for from how i in is it of on or our the this that to was we what "
        "when where which who why will with you your",
    )
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request. `tools` are name → JSON Schema of the arguments; `schema` is what the answer must fit."""

    messages: tuple[tuple[str, str], ...]
    tools: Mapping[str, Mapping[str, Any]]
    schema: Mapping[str, Any] | None
    max_tokens: int | None
    must_call: str = ""
    wants_json: bool = False
    stop: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(text for _, text in self.messages)

    @property
    def last(self) -> str:
        """The last thing a person said, without a schema that a client wrote below it."""
        said = next((text for role, text in reversed(self.messages) if role == "user"), "")
        return _FENCED.sub("", said).removesuffix("Use this JSON schema: \n    ").strip()

    @property
    def answers_tools(self) -> bool:
        """Whether the last message brings results of tools."""
        return bool(self.messages) and self.messages[-1][0] == "tool"


def written_schema(prompt: Prompt) -> Mapping[str, Any] | None:
    """The JSON Schema that stands in the text itself, as clients write it for models that take none."""
    for block in _FENCED.findall(prompt.text):
        try:
            schema = json.loads(block)
        except ValueError:
            continue
        if isinstance(schema, dict) and "type" in schema:
            return schema
    return None


def tokens_of(text: str) -> list[str]:
    """Words with the space after them, Han characters and signs, joined again the very text."""
    return _TOKEN.findall(text)


def text_of(content: Any) -> str:
    """The text of a message's content: a string, or parts of any provider's shape."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        for key in ("text", "content", "parts"):
            if key in content:
                return text_of(content[key])
        return ""
    if isinstance(content, Sequence):
        return "\n".join(filter(None, (text_of(part) for part in content)))
    return ""


def passages_of(prompt: Prompt) -> dict[int, str]:
    """The numbered passages of a prompt: `<passage id="1">…</passage>` or paragraphs that begin with `[1]`."""
    text = prompt.text
    tagged = {int(number): body.strip() for _, number, body in _TAGGED.findall(text)}
    return tagged or {int(number): body.strip() for number, body in _NUMBERED.findall(text)}


def question_of(prompt: Prompt) -> str:
    """The question: a line that says so, or the last thing a person said, passages taken out."""
    if labelled := _QUESTION.findall(prompt.last):
        return str(labelled[-1]).strip()
    rest = _NUMBERED.sub("", _TAGGED.sub("", prompt.last)).strip()
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", rest) if part.strip()]
    return paragraphs[-1] if paragraphs else rest


def sentences_of(text: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.findall(text) if len(sentence.strip()) > 1]


def overlap(question: str, text: str) -> float:
    """The share (0 to 1) of the question's words and pairs of Han characters that the text holds."""
    wanted = set(_features(question))
    return len(wanted & set(_features(text))) / len(wanted) if wanted else 0.0


def _features(text: str) -> Iterator[str]:
    for word in _WORD.findall(text.lower()):
        if word not in _FILLERS:
            yield word[:5]  # crude stems: "expenses" finds "expense"
    for run in _HAN.findall(text):
        yield from (run[start : start + 2] for start in range(max(len(run) - 1, 1)))
