# Finds the `moldau` command for the scripts beside it: the one that `make` set up here, or the
# one on the path.
exec_moldau() {
  if [ -x "$here/../.venv/bin/moldau" ]; then
    exec "$here/../.venv/bin/moldau" "$@"
  fi
  if command -v moldau >/dev/null 2>&1; then
    exec moldau "$@"
  fi
  echo "moldau is not installed: run \`make run\` once, or \`pip install .\`" >&2
  exit 1
}
