/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_path.c - what is found about the way to a server, and about our
 * programs
 */
#include "tests/common/doctor_root.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>

static struct doctor_report report;
static struct doctor_path path;

/* eth0 has rxe0 with a GID of 10.0.2.15; the way to 10.0.2.2 leaves by it, and
 * a server answers there over both. */
static void init(void)
{
	doctor_root_init();
	doctor_put_host();
	doctor_put_netdev("eth0", "1500", "52:54:00:12:34:56");
	doctor_put_rxe("rxe0", "eth0");
	doctor_examine();
	memset(&path, 0, sizeof(path));
	strcpy(path.target.host, "server");
	path.target.port = 20490;
	strcpy(path.address_text, "10.0.2.2");
	strcpy(path.netdev, "eth0");
	strcpy(path.source_text, "10.0.2.15");
	path.source.ss_family = AF_INET;
	inet_pton(AF_INET, "10.0.2.15",
		  &((struct sockaddr_in *)&path.source)->sin_addr);
	strcpy(path.rdma_device, "rxe0");
	path.ping = DOCTOR_PING_FULL;
	path.ping_size = path.path_mtu = 1500;
	for (int i = 0; i < 2; i++) {
		path.answers[i].was_tried = path.answers[i].was_answered = true;
		strcpy(path.answers[i].scheme, i == 0 ? "verbs" : "iwarp");
	}
}

TestSuite(doctor_path, .init = init, .fini = doctor_root_fini, .timeout = 60);

static void judge(void)
{
	memset(&report, 0, sizeof(report));
	doctor_judge_path(&doctor_known, &path, &report);
}

static const struct doctor_finding *find(const char *code)
{
	for (unsigned int i = 0; i < report.count; i++)
		if (strcmp(report.findings[i].code, code) == 0)
			return &report.findings[i];
	return NULL;
}

/* There is a finding of code, so severe, and its text holds words. */
static void expect(enum doctor_severity severity, const char *code,
		   const char *words)
{
	const struct doctor_finding *finding;

	judge();
	finding = find(code);
	cr_assert_not_null(finding, "no finding '%s'", code);
	cr_expect_eq(finding->severity, severity, "%s: severity %d", code,
		     finding->severity);
	cr_expect(strstr(finding->text, words), "%s: '%s'", code,
		  finding->text);
	if (severity >= DOCTOR_WARNING)
		cr_expect(finding->advice[0], "%s says not what to do", code);
}

static void silent(int which, int err)
{
	path.answers[which].was_answered = false;
	path.answers[which].err = err;
}

Test(doctor_path, a_way_in_order_has_only_good_news)
{
	judge();
	for (unsigned int i = 0; i < report.count; i++)
		cr_expect_eq(report.findings[i].severity, DOCTOR_OK, "%s: %s",
			     report.findings[i].code, report.findings[i].text);
	expect(DOCTOR_OK, "fabric", "verbs on rxe0");
	strcpy(path.gateway, "10.0.2.3");
	expect(DOCTOR_OK, "route", "through the router 10.0.2.3");
}

Test(doctor_path, of_several_addresses_it_says_which_is_judged)
{
	path.address_count = 2;
	expect(DOCTOR_NOTE, "addresses", "2 addresses");
}

Test(doctor_path, a_name_or_route_that_is_not_there_ends_it)
{
	path.resolve_err = EAI_NONAME;
	expect(DOCTOR_PROBLEM, "name", "server");
	cr_expect_eq(report.count, 1);
	path.resolve_err = 0;
	path.route_err = -ENETUNREACH;
	expect(DOCTOR_PROBLEM, "no-route", "unreachable");
	cr_expect_eq(report.count, 1);
}

Test(doctor_path, a_source_that_is_not_ours_is_told_so)
{
	path.route_err = -EADDRNOTAVAIL;
	expect(DOCTOR_PROBLEM, "source-not-ours", "10.0.2.15");
}

