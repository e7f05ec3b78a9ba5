@echo off
rem kafka-verifiable-producer.sh for Windows: `moldau verifiable-producer`.
moldau verifiable-producer %*
