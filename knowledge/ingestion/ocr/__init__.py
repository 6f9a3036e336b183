"""Text recognition: what stands on scanned pages and pictures, offline and in processes of its own.

`availability` says whether the extra is installed; `recognising` runs it page by page (parent side);
`child` and `engine` are the side that reads strangers' pictures, behind the sandbox's doors. What was
recognised crosses as one JSON object a page, whose shape `lines` alone decides.
"""
