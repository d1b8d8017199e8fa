/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_judge.c - each thing that can be wrong is found, and a host in order
 * has no finding above a note
 */
#include "tests/common/doctor_root.h"

#include <criterion/criterion.h>
#include <errno.h>

#define PORT(name, file) "sys/class/infiniband/" name "/ports/1/" file

static void host_with_rxe(void)
{
	doctor_root_init();
	doctor_put_host();
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	doctor_put_rxe("rxe0", "eth0");
}

TestSuite(doctor_judge, .init = host_with_rxe, .fini = doctor_root_fini,
	  .timeout = 60);

/* Examine; there must be a finding of code, so severe, whose advice names word. */
static void expect(enum doctor_severity severity, const char *code,
		   const char *word)
{
	const struct doctor_finding *finding;

	doctor_examine();
	finding = doctor_finding(code);
	cr_assert_not_null(finding, "no finding '%s'", code);
	cr_expect_eq(finding->severity, severity, "%s: severity %d", code,
		     finding->severity);
	if (severity > DOCTOR_NOTE)
		cr_expect(strstr(finding->advice, word), "%s: '%s'", code,
			  finding->advice);
}

static void expect_in_order(void)
{
	const struct doctor_report *report = doctor_examine();

	for (unsigned int i = 0; i < report->count; i++)
		cr_expect_leq(report->findings[i].severity, DOCTOR_NOTE,
			      "%s: %s", report->findings[i].code,
			      report->findings[i].text);
	cr_expect_not_null(doctor_finding("port"));
	cr_expect_not_null(doctor_finding("memlock"));
}

Test(doctor_judge, hosts_in_order_have_nothing_above_a_note)
{
	expect_in_order();
	doctor_put_netdev("eth1", "9000", "b8:59:9f:00:00:01");
	doctor_put_mlx5("mlx5_0", "eth1");
	doctor_put_ib("mlx5_1");
	doctor_put_siw("siw0", "52:54:00:12:34:56");
	expect_in_order();
	cr_expect_eq(doctor_known.device_count, 4);
}

Test(doctor_judge, no_device_is_a_note)
{
	doctor_remove("sys/class/infiniband");
	expect(DOCTOR_NOTE, "no-device", "");
	/* Nothing is registered, so no limit is in the way. */
	doctor_put("Max locked memory         65536   65536   bytes",
		   "proc/self/limits");
	expect(DOCTOR_NOTE, "no-device", "");
	cr_expect_null(doctor_finding("memlock"));
}

Test(doctor_judge, missing_modules_and_nodes_are_problems)
{
	doctor_remove("dev/infiniband/rdma_cm");
	expect(DOCTOR_PROBLEM, "no-rdma-cm", "modprobe rdma_ucm");
	doctor_remove("dev/infiniband/uverbs_rxe0");
	expect(DOCTOR_PROBLEM, "node-missing", "/dev/infiniband");
	doctor_remove("sys/class/infiniband_verbs");
	doctor_remove("sys/module/ib_uverbs");
	expect(DOCTOR_PROBLEM, "module-missing", "modprobe ib_uverbs");
}

Test(doctor_judge, half_a_driver_is_a_warning)
{
	doctor_put("live", "sys/module/mlx5_core/initstate");
	expect(DOCTOR_WARNING, "module-missing", "modprobe mlx5_ib");
	doctor_put("live", "sys/module/mlx5_ib/initstate");
	doctor_examine();
	cr_expect_null(doctor_finding("module-missing"));
}

Test(doctor_judge, a_limit_below_what_is_registered_is_a_problem)
{
	doctor_put("Max locked memory         8388608   8388608   bytes",
		   "proc/self/limits");
	expect(DOCTOR_PROBLEM, "memlock", "ulimit -l");
	doctor_asked.memory = 8 << 20;
	expect(DOCTOR_OK, "memlock", "");
	/* A server on rxe registers what it lends once more. */
	doctor_asked.is_server = true;
	expect(DOCTOR_PROBLEM, "memlock", "--staging");
	/* Who has the capability is not asked. */
	doctor_put("CapEff:\t0000000000004000", "proc/self/status");
	expect(DOCTOR_OK, "memlock", "");
}

Test(doctor_judge, huge_pages_asked_for_and_not_there_are_told)
{
	expect(DOCTOR_OK, "huge-pages", "");
	doctor_asked.wants_huge_pages = true;
	expect(DOCTOR_WARNING, "huge-pages", "vm.nr_hugepages=32");
	doctor_put("HugePages_Total: 40\nHugePages_Free: 40\n"
		   "Hugepagesize: 2048 kB", "proc/meminfo");
	expect(DOCTOR_OK, "huge-pages", "");
}

