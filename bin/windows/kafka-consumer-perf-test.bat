@echo off
rem kafka-consumer-perf-test.sh for Windows: `moldau consumer-perf-test`.
moldau consumer-perf-test %*
