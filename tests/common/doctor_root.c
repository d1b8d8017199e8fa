/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor_root.h"

#include "tests/common/scratch.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char doctor_root[64];
struct doctor_question doctor_asked;
struct doctor_facts doctor_known;
static struct doctor_report report;

/* ---- files --------------------------------------------------------------- */

void doctor_root_init(void)
{
	const char *folder = getenv("TMPDIR");

	snprintf(doctor_root, sizeof(doctor_root), "%.40s/doctor.XXXXXX",
		 folder ? folder : "/tmp");
	cr_assert_not_null(mkdtemp(doctor_root));
	memset(&doctor_asked, 0, sizeof(doctor_asked));
	doctor_asked.program = "test";
	doctor_asked.memory = 64 << 20;
	doctor_asked.send_depth = 512;
	doctor_asked.tuning = (struct rf_tuning)RF_TUNING_DEFAULT;
}

void doctor_root_fini(void)
{
	if (doctor_root[0])
		scratch_remove(doctor_root);
	doctor_root[0] = '\0';
}

static void make_folders(char *path)
{
	for (char *at = path + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0755);
		*at = '/';
	}
}

__attribute__((format(printf, 2, 0)))
static void full_path(char out[512], const char *format, va_list args)
{
	int at = snprintf(out, 512, "%s/", doctor_root);

	vsnprintf(out + at, 512 - (size_t)at, format, args);
}

void doctor_put(const char *text, const char *format, ...)
{
	char path[512];
	va_list args;
	FILE *file;

	va_start(args, format);
	full_path(path, format, args);
	va_end(args);
	make_folders(path);
	file = fopen(path, "w");
	cr_assert_not_null(file, "%s", path);
	fprintf(file, "%s\n", text);
	fclose(file);
}

void doctor_link(const char *target, const char *format, ...)
{
	char path[512];
	va_list args;

	va_start(args, format);
	full_path(path, format, args);
	va_end(args);
	make_folders(path);
	cr_assert_eq(symlink(target, path), 0, "%s", path);
}

void doctor_remove(const char *format, ...)
{
	char path[512];
	va_list args;

	va_start(args, format);
	full_path(path, format, args);
	va_end(args);
	cr_assert_eq(scratch_remove(path), 0, "%s", path);
}

/* ---- trees --------------------------------------------------------------- */

void doctor_put_netdev(const char *name, const char *mtu, const char *mac)
{
	doctor_put(mtu, "sys/class/net/%s/mtu", name);
	doctor_put("0x1003", "sys/class/net/%s/flags", name);
	doctor_put("1", "sys/class/net/%s/carrier", name);
	doctor_put(mac, "sys/class/net/%s/address", name);
}

void doctor_put_host(void)
{
	static const char *const modules[] = { "ib_core", "ib_uverbs",
					       "rdma_cm", "rdma_ucm" };

	for (size_t i = 0; i < RF_ARRAY_SIZE(modules); i++)
		doctor_put("live", "sys/module/%s/initstate", modules[i]);
	doctor_put("", "dev/infiniband/rdma_cm");
	doctor_put("HugePages_Total:       0\nHugePages_Free:        0\n"
		   "Hugepagesize:       2048 kB\nMemAvailable:    8000000 kB",
		   "proc/meminfo");
	doctor_put("Max locked memory         unlimited            unlimited"
		   "            bytes", "proc/self/limits");
	doctor_put("Name:\tdoctor\nCapEff:\t0000000000000000",
		   "proc/self/status");
	doctor_put("Tcp: RtoAlgorithm OutSegs RetransSegs InErrs\n"
		   "Tcp: 1 100000 7 0", "proc/net/snmp");
	doctor_put("TcpExt: SyncookiesSent ListenOverflows TCPTimeouts\n"
		   "TcpExt: 0 0 3", "proc/net/netstat");
}

static void put_port(const char *name, const char *state, const char *phys,
		     const char *link, const char *rate)
{
	doctor_put(state, "sys/class/infiniband/%s/ports/1/state", name);
	doctor_put(phys, "sys/class/infiniband/%s/ports/1/phys_state", name);
	doctor_put(link, "sys/class/infiniband/%s/ports/1/link_layer", name);
	doctor_put(rate, "sys/class/infiniband/%s/ports/1/rate", name);
}

static void put_gid(const char *name, unsigned int index, const char *gid,
		    const char *type, const char *netdev)
{
	doctor_put(gid, "sys/class/infiniband/%s/ports/1/gids/%u", name, index);
	if (!type)
		return;
	doctor_put(type, "sys/class/infiniband/%s/ports/1/gid_attrs/types/%u",
		   name, index);
	doctor_put(netdev, "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%u",
		   name, index);
}

static void put_node(const char *name)
{
	doctor_put(name, "sys/class/infiniband_verbs/uverbs_%s/ibdev", name);
	doctor_put("", "dev/infiniband/uverbs_%s", name);
}

static void put_counters(const char *name, const char *folder,
			 const char *const *names)
{
	for (; *names; names++)
		doctor_put("0", "sys/class/infiniband/%s/ports/1/%s/%s", name,
			   folder, *names);
}

