import hashlib
import io
import tarfile

import pytest

from readout.errors import AssetError
from readout.sources import assets
from readout.sources import fetch as door

METADATA = b"Metadata-Version: 2.1\nName: small\nVersion: 1.0\n"
RUN = b"open({mark!r}, 'w').close()\nraise SystemExit('code of the archive was run')\n"
LEGACY, DECLARED = (
    b"",
    b"[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n",
)


def archive(project, extra: dict[str, bytes], name: str = "small-1.0") -> str:
    """Put a source archive whose `setup.py` leaves a mark where pip looks; return its sha256."""
    files = {
        "PKG-INFO": METADATA,
        "LICENSE.rst": b"do what you like",
        "setup.py": RUN.replace(b"{mark!r}", repr(str(project.root / "ran")).encode()),
        "small/data/a.pdb": b"alpha",
        "small/data/deep/b.cif.gz": b"beta",
        "small/data/c.dcd": b"a trajectory",
        "elsewhere/d.pdb": b"delta",
    } | extra
    path = project.wheels / f"{name}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for file, content in files.items():
            if content:
                member = tarfile.TarInfo(f"{name}/{file}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("pyproject", [LEGACY, DECLARED])
def test_a_source_archive_gives_its_data_and_licence_and_runs_nothing(project, pyproject):
    sha256 = archive(project, {"pyproject.toml": pyproject})
    project.register(source="sdist", sha256=sha256, files="*.[pc][di][bf]*")
    door.fetch("tiny")
    folder = assets.locate("small")
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.*")) == ["a.pdb", "deep/b.cif.gz"]
    assert (folder / "a.pdb").read_bytes() == b"alpha"
    above = folder.parents[1]
    assert sorted(p.name for p in above.iterdir()) == ["LICENSE.rst", "readout.json", "small"]
    assert not (project.root / "ran").exists()


def test_without_a_pattern_all_files_of_the_path_come(project):
    project.register(source="sdist", sha256=archive(project, {}))
    door.fetch("tiny")
    assert (assets.locate("small") / "c.dcd").read_bytes() == b"a trajectory"


def test_another_pattern_makes_what_lies_there_stale(project):
    sha256 = archive(project, {})
    for pattern, there in (("*.pdb", ["a.pdb"]), ("*.dcd", ["c.dcd"])):
        project.register(source="sdist", sha256=sha256, files=pattern)
        door.fetch("tiny")
        assert [p.name for p in assets.locate("small").iterdir()] == there


def test_an_archive_of_another_sha256_is_not_used(project):
    archive(project, {})
    project.register(source="sdist", sha256="0" * 64)
    with pytest.raises(AssetError, match=r"small==1\.0 has another sha256 than assets.toml records"):
        door.fetch("tiny")
    assert project.left_over() == []
    assert not (project.root / "ran").exists()


def test_an_archive_without_the_registered_files_is_refused(project):
    project.register(source="sdist", sha256=archive(project, {}), files="*.xyz")
    with pytest.raises(AssetError, match=r"small-1.0.tar.gz holds nothing below small/data/\*.xyz"):
        door.fetch("tiny")
    assert project.left_over() == []


def test_a_file_that_would_land_outside_is_refused(project):
    project.register(source="sdist", sha256=archive(project, {"small/data/../../../../out.pdb": b"x"}))
    with pytest.raises(AssetError, match=r"asset 'small': .* outside target directory"):
        door.fetch("tiny")
    assert project.left_over() == []
