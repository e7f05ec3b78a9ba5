@echo off
rem kafka-verifiable-consumer.sh for Windows: `moldau verifiable-consumer`.
moldau verifiable-consumer %*
