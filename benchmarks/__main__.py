"""`python -m benchmarks NAME [options] --json`."""

import argparse
import asyncio
import json
import os
import sys

from benchmarks import change, crash, ingest, reconcile, search

BENCHMARKS = {
    "change": change,
    "crash": crash,
    "ingest": ingest,
    "reconcile": reconcile,
    "search": search,
}


def main() -> int:
    """Run one benchmark; the last line of the output is its figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    names = parser.add_subparsers(dest="name", required=True)
    for name, module in BENCHMARKS.items():
        subparser = names.add_parser(name, help=module.__doc__)
        subparser.add_argument("--json", action="store_true", help="print only the figures")
        module.arguments(subparser)
    options = parser.parse_args()
    figures = asyncio.run(BENCHMARKS[options.name].run(options))
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    # Temporal's core may abort at the interpreter's exit, after all work is done.
    os._exit(main())
