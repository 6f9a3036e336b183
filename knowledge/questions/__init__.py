"""Questions as further ways to a passage: written (`verbs`), read from sheets (`sheets`), embedded (`embedding`) and
carried to a document's next revision (`carrying`). How they are searched stands in `knowledge/retrieval/questions.py`.
"""
