# For the other scripts: a virtual environment with the wheel of ./dev wheel, in $place. `venv_python` is its Python.
python=${PYTHON:-python3} venv_python=$place/venv/bin/python
"$python" -m venv --system-site-packages "$place/venv"
"$venv_python" -m pip install -q --disable-pip-version-check --no-index --no-deps build/wheels/croupier-*.whl
# torch is the host's, also where python3 is itself of a virtual environment.
"$venv_python" -c 'import torch' 2>/dev/null ||
    "$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' \
        >"$(echo "$place"/venv/lib/python3*/site-packages)/torch.pth"