Test(doctor_path, a_route_beside_the_device_is_found)
{
	strcpy(path.netdev, "eth1");
	path.rdma_device[0] = '\0';
	path.answers[0].was_tried = false;
	expect(DOCTOR_WARNING, "route-not-rdma", "rxe0 is on eth0");
	expect(DOCTOR_OK, "fabric", "iwarp, since no RDMA device has a route");
	strcpy(path.target.scheme, "verbs");
	expect(DOCTOR_PROBLEM, "route-not-rdma", "eth1");
	/* Who asked for iwarp does not want to hear of RDMA. */
	strcpy(path.target.scheme, "iwarp");
	judge();
	cr_expect_null(find("route-not-rdma"));
	expect(DOCTOR_OK, "fabric", "asked for by name");
}

Test(doctor_path, rdma_cm_that_finds_no_way_is_a_problem)
{
	path.rdma_device[0] = '\0';
	expect(DOCTOR_PROBLEM, "cm-no-route", "rxe0 is on eth0");
}

Test(doctor_path, a_source_address_without_a_gid_is_a_problem)
{
	inet_pton(AF_INET, "10.0.2.99",
		  &((struct sockaddr_in *)&path.source)->sin_addr);
	strcpy(path.source_text, "10.0.2.99");
	expect(DOCTOR_PROBLEM, "source-no-gid", "10.0.2.99");
	/* Of IPv6 the GID is the address. */
	path.source.ss_family = AF_INET6;
	inet_pton(AF_INET6, "fe80::5054:ff:fe12:3456",
		  &((struct sockaddr_in6 *)&path.source)->sin6_addr);
	judge();
	cr_expect_null(find("source-no-gid"));
}

Test(doctor_path, a_gid_asked_for_by_its_number_must_be_there)
{
	judge();
	cr_expect_null(find("gid-index"));
	doctor_asked.tuning.gid_index = 1;
	expect(DOCTOR_OK, "gid-index", "RoCE v2");
	doctor_asked.tuning.gid_index = 2;
	expect(DOCTOR_PROBLEM, "gid-index", "no GID of the number 2");
}

Test(doctor_path, large_packets_that_vanish_are_a_problem)
{
	path.ping = DOCTOR_PING_SMALL_ONLY;
	path.ping_size = 9000;
	path.path_mtu = 1500;
	expect(DOCTOR_PROBLEM, "path-mtu", "only such of 1500 pass");
	path.ping = DOCTOR_PING_SILENT;
	expect(DOCTOR_NOTE, "path-mtu", "not known");
	path.ping = DOCTOR_PING_NOT_TRIED;
	expect(DOCTOR_NOTE, "path-mtu", "root");
}

Test(doctor_path, one_fabric_that_does_not_answer_is_less_than_both)
{
	silent(0, -ECONNREFUSED);
	expect(DOCTOR_WARNING, "not-listening", "over verbs");
	expect(DOCTOR_NOTE, "fabric", "iwarp, since over verbs nobody answers");
	silent(1, -ECONNREFUSED);
	expect(DOCTOR_PROBLEM, "not-listening", "over verbs");
	cr_expect_null(find("fabric"));
	silent(0, -ETIMEDOUT);
	expect(DOCTOR_PROBLEM, "no-answer", "over verbs");
	/* Something listens that is none of ours. */
	silent(1, -EPROTO);
	strcpy(path.answers[1].reason, "not an rdmafs server");
	judge();
	cr_expect(strstr(report.findings[report.count - 1].advice, "port"));
}

