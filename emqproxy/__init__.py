"""emqproxy: a RESP proxy that keeps an account of every job lock that passes through it. This docstring is its map.

Bytes and instants go in; values come out. What knows the protocol cannot reach a socket or a clock; what can reach a
socket or a clock knows nothing of the protocol.

    4  proxy      asyncio: sockets, the clock, the timer        observer   the other process: spans, metrics, journal
    3  scripts    the translator: exchanges become lock events
    2  session    one connection pair: requests paired with replies
    1  wire       bytes ↔ frames                                locks      leases, findings, deadlines: the protocol

A floor imports from below, never from its own level or above (`wire` and `locks` never meet, nor do `proxy` and
`observer`). `tests/test_floors.py` holds every import against this. Beside the floors stand

    records      what crosses the pipe to the observer, and a journal line's words: values, which `scripts` may use, too
    lock_timeline  one job's lock over time, as values: `journal_timeline` reads them from a journal, `timeline_drawing`
                 draws them for a terminal; `wrapped_text` puts what is said beside them into lines
    simulation   a lock's course as arithmetic, judged by the ledger on virtual time; `simulate` is its command
    shadow_report  what enforcement would have refused, counted from a journal; `shadow_table` draws it, `check` is its
                 command
    journal_lines  a journal, read. `replay` judges it again: `replay_facts` makes facts of lines, `replay_run` plays
                 them to the ledger and the doctor, `replay_watches` tells what time tells, `replay_known` what can be
                 compared behind a gap, `replay_report` compares; `redaction` takes every name out of it
    explain      one job's story: `explain_story` as values, of what `explain_lines` says of each line and
                 `explain_holdings` of who held the lock, by the names that `explain_names` gives; `explain_advice` by
                 cause, with the figures that `explain_figures` finds; `explain_words` for a terminal; `job_argument`
                 reads the job's key
    config       one frozen value; its `addresses`, `config_sources`, `config_tables`, `config_values`
    script_files packages on disk, and the user's catalogue of scripts: what `scripts add` reads and writes
    cli          argv → `commands` → exit codes; `healthcheck` without any of the rest; `logs` for every process
    demo         an embedded Redis, real workers, and the story that `emqproxy demo` tells

One EVALSHA, ten steps, one way:

    client ─1─▶ relay ─2─▶ session ─3─▶ witness ─▶ catalogue ─4─▶ ledger
                  │7                        └─5─▶ judge ◀───────────┘
                  ▼                                 └─6─▶ policy
                Redis
                  │8
    client ◀──── relay ───▶ session ───▶ witness ─9─▶ catalogue ─▶ ledger ─10─▶ bus ═▶ observer

1. `proxy.relay` reads bytes and stamps them. 2. `session` finds commands and puts a slot in the line of expected
replies. 3. `proxy.witness` asks the catalogue: a known script, a hand on a lock's key? 4. The recogniser reads KEYS and
ARGV: `Renew(lock, token, ttl_ms)`. `ledger.asked` notes what goes on as in flight. 5. In shadow and enforce mode
`proxy.judge` charges it: with what is wrong with the call itself (`scripts.defects`), and with what is proved of the
job (`ledger.certain`, `locks.claims`); what is not certain is no charge. 6. `policy.decide` weighs the charges by rule
and mode: pass, would block, block. 7. The relay writes. In observe and shadow mode it has done so at once, after 1, and
`proxy.looks` puts 2 to 6 off until the loop has; in enforce mode they come first: `proxy.gate` reads strictly
(`wire.strict`), and in a refused command's place sends on something harmless, whose answer `session.gated` swaps for
ours (`scripts.refusals`), or, inside MULTI, what makes Redis abort the EXEC. 8. Redis answers; stamp; the client is
served before anyone is told. 9. The exchange becomes events, which the ledger observes; nearly all are `locks.healthy`,
and need no weighing. 10. `locks.diagnosis` says why, where the
line needs a cause; the verdict goes to the bus as a record. One timer is armed at `ledger.next_deadline()`; when
it fires, `tick` makes `Lapsed`, and step 10 again. `proxy.ruling` puts a mode in force, also on open connections.
Nothing flows backwards.
"""

__version__ = "0.1.0"
