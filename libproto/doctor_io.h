/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_io.h - what the doctor asks of the kernel, the network and a server
 */
#ifndef RF_DOCTOR_IO_H
#define RF_DOCTOR_IO_H

#include "doctor_impl.h"

/* A netlink socket on which recv() gives up after wait_ms; or negative errno. */
int doctor_netlink_open(int protocol, unsigned int wait_ms);

/*
 * A row of netlink attributes, of rtnetlink and of the others: they are alike
 * (struct nlattr, struct rtattr).
 */
struct doctor_attrs {
	const uint8_t *at;
	size_t left;
};
/* The next one; false: no more, or malformed. */
bool doctor_next_attr(struct doctor_attrs *attrs, unsigned int *type,
		      struct doctor_attrs *value);

/* doctor_route.c: address, route, device.  [blocks] */
void doctor_find_path(const struct doctor_question *question,
		      struct doctor_path *path, bool may_ask_rdma_cm);

/*
 * doctor_ping.c: do ICMP echoes of mtu bytes arrive, and which do.  Needs root
 * or net.ipv4.ping_group_range; else DOCTOR_PING_NOT_TRIED.  [blocks, seconds]
 */
void doctor_ping(struct doctor_path *path, uint32_t mtu);

/* doctor_probe.c: connect, say HELLO, and BYE.  [blocks, timeo_ms of question] */
void doctor_probe(const struct doctor_question *question,
		  const struct rf_key *key, struct doctor_path *path,
		  const char *scheme, struct doctor_answer *answer);

/* doctor_nldev.c: has_resources and what is used, of devices and programs. */
void doctor_read_resources(struct doctor_facts *facts);

/* doctor_tcp.c: TCP connections of our programs. */
void doctor_read_connections(const char *root, struct doctor_facts *facts);

#endif /* RF_DOCTOR_IO_H */
