"""Documents that come from the web: fetched politely, kept up to date, and never lost to a passing fault.

`addresses` says which addresses are one and which are in reach, `hosts` when a host may be asked, `fetching` gets
bytes, `reading` makes a document's file of them, `keeping` brings documents to what was read, `crawl` walks, `runs`
moves a synchronisation from state to state, `verbs` are what people do.
"""