Test(doctor_judge, a_port_that_is_not_active_is_a_problem_with_its_reason)
{
	doctor_put("1: DOWN", PORT("rxe0", "state"));
	doctor_put("3: Disabled", PORT("rxe0", "phys_state"));
	expect(DOCTOR_PROBLEM, "port-down", "cable");
	doctor_put("0x1002", "sys/class/net/eth0/flags");
	expect(DOCTOR_PROBLEM, "port-down", "ip link set eth0 up");
}

Test(doctor_judge, infiniband_without_a_subnet_manager_is_told_so)
{
	doctor_remove("sys/class/infiniband/rxe0");
	doctor_put_ib("mlx5_1");
	doctor_put("2: INIT", PORT("mlx5_1", "state"));
	expect(DOCTOR_PROBLEM, "port-down", "opensm");
}

Test(doctor_judge, mtus_are_compared_with_the_netdev)
{
	static const struct {
		const char *netdev;
		uint32_t active, max;
		enum doctor_severity severity;
		const char *code;
	} cases[] = {
		{ "1500", 1024, 4096, DOCTOR_NOTE, "mtu" },
		{ "9000", 4096, 4096, DOCTOR_OK, "mtu" },
		{ "4192", 4096, 4096, DOCTOR_OK, "mtu" },
		{ "9000", 1024, 4096, DOCTOR_WARNING, "mtu" },
		{ "700", 512, 4096, DOCTOR_WARNING, "mtu-small" },
		{ "1500", 1024, 1024, DOCTOR_OK, "mtu" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		static struct doctor_report report;
		const struct doctor_finding *found = NULL;

		doctor_put_netdev("eth0", cases[i].netdev, "52:54:00:12:34:56");
		doctor_examine();
		doctor_known.devices[0].ports[0].active_mtu = cases[i].active;
		doctor_known.devices[0].ports[0].max_mtu = cases[i].max;
		memset(&report, 0, sizeof(report));
		doctor_judge_devices(&doctor_known, &report);
		for (unsigned int j = 0; j < report.count; j++)
			if (strcmp(report.findings[j].code,
				   cases[i].code) == 0)
				found = &report.findings[j];
		cr_assert_not_null(found, "case %zu", i);
		cr_expect_eq(found->severity, cases[i].severity,
			     "case %zu: %s", i, found->text);
	}
}

Test(doctor_judge, gids_that_nobody_can_use_are_told)
{
	doctor_put("0000:0000:0000:0000:0000:0000:0000:0000",
		   PORT("rxe0", "gids/1"));
	expect(DOCTOR_WARNING, "gid-link-local", "eth0 an IP address");
	doctor_put("0000:0000:0000:0000:0000:0000:0000:0000",
		   PORT("rxe0", "gids/0"));
	expect(DOCTOR_PROBLEM, "no-gid", "address");
	doctor_put("0000:0000:0000:0000:0000:ffff:0a00:020f",
		   PORT("rxe0", "gids/1"));
	doctor_put("IB/RoCE v1", PORT("rxe0", "gid_attrs/types/1"));
	expect(DOCTOR_WARNING, "gid-v1", "RoCE v2");
}

Test(doctor_judge, a_narrow_slot_is_a_warning)
{
	doctor_put_netdev("ens1", "9000", "b8:59:9f:00:00:01");
	doctor_put_mlx5("mlx5_0", "ens1");
	doctor_put("8", "sys/class/infiniband/mlx5_0/device/"
		   "current_link_width");
	expect(DOCTOR_WARNING, "pci", "slot");
}

Test(doctor_judge, a_device_that_the_library_does_not_know_is_a_problem)
{
	static struct doctor_report report;

	doctor_examine();
	doctor_known.devices[0].is_open = false;
	doctor_known.devices[0].open_err = -ENODEV;
	doctor_judge_devices(&doctor_known, &report);
	cr_assert_eq(report.findings[0].severity, DOCTOR_PROBLEM);
	cr_expect_str_eq(report.findings[0].code, "device-open");
	cr_expect(strstr(report.findings[0].advice, "ibverbs-providers"));
}

/* ---- counters ------------------------------------------------------------ */

Test(doctor_judge, losses_are_judged_by_their_share_of_the_packets)
{
	doctor_put("1000000", PORT("rxe0", "hw_counters/sent_pkts"));
	doctor_put("1000", PORT("rxe0", "hw_counters/completer_retry_err"));
	expect(DOCTOR_NOTE, "retransmissions", "");
	doctor_put("1001", PORT("rxe0", "hw_counters/completer_retry_err"));
	expect(DOCTOR_WARNING, "retransmissions", "packet loss");
	doctor_put("2000", PORT("rxe0", "hw_counters/rcvd_seq_err"));
	expect(DOCTOR_WARNING, "out-of-sequence", "packet loss");
	doctor_put("2000", PORT("rxe0", "hw_counters/send_rnr_err"));
	expect(DOCTOR_WARNING, "rnr", "buffer");
}

Test(doctor_judge, errors_of_the_link_are_warnings_from_the_first_on)
{
	doctor_put_netdev("ens1", "9000", "b8:59:9f:00:00:01");
	doctor_put_mlx5("mlx5_0", "ens1");
	doctor_put("1", PORT("mlx5_0", "counters/symbol_error"));
	expect(DOCTOR_WARNING, "symbol-errors", "cable");
	doctor_put("1", PORT("mlx5_0", "counters/link_downed"));
	expect(DOCTOR_WARNING, "link-down", "cable");
	doctor_put("99", PORT("mlx5_0", "hw_counters/np_cnp_sent"));
	expect(DOCTOR_NOTE, "congestion", "");
}

/* Watched, only what grew in between is more than a note. */
Test(doctor_judge, watched_counters_are_judged_by_their_growth)
{
	static struct doctor_report report;
	enum doctor_severity retries = DOCTOR_OK, downs = DOCTOR_OK;

	doctor_asked.watch_s = 5;
	doctor_put("100", PORT("rxe0", "hw_counters/sent_pkts"));
	doctor_put("50", PORT("rxe0", "hw_counters/completer_retry_err"));
	doctor_put("3", PORT("rxe0", "hw_counters/link_downed"));
	expect(DOCTOR_NOTE, "retransmissions", "");
	cr_expect_eq(doctor_finding("link-down")->severity, DOCTOR_NOTE);
	doctor_put("51", PORT("rxe0", "hw_counters/completer_retry_err"));
	doctor_put("4", PORT("rxe0", "hw_counters/link_downed"));
	doctor_read_counters_again(doctor_root, &doctor_known);
	doctor_judge_devices(&doctor_known, &report);
	for (unsigned int i = 0; i < report.count; i++)
		if (strcmp(report.findings[i].code, "retransmissions") == 0)
			retries = report.findings[i].severity;
		else if (strcmp(report.findings[i].code, "link-down") == 0)
			downs = report.findings[i].severity;
	cr_expect_eq(retries, DOCTOR_WARNING);
	cr_expect_eq(downs, DOCTOR_PROBLEM);
}

Test(doctor_judge, retransmissions_of_tcp_are_judged_by_their_share)
{
	expect(DOCTOR_NOTE, "tcp-retransmissions", "");
	doctor_put("Tcp: OutSegs RetransSegs\nTcp: 1000 19", "proc/net/snmp");
	expect(DOCTOR_NOTE, "tcp-retransmissions", "");
	doctor_put("Tcp: OutSegs RetransSegs\nTcp: 1000 20", "proc/net/snmp");
	expect(DOCTOR_WARNING, "tcp-retransmissions", "packet loss");
	doctor_put("Tcp: OutSegs RetransSegs\nTcp: 1000 0", "proc/net/snmp");
	expect(DOCTOR_OK, "tcp-retransmissions", "");
}

/* ---- the report ---------------------------------------------------------- */

Test(doctor_judge, a_report_that_is_full_counts_what_it_leaves_out)
{
	static struct doctor_report report;

	for (int i = 0; i < DOCTOR_FINDINGS_MAX + 2; i++) {
		doctor_find(&report, DOCTOR_NOTE, "test", "%d", i);
		doctor_advise(&report, "advice %d", i);
	}
	cr_expect_eq(report.count, DOCTOR_FINDINGS_MAX);
	cr_expect_eq(report.left_out, 2);
	cr_expect_eq(doctor_count(&report, DOCTOR_NOTE), DOCTOR_FINDINGS_MAX);
	cr_expect_str_eq(report.findings[DOCTOR_FINDINGS_MAX - 1].advice,
			 "advice 511");
}
