"""FLOOR 1: the lock protocol. Knows leases; knows no RESP, no script, no socket and no clock (`now` is a parameter).

events     what answers prove, and what requests intend       verdicts   what the ledger says of them
worlds     what can be true of a lock; the protocol's table   orders     overlapping facts, in every legal order
account    one lock: its worlds, facts not yet settled        accounts   which accounts there are
story      one lock: its attempts as they are told
flights    what is asked and not answered                     deadlines  when something must be looked at
grading    figures, and how late a renewal was                ledger     all of it: the floor's one door
policy     the rules, and the decision on a call              certain    what is certain: a refusal's ground
claims     who took which job over which connection           pools      tokens and connections that several use
notes      what a diagnosis is made of: a note a line         case       one refused call, and what bears on it
deeds      causes by what somebody did                        silences   causes by time
evictions  what Redis says of its memory                      diagnosis  both in their order; the doctor
watches    what only time tells                               hands      what a hand did to lists and jobs
"""
