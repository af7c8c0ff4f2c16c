"""FLOOR 2: one connection pair. Requests are paired with replies; what cannot be paired with certainty is not guessed.

    commands   how many replies a command has, as data      modes     MULTI, SUBSCRIBE, CLIENT REPLY: small machines
    exchange   a request with its reply and instants        session   the pairing itself

Imports `wire`; knows no script, no lock, no socket and no clock.
"""
