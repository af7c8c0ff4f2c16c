"""The other process: turns records into a journal, spans and metrics. It cannot see a byte of traffic.

    fd ─▶ inbox ─▶ observe ─┬─▶ journal ─▶ journal_file ─▶ FILE or stdout
                            ├─▶ spans ─▶ emitter ─┬─▶ otlp_pen ─▶ span_queue ─▶ collector
                            │                     └─▶ sdk_pen ─▶ console
                            ├─▶ alerts ─▶ log
                            └─▶ metrics_service ─▶ metrics ◀─ metrics_reading ◀─ metrics_export ◀─ admin ◀─ Prometheus

- `inbox` reads batches from the pipe; `observe` hands each message to every consumer; a fault of one hurts no other.
- `timeline` maps instants to wall time; `names` maps keys to prefix, queue and job; `tokens` hides tokens; `ids`
  computes trace and attempt ids; `board` is the read model: the attempts still open.
- `spans` writes a `draft` of each span that the `emitter` wants, of `groups` that many spans have in common; a pen
  makes it: `otlp_pen` with `encoding`, or the SDK. `otlp` wires them as `OTEL_*` says.
- `metrics` counts every record in plain integers, told or shed; `metrics_table` has every name; `metrics_reading` makes
  labels of them when `metrics_export` is asked, by a scrape or its own push; `admin` is the listener, in a thread.
- Where records come faster than they can be told, healthy spans are shed first, counted and said; then the bus drops
  records, which the gap in `seq` shows. What a record costs: `tests/bench/observer_cost.py`.
- Law: whatever fails here is counted and said once a minute (`faults`); nothing here can reach the data plane.

To add an exporter: one file with a class that has `on(message)`, and a line in `observe.Observer`.
"""
