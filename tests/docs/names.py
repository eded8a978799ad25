"""The names that users see, taken from the sources and the built programs.

No list here is written by hand. The names come from `--help` of the programs and from string literals in the
source files that define a kind of name.
"""

import json
import re
import subprocess
from functools import cached_property
from pathlib import Path

# CamelCase words in the agent and the extender that are no Events: fields of kube-scheduler, kubelet and the API.
NOT_EVENTS = {
    "AllocResp", "ConfigMap", "ContainerName", "DeviceIDs", "FailedAndUnresolvableNodes", "FailedNodes", "GiB",
    "KubeSchedulerConfiguration", "MiB", "NodeNameToMetaVictims", "NodeNames", "NodeResourcesFit", "NumPDBViolations", "PodDeviceEntries",
    "PodName", "PodNamespace", "PodUID", "RegisteredDevices", "ResourceName",
}


class Names:
    def __init__(self, root: Path, bin_dir: Path):
        self.root = root
        self.bin = bin_dir

    def text(self, *patterns: str) -> str:
        files = sorted(path for pattern in patterns for path in self.root.glob(pattern))
        assert files, f"no file matches {patterns}"
        return "\n".join(path.read_text() for path in files)

    def literals(self, *patterns: str) -> str:
        """Returns source text in which adjacent string literals are joined, as the compiler does."""
        return re.sub(r'"\s*\n\s*"', "", self.text(*patterns))

    @cached_property
    def metrics(self) -> set[str]:
        code = self.text("src/**/*.cc", "src/**/*.h")
        # A server adds metrics about its connections, whose names end with these suffixes.
        suffixes = re.findall(r'counter\(name \+ "(_[a-z_]+)"', code)
        servers = re.findall(r'add_server\("(\w+)"', code)
        assert suffixes and servers, "Readings::add_server is not written as this test reads it"
        names = set(re.findall(r'"(tessera_(?:extender|agent|webhook|gpu|container)_[a-z_]+)"', code))
        return names | {server + suffix for server in servers for suffix in suffixes}

    @cached_property
    def metric_labels(self) -> set[str]:
        """The literals in files that define metrics: a superset of the label names."""
        files = [path.read_text() for path in self.root.glob("src/**/*.cc")]
        defining = [text for text in files if re.search(r'"tessera_(?:extender|agent|webhook|gpu|container)_|struct RequestMetrics|void Readings::', text)]
        return {word for text in defining for word in re.findall(r'"([a-z]+)"', text)}

    @cached_property
    def events(self) -> set[str]:
        words = re.findall(r'"([A-Z][A-Za-z]*[a-z][A-Z][A-Za-z]*|GPU[A-Z][A-Za-z]+|NoGPUs)"', self.text("src/agent/**/*.cc", "src/agent/**/*.h", "src/extender/**/*.cc"))
        plugins = re.findall(r"\w+", self.text("src/extender/scheduler_policy.cc"))  # of kube-scheduler
        return set(words) - set(plugins) - NOT_EVENTS

    @cached_property
    def reasons(self) -> list[str]:
        """The reasons for rejected nodes, with {} for numbers and names."""
        body = self.literals("src/alloc/reason.cc").split("std::string phrase(")[1].split("bool eviction_may_help")[0]
        phrases = [text for text in re.findall(r'"([^"]+)"', body) if text not in ("fits", "does not fit")]
        assert len(phrases) > 10, "alloc/reason.cc is not written as this test reads it"
        return phrases

    @cached_property
    def bind_failures(self) -> list[str]:
        """The beginnings of the texts about failed binds, with {} for numbers and names."""
        binder = self.literals("src/extender/binder.cc")
        failed = re.findall(r'(?:fail_bind\(flight,|\bdone\(|answer\(\*late,|ErrorCode::kExhausted,)\s*(?:fmt::format\(\s*)?"([^"]+)"', binder)
        lost = re.findall(r'ErrorCode::kConflict,\s*(?:fmt::format\(\s*)?"([^"]+)"', self.literals("src/alloc/ledger.cc"))
        assert len(failed) > 9 and len(lost) > 1, "src/extender/binder.cc or src/alloc/ledger.cc is not written as this test reads it"
        return [re.split(r"[;,]| \(", text)[0] for text in failed + lost]

    @cached_property
    def annotations(self) -> set[str]:
        keys = self.text("src/alloc/names.h").split("namespace key")[1]
        labels = re.findall(r'"((?:nvidia\.com|tessera\.io|aliyun\.accelerator)/[a-z._-]+)"', self.text("src/agent/**/node_metadata.cc"))
        others = re.findall(r'"(tessera\.io/[a-z-]+)"', self.text("src/extender/**/*.cc", "src/cli/**/*.cc", "src/objects/*.cc"))
        return set(re.findall(r'"([A-Za-z][A-Za-z_./-]+)"', keys)) | set(labels) | set(others)

    @cached_property
    def resources(self) -> set[str]:
        return {"aliyun.com" + part for part in re.findall(r'"(/gpu[a-z.-]*)"', self.text("src/alloc/names.cc"))}

    @cached_property
    def environment(self) -> set[str]:
        found = set()
        for path in [*self.root.glob("src/**/*.cc"), self.root / "sim/nvml/settings.cc"]:
            text = re.sub(r"option_text\([^)]*\)", "", path.read_text())
            if re.search(r"getenv|environment\(", text):
                found |= set(re.findall(r'"([A-Z][A-Z_]{3,})"', text))
        return found

    @cached_property
    def routes(self) -> set[str]:
        return set(re.findall(r'"(/[a-z-]+)"', self.text("src/daemon/health_routes.cc", "src/extender/**/service.cc", "src/agent/**/observer.cc", "src/webhook/webhook.cc")))

    def settings(self, file: str) -> set[str]:
        return set(re.findall(r'\{"([a-z][A-Za-z]+)",', self.text(file, "src/daemon/yaml_setting.cc")))

    @cached_property
    def check_kinds(self) -> set[str]:
        problems = re.findall(r'"([a-z]+_?[a-z]+)"', self.text("src/alloc/problem.cc").split("kNames")[1].split("};")[0])
        code = self.literals("src/cli/**/check*.cc")
        findings = re.findall(r'\.kind = "([a-z_]+)"', code)
        of_nodes = re.findall(r'add_node_finding\(\s*node,[^"]*?"([a-z_]+)"', code)
        of_schedulers = re.findall(r'\badd\(\s*[^",]+,\s*"([a-z_]+)"', self.literals("src/cli/**/check_scheduler.cc"))
        assert problems and findings and of_nodes and of_schedulers, "src/cli/**/check*.cc are not written as this test reads them"
        return {*problems, *findings, *of_nodes, *of_schedulers}

    @cached_property
    def alerts(self) -> set[str]:
        return set(re.findall(r"- alert: (\w+)", self.text("deploy/helm/tessera/files/alerts.yaml")))

    @cached_property
    def exit_codes(self) -> set[str]:
        return {"0", "1", "2", *re.findall(r"kFoundProblems = (\d+)", self.text("src/cli/**/check.h"))}

    @cached_property
    def chart_values(self) -> set[str]:
        paths = set()

        def walk(schema: dict, path: str):
            for name, inside in schema.get("properties", {}).items():
                paths.add(path + name)
                walk(inside, path + name + ".")

        walk(json.loads(self.text("deploy/helm/tessera/values.schema.json")), "")
        return paths

    def help(self, *command: str) -> str:
        assert (self.bin / command[0]).exists(), f"{self.bin / command[0]} is not built; cmake --build --preset dev builds it"
        done = subprocess.run([self.bin / command[0], *command[1:], "--help"], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, f"{command} --help: {done.stderr}"
        return done.stdout

    def flags(self, *command: str) -> set[str]:
        """Returns the long flags of a program and of its subcommands."""
        text = self.help(*command)
        found = set()
        for line in re.findall(r"^  (-\S+)", text, re.M):
            found |= set(re.findall(r"(--[a-z][a-z-]*)", line))
        for line in text.partition("Subcommands:\n")[2].split("\n\n")[0].splitlines():
            if name := re.match(r"  ([a-z]+)", line):
                found |= self.flags(*command, name[1])
        return found

    @cached_property
    def programs(self) -> dict[str, set[str]]:
        return {name: self.flags(name) for name in ("tessera", "tessera-extender", "tessera-agent", "tessera-webhook", "tessera-sim-machine")}
