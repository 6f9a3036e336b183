"""The documents against the code: what they list is complete, and what they name exists."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.management import get_commands
from django.urls import Resolver404, resolve

from knowledge.base_settings import BaseSettings
from knowledge.ingestion.parsers import FILE_TYPES
from portal.kernel import errors
from portal.kernel.principal import SCOPES

ROOT = Path(__file__).resolve().parents[2]
DOCS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "sample" / "tour.md"]
NAMES = re.compile(r"^(ARCHWAY_[A-Z0-9_]+|DATABASE_URL|REDIS_URL)$")
# Not for people: how the tests' processes find each other, and what the tests of credentials set.
OF_THE_TESTS = {"ARCHWAY_TEST_FOLDER", "ARCHWAY_TEST_SECRET"}
READERS = {"_env", "_flag", "_number", "_list"}


@cache
def trees(*folders: str) -> tuple[tuple[Path, ast.Module], ...]:
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")))
    return tuple((path, ast.parse(path.read_text("utf-8"))) for path in paths if "migrations" not in path.parts)


def source() -> tuple[tuple[Path, ast.Module], ...]:
    return trees("portal", "knowledge", "channels_app")


def text(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def table_rows(document: str, heading: str = "") -> dict[str, list[str]]:
    """Rows of pipe tables whose first cell is code: `name` → the other cells. `heading`: only below it."""
    part = document.partition(f"\n## {heading}\n")[2].partition("\n## ")[0] if heading else document
    rows = {}
    for line in part.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("| `") and (found := re.fullmatch(r"`([^`]+)`", cells[0])):
            rows[found[1]] = cells[1:]
    return rows


# -- README: configuration ------------------------------------------------------------------------


def names_in_code() -> set[str]:
    constants = (
        node.value
        for path, tree in (*source(), *trees("tests"))
        if path != Path(__file__).resolve()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    keywords = {
        node.arg for _, tree in source() for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg
    }
    return {name for name in {*constants, *keywords} if NAMES.match(name)} - OF_THE_TESTS


def test_the_configuration_table_lists_every_environment_name_that_the_code_reads() -> None:
    listed = {name for name in table_rows(text("README.md"), "Configuration") if NAMES.match(name)}
    assert listed == names_in_code()


def defaults_in_settings() -> Iterator[tuple[str, str]]:
    tree = dict(source())[ROOT / "portal" / "settings.py"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in READERS:
            constants = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
            if len(constants) == 2 and constants[1] not in ("", False):
                yield str(constants[0]), str(constants[1])


def test_the_configuration_table_states_the_defaults_of_the_code() -> None:
    rows = table_rows(text("README.md"), "Configuration")
    defaults = dict(defaults_in_settings())
    assert defaults["ARCHWAY_CLAIM_TTL"] == "90"
    wrong = {name: default for name, default in defaults.items() if f"`{default}`" not in rows[name][0]}
    assert wrong == {}


def test_every_other_document_names_only_variables_that_exist() -> None:
    known = names_in_code()
    for path in DOCS:
        named = set(re.findall(r"\b(?:ARCHWAY_[A-Z0-9_]+|DATABASE_URL|REDIS_URL)\b", path.read_text("utf-8")))
        assert named - known - {"ARCHWAY_URL", "ARCHWAY_KEY"} == set(), path.name


# -- errors ---------------------------------------------------------------------------------------


@cache
def statuses() -> dict[str, int]:
    """Error class → HTTP status, those derived from the family elsewhere included."""
    found = {
        name: value.status
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.ArchwayError)
    }
    classes = [node for _, tree in source() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for node in classes * 2:
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in found:
                found.setdefault(node.name, found[base.id])
    return found


def codes_in_code() -> dict[str, set[int]]:
    """Code → statuses with which it is raised somewhere; 0 where the class is not one of the family."""
    found: dict[str, set[int]] = defaultdict(set)
    for _, tree in source():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.name in statuses():
                for code in _default_codes(node):
                    found[code].add(statuses()[node.name])
            if isinstance(node, ast.Call):
                name = node.func.id if isinstance(node.func, ast.Name) else ""
                for code in _codes_of(node):
                    found[code].add(statuses().get(name, 0))
    return found


def _default_codes(node: ast.ClassDef) -> Iterator[str]:
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        value = getattr(line, "value", None)
        if isinstance(target, ast.Name) and target.id == "default_code" and isinstance(value, ast.Constant):
            yield str(value.value)


def _codes_of(node: ast.Call) -> Iterator[str]:
    for keyword in node.keywords:
        if keyword.arg == "code":
            for part in ast.walk(keyword.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


# Views set another status on the object than its class has.
BY_HAND = {"bad_request": {400}, "internal": {500}, "method_not_allowed": {405}, "unsupported_media_type": {415}}


def test_every_error_code_of_the_code_is_listed_with_its_status() -> None:
    listed = {
        code: {int(status) for status in re.findall(r"\d{3}", cells[0])}
        for code, cells in table_rows(text("docs/errors.md")).items()
        if re.fullmatch(r"[\d, ]+", cells[0])
    }
    raised = {code: BY_HAND.get(code, found - {0}) for code, found in codes_in_code().items()}
    assert set(raised) - set(listed) == set(), "write them into docs/errors.md"
    assert set(listed) - set(raised) == set(), "nothing raises them any more"
    assert {code: found for code, found in raised.items() if found and listed[code] != found} == {}


def test_every_warning_of_the_parsers_is_listed() -> None:
    written = set()
    for _, tree in (*trees("knowledge/ingestion"), *trees("knowledge/images")):
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                written |= set(re.findall(r"^([a-z]+(?:_[a-z]+)*): \S|^([a-z]+(?:_[a-z]+)*): $", node.value))
    codes = {first or second for first, second in written if "_" in first + second or first + second == "macros"}
    assert codes == set(table_rows(text("docs/errors.md"), "Warnings"))


# -- dependencies ---------------------------------------------------------------------------------


def test_each_direct_dependency_has_its_reason() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(row for extra in project["optional-dependencies"].values() for row in extra)]
    names = {re.split(r"[\[<>=!~; ]", row)[0] for row in wanted}
    reasons = table_rows(text("docs/decisions/0001-dependencies.md"))
    assert set(reasons) == names
    assert all(len(cells[0]) > 10 for cells in reasons.values())


# -- what documents name --------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text("utf-8")):
        parts = urlsplit(target)
        # Pictures are made at the end, from the pages as they then are.
        if parts.scheme or parts.path.startswith(("docs/pictures/", "pictures/")):
            continue
        file = (path.parent / parts.path).resolve() if parts.path else path
        assert file.exists(), target
        if parts.fragment:
            assert parts.fragment in anchors(file.read_text("utf-8")), target


def anchors(document: str) -> set[str]:
    """GitHub's anchors of the headings."""
    titles = re.findall(r"^#+ (.+)$", document, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_and_make_targets_in_documents_exist(path: Path) -> None:
    content = path.read_text("utf-8")
    commands = set(re.findall(r"manage\.py ([a-z_]+)", content))
    assert commands - set(get_commands()) == set()
    targets = set(re.findall(r"^([a-z0-9-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z0-9-]+)", content, re.MULTILINE)) - targets == set()


def test_addresses_in_the_api_document_exist() -> None:
    paths = set(re.findall(r"(/api/v1/[^\s\"'`)?]+)", text("docs/api.md")))
    assert len(paths) > 20
    missing = []
    for path in paths:
        try:
            resolve(re.sub(r"\$[A-Z_]+|\{[a-z0-9]+\}", "17", path).replace("/17/images/17", f"/17/images/{'a' * 64}"))
        except Resolver404:
            missing.append(path)
    assert missing == []


def test_the_api_document_lists_all_scopes() -> None:
    assert set(SCOPES) <= set(table_rows(text("docs/api.md"), "Keys and scopes"))


def test_the_api_document_lists_all_settings_of_a_base() -> None:
    rows = table_rows(text("docs/api.md"), "Settings of a base")
    settings = BaseSettings()
    names = {
        f"{section}.{name}"
        for section in type(settings).model_fields
        for name in type(getattr(settings, section)).model_fields
    }
    assert set(rows) == names


def test_the_documents_page_lists_every_file_type_with_its_limit() -> None:
    rows = [line for line in text("docs/parsers.md").splitlines() if line.startswith("|")]
    for kind in FILE_TYPES:
        listed = [row for row in rows if all(f"`.{extension}`" in row for extension in kind.extensions)]
        assert any(f"{kind.limit_mb} MB" in row for row in listed), kind.label


def test_both_user_guides_have_the_same_chapters() -> None:
    english, chinese = (
        re.findall(r"^(#+) ", text(name), re.MULTILINE) for name in ("docs/user-guide.md", "docs/user-guide.zh-hans.md")
    )
    assert english == chinese


def test_the_chinese_guide_keeps_to_our_habits() -> None:
    guide = text("docs/user-guide.zh-hans.md")
    assert "您" not in guide
    prose = re.sub(r"`[^`]*`|\([^)]*\)", "", guide)
    assert re.findall(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", prose) == []


def test_decision_records_have_numbers_of_their_own() -> None:
    numbers = [path.name[:4] for path in (ROOT / "docs" / "decisions").glob("*.md")]
    assert sorted(numbers) == sorted(set(numbers))
    assert all(number.isdigit() for number in numbers)
