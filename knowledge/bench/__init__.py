"""Measurements that anyone can repeat: `manage.py bench`."""
