"""The REST door of people: who am I, keys, notifications, members, departments, audit log, health."""
