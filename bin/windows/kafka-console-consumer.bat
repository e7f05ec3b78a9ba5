@echo off
rem kafka-console-consumer.sh for Windows: `moldau console-consumer`.
moldau console-consumer %*
