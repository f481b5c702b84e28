"""Real git repositories for tests: files written, committed, branched and cloned as people and CI do."""

import os
import subprocess
from pathlib import Path

_IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org"}
_WITHOUT_MACHINE = {
    **_IDENTITY,
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


class Checkout:
    def __init__(self, root: Path):
        self.root = root

    @classmethod
    def new(cls, root: Path) -> "Checkout":
        root.mkdir(parents=True, exist_ok=True)
        checkout = cls(root)
        checkout.git("init", "--quiet", "--initial-branch=main")
        checkout.git("config", "protocol.file.allow", "always")
        checkout.git("config", "uploadpack.allowAnySHA1InWant", "true")
        return checkout

    def clone(self, root: Path, *options: str) -> "Checkout":
        """As CI clones: over a transport, so that a shallow clone is one."""
        Checkout(self.root).git("clone", "--quiet", *options, f"file://{self.root}", str(root))
        return Checkout(root)

    def git(self, *arguments: str) -> str:
        env = {**{name: value for name, value in os.environ.items() if not name.startswith("GIT_")}, **_WITHOUT_MACHINE}
        done = subprocess.run(["git", *arguments], cwd=self.root, env=env, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode("utf-8", "replace").strip()

    def write(self, path: str | bytes, content: str | bytes) -> Path:
        file = self.root / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def commit(self, files: dict[str, str | bytes] | None = None, message: str = "change") -> str:
        """Write the files, and commit all that is there."""
        for path, content in (files or {}).items():
            self.write(path, content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")
