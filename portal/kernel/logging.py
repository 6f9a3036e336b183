"""Log lines carry the trace id of the request or task they belong to; JSON on demand."""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from datetime import UTC, datetime

trace: ContextVar[str] = ContextVar("trace", default="-")


class TraceFilter(logging.Filter):
    """Adds `record.trace`."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.trace = trace.get()
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
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)
