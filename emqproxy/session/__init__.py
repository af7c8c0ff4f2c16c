"""FLOOR 2: one connection pair. Requests are paired with replies; what cannot be paired with certainty is not guessed.

    table      every command of Redis as data: how it pairs, which words are keys
    commands   the rules that follow from it              modes      MULTI, SUBSCRIBE, CLIENT REPLY: small machines
    intake     what the client sends fills the line       pairing    what the server sends empties it
    exchange   a request with its reply and instants      session    both, for one connection
    gated      a session whose commands are judged first  standing   whether Redis does what this connection asks

Imports `wire`; knows no script, no lock, no socket and no clock.
"""
