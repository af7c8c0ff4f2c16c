"""FLOOR 1: the lock protocol. Knows leases; knows no RESP, no script, no socket and no clock (`now` is a parameter).

events     what answers prove, and what requests intend       verdicts   what the ledger says of them
worlds     what can be true of a lock; the protocol's table   orders     overlapping facts, in every legal order
account    one lock: its worlds, facts not yet settled        accounts   which accounts there are
story      one lock: its attempts as they are told
flights    what is asked and not answered                     deadlines  when something must be looked at
grading    figures, and how late a renewal was                ledger     all of it: the floor's one door
"""
