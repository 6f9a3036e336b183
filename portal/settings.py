"""Every environment name and its default, and nothing that could be decided elsewhere.

`ARCHWAY_ENV` is `development` (default) or `production`; production needs what `portal/checks.py` lists.
Unset `DATABASE_URL` and `REDIS_URL` mean the embedded servers that `manage.py up` runs. How libraries are set up where
no environment has a say stands in `portal/libraries.py`.
"""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_urlsafe
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from portal.embedded import locations
from portal.libraries import REST_FRAMEWORK, SPECTACULAR_SETTINGS, UNFOLD  # noqa: F401  # settings, too

BASE_DIR = Path(__file__).resolve().parent.parent


def _env(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def _flag(name: str, default: bool = False) -> bool:
    value = _env(name).lower()
    return default if not value else value in {"1", "true", "yes", "on"}


def _number(name: str, default: int) -> int:
    return int(_env(name) or default)


def _list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in _env(name, default).split(",") if part.strip()]


def _database(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = query.pop("host", "") or unquote(parts.hostname or "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "archway",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(parts.port or query.pop("port", "")),
        "OPTIONS": query,
    }


ENVIRONMENT = _env("ARCHWAY_ENV", "development")
PRODUCTION = ENVIRONMENT == "production"
DEBUG = _flag("ARCHWAY_DEBUG")
TESTING = _flag("ARCHWAY_TESTING")

# -- secrets and places ---------------------------------------------------------------------------
# Production makes up no secrets: what is missing there is a failed check, not a file in the data folder.
_secrets = None if PRODUCTION else locations.secrets()
# Django wants some key to run its checks at all; `portal.checks` refuses to serve with this one.
SECRET_KEY = _env("ARCHWAY_SECRET_KEY") or (_secrets.secret_key if _secrets else token_urlsafe(48))
DATA_DIR = locations.data_dir()

ARCHWAY: dict[str, Any] = {
    "DATA_DIR": DATA_DIR,
    "EMBEDDED_DATABASE": not _env("DATABASE_URL"),
    "EMBEDDED_REDIS": not _env("REDIS_URL"),
    # One embedding process for the machine ("server"), or the model in this very process ("inprocess").
    "EMBEDDING_MODE": _env("ARCHWAY_EMBEDDING", "server"),
    "EMBEDDING_URL": _env("ARCHWAY_EMBEDDING_URL"),
    "EMBEDDING_TOKEN": _env("ARCHWAY_EMBEDDING_TOKEN") or (_secrets.embedding_token if _secrets else ""),
    "EMBEDDING_THREADS": _number("ARCHWAY_EMBEDDING_THREADS", 2),
    # A folder with the model.onnx and tokenizer.json of a cross-encoder; empty for none.
    "RERANK_MODEL": _env("ARCHWAY_RERANK_MODEL"),
    # The demo model's address, when somebody else than the supervisor starts it.
    "DEMO_MODEL_URL": _env("ARCHWAY_DEMO_MODEL_URL"),
    # What prices and quotas of money are counted in.
    "CURRENCY": _env("ARCHWAY_CURRENCY", "USD"),
    "USAGE_DAYS": _number("ARCHWAY_USAGE_DAYS", 90),
    # How long an answer may be used again where CACHE_REDIS_URL is set; never longer than a day.
    "CACHE_SECONDS": min(_number("ARCHWAY_CACHE_HOURS", 24), 24) * 3600,
    "ENV_CREDENTIALS": _list("ARCHWAY_ENV_CREDENTIALS"),
    "EGRESS_ALLOW": _list("ARCHWAY_EGRESS_ALLOW"),
    # Networks whose X-Forwarded-For is believed.
    "TRUSTED_PROXIES": _list("ARCHWAY_TRUSTED_PROXIES"),
    "MAX_UPLOAD_BYTES": _number("ARCHWAY_MAX_UPLOAD_MB", 100) * 1024 * 1024,
    # An archive of a whole base; unpacked it may have ten times as much.
    "MAX_IMPORT_BYTES": _number("ARCHWAY_MAX_IMPORT_MB", 2048) * 1024 * 1024,
    # How long the file of an export is kept.
    "EXPORT_HOURS": _number("ARCHWAY_EXPORT_HOURS", 72),
    "HISTORY_DAYS": _number("ARCHWAY_HISTORY_DAYS", 90),
    "MAX_BODY_BYTES": _number("ARCHWAY_MAX_BODY_KB", 2048) * 1024,
    "MAX_UPLOAD_BATCH": _number("ARCHWAY_MAX_UPLOAD_BATCH", 200),
    "MAX_FOLDER_FILES": _number("ARCHWAY_MAX_FOLDER_FILES", 5000),
    # Uploads in pieces that have not ended: bytes a person, bytes of all people, and hours until they are forgotten.
    "OPEN_UPLOAD_BYTES": _number("ARCHWAY_OPEN_UPLOADS_MB", 1024) * 1024 * 1024,
    "ALL_UPLOAD_BYTES": _number("ARCHWAY_ALL_UPLOADS_MB", 10_240) * 1024 * 1024,
    "UPLOAD_HOURS": _number("ARCHWAY_UPLOAD_HOURS", 24),
    # What web sources say they are, and the least pause in seconds between two requests to one host.
    "CRAWL_AGENT": _env("ARCHWAY_CRAWL_AGENT", "ArchwayBot/1.0"),
    "CRAWL_DELAY": _number("ARCHWAY_CRAWL_DELAY", 1),
    # Work that one person may have running at once; the rest waits its turn.
    "RUNNING_PER_PERSON": _number("ARCHWAY_RUNNING_PER_PERSON", 2),
    # Long parses on all workers together; keep it below the number of worker slots.
    "HEAVY_PARSES": _number("ARCHWAY_HEAVY_PARSES", 2),
    "CLAIM_TTL": _number("ARCHWAY_CLAIM_TTL", 90),
    "MAX_ATTEMPTS": 3,
    "SLICE_SECONDS": 5.0,
    "PARSE_MEMORY_MB": _number("ARCHWAY_PARSE_MEMORY_MB", 1200),
    "PARSE_SECONDS": _number("ARCHWAY_PARSE_SECONDS", 300),
    "PARSE_FILES": _number("ARCHWAY_PARSE_FILES", 100),
    # Pictures that are kept of one document.
    "MAX_PICTURES": _number("ARCHWAY_MAX_PICTURES", 500),
    "MAX_PICTURE_BYTES": _number("ARCHWAY_MAX_PICTURES_MB", 64) * 1024 * 1024,
    # Text recognition (the extra `ocr`): memory of its process, seconds a page, and how much of one document.
    "OCR_MEMORY_MB": _number("ARCHWAY_OCR_MEMORY_MB", 2048),
    "OCR_PAGE_SECONDS": _number("ARCHWAY_OCR_PAGE_SECONDS", 60),
    "OCR_MAX_PAGES": _number("ARCHWAY_OCR_MAX_PAGES", 500),
    "OCR_MAX_PICTURES": _number("ARCHWAY_OCR_MAX_PICTURES", 200),
    # LibreOffice, for old Office files; empty: found in the search path.
    "SOFFICE": _env("ARCHWAY_SOFFICE"),
    "CONVERT_MEMORY_MB": _number("ARCHWAY_CONVERT_MEMORY_MB", 3072),
    "CONVERT_SECONDS": _number("ARCHWAY_CONVERT_SECONDS", 120),
    "RECYCLE_DAYS": _number("ARCHWAY_RECYCLE_DAYS", 30),
    "QUERY_LOG_DAYS": _number("ARCHWAY_QUERY_LOG_DAYS", 90),
    "RATE_PER_PERSON": _number("ARCHWAY_RATE_PER_PERSON", 600),
    "RATE_PER_ADDRESS": _number("ARCHWAY_RATE_PER_ADDRESS", 1200),
    "RATE_SIGN_IN": _number("ARCHWAY_RATE_SIGN_IN", 10),
    # Uses of one secret within an hour that are never worth an alert.
    "REVEALS_PER_HOUR": _number("ARCHWAY_REVEALS_PER_HOUR", 500),
    # The variable that holds the master key (never the key: settings are shown on error pages).
    "MASTER_KEY_VARIABLE": "ARCHWAY_MASTER_KEY" if _env("ARCHWAY_MASTER_KEY") else "",
    "MASTER_KEY_FILE": _env("ARCHWAY_MASTER_KEY_FILE"),
    "MASTER_KEY_KMS": _env("ARCHWAY_MASTER_KEY_KMS"),
    # Addresses of keys that seal nothing new and still open, until rotation has retired them.
    "MASTER_KEY_OLD": _list("ARCHWAY_MASTER_KEY_OLD"),
    # Who asks a key service; AWS has a chain of its own for that.
    "VAULT_TOKEN": _env("VAULT_TOKEN"),
    "VAULT_TOKEN_FILE": _env("VAULT_TOKEN_FILE"),
    "ALIYUN_KEY_ID": _env("ALIBABA_CLOUD_ACCESS_KEY_ID"),
    "ALIYUN_KEY_SECRET": _env("ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
    "ALIYUN_SECURITY_TOKEN": _env("ALIBABA_CLOUD_SECURITY_TOKEN"),
    # Where the generated development key lies; ARCHWAY_MASTER_KEY in the environment goes before it.
    "GENERATED_SECRETS": "" if PRODUCTION else str(DATA_DIR / "secrets.json"),
    "LOG_FORMAT": _env("ARCHWAY_LOG_FORMAT", "text"),
}

ALLOWED_HOSTS = _list("ARCHWAY_ALLOWED_HOSTS", "" if PRODUCTION else "localhost,127.0.0.1,[::1],testserver")
CSRF_TRUSTED_ORIGINS = _list("ARCHWAY_TRUSTED_ORIGINS")
PUBLIC_URL = _env("ARCHWAY_PUBLIC_URL")

# -- applications ---------------------------------------------------------------------------------
INSTALLED_APPS = [
    "portal.apps.PortalConfig",
    "unfold.apps.BasicAppConfig",
    "unfold.contrib.filters",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "portal.apps.ArchwayAdminConfig",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_filters",
    "django_htmx",
    "django_celery_results",
    "channels",
    "portal.kernel",
    "portal.gateway",
    "knowledge",
    "channels_app",
]

MIDDLEWARE = [
    "portal.kernel.middleware.TraceMiddleware",
    "portal.kernel.middleware.SecurityHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "portal.kernel.middleware.LanguageMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "portal.kernel.middleware.PrincipalMiddleware",
    "portal.kernel.middleware.RateLimitMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "portal.kernel.middleware.ErrorMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
AUTH_USER_MODEL = "kernel.User"
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "portal.context.shell",
            ],
        },
    }
]

