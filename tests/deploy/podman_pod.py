#!/usr/bin/env python3
"""podman_pod.py MANIFEST REGISTRY: a manifest of deploy/kubernetes as `podman play kube` can run it, on
standard output. What podman does not know is put as near as it can be: a DaemonSet or a Deployment is one
pod; a sidecar is its first container; a volume in memory is a folder of the tmpfs /dev/shm/pod. Left out
are probes by HTTP (podman would need curl in the image) and hooks.
"""

import pathlib
import sys

import yaml
from check_manifests import DEPLOY, Image, containers_of, load, pod_of


def pod_for_podman(path, registry):
    document = load(path)[0]
    pod = pod_of(document)
    pod["containers"] = containers_of(pod)
    pod.pop("initContainers", None)
    pod["restartPolicy"] = "Never"
    for container in pod["containers"]:
        for key in ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle", "restartPolicy"):
            container.pop(key, None)
        container["image"] = f"{registry}/{container['image']}"
        # podman takes no user and no group from the pod.
        container["securityContext"] = {
            **{
                key: pod["securityContext"][key]
                for key in ("runAsUser", "runAsGroup")
                if key in pod["securityContext"]
            },
            **container["securityContext"],
        }
    for volume in pod["volumes"]:
        if "medium" in volume.get("emptyDir", {}):
            del volume["emptyDir"]
            volume["hostPath"] = {"path": f"/dev/shm/pod/{volume['name']}", "type": "Directory"}
    metadata = {"name": document["metadata"]["name"], "labels": document["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def config_map():
    data = {"croupierd.yaml": Image().config_text}
    assert (DEPLOY / "container/kustomization.yaml").exists()
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "croupierd"}, "data": data}


if __name__ == "__main__":
    yaml.safe_dump_all([config_map(), pod_for_podman(pathlib.Path(sys.argv[1]), sys.argv[2])], sys.stdout)
