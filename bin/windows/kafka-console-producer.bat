@echo off
rem kafka-console-producer.sh for Windows: `moldau console-producer`.
moldau console-producer %*
