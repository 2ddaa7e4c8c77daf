#!/usr/bin/env bash
# boot_root.sh LOWER FOLDER PACKAGES: the root system LOWER, unchanged, with what is installed on top of it kept in memory; the
# packages are installed as an operator does it; then systemd boots there in namespaces of its own.
# To be run in a mount namespace of its own (unshare --mount).
set -euo pipefail
lower=$1 folder=$2 packages=$3
mount --make-rprivate /
mount -t tmpfs tmpfs "$folder"
mkdir "$folder"/{above,work,root}
mount -t overlay overlay -o "lowerdir=$lower,upperdir=$folder/above,workdir=$folder/work" "$folder/root"
root=$folder/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cp "$packages"/*.deb "$root/tmp"
# The names of all files, so that what a purge leaves can be told: run_packages.sh lists them again.
cat >"$root/root/list-files" <<'END'
#!/bin/sh
find /etc /opt /usr /var -xdev ! -path '/var/lib/dpkg/*' ! -path '/var/lib/apt/lists/*' ! -path '/var/log/*' ! -path '/var/cache/*' | sort
END
chmod +x "$root/root/list-files"
# What a boot makes for the packages that are there already is not ours.
chroot "$root" systemd-tmpfiles --boot --create --prefix=/var >/dev/null 2>&1 || true
chroot "$root" /root/list-files >"$root/root/files-before"
install() {
    DEBIAN_FRONTEND=noninteractive chroot "$root" sh -c 'exec apt-get install -y --no-install-recommends /tmp/*.deb' \
        >"$root/tmp/apt.log" 2>&1
}
# A bare system has no list of the packages that ours need.
install || { chroot "$root" apt-get update -qq && install; } || { cat "$root/tmp/apt.log"; exit 1; }
export root
exec unshare --mount --pid --ipc --uts --net --cgroup --fork --kill-child bash -c '
    set -e
    umount -l "$root/proc" && mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    # Nothing of the system below starts, whatever it has installed.
    rm -rf "$root"/etc/systemd/system/*.wants "$root/etc/systemd/system/default.target" "$root/etc/fstab"
    hostname croupier-test
    cd "$root" && mkdir -p old && pivot_root . old && umount -l /old
    # As nspawn does it: systemd mounts the credentials of a unit elsewhere, and counts on propagation.
    mount --make-rshared /
    exec env -i container=croupier-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --unit=basic.target --log-target=null --show-status=0
'
