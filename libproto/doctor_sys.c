/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_sys.c - what /sys says of RDMA devices and of network devices
 *
 * Source: Documentation/ABI/stable/sysfs-class-infiniband of Linux.  A file that
 * is not there leaves its fact empty; drivers differ in what they show.
 */
#include "doctor_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define IB "sys/class/infiniband"

/* ---- files --------------------------------------------------------------- */

__attribute__((format(printf, 4, 0)))
static bool read_line(const char *root, char *out, size_t size,
		      const char *format, va_list args)
{
	char path[PATH_MAX];
	int at = snprintf(path, sizeof(path), "%s/", root);
	ssize_t got;
	int fd;

	out[0] = '\0';
	vsnprintf(path + at, sizeof(path) - (size_t)at, format, args);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, out, size - 1);
	close(fd);
	if (got < 0)
		return false;
	out[got] = '\0';
	out[strcspn(out, "\n")] = '\0';
	return true;
}

bool doctor_read_line(const char *root, char *out, size_t size,
		      const char *format, ...)
{
	va_list args;
	bool is_there;

	va_start(args, format);
	is_there = read_line(root, out, size, format, args);
	va_end(args);
	return is_there;
}

bool doctor_read_u64(const char *root, uint64_t *out, const char *format, ...)
{
	char text[64], *end;
	va_list args;
	bool is_there;

	va_start(args, format);
	is_there = read_line(root, text, sizeof(text), format, args);
	va_end(args);
	*out = 0;
	if (!is_there)
		return false;
	*out = strtoull(text, &end, 0);
	return end != text;
}

void doctor_link_name(const char *root, char *out, size_t size,
		      const char *path)
{
	char full[PATH_MAX], target[PATH_MAX];
	const char *slash;
	ssize_t got;

	out[0] = '\0';
	snprintf(full, sizeof(full), "%s/%s", root, path);
	got = readlink(full, target, sizeof(target) - 1);
	if (got < 0)
		return;
	target[got] = '\0';
	slash = strrchr(target, '/');
	snprintf(out, size, "%.*s", (int)size - 1,
		 slash ? slash + 1 : target);
}

DIR *doctor_open_dir(const char *root, const char *path)
{
	char full[PATH_MAX];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	return opendir(full);
}

bool doctor_next_name(DIR *dir, char out[DOCTOR_WORD * 2])
{
	const struct dirent *entry;

	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    strlen(entry->d_name) < DOCTOR_WORD) {
			strcpy(out, entry->d_name);
			return true;
		}
	return false;
}

/* ---- GIDs ---------------------------------------------------------------- */

/* "fe80:0000:...": eight groups of four. */
static bool parse_gid(const char *text, uint8_t out[16])
{
	unsigned int group[8];

	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &group[0],
		   &group[1], &group[2], &group[3], &group[4], &group[5],
		   &group[6], &group[7]) != 8)
		return false;
	for (unsigned int i = 0; i < 8; i++) {
		out[2 * i] = (uint8_t)(group[i] >> 8);
		out[2 * i + 1] = (uint8_t)group[i];
	}
	return true;
}

static void read_gids(const char *root, const struct doctor_device *device,
		      struct doctor_port *port)
{
	static const uint8_t none[16];
	char text[64];

	for (unsigned int i = 0; i < DOCTOR_GID_TABLE_MAX &&
				 port->gid_count < DOCTOR_GIDS_MAX; i++) {
		struct doctor_gid *gid = &port->gids[port->gid_count];

		if (!doctor_read_line(root, text, sizeof(text),
				      IB "/%s/ports/%u/gids/%u", device->name,
				      port->number, i))
			return;
		if (!parse_gid(text, gid->raw) ||
		    memcmp(gid->raw, none, sizeof(none)) == 0)
			continue;
		gid->index = i;
		doctor_read_line(root, gid->type, sizeof(gid->type),
				 IB "/%s/ports/%u/gid_attrs/types/%u",
				 device->name, port->number, i);
		doctor_read_line(root, gid->netdev, sizeof(gid->netdev),
				 IB "/%s/ports/%u/gid_attrs/ndevs/%u",
				 device->name, port->number, i);
		port->gid_count++;
	}
}

/* ---- counters ------------------------------------------------------------ */

static void read_counter_folder(const char *root, const char *device,
				struct doctor_port *port, const char *folder)
{
	char path[DOCTOR_PATH], name[DOCTOR_WORD * 2];
	DIR *dir;

