"""One verb on many documents: a stated selection, an outcome for each document, progress, cancelling, undo.

The documents are fixed when a batch is started (`starting`). Each is changed in a transaction of its own that also
writes its outcome (`running`), so nothing is done twice and nothing is done without being told. What the verbs do
and how they are undone is one table (`verbs`).
"""

from knowledge.batches.running import begin, work
from knowledge.batches.starting import Selection, again, start, undo
from knowledge.batches.summary import Outcomes, Standing, may_undo, outcomes, standings
from knowledge.batches.verbs import VERBS

__all__ = [
    "VERBS", "Outcomes", "Selection", "Standing", "again", "begin", "may_undo", "outcomes", "standings", "start",
    "undo", "work",
]  # fmt: skip
