"""Compares the user guide with the names of names.py and checks its style. Each finding is a sentence."""

import re
from pathlib import Path

from names import Names

# Longest line of prose. Tables and code blocks are exempt.
MAX_LINE = 100
MAX_SENTENCES_PER_CELL = 2
# Pages outside the user guide whose style is checked as well.
MORE_PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")

# Flags of other programs that appear in commands of the docs.
FOREIGN_FLAGS = {
    "--all", "--all-containers", "--clusterrole", "--group", "--role", "--user", "--authentication-skip-lookup", "--config", "--create-namespace", "--dry-run", "--force", "--for", "--gpu-memory-utilization",
    "--install-nvidia-plugin", "--overwrite", "--pause-image", "--prefix", "--field-selector", "--replicas", "--reset-then-reuse-values", "--reset-values", "--reuse-values", "--set", "--set-json", "--set-string",
    "--show-labels", "--show-only", "--timeout", "--type", "--wait",
    # krew, nvidia-ctk, sha256sum.
    "--archive", "--check", "--manifest", "--runtime", "--set-as-default",
    # The build, the test cluster, scripts and benchmarks.
    "--build", "--preset", "--target", "--test-dir",
    "--cert", "--control", "--full", "--key", "--nodes", "--other-url", "--sim-machine", "--sim-nodes", "--upstream", "--upstream-ca", "--url",
    # The systems that Tessera replaces.
    "--health-check", "--memory-unit", "--policy-config-file",
}


def read_docs(root: Path) -> dict[str, str]:
    files = [*sorted(root.glob("docs/*.md")), root / "README.md", root / "deploy/examples/README.md"]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def section(text: str, heading: str) -> str:
    """Returns a section with its subsections, or "" if there is no section of that name."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.M)
    if not found:
        return ""
    rest = text[found.end():]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def code_words(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


def cells(row: str) -> list[str]:
    """Splits a table row. A pipe inside a cell is written as \\|."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def tables(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Returns the header and the rows of each table."""
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", without_code(text), re.M):
        lines = [cells(line) for line in block.splitlines()]
        found.append((lines[0], lines[2:]))
    return found


def column(text: str, name: str) -> list[str]:
    """Returns the cells below the header `name`, from every table that has this header."""
    return [row[header.index(name)] for header, rows in tables(text) if name in header for row in rows]


def without_code(text: str) -> str:
    """Replaces the lines of code blocks by empty lines."""
    lines = []
    fenced = indented = False
    previous = ""
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        # A line with four spaces continues a list item unless a blank line or other code precedes it.
        indented = not fenced and line.startswith("    ") and (indented or not previous.strip())
        lines.append("" if fenced or fence or indented else line)
        fenced = fenced != fence
        previous = line
    return "\n".join(lines)


