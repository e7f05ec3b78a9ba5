#!/bin/sh
# ZooKeeper's name for `moldau zookeeper-server-start`, -stop and -status.
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
. "$here/moldau-command.sh"
what=$1
[ $# -gt 0 ] && shift
case "$what" in
  start) exec_moldau zookeeper-server-start -daemon "$@" ;;
  start-foreground) exec_moldau zookeeper-server-start "$@" ;;
  stop) exec_moldau zookeeper-server-stop "$@" ;;
  status) exec_moldau zookeeper-server-status "$@" ;;
  *) echo "usage: zkServer.sh {start|start-foreground|stop|status} [zoo.cfg]" >&2; exit 1 ;;
esac
