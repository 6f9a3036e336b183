"""Fits the constants of `knowledge/retrieval/relevance.py` on evaluation sets.

    python tests/bench/calibrate.py FOLDER [--questions 120] [SET …]

FOLDER holds one folder per set; their corpora must be ingested (`manage.py evaluate FOLDER/SET`).
Answerable: a set's own questions, the best passage of each mode, labelled by the set's judgements.
Unanswerable: questions of the other sets asked of this corpus (not of sets that share a source), all
labelled 0. Each set and each class weighs the same. A logistic of each measure is fitted by Newton's
method with a small ridge, and a blend takes the better of both; the AUC and the rates are those of sets
left out of the fit (two halves, by turns), the constants printed are those of all sets. Then a table by set, of blends.
"""

# ruff: noqa: E402  (Django is set up first)

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import django
import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
django.setup()

from knowledge.evaluation import EvaluationSet, read_set
from knowledge.evaluation_corpus import ensure_principal
from knowledge.models import Chunk, KnowledgeBase
from knowledge.retrieval import MODES, Mode, RetrievalRequest
from knowledge.retrieval.search import search
from knowledge.retrieval.trace import Trace

Matrix = NDArray[np.float64]
RIDGE = 1e-3
# The measures of an example: cosine, BM25 share.
COSINE, WORDS = 0, 1


@dataclass(frozen=True)
class Example:
    """The best passage of one question: its measures, whether it answers, and which set's corpus was asked."""

    corpus: str
    cosine: float
    words: float
    answers: bool
    answerable: bool


def family(name: str) -> str:
    """Sets of one source are not each other's unanswerable questions."""
    return name.split("_")[0] if not name.startswith(("tech_faq", "apisix")) else "apisix"


