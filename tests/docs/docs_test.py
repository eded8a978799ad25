#!/usr/bin/env python3
"""Checks that the user guide names everything that exists, and nothing else. Run by ctest.

TESSERA_BIN is the directory of the built programs. The class TheCheck shows that the check can fail: it removes a
name from the docs, or adds one that does not exist, and expects the finding.
"""

import os
import re
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from docs import Check, read_docs  # noqa: E402
from names import Names  # noqa: E402

ROOT = HERE.parents[1]
NAMES = Names(ROOT, Path(os.environ.get("TESSERA_BIN", ROOT / "build/dev/bin")))
DOCS = read_docs(ROOT)


def findings(changed: dict[str, str]) -> list[str]:
    return Check(NAMES, {**DOCS, **changed}).all()


class Guide(unittest.TestCase):
    maxDiff = None

    def test_names_everything_that_exists_and_nothing_else(self):
        self.assertEqual("", "\n".join(findings({})))

    def test_has_every_name_of_the_contract(self):
        contract = ROOT.parent / "shared/contract.md"
        if not contract.exists():
            self.skipTest(f"{contract} does not exist")
        keys = set(re.findall(r"`((?:aliyun\.com/|tessera\.io/|ALIYUN_|GPU_|NVIDIA_)[A-Za-z_./-]+)", contract.read_text()))
        page = DOCS["docs/reference.md"]
        self.assertGreater(len(keys), 15)
        self.assertEqual([], sorted(key for key in keys if key not in page))

    def test_every_page_is_in_the_index(self):
        index = DOCS["docs/README.md"]
        pages = {Path(path).name for path in DOCS if path.startswith("docs/")} - {"README.md"}
        self.assertEqual([], sorted(page for page in pages if f"({page})" not in index))

    def test_the_architecture_lists_the_dependencies_of_each_folder(self):
        rows = re.findall(r"^\| `src/(\w+)` \|.*\| ([\w, ]*)\|$", (ROOT / "ARCHITECTURE.md").read_text(), re.M)
        said = {folder: set(re.findall(r"\w+", uses)) for folder, uses in rows if "above" not in uses}
        linked = {
            folder: set(re.findall(r"tessera::(\w+)", (ROOT / "src" / folder / "CMakeLists.txt").read_text()))
            for folder in said
        }
        self.assertGreater(len(said), 9)
        self.assertEqual({**linked, "main": set()}, said)


class TheCheck(unittest.TestCase):
    def expect(self, page: str, old: str, new: str, finding: str):
        text = DOCS[page]
        self.assertIn(old, text)
        found = findings({page: text.replace(old, new)})
        self.assertTrue(any(finding in one for one in found), f"{finding!r} is not in {found}")

    def test_reports_names_that_are_missing(self):
        for page, name, finding in [
            ("docs/reference.md", "tessera_gpu_healthy", "lacks the metric tessera_gpu_healthy"),
            ("docs/troubleshooting.md", "GpuLost", "lacks the Event or condition GpuLost"),
            ("docs/reference.md", "GpuLost", "docs/reference.md lacks the Event"),
            ("docs/troubleshooting.md", "no GPU is wholly free", 'lacks the reason "no GPU is wholly free"'),
            ("docs/extender.md", "no single GPU has 8GiB free", 'lacks the reason "no single GPU has {} free"'),
            ("docs/troubleshooting.md", "another pod has its name now", 'lacks the failed bind "another pod has its name now"'),
            ("docs/reference.md", "--memory-slack", "lacks the flag of tessera-agent --memory-slack"),
            ("docs/reference.md", "--sort-by", "lacks the flag of tessera --sort-by"),
            ("docs/reference.md", "limits.bindTimeout", "lacks the setting bindTimeout"),
            ("docs/reference.md", "tessera.io/placement", "lacks the annotation, label or variable tessera.io/placement"),
            ("docs/reference.md", "POD_NAMESPACE", "lacks the environment variable POD_NAMESPACE"),
            ("docs/reference.md", "/allocations", "lacks the route /allocations"),
            ("docs/why.md", "given_elsewhere", "lacks the finding given_elsewhere"),
            ("docs/metrics.md", "TesseraBindsFail", "lacks the alert TesseraBindsFail"),
        ]:
            with self.subTest(name):
                self.expect(page, name, "", finding)

    def test_reports_names_that_do_not_exist(self):
        for page, new, finding in [
            ("docs/metrics.md", "`tessera_extender_luck`", "names the metric tessera_extender_luck"),
            ("docs/agent.md", "`--memory-polcy`", "names the flag --memory-polcy"),
            ("docs/agent.md", "`GpuBored`", "names the Event GpuBored"),
            ("docs/install.md", "`tessera.io/gpu-colour`", "names the annotation or label tessera.io/gpu-colour"),
            ("docs/install.md", "--set agent.stratgy=cdi", "names the chart value agent.stratgy"),
            ("docs/install.md", "[x](nowhere.md)", "links to nowhere.md"),
            ("docs/install.md", "[x](agent.md#nowhere)", "there is no such heading"),
            ("README.md", "`TesseraSleeps`", "names the alert TesseraSleeps"),
        ]:
            with self.subTest(new):
                found = findings({page: DOCS[page] + "\n" + new + "\n"})
                self.assertTrue(any(finding in one for one in found), f"{finding!r} is not in {found}")

    def test_reports_flags_of_the_wrong_program(self):
        page = "docs/reference.md"
        self.expect(page, "| `--attach` |", "| `--strategy` |", "names the flag of tessera-extender --strategy")

    def test_reports_metric_labels_that_do_not_exist(self):
        row = "| `tessera_extender_watch_failures_total` | "
        self.expect("docs/reference.md", row + "`resource` |", row + "`of` |", "names the metric label of")

    def test_reports_several_names_in_one_row(self):
        page = "docs/reference.md"
        self.expect(page, "| `NO_PROXY` |", "| `NO_PROXY`, `HTTP_PROXY` |", "several names in one row: NO_PROXY, HTTP_PROXY")
        self.expect(page, "| `NO_PROXY` |", "| `HTTP_PROXY` |", "has HTTP_PROXY twice in one table")

    def test_reports_long_lines_and_long_cells(self):
        for page in ("docs/agent.md", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
            with self.subTest(page):
                text = DOCS.get(page) or (ROOT / page).read_text()
                found = findings({page: text + "\n" + "word " * 20 + "w\n\n| one. Two. Three |\n|---|\n"})
                self.assertTrue(any(one.startswith(page) and "has 101 characters" in one for one in found), found)
                self.assertTrue(any(one.startswith(page) and "more than 2 sentences: one. Two. Three" in one for one in found), found)

    def test_accepts_long_lines_in_code_blocks(self):
        text = DOCS["docs/agent.md"]
        for block in ("    " + "word " * 30, "```\n" + "word " * 30 + "\n```", "- item\n\n      " + "word " * 30):
            with self.subTest(block):
                self.assertEqual(findings({}), findings({"docs/agent.md": text + "\n" + block + "\n"}))


if __name__ == "__main__":
    unittest.main()
