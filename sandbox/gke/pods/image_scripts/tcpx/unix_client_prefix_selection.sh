# Simulated stand-in of the plug-in image: where the receive daemon's sockets are.
UNIX_CLIENT_PREFIX=/tmp
if [ -e /run/tcpx/rx_rule_manager ]; then UNIX_CLIENT_PREFIX=/run/tcpx; fi
