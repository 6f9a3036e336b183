"""The direction of imports (HOUSE style): an arrow that points up fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Layers from the bottom up. A module may import its own layer's package and everything below it.
KERNEL, GATEWAY, KNOWLEDGE, AGENTS, DOORS, ROOT_LAYER = range(6)
LAYERS = {
    "portal.kernel": KERNEL,
    "portal.gateway": GATEWAY,
    "knowledge": KNOWLEDGE,
    "agents": AGENTS,
    "channels_app": DOORS,
    "mcpserver": DOORS,
    "portal": ROOT_LAYER,
}
# The embedded servers and the settings they fill know nothing of the product; the kernel's errors are all they use.
STANDALONE = "portal.embedded"


def layer_of(module: str) -> int | None:
    for name in sorted(LAYERS, key=len, reverse=True):
        if module == name or module.startswith(f"{name}."):
            return LAYERS[name]
    return None


def imports_of(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module)
    return found


def sources() -> list[Path]:
    folders = [ROOT / name for name in ("portal", "knowledge", "agents", "channels_app", "mcpserver")]
    return sorted(path for folder in folders if folder.is_dir() for path in folder.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def broken_arrows(importer: str, imported: set[str]) -> list[str]:
    own = layer_of(importer)
    assert own is not None
    broken = []
    for target in imported:
        other = layer_of(target)
        if other is None:
            continue
        if importer.startswith(STANDALONE):
            if other != KERNEL and not target.startswith(STANDALONE):
                broken.append(target)
        elif target == "portal.celery" or target.startswith(STANDALONE):
            if own < ROOT_LAYER:
                broken.append(target)
        elif other > own or (other == own == DOORS and target.split(".")[0] != importer.split(".")[0]):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", sources(), ids=module_name)
def test_no_module_imports_from_a_layer_above_its_own(path: Path) -> None:
    assert broken_arrows(module_name(path), imports_of(path)) == []


def test_the_check_itself_sees_an_arrow_that_points_up() -> None:
    assert broken_arrows("portal.kernel.audit", {"knowledge.access"}) == ["knowledge.access"]
    assert broken_arrows("knowledge.access", {"portal.urls"}) == ["portal.urls"]
    assert broken_arrows("channels_app.events", {"mcpserver.tools"}) == ["mcpserver.tools"]
    assert broken_arrows("knowledge.access", {"portal.kernel.errors", "django.db"}) == []
