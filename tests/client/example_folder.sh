# shellcheck shell=bash disable=SC2034
# For the scripts that run documented examples: `folder`, and in it all that a daemon of their own has, whatever lies in this
# machine's /dev/shm/croupier. It is in memory, as the segments are to be.
folder=$(mktemp -d /dev/shm/croupier-example-XXXXXX)
cat >"$folder/croupierd.yaml" <<EOF
instance: example-$$
run_dir: $folder
shm: {dir: "$folder/shm"}
samplers: {count: 1}
control: {endpoint: "ipc://$folder/control.sock"}
metrics: {listen: "off"}
EOF
