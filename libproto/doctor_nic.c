/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_nic.c - how a NIC sits in its host, and what it caches, where its driver
 * shows that
 */
#include "doctor_impl.h"

#include <inttypes.h>
#include <stdio.h>

#define IB "sys/class/infiniband"

/* ---- PCI Express --------------------------------------------------------- */

/* "8.0 GT/s PCIe" -> 80, "16" -> 160. */
static unsigned int read_tenths(const char *root, const char *device,
				const char *file)
{
	char text[64];
	unsigned int whole = 0, tenth = 0;

	if (!doctor_read_line(root, text, sizeof(text), IB "/%s/device/%s",
			      device, file))
		return 0;
	if (sscanf(text, "%u.%1u", &whole, &tenth) < 1)
		return 0;
	return whole * 10 + tenth;
}

static void read_pci(const char *root, struct doctor_device *device)
{
	device->link_speed = read_tenths(root, device->name,
					 "current_link_speed");
	device->link_speed_max = read_tenths(root, device->name,
					     "max_link_speed");
	device->link_width = read_tenths(root, device->name,
					 "current_link_width") / 10;
	device->link_width_max = read_tenths(root, device->name,
					     "max_link_width") / 10;
}

/* ---- caches -------------------------------------------------------------- */

static void add_setting(struct doctor_device *device, const char *name,
			const char *value)
{
	struct doctor_setting *setting;

	if (device->setting_count == DOCTOR_SETTINGS_MAX)
		return;
	setting = &device->settings[device->setting_count++];
	snprintf(setting->name, sizeof(setting->name), "%s", name);
	snprintf(setting->value, sizeof(setting->value), "%s", value);
}

/*
 * Parameters of the driver that size what the device caches: translation tables
 * (mtt, mpt), contexts, keys.
 */
static bool concerns_cache(const char *name)
{
	static const char *const words[] = { "cache", "mtt", "mpt", "prefetch",
					     "log_num", "odp" };

	for (size_t i = 0; i < RF_ARRAY_SIZE(words); i++)
		if (strstr(name, words[i]))
			return true;
	return false;
}

static void read_parameters(const char *root, struct doctor_device *device,
			    const char *module)
{
	char path[DOCTOR_PATH], name[DOCTOR_WORD * 2], value[DOCTOR_WORD];
	char full[DOCTOR_WORD * 2];
	DIR *dir;

	snprintf(path, sizeof(path), "sys/module/%s/parameters", module);
	dir = doctor_open_dir(root, path);
	while (dir && doctor_next_name(dir, name))
		if (concerns_cache(name) &&
		    doctor_read_line(root, value, sizeof(value), "%s/%s", path,
				     name)) {
			snprintf(full, sizeof(full), "%.40s %.50s", module,
				 name);
			add_setting(device, full, value);
		}
	if (dir)
		closedir(dir);
}

/* mlx5 keeps registrations for reuse and tells how often one was missing. */
static void read_mr_cache(const char *root, struct doctor_device *device)
{
	char pci[DOCTOR_WORD], path[DOCTOR_PATH], name[DOCTOR_WORD * 2];
	char full[DOCTOR_WORD * 2], value[DOCTOR_WORD];
	uint64_t size, miss;
	DIR *dir;

	snprintf(path, sizeof(path), IB "/%s/device", device->name);
	doctor_link_name(root, pci, sizeof(pci), path);
	snprintf(path, sizeof(path), "sys/kernel/debug/mlx5/%s/mr_cache", pci);
	dir = pci[0] ? doctor_open_dir(root, path) : NULL;
	while (dir && doctor_next_name(dir, name)) {
		if (!doctor_read_u64(root, &size, "%s/%s/size", path, name) ||
		    !doctor_read_u64(root, &miss, "%s/%s/miss", path, name) ||
		    (size == 0 && miss == 0))
			continue;
		snprintf(full, sizeof(full), "mr_cache %.40s", name);
		snprintf(value, sizeof(value), "size %" PRIu64 ", missed %"
			 PRIu64, size, miss);
		add_setting(device, full, value);
	}
	if (dir)
		closedir(dir);
}

void doctor_read_nic(const char *root, struct doctor_device *device)
{
	read_pci(root, device);
	if (device->driver[0])
		read_parameters(root, device, device->driver);
	if (strcmp(device->driver, "mlx5_core") == 0) {
		read_parameters(root, device, "mlx5_ib");
		read_mr_cache(root, device);
	}
}
