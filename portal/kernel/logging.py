"""Log lines carry the trace id of the request or task they belong to, and no secrets; JSON on demand."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

from portal.kernel.secret_value import redacted

trace: ContextVar[str] = ContextVar("trace", default="-")


class TraceFilter(logging.Filter):
    """Adds `record.trace`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.trace = trace.get()
        return True


class SecretFilter(logging.Filter):
    """Takes secrets out of a record's message, traceback and stack before any handler writes it."""

    _traceback = logging.Formatter()

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):
            return True  # arguments that do not fit their message: the handler reports that by itself
        clean = redacted(message)
        if clean != message:
            record.msg, record.args = clean, ()
        if record.exc_info and record.exc_info[0] is not None:
            # The text may be there already, from a handler that does not ask us.
            record.exc_text = redacted(record.exc_text or self._traceback.formatException(record.exc_info))
        if record.stack_info:
            record.stack_info = redacted(record.stack_info)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "trace": getattr(record, "trace", "-"),
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = record.exc_text or redacted(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)
