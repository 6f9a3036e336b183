"""Whether an answer from these passages may be given again to the same question, and what must not have changed."""

from __future__ import annotations

from knowledge.access import visible_bases
from knowledge.answering.contract import Prepared
from knowledge.base_settings import read
from portal.gateway.reuse.scope import Reuse, reuse_for
from portal.gateway.reuse.store import switched_on


def reuse_of(prepared: Prepared) -> Reuse | None:
    """Leave to use an answer again; None where a base is sensitive, forbids it, or can not be seen any more.

    The passages stand in the prompt, and so in what must be the same: an old answer's numbers fit the new passages.
    """
    if prepared.caller is None or not switched_on():
        return None
    principal = prepared.caller.principal
    searched = {*prepared.result.base_ids, *prepared.base_ids}
    bases = list(visible_bases(principal).filter(pk__in=searched))
    if not bases or len(bases) != len(searched):
        return None
    if any(base.sensitive or not read(base.config).answering.reuse for base in bases):
        return None
    return reuse_for(principal, prepared.question, tuple((base.uid, base.stamp) for base in bases))
