@echo off
rem kafka-transactions.sh for Windows: `moldau transactions`.
moldau transactions %*
