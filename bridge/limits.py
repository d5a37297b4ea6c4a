"""Bounds of the bridge."""

from dataclasses import dataclass


@dataclass(frozen=True)
class BridgeLimits:
    """Times in seconds, sizes in bytes."""

    flush_interval: float = 0.2  # between two signals of one source: at most five a second
    inline_bytes: int = 4_096  # of keys in one signal; more goes into a segment
    patience: float = 30.0  # that a signal is tried, before its messages are left to come again
    first_retry: float = 0.25  # doubled with each try
    longest_retry: float = 5.0
    in_flight: int = 200  # messages of one queue that are being handled
    visibility: int = 60  # that a received message is ours, extended while it is handled
    long_poll: int = 20  # that a receive waits for messages
    drain: float = 10.0  # for what is in flight, when the bridge stops
    reconcile: float = 1.0  # between two looks for new and removed sources
