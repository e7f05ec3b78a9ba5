# Finds the `moldau` command for the scripts beside it: the one that `moldau init` linked here, the
# one that `make` set up, or the one on the path.
exec_moldau() {
  for moldau in "$here/moldau" "$here/../.venv/bin/moldau"; do
    if [ -x "$moldau" ]; then
      exec "$moldau" "$@"
    fi
  done
  if command -v moldau >/dev/null 2>&1; then
    exec moldau "$@"
  fi
  echo "moldau is not installed: run \`make run\` once, or \`pip install .\`" >&2
  exit 1
}
