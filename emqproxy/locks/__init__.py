"""FLOOR 1: the lock protocol. Knows leases; knows no RESP, no script, no socket and no clock (`now` is a parameter).

events    what answers prove, and what requests intend        verdicts   what the ledger says of them
lease     one lock's account, and the protocol as a table     ledger     all accounts: facts in, verdicts out
grading   what is found of a fact, and how late it came       flights    what is asked and not answered
deadlines when to look at which lock again
"""
