@echo off
rem kafka-producer-perf-test.sh for Windows: `moldau producer-perf-test`.
moldau producer-perf-test %*
