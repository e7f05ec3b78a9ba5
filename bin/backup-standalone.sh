#!/bin/sh
# `moldau backup` and `moldau restore` under the names and with the flags of backup-standalone.sh and
# restore-standalone.sh. A flag may also be a variable: --target-dir is TARGET_DIR, --snapshot is
# SNAPSHOT=true. What stands on the command line wins.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
tool=$(basename -- "$0" -standalone.sh)
. "$here/moldau-command.sh"

flags="bootstrap-server topics topics-regex command-config"
case $tool in
  backup) flags="$flags target-dir max-segment-size" ;;
  restore) flags="$flags source-dir batch-size offset-file" ;;
esac
words=" $* "
for flag in $flags; do
  variable=$(echo "$flag" | tr a-z- A-Z_)
  eval "value=\${$variable:-}"
  case $words in
    *" --$flag "* | *" --$flag="*) value= ;;
    *" --target-dir"*) if [ "$flag" = source-dir ]; then value=; fi ;;
  esac
  if [ -n "$value" ]; then set -- "$@" "--$flag" "$value"; fi
done
if [ "${SNAPSHOT:-}" = true ] && [ "$tool" = backup ]; then
  case $words in
    *" --snapshot "*) ;;
    *) set -- "$@" --snapshot ;;
  esac
fi
exec_moldau "$tool" "$@"
