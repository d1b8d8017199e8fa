/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_doctor.c - what only libibverbs knows of a device: MTU, limits, level
 */
#include "doctor_impl.h"
#include "verbs_impl.h"

#include <stdio.h>

static uint32_t mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ?
		       128u << (unsigned int)mtu : 0;
}

static void ask(struct verbs_fabric *fabric, struct doctor_device *device)
{
	const struct ibv_device_attr *attr = &fabric->attr;

	device->level = fabric->base.level;
	device->max_mr_size = attr->max_mr_size;
	device->max_qp = attr->max_qp;
	device->max_cqe = attr->max_cqe;
	device->max_mr = attr->max_mr;
	device->max_mw = attr->max_mw;
	device->max_reads = attr->max_qp_rd_atom;
	device->is_siw = fabric->is_siw;
	if (device->is_siw && !device->driver[0])
		strcpy(device->driver, "siw");
	for (unsigned int i = 0; i < device->port_count; i++) {
		struct doctor_port *port = &device->ports[i];
		struct ibv_port_attr answer;

		if (ibv_query_port(fabric->context, (uint8_t)port->number,
				   &answer))
			continue;
		port->active_mtu = mtu_bytes(answer.active_mtu);
		port->max_mtu = mtu_bytes(answer.max_mtu);
	}
}

void doctor_ask_verbs(struct doctor_facts *facts)
{
	for (unsigned int i = 0; i < facts->device_count; i++) {
		struct doctor_device *device = &facts->devices[i];
		struct rf_fabric *fabric;
		char uri[DOCTOR_WORD + 16];

		/* The library would complain on stderr, less clearly. */
		if (!device->node[0] || device->node_err)
			continue;
		snprintf(uri, sizeof(uri), "verbs://%s", device->name);
		device->open_err = rf_fabric_open(uri, &fabric);
		if (device->open_err)
			continue;
		device->is_open = true;
		ask(verbs_fabric_of(fabric), device);
		rf_fabric_close(fabric);
	}
}
