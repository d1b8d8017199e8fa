/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_judge.c - what the facts about the host and its devices mean
 *
 * Pure: facts in, findings out.
 */
#include "doctor_impl.h"

#include <errno.h>
#include <inttypes.h>

enum { NEARLY_FULL_PERCENT = 90 };

static uint64_t mib(uint64_t bytes)
{
	return (bytes + (1 << 20) - 1) >> 20;
}

/* ---- the host ------------------------------------------------------------ */

static void judge_presence(const struct doctor_facts *facts,
			   struct doctor_report *report)
{
	const struct doctor_host *host = &facts->host;

	for (unsigned int i = 0; i < host->half_count; i++) {
		doctor_find(report, DOCTOR_WARNING, "module-missing",
			    "the RDMA half of a network driver is not loaded: "
			    "%s", host->halves[i]);
		doctor_advise(report, "modprobe %.*s",
			      (int)strcspn(host->halves[i], " "),
			      host->halves[i]);
	}
	if (facts->devices_left_out > 0)
		doctor_find(report, DOCTOR_NOTE, "devices-left-out",
			    "%u devices more than the %d that are shown",
			    facts->devices_left_out, DOCTOR_DEVICES_MAX);
	if (facts->device_count > 0)
		return;
	doctor_find(report, DOCTOR_NOTE, "no-device",
		    "no RDMA device is here%s; connections go over iwarp, in "
		    "user space over TCP", host->has_verbs_class ? "" :
		    " and no RDMA module is loaded");
	doctor_advise(report, "nothing, if there is no such hardware; a NIC "
		      "needs its driver's RDMA module; any network device can "
		      "have one in software: modprobe rdma_rxe; rdma link add "
		      "rxe0 type rxe netdev NAME");
}

static void judge_software(const struct doctor_facts *facts,
			   struct doctor_report *report)
{
	const struct doctor_host *host = &facts->host;

	if (facts->device_count == 0)
		return;
	if (!facts->was_built_with_verbs) {
		doctor_find(report, DOCTOR_WARNING, "built-without-verbs",
			    "this program was built without the RDMA libraries");
		doctor_advise(report, "build with libibverbs-dev and "
			      "librdmacm-dev, without VERBS=0");
	}
	if (!host->has_uverbs) {
		doctor_find(report, DOCTOR_PROBLEM, "module-missing",
			    "the module ib_uverbs is not loaded: programs "
			    "can't reach the devices");
		doctor_advise(report, "modprobe ib_uverbs");
	}
	if (!host->rdma_cm.is_there) {
		doctor_find(report, DOCTOR_PROBLEM, "no-rdma-cm",
			    "/dev/infiniband/rdma_cm is not there: no "
			    "connection can be made");
		doctor_advise(report, "modprobe rdma_ucm; in a container, hand "
			      "in all of /dev/infiniband");
	} else if (host->rdma_cm.err) {
		doctor_find(report, DOCTOR_PROBLEM, "node-access",
			    "/dev/infiniband/rdma_cm can't be opened: %s",
			    strerror(-host->rdma_cm.err));
		doctor_advise(report, "its mode should be 0666 (udev's rules "
			      "of rdma-core); in a container, allow the "
			      "device");
	} else {
		doctor_find(report, DOCTOR_OK, "rdma-cm",
			    "/dev/infiniband/rdma_cm can be used");
	}
}

/* What will count against the limit: rxe registers what it lends twice. */
static uint64_t pinned_by(const struct doctor_facts *facts)
{
	uint64_t size = facts->question->memory;

	for (unsigned int i = 0; i < facts->device_count; i++)
		if (facts->devices[i].is_rxe && facts->question->is_server)
			return 2 * size;
	return size;
}

static void judge_memlock(const struct doctor_facts *facts,
			  struct doctor_report *report)
{
	const struct doctor_host *host = &facts->host;
	const uint64_t size = pinned_by(facts);

	if (facts->device_count == 0)
		return;
	if (host->has_ipc_lock || host->memlock == UINT64_MAX) {
		doctor_find(report, DOCTOR_OK, "memlock",
			    "locked memory has no limit here%s",
			    host->has_ipc_lock ? " (CAP_IPC_LOCK)" : "");
		return;
	}
	if (host->memlock >= size) {
		doctor_find(report, DOCTOR_OK, "memlock",
			    "%" PRIu64 " MiB may be locked, %" PRIu64
			    " MiB will be registered", host->memlock >> 20,
			    mib(size));
		return;
	}
	doctor_find(report, DOCTOR_PROBLEM, "memlock",
		    "%" PRIu64 " KiB of memory may be locked, but %" PRIu64
		    " MiB would be registered", host->memlock >> 10, mib(size));
	doctor_advise(report, "ulimit -l unlimited; for good: memlock in "
		      "/etc/security/limits.conf, LimitMEMLOCK=infinity in a "
		      "systemd unit; or register less (%s)",
		      facts->question->is_server ? "--staging, --sessions" :
						   "-o memory=SIZE");
}

