"""FLOOR 3, the translator: exchanges become lock events. The only floor that knows both sides.

How to add a script: a row in the catalogue data (`data/catalogue.json`: sha, name, arity, releases), a layout row
(`data/layouts.json`: the roles of KEYS and ARGV in those releases), and, if no family fits, a recogniser: a file that
gives an `Operation`. Its test is one recorded conversation.
"""
