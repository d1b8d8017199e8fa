/* SPDX-License-Identifier: Apache-2.0 */
/*
 * elsewhere.c - who has a mount in another mount namespace
 *
 * Operation.  A namespace (of a container, of unshare -m) begins with copies of all
 * mounts, and mostly what is unmounted outside stays mounted in it.  The kernel tells
 * the daemon of the end of a mount when the last copy is gone.  So after an unmount we
 * look for the mount's device in what each process sees, one process for each
 * namespace as far as they come in a row.
 *
 * When it fails.  What /proc does not show to this user is not found.
 */
#include "client.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of /proc/PID/ns/mnt; 0: not to be seen. */
static ino_t namespace_of(int proc_fd, const char *pid)
{
	char path[288];
	struct stat st;

	snprintf(path, sizeof(path), "%s/ns/mnt", pid);
	return fstatat(proc_fd, path, &st, 0) == 0 ? st.st_ino : 0;
}

static FILE *open_text(int proc_fd, const char *pid, const char *name)
{
	char path[288];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", pid, name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : fdopen(fd, "r");
}

static bool sees(int proc_fd, const char *pid, const char *device)
{
	FILE *file = open_text(proc_fd, pid, "mountinfo");
	char *line = NULL, at[32];
	size_t room = 0;
	bool found = false;

	if (!file)
		return false;
	while (!found && getline(&line, &room, file) > 0)
		/* Its number may be another file system's by now. */
		found = sscanf(line, "%*s %*s %31s", at) == 1 &&
			strcmp(at, device) == 0 &&
			strstr(line, " - " MOUNTING_TYPE " ");
	free(line);
	fclose(file);
	return found;
}

static void name_process(int proc_fd, const char *pid, char *out, size_t room)
{
	FILE *file = open_text(proc_fd, pid, "comm");
	char name[64] = "?";

	if (file) {
		if (fgets(name, sizeof(name), file))
			name[strcspn(name, "\n")] = '\0';
		fclose(file);
	}
	snprintf(out, room, "%.16s (process %.16s)", name, pid);
}

bool mounting_elsewhere(const char *device, char *out, size_t room)
{
	DIR *proc = opendir("/proc");
	const struct dirent *entry;
	ino_t ours, last, now;
	bool found = false;

	if (!proc)
		return false;
	last = ours = namespace_of(dirfd(proc), "self");
	while (!found && (entry = readdir(proc))) {
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
			continue;
		now = namespace_of(dirfd(proc), entry->d_name);
		if (now == 0 || now == ours || now == last)
			continue;
		last = now;
		found = sees(dirfd(proc), entry->d_name, device);
		if (found)
			name_process(dirfd(proc), entry->d_name, out, room);
	}
	closedir(proc);
	return found;
}
