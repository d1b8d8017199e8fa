/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_impl.h - facts about a machine, and what they mean
 *
 *	doctor.c           look, judge, print
 *	doctor_report.c    findings, and how they are printed
 *	doctor_sys.c       /sys: devices, ports, GIDs, counters  -> facts
 *	doctor_nic.c       PCI Express, caches of a NIC          -> facts
 *	doctor_host.c      /proc, /dev: limits, modules, nodes   -> facts
 *	doctor_nldev.c     the kernel's table of RDMA resources  -> facts
 *	doctor_tcp.c       TCP connections of our programs       -> facts
 *	doctor_route.c     which way to an address               -> facts
 *	doctor_ping.c      do packets of full size arrive        -> facts
 *	doctor_probe.c     what a server answers to HELLO        -> facts
 *	verbs_doctor.c     what only libibverbs knows            -> facts
 *	doctor_judge.c     the host and its devices  -> findings
 *	doctor_port.c      ports                     -> findings
 *	doctor_counters.c  counters                  -> findings
 *	doctor_path.c      the way to a target       -> findings
 *	doctor_programs.c  our running programs      -> findings
 *
 * What reads takes the folder that stands for /, so that a test can make one.
 * What judges is pure: facts in, findings out.
 */
#ifndef RF_DOCTOR_IMPL_H
#define RF_DOCTOR_IMPL_H

#include "doctor.h"
#include "fabric.h"
#include "figures.h"

#include <dirent.h>
#include <net/if.h>
#include <netinet/in.h>

/* What is beyond these is not looked at, and the report says so. */
enum {
	DOCTOR_DEVICES_MAX = 16,
	DOCTOR_PORTS_MAX = 2,
	DOCTOR_GIDS_MAX = 32,		/* of a port, that are not empty */
	DOCTOR_GID_TABLE_MAX = 1024,	/* entries looked at */
	DOCTOR_COUNTERS_MAX = 128,	/* of a port */
	DOCTOR_SETTINGS_MAX = 16,	/* of a device */
	DOCTOR_NETDEVS_MAX = 64,
	DOCTOR_PROGRAMS_MAX = 64,
	DOCTOR_FINDINGS_MAX = 512,
	DOCTOR_WORD = 48,
	DOCTOR_PATH = 256,		/* below the root */
	DOCTOR_TEXT = 400,
};

/* ---- findings ------------------------------------------------------------ */

enum doctor_severity {
	DOCTOR_OK,		/* looked at, and good */
	DOCTOR_NOTE,		/* worth knowing; nothing must be done */
	DOCTOR_WARNING,		/* works, but less well than it could */
	DOCTOR_PROBLEM,		/* does not work, or will not */
};

struct doctor_finding {
	enum doctor_severity severity;
	const char *code;		/* one word, for scripts; static */
	char subject[DOCTOR_WORD * 2];	/* findings of one stand together */
	char text[DOCTOR_TEXT];
	char advice[DOCTOR_TEXT];	/* "": nothing is to be done */
};

struct doctor_report {
	struct doctor_finding findings[DOCTOR_FINDINGS_MAX];
	unsigned int count;
	unsigned int left_out;
	char subject[DOCTOR_WORD * 2];	/* of what is added */
};

