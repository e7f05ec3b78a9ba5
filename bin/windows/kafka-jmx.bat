@echo off
rem kafka-jmx.sh for Windows: `moldau jmx`.
moldau jmx %*
