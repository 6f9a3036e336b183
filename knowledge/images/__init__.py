"""Pictures inside documents: kept once in a base, placed in the text, shown small, forgotten with the document.

`keeping` stores bytes and rows, `places` knows which pictures a passage shows, `shrinking` (in the
sandbox) decodes them once: for their size, a thumbnail, and to find the damaged ones. Who may see one is
decided where the document is looked up; `knowledge/files.py` hands it out.
"""
