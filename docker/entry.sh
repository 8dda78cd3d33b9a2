#!/bin/sh
# A trial's first process: offers the relay's socket as http://127.0.0.1:8080, then goes to work.
if [ -S /relay/socket ]; then
  socat TCP-LISTEN:8080,bind=127.0.0.1,reuseaddr,fork UNIX-CONNECT:/relay/socket &
fi
exec /opt/agent/bin/python -P -m stages.agent "$@" >> /trial/agent.log 2>&1
