"""The strict reader under a coverage-guided fuzzer: `python -m tests.long.strict_atheris -max_total_time=300 FOLDER`.

Needs `atheris` (PyPI has wheels for Linux; it is none of our dependencies) and gives its arguments to libFuzzer: FOLDER
is the corpus it begins with and adds to. The last byte of an input says where it is cut. What must hold is what
`framing_checks.check_reader` says: nothing raised but ClientWireError, the same pieces however it is cut.
"""

from __future__ import annotations

import sys


def main() -> None:
    import atheris  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415

    with atheris.instrument_imports(include=["emqproxy.wire"]):
        import emqproxy.wire.strict  # noqa: F401, PLC0415

    from tests.long.framing_checks import check_reader  # noqa: PLC0415

    def one(given: bytes) -> None:
        data, step = given[:-1], (given[-1] if given else 0) % 40 + 1
        faults = check_reader(data, [data[at : at + step] for at in range(0, len(data), step)])
        assert not faults, faults

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
