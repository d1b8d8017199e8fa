/* SPDX-License-Identifier: Apache-2.0 */
/*
 * complain.c - the one line that says why a command failed
 */
#include "client.h"

#include <stdio.h>
#include <unistd.h>

static const char *command_word;
static bool goes_to_syslog;

void complain_set_command(const char *command)
{
	command_word = command;
}

void complain_to_syslog(void)
{
	rf_log_to_syslog("rdmafs", RF_LOG_ERROR);
	goes_to_syslog = true;
}

void complain(const char *format, ...)
{
	char text[1024], line[1200];
	va_list args;
	int size;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (goes_to_syslog) {
		rf_log(RF_LOG_ERROR, "%s", text);
		return;
	}
	size = snprintf(line, sizeof(line), "rdmafs: %s%s%s\n",
			command_word ? command_word : "",
			command_word ? ": " : "", text);
	if (write(STDERR_FILENO, line, (size_t)size) < 0)
		return;		/* nobody is left to be told */
}
