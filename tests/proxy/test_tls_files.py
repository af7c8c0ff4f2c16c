"""A context follows its files: renewed ones are taken at the next look, those that cannot be used are not."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from emqproxy.config import ConfigError, TlsTable
from emqproxy.logs import RateLimited
from emqproxy.proxy.tls import server_context
from emqproxy.proxy.tls_files import LOOK_NS, TlsFiles
from tests.tls import Authority


class Case:
    """Files under an authority, and the context that follows them. `look` is the next look at them."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.cert, self.key = self.authority.issue("own")
        self.table = TlsTable(cert_file=str(self.cert), key_file=str(self.key))
        self.files = TlsFiles(self.table, server_context, RateLimited(structlog.get_logger()))
        self.now = 0

    def look(self) -> ssl.SSLContext:
        self.now += LOOK_NS
        return self.files.context(self.now)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def test_files_that_stay_are_read_once(case: Case):
    with capture_logs() as lines:
        assert case.look() is case.look() is case.look()
    assert lines == []


def test_renewed_files_are_seen_at_the_next_look_and_not_before(case: Case):
    first = case.look()
    case.authority.issue("own")
    assert case.files.context(case.now + LOOK_NS - 1) is first
    with capture_logs() as lines:
        second = case.look()
        assert second is not first
        assert case.look() is second
    assert [(line["event"], line["log_level"]) for line in lines] == [("renewed TLS files are in force", "info")]


def test_half_of_a_pair_keeps_the_one_before_and_is_told_once(case: Case, tmp_path: Path):
    first = case.look()
    (tmp_path / "elsewhere").mkdir()
    cert, key = Authority(tmp_path / "elsewhere").issue("own")
    with capture_logs() as lines:
        case.cert.write_bytes(cert.read_bytes())  # the key is yet to come
        assert case.look() is case.look() is case.look() is first
        (line,) = lines
        assert (line["log_level"], line["event"][:31]) == ("error", "renewed TLS files cannot be use")
        assert line["reason"].startswith(f"tls.key_file: {case.key} is not the key of {case.cert}; ")
        case.key.write_bytes(key.read_bytes())
        assert case.look() is not first
    assert [line["log_level"] for line in lines] == ["error", "info"]


def test_files_that_are_gone_keep_the_one_before(case: Case):
    first = case.look()
    case.key.unlink()
    assert case.look() is first
    case.authority.issue("own")
    assert case.look() is not first


def test_a_link_that_points_elsewhere_is_a_renewal(tmp_path: Path):
    """As Kubernetes renews a secret: the folder's link is swapped."""
    for name in "ab":
        (tmp_path / name).mkdir()
        Authority(tmp_path / name).issue("own")
    (tmp_path / "data").symlink_to("a")
    table = TlsTable(cert_file=str(tmp_path / "data/own.crt"), key_file=str(tmp_path / "data/own.key"))
    files = TlsFiles(table, server_context, RateLimited(structlog.get_logger()))
    first = files.context(0)
    (tmp_path / "new").symlink_to("b")
    (tmp_path / "new").rename(tmp_path / "data")
    assert files.context(LOOK_NS) is not first


def test_another_table_is_taken_whole_or_not_at_all(case: Case):
    first = case.look()
    with pytest.raises(ConfigError, match="cannot read /nowhere"):
        case.files.use(TlsTable(cert_file="/nowhere"))
    assert (case.look(), case.files.table) == (first, case.table)
    other = TlsTable(cert_file=str(case.cert), key_file=str(case.key), handshake_timeout=1)
    case.files.use(other)
    assert case.files.table is other
    assert case.look() is not first
