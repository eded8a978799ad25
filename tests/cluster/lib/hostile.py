#!/usr/bin/env python3
"""Attacks for the tests hostile.sh, and the client that measures what they do to other pods.

  hostile.py inventory SEED                        prints an inventory of 64 GPUs with irregular links
  hostile.py connections COUNT PORT...             holds COUNT connections with one byte sent to each port
  hostile.py pods COUNT [NODE]                     creates and deletes pods with a huge annotation (on NODE)
  hostile.py inventories NODE                      replaces the inventory of a Node every second
  hostile.py probe PORT HEALTH-PORT [FILTER-BODY]  calls filter and /healthz as kube-scheduler and kubelet do

The last four run until they get SIGTERM (pods: until it is done). `probe` prints a JSON object then.
API_URL, API_CA and API_TOKEN say how to reach the API server.
"""

import http.client
import json
import os
import resource
import selectors
import signal
import socket
import ssl
import sys
import threading
import time
import urllib.parse

GPUS = 64
ANNOTATION_BYTES = 196 * 1024
ALIVE = 5  # hostile pods at a time
SOURCES = 4  # addresses that hostile connections come from; kube-scheduler and kubelet use another

stopped = threading.Event()


def inventory(seed):
    """A valid inventory with many different bandwidths, on which a search for rings takes long.

    The fast links are between a small and a large half, so that no ring of all GPUs can use only them.
    """
    small = GPUS * 7 // 16

    def link(a, b):
        k = ((a * GPUS + b) * 37 + seed) % 89
        if (a < small) != (b < small):
            return f"NV{19 + k % 18}:{3 + k // 18 % 3}/NODE"
        return f"NV{1 + k % 18}:{1 + k // 18 % 2}/NODE"

    gpus = [
        {"uuid": f"GPU-{seed:08x}-0000-0000-0000-{i:012x}", "index": i, "minor": i, "model": "Tesla V100-SXM2-32GB",
         "memory_mib": 32768, "reserved_mib": 450, "pci": f"00000000:{i + 1:02X}:00.0"}
        for i in range(GPUS)
    ]
    links = [" ".join(link(a, b) for b in range(a + 1, GPUS)) for a in range(GPUS - 1)]
    topology = {"v": 1, "gpus": GPUS, "links": links, "numa": [str(i % 2) for i in range(GPUS)], "pcie": 5, "socket_mbps": 22000}
    return json.dumps({"v": 1, "unit": "GiB", "driver": "550.54.15", "machine": f"forged-{seed}", "gpus": gpus, "topology": topology},
                      separators=(",", ":"))


class Api:
    def __init__(self):
        url = urllib.parse.urlsplit(os.environ["API_URL"])
        context = ssl.create_default_context(cafile=os.environ["API_CA"])
        self.connection = http.client.HTTPSConnection(url.hostname, url.port, context=context, timeout=30)
        self.headers = {"Authorization": "Bearer " + os.environ["API_TOKEN"]}

    def call(self, method, path, body=None, kind="application/json"):
        data = None if body is None else json.dumps(body)
        self.connection.request(method, path, data, {**self.headers, "Content-Type": kind})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:200]!r}")


def attack_with_pods(count, node=None):
    api = Api()
    path = "/api/v1/namespaces/default/pods"
    for i in range(count):
        model = f"model-{i}-".ljust(ANNOTATION_BYTES, chr(ord("a") + i % 26))
        api.call("POST", path, {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": f"hostile-{i}", "labels": {"hostile": "yes"}, "annotations": {"tessera.io/gpu-model": model}},
            "spec": {"terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {}),
                     "containers": [{"name": "main", "image": "none", "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]}})
        if i >= ALIVE:
            api.call("DELETE", f"{path}/hostile-{i - ALIVE}")
        if stopped.is_set():
            raise SystemExit(f"stopped after {i + 1} of {count} pods")
    for i in range(max(0, count - ALIVE), count):
        api.call("DELETE", f"{path}/hostile-{i}")
    print(f"{count} hostile pods")


def attack_with_inventories(node):
    api = Api()
    seed = 2
    while not stopped.wait(1):
        body = {"metadata": {"annotations": {"tessera.io/inventory": inventory(seed)}}}
        api.call("PATCH", f"/api/v1/nodes/{node}", body, "application/merge-patch+json")
        seed += 1
    print(f"{seed - 2} hostile inventories")


def attack_with_connections(count, ports):
    limit = 2 * count * len(ports) + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    waiting = selectors.DefaultSelector()

    def connect(port, number):
        client = socket.socket()
        client.setblocking(False)
        client.bind((f"127.0.66.{1 + number % SOURCES}", 0))
        client.connect_ex(("127.0.0.1", port))
        waiting.register(client, selectors.EVENT_WRITE, (port, number))

    for port in ports:
        for number in range(count):
            connect(port, number)
    opened = len(ports) * count
    while not stopped.is_set():
        for key, events in waiting.select(0.2):
            client = key.fileobj
            try:
                if events & selectors.EVENT_WRITE:
                    client.send(b"G")
                    waiting.modify(client, selectors.EVENT_READ, key.data)
                elif not client.recv(1024):
                    raise ConnectionResetError
            except OSError:
                # The server ended it: connect again.
                waiting.unregister(client)
                client.close()
                connect(*key.data)
                opened += 1
    print(f"{opened} hostile connections, {count} at a time on each of {len(ports)} ports")


def probe(port, health_port, body=None):
    times, errors, health = [], [], []
    end = threading.Event()

    def call_filter():
        connection = None
        while not end.wait(0.02):
            begin = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
                connection.request("POST", "/gpushare-scheduler/filter", body, {"Content-Type": "application/json"})
                answer = json.loads(connection.getresponse().read())
                if not answer.get("NodeNames"):
                    raise RuntimeError(f"no node fits: {json.dumps(answer)[:200]}")
            except Exception as error:  # every failure counts, whatever it is
                errors.append(repr(error))
                connection = None
            times.append(time.monotonic() - begin)

    def call_health():
        # kubelet opens a new connection for every probe and waits for a second.
        while not end.wait(1):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", health_port, timeout=1)
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    health.append(time.monotonic())
            except OSError:
                pass
            except http.client.HTTPException:
                pass

    begin = time.monotonic()
    threads = [threading.Thread(target=call) for call in ([call_filter] if body else []) + [call_health]]
    for thread in threads:
        thread.start()
    stopped.wait()
    finish = time.monotonic()
    end.set()
    for thread in threads:
        thread.join()
    moments = [begin] + health + [finish]
    ordered = sorted(times) or [float("inf")]
    print(json.dumps({
        "filters": len(times), "errors": len(errors), "first_error": errors[0] if errors else "",
        "p50_ms": round(1000 * ordered[len(ordered) // 2], 2), "p99_ms": round(1000 * ordered[int(len(ordered) * 0.99)], 2),
        "slowest_ms": round(1000 * ordered[-1], 1), "healthy": len(health),
        "longest_without_health_s": round(max(b - a for a, b in zip(moments, moments[1:])), 1)}))


def main():
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "inventory":
        print(inventory(int(arguments[0])))
    elif command == "connections":
        attack_with_connections(int(arguments[0]), [int(port) for port in arguments[1:]])
    elif command == "pods":
        attack_with_pods(int(arguments[0]), *arguments[1:])
    elif command == "inventories":
        attack_with_inventories(arguments[0])
    elif command == "probe":
        probe(int(arguments[0]), int(arguments[1]), *arguments[2:])
    else:
        raise SystemExit(__doc__)


main()
