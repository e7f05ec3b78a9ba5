@echo off
rem kafka-client-metrics.sh for Windows: `moldau client-metrics`.
moldau client-metrics %*
