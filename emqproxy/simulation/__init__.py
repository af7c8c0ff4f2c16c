"""What becomes of a lock under given times, as arithmetic: `emqproxy simulate`. Knows no socket, no clock, no file.

settings     what is asked, and what is wrong with it
queue_model  what Redis keeps of one job: its lock, its marks, its stalls
course       plays workers and sweeps on virtual time, and has the ledger judge what each answer proves
virtual_ledger  the real ledger, told of virtual answers
outcome      what came of it: the shape of `--json`
report       the same in words, and as a timeline
"""
