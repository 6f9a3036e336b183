"""The composition root: settings, URLs, ASGI, Celery and the admin site."""
