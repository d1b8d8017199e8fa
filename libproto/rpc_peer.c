/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc_peer.c - the name of the other side, for logs
 */
#include "rpc_impl.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>

void rf_peer_name(const struct sockaddr_storage *address,
		  char out[RF_PEER_NAME_SIZE])
{
	const struct sockaddr_in6 *in6 = (const void *)address;
	const struct sockaddr_in *in = (const void *)address;
	char host[INET6_ADDRSTRLEN] = "";

	switch (address->ss_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(out, RF_PEER_NAME_SIZE, "%s:%u", host,
			 ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(out, RF_PEER_NAME_SIZE, "[%s]:%u", host,
			 ntohs(in6->sin6_port));
		break;
	default:
		snprintf(out, RF_PEER_NAME_SIZE, "?");
	}
}
