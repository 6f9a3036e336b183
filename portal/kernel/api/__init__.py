"""The REST door of people, keys and the audit log."""
