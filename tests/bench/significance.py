"""Is `blend` better than its parts, and which weight suits which kind of question? Paired bootstrap over sets.

    python tests/bench/significance.py FOLDER [SET …] [--limit N] [--kept FILE]

FOLDER holds one folder per set; their corpora must be ingested (`manage.py evaluate FOLDER/SET`). Each question is
searched once; its candidates, each with both scores, are ranked by words, by meaning, and by blends of 21 weights.
nDCG@10 of every question and ranking goes into FILE (one line a set), from which a later run goes on.

1. Per set: blend as the product weighs it, against the better of words and meaning (chosen on the same questions,
   which favours the part). Mean difference, its 95 % interval and the share of 10,000 resamples of the questions in
   which blend is not above. Average: sets weigh the same, questions are resampled within each set.
2. Weights by kind of question, fitted on half of the sets (best mean over sets), reported on the other half, by
   turns, against one weight for all fitted on the same half and against the product's weights.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.bench.ingested_sets import DEPTH, NDCG, Ingested, folders, ingested

# isort: split
from knowledge.base_settings import BaseSettings
from knowledge.models import Chunk
from knowledge.retrieval import RetrievalRequest, blend
from knowledge.retrieval.candidates import Candidate
from knowledge.retrieval.search import search
from knowledge.retrieval.trace import Trace
from knowledge.text import query_kind

Values = NDArray[np.float64]
WEIGHTS = [round(0.05 * step, 2) for step in range(21)]
KINDS = ("identifier", "short", "sentence")
DEFAULT_WEIGHT = BaseSettings().searching.weight
RESAMPLES = 10_000


@dataclass(frozen=True)
class Scored:
    """nDCG@10 of a set's questions: by words, by meaning, and `blends[weight][question]`."""

    name: str
    kinds: list[str]
    words: Values
    meaning: Values
    blends: Values

    def blend(self, weights: dict[str, float]) -> Values:
        """Blend with a weight for each kind of question."""
        places = [WEIGHTS.index(round(weights[kind], 2)) for kind in self.kinds]
        return self.blends[places, np.arange(len(self.kinds))]


def product_weights() -> dict[str, float]:
    """What a new base does."""
    return {kind: blend.weight_for(None, DEFAULT_WEIGHT, kind) for kind in KINDS}  # type: ignore[arg-type]


def scored(one: Ingested) -> Scored:
    """Search every question of a set once, rank its candidates in every way."""
    passages = Chunk.objects.filter(level="passage", revision__base=one.base)
    documents = dict(passages.values_list("pk", "revision__document__uid"))
    rows: list[tuple[str, float, float, list[float]]] = []
    for row in one.chosen.queries:
        request = RetrievalRequest(
            row["text"], base_uids=(one.base.uid,), mode="blend", top_k=DEPTH, threshold=0.0, weight=0.5
        )
        candidates = search(one.principal, request, Trace()).candidates

        everything = [True] * len(candidates)
        ndcg = partial(_ndcg, one, documents, row["id"], candidates)
        words = ndcg([item.words_share or 0.0 for item in candidates], [bool(item.words_share) for item in candidates])
        meaning = ndcg([item.cosine or -1.0 for item in candidates], [item.cosine is not None for item in candidates])
        blends = [ndcg(blend.fuse(candidates, weight, "convex"), everything) for weight in WEIGHTS]
        rows.append((query_kind(row["text"]), words, meaning, blends))
    return Scored(
        one.chosen.name,
        [kind for kind, *_ in rows],
        np.array([row[1] for row in rows]),
        np.array([row[2] for row in rows]),
        np.array([row[3] for row in rows]).T,
    )


def _ndcg(
    one: Ingested,
    documents: dict[int, str],
    query: str,
    candidates: Sequence[Candidate],
    scores: Sequence[float],
    kept: Sequence[bool],
) -> float:
    """nDCG@10 of the candidates that are kept, ordered by their scores, a passage by its best leaf."""
    pairs = [(item, score) for item, score, keep in zip(candidates, scores, kept, strict=True) if keep]
    order = blend.best_leaves([item for item, _ in pairs], [score for _, score in pairs])
    return one.scores([documents[item.candidate.passage] for item in order[:DEPTH]], query)[NDCG]


def as_line(found: Scored) -> str:
    """A set as one line of JSON."""
    values = {"words": found.words, "meaning": found.meaning, "blends": found.blends}
    return json.dumps(
        {"name": found.name, "kinds": found.kinds, **{key: np.round(row, 6).tolist() for key, row in values.items()}}
    )


def from_line(line: str) -> Scored:
    """The opposite of `as_line`."""
    row: dict[str, Any] = json.loads(line)
    return Scored(row["name"], row["kinds"], np.array(row["words"]), np.array(row["meaning"]), np.array(row["blends"]))


def better_part(found: Scored) -> tuple[str, Values]:
    """The part with the higher mean on these very questions."""
    if found.words.mean() >= found.meaning.mean():
        return "words", found.words
    return "meaning", found.meaning


