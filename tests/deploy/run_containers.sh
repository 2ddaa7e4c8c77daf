#!/usr/bin/env bash
# run_containers.sh BUILD [DEBIAN]: deploy/container/Containerfile makes an image of this build's packages, on DEBIAN (a tar of a bare
# system, which mmdebstrap makes where there is none); podman runs daemon and engine of it, by hand, by compose.yaml, and by the
# manifests of deploy/kubernetes. What is kept of it lies in BUILD/container. Exit status 77 where no container can be run.
set -euo pipefail
apart=
[ "$1" != apart ] || { apart=yes && shift; }
build=$(cd "$1" && pwd) debian=${2:-$build/container/debian.tar}
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
export place=$build/container
for program in podman mmdebstrap; do
    command -v $program >/dev/null || { echo "no $program"; exit 77; }
done
unshare --mount --net --pid --ipc --fork true 2>/dev/null || { echo "this process may not make namespaces"; exit 77; }

# Everything of podman's is in one folder of ours. Where it writes all the same is covered in a mount namespace of its own, so that
# nothing of this machine's own podman is seen or changed.
[ "$apart" ] || exec unshare --mount "$0" apart "$build" "$debian"
for covered in /var/lib/containers /var/lib/cni /etc/cni /etc/containers/networks; do
    [ ! -d "$covered" ] || mount -t tmpfs -o mode=755 tmpfs "$covered"
done
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir -p "$place"
cat >"$place/storage.conf" <<END
[storage]
driver = "overlay"
graphroot = "$place/storage"
runroot = "$place/run"
END
# Limits that need no right to raise them.
cat >"$place/containers.conf" <<END
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
[network]
network_backend = "netavark"
network_config_dir = "$place/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
export CONTAINERS_STORAGE_CONF=$place/storage.conf CONTAINERS_CONF=$place/containers.conf
# Health checks on their own time need systemd; here the test asks.
export DISABLE_HC_SYSTEMD=true

# Debian's podman-compose is older than volumes with options.
[ -x "$place/python/bin/podman-compose" ] || {
    python3 -m venv "$place/python"
    "$place/python/bin/pip" install -q --disable-pip-version-check podman-compose==1.6.0 kubernetes-validate==1.37.0
}
export PATH=$place/python/bin:$PATH

said() { echo "  $1"; }
said "$("$place/python/bin/python" "$here/check_manifests.py" "$build/bin/croupierd")"
if [ ! -s "$debian" ]; then
    mmdebstrap --quiet --variant=minbase bookworm "$debian" /etc/apt/sources.list.d/*.sources 2>"$place/debian.log" ||
        { cat "$place/debian.log"; rm -f "$debian"; exit 1; }
fi
cpack --config "$build/CPackConfig.cmake" -B "$place/packages" >"$place/cpack.log" 2>&1 || { cat "$place/cpack.log"; exit 1; }
podman image exists localhost/debian:bookworm || podman import --quiet "$debian" localhost/debian:bookworm >/dev/null
version=$(sed -n 's/^project(croupier VERSION \([0-9.]*\).*/\1/p' "$top/CMakeLists.txt")
# image TAG [OPTION...]
image() {
    podman build --quiet --isolation chroot --network host --volume /etc/apt:/etc/apt:ro --format docker --build-arg DEBIAN=localhost/debian:bookworm \
        --build-context packages="$place/packages" --file "$top/deploy/container/Containerfile" --tag "localhost/$1:$version" "${@:2}" "$top" \
        >"$place/build.log" 2>&1 || { cat "$place/build.log"; exit 1; }
}
image croupier
image croupier-trial --target trial
[ ! -e /dev/shm/croupier ] || { echo "the image's build leaves /dev/shm/croupier on the host, of a user that the host may not have"; exit 1; }
said "the image is built: $(podman image inspect --format '{{.Config.User}}, {{.Size}} bytes' "localhost/croupier:$version")"

# In namespaces of its own, where a /run, a /dev/shm and a bridge of the network disturb nobody, and end with the test.
export here top version
exec unshare --mount --net --pid --ipc --cgroup --fork --kill-child --mount-proc "$here/containers.sh"