static void judge_huge_pages(const struct doctor_facts *facts,
			     struct doctor_report *report)
{
	const struct doctor_host *host = &facts->host;
	const uint64_t free_bytes = host->huge_free * host->huge_size;
	const uint64_t size = facts->question->memory;
	const uint64_t need = host->huge_size ?
		(size + host->huge_size - 1) / host->huge_size : 0;

	if (!facts->question->wants_huge_pages || host->huge_size == 0) {
		doctor_find(report, DOCTOR_OK, "huge-pages",
			    "%" PRIu64 " huge pages, %" PRIu64 " free; %s",
			    host->huge_total, host->huge_free,
			    facts->question->wants_huge_pages ?
			    "this kernel has none" : "not asked for");
		return;
	}
	if (free_bytes >= size) {
		doctor_find(report, DOCTOR_OK, "huge-pages",
			    "%" PRIu64 " huge pages are free, %" PRIu64
			    " will be taken", host->huge_free, need);
		return;
	}
	/* The server takes them where there are some; a client was told to. */
	doctor_find(report, facts->question->is_server ? DOCTOR_NOTE :
							 DOCTOR_WARNING,
		    "huge-pages", "%" PRIu64 " huge pages are free of %" PRIu64
		    ", but registered memory would take %" PRIu64 ": small "
		    "pages are used", host->huge_free, host->huge_total, need);
	doctor_advise(report, "sysctl vm.nr_hugepages=%" PRIu64 " (a NIC then "
		      "keeps fewer translations in its cache)",
		      host->huge_total + need - host->huge_free);
}

static void judge_room(const struct doctor_facts *facts,
		       struct doctor_report *report)
{
	const uint64_t size = facts->question->memory;

	if (facts->host.memory_available == 0 ||
	    facts->host.memory_available >= size)
		return;
	doctor_find(report, DOCTOR_WARNING, "memory",
		    "%" PRIu64 " MiB of memory are available, %" PRIu64
		    " MiB would be touched at start",
		    facts->host.memory_available >> 20, mib(size));
	doctor_advise(report, "free memory, or register less");
}

void doctor_judge_host(const struct doctor_facts *facts,
		       struct doctor_report *report)
{
	doctor_subject(report, "This host");
	judge_presence(facts, report);
	judge_software(facts, report);
	judge_memlock(facts, report);
	judge_huge_pages(facts, report);
	judge_room(facts, report);
}

/* ---- a device ------------------------------------------------------------ */

static void judge_node(const struct doctor_device *device,
		       struct doctor_report *report)
{
	if (!device->node[0])
		return;		/* ib_uverbs is missing: said of the host */
	if (device->node_err == -ENOENT) {
		doctor_find(report, DOCTOR_PROBLEM, "node-missing",
			    "/dev/infiniband/%s is not there", device->node);
		doctor_advise(report, "udevadm trigger; in a container, hand "
			      "in all of /dev/infiniband");
	} else if (device->node_err) {
		doctor_find(report, DOCTOR_PROBLEM, "node-access",
			    "/dev/infiniband/%s can't be opened: %s",
			    device->node, strerror(-device->node_err));
		doctor_advise(report, "its mode should be 0666 (udev's rules "
			      "of rdma-core); in a container, allow the "
			      "device");
	}
}

static void judge_open(const struct doctor_facts *facts,
		       const struct doctor_device *device,
		       struct doctor_report *report)
{
	if (!facts->was_built_with_verbs)
		return;
	if (!device->is_open) {
		/* Why not has been said, unless the library lacks a driver. */
		if (!device->node[0] || device->node_err)
			return;
		doctor_find(report, DOCTOR_PROBLEM, "device-open",
			    "libibverbs does not open it: %s",
			    strerror(-device->open_err));
		doctor_advise(report, "install the package with its user-space "
			      "driver (ibverbs-providers); ibv_devices says "
			      "what is known");
		return;
	}
	doctor_find(report, DOCTOR_OK, "device",
		    "opens; firmware %s; %s",
		    device->firmware[0] ? device->firmware : "none",
		    device->level == RF_LEVEL_WINDOW ?
		    "rights by memory windows" :
		    "no memory windows: rights by region, until the "
		    "connection ends");
	doctor_find(report, DOCTOR_OK, "limits",
		    "at most %d queue pairs, %d entries in a completion queue, "
		    "%d regions, %d windows, %d Reads in flight",
		    device->max_qp, device->max_cqe, device->max_mr,
		    device->max_mw, device->max_reads);
}

