"""The pages of one knowledge base: documents, reader, chunks, revisions, members, settings."""
