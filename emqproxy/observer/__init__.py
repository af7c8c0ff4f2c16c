"""The other process: turns records into a journal and into spans. It cannot see a byte of traffic.

    fd ─▶ inbox ─▶ observe ─┬─▶ journal ─▶ journal_file ─▶ FILE or stdout
                            ├─▶ spans ─▶ emitter ─▶ otlp ─▶ collector
                            └─▶ alerts ─▶ log

- `inbox` reads batches from the pipe; `observe` hands each message to every consumer; a fault of one hurts no other.
- `timeline` maps instants to wall time; `names` maps keys to prefix, queue and job; `tokens` hides tokens; `ids`
  computes trace and attempt ids; `board` is the read model: the attempts still open.
- Law: whatever fails here is counted and said once a minute (`faults`); nothing here can reach the data plane.

To add an exporter: one file with a class that has `on(message)`, and a line in `observe.Observer`.
"""
