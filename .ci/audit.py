"""Looks up known vulnerabilities of the versions in constraints.txt with pip-audit, and says what was really looked up.

    python .ci/audit.py PIP_AUDIT [--required]

pip-audit reports no vulnerability, and success, also for packages that its advisory service did not know or that a
mirror hid. So the packages with an answer are counted: without any, nothing was audited, which is said, and fails only
with --required. Exits 1 for a vulnerability that is not in IGNORED, and for an entry of IGNORED that is not needed.
"""

import json
import subprocess
import sys
from pathlib import Path

IGNORED: dict[str, str] = {}
"""Id of an advisory, and why it does not concern regress-gate: which function, which input, until when."""
CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
LEAST_SHARE = 0.9
"""Share of the packages that must have been looked up. Some have markers for another system."""


def main(program: str, *, required: bool) -> int:
    command = [program, "-r", str(CONSTRAINTS), "--disable-pip", "--no-deps", "-f", "json", "--progress-spinner", "off"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        packages = json.loads(done.stdout)["dependencies"]
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return could_not_run(f"pip-audit gave no report ({type(error).__name__})", required=required)
    audited = [package for package in packages if "vulns" in package]
    found = [
        (package["name"], package["version"], vulnerability)
        for package in audited
        for vulnerability in package["vulns"]
    ]
    known = {name for _, _, vulnerability in found for name in (vulnerability["id"], *vulnerability.get("aliases", ()))}
    judged = [
        (name, version, vulnerability)
        for name, version, vulnerability in found
        if not IGNORED.keys() & {vulnerability["id"], *vulnerability.get("aliases", ())}
    ]
    for name, version, vulnerability in judged:
        fixed = ", ".join(vulnerability.get("fix_versions", ())) or "no version"
        print(f"{name} {version}: {vulnerability['id']}, fixed in {fixed}")
    if judged:
        print("update with `bash .ci/constraints --upgrade-package NAME`, or judge it in .ci/audit.py")
        return 1
    if not packages or len(audited) < LEAST_SHARE * len(packages):
        reason = f"the advisory service answered for {len(audited)} of {len(packages)} packages"
        return could_not_run(reason, required=required)
    if unneeded := sorted(IGNORED.keys() - known):
        print(f"no longer needed in IGNORED: {', '.join(unneeded)}")
        return 1
    print(f"no known vulnerability in {len(audited)} of {len(packages)} packages; {len(IGNORED)} judged as harmless")
    return 0


def could_not_run(why: str, *, required: bool) -> int:
    print(f"NOT RUN: {why}; nothing is known about vulnerabilities of the dependencies")
    return 1 if required else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], required="--required" in sys.argv[2:]))
