"""The sample company: documents, people and grants that a newcomer meets in the first minute."""
