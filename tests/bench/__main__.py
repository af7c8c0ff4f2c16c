"""What emqproxy costs, beside HAProxy and twemproxy, on this machine: `python -m tests.bench`.

    --only NAME        this workload; again for more (all)
    --contender NAME   this contender; again for more (all): direct haproxy twemproxy relaying watching tracing
    --rounds N         rounds, each of all workloads on all contenders in turn (5)
    --seconds S        how long a run of redis-benchmark lasts, about (3)
    --quick            2 short rounds: does it work?
    --out FILE         the report goes there, too
    --readme FILE      its head and first table take the place of those in this file

Every run has a Redis of its own and a contender of its own, just started. *direct* and *haproxy* are measured with both
scripts. *relaying*: the script is nobody's (a text of our own, of a renewal's work, on keys outside `prefixes`): every
call is read and paired, none judged. *watching*: the protocol's own extendLock, judged in the ledger; no exporter, no
journal. *tracing*: the same, and every call goes as a span to an OTLP receiver on this machine. The report is Markdown:
ratios are of medians over the rounds, CPU time is that of each process while the client ran, for one call or job.

BullMQ: 50 jobs at a time, 20,000 that do nothing, added past the proxy before the clock starts or, at 1,000 a second,
meanwhile. twemproxy cannot carry it: it knows no INFO, CLIENT, BZPOPMIN or MULTI. The pinned workload has its client
(with observer and receiver) on core 0, Redis and the proxy on core 1: these take turns, so nobody waits for a core. The
1,000 connections are made while the clock runs, as redis-benchmark does it.

Needs redis-server, redis-benchmark; haproxy, nutcracker, node and npm where they are to be seen. Give it the machine
alone: about 35 minutes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.bench import report
from tests.bench.contenders import CONTENDERS
from tests.bench.measures import Measure
from tests.bench.workloads import FULL, QUICK, WORKLOADS, Scale, Workload


def main(argv: Sequence[str] | None = None, quick: Scale = QUICK) -> None:
    arguments = _parse(argv)
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    scale, rounds = (quick, 2) if arguments.quick else (FULL, 5)
    rounds = arguments.rounds or rounds
    scale = replace(scale, seconds=arguments.seconds or scale.seconds)
    workloads = [workload for workload in WORKLOADS if not arguments.only or workload.name in arguments.only]
    missing = [f"{workload.title}: not measured, no {workload.lacks} here" for workload in workloads if workload.lacks]
    absent = {contender.name: contender.lacks for contender in CONTENDERS if contender.lacks}
    missing += [f"{name}: not measured, no {program} here" for name, program in absent.items()]
    workloads = [workload for workload in workloads if workload.lacks is None]
    measures = measure(workloads, arguments.contender, scale, rounds)
    command = " ".join(["python -m tests.bench", *(sys.argv[1:] if argv is None else argv)])
    head = list(report.header(command, load, rounds))
    text = report.whole(measures, head, missing)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")
    if arguments.readme is not None:
        short = report.short(measures, head, missing)
        arguments.readme.write_text(report.put(arguments.readme.read_text(), short))


def measure(workloads: Sequence[Workload], names: Sequence[str], scale: Scale, rounds: int) -> list[Measure]:
    """All runs. Every other round goes backwards, so that a machine that slows down is no one's disadvantage."""
    measures = []
    for number in range(rounds):
        for workload in workloads:
            contenders = [one for one in workload.contenders() if not names or one.name in names]
            for contender in contenders if number % 2 == 0 else contenders[::-1]:
                got = workload.play(workload, contender, scale)
                measures.append(got)
                about = f"{number + 1}/{rounds} {workload.name} {contender.name} {contender.script}"
                print(f"{about}: {got.per_s:,.0f} {workload.unit}/s", file=sys.stderr, flush=True)
    return measures


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[workload.name for workload in WORKLOADS], default=[])
    names = list(dict.fromkeys(contender.name for contender in CONTENDERS))
    parser.add_argument("--contender", action="append", choices=names, default=[])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--readme", type=Path)
    return parser.parse_args(argv)


def _told_to_end(number: int, _: object) -> None:
    """As an exception, so that every process that was started is ended."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _told_to_end)
    main()