static void judge_depth(const struct doctor_facts *facts,
			const struct doctor_device *device,
			struct doctor_report *report)
{
	const struct doctor_question *question = facts->question;

	if (!device->is_open)
		return;
	/* One completion queue serves both queues of a connection. */
	if (device->max_cqe < 2 * question->send_depth) {
		doctor_find(report, DOCTOR_WARNING, "cq-depth",
			    "a completion queue has at most %d entries; a send "
			    "queue of %u may not fit", device->max_cqe,
			    question->send_depth);
		doctor_advise(report, "-o send_depth=%d", device->max_cqe / 4);
	}
	if (device->max_mr_size < question->memory) {
		doctor_find(report, DOCTOR_PROBLEM, "region-size",
			    "a region has at most %" PRIu64 " MiB, %" PRIu64
			    " MiB would be registered as one",
			    device->max_mr_size >> 20, mib(question->memory));
		doctor_advise(report, "register less memory");
	}
}

static void judge_share(const char *what, uint64_t used, int most,
			struct doctor_report *report)
{
	if (most <= 0 || used * 100 < (uint64_t)most * NEARLY_FULL_PERCENT)
		return;
	doctor_find(report, DOCTOR_WARNING, "resources",
		    "%" PRIu64 " of its %d %s are taken", used, most, what);
	doctor_advise(report, "rdma resource show says by whom");
}

static void judge_resources(const struct doctor_device *device,
			    struct doctor_report *report)
{
	if (!device->has_resources) {
		doctor_find(report, DOCTOR_NOTE, "resources",
			    "this kernel does not tell what is registered");
		return;
	}
	doctor_find(report, DOCTOR_OK, "registrations",
		    "in use by all programs: %" PRIu64 " regions, %" PRIu64
		    " queue pairs, %" PRIu64 " completion queues",
		    device->used_mr, device->used_qp, device->used_cq);
	if (!device->is_open)
		return;
	judge_share("regions", device->used_mr, device->max_mr, report);
	judge_share("queue pairs", device->used_qp, device->max_qp, report);
}

static void judge_pci(const struct doctor_device *device,
		      struct doctor_report *report)
{
	const bool is_slow = device->link_speed < device->link_speed_max;
	const bool is_narrow = device->link_width < device->link_width_max;

	if (device->link_speed == 0 || device->link_width == 0)
		return;
	doctor_find(report, is_slow || is_narrow ? DOCTOR_WARNING : DOCTOR_OK,
		    "pci", "PCI Express at %u.%u GT/s x%u, of %u.%u GT/s x%u",
		    device->link_speed / 10, device->link_speed % 10,
		    device->link_width, device->link_speed_max / 10,
		    device->link_speed_max % 10, device->link_width_max);
	if (is_slow || is_narrow)
		doctor_advise(report, "put it into a slot of its speed and "
			      "width; check the slot's setting in the firmware");
}

static void show_settings(const struct doctor_device *device,
			  struct doctor_report *report)
{
	for (unsigned int i = 0; i < device->setting_count; i++)
		doctor_find(report, DOCTOR_OK, "cache", "%s: %s",
			    device->settings[i].name,
			    device->settings[i].value);
	if (device->setting_count == 0)
		doctor_find(report, DOCTOR_OK, "cache",
			    "its driver shows no settings of the NIC's caches");
}

void doctor_judge_devices(const struct doctor_facts *facts,
			  struct doctor_report *report)
{
	for (unsigned int i = 0; i < facts->device_count; i++) {
		const struct doctor_device *device = &facts->devices[i];

		doctor_subject(report, "%s%s%s%s", device->name,
			       device->driver[0] ? " (" : "", device->driver,
			       device->driver[0] ? ")" : "");
		judge_node(device, report);
		judge_open(facts, device, report);
		judge_depth(facts, device, report);
		judge_resources(device, report);
		judge_pci(device, report);
		show_settings(device, report);
		for (unsigned int j = 0; j < device->port_count; j++)
			doctor_judge_port(facts, device, &device->ports[j],
					  report);
	}
}
