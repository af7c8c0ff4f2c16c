"""FLOOR 1: bytes ↔ frames. Knows RESP 2 and 3 and their limits; knows no command name, no socket and no clock.

    frames     what both directions share: limits, strict numbers, whose fault it was
    requests   what clients send: multibulk commands, and `inline` ones        replies   what servers send

Both readers skim: they find where a frame ends, keep the elements somebody wants, and let the rest pass unheld. What
lies whole before them in the common form is read many at once; the long way, byte by byte, is its oracle in the tests.
"""
