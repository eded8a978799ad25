#!/usr/bin/env python3
"""Checks that the outputs of the README are those of the programs, and runs the Python code of the examples.

TESSERA_BIN is the directory of the built programs. Outputs of a cluster come from the expected outputs of tests/cli.
"""

import os
import re
import subprocess
import sys
import textwrap
import types
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("TESSERA_BIN", ROOT / "build/dev/bin"))


def readme_output(command: str) -> str:
    """Returns what the README shows as the output of `command`."""
    block = re.search(rf"^```\n\$ {re.escape(command)}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    return block[1] if block else f"the README does not show {command}"


def run_tessera(arguments: str) -> str:
    """Returns what tessera writes to standard output, with the repository as its directory."""
    command = [BIN / "tessera", *arguments.split()]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def shortened(shown: str, real: str) -> bool:
    """Returns whether `shown` is `real`, where "..." stands for any lines."""
    pattern = re.escape(shown).replace(re.escape("...\n"), "(?:.*\n)*")
    return re.fullmatch(pattern, real) is not None


class Readme(unittest.TestCase):
    def test_shows_the_real_output_of_why(self):
        golden = (ROOT / "tests/cli/golden/why-share.txt").read_text()
        self.assertEqual(golden, readme_output("tessera why train-7 -n ml"))

    def test_shows_the_real_output_of_topo(self):
        arguments = "topo --machine dgx1v --count 4"
        real = run_tessera(arguments)
        shown = readme_output(f"tessera {arguments}")
        self.assertTrue(shortened(shown, real), f"shown:\n{shown}\nreal:\n{real}")
        self.assertFalse(shortened(shown.replace("20 GB/s", "40 GB/s"), real))

    def test_shows_the_real_output_of_savings(self):
        files = "deploy/examples/savings"
        arguments = f"savings --file {files} --usage {files}/usage.csv --price A100=3.20,A10G=1.00,T4=0.35"
        real = run_tessera(arguments)
        shown = readme_output(f"tessera {arguments}")
        self.assertTrue(shortened(shown, real), f"shown:\n{shown}\nreal:\n{real}")
        guide = (ROOT / "docs/savings.md").read_text()
        self.assertIn(textwrap.indent(f"$ tessera {arguments}\n{real}", "    "), guide)
        self.assertEqual(run_tessera(f"{arguments} -o svg"), (ROOT / "docs/savings.svg").read_text())

    def test_says_first_that_no_real_gpu_was_used(self):
        first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:15])
        self.assertIn("has not run on a physical GPU", re.sub(r"\s+", " ", first_screen))


class Stop(Exception):
    pass


class PyTorchExample(unittest.TestCase):
    def test_limits_pytorch_to_the_share(self):
        text = (ROOT / "deploy/examples/pytorch.yaml").read_text()
        code = textwrap.dedent(re.search(r"- \|\n((?: {14}.*\n)+)", text)[1])
        fractions = []

        def rand(*_, device):  # the first use of the GPU, after the limit was set
            self.assertEqual("cuda", device)
            raise Stop

        cuda = types.SimpleNamespace(set_per_process_memory_fraction=fractions.append)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, rand=rand)  # type: ignore
        # The variables that the agent sets for aliyun.com/gpu-mem: 4 on a GPU with 16 units.
        os.environ |= {"ALIYUN_COM_GPU_MEM_CONTAINER": "4", "ALIYUN_COM_GPU_MEM_DEV": "16"}
        with self.assertRaises(Stop):
            exec(code, {})
        self.assertEqual([3.5 / 16], fractions)
        self.assertIn("limits: {aliyun.com/gpu-mem: 4}", text)
        guide = (ROOT / "docs/first-pod.md").read_text()
        self.assertIn(code.splitlines()[3], guide)


if __name__ == "__main__":
    unittest.main()
