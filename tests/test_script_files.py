"""Script texts on disk: packages, archives and folders as they are found, and the file that is written in one step."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import bullmq
import pytest

from emqproxy import script_files
from emqproxy.script_files import FilesError, Found, find, load_catalogue, save_catalogue
from emqproxy.scripts.catalogue import Catalogue
from emqproxy.scripts.user_catalogue import Text, UserScript, learn
from tests.e2e.packages import node_packages

ROW = UserScript("0" * 40, "extendLock", 2, "4.0.0-6.7.0", "", "mine/extendLock-2.lua")
MODULE = "const content = `return 1`;\nexports.one = {\n name: 'extendLock',\n content,\n keys: 2,\n};\n"


def files(top: Path, named: dict[str, str]) -> Path:
    for name, content in named.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return top


PACKAGE = {
    "package.json": '{"name": "bullmq", "version": "6.8.0"}',
    "dist/cjs/package.json": '{"type": "commonjs"}',
    "dist/cjs/scripts/extendLock-2.js": MODULE,
    "dist/cjs/scripts/index.js": "exports.x = require('./extendLock-2');",
    "dist/cjs/commands/extendLock-2.lua": '--- @include "x"\nreturn 1',
    "dist/cjs/commands/includes/x.lua": "return 2",
    "dist/cjs/classes/job-2.js": "'no end",
    "README.md": "no script",
}
EXPECTED = Text("extendLock", 2, b"return 1", "6.8.0", "")


def told(found: Found) -> list[Text]:
    assert found.unreadable == []
    return [text._replace(where="") for text in found.texts]


@pytest.mark.parametrize("below", ["", "node_modules", "deep/down/node_modules"])
def test_an_npm_package_or_a_folder_around_it(below: str, tmp_path: Path) -> None:
    files(tmp_path / below / "bullmq", PACKAGE)
    assert told(find(str(tmp_path))) == [EXPECTED]


def test_a_folder_within_a_package_tells_no_release(tmp_path: Path) -> None:
    files(tmp_path, PACKAGE)
    assert told(find(str(tmp_path / "dist/cjs/scripts"))) == [EXPECTED._replace(release="")]
    (text,) = told(find(str(tmp_path / "dist/cjs/commands")))
    assert text.text.startswith(b"---")


def test_the_release_of_another_package_is_none_of_its(tmp_path: Path) -> None:
    files(tmp_path, PACKAGE | {"package.json": '{"name": "fork-of-it", "version": "1.0.0"}'})
    assert told(find(str(tmp_path))) == [EXPECTED._replace(release="")]
    files(tmp_path, {"package.json": "["})
    assert told(find(str(tmp_path))) == [EXPECTED._replace(release="")]


def test_an_npm_archive(tmp_path: Path) -> None:
    files(tmp_path / "package", PACKAGE)
    for name in ("bullmq-6.8.0.tgz", "bullmq.tar.gz"):
        with tarfile.open(tmp_path / name, "w:gz") as archive:
            archive.add(tmp_path / "package", "package")
        assert told(find(str(tmp_path / name))) == [EXPECTED]


def test_a_wheel(tmp_path: Path) -> None:
    wheel = tmp_path / "bullmq-9.9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("bullmq/commands/extendLock-2.lua", "return 1\r\n")
        archive.writestr("bullmq/commands/includes/x.lua", "return 2")
        archive.writestr("bullmq-9.9.9.dist-info/METADATA", "Version: 9.9.9")
    # Its releases are numbered otherwise than npm's, by which layouts are told apart.
    assert told(find(str(wheel))) == [Text("extendLock", 2, b"return 1\r\n", "", "")]


def test_a_folder_of_lua_files_and_one_of_them(tmp_path: Path) -> None:
    files(tmp_path / "mine", {"extendLock-2.lua": "return 1", "helper.lua": "return 2", "notes.txt": "x"})
    assert find(str(tmp_path / "mine")).texts == [
        Text("extendLock", 2, b"return 1", "", "mine/extendLock-2.lua"),
        Text("", None, b"return 2", "", "mine/helper.lua"),
    ]
    one = find(str(tmp_path / "mine/extendLock-2.lua"))
    assert one.texts == [Text("extendLock", 2, b"return 1", "", "extendLock-2.lua")]


def test_real_packages_hold_published_scripts_only() -> None:
    published = Catalogue().published
    for folder, count in (
        (Path(bullmq.__file__).parent, 63),
        (node_packages() / "node_modules" / "bullmq5", 50),
        (node_packages() / "node_modules" / "bullmq", 64),
    ):
        learnt = learn(find(str(folder)).texts, published)
        assert (learnt.added, learnt.left_out) == ([], [])
        assert learnt.published == count


def test_a_module_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    files(tmp_path / "scripts", {"a-1.js": "const x = `no end", "b-2.js": "exports.b = 1;"})
    (tmp_path / "scripts/c-3.js").write_bytes(b"\xff")
    assert find(str(tmp_path)).unreadable == [
        f"{tmp_path.name}/scripts/a-1.js: a string in it has no end; left out",
        f"{tmp_path.name}/scripts/b-2.js: no script in it; left out",
        f"{tmp_path.name}/scripts/c-3.js: not UTF-8; left out",
    ]


def test_what_is_not_there_or_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("x.whl", "x.tgz"):
        (tmp_path / name).write_bytes(b"nothing")
    broken = io.BytesIO()
    with tarfile.open(fileobj=broken, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/package.json"), io.BytesIO(b""))
    (tmp_path / "cut.tgz").write_bytes(broken.getvalue()[:-20])
    for name, why in [
        ("nowhere", "No such file or directory; write the path of an npm or Python package"),
        ("empty", "no scripts in it; write the path of"),
        ("x.whl", "not an archive that can be read ("),
        ("x.tgz", "not an archive that can be read ("),
        ("cut.tgz", "not an archive that can be read ("),
    ]:
        with pytest.raises(FilesError) as caught:
            find(str(tmp_path / name))
        assert str(caught.value).startswith(f"PATH: {tmp_path / name}: {why}")
    monkeypatch.setattr(script_files, "FILE_BYTES_MAX", 3)
    files(tmp_path / "large", {"extendLock-2.lua": "return 1"})
    with pytest.raises(FilesError, match="larger than 3 bytes; write the path of"):
        find(str(tmp_path / "large"))


# ---------------------------------------------------------------- the user's catalogue


def test_the_catalogue_is_replaced_in_one_step_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "own.json"
    save_catalogue(str(file), [ROW])
    assert load_catalogue(str(file)) == [ROW]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    file.chmod(0o600)
    before = file.stat().st_ino
    save_catalogue(str(file), [])
    assert load_catalogue(str(file)) == []
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_ino != before
    assert os.listdir(tmp_path) == ["own.json"]


def test_a_link_stays_one_and_what_it_points_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "own.json"
    link.symlink_to(tmp_path / "there/real.json")
    save_catalogue(str(link), [ROW])
    assert link.is_symlink()
    assert load_catalogue(str(tmp_path / "there/real.json")) == [ROW]


def test_a_file_that_cannot_be_written_or_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(FilesError, match=r"--catalogue: cannot write .*: No such file or directory; write a file's"):
        save_catalogue(str(tmp_path / "nowhere/own.json"), [ROW])
    with pytest.raises(FilesError, match=r"--catalogue: cannot write .*directory"):
        save_catalogue(str(tmp_path), [ROW])
    with pytest.raises(FilesError, match=r"scripts.catalogue: .*: No such file or directory; write the path of a file"):
        load_catalogue(str(tmp_path / "own.json"))
    (tmp_path / "own.json").write_text("{}")
    with pytest.raises(FilesError, match=r"scripts.catalogue: .*own.json: not a catalogue of scripts \("):
        load_catalogue(str(tmp_path / "own.json"))
    assert load_catalogue("") == []
    assert sorted(os.listdir(tmp_path)) == ["own.json"]
