#!/usr/bin/env bash
# Called by run_containers.sh in namespaces of its own, which also says what $top, $place and $version are.
set -euo pipefail
mount -t tmpfs tmpfs /run
# crun knows control groups of version 1 and of version 2, and no machine that mixes them.
umount /sys/fs/cgroup/unified 2>/dev/null || true
ip link set lo up
rm -rf "$place/run"
image=localhost/croupier:$version trial=localhost/croupier-trial:$version
sealed=(--read-only --cap-drop all --security-opt no-new-privileges --network none)
volumes=(-v croupier-run:/run/croupier -v croupier-shm:/dev/shm)
export CROUPIER_IMAGE=$image CROUPIER_TRIAL_IMAGE=$trial

said() { echo "  $1"; }
end() {
    podman pod rm --all --force --time 0
    podman rm --all --force --time 0
    podman volume rm --all --force
    find /sys/fs/cgroup -depth -type d -path '*/libpod_parent*' -exec rmdir {} + || true
} >/dev/null 2>&1
trap end EXIT
end
fail() {
    echo "FAILED: $*"
    local container
    for container in $(podman ps --all --quiet); do
        echo "$(podman inspect --format '{{.Name}} {{.State.Status}} {{.State.ExitCode}}' "$container"):"
        podman logs --tail 20 "$container" 2>&1 | cut -c 1-400
    done
    exit 1
}
# until_true SECONDS COMMAND...
until_true() {
    local ends=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$ends" ] || return 1
        sleep 0.1
    done
}
ready() { podman exec "$1" croupier-healthy /readyz; }
verified() { grep -q '"ok":true' "$1" && grep -q '"mismatched":0' "$1" && grep -q '"lost":0' "$1"; }
ended() { [ "$(podman inspect --format '{{.State.Running}} {{.State.ExitCode}}' "$1")" = "false 0" ]; }
# status_from ADDRESS PATH: asked over the network.
status_from() (
    exec 3<>"/dev/tcp/$1/9464"
    printf 'GET %s HTTP/1.0\r\n\r\n' "$2" >&3
    head -n 1 <&3 | cut -d' ' -f 2
)
# As the kubelet probes: from the node, at the pod's address.
probed() { [ "$(status_from "$(podman exec "$1" hostname -i | cut -d' ' -f 1)" "$2")" = 200 ]; }
engine() {
    podman run --rm --name engine --user "$1" "${sealed[@]}" "${volumes[@]}" --entrypoint croupier "$trial" sim --endpoint ipc:///run/croupier/control.sock \
        --vocab 4096 --batch 8 --tp 2 --prompt-max 32 --output-max 16 --json "${@:2}"
}

can_run() { podman run --rm "${sealed[@]}" --entrypoint true "$image" >"$place/first.log" 2>&1; }

by_hand() {
    podman volume create --opt type=tmpfs --opt device=tmpfs --opt o=nr_blocks=256,uid=10001,gid=4200,mode=0711 croupier-run >/dev/null
    podman volume create --opt type=tmpfs --opt device=tmpfs --opt o=nr_blocks=64k,gid=4200,mode=1770 croupier-shm >/dev/null
    podman run -d --name sampling "${sealed[@]}" "${volumes[@]}" "$image" >/dev/null
    until_true 20 ready sampling || fail "the daemon does not become ready"
    podman healthcheck run sampling || fail "the image's health check"
    [ "$(podman exec sampling awk '/^Cap/ && $2 !~ /^0+$/' /proc/1/status)" = "" ] || fail "the daemon has capabilities"
    ! podman exec sampling touch /here 2>/dev/null || fail "the root file system can be written to"
    # It fails, as it should, and so would a pipe from it.
    ! podman run --rm --network none --entrypoint croupier "$image" sim >"$place/no-sim" 2>&1 && grep -q "package croupier-bench" "$place/no-sim" ||
        fail "the image of a host has a simulated engine: $(cat "$place/no-sim")"
    said "$(podman exec sampling id), no capability, a read-only root: ready and healthy"

    engine 10002:4200 --steps 100 --chaos writer --kills 3 >"$place/engine.json" && verified "$place/engine.json" || fail "an engine beside it"
    ! engine 10003:4300 --steps 1 --timeout-s 5 >"$place/stranger" 2>&1 || fail "another group decodes"
    said "an engine in a container of its own decodes, as 10002; one of another group does not"

    # The container that comes next has other processes, other namespaces, the same volumes.
    engine 10002:4200 --steps 1500 --stage-ms 4 >"$place/engine.json" 2>"$place/engine.log" &
    until_true 20 podman exec sampling sh -c 'ls /dev/shm/croupier/*.seg' || fail "no session"
    podman kill --signal USR1 sampling >/dev/null
    [ "$(podman wait sampling)" = 0 ] || fail "SIGUSR1"
    podman run -d --name next "${sealed[@]}" "${volumes[@]}" "$image" >/dev/null
    until_true 20 ready next || fail "the next daemon does not become ready"
    kill -0 $! || fail "the engine was done before its daemon was exchanged"
    wait $! && verified "$place/engine.json" || fail "an engine over a hand-over to another container: $(cat "$place/engine.log")"
    said "an engine decodes over a hand-over to another container: $(grep -o '"verified":[0-9]*' "$place/engine.json") tokens"
    podman stop --time 10 next >/dev/null
    podman run --rm "${volumes[@]}" --user 0 --network none --entrypoint find "$image" /dev/shm -type f | grep . && fail "left in /dev/shm"
    end
}