# -- PostgreSQL -----------------------------------------------------------------------------------
# Without a URL: the embedded server, but never in production, where the check names what is missing.
_database_url = _env("DATABASE_URL") or ("postgresql:///archway" if PRODUCTION else "")
DATABASES: dict[str, dict[str, Any]] = {
    "default": _database(_database_url) if _database_url else locations.embedded_database()
}
DATABASES["default"].setdefault("OPTIONS", {}).setdefault("application_name", _env("ARCHWAY_PROCESS", "archway"))
# A process that is stopped or loses its network in a transaction must not keep its locks for ever.
DATABASES["default"]["OPTIONS"].setdefault("options", "-c idle_in_transaction_session_timeout=60s")
# A connection pool serves threads of the web process; prefork workers close it after every task (no gain).
if _flag("ARCHWAY_DATABASE_POOL"):
    DATABASES["default"]["OPTIONS"]["pool"] = {"min_size": 1, "max_size": 10, "timeout": 5}
else:
    DATABASES["default"]["CONN_MAX_AGE"] = 60
# The pool asks as well: after a restart of PostgreSQL it would hand out one dead connection after the other.
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- Redis: broker (database 0), channel layer (1), limits, nonces and locks (2) --------------------
_redis_base = _number("ARCHWAY_REDIS_FIRST_DATABASE", 0)
_redis_url = _env("REDIS_URL") or ("redis://localhost/0" if PRODUCTION else "")
_redis = locations.redis_from_url(_redis_url) if _redis_url else locations.embedded_redis()
REDIS_URL = _redis.client_url(_redis_base + 2)
# A Redis with search, database 0, for answers that are used again; empty: none are.
CACHE_REDIS_URL = _env("CACHE_REDIS_URL")
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [{"address": _redis.client_url(_redis_base + 1)}], "prefix": f"asgi:{_redis_base}"},
    }
}
CELERY_BROKER_URL = _redis.celery_url(_redis_base)
CELERY_RESULT_BACKEND = "django-db"
CELERY_RESULT_EXTENDED = False
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_TASK_ROUTES = {"knowledge.tasks.ingest_*": {"queue": "ingest"}}
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 1, "interval_start": 0.1, "interval_max": 0.2}
# Above the longest slice; lost messages come back after at most visibility_timeout + a sweep of 5 s.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "visibility_timeout": 120,
    "unacked_restore_interval": 5,
    "unacked_restore_throttle": 1,
    "global_keyprefix": "celery:",
}
CELERY_BEAT_SCHEDULE = {
    "roll-up-usage": {"task": "portal.gateway.tasks.roll_up_usage", "schedule": 600.0, "options": {"expires": 600}},
    "record-lost-calls": {
        "task": "portal.gateway.tasks.record_lost_calls",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "sweep-stale-claims": {"task": "knowledge.tasks.sweep", "schedule": 10.0, "options": {"expires": 10}},
    "sweep-sources": {"task": "knowledge.tasks.sweep_sources", "schedule": 10.0, "options": {"expires": 10}},
    "fold-statistics": {"task": "knowledge.tasks.fold_statistics", "schedule": 30.0, "options": {"expires": 30}},
    "sweep-background": {"task": "knowledge.tasks.sweep_background", "schedule": 15.0, "options": {"expires": 15}},
    "remind-reviews": {"task": "knowledge.tasks.remind_reviews", "schedule": 3600.0, "options": {"expires": 3600}},
    "embed-questions": {"task": "knowledge.tasks.embed_questions", "schedule": 60.0, "options": {"expires": 60}},
    "keep-graphs": {"task": "knowledge.tasks.keep_graphs", "schedule": 300.0, "options": {"expires": 300}},
    "clean-up": {"task": "knowledge.tasks.clean_up", "schedule": 600.0, "options": {"expires": 600}},
    "watch-credentials": {
        "task": "portal.kernel.tasks.watch_credentials",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    "check-credentials": {
        "task": "portal.kernel.tasks.check_credentials",
        "schedule": 21_600.0,
        "options": {"expires": 3600},
    },
    "seal-audit": {"task": "portal.kernel.tasks.seal_audit", "schedule": 1.0, "options": {"expires": 1}},
}
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "run" / "beat-schedule")
CELERY_TIMEZONE = "UTC"

# -- files ----------------------------------------------------------------------------------------
_bucket = _env("ARCHWAY_S3_BUCKET")
STORAGES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "storages.backends.s3.S3Storage",
        "OPTIONS": {"bucket_name": _bucket, "endpoint_url": _env("ARCHWAY_S3_ENDPOINT") or None, "default_acl": None},
    }
    if _bucket
    else {
        "BACKEND": "django.core.files.storage.FileSystemStorage",
        "OPTIONS": {"location": str(DATA_DIR / "files"), "file_permissions_mode": 0o600},
    },
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedStaticFilesStorage"},
}
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = DATA_DIR / "static"
WHITENOISE_USE_FINDERS = not PRODUCTION
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]
FILE_UPLOAD_PERMISSIONS = 0o600
FILE_UPLOAD_DIRECTORY_PERMISSIONS = 0o700
DATA_UPLOAD_MAX_MEMORY_SIZE = ARCHWAY["MAX_BODY_BYTES"]
DATA_UPLOAD_MAX_NUMBER_FILES = ARCHWAY["MAX_UPLOAD_BATCH"]

