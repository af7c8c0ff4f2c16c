"""FLOOR 1: the lock protocol. Knows leases; knows no RESP, no script, no socket and no clock (`now` is a parameter).

events    what answers prove, and what requests intend        verdicts   what the ledger says of them
lease     one lock's account                                  ledger     all accounts, and the deadlines
"""