def count_sentences(cell: str) -> int:
    """Counts full stops that are followed by a new sentence, plus one."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "Code", cell))
    return len(re.split(r"(?<=[.!?])[)\"'*]*\s+(?=[(\"'*]*[A-Z0-9])", plain))


class Check:
    def __init__(self, names: Names, docs: dict[str, str]):
        self.names = names
        self.docs = docs
        self.findings: list[str] = []

    def all(self) -> list[str]:
        self.metrics()
        self.events()
        self.reasons()
        self.bind_failures()
        self.objects()
        self.flags()
        self.settings()
        self.check_kinds()
        self.chart()
        self.links()
        self.reference_rows()
        self.style()
        return self.findings

    def doc(self, name: str) -> str:
        return self.docs.get(f"docs/{name}", "")

    def want(self, kind: str, names, where: str, text: str):
        """Requires each name in `text`, as a separate word."""
        for name in sorted(names):
            if not re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text):
                self.findings.append(f"{where} lacks the {kind} {name}")

    def known(self, kind: str, pattern: str, names, docs=None):
        """Requires that every match of `pattern` in the docs is one of `names`."""
        for path, text in (docs or self.docs).items():
            for word in sorted(set(re.findall(pattern, text)) - set(names)):
                self.findings.append(f"{path} names the {kind} {word}, which does not exist")

    def metrics(self):
        names = self.names.metrics
        page = section(self.doc("reference.md"), "Metrics")
        self.want("metric", names, "docs/reference.md", page)
        labels = [re.sub(r": (`\w+`(, )?)+", "", cell) for cell in column(page, "labels")]
        for label in sorted({word for cell in labels for word in code_words(cell)} - self.names.metric_labels):
            self.findings.append(f"docs/reference.md names the metric label {label}, which does not exist")
        series = names | {name + end for name in names if name.endswith("_seconds") for end in ("_bucket", "_sum", "_count")}
        files = {path: self.names.text(path) for path in ("deploy/helm/tessera/files/alerts.yaml", "deploy/helm/tessera/files/dashboard.json")}
        self.known("metric", r"\b(tessera_(?:extender|agent|webhook|gpu|container)_[a-z_]*[a-z])\b(?!_)", series, {**self.docs, **files})

    def events(self):
        self.want("Event or condition", self.names.events, "docs/troubleshooting.md", self.doc("troubleshooting.md"))
        self.want("Event or condition", self.names.events, "docs/reference.md", self.doc("reference.md"))
        literals = set(re.findall(r'"([A-Z][A-Za-z]+)"', self.names.text("src/**/*.cc", "src/**/*.h")))
        self.known("Event", r"`((?:Gpu|GPU|Driver|OtherDevice)[A-Z][A-Za-z]+|Gpu[a-z]+)`", literals)

    def reasons(self):
        for page, heading in (("troubleshooting.md", "The pod waits for a node"), ("extender.md", "Why nodes are rejected")):
            listed = code_words(section(self.doc(page), heading))
            for phrase in self.names.reasons:
                pattern = ".+".join(re.escape(part) for part in phrase.split("{}"))
                if page == "extender.md" and phrase.startswith("too little"):
                    continue  # only the simulator uses these texts
                if not any(re.fullmatch(pattern, text) for text in listed):
                    self.findings.append(f'docs/{page} lacks the reason "{phrase}"')
        patterns = [".+".join(re.escape(part) for part in phrase.split("{}")) for phrase in self.names.reasons]
        for cell in column(section(self.doc("extender.md"), "Why nodes are rejected"), "reason"):
            for text in code_words(cell):
                if not any(re.fullmatch(pattern, text) for pattern in patterns):
                    self.findings.append(f'docs/extender.md names the reason "{text}", which does not exist')

    def bind_failures(self):
        listed = code_words(section(self.doc("troubleshooting.md"), "The bind failed"))
        for text in self.names.bind_failures:
            pattern = ".+".join(re.escape(part) for part in text.split("{}"))
            if not any(re.match(pattern, word) for word in listed):
                self.findings.append(f'docs/troubleshooting.md lacks the failed bind "{text}"')

    def objects(self):
        page = self.doc("reference.md")
        self.want("annotation, label or variable", self.names.annotations, "docs/reference.md", page)
        self.want("resource", self.names.resources, "docs/reference.md", section(page, "Resources"))
        self.want("environment variable", self.names.environment, "docs/reference.md", page)
        self.want("route", self.names.routes, "docs/reference.md", section(page, "HTTP routes"))
        self.want("exit code", self.names.exit_codes, "docs/reference.md", section(page, "Exit codes"))
        chart = set(re.findall(r"tessera\.io/[a-z.-]+", self.names.text("deploy/helm/tessera/templates/*")))
        extra = {"tessera.io/gpu", "tessera.io/agent"}  # the CDI kind; the label of docs/migration.md
        self.known("annotation or label", r"\b(tessera\.io/[a-z][a-z.-]*[a-z])\b", self.names.annotations | chart | extra)
        self.known("resource", r"\b(aliyun\.com/gpu[a-z.-]*[a-z])\b", self.names.resources | {"aliyun.com/gpu"})

    def flags(self):
        page = section(self.doc("reference.md"), "Programs")
        for program, flags in self.names.programs.items():
            part = section(page, program)
            self.want(f"flag of {program}", flags, "docs/reference.md", part)
            self.known(f"flag of {program}", r"(?<![\w-])(--[a-z][a-z-]*[a-z])", flags, {"docs/reference.md": part})
        every = set().union(*self.names.programs.values())
        self.known("flag", r"(?<![\w-])(--[a-z][a-z-]*[a-z])\b", every | FOREIGN_FLAGS)

    def settings(self):
        page = section(self.doc("reference.md"), "Programs")
        for program, file in (("tessera-extender", "src/extender/config_yaml.cc"), ("tessera-agent", "src/agent/config.cc"), ("tessera-webhook", "src/webhook/config.cc")):
            names = [word for cell in column(section(page, program), "setting") for word in code_words(cell)]
            words = {part for name in names for part in name.replace("[]", "").split(".")}
            keys = self.names.settings(file)
            for key in sorted(keys - words):
                self.findings.append(f"docs/reference.md lacks the setting {key} of {program}")
            for word in sorted(words - keys):
                self.findings.append(f"docs/reference.md names the setting {word} of {program}, which does not exist")

    def check_kinds(self):
        part = section(self.doc("why.md"), "Is the cluster consistent?")
        self.want("finding", self.names.check_kinds, "docs/why.md", part)
        table = part.partition("| kind |")[2]
        for row in re.findall(r"^\| (`.*?) \|", table, re.M):
            for word in code_words(row):
                if word not in self.names.check_kinds:
                    self.findings.append(f"docs/why.md names the finding {word}, which does not exist")

    def chart(self):
        self.want("alert", self.names.alerts, "docs/metrics.md", self.doc("metrics.md"))
        self.known("alert", r"`(Tessera[A-Z]\w+)`", self.names.alerts)
        values = self.names.chart_values
        tops = {path for path in values if "." not in path}
        ours = values | {word for file in ("src/extender/config_yaml.cc", "src/agent/config.cc", "src/webhook/config.cc") for word in self.names.settings(file)}
        for path, text in self.docs.items():
            said = re.findall(r"--set(?:-string|-json)? '?\"?([A-Za-z]+(?:\.[A-Za-z]+)*)", text)
            said += [word for word in re.findall(r"`([a-z][A-Za-z]+(?:\.[A-Za-z]+)+)(?:=[^`]*)?`", text) if word.split(".")[0] in tops]
            for word in sorted(set(said) - {"tls.crt", "tls.key"}):  # files of a Secret
                parts = word.split(".")
                if word.startswith("scheduler.framework."):  # an annotation
                    continue
                is_value = any(".".join(parts[:n]) in values and self.is_open(".".join(parts[:n])) for n in range(1, len(parts))) or word in values
                if not is_value and not all(part in ours for part in parts) and word not in {"devicePlugin.enabled"}:
                    self.findings.append(f"{path} names the chart value {word}, which does not exist")

    def is_open(self, path: str) -> bool:
        """Returns whether a value is a map whose keys the user chooses."""
        return not any(other.startswith(path + ".") for other in self.names.chart_values)

    def reference_rows(self):
        """The reference has one name per row, and no name twice in a table. A short flag may precede its long one."""
        for _, rows in tables(self.doc("reference.md")):
            firsts = [tuple(word for word in code_words(row[0]) if not re.fullmatch(r"-\w", word)) for row in rows]
            for names in firsts:
                if len(names) > 1:
                    self.findings.append(f"docs/reference.md has several names in one row: {', '.join(names)}")
                elif names and firsts.count(names) > 1:
                    self.findings.append(f"docs/reference.md has {names[0]} twice in one table")

    def style(self):
        pages = {page: self.names.text(page) for page in MORE_PAGES}
        pages |= {path: text for path, text in self.docs.items() if path.startswith("docs/") or "/" not in path}
        for path, text in sorted(pages.items()):
            prose = without_code(text)
            for number, line in enumerate(prose.split("\n"), 1):
                if len(line) > MAX_LINE and not line.startswith("|"):
                    self.findings.append(f"{path}:{number} has {len(line)} characters, more than {MAX_LINE}")
                for cell in cells(line) if line.startswith("|") else []:
                    if count_sentences(cell) > MAX_SENTENCES_PER_CELL:
                        self.findings.append(f"{path}:{number} has a table cell of more than {MAX_SENTENCES_PER_CELL} sentences: {cell}")

    def links(self):
        for path, text in self.docs.items():
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                whole = (self.names.root / path).parent / file if file else self.names.root / path
                if not whole.exists():
                    self.findings.append(f"{path} links to {target}, which does not exist")
                elif anchor and anchor not in self.anchors(whole, path if not file else None):
                    self.findings.append(f"{path} links to {target}: there is no such heading")

    def anchors(self, file: Path, own: str | None) -> set[str]:
        key = own or str(file.resolve().relative_to(self.names.root.resolve()))
        text = self.docs.get(key) or file.read_text()
        heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
        return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