# -- people, language, mail -----------------------------------------------------------------------
LANGUAGE_CODE = _env("ARCHWAY_LANGUAGE", "en")
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = _env("ARCHWAY_TIME_ZONE", "UTC")
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
if TESTING:  # five people a test, hashed as for production, would take longer than the tests
    PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
_mail = urlsplit(_env("ARCHWAY_MAIL_URL"))
MAIL_CONFIGURED = bool(_mail.hostname)
EMAIL_BACKEND = (
    "django.core.mail.backends.smtp.EmailBackend" if MAIL_CONFIGURED else "django.core.mail.backends.dummy.EmailBackend"
)
EMAIL_HOST = _mail.hostname or ""
EMAIL_PORT = _mail.port or 25
EMAIL_HOST_USER = unquote(_mail.username or "")
EMAIL_HOST_PASSWORD = unquote(_mail.password or "")
EMAIL_USE_TLS = _mail.scheme == "smtp+tls"
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = _env("ARCHWAY_MAIL_FROM", "archway@localhost")

# -- browser security -----------------------------------------------------------------------------
SESSION_ENGINE = "portal.kernel.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "portal.pages.errors.form_expired"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SECURE_SSL_REDIRECT = PRODUCTION and not _flag("ARCHWAY_TLS_AT_PROXY")
SECURE_HSTS_SECONDS = _number("ARCHWAY_HSTS_SECONDS", 31_536_000) if PRODUCTION else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if _flag("ARCHWAY_TLS_AT_PROXY") else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# -- logging --------------------------------------------------------------------------------------
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "trace": {"()": "portal.kernel.logging.TraceFilter"},
        "secrets": {"()": "portal.kernel.logging.SecretFilter"},
    },
    "formatters": {
        "text": {"format": "%(asctime)s %(levelname)s %(name)s [%(trace)s] %(message)s"},
        "json": {"()": "portal.kernel.logging.JsonFormatter"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "filters": ["trace", "secrets"],
            "formatter": ARCHWAY["LOG_FORMAT"],
        }
    },
    "root": {"handlers": ["stderr"], "level": _env("ARCHWAY_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.server": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        "httpx": {"level": "WARNING"},
        "botocore": {"level": "WARNING"},
        "LiteLLM": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
SILENCED_SYSTEM_CHECKS: list[str] = []
TEST_RUNNER = "django.test.runner.DiscoverRunner"
