"""The scripts of older releases, read from their npm packages where those lie: none of their text is ours."""

from __future__ import annotations

import functools
import json
import subprocess

from tests.e2e.packages import node_packages

READ_TEXTS = """
const fs = require("fs"), found = {};
for (const file of fs.readdirSync(process.argv[1]))
  if (/-[0-9]+[.]js$/.test(file))
    for (const script of Object.values(require(process.argv[1] + "/" + file)))
      found[script.name] = [script.content, script.keys];
process.stdout.write(JSON.stringify(found));
"""


@functools.cache
def old_texts(package: str = "bullmq5") -> dict[str, tuple[bytes, int]]:
    """Of 5.65.1 (`bullmq5`) or 4.18.3 (`bullmq4`), by name: the text and how many keys."""
    folder = node_packages() / "node_modules" / package / "dist" / "cjs" / "scripts"
    done = subprocess.run(["node", "-e", READ_TEXTS, str(folder)], capture_output=True, check=True, timeout=30)
    return {name: (content.encode(), keys) for name, (content, keys) in json.loads(done.stdout).items()}
