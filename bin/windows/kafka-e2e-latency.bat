@echo off
rem kafka-e2e-latency.sh for Windows: `moldau e2e-latency`.
moldau e2e-latency %*
