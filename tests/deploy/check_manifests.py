#!/usr/bin/env python3
"""deploy/kubernetes, deploy/container and deploy/prometheus agree with each other and with the daemon's
configuration: who runs as whom, what is mounted where, which port, how much memory. With the package
kubernetes-validate, Kubernetes' own schemas are asked too.

    check_manifests.py CROUPIERD        checks
    check_manifests.py --write-alerts   writes the PrometheusRule in deploy/kubernetes/ from the rules
"""

import pathlib
import re
import signal
import subprocess
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
RULE = KUBERNETES / "monitoring/prometheusrule.yaml"
VARIANTS = ("daemonset", "sidecar")
MIB = 1 << 20
UNITS = {"Mi": MIB, "Gi": MIB << 10, "MiB": MIB, "GiB": MIB << 10, "m": MIB, "g": MIB << 10}
# What the daemon takes beside segments and derived states.
OWN_BYTES = 256 * MIB
# sessions.drain_timeout_ms where a configuration leaves it out, and what the supervisor adds to it.
DEFAULT_DRAIN_MS = 10000
END_AFTER_DRAIN_S = 10


def load(path):
    return list(yaml.safe_load_all(path.read_text()))


def size(text):
    number, unit = re.fullmatch(r"(\d+)(\w+)", str(text)).groups()
    return int(number) * UNITS[unit]


def alerts():
    text = (DEPLOY / "prometheus/rules.yaml").read_text()
    groups = text[text.index("groups:") :]
    return (
        "# Written from deploy/prometheus/rules.yaml by tests/deploy/check_manifests.py --write-alerts.\n"
        "apiVersion: monitoring.coreos.com/v1\n"
        "kind: PrometheusRule\n"
        "metadata:\n  name: croupier\n  labels: {app.kubernetes.io/name: croupier}\n"
        "spec:\n" + "".join(f"  {line}" if line.strip() else line for line in groups.splitlines(True))
    )


def gather(folder, reached):
    """The documents that a kustomization applies, and which files they lie in."""
    kustomization = load(folder / "kustomization.yaml")[0]
    reached.add(folder / "kustomization.yaml")
    documents = []
    for name in kustomization.get("resources", []) + kustomization.get("components", []):
        path = (folder / name).resolve()
        assert path.exists(), f"{folder}: no {name}"
        if path.is_dir():
            documents += gather(path, reached)
        else:
            reached.add(path)
            documents += load(path)
    for generated in kustomization.get("configMapGenerator", []):
        data = {name: (folder / name).read_text() for name in generated["files"]}
        documents.append({"kind": "ConfigMap", "metadata": {"name": generated["name"]}, "data": data})
    for patch in kustomization.get("patches", []):
        reached.add(folder / patch["path"])
    return documents


def of_kind(documents, *kinds):
    return [document for document in documents if document["kind"] in kinds]


def pod_of(document):
    return document["spec"] if document["kind"] == "Pod" else document["spec"]["template"]["spec"]


def containers_of(pod):
    return pod.get("initContainers", []) + pod["containers"]


