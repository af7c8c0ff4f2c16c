"""The scripts of an older release, read from its npm package where that lies: none of their text is ours."""

from __future__ import annotations

import functools
import json
import subprocess

from tests.e2e.peers import node_packages

READ_TEXTS = """
const fs = require("fs"), found = {};
for (const file of fs.readdirSync(process.argv[1]))
  if (/-[0-9]+[.]js$/.test(file))
    for (const script of Object.values(require(process.argv[1] + "/" + file)))
      found[script.name] = [script.content, script.keys];
process.stdout.write(JSON.stringify(found));
"""


@functools.cache
def old_texts() -> dict[str, tuple[bytes, int]]:
    """Of 5.65.1, by name: the text and how many keys."""
    folder = node_packages() / "node_modules" / "bullmq5" / "dist" / "cjs" / "scripts"
    done = subprocess.run(["node", "-e", READ_TEXTS, str(folder)], capture_output=True, check=True, timeout=30)
    return {name: (content.encode(), keys) for name, (content, keys) in json.loads(done.stdout).items()}
