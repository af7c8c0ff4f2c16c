"""The difference test of lua/: random queues, worked on by our scripts and by the released ones, and compared.

`released` has both sets of texts, `twins` runs a step on two databases and compares them, `calls` writes KEYS and ARGV,
`families` and `directed` hold scenes that are not left to chance.
`choices` and `queues` are what a step is decided from, `moves`, `adds` and `happenings` are the steps, `play` plays
sequences. A sequence is a list of byte strings, so that hypothesis can shrink it and a file can keep it.
"""
