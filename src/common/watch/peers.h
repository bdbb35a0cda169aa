#pragma once

// How watchers talk to each other while the main threads may be stuck in MPI: TCP, one request and one reply per
// connection, bounded, with the job's token.

#include "common/watch/peer_address.h"
#include "common/watch/peer_client.h"
#include "common/watch/peer_messages.h"
#include "common/watch/peer_server.h"
#include "common/watch/peer_wire.h"
