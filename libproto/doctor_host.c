/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_host.c - what /proc and /dev say: limits, modules, nodes, programs
 */
#include "doctor_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	TEXT_MAX = 16384,
	CAP_IPC_LOCK_BIT = 14,		/* linux/capability.h */
};

/* A whole small file, as text; "" if it is not there. */
static void read_text(const char *root, const char *path, char out[TEXT_MAX])
{
	char full[PATH_MAX];
	size_t got = 0;
	ssize_t more;
	int fd;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && got < TEXT_MAX - 1 &&
	       (more = read(fd, out + got, TEXT_MAX - 1 - got)) > 0)
		got += (size_t)more;
	out[got] = '\0';
	if (fd >= 0)
		close(fd);
}

/* The number behind name at the begin of a line; 0 if there is none. */
static uint64_t number_after(const char *text, const char *name, int base)
{
	const size_t size = strlen(name);

	for (const char *line = text; line && *line;
	     line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, size) == 0)
			return strtoull(line + size, NULL, base);
	}
	return 0;
}

/* ---- memory -------------------------------------------------------------- */

static void read_memory(const char *root, struct doctor_host *host)
{
	char text[TEXT_MAX];

	read_text(root, "proc/meminfo", text);
	host->huge_total = number_after(text, "HugePages_Total:", 10);
	host->huge_free = number_after(text, "HugePages_Free:", 10);
	host->huge_size = number_after(text, "Hugepagesize:", 10) << 10;
	host->memory_available = number_after(text, "MemAvailable:", 10) << 10;
}

/* "Max locked memory  8388608  8388608  bytes" of /proc/PID/limits. */
static uint64_t memlock_of(const char *limits)
{
	static const char name[] = "Max locked memory";
	const char *at = strstr(limits, name);

	if (!at)
		return UINT64_MAX;
	at += sizeof(name) - 1;
	while (*at == ' ')
		at++;
	return *at == 'u' ? UINT64_MAX : strtoull(at, NULL, 10);
}

static void read_limits(const char *root, struct doctor_host *host)
{
	char text[TEXT_MAX];

	read_text(root, "proc/self/limits", text);
	host->memlock = memlock_of(text);
	read_text(root, "proc/self/status", text);
	host->has_ipc_lock = number_after(text, "CapEff:", 16) >>
				     CAP_IPC_LOCK_BIT & 1;
}

/* ---- modules and nodes --------------------------------------------------- */

static bool has_path(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return access(full, F_OK) == 0;
}

static bool has_module(const char *root, const char *name)
{
	char path[DOCTOR_WORD * 2];

	snprintf(path, sizeof(path), "sys/module/%.40s", name);
	return has_path(root, path);
}

/* Network drivers whose RDMA half is a module of its own. */
static void read_halves(const char *root, struct doctor_host *host)
{
	static const char *const pairs[][2] = {
		{ "mlx5_core", "mlx5_ib" }, { "mlx4_core", "mlx4_ib" },
		{ "bnxt_en", "bnxt_re" }, { "ice", "irdma" },
		{ "i40e", "irdma" }, { "cxgb4", "iw_cxgb4" },
		{ "qede", "qedr" }, { "hns3", "hns_roce_hw_v2" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(pairs) &&
			   host->half_count < RF_ARRAY_SIZE(host->halves); i++)
		if (has_module(root, pairs[i][0]) &&
		    !has_module(root, pairs[i][1]))
			snprintf(host->halves[host->half_count++],
				 DOCTOR_WORD, "%s for %s", pairs[i][1],
				 pairs[i][0]);
}

static void read_modules(const char *root, struct doctor_host *host)
{
	char path[PATH_MAX];
	int fd;

	host->has_core = has_module(root, "ib_core");
	host->has_uverbs = has_module(root, "ib_uverbs") ||
			   has_path(root, "sys/class/infiniband_verbs");
	host->has_cm = has_module(root, "rdma_cm");
	host->has_verbs_class = has_path(root, "sys/class/infiniband");
	read_halves(root, host);
	snprintf(path, sizeof(path), "%s/dev/infiniband/rdma_cm", root);
	fd = open(path, O_RDWR | O_CLOEXEC);
	host->rdma_cm.err = fd < 0 ? -errno : 0;
	host->rdma_cm.is_there = fd >= 0 || errno != ENOENT;
	if (fd >= 0)
		close(fd);
}

/* ---- TCP's own counters -------------------------------------------------- */

/*
 * Two lines, names and values, both behind the same prefix (proc(5),
 * /proc/net/snmp and netstat).
 */
static uint64_t paired(const char *text, const char *prefix, const char *name)
{
	const char *names = strstr(text, prefix), *values;
	size_t size = strlen(name);
	char *end;

	if (!names || (names != text && names[-1] != '\n'))
		return 0;
	names += strlen(prefix);
	values = strstr(names, prefix);
	if (!values)
		return 0;
	values += strlen(prefix);
	while (*names == ' ') {
		uint64_t value = strtoull(values, &end, 10);

		names++;
		if (end == values)
			return 0;
		values = end;
		if (strncmp(names, name, size) == 0 &&
		    (names[size] == ' ' || names[size] == '\n'))
			return value;
		names += strcspn(names, " \n");
	}
	return 0;
}

void doctor_read_tcp_counters(const char *root, struct doctor_tcp_counters *out)
{
	char text[TEXT_MAX];

	read_text(root, "proc/net/snmp", text);
	out->out_segments = paired(text, "Tcp:", "OutSegs");
	out->retransmitted = paired(text, "Tcp:", "RetransSegs");
	read_text(root, "proc/net/netstat", text);
	out->timeouts = paired(text, "TcpExt:", "TCPTimeouts");
	out->listen_drops = paired(text, "TcpExt:", "ListenOverflows");
}

/* ---- our running programs ------------------------------------------------ */

static void add_program(const char *root, struct doctor_facts *facts, int pid,
			const char *name)
{
	struct doctor_program *program;
	char path[64], text[TEXT_MAX];

	if (facts->program_count == DOCTOR_PROGRAMS_MAX || pid == getpid())
		return;
	program = &facts->programs[facts->program_count++];
	snprintf(program->name, sizeof(program->name), "%s", name);
	program->pid = pid;
	snprintf(path, sizeof(path), "proc/%d/limits", pid);
	read_text(root, path, text);
	program->memlock = memlock_of(text);
}

void doctor_read_programs(const char *root, struct doctor_facts *facts)
{
	char path[PATH_MAX], name[16];
	const struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/proc", root);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		int pid = atoi(entry->d_name);

		if (pid > 0 &&
		    doctor_read_line(root, name, sizeof(name), "proc/%d/comm",
				     pid) &&
		    (strcmp(name, "rdmafs") == 0 ||
		     strcmp(name, "rdmafsd") == 0))
			add_program(root, facts, pid, name);
	}
	if (dir)
		closedir(dir);
}

void doctor_read_host(const char *root, struct doctor_facts *facts)
{
	read_memory(root, &facts->host);
	read_limits(root, &facts->host);
	read_modules(root, &facts->host);
	doctor_read_tcp_counters(root, &facts->host.tcp);
}
