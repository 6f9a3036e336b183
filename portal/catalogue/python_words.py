"""Messages in Python: arguments of the gettext functions, and first arguments of the error family."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from portal.catalogue.words import Message

SIMPLE = {"gettext", "gettext_lazy", "gettext_noop", "_"}
PLURAL = {"ngettext", "ngettext_lazy"}
CONTEXT = {"pgettext", "pgettext_lazy"}
FAMILY_ROOT = "ArchwayError"


def messages(paths: Iterable[Path]) -> set[Message]:
    """All messages of these modules."""
    trees = [ast.parse(path.read_text("utf-8")) for path in paths]
    family = error_classes(trees)
    return {message for tree in trees for message in _of_module(tree, family)}


def error_classes(trees: Iterable[ast.Module]) -> set[str]:
    """Names of all classes that descend from the root of the error family."""
    parents: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                parents.setdefault(node.name, set()).update(_name(base) for base in node.bases)
    family = {FAMILY_ROOT}
    while True:
        found = {name for name, bases in parents.items() if bases & family} - family
        if not found:
            return family
        family |= found


def _of_module(tree: ast.Module, family: set[str]) -> Iterator[Message]:
    constants = _constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in family:
            yield from _of_constructor(node, constants)
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = _name(node.func)
        texts = _strings(node.args[0], constants)
        if name in SIMPLE or name in family:
            yield from (Message(text) for text in texts)
        elif name in PLURAL and len(node.args) > 1:
            for text, plural in zip(texts, _strings(node.args[1], constants), strict=False):
                yield Message(text, plural=plural)
        elif name in CONTEXT and len(node.args) > 1:
            for text in _strings(node.args[1], constants):
                yield from (Message(text, context=context) for context in texts)


def _of_constructor(node: ast.ClassDef, constants: dict[str, str]) -> Iterator[Message]:
    """What a class of the family passes to its parent's constructor."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "__init__"
            and call.args
        ):
            yield from (Message(text) for text in _strings(call.args[0], constants))


def _constants(tree: ast.Module) -> dict[str, str]:
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name) and isinstance(node.value.value, str):
                    found[target.id] = node.value.value
    return found


def _strings(node: ast.expr, constants: dict[str, str]) -> list[str]:
    """The strings that an expression may be: a literal, a constant of the module, or either branch of a condition."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) and node.value.strip() else []
    if isinstance(node, ast.Name):
        return [constants[node.id]] if node.id in constants else []
    if isinstance(node, ast.IfExp):
        return _strings(node.body, constants) + _strings(node.orelse, constants)
    return []


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else ""