Test(doctor_path, refusals_are_told_as_the_server_says_them)
{
	static const struct {
		int err;
		enum doctor_severity severity;
		const char *code;
	} cases[] = {
		{ -ENOKEY, DOCTOR_NOTE, "needs-key" },
		{ -EKEYREJECTED, DOCTOR_PROBLEM, "refused" },
		{ -ENOENT, DOCTOR_PROBLEM, "refused" },
		{ -EACCES, DOCTOR_PROBLEM, "refused" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(cases); i++) {
		path.answers[0].err = cases[i].err;
		strcpy(path.answers[0].reason, "the server's words");
		expect(cases[i].severity, cases[i].code, "the server's words");
	}
}

Test(doctor_path, a_server_judges_its_own_addresses)
{
	doctor_asked.is_server = true;
	expect(DOCTOR_PROBLEM, "not-ours", "10.0.2.2");
	path.is_local = true;
	silent(0, -ECONNREFUSED);
	expect(DOCTOR_NOTE, "not-listening", "rdmafsd is not running");
	path.is_any = true;
	expect(DOCTOR_OK, "route", "all addresses");
}

Test(doctor_path, no_device_is_a_problem_only_for_who_asked_for_one)
{
	doctor_remove("sys/class/infiniband");
	doctor_examine();
	path.rdma_device[0] = '\0';
	path.answers[0].was_tried = false;
	expect(DOCTOR_OK, "fabric", "no RDMA device is here");
	cr_expect_null(find("no-device"));
	strcpy(path.target.scheme, "verbs");
	path.answers[1].was_tried = false;
	expect(DOCTOR_PROBLEM, "no-device", "verbs was asked for");
}

/* ---- programs ------------------------------------------------------------- */

static struct doctor_program *add_program(void)
{
	struct doctor_program *program =
		&doctor_known.programs[doctor_known.program_count++];

	strcpy(program->name, "rdmafsd");
	program->pid = 42;
	return program;
}

static const struct doctor_finding *judge_programs(const char *code)
{
	memset(&report, 0, sizeof(report));
	doctor_judge_programs(&doctor_known, &report);
	return find(code);
}

Test(doctor_path, what_programs_hold_is_shown)
{
	struct doctor_program *program = add_program();
	const struct doctor_finding *finding;

	program->qps = 2;
	program->cqs = 3;
	program->mrs = 4;
	program->mr_bytes = (63 << 20) + 1;
	program->cq_depth_most = 1023;
	finding = judge_programs("registrations");
	cr_assert_not_null(finding);
	cr_expect_str_eq(finding->text, "holds 4 regions of 64 MiB in all, "
			 "2 queue pairs, 3 completion queues of up to 1023 "
			 "entries");
	cr_expect_str_eq(finding->subject, "rdmafsd, process 42");
}

Test(doctor_path, overruns_and_refused_rights_are_summed_over_fabrics)
{
	struct doctor_program *program = add_program();
	const struct doctor_finding *finding;

	strcpy(program->figures,
	       "figures: fabric: name=iwarp rights_refused=2 cq_overruns=0\n"
	       "figures: fabric: name=verbs rights_refused=3 cq_overruns=0\n");
	cr_expect_null(judge_programs("cq-overrun"));
	finding = judge_programs("rights");
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, DOCTOR_WARNING);
	cr_expect(strstr(finding->text, "5 times"), "%s", finding->text);
	strcpy(program->figures, "fabric: name=verbs cq_overruns=1\n");
	finding = judge_programs("cq-overrun");
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, DOCTOR_PROBLEM);
}

Test(doctor_path, a_server_that_is_away_is_a_problem_of_the_mount)
{
	struct doctor_program *program = add_program();
	const struct doctor_finding *finding;

	strcpy(program->figures, "mount: is_away=0 away_ms=0 "
	       "server=storage:20490 point=/my mnt\n");
	cr_expect_null(judge_programs("server-away"));
	strcpy(program->figures, "mount: is_away=1 away_ms=2500 "
	       "server=storage:20490 point=/my mnt\n");
	finding = judge_programs("server-away");
	cr_assert_not_null(finding);
	cr_expect_eq(finding->severity, DOCTOR_PROBLEM);
	cr_expect(strstr(finding->text, "/my mnt is away since 2500 ms"), "%s",
		  finding->text);
	cr_expect(strstr(finding->advice, "rdmafs doctor storage:20490"));
}

Test(doctor_path, a_peer_that_does_not_acknowledge_is_a_problem)
{
	struct doctor_program *program = add_program();

	program->connections = 1;
	program->tcp_retries_most = 2;
	cr_expect_null(judge_programs("peer-silent"));
	program->tcp_retries_most = 3;
	cr_assert_not_null(judge_programs("peer-silent"));
}

Test(doctor_path, programs_that_do_not_tell_are_a_note)
{
	struct doctor_program *program = add_program();
	static const int errs[] = { -EACCES, -ENOENT, -ETIMEDOUT };

	for (size_t i = 0; i < RF_ARRAY_SIZE(errs); i++) {
		const struct doctor_finding *finding;

		program->figures_err = errs[i];
		finding = judge_programs("figures");
		cr_assert_not_null(finding);
		cr_expect_eq(finding->severity, DOCTOR_NOTE);
	}
}
