/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config_file.c - the INI file
 *
 *	[server]
 *	listen = iwarp://[::]:20490
 *	store = /srv/rdmafs
 *
 *	[export data]
 *	path = /data
 *	allow = 192.0.2.0/24 2001:db8::/32
 *
 * Operation.  libinih splits the lines, config.c knows the words.  libinih cuts
 * a line at its limit and takes the rest for another one, so its reader is ours
 * and refuses such lines.
 */
#include "config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>

struct reading {
	struct config *config;
	const char *path;
	FILE *file;
	int line;
	bool was_said;		/* a complaint is on stderr already */
	bool line_is_long;
};

static char *read_line(char *out, int room, void *context)
{
	struct reading *reading = context;
	char *line = fgets(out, room, reading->file);
	size_t size;

	if (!line)
		return NULL;
	reading->line++;
	size = strlen(line);
	if (size > 0 && line[size - 1] != '\n' && !feof(reading->file)) {
		reading->line_is_long = true;
		return NULL;
	}
	return line;
}

static int take(struct reading *reading, const char *place,
		const char *section, const char *name, const char *value)
{
	static const char prefix[] = "export ";

	if (strcmp(section, "server") == 0)
		return config_set(reading->config, place, name, value);
	if (strncmp(section, prefix, sizeof(prefix) - 1) == 0)
		return config_set_export(reading->config, place,
					 section + sizeof(prefix) - 1, name,
					 value);
	fprintf(stderr, "rdmafsd: %s: '%s' stands in section [%s], but there "
		"are only [server] and [export NAME]\n", place, name, section);
	return -EINVAL;
}

static int on_word(void *context, const char *section, const char *name,
		   const char *value)
{
	struct reading *reading = context;
	char place[CONFIG_TEXT_MAX + 32];

	if (reading->was_said)
		return 0;
	snprintf(place, sizeof(place), "%s:%d", reading->path, reading->line);
	if (take(reading, place, section, name, value) == 0)
		return 1;
	reading->was_said = true;
	return 0;
}

int config_read_file(struct config *config, const char *path)
{
	struct reading reading = { .config = config, .path = path };
	int bad_line;

	reading.file = fopen(path, "re");
	if (!reading.file) {
		fprintf(stderr, "rdmafsd: cannot read configuration %s: %s\n",
			path, strerror(errno));
		return -EINVAL;
	}
	bad_line = ini_parse_stream(read_line, &reading, on_word, &reading);
	fclose(reading.file);
	if (reading.was_said)
		return -EINVAL;
	if (reading.line_is_long)
		fprintf(stderr, "rdmafsd: %s:%d: the line is longer than %d "
			"bytes\n", path, reading.line, INI_MAX_LINE - 2);
	else if (bad_line != 0)
		fprintf(stderr, "rdmafsd: %s:%d: not a [section] and not "
			"'name = value'\n", path, bad_line);
	return reading.line_is_long || bad_line ? -EINVAL : 0;
}
