/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_sys.c - what is read of trees of /sys, /proc and /dev as drivers make
 * them
 */
#include "tests/common/doctor_root.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(doctor_sys, .init = doctor_root_init, .fini = doctor_root_fini,
	  .timeout = 60);

static const struct doctor_device *only_device(void)
{
	cr_assert_eq(doctor_known.device_count, 1);
	cr_assert_eq(doctor_known.devices[0].port_count, 1);
	return &doctor_known.devices[0];
}

Test(doctor_sys, an_empty_machine_has_nothing)
{
	doctor_examine();
	cr_expect_eq(doctor_known.device_count, 0);
	cr_expect_eq(doctor_known.netdev_count, 0);
	cr_expect_not(doctor_known.host.has_core);
	cr_expect_not(doctor_known.host.rdma_cm.is_there);
	cr_expect_eq(doctor_known.host.memlock, UINT64_MAX);
}

Test(doctor_sys, rxe_is_read)
{
	const struct doctor_device *device;
	const struct doctor_port *port;

	doctor_put_host();
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	doctor_put_rxe("rxe0", "eth0");
	doctor_examine();
	device = only_device();
	port = &device->ports[0];
	cr_expect(device->is_rxe && !device->is_iwarp);
	cr_expect_str_eq(device->driver, "rdma_rxe");
	cr_expect_str_eq(device->node, "uverbs_rxe0");
	cr_expect_eq(device->node_err, 0);
	cr_expect_eq(device->link_speed, 0, "a device without PCI");
	cr_expect_eq(port->state, 4);
	cr_expect_eq(port->link, DOCTOR_LINK_ROCE);
	cr_expect_str_eq(port->netdev, "eth0");
	cr_expect_eq(port->gid_count, 2, "zeroes are no GID");
	cr_expect_eq(port->gids[1].index, 1);
	cr_expect_eq(port->gids[1].raw[15], 0x0f);
	cr_expect_eq(port->gids[1].raw[10], 0xff);
	cr_expect_eq(port->counter_count, 12, "lifespan is no counter");
}

Test(doctor_sys, siw_is_found_on_its_netdev_by_the_mac)
{
	const struct doctor_device *device;

	doctor_put_host();
	doctor_put_netdev("lo", "65536", "00:00:00:00:00:00");
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	doctor_put_netdev("eth1", "9000", "52:54:00:12:34:57");
	doctor_put_siw("siw0", "52:54:00:12:34:57");
	doctor_examine();
	device = only_device();
	cr_expect(device->is_iwarp && !device->is_rxe);
	cr_expect_eq(device->ports[0].link, DOCTOR_LINK_IWARP);
	cr_expect_str_eq(device->ports[0].netdev, "eth1");
	cr_expect_eq(device->ports[0].counter_count, 0);
}

Test(doctor_sys, mlx5_is_read_with_pci_and_caches)
{
	const struct doctor_device *device;

	doctor_put_host();
	doctor_put_netdev("ens1", "9000", "b8:59:9f:00:00:01");
	doctor_put_mlx5("mlx5_0", "ens1");
	doctor_examine();
	device = only_device();
	cr_expect_str_eq(device->driver, "mlx5_core");
	cr_expect_str_eq(device->firmware, "22.31.1014");
	cr_expect_eq(device->link_speed, 160);
	cr_expect_eq(device->link_width, 16);
	cr_expect_eq(device->ports[0].gid_count, 4);
	cr_expect_str_eq(device->ports[0].gids[3].type, "RoCE v2");
	cr_expect_eq(device->ports[0].counter_count, 13, "both folders");
	cr_assert_eq(device->setting_count, 2);
	cr_expect_str_eq(device->settings[0].name, "mlx5_ib odp_mode");
	cr_expect_str_eq(device->settings[1].value, "size 64, missed 5");
}

Test(doctor_sys, infiniband_needs_no_netdev)
{
	const struct doctor_device *device;

	doctor_put_host();
	doctor_put_ib("mlx5_1");
	doctor_examine();
	device = only_device();
	cr_expect_eq(device->ports[0].link, DOCTOR_LINK_IB);
	cr_expect_str_empty(device->ports[0].netdev);
	cr_expect_str_eq(device->ports[0].rate, "200 Gb/sec (4X HDR)");
}

Test(doctor_sys, garbage_where_numbers_should_be_is_no_number)
{
	doctor_put_host();
	doctor_put_netdev("eth0", "many", "a mac");
	doctor_put_rxe("rxe0", "eth0");
	doctor_put("no gid at all", "sys/class/infiniband/rxe0/ports/1/gids/0");
	doctor_put("", "sys/class/infiniband/rxe0/ports/1/state");
	doctor_put("x", "sys/class/infiniband/rxe0/ports/1/hw_counters/"
		   "send_err");
	doctor_examine();
	cr_expect_eq(doctor_known.netdevs[0].mtu, 0);
	cr_expect_eq(only_device()->ports[0].gid_count, 1);
	cr_expect_eq(only_device()->ports[0].state, 0);
	cr_expect_eq(only_device()->ports[0].counter_count, 11);
}

