@echo off
rem kafka-broker-api-versions.sh for Windows: `moldau broker-api-versions`.
moldau broker-api-versions %*
