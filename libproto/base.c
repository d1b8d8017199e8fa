/* SPDX-License-Identifier: Apache-2.0 */
#include "base.h"

#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

static enum rf_log_level log_level = RF_LOG_INFO;
static enum rf_log_level syslog_from = RF_LOG_DEBUG + 1;
static __thread struct rf_log_capture *log_capture;

static const char *const level_words[] = { "error", "warn", "info", "debug" };

void rf_bug(const char *file, int line, const char *what)
{
	rf_log(RF_LOG_ERROR, "bug: %s:%d: broken contract: %s", file, line, what);
	abort();
}

void rf_log_set_level(enum rf_log_level level)
{
	log_level = level;
}

enum rf_log_level rf_log_get_level(void)
{
	return log_level;
}

void rf_log_to_syslog(const char *program, enum rf_log_level from)
{
	openlog(program, LOG_PID, LOG_DAEMON);
	syslog_from = from;
}

void rf_log_capture(struct rf_log_capture *capture)
{
	log_capture = capture;
}

/* A whole line or nothing of it. */
__attribute__((format(printf, 2, 0)))
static void append(struct rf_log_capture *capture, const char *format,
		   va_list args)
{
	const size_t room = capture->room - capture->size;
	int size = vsnprintf(capture->text + capture->size, room, format, args);

	if (size >= 0 && (size_t)size + 2 <= room) {
		capture->size += (size_t)size;
		capture->text[capture->size++] = '\n';
	}
	capture->text[capture->size] = '\0';
}

int rf_log_parse_level(const char *word, enum rf_log_level *out)
{
	for (size_t i = 0; i < RF_ARRAY_SIZE(level_words); i++)
		if (strcmp(word, level_words[i]) == 0) {
			*out = (enum rf_log_level)i;
			return 0;
		}
	return -EINVAL;
}

void rf_log(enum rf_log_level level, const char *format, ...)
{
	static const int priorities[] = { LOG_ERR, LOG_WARNING, LOG_INFO,
					  LOG_DEBUG };
	char line[1024];
	int prefix, size;
	va_list args;

	if (log_capture) {
		va_start(args, format);
		append(log_capture, format, args);
		va_end(args);
		return;
	}
	if (level > log_level)
		return;
	prefix = snprintf(line, sizeof(line), "%s ", level_words[level]);
	va_start(args, format);
	size = vsnprintf(line + prefix, sizeof(line) - (size_t)prefix - 1,
			 format, args);
	va_end(args);
	if (size < 0)
		return;
	size += prefix;
	if ((size_t)size > sizeof(line) - 2)
		size = sizeof(line) - 2;
	if (level >= syslog_from) {
		syslog(priorities[level], "%s", line + prefix);
		return;
	}
	line[size++] = '\n';
	/* A log that can't be written has nowhere to say so. */
	if (write(STDERR_FILENO, line, (size_t)size) < 0)
		return;
}

uint64_t rf_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void rf_random(void *out, size_t size)
{
	unsigned char *at = out;

	while (size > 0) {
		ssize_t got = getrandom(at, size, 0);

		if (got < 0) {
			RF_ASSERT(errno == EINTR);
			continue;
		}
		at += got;
		size -= (size_t)got;
	}
}

uint32_t rf_crc32c(uint32_t seed, const void *data, size_t size)
{
	const unsigned char *at = data;
	uint32_t crc = ~seed;

	/* The library takes an int, so go in pieces of 1 GiB. */
	while (size > 0) {
		int piece = size > (1u << 30) ? 1 << 30 : (int)size;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)at, piece, crc);
		at += piece;
		size -= (size_t)piece;
	}
	return ~crc;
}