by_compose() {
    timeout 120 podman-compose -f "$top/deploy/container/compose.yaml" up --no-build -d >"$place/compose.log" 2>&1 || { cat "$place/compose.log"; fail "compose"; }
    local engine
    engine=$(podman ps --all --quiet --filter name=engine)
    [ "$(timeout 60 podman wait "$engine")" = 0 ] || fail "the engine of compose.yaml"
    podman logs "$engine" >"$place/compose.json" 2>&1
    verified "$place/compose.json" || fail "the engine of compose.yaml: $(cat "$place/compose.json")"
    [ "$(status_from 127.0.0.1 /livez)" = 200 ] || fail "/livez at the host's port"
    podman-compose -f "$top/deploy/container/compose.yaml" down >>"$place/compose.log" 2>&1
    said "compose.yaml: $(grep -o '"verified":[0-9]*' "$place/compose.json") tokens, and /livez at the host's port"
    end
}

play() {
    /usr/bin/python3 "$here/podman_pod.py" "$top/deploy/kubernetes/$1" localhost >"$place/pod.yaml" &&
        podman play kube "$place/pod.yaml" >"$place/play.log" 2>&1 || { cat "$place/play.log"; fail "$1"; }
}

by_sidecar() {
    # As the kubelet makes volumes in memory for a pod with an fsGroup.
    mkdir -p /dev/shm/pod/{run,shm}
    mount -t tmpfs -o size=4352m tmpfs /dev/shm/pod/shm
    chown 0:4200 /dev/shm/pod/{run,shm} && chmod 2777 /dev/shm/pod/{run,shm}
    play sidecar/deployment.yaml
    until_true 20 probed engine-croupierd /readyz || fail "the sidecar does not become ready"
    decides() { podman exec engine-croupierd croupier status --json | grep -qE '"columns_decided": ?[1-9][0-9]{2,}'; }
    until_true 20 decides || fail "the sidecar decides nothing: $(podman exec engine-croupierd croupier status)"
    said "the pod of sidecar/: $(podman exec engine-croupierd croupier status | grep -m 1 sim-)"
    end
    umount /dev/shm/pod/shm
    rm -r /dev/shm/pod
}

by_daemonset() {
    systemd-tmpfiles --create "$top/deploy/kubernetes/daemonset/node.tmpfiles.conf" || fail "node.tmpfiles.conf"
    play daemonset/daemonset.yaml
    until_true 20 probed croupierd-croupierd /readyz || fail "the daemon of the DaemonSet does not become ready"
    [ "$(podman inspect --format '{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}}' croupierd-croupierd)" = "5368709120 4000000000" ] ||
        fail "the pod's limits are not those of the manifest"
    play daemonset/engine-pod.yaml
    [ "$(timeout 60 podman wait engine-engine)" = 0 ] || fail "the engine's pod"
    podman logs engine-engine >"$place/pod.json" 2>&1
    verified "$place/pod.json" || fail "the engine's pod"
    local hook
    hook=$(/usr/bin/python3 -c 'import sys, yaml
pod = yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]
print(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])' "$top/deploy/kubernetes/daemonset/daemonset.yaml")
    podman exec croupierd-croupierd sh -c "$hook" || true
    # podman does not clean up behind a container that ends under a command of `exec`, and `wait` would wait for that.
    until_true 20 ended croupierd-croupierd || fail "the preStop hook"
    podman logs croupierd-croupierd 2>&1 | grep -q '"message":"stopped\|handed over' || fail "the preStop hook hands nothing over"
    said "the pods of daemonset/, over the node's directories: $(grep -o '"verified":[0-9]*' "$place/pod.json") tokens; the preStop hook ends the daemon"
    end
}

can_run || { echo "no container runs here: $(tail -n 1 "$place/first.log")"; exit 77; }
by_hand
by_compose
by_sidecar
by_daemonset
echo "containers: fine"
