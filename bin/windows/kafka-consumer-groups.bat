@echo off
rem kafka-consumer-groups.sh for Windows: `moldau consumer-groups`.
moldau consumer-groups %*