	snprintf(path, sizeof(path), IB "/%s/ports/%u/%s", device,
		 port->number, folder);
	dir = doctor_open_dir(root, path);
	if (!dir)
		return;
	while (port->counter_count < DOCTOR_COUNTERS_MAX &&
	       doctor_next_name(dir, name)) {
		struct doctor_counter *counter =
			&port->counters[port->counter_count];

		/* How long the driver keeps figures: no figure itself. */
		if (strcmp(name, "lifespan") == 0 ||
		    !doctor_read_u64(root, &counter->value, "%s/%s", path,
				     name))
			continue;
		strcpy(counter->name, name);
		port->counter_count++;
	}
	closedir(dir);
}

static void read_counters(const char *root, const char *device,
			  struct doctor_port *port)
{
	port->counter_count = 0;
	read_counter_folder(root, device, port, "counters");
	read_counter_folder(root, device, port, "hw_counters");
}

static void add_growth(struct doctor_port *port, const struct doctor_port *now)
{
	for (unsigned int i = 0; i < port->counter_count; i++)
		for (unsigned int j = 0; j < now->counter_count; j++) {
			struct doctor_counter *counter = &port->counters[i];

			if (strcmp(counter->name, now->counters[j].name) != 0)
				continue;
			/* Less than before: somebody has cleared it. */
			if (now->counters[j].value > counter->value)
				counter->grew += now->counters[j].value -
						 counter->value;
			counter->value = now->counters[j].value;
		}
}

void doctor_read_counters_again(const char *root, struct doctor_facts *facts)
{
	struct doctor_port now;

	for (unsigned int i = 0; i < facts->device_count; i++)
		for (unsigned int j = 0; j < facts->devices[i].port_count; j++) {
			struct doctor_port *port = &facts->devices[i].ports[j];

			now.number = port->number;
			read_counters(root, facts->devices[i].name, &now);
			add_growth(port, &now);
		}
}

/* ---- network devices ----------------------------------------------------- */

static void read_netdev(const char *root, struct doctor_netdev *netdev)
{
	char text[64];
	unsigned int mac[6];
	uint64_t value;

	if (doctor_read_u64(root, &value, "sys/class/net/%s/mtu", netdev->name))
		netdev->mtu = (uint32_t)value;
	if (doctor_read_u64(root, &value, "sys/class/net/%s/flags",
			    netdev->name))
		netdev->is_up = (value & IFF_UP) != 0;
	/* The file can't be read while the device is down. */
	if (doctor_read_u64(root, &value, "sys/class/net/%s/carrier",
			    netdev->name))
		netdev->has_carrier = value == 1;
	doctor_read_line(root, text, sizeof(text), "sys/class/net/%s/address",
			 netdev->name);
	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x", &mac[0], &mac[1], &mac[2],
		   &mac[3], &mac[4], &mac[5]) == 6)
		for (unsigned int i = 0; i < 6; i++)
			netdev->mac[i] = (uint8_t)mac[i];
}

static void read_netdevs(const char *root, struct doctor_facts *facts)
{
	char name[DOCTOR_WORD * 2];
	DIR *dir = doctor_open_dir(root, "sys/class/net");

	if (!dir)
		return;
	while (facts->netdev_count < DOCTOR_NETDEVS_MAX &&
	       doctor_next_name(dir, name)) {
		struct doctor_netdev *netdev =
			&facts->netdevs[facts->netdev_count];

		if (strlen(name) >= sizeof(netdev->name))
			continue;
		memset(netdev, 0, sizeof(*netdev));
		strcpy(netdev->name, name);
		read_netdev(root, netdev);
		facts->netdev_count++;
	}
	closedir(dir);
}

const struct doctor_netdev *doctor_netdev(const struct doctor_facts *facts,
					  const char *name)
{
	for (unsigned int i = 0; i < facts->netdev_count; i++)
		if (strcmp(facts->netdevs[i].name, name) == 0)
			return &facts->netdevs[i];
	return NULL;
}

/*
 * The first GID's; rxe's parent; an iWARP device's GID is the MAC of its netdev
 * (RFC 6581 devices have no GIDs of addresses); what hangs on the same PCI
 * function.
 */
static void find_netdev(const char *root, const struct doctor_facts *facts,
			const struct doctor_device *device,
			struct doctor_port *port)
{
	static const uint8_t none[6];
	char path[DOCTOR_PATH], name[DOCTOR_WORD * 2];
	DIR *dir;