class Image:
    """What the Containerfile says of the image."""

    def __init__(self):
        text = (DEPLOY / "container/Containerfile").read_text()
        self.uid, self.gid = map(int, re.search(r"^USER (\d+):(\d+)$", text, re.M).groups())
        self.port = int(re.search(r"^EXPOSE (\d+)$", text, re.M)[1])
        self.config_path = re.search(r'^ENTRYPOINT \["croupierd", "--config", "(.+)"\]$', text, re.M)[1]
        self.version = re.search(r"project\(croupier VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.config_text = (DEPLOY / "container/croupierd.yaml").read_text()
        self.config = yaml.safe_load(self.config_text)
        assert str(self.gid) == self.config["shm"]["group"], "the image's group is not shm.group"
        assert self.config["metrics"]["listen"] == f"0.0.0.0:{self.port}", (
            "the image's port is not metrics.listen"
        )

    def total_bytes(self):
        return size(self.config["sessions"]["max_total_bytes"])

    def bytes_needed(self, cores):
        samplers = max(cores - 1, 1)
        return self.total_bytes() + samplers * size(self.config["samplers"]["max_state_bytes"]) + OWN_BYTES


def check_no_privilege(name, pod):
    for key in ("hostIPC", "hostPID", "hostNetwork"):
        assert key not in pod, f"{name} has {key}"
    assert pod["automountServiceAccountToken"] is False, f"{name} has a token of the cluster"
    assert pod["securityContext"]["runAsNonRoot"] is True, name
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
    for container in containers_of(pod):
        context = {**pod["securityContext"], **container["securityContext"]}
        place = f"{name}, {container['name']}"
        assert context["runAsUser"] > 0, f"{place} runs as root"
        assert context["allowPrivilegeEscalation"] is False, place
        assert context["readOnlyRootFilesystem"] is True, place
        assert context["capabilities"] == {"drop": ["ALL"]}, place
        assert {"requests", "limits"} <= container["resources"].keys(), f"{place} has no resources"


def check_mounts(name, pod):
    volumes = {volume["name"] for volume in pod["volumes"]}
    mounted = set()
    for container in containers_of(pod):
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        assert mounts <= volumes, f"{name}, {container['name']}: no volume {mounts - volumes}"
        mounted |= mounts
        paths = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/run/croupier" in paths, f"{name}, {container['name']}: the sockets are not mounted"
        assert paths & {"/dev/shm", "/dev/shm/croupier"}, (
            f"{name}, {container['name']}: no segments are mounted"
        )
    assert mounted == volumes, f"{name}: {volumes - mounted} is mounted nowhere"


def check_daemon(name, pod, image):
    daemon = next(container for container in containers_of(pod) if container["name"] == "croupierd")
    context = {**pod["securityContext"], **daemon["securityContext"]}
    assert (context["runAsUser"], context["runAsGroup"]) == (image.uid, image.gid), name
    ports = {port["name"]: port["containerPort"] for port in daemon["ports"]}
    assert ports == {"metrics": image.port}, f"{name}: {ports}"
    for probe, path in (
        ("startupProbe", "/readyz"),
        ("readinessProbe", "/readyz"),
        ("livenessProbe", "/livez"),
    ):
        assert daemon[probe]["httpGet"] == {"path": path, "port": "metrics"}, f"{name}: {probe}"
    config = {mount["name"]: mount["mountPath"] for mount in daemon["volumeMounts"]}["config"]
    assert config == str(pathlib.PurePosixPath(image.config_path).parent), (
        f"{name}: the configuration is at {config}"
    )
    resources = daemon["resources"]
    assert resources["requests"] == resources["limits"], f"{name}: not of the quality Guaranteed"
    needed = image.bytes_needed(int(resources["limits"]["cpu"]))
    assert size(resources["limits"]["memory"]) >= needed, f"{name}: it may need {needed // MIB} MiB"
    for volume in pod["volumes"]:
        if volume["name"] == "shm" and "emptyDir" in volume:
            assert volume["emptyDir"]["medium"] == "Memory", f"{name}: segments on a disk"
            assert size(volume["emptyDir"]["sizeLimit"]) > image.total_bytes(), (
                f"{name}: /dev/shm is too small"
            )
            assert pod["securityContext"]["fsGroup"] == image.gid, name
    return {
        c["name"]: {**pod["securityContext"], **c["securityContext"]}["runAsUser"] for c in containers_of(pod)
    }


def check_images(name, pod, image):
    for container in containers_of(pod):
        # The simulated engine is in an image of its own.
        of = "croupier-trial" if "sim" in container.get("command", []) else "croupier"
        assert container["image"] == f"{of}:{image.version}", f"{name}: {container['image']}"


def check_network(documents, image, job):
    (service,) = of_kind(documents, "Service")
    (policy,) = of_kind(documents, "NetworkPolicy")
    (monitor,) = of_kind(documents, "ServiceMonitor")
    (workload,) = of_kind(documents, "DaemonSet", "Deployment")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for selector in (
        service["spec"]["selector"],
        policy["spec"]["podSelector"]["matchLabels"],
        workload["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items(), f"{selector} selects none of {labels}"
    (port,) = service["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (image.port, "metrics"), port
    (allowed,) = policy["spec"]["ingress"]
    assert allowed["ports"] == [{"protocol": "TCP", "port": image.port}], allowed
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == port["name"], endpoint
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == job, "the alerts ask for another job"
    (config,) = of_kind(documents, "ConfigMap")
    (volume,) = (v for v in pod_of(workload)["volumes"] if "configMap" in v)
    assert volume["configMap"]["name"] == config["metadata"]["name"], volume
    assert config["data"] == {pathlib.PurePosixPath(image.config_path).name: image.config_text}


def end_by_hook(hook, on_handover, stubs=""):
    """How a process that does this at SIGUSR1, in the daemon's place, ends by the hook."""
    program = (
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "print(flush=True)\n"
        "signal.sigwait({signal.SIGUSR1})\n" + on_handover
    )
    daemon = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    daemon.stdout.readline()
    # One that has ended is this process's to reap; `pidof` does not list it.
    pidof = f"pidof() {{ grep -qs '^State:.[^Z]' /proc/{daemon.pid}/status && echo {daemon.pid}; }}\n"
    try:
        subprocess.run(["sh", "-c", pidof + stubs + hook], stdout=subprocess.DEVNULL, check=True)
        return daemon.wait(timeout=10)
    finally:
        daemon.kill()
        daemon.wait()


def check_handover(image):
    """An update leaves the sessions to the next pod, also where the daemon does not hand over."""
    pod = pod_of(load(KUBERNETES / "daemonset/daemonset.yaml")[0])
    (container,) = pod["containers"]
    assert pod["shareProcessNamespace"] is True, "the daemon is process 1, which no SIGKILL from the pod ends"
    shell, flag, hook = container["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, flag) == ("sh", "-c"), shell
    patience = int(re.search(r"seq (\d+)\)", hook)[1])
    drain = image.config["sessions"].get("drain_timeout_ms", DEFAULT_DRAIN_MS) / 1000
    assert drain + END_AFTER_DRAIN_S < patience + 1 < pod["terminationGracePeriodSeconds"], patience
    handed_over = end_by_hook(hook, "")
    assert handed_over == 0, f"a daemon that hands over ends with {handed_over}"
    refused = end_by_hook(hook, "signal.pause()", "sleep() { :; }\n")
    assert refused == -signal.SIGKILL, f"a daemon that serves on ends with {refused}"


def check_node(image):
    """The DaemonSet's directories on the node, and who makes them."""
    pod = pod_of(load(KUBERNETES / "daemonset/daemonset.yaml")[0])
    paths = {v["hostPath"]["path"] for v in pod["volumes"] if "hostPath" in v}
    engine = load(KUBERNETES / "daemonset/engine-pod.yaml")[0]
    assert paths == {v["hostPath"]["path"] for v in pod_of(engine)["volumes"] if "hostPath" in v}
    made = re.findall(
        r"^d (\S+) 0711 (\d+) (\d+) -$", (KUBERNETES / "daemonset/node.tmpfiles.conf").read_text(), re.M
    )
    assert {(path, str(image.uid), str(image.gid)) for path in paths} == set(made), made
    patch = load(KUBERNETES / "prepare-node/daemonset.yaml")[0]
    (prepare,) = pod_of(patch)["initContainers"]
    assert prepare["command"][:8] == [
        "install",
        "-d",
        "-o",
        str(image.uid),
        "-g",
        str(image.gid),
        "-m",
        "0711",
    ]
    assert set(prepare["command"][8:]) == paths == {m["mountPath"] for m in prepare["volumeMounts"]}
    assert {v["hostPath"]["path"] for v in pod_of(patch)["volumes"]} == paths
    check_images("prepare-node", {"containers": [prepare]}, image)
    return engine


def check_two_hosts(documents):
    """The example for an engine on two hosts: its plugin starts the daemon, so no image of ours is in it."""
    names, clients = of_kind(documents, "Service")
    (policy,) = of_kind(documents, "NetworkPolicy")
    (workload,) = of_kind(documents, "StatefulSet")
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for selector in (
        names["spec"]["selector"],
        policy["spec"]["podSelector"]["matchLabels"],
        workload["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items(), f"{selector} selects none of {labels}"
    name, pod = workload["metadata"]["name"], pod_of(workload)
    assert workload["spec"]["serviceName"] == names["metadata"]["name"]
    assert names["spec"]["clusterIP"] == "None"
    assert "ports" not in names["spec"]
    first = {"statefulset.kubernetes.io/pod-name": f"{name}-0"}
    assert clients["spec"]["selector"] == {**names["spec"]["selector"], **first}
    check_no_privilege(name, pod)
    (container,) = containers_of(pod)
    (port,) = container["ports"]
    assert f":{port['containerPort']}/health" in container["readinessProbe"]["exec"]["command"][-1]
    assert [each["port"] for each in clients["spec"]["ports"]] == [port["containerPort"]]
    command = container["command"][-1]
    assert f"--nnodes {workload['spec']['replicas']} " in command, command
    assert f"--master-addr {name}-0.{names['metadata']['name']} " in command, command
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}, mounts
    assert mounts["shm"] == "/dev/shm"


def check_page(image):
    named = re.findall(r"localhost/croupier:(\S+)", (ROOT / "docs/operations.md").read_text())
    assert named, "docs/operations.md names no image"
    assert set(named) == {image.version}, f"docs/operations.md names images of {', '.join(named)}"


def check_compose(image):
    compose = load(DEPLOY / "container/compose.yaml")[0]
    users = set()
    for name, service in compose["services"].items():
        uid, gid = map(int, service["user"].split(":"))
        users.add(uid)
        assert uid > 0, f"{name} runs as root"
        assert gid == image.gid, f"{name}: {service['user']}"
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["volumes"] == ["croupier-run:/run/croupier", "croupier-shm:/dev/shm"], name
        assert service["image"].endswith(f":{image.version}}}"), service["image"]
    daemon = compose["services"]["croupierd"]
    assert daemon["user"] == f"{image.uid}:{image.gid}", daemon["user"]
    assert len(users) == 2, f"daemon and engine are one user: {users}"
    assert daemon["ports"] == [f"127.0.0.1:{image.port}:{image.port}"], "the metrics are for this host alone"
    assert size(daemon["mem_limit"]) >= image.bytes_needed(daemon["cpus"]), "too little memory"
    options = {name: volume["driver_opts"]["o"] for name, volume in compose["volumes"].items()}
    assert f"uid={image.uid},gid={image.gid}," in options["croupier-run"], options
    blocks, gid = re.match(r"nr_blocks=(\d+)k,gid=(\d+),", options["croupier-shm"]).groups()
    assert int(blocks) * 1024 * 4096 > image.total_bytes(), options
    assert int(gid) == image.gid, options


def check_schemas(documents):
    """Of what Kubernetes itself defines."""
    try:
        import kubernetes_validate
    except ImportError:
        return "not asked here"
    count = 0
    for document in documents:
        if document["apiVersion"].startswith("monitoring.coreos.com"):
            continue
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
        count += 1
    return f"{count} documents are sound"


def main(croupierd):
    image = Image()
    path = DEPLOY / "container/croupierd.yaml"
    subprocess.run([croupierd, "--config", path, "--check-config"], check=True, stdout=subprocess.DEVNULL)
    assert RULE.read_text() == alerts(), f"{RULE} is not of the rules: {__file__} --write-alerts"
    assert load(RULE)[0]["spec"] == load(DEPLOY / "prometheus/rules.yaml")[0]
    (job,) = (c["job_name"] for c in load(DEPLOY / "prometheus/prometheus.yaml")[0]["scrape_configs"])
    reached = {KUBERNETES / "daemonset/engine-pod.yaml"}
    monitoring = gather(KUBERNETES / "monitoring", reached)
    gather(KUBERNETES / "prepare-node", reached)
    engine = check_node(image)
    check_handover(image)
    two_hosts = gather(KUBERNETES / "two-hosts", reached)
    check_two_hosts(two_hosts)
    plain = [engine, *two_hosts]
    for variant in VARIANTS:
        documents = gather(KUBERNETES / variant, reached) + monitoring
        check_network(documents, image, job)
        (workload,) = of_kind(documents, "DaemonSet", "Deployment")
        users = check_daemon(variant, pod_of(workload), image)
        assert len(users) == len(set(users.values())), f"{variant}: {users}"
        plain += [document for document in documents if "apiVersion" in document]
    for document in [engine, *of_kind(plain, "DaemonSet", "Deployment")]:
        name, pod = document["metadata"]["name"], pod_of(document)
        check_no_privilege(name, pod)
        check_mounts(name, pod)
        check_images(name, pod, image)
    unused = set(KUBERNETES.rglob("*.yaml")) - reached
    assert not unused, f"applied by nothing: {unused}"
    check_compose(image)
    check_page(image)
    print(f"the manifests agree; Kubernetes' schemas: {check_schemas(plain)}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write-alerts"]:
        RULE.write_text(alerts())
    else:
        main(sys.argv[1])
