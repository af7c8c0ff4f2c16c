"""FLOOR 3, the translator: exchanges become lock events. The only floor that knows both sides.

    catalogue   which script a call runs: by sha, by a text that passed by, and last by shape
    texts       the scripts of `lua/`, our own texts, with their includes in place
    user_catalogue  scripts that a user added: what is learned from texts, and the file it is kept in
    javascript  texts in a package's modules    positions  what a text says of its own KEYS and ARGV
    shapes      calls of unknown scripts that look like one family's
    layouts     where token, duration and job id stand, per script, arity and release range
    arguments   KEYS and ARGV, numbers, msgpack within bounds        jobs      what of a job's hash may be told
    answers     whether anything ran, and the journal's words        operation what all families give
    acquire  renew  release  reap  remove  add  unfenced             one family a file; `families` says whose is whose
    raw      hands on lock keys, and scripts that nobody knows       wipes     FLUSHALL, FLUSHDB, SWAPDB
    hands    hands on a queue's lists and on jobs' own keys

How to add a script: a row in the catalogue data (`data/catalogue.json`: sha, name, arity, releases), a layout row
(`data/layouts.json`: the roles of KEYS and ARGV in those releases), the hash of its first comment line
(`data/headers.json`: white space single, lower case, BLAKE2b of 8 bytes), and, if no family fits, a recogniser: a
function that gives an `Operation`, entered in `families.FAMILIES`. Its test is one recorded conversation.

Where a new release changes what a code proves, though keys and arguments stay, the release goes into `release.rule_of`:
`test_catalogue.py` checks that no published text spans it.
"""