	if (port->gid_count > 0 && port->gids[0].netdev[0]) {
		strcpy(port->netdev, port->gids[0].netdev);
		return;
	}
	if (doctor_read_line(root, port->netdev, sizeof(port->netdev),
			     IB "/%s/parent", device->name))
		return;
	for (unsigned int i = 0; device->is_iwarp && port->gid_count > 0 &&
				 i < facts->netdev_count; i++)
		if (memcmp(facts->netdevs[i].mac, port->gids[0].raw, 6) == 0 &&
		    memcmp(facts->netdevs[i].mac, none, 6) != 0) {
			strcpy(port->netdev, facts->netdevs[i].name);
			return;
		}
	snprintf(path, sizeof(path), IB "/%s/device/net", device->name);
	dir = doctor_open_dir(root, path);
	if (dir && doctor_next_name(dir, name) && strlen(name) < IFNAMSIZ)
		strcpy(port->netdev, name);
	if (dir)
		closedir(dir);
}

/* ---- ports --------------------------------------------------------------- */

static void read_port(const char *root, struct doctor_facts *facts,
		      struct doctor_device *device, unsigned int number)
{
	struct doctor_port *port = &device->ports[device->port_count++];
	char link[DOCTOR_WORD];

	port->number = number;
	doctor_read_line(root, port->state_text, sizeof(port->state_text),
			 IB "/%s/ports/%u/state", device->name, number);
	port->state = (unsigned int)atoi(port->state_text);
	doctor_read_line(root, port->phys_state, sizeof(port->phys_state),
			 IB "/%s/ports/%u/phys_state", device->name, number);
	doctor_read_line(root, port->rate, sizeof(port->rate),
			 IB "/%s/ports/%u/rate", device->name, number);
	doctor_read_line(root, link, sizeof(link),
			 IB "/%s/ports/%u/link_layer", device->name, number);
	port->link = device->is_iwarp ? DOCTOR_LINK_IWARP :
		     strcmp(link, "InfiniBand") == 0 ? DOCTOR_LINK_IB :
						       DOCTOR_LINK_ROCE;
	read_gids(root, device, port);
	find_netdev(root, facts, device, port);
	read_counters(root, device->name, port);
}

static void read_ports(const char *root, struct doctor_facts *facts,
		       struct doctor_device *device)
{
	char text[DOCTOR_WORD];

	for (unsigned int number = 1; number <= DOCTOR_PORTS_MAX; number++)
		if (doctor_read_line(root, text, sizeof(text),
				     IB "/%s/ports/%u/state", device->name,
				     number))
			read_port(root, facts, device, number);
}

/* ---- devices ------------------------------------------------------------- */

static void read_node(const char *root, struct doctor_device *device)
{
	char name[DOCTOR_WORD * 2], text[DOCTOR_WORD], path[PATH_MAX];
	DIR *dir = doctor_open_dir(root, "sys/class/infiniband_verbs");
	int fd;

	while (dir && !device->node[0] && doctor_next_name(dir, name))
		if (doctor_read_line(root, text, sizeof(text),
				     "sys/class/infiniband_verbs/%s/ibdev",
				     name) &&
		    strcmp(text, device->name) == 0)
			snprintf(device->node, sizeof(device->node), "%.*s",
				 DOCTOR_WORD - 1, name);
	if (dir)
		closedir(dir);
	if (!device->node[0])
		return;
	snprintf(path, sizeof(path), "%s/dev/infiniband/%s", root,
		 device->node);
	fd = open(path, O_RDWR | O_CLOEXEC);
	device->node_err = fd < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
}

static void read_device(const char *root, struct doctor_facts *facts,
			struct doctor_device *device)
{
	char text[DOCTOR_PATH];

	doctor_read_line(root, text, sizeof(text), IB "/%s/node_type",
			 device->name);
	device->is_iwarp = atoi(text) == 4;	/* RNIC */
	device->is_rxe = doctor_read_line(root, text, sizeof(text),
					  IB "/%s/parent", device->name);
	snprintf(text, sizeof(text), IB "/%s/device/driver", device->name);
	doctor_link_name(root, device->driver, sizeof(device->driver), text);
	if (device->is_rxe)
		strcpy(device->driver, "rdma_rxe");
	doctor_read_line(root, device->firmware, sizeof(device->firmware),
			 IB "/%s/fw_ver", device->name);
	doctor_read_nic(root, device);
	read_node(root, device);
	read_ports(root, facts, device);
}

void doctor_read_devices(const char *root, struct doctor_facts *facts)
{
	char name[DOCTOR_WORD * 2];
	DIR *dir;

	read_netdevs(root, facts);
	dir = doctor_open_dir(root, IB);
	if (!dir)
		return;
	while (doctor_next_name(dir, name)) {
		struct doctor_device *device;

		if (facts->device_count == DOCTOR_DEVICES_MAX) {
			facts->devices_left_out++;
			continue;
		}
		device = &facts->devices[facts->device_count++];
		memcpy(device->name, name, sizeof(device->name) - 1);
		read_device(root, facts, device);
	}
	closedir(dir);
}