/* What the next findings are about. */
void doctor_subject(struct doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Add one; its advice, if any, by doctor_advise() behind it. */
void doctor_find(struct doctor_report *report, enum doctor_severity severity,
		 const char *code, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void doctor_advise(struct doctor_report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
unsigned int doctor_count(const struct doctor_report *report,
			  enum doctor_severity severity);
void doctor_print(const struct doctor_report *report, bool is_quiet);

/* ---- facts: devices ------------------------------------------------------ */

enum doctor_link { DOCTOR_LINK_IB, DOCTOR_LINK_ROCE, DOCTOR_LINK_IWARP };

struct doctor_gid {
	unsigned int index;
	uint8_t raw[16];
	char type[DOCTOR_WORD];		/* "RoCE v2", "IB/RoCE v1" */
	char netdev[IFNAMSIZ];
};

struct doctor_counter {
	char name[DOCTOR_WORD];
	uint64_t value;
	uint64_t grew;			/* since the first look */
};

struct doctor_port {
	unsigned int number;
	unsigned int state;		/* 4: active */
	char state_text[DOCTOR_WORD];	/* "4: ACTIVE" */
	char phys_state[DOCTOR_WORD];
	char rate[DOCTOR_WORD];
	enum doctor_link link;
	char netdev[IFNAMSIZ];		/* "": none found */
	uint32_t active_mtu, max_mtu;	/* bytes; 0: not known */
	struct doctor_gid gids[DOCTOR_GIDS_MAX];
	unsigned int gid_count;		/* that are not empty */
	struct doctor_counter counters[DOCTOR_COUNTERS_MAX];
	unsigned int counter_count;
};

struct doctor_setting {
	char name[DOCTOR_WORD * 2];
	char value[DOCTOR_WORD];
};

struct doctor_device {
	char name[DOCTOR_WORD];
	char driver[DOCTOR_WORD];	/* "": a device in software that does
					 * not say */
	char firmware[DOCTOR_WORD];
	bool is_iwarp;
	bool is_rxe, is_siw;
	struct doctor_port ports[DOCTOR_PORTS_MAX];
	unsigned int port_count;
	struct doctor_setting settings[DOCTOR_SETTINGS_MAX];
	unsigned int setting_count;

	/* PCI Express; 0: not known.  Tenths of GT/s, lanes. */
	unsigned int link_speed, link_speed_max, link_width, link_width_max;

	char node[DOCTOR_WORD];		/* "uverbs0"; "": ib_uverbs has none */
	int node_err;			/* 0, -ENOENT, -EACCES: /dev/infiniband */

	/* By libibverbs, if it could open the device. */
	bool is_open;
	int open_err;
	enum rf_level level;
	uint64_t max_mr_size;
	int max_qp, max_cqe, max_mr, max_mw, max_reads;

	/* By the kernel's table of resources; has_resources says if it spoke. */
	bool has_resources;
	uint64_t used_qp, used_cq, used_mr, used_pd;
};

struct doctor_netdev {
	char name[IFNAMSIZ];
	uint8_t mac[6];
	uint32_t mtu;
	bool is_up;			/* IFF_UP */
	bool has_carrier;
};

/* ---- facts: the host ----------------------------------------------------- */

struct doctor_node {
	bool is_there;
	int err;			/* of opening it */
};

struct doctor_tcp_counters {
	uint64_t out_segments, retransmitted, timeouts, listen_drops;
};

/* What a running rdmafs or rdmafsd holds. */
struct doctor_program {
	char name[16];			/* rdmafs, rdmafsd */
	int pid;
	uint64_t memlock;		/* its limit; UINT64_MAX: none */
	/* Of the kernel's RDMA table. */
	unsigned int qps, cqs, mrs;
	uint32_t cq_depth_most;
	uint64_t mr_bytes;
	/* Of its TCP connections. */
	unsigned int connections;
	uint64_t tcp_retransmitted;	/* segments, all connections */
	uint32_t tcp_rtt_us_most;
	uint32_t tcp_retries_most;	/* of one segment, just now */
	/* What it says itself: doctor_programs.c. */
	int figures_err;
	char figures[RF_FIGURES_MAX];
};

struct doctor_host {
	uint64_t memlock;		/* ours; UINT64_MAX: none */
	bool has_ipc_lock;		/* CAP_IPC_LOCK: the limit is not asked */
	uint64_t huge_total, huge_free, huge_size;
	uint64_t memory_available;
	bool has_core, has_uverbs, has_cm;	/* modules, or built in */
	bool has_verbs_class;		/* /sys/class/infiniband */
	struct doctor_node rdma_cm;	/* /dev/infiniband/rdma_cm */
	/* Network drivers whose RDMA half is not there: "mlx5_ib for mlx5_core". */
	char halves[4][DOCTOR_WORD];
	unsigned int half_count;
	struct doctor_tcp_counters tcp, tcp_grew;
};

/* ---- facts: the way to a target ------------------------------------------ */

struct doctor_path {
	struct doctor_target target;
	char address_text[64];
	struct sockaddr_storage address;
	socklen_t address_size;
	unsigned int address_count;	/* of the name; the first is judged */
	int resolve_err;		/* of getaddrinfo, 0: none */
	int route_err;
	char netdev[IFNAMSIZ];		/* that the route leaves by */
	char gateway[64];		/* "": on the link */
	struct sockaddr_storage source;
	char source_text[64];
	bool is_local;			/* an address of this host */
	bool is_any;			/* to listen on all; no way to judge */
	/* What rdma_cm says: the device, or "". */
	char rdma_device[DOCTOR_WORD];
	/* Do packets of the netdev's MTU arrive whole? */
	enum {
		DOCTOR_PING_NOT_TRIED,
		DOCTOR_PING_SILENT,	/* small ones are not answered */
		DOCTOR_PING_SMALL_ONLY,
		DOCTOR_PING_FULL,
	} ping;
	uint32_t ping_size, path_mtu;	/* tried; known to work, or 0 */
	struct doctor_answer {
		bool was_tried;
		char scheme[16];
		int err;		/* 0: HELLO was accepted */
		bool was_answered;	/* by a server of ours, if with err */
		char reason[RF_REASON_MAX + 1];
		struct rf_hello_limits limits;
		uint64_t features;
		uint16_t version;
		uint32_t elapsed_us;	/* connecting and HELLO */
		enum rf_level level;
	} answers[2];			/* verbs, iwarp */
};

struct doctor_facts {
	const struct doctor_question *question;
	bool was_built_with_verbs;
	struct doctor_host host;
	struct doctor_device devices[DOCTOR_DEVICES_MAX];
	unsigned int device_count;
	unsigned int devices_left_out;
	struct doctor_netdev netdevs[DOCTOR_NETDEVS_MAX];
	unsigned int netdev_count;
	struct doctor_program programs[DOCTOR_PROGRAMS_MAX];
	unsigned int program_count;
	struct doctor_path paths[DOCTOR_TARGETS_MAX];
	unsigned int path_count;
};

/* ---- reading ------------------------------------------------------------- */

/* One line of a file below root, without its end; false: not there.  [blocks] */
__attribute__((format(printf, 4, 5)))
bool doctor_read_line(const char *root, char *out, size_t size,
		      const char *format, ...);
/* The same of a number, decimal or 0x. */
__attribute__((format(printf, 3, 4)))
bool doctor_read_u64(const char *root, uint64_t *out, const char *format, ...);

/* A folder below root, or NULL; its next name that is no dot file. */
DIR *doctor_open_dir(const char *root, const char *path);
bool doctor_next_name(DIR *dir, char out[DOCTOR_WORD * 2]);
/* The last word of what a link points at, as "mlx5_core"; "": no link. */
void doctor_link_name(const char *root, char *out, size_t size,
		      const char *path);

/* doctor_nic.c: link_*, settings; after driver is known. */
void doctor_read_nic(const char *root, struct doctor_device *device);

/* doctor_sys.c: devices and netdevs. */
void doctor_read_devices(const char *root, struct doctor_facts *facts);
/* Add to grew of each counter what it has now more than in the facts. */
void doctor_read_counters_again(const char *root, struct doctor_facts *facts);

/* doctor_host.c */
void doctor_read_host(const char *root, struct doctor_facts *facts);
void doctor_read_tcp_counters(const char *root, struct doctor_tcp_counters *out);
void doctor_read_programs(const char *root, struct doctor_facts *facts);

/* verbs_doctor.c: MTU, limits, level of each device. */
void doctor_ask_verbs(struct doctor_facts *facts);

/* ---- judging ------------------------------------------------------------- */

void doctor_judge_host(const struct doctor_facts *facts,
		       struct doctor_report *report);
void doctor_judge_devices(const struct doctor_facts *facts,
			  struct doctor_report *report);
void doctor_judge_port(const struct doctor_facts *facts,
		       const struct doctor_device *device,
		       const struct doctor_port *port,
		       struct doctor_report *report);
void doctor_judge_counters(const struct doctor_facts *facts,
			   const struct doctor_device *device,
			   const struct doctor_port *port,
			   struct doctor_report *report);
void doctor_judge_tcp(const struct doctor_facts *facts,
		      struct doctor_report *report);
void doctor_judge_path(const struct doctor_facts *facts,
		       const struct doctor_path *path,
		       struct doctor_report *report);
void doctor_judge_programs(const struct doctor_facts *facts,
			   struct doctor_report *report);

const struct doctor_netdev *doctor_netdev(const struct doctor_facts *facts,
					  const char *name);

#endif /* RF_DOCTOR_IMPL_H */