Test(doctor_sys, more_devices_than_there_is_room_for_are_counted)
{
	char name[16];

	doctor_put_host();
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	for (int i = 0; i < DOCTOR_DEVICES_MAX + 3; i++) {
		snprintf(name, sizeof(name), "rxe%d", i);
		doctor_put("1: CA", "sys/class/infiniband/%s/node_type", name);
	}
	doctor_examine();
	cr_expect_eq(doctor_known.device_count, DOCTOR_DEVICES_MAX);
	cr_expect_eq(doctor_known.devices_left_out, 3);
	cr_expect_not_null(doctor_finding("devices-left-out"));
}

Test(doctor_sys, limits_of_memory_are_read)
{
	doctor_put_host();
	doctor_put("Max locked memory         65536                65536"
		   "                bytes", "proc/self/limits");
	doctor_put("CapEff:\t0000000000004000", "proc/self/status");
	doctor_put("HugePages_Total:      12\nHugePages_Free:        5\n"
		   "Hugepagesize:       2048 kB", "proc/meminfo");
	doctor_examine();
	cr_expect_eq(doctor_known.host.memlock, 65536);
	cr_expect(doctor_known.host.has_ipc_lock);
	cr_expect_eq(doctor_known.host.huge_total, 12);
	cr_expect_eq(doctor_known.host.huge_free, 5);
	cr_expect_eq(doctor_known.host.huge_size, 2 << 20);
}

Test(doctor_sys, counters_of_tcp_are_found_by_name)
{
	struct doctor_tcp_counters tcp;

	doctor_put_host();
	doctor_read_tcp_counters(doctor_root, &tcp);
	cr_expect_eq(tcp.out_segments, 100000);
	cr_expect_eq(tcp.retransmitted, 7);
	cr_expect_eq(tcp.timeouts, 3);
	cr_expect_eq(tcp.listen_drops, 0);
	/* A kernel that has fewer values than names, or none. */
	doctor_put("Tcp: OutSegs RetransSegs\nTcp: 5", "proc/net/snmp");
	doctor_put("", "proc/net/netstat");
	doctor_read_tcp_counters(doctor_root, &tcp);
	cr_expect_eq(tcp.out_segments, 5);
	cr_expect_eq(tcp.retransmitted, 0);
	cr_expect_eq(tcp.timeouts, 0);
}

Test(doctor_sys, our_programs_are_found_and_no_others)
{
	doctor_put("rdmafsd", "proc/4001/comm");
	doctor_put("Max locked memory         8388608              8388608"
		   "              bytes", "proc/4001/limits");
	doctor_put("rdmafs", "proc/4002/comm");
	doctor_put("rdmafs-umount", "proc/4003/comm");
	doctor_put("bash", "proc/4004/comm");
	memset(&doctor_known, 0, sizeof(doctor_known));
	doctor_read_programs(doctor_root, &doctor_known);
	cr_assert_eq(doctor_known.program_count, 2);
	for (unsigned int i = 0; i < 2; i++)
		if (doctor_known.programs[i].pid == 4001) {
			cr_expect_str_eq(doctor_known.programs[i].name,
					 "rdmafsd");
			cr_expect_eq(doctor_known.programs[i].memlock,
				     8 << 20);
		}
}

Test(doctor_sys, what_counters_grow_by_is_kept)
{
	const struct doctor_port *port;
	unsigned int found = 0;

	doctor_put_host();
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	doctor_put_rxe("rxe0", "eth0");
	doctor_put("10", "sys/class/infiniband/rxe0/ports/1/hw_counters/"
		   "rcvd_seq_err");
	doctor_examine();
	doctor_put("14", "sys/class/infiniband/rxe0/ports/1/hw_counters/"
		   "rcvd_seq_err");
	doctor_remove("sys/class/infiniband/rxe0/ports/1/hw_counters/send_err");
	doctor_read_counters_again(doctor_root, &doctor_known);
	port = &only_device()->ports[0];
	for (unsigned int i = 0; i < port->counter_count; i++)
		if (strcmp(port->counters[i].name, "rcvd_seq_err") == 0) {
			cr_expect_eq(port->counters[i].value, 14);
			cr_expect_eq(port->counters[i].grew, 4);
			found++;
		} else {
			cr_expect_eq(port->counters[i].grew, 0);
		}
	cr_expect_eq(found, 1);
}
