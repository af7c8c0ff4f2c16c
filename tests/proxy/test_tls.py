"""TLS contexts of files: what they demand of a peer, and the one line for every file that cannot be used."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from emqproxy import cli
from emqproxy.config import Config, ConfigError, TlsTable, Upstream, UpstreamTlsTable
from emqproxy.proxy.tls import check, client_context, server_context
from tests.tls import Authority

PASSWORD = b"CANARY"


class Files:
    """An authority's and ours, and some that are wrong."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder)
        self.ca = str(authority.file)
        self.cert, self.key = map(str, authority.issue("own"))
        self.other = str(authority.issue("other")[1])
        self.text, self.none, self.folder = str(folder / "text"), str(folder / "none"), str(folder)
        Path(self.text).write_text("precious")
        self.torn = str(folder / "torn")
        Path(self.torn).write_text(Path(self.cert).read_text()[:200])
        key = serialization.load_pem_private_key(Path(self.key).read_bytes(), None)
        form, how = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(PASSWORD)
        self.locked = str(folder / "locked")
        Path(self.locked).write_bytes(key.private_bytes(serialization.Encoding.PEM, form, how))
        self.both = str(folder / "both")
        Path(self.both).write_bytes(Path(self.cert).read_bytes() + Path(self.key).read_bytes())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("tls"))


WRONG: list[tuple[Callable[[Files], dict[str, str]], str]] = [
    (lambda f: {"cert_file": f.none}, "cert_file: cannot read {none} (No such file or directory); write the path of a"),
    (lambda f: {"cert_file": f.folder}, "cert_file: cannot read {folder} (Is a directory); write the path of a"),
    (lambda f: {"cert_file": f.cert, "key_file": f.none}, "key_file: cannot read {none} (No such file"),
    (
        lambda f: {"cert_file": f.text},
        "cert_file: {text} holds no PEM certificate; write the path of a PEM file of our",
    ),
    (
        lambda f: {"cert_file": f.cert},
        "cert_file: {cert} holds no PEM private key; write the path of a PEM file of the",
    ),
    (lambda f: {"cert_file": f.cert, "key_file": f.text}, "key_file: {text} holds no PEM private key; write"),
    (lambda f: {"cert_file": f.cert, "key_file": f.other}, "key_file: {other} is not the key of {cert}; write"),
    (lambda f: {"cert_file": f.torn, "key_file": f.key}, "cert_file: {torn} cannot be used ("),
    (
        lambda f: {"cert_file": f.cert, "key_file": f.locked},
        "key_password: is missing: the key is encrypted; write the password of {locked}",
    ),
    (
        lambda f: {"cert_file": f.cert, "key_file": f.locked, "key_password": "CANARY2"},
        "key_password: does not open the key; write the password of {locked}",
    ),
]
GOOD: list[Callable[[Files], dict[str, str]]] = [
    lambda f: {"cert_file": f.both},
    lambda f: {"cert_file": f.cert, "key_file": f.key},
    lambda f: {"cert_file": f.cert, "key_file": f.key, "key_password": "needless"},
    lambda f: {"cert_file": f.cert, "key_file": f.locked, "key_password": PASSWORD.decode()},
]


@pytest.mark.parametrize(("given", "line"), WRONG)
def test_a_file_that_cannot_be_used_is_named(given: Callable[[Files], dict[str, str]], line: str, files: Files):
    rediss = Upstream.parse("rediss://h")
    tables = {"tls": {"tls": given(files)}, "upstream_tls": {"upstream": rediss, "upstream_tls": given(files)}}
    for name, values in tables.items():
        with pytest.raises(ConfigError) as told:
            check(Config.model_validate(values))
        assert str(told.value).startswith(f"{name}.{line.format(**vars(files))}")
        assert "CANARY" not in str(told.value)


@pytest.mark.parametrize("given", GOOD)
def test_files_that_can_be_used(given: Callable[[Files], dict[str, str]], files: Files):
    check(Config.model_validate({"tls": given(files)}))
    check(Config.model_validate({"upstream": Upstream.parse("rediss://h"), "upstream_tls": given(files)}))


def test_an_authority_that_is_none(files: Files):
    with pytest.raises(ConfigError, match=r"^tls\.client_ca_file: .*text holds no PEM certificate; write the path"):
        server_context(TlsTable(cert_file=files.both, client_ca_file=files.text))
    with pytest.raises(ConfigError, match=r"^upstream_tls\.ca_file: cannot read .*none \(No such file"):
        client_context(UpstreamTlsTable(ca_file=files.none))


def test_what_a_listener_demands(files: Files):
    plain = server_context(TlsTable(cert_file=files.both))
    assert (plain.verify_mode, plain.minimum_version) == (ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2)
    assert server_context(TlsTable(cert_file=files.both, client_ca_file=files.ca)).verify_mode == ssl.CERT_REQUIRED


def test_what_is_demanded_of_the_upstream(files: Files):
    usual, own = client_context(UpstreamTlsTable()), client_context(UpstreamTlsTable(ca_file=files.ca))
    for context in (usual, own):
        assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert len(own.get_ca_certs()) == 1, "an authority of one's own stands instead of the system's"
    blind = client_context(UpstreamTlsTable(insecure_skip_verify=True))
    assert (blind.verify_mode, blind.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(("key", "code"), [("other", 2), ("key", 0)])
def test_check_config_looks_into_the_files(
    key: str, code: int, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "a.toml"
    file.write_text(
        f'listen = ["tls://127.0.0.1:0"]\n[tls]\ncert_file = "{files.cert}"\nkey_file = "{getattr(files, key)}"'
    )
    assert cli.main(["check-config", str(file)]) == code
    out, err = capsys.readouterr()
    if code:
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith(f"emqproxy check-config: tls.key_file: {files.other} is not the key of {files.cert}; ")
    else:
        assert 'listen = ["tls://127.0.0.1:0"]' in out
