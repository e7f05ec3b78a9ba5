#!/bin/sh
# Starts or stops the broker of this machine in the background.
# KAFKA_HOME is the folder with bin/ and config/; without it, the one this script was found in.

usage() {
  echo "Usage:"
  echo "$0 --start|--kill"
  echo ""
  echo "--start or -b:  Start kafka"
  echo "--kill or -k:   Stop kafka"
}

flag=""
while [ $# -gt 0 ]; do
  case $1 in
    --start|-b) flag=start ;;
    --kill|-k) flag=kill ;;
    --help|-h) usage; exit 0 ;;
    *)
      echo "Unknown option: $1"
      echo ""
      usage
      exit 1
      ;;
  esac
  shift
done
if [ -z "$flag" ]; then
  usage
  exit 1
fi

home=${KAFKA_HOME:-$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd)}
result=0 # 99 for failure
if [ "$flag" = start ]; then
  echo "Starting kafka service..."
  "$home/bin/kafka-server-start.sh" -daemon "${KAFKA_CONFIG:-$home/config/server.properties}" || result=99
else
  echo "Stopping kafka service..."
  "$home/bin/kafka-server-stop.sh" || result=99
fi
exit $result