def bootstrap(differences: Sequence[Values], seed: int = 7) -> tuple[float, float, float, float]:
    """(mean, lower, upper, share of resamples at or below 0) of the mean over sets of the mean over questions."""
    random = np.random.default_rng(seed)
    means = np.zeros(RESAMPLES)
    for values in differences:
        picks = random.integers(0, len(values), size=(RESAMPLES, len(values)), dtype=np.int32)
        means += values[picks].mean(axis=1) / len(differences)
    lower, upper = np.percentile(means, [2.5, 97.5])
    mean = float(np.mean([values.mean() for values in differences]))
    return mean, float(lower), float(upper), float((means <= 0).mean())


def fit(sets: Sequence[Scored], kinds: Sequence[str]) -> float:
    """The weight with the best mean over sets of the mean over their questions of these kinds."""
    totals = np.zeros(len(WEIGHTS))
    for found in sets:
        chosen = np.isin(found.kinds, kinds)
        if chosen.any():
            totals += found.blends[:, chosen].mean(axis=1)
    # Of equals, the one nearest to the middle: nothing is known against it.
    best = np.flatnonzero(totals >= totals.max() - 1e-9)
    return WEIGHTS[int(min(best, key=lambda at: abs(WEIGHTS[int(at)] - DEFAULT_WEIGHT)))]


def print_parts(sets: Sequence[Scored]) -> None:
    """Blend against the better of its parts, per set and on average."""
    weights = product_weights()
    print("| set | questions | words | meaning | blend | blend − better part | 95 % | not above |")
    print("|---|---|---|---|---|---|---|---|")
    for found in sets:
        name, part = better_part(found)
        mean, lower, upper, share = bootstrap([found.blend(weights) - part])
        print(
            f"| {found.name} | {len(found.kinds)} | {found.words.mean():.3f} | {found.meaning.mean():.3f} | "
            f"{found.blend(weights).mean():.3f} | {mean:+.3f} ({name}) | {lower:+.3f} … {upper:+.3f} | {share:.4f} |"
        )
    mean, lower, upper, share = bootstrap([found.blend(weights) - better_part(found)[1] for found in sets])
    print(f"| average of {len(sets)} sets | | | | | {mean:+.4f} | {lower:+.4f} … {upper:+.4f} | {share:.4f} |")


def print_weights(sets: Sequence[Scored]) -> None:
    """Weights fitted on one half of the sets, reported on the other."""
    ordered = sorted(sets, key=lambda found: found.name)
    halves = (ordered[::2], ordered[1::2])
    by_kind, one_weight = [], []
    kinds_shown = f"by kind ({', '.join(KINDS)}) | {DEFAULT_WEIGHT}"
    print(f"\n| fitted on | one weight | {kinds_shown} | one weight | by kind | product |")
    print("|---|---|---|---|---|---|---|")
    for mine, other in (halves, halves[::-1]):
        single = fit(mine, KINDS)
        kinds = {kind: fit(mine, [kind]) for kind in KINDS}
        same = dict.fromkeys(KINDS, single)
        default = dict.fromkeys(KINDS, DEFAULT_WEIGHT)
        means = [
            np.mean([found.blend(weights).mean() for found in other])
            for weights in (default, same, kinds, product_weights())
        ]
        shown = ", ".join(f"{kinds[kind]:.2f}" for kind in KINDS)
        print(
            f"| {', '.join(found.name for found in mine)} | {single:.2f} | {shown} | "
            + " | ".join(f"{mean:.4f}" for mean in means)
            + " |"
        )
        by_kind += [found.blend(kinds) - found.blend(default) for found in other]
        one_weight += [found.blend(kinds) - found.blend(same) for found in other]
    product = [found.blend(product_weights()) - found.blend(dict.fromkeys(KINDS, DEFAULT_WEIGHT)) for found in ordered]
    for title, differences in (
        (f"by kind − {DEFAULT_WEIGHT} for all, on sets left out", by_kind),
        ("by kind − one fitted weight, on sets left out", one_weight),
        (f"product − {DEFAULT_WEIGHT} for all", product),
    ):
        mean, lower, upper, share = bootstrap(differences)
        print(f"{title}: {mean:+.4f} ({lower:+.4f} … {upper:+.4f}), not above in {share:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--kept", type=Path)
    chosen = parser.parse_args()
    lines = chosen.kept.read_text("utf-8").splitlines() if chosen.kept and chosen.kept.exists() else []
    known = {found.name: found for found in map(from_line, lines)}
    sets = []
    for folder in folders(chosen.folder, chosen.sets):
        if folder.name not in known:
            known[folder.name] = scored(ingested(folder, chosen.limit))
            if chosen.kept:
                with chosen.kept.open("a", encoding="utf-8") as file:
                    file.write(as_line(known[folder.name]) + "\n")
        sets.append(known[folder.name])
    print_parts(sets)
    if len(sets) > 1:
        print_weights(sets)


if __name__ == "__main__":
    main()
