/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base.h - what every file may use: assertions, little-endian access, lists, log
 *
 * Threads.  Everything here is [any].
 */
#ifndef RF_BASE_H
#define RF_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RF_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define rf_container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

static inline uint64_t rf_min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t rf_max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Round up to a multiple of a power of two. */
static inline uint64_t rf_align_up(uint64_t value, uint64_t power)
{
	return (value + power - 1) & ~(power - 1);
}

/* ---- broken contracts: abort, in release builds too -------------------- */

__attribute__((noreturn, cold)) void rf_bug(const char *file, int line,
					     const char *what);

#define RF_ASSERT(cond) \
	((cond) ? (void)0 : rf_bug(__FILE__, __LINE__, #cond))

/* ---- little-endian bytes ------------------------------------------------ */

static inline void rf_store_u16(void *at, uint16_t v)
{
	memcpy(at, &v, sizeof(v));
}

static inline void rf_store_u32(void *at, uint32_t v)
{
	memcpy(at, &v, sizeof(v));
}

static inline void rf_store_u64(void *at, uint64_t v)
{
	memcpy(at, &v, sizeof(v));
}

static inline uint16_t rf_load_u16(const void *at)
{
	uint16_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static inline uint32_t rf_load_u32(const void *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static inline uint64_t rf_load_u64(const void *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the load and store helpers above assume a little-endian host"
#endif

/* ---- intrusive doubly linked list -------------------------------------- */

struct rf_list {
	struct rf_list *next, *prev;
};

static inline void rf_list_init(struct rf_list *head)
{
	head->next = head->prev = head;
}

static inline bool rf_list_is_empty(const struct rf_list *head)
{
	return head->next == head;
}

static inline void rf_list_push(struct rf_list *head, struct rf_list *item)
{
	item->prev = head->prev;
	item->next = head;
	head->prev->next = item;
	head->prev = item;
}

/* Leaves the item empty, so that removing it again is harmless. */
static inline void rf_list_remove(struct rf_list *item)
{
	item->prev->next = item->next;
	item->next->prev = item->prev;
	rf_list_init(item);
}

/* The first item, taken off, or NULL. */
static inline struct rf_list *rf_list_pop(struct rf_list *head)
{
	struct rf_list *item = head->next;

	if (item == head)
		return NULL;
	rf_list_remove(item);
	return item;
}

/* All items of from go to the end of head, in their order. */
static inline void rf_list_take_all(struct rf_list *head, struct rf_list *from)
{
	if (rf_list_is_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	rf_list_init(from);
}

#define rf_list_for_each(pos, head) \
	for ((pos) = (head)->next; (pos) != (head); (pos) = (pos)->next)

/* ---- a process ---------------------------------------------------------- */

/* First of all in main(): stdin, stdout and stderr are open, and limits, signals
 * and umask are what a program needs that serves others. */
void rf_process_init(void);
/* Behind strerror(-err) of memory that was not to be had. */
const char *rf_process_hint(int err);

/* ---- log ---------------------------------------------------------------- */

enum rf_log_level {
	RF_LOG_ERROR,	/* an operator must act */
	RF_LOG_WARN,	/* something works less well than it should */
	RF_LOG_INFO,	/* a state change that an operator expects to see */
	RF_LOG_DEBUG,
};

/*
 * Write one line, "LEVEL text", to stderr (or to syslog after
 * rf_log_to_syslog()).  A line is one write, so lines never mix.
 */
void rf_log(enum rf_log_level level, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void rf_log_set_level(enum rf_log_level level);
enum rf_log_level rf_log_get_level(void);
/* From this level on, in the order above; what is more urgent goes to stderr. */
void rf_log_to_syslog(const char *program, enum rf_log_level from);

/*
 * While capture is not NULL, what this thread logs is appended to its text, at
 * every level, and goes nowhere else; what has no room is left out.
 */
struct rf_log_capture {
	char *text;		/* always ends in 0 */
	size_t room, size;
};
void rf_log_capture(struct rf_log_capture *capture);

/* "error", "warn", "info" or "debug"; -EINVAL for another word. */
int rf_log_parse_level(const char *word, enum rf_log_level *out);

/* ---- time and chance ---------------------------------------------------- */

/* CLOCK_BOOTTIME in nanoseconds: goes on in suspend, never back. */
uint64_t rf_now_ns(void);

/* Fill with random bytes from the kernel; aborts if there are none. */
void rf_random(void *out, size_t size);

/*
 * CRC32C (Castagnoli) of data, with the usual initial value and final xor; pass
 * the last result as seed to go on, 0 to begin.  Source: RFC 3720 B.4.
 */
uint32_t rf_crc32c(uint32_t seed, const void *data, size_t size);

#endif /* RF_BASE_H */
