# shellcheck shell=bash disable=SC2034
# For the scripts that run documented examples: `folder`, and in it the configuration of a daemon of their own.
folder=$(mktemp -d)
cat >"$folder/croupierd.yaml" <<EOF
instance: example-$$
run_dir: $folder
samplers: {count: 1}
control: {endpoint: "ipc://$folder/control.sock"}
metrics: {listen: "off"}
EOF
