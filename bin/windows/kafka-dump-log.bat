@echo off
rem kafka-dump-log.sh for Windows: `moldau dump-log`.
moldau dump-log %*