void doctor_put_rxe(const char *name, const char *netdev)
{
	static const char *const counters[] = {
		"sent_pkts", "rcvd_pkts", "duplicate_request",
		"out_of_seq_request", "rcvd_rnr_err", "send_rnr_err",
		"rcvd_seq_err", "ack_deferred", "retry_exceeded_err",
		"completer_retry_err", "send_err", "link_downed", "lifespan",
		NULL,
	};

	doctor_put("1: CA", "sys/class/infiniband/%s/node_type", name);
	doctor_put(netdev, "sys/class/infiniband/%s/parent", name);
	put_port(name, "4: ACTIVE", "5: LinkUp", "Ethernet",
		 "2.5 Gb/sec (1X SDR)");
	put_gid(name, 0, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "RoCE v2",
		netdev);
	put_gid(name, 1, "0000:0000:0000:0000:0000:ffff:0a00:020f", "RoCE v2",
		netdev);
	put_gid(name, 2, "0000:0000:0000:0000:0000:0000:0000:0000", "RoCE v2",
		netdev);
	put_counters(name, "hw_counters", counters);
	put_node(name);
}

void doctor_put_siw(const char *name, const char *mac)
{
	unsigned int m[6];
	char gid[64];

	cr_assert_eq(sscanf(mac, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2],
			    &m[3], &m[4], &m[5]), 6);
	snprintf(gid, sizeof(gid), "%02x%02x:%02x%02x:%02x%02x:0000:0000:0000:"
		 "0000:0000", m[0], m[1], m[2], m[3], m[4], m[5]);
	doctor_put("4: RNIC", "sys/class/infiniband/%s/node_type", name);
	put_port(name, "4: ACTIVE", "5: LinkUp", "Ethernet",
		 "2.5 Gb/sec (1X SDR)");
	put_gid(name, 0, gid, NULL, NULL);
	put_node(name);
}

static void put_pci(const char *name)
{
	char folder[128];

	snprintf(folder, sizeof(folder), "sys/devices/pci/0000:3b:00.0-%s",
		 name);
	doctor_put("16.0 GT/s PCIe", "%s/current_link_speed", folder);
	doctor_put("16.0 GT/s PCIe", "%s/max_link_speed", folder);
	doctor_put("16", "%s/current_link_width", folder);
	doctor_put("16", "%s/max_link_width", folder);
	doctor_link("../../../../bus/pci/drivers/mlx5_core", "%s/driver",
		    folder);
	snprintf(folder, sizeof(folder), "../../../devices/pci/0000:3b:00.0-%s",
		 name);
	doctor_link(folder, "sys/class/infiniband/%s/device", name);
}

static void put_mlx5(const char *name)
{
	static const char *const counters[] = {
		"symbol_error", "link_downed", "link_error_recovery",
		"port_rcv_errors", "port_xmit_discards", "port_xmit_packets",
		"port_xmit_wait", NULL,
	};
	static const char *const hw_counters[] = {
		"out_of_sequence", "packet_seq_err", "local_ack_timeout_err",
		"rnr_nak_retry_err", "out_of_buffer", "np_cnp_sent", NULL,
	};

	doctor_put("1: CA", "sys/class/infiniband/%s/node_type", name);
	doctor_put("22.31.1014", "sys/class/infiniband/%s/fw_ver", name);
	put_counters(name, "counters", counters);
	put_counters(name, "hw_counters", hw_counters);
	put_node(name);
	put_pci(name);
}

void doctor_put_mlx5(const char *name, const char *netdev)
{
	put_mlx5(name);
	put_port(name, "4: ACTIVE", "5: LinkUp", "Ethernet",
		 "100 Gb/sec (4X EDR)");
	put_gid(name, 0, "fe80:0000:0000:0000:ba59:9fff:fe00:0001",
		"IB/RoCE v1", netdev);
	put_gid(name, 1, "fe80:0000:0000:0000:ba59:9fff:fe00:0001", "RoCE v2",
		netdev);
	put_gid(name, 2, "0000:0000:0000:0000:0000:ffff:c0a8:0a01",
		"IB/RoCE v1", netdev);
	put_gid(name, 3, "0000:0000:0000:0000:0000:ffff:c0a8:0a01", "RoCE v2",
		netdev);
	doctor_put("1", "sys/module/mlx5_ib/parameters/odp_mode");
	doctor_put("64", "sys/kernel/debug/mlx5/0000:3b:00.0-%s/mr_cache/10/size",
		   name);
	doctor_put("5", "sys/kernel/debug/mlx5/0000:3b:00.0-%s/mr_cache/10/miss",
		   name);
}

void doctor_put_ib(const char *name)
{
	put_mlx5(name);
	put_port(name, "4: ACTIVE", "5: LinkUp", "InfiniBand",
		 "200 Gb/sec (4X HDR)");
	put_gid(name, 0, "fe80:0000:0000:0000:0002:c903:0000:1491", NULL, NULL);
}

/* ---- examining ----------------------------------------------------------- */

/* As libibverbs would say of a device in order. */
static void open_devices(void)
{
	for (unsigned int i = 0; i < doctor_known.device_count; i++) {
		struct doctor_device *device = &doctor_known.devices[i];

		device->is_open = device->node[0] && !device->node_err;
		device->max_mr_size = UINT64_MAX;
		device->max_qp = device->max_mr = 10000;
		device->max_cqe = 32767;
	}
}

struct doctor_report *doctor_examine(void)
{
	memset(&doctor_known, 0, sizeof(doctor_known));
	memset(&report, 0, sizeof(report));
	doctor_known.question = &doctor_asked;
	doctor_known.was_built_with_verbs = true;
	doctor_read_host(doctor_root, &doctor_known);
	doctor_read_devices(doctor_root, &doctor_known);
	open_devices();
	doctor_judge_host(&doctor_known, &report);
	doctor_judge_devices(&doctor_known, &report);
	doctor_judge_tcp(&doctor_known, &report);
	return &report;
}

const struct doctor_finding *doctor_finding(const char *code)
{
	for (unsigned int i = 0; i < report.count; i++)
		if (strcmp(report.findings[i].code, code) == 0)
			return &report.findings[i];
	return NULL;
}
