"""Logs: structured, on stderr only, each line with the ids of the work that wrote it."""

import logging
import sys
from contextlib import AbstractContextManager

import structlog
from structlog.typing import Processor

QUIET_LIBRARIES = (
    "aiobotocore",
    "botocore",
    "httpx",
    "httpcore",
    "uvicorn.access",
    "aiosqlite",
    "temporalio.worker",
    "watchfiles",
)


def configure(level: str, *, human: bool | None = None) -> None:
    """Send our logs and those of libraries to stderr.

    Args:
        level: `debug`, `info`, `warning` or `error`.
        human: True for lines that people read, False for JSON; None: as stderr is a terminal.
    """
    readable = sys.stderr.isatty() if human is None else human
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder(allow=())],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_rendering(readable=readable),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in QUIET_LIBRARIES:
        logging.getLogger(name).setLevel(logging.WARNING)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )


def route_temporal_core() -> None:
    """Send the logs of Temporal's Rust core through ours: by itself it writes to stdout.

    Call it once, before the first client connects.
    """
    from temporalio.runtime import (  # noqa: PLC0415 - a slow import that not every command needs
        LogForwardingConfig,
        LoggingConfig,
        Runtime,
        TelemetryConfig,
        TelemetryFilter,
    )

    core = logging.getLogger("temporalio.core")
    logs = LoggingConfig(
        filter=TelemetryFilter(core_level="WARN", other_level="ERROR"),
        forwarding=LogForwardingConfig(logger=core),
    )
    runtime = Runtime(telemetry=TelemetryConfig(logging=logs))
    Runtime.set_default(runtime, error_if_already_set=False)


def bound(
    *,
    workflow: str | None = None,
    run: str | None = None,
    document: str | None = None,
    worker: str | None = None,
) -> AbstractContextManager[None]:
    """Put correlation ids on every log line that is written inside."""
    ids = {"workflow": workflow, "run": run, "document": document, "worker": worker}
    return structlog.contextvars.bound_contextvars(
        **{name: value for name, value in ids.items() if value is not None}
    )


def _rendering(*, readable: bool) -> list[Processor]:
    if readable:
        return [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
