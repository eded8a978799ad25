"""Holds the user guide against the names of names.py; findings are sentences."""

import re
from pathlib import Path

from names import Names

# Flags of other programs that the docs show in commands.
FOREIGN_FLAGS = {
    "--all", "--all-containers", "--authentication-skip-lookup", "--config", "--create-namespace", "--dry-run", "--force", "--for", "--gpu-memory-utilization",
    "--install-nvidia-plugin", "--overwrite", "--pause-image", "--prefix", "--field-selector", "--replicas", "--reset-then-reuse-values", "--reset-values", "--reuse-values", "--set", "--set-json", "--set-string",
    "--show-labels", "--timeout", "--type", "--wait",
    # Of the build, the test cluster, scripts and benchmarks.
    "--build", "--preset", "--target", "--test-dir",
    "--cert", "--control", "--key", "--nodes", "--other-url", "--sim-machine", "--sim-nodes", "--upstream", "--upstream-ca", "--url",
    # Of the systems that Tessera replaces.
    "--health-check", "--memory-unit",
}


def read_docs(root: Path) -> dict[str, str]:
    files = [*sorted(root.glob("docs/*.md")), root / "README.md", root / "deploy/examples/README.md"]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def section(text: str, heading: str) -> str:
    """A section with its subsections; empty when there is none of that name."""
    found = re.search(rf"^(#+) {re.escape(heading)}$", text, re.M)
    if not found:
        return ""
    rest = text[found.end():]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.M)
    return rest[: end.start()] if end else rest


def code_words(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", text)


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
        return self.findings

    def doc(self, name: str) -> str:
        return self.docs.get(f"docs/{name}", "")

    def want(self, kind: str, names, where: str, text: str):
        """Each name stands in `text`, as a word of its own."""
        for name in sorted(names):
            if not re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", text):
                self.findings.append(f"{where} lacks the {kind} {name}")

    def known(self, kind: str, pattern: str, names, docs=None):
        """Every match of `pattern` in the docs is one of `names`."""
        for path, text in (docs or self.docs).items():
            for word in sorted(set(re.findall(pattern, text)) - set(names)):
                self.findings.append(f"{path} names the {kind} {word}, which does not exist")

    def metrics(self):
        names = self.names.metrics
        self.want("metric", names, "docs/reference.md", section(self.doc("reference.md"), "Metrics"))
        series = names | {name + end for name in names if name.endswith("_seconds") for end in ("_bucket", "_sum", "_count")}
        files = {path: self.names.text(path) for path in ("deploy/helm/tessera/files/alerts.yaml", "deploy/helm/tessera/files/dashboard.json")}
        self.known("metric", r"\b(tessera_(?:extender|agent|gpu|container)_[a-z_]*[a-z])\b(?!_)", series, {**self.docs, **files})

    def events(self):
        self.want("Event or condition", self.names.events, "docs/troubleshooting.md", self.doc("troubleshooting.md"))
        self.want("Event or condition", self.names.events, "docs/reference.md", self.doc("reference.md"))
        literals = set(re.findall(r'"([A-Z][A-Za-z]+)"', self.names.text("src/**/*.cc", "src/**/*.h")))
        self.known("Event", r"`((?:Gpu|GPU|Driver|OtherDevice)[A-Z][A-Za-z]+|Gpu[a-z]+)`", literals)

    def reasons(self):
        for page, heading in (("troubleshooting.md", "The pod waits for a node"), ("extender.md", "What pods are told")):
            told = code_words(section(self.doc(page), heading))
            for phrase in self.names.reasons:
                pattern = ".+".join(re.escape(part) for part in phrase.split("{}"))
                if page == "extender.md" and phrase.startswith("too little"):
                    continue  # kube-scheduler says that itself
                if not any(re.fullmatch(pattern, text) for text in told):
                    self.findings.append(f'docs/{page} lacks the reason "{phrase}"')
        patterns = [".+".join(re.escape(part) for part in phrase.split("{}")) for phrase in self.names.reasons]
        for row in re.findall(r"^\| (`.*?) \|", section(self.doc("extender.md"), "What pods are told"), re.M):
            for text in code_words(row):
                if not any(re.fullmatch(pattern, text) for pattern in patterns):
                    self.findings.append(f'docs/extender.md names the reason "{text}", which nobody gives')

    def bind_failures(self):
        told = code_words(section(self.doc("troubleshooting.md"), "Decided, but not bound"))
        for text in self.names.bind_failures:
            pattern = ".+".join(re.escape(part) for part in text.split("{}"))
            if not any(re.match(pattern, word) for word in told):
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
        for program, file in (("tessera-extender", "src/extender/config_yaml.cc"), ("tessera-agent", "src/agent/config.cc")):
            rows = [row.split("|")[2] for row in section(page, program).splitlines() if row.startswith("| ") and row.count("|") >= 4]
            words = {part for cell in rows[1:] for word in code_words(cell) for part in word.split(".")}
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
        ours = values | {word for file in ("src/extender/config_yaml.cc", "src/agent/config.cc") for word in self.names.settings(file)}
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
        """Whether a value is a map whose keys are the user's."""
        return not any(other.startswith(path + ".") for other in self.names.chart_values)

    def links(self):
        for path, text in self.docs.items():
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                whole = (self.names.root / path).parent / file if file else self.names.root / path
                if not whole.exists():
                    self.findings.append(f"{path} links to {target}, which is not there")
                elif anchor and anchor not in self.anchors(whole, path if not file else None):
                    self.findings.append(f"{path} links to {target}: there is no such heading")

    def anchors(self, file: Path, own: str | None) -> set[str]:
        key = own or str(file.resolve().relative_to(self.names.root.resolve()))
        text = self.docs.get(key) or file.read_text()
        heads = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
        return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}