def examples(chosen: EvaluationSet, others: list[EvaluationSet], mode: Mode, questions: int) -> list[Example]:
    principal = ensure_principal()
    base = KnowledgeBase.objects.get(name=f"eval:{chosen.name}", workspace_id=principal.workspace_id)
    passages = Chunk.objects.filter(level="passage", revision__base=base)
    documents = dict(passages.values_list("id", "revision__document__source_key"))

    def best(text: str, relevant: dict[str, int] | None) -> Example | None:
        request = RetrievalRequest(text, base_uids=(base.uid,), mode=mode, top_k=5)
        ranked = search(principal, request, Trace()).ranked
        if not ranked:
            return Example(chosen.name, 0.0, 0.0, False, relevant is not None)
        first = ranked[0].candidate
        answers = relevant is not None and documents[first.passage] in relevant
        return Example(chosen.name, first.cosine or 0.0, first.words_share or 0.0, answers, relevant is not None)

    own = [best(row["text"], chosen.judged[row["id"]]) for row in spread(chosen.queries, questions)]
    foreign = [other for other in others if family(other.name) != family(chosen.name)]
    each = max(1, questions // max(len(foreign), 1))
    strange = [best(row["text"], None) for other in foreign for row in spread(other.queries, each)]
    return [example for example in (*own, *strange) if example is not None]


def spread(rows: list[dict[str, str]], most: int) -> list[dict[str, str]]:
    return rows[:: max(1, len(rows) // most)][:most]


def measures(found: list[Example]) -> Matrix:
    return np.array([[item.cosine, item.words] for item in found])


def fit(found: list[Example], measure: int) -> Matrix:
    """(bias, slope) of the logistic of one measure."""
    inputs = np.stack([np.ones(len(found)), measures(found)[:, measure]], axis=1)
    labels = np.array([float(item.answers) for item in found])
    groups: dict[tuple[str, bool], int] = {}
    for item in found:
        groups[item.corpus, item.answerable] = groups.get((item.corpus, item.answerable), 0) + 1
    weights = np.array([1 / groups[item.corpus, item.answerable] for item in found])
    constants = np.zeros(2)
    for _ in range(50):
        chance = 1 / (1 + np.exp(-inputs @ constants))
        slope = inputs.T @ (weights * (labels - chance)) - RIDGE * constants
        curve = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + RIDGE * np.eye(2)
        constants = constants + np.linalg.solve(curve, slope)
    return constants


def predict(constants: Matrix, found: list[Example], measure: int) -> Matrix:
    return np.asarray(1 / (1 + np.exp(-(constants[0] + constants[1] * measures(found)[:, measure]))))


def area(scores: Matrix, labels: NDArray[np.bool_]) -> float:
    """The chance that a positive example scores above a negative one."""
    order = np.argsort(np.argsort(scores, kind="stable"), kind="stable") + 1.0
    positives = int(labels.sum())
    negatives = len(labels) - positives
    return float((order[labels].sum() - positives * (positives + 1) / 2) / max(positives * negatives, 1))


def held_out(found: list[Example], fitted_on: list[Example], measure: int) -> Matrix:
    """Each example's chance by constants fitted on the other half of the sets."""
    names = sorted({item.corpus for item in found})
    result = np.zeros(len(found))
    for half in (0, 1):
        tested = {name for place, name in enumerate(names) if place % 2 == half}
        constants = fit([item for item in fitted_on if item.corpus not in tested], measure)
        places = [place for place, item in enumerate(found) if item.corpus in tested]
        result[places] = predict(constants, [found[place] for place in places], measure)
    return result


def report(mode: Mode, found: list[Example], scores: Matrix, constants: str) -> None:
    answers = np.array([item.answers for item in found])
    answerable = np.array([item.answerable for item in found])
    right = answers & answerable
    contest = right | ~answerable
    at_half = scores >= 0.5
    print(
        f"{mode:<10} {constants}  "
        f"AUC right answer against unanswerable {area(scores[contest], right[contest]):.3f}, "
        f"against every wrong first passage {area(scores, answers):.3f}; at 0.5: "
        f"false answers {at_half[~answerable].mean():.3f}, right answers kept {at_half[right].mean():.3f}",
        flush=True,
    )


def report_sets(found: list[Example], scores: Matrix) -> None:
    """The same measures for each set, as a table."""
    print("| set | AUC right against unanswerable | false answers at 0.5 | right answers kept at 0.5 | right first |")
    print("|---|---|---|---|---|")
    for name in sorted({item.corpus for item in found}):
        places = np.array([item.corpus == name for item in found])
        own = [item for item in found if item.corpus == name]
        right, answerable = np.array([item.answers for item in own]), np.array([item.answerable for item in own])
        contest, mine = right | ~answerable, scores[places]
        print(
            f"| {name} | {area(mine[contest], right[contest]):.3f} | {(mine[~answerable] >= 0.5).mean():.3f} | "
            f"{(mine[right] >= 0.5).mean():.3f} | {right[answerable].mean():.3f} |"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("sets", nargs="*")
    arguments.add_argument("--questions", type=int, default=120)
    options = arguments.parse_args()
    names = options.sets or sorted(path.parent.name for path in options.folder.glob("*/corpus.jsonl"))
    sets = [read_set(options.folder / name) for name in names]
    found: dict[Mode, list[Example]] = {
        mode: [example for chosen in sets for example in examples(chosen, sets, mode, options.questions)]
        for mode in MODES
    }
    own: dict[Mode, int] = {"keywords": WORDS, "embedding": COSINE}
    for mode, measure in own.items():
        constants = fit(found[mode], measure)
        scores = held_out(found[mode], found[mode], measure)
        report(mode, found[mode], scores, f"Logistic({constants[0]:.2f}, {constants[1]:.2f})")
    both = [held_out(found["blend"], found[mode], measure) for mode, measure in own.items()]
    report("blend", found["blend"], np.maximum(*both), "the better of both")
    report_sets(found["blend"], np.maximum(*both))


if __name__ == "__main__":
    main()
