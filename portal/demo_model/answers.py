"""What the demo model says: by rule, and always with its label.

With numbered passages in the prompt it answers with the sentences that share most words with the question
and cites them `[n]`; asked for JSON it fills the schema; with neither it says what it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portal.demo_model.behaviour import Behaviour
from portal.demo_model.prompts import Prompt, overlap, passages_of, question_of, sentences_of, tokens_of, written_schema

LABEL = "[demo model]"
NOTHING = "The passages do not answer this question."
_LEAST = 0.2
_CHINESE = re.compile(r"[㐀-鿿]")


@dataclass(frozen=True, slots=True)
class Answer:
    """Text in tokens, reasoning in deltas, tool calls as (name, arguments)."""

    tokens: tuple[str, ...]
    reasoning: tuple[str, ...] = ()
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    finish: str = "stop"
    prompt_tokens: int = 0

    @property
    def text(self) -> str:
        return "".join(self.tokens)

    @property
    def completion_tokens(self) -> int:
        arguments = "".join(json.dumps(arguments) for _, arguments in self.calls)
        return len(self.tokens) + len(self.reasoning) + len(tokens_of(arguments))


def answer(prompt: Prompt, behaviour: Behaviour) -> Answer:
    """The whole answer to a prompt; always the same for the same prompt and behaviour."""
    counted = len(tokens_of(prompt.text))
    reasoning = tuple(f"step {number} " for number in range(1, behaviour.reasoning + 1))
    calls = _calls(prompt, behaviour)
    if calls:
        return Answer((), reasoning, calls, behaviour.finish or "tool_calls", counted)
    if behaviour.tokens is not None:
        tokens = [f"word{number} " for number in range(1, behaviour.tokens + 1)]
    else:
        tokens = tokens_of(_text(prompt, behaviour))
    finish = "stop"
    if prompt.max_tokens is not None and len(tokens) > prompt.max_tokens:
        tokens, finish = tokens[: prompt.max_tokens], "length"
    return Answer(tuple(tokens), reasoning, (), behaviour.finish or finish, counted)


def _calls(prompt: Prompt, behaviour: Behaviour) -> tuple[tuple[str, dict[str, Any]], ...]:
    if prompt.answers_tools or not prompt.tools:
        return ()
    if prompt.must_call in prompt.tools:
        names = [prompt.must_call]
    else:
        known = list(prompt.tools)
        names = [known[number % len(known)] for number in range(behaviour.tools or 0)]
    return tuple((name, _filled(prompt, prompt.tools[name])) for name in names)


def _text(prompt: Prompt, behaviour: Behaviour) -> str:
    if behaviour.echo:
        return prompt.last
    if prompt.schema is not None or prompt.wants_json:
        schema = prompt.schema or written_schema(prompt) or _ANYTHING
        return json.dumps(_filled(prompt, schema), ensure_ascii=False)
    if passages := passages_of(prompt):
        return f"{LABEL} {_cited(question_of(prompt), passages, behaviour.cited)}"
    if prompt.answers_tools:
        return f"{LABEL} {prompt.messages[-1][1]}"
    if _CHINESE.search(prompt.last):
        return f"{LABEL} 我只按规则回答，不理解内容。您说的是：{prompt.last[:200]}"
    return f"{LABEL} I answer by rule and understand nothing. You said: {prompt.last[:200]}"


def _cited(question: str, passages: Mapping[int, str], most: int) -> str:
    ranked = sorted(passages, key=lambda number: (-overlap(question, passages[number]), number))
    chosen = [number for number in ranked if overlap(question, passages[number]) >= _LEAST][:most]
    if not chosen:
        return NOTHING
    return " ".join(f"{_best_sentence(question, passages[number])} [{number}]" for number in chosen)


def _best_sentence(question: str, passage: str) -> str:
    return max(sentences_of(passage) or [passage], key=lambda sentence: overlap(question, sentence))


_ANYTHING: dict[str, Any] = {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]}


@dataclass(frozen=True, slots=True)
class _Filling:
    """What a schema is filled from."""

    prompt: Prompt
    passages: Mapping[int, str] = field(default_factory=dict)
    question: str = ""

    def material(self) -> list[str]:
        """Sentences to speak of: of the passages when there are any, else of what was said last."""
        return sentences_of("\n".join(self.passages.values()) or self.prompt.last) or [self.prompt.last or "it"]


def _filled(prompt: Prompt, schema: Mapping[str, Any]) -> Any:
    filling = _Filling(prompt, passages_of(prompt), question_of(prompt))
    return _value("", schema, filling, 0)


def _value(name: str, schema: Mapping[str, Any], filling: _Filling, turn: int) -> Any:
    schema = _resolved(schema, filling.prompt.schema)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][turn % len(schema["enum"])]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = next(each for each in kind if each != "null") if isinstance(kind, list) else kind
    kind = str(kind).lower()  # Gemini shouts
    if kind == "object":
        return {key: _value(key, part, filling, turn) for key, part in schema.get("properties", {}).items()}
    if kind == "array":
        return _row(name, schema, filling)
    if kind in {"number", "integer"}:
        return _number(name, schema, filling, turn, whole=kind == "integer")
    if kind == "boolean":
        return turn % 2 == 0
    return _words(name, schema, filling, turn)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """`$ref` into `$defs` of the root, and the first of several choices that is not null."""
    if "$ref" in schema and root:
        found: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        return found if isinstance(found, Mapping) else {}
    for key in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(key, ()):
            if choice.get("type") != "null":
                return _resolved(choice, root)
    return schema


def _row(name: str, schema: Mapping[str, Any], filling: _Filling) -> list[Any]:
    """One item a passage for scores and rankings, else as many as asked for, three unless told."""
    item = schema.get("items") or {"type": "string"}
    about_passages = re.search(r"score|rank|relevan|passage|result", name) and filling.passages
    count = len(filling.passages) if about_passages else max(int(schema.get("minItems", 0)), 3)
    count = min(count, int(schema.get("maxItems", count)))
    return [_value(name, item, filling, turn) for turn in range(count)]


def _number(name: str, schema: Mapping[str, Any], filling: _Filling, turn: int, *, whole: bool) -> float | int:
    numbers = list(filling.passages)
    low = float(schema.get("minimum", 0))
    high = float(schema.get("maximum", max(low, 10 if whole else 1)))
    if re.search(r"score|relevan|confidence", name):
        text = filling.passages[numbers[turn]] if turn < len(numbers) else filling.prompt.last
        value = low + (high - low) * overlap(filling.question, text)
    elif re.search(r"^(id|number|index|passage|ranking|citations?|sources?)", name) and turn < len(numbers):
        value = float(numbers[turn])
    else:
        value = min(high, low + 1)
    return round(value) if whole else round(value, 4)


def _words(name: str, schema: Mapping[str, Any], filling: _Filling, turn: int) -> str:
    material = filling.material()
    sentence = material[turn % len(material)]
    if re.search(r"rewrit|standalone|query|search", name):
        text = filling.question
    elif "question" in name:
        subject = sentence.rstrip(".。!！?？")
        text = f"{subject}是怎样规定的？" if _CHINESE.search(sentence) else f"What is said about: {subject}?"
    else:
        text = f"{LABEL} {sentence}"
    return text[: int(schema.get("maxLength", 400))]
