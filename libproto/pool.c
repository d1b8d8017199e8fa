/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.c - the arena, its classes, who waits
 *
 * Operation.  A class is a run of equal buffers with a stack of free ones (the
 * last put is the first got: it is still in the cache) and a queue of waiters.
 * Put serves the queue; when a waiter's ready() puts again, the put that is
 * under way serves on, so the stack of calls does not grow.
 * Ownership.  A free buffer's link is the pool's, a lent one's the holder's.
 * When it fails.  Creation undoes itself.  A buffer put twice, or by a wrong
 * pool, aborts.
 */
#include "pool.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
	BUF_ALIGN = 4096,
	POISON = 0xa5,
	NAME_SIZE = 32,
};

#define HUGE_PAGE_SIZE (2u << 20)

/*
 * What a device pins beside the arena: queues of work and completions.  A few
 * hundred KiB a connection; asked for in advance so that the limit that we tell
 * the operator lasts.
 */
#define PIN_EXTRA (64u << 20)

struct pool_class {
	uint32_t size, count, free_count, lowest_free, waiting;
	uint64_t gets, waits;
	struct rf_list free;
	struct rf_list waiters;
	bool is_serving;	/* a put below us on the stack serves waiters */
};

struct rf_pool {
	char name[NAME_SIZE];
	int memfd;
	uint8_t *base;
	size_t size;
	bool has_huge_pages;
	bool is_poisoning;
	unsigned int class_count;
	struct pool_class classes[RF_POOL_CLASSES_MAX];
#ifdef RF_DEBUG
	pthread_t owner;
	bool owner_is_known;
#endif
	uint32_t buf_count;
	struct rf_buf bufs[];
};

/* The first to call an [owner] function is the owner. */
static void check_owner(struct rf_pool *pool)
{
#ifdef RF_DEBUG
	if (!pool->owner_is_known) {
		pool->owner = pthread_self();
		pool->owner_is_known = true;
	}
	RF_ASSERT(pthread_equal(pool->owner, pthread_self()));
#else
	(void)pool;
#endif
}

/* ---- the arena ------------ */

static int map_arena(struct rf_pool *pool, size_t size, unsigned int flags)
{
	int err;

	pool->memfd = memfd_create(pool->name, MFD_CLOEXEC | flags);
	if (pool->memfd < 0)
		return -errno;
	if (ftruncate(pool->memfd, (off_t)size)) {
		err = -errno;
		goto close_memfd;
	}
	pool->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
			  pool->memfd, 0);
	if (pool->base == MAP_FAILED) {
		err = -errno;
		goto close_memfd;
	}
	pool->size = size;
	return 0;
close_memfd:
	close(pool->memfd);
	return err;
}

/*
 * Touch each page from here: the first touch of a page costs microseconds on
 * virtual machines, also where the kernel has populated the mapping.
 */
static void touch_arena(struct rf_pool *pool)
{
	volatile uint8_t *base = pool->base;

	for (size_t at = 0; at < pool->size; at += BUF_ALIGN)
		base[at] = 0;
}

/* More than the machine has would end in the OOM killer, not in an error. */
static int check_memory(const struct rf_pool *pool, size_t size)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) *
			  (uint64_t)sysconf(_SC_PAGESIZE);

	if (size < memory)
		return 0;
	rf_log(RF_LOG_ERROR, "%s: buffers of %zu MiB asked for, but this host "
	       "has %" PRIu64 " MiB of memory: ask for less", pool->name,
	       size >> 20, memory >> 20);
	return -ENOMEM;
}

static int open_arena(struct rf_pool *pool, size_t size, bool wants_huge_pages)
{
	int err = check_memory(pool, size);

	if (err)
		return err;
	if (wants_huge_pages) {
		err = map_arena(pool, rf_align_up(size, HUGE_PAGE_SIZE),
				MFD_HUGETLB);
		pool->has_huge_pages = err == 0;
		if (err)
			rf_log(RF_LOG_INFO, "%s: no huge pages (%s), taking "
			       "small ones; to have them, set vm.nr_hugepages "
			       "to %zu more", pool->name, strerror(-err),
			       (size + HUGE_PAGE_SIZE - 1) / HUGE_PAGE_SIZE);
	}
	if (!pool->has_huge_pages) {
		err = map_arena(pool, size, 0);
		if (err) {
			rf_log(RF_LOG_ERROR, "%s: cannot map %zu MiB of "
			       "buffers: %s%s", pool->name, size >> 20,
			       strerror(-err), rf_process_hint(err));
			return err;
		}
		/* A wish, too: where it is not granted all works the same. */
		madvise(pool->base, size, MADV_HUGEPAGE);
	}
	touch_arena(pool);
	return 0;
}

/* ---- life ------------ */

static size_t check_config(const struct rf_pool_config *config,
			   uint32_t *buf_count)
{
	size_t size = 0;

	RF_ASSERT(config->class_count > 0 &&
		  config->class_count <= RF_POOL_CLASSES_MAX);
	*buf_count = 0;
	for (unsigned int i = 0; i < config->class_count; i++) {
		const struct rf_pool_class *class = &config->classes[i];

		RF_ASSERT(class->size > 0 && class->size % BUF_ALIGN == 0);
		RF_ASSERT(i == 0 || class->size > class[-1].size);
		RF_ASSERT(class->count <= UINT32_MAX - *buf_count);
		*buf_count += class->count;
		size += (size_t)class->size * class->count;
	}
	RF_ASSERT(size > 0);
	return size;
}

static void carve(struct rf_pool *pool, const struct rf_pool_config *config)
{
	uint8_t *mem = pool->base;
	uint32_t index = 0;

	for (unsigned int i = 0; i < config->class_count; i++) {
		struct pool_class *class = &pool->classes[i];

		class->size = config->classes[i].size;
		class->count = config->classes[i].count;
		class->free_count = class->lowest_free = class->count;
		rf_list_init(&class->free);
		rf_list_init(&class->waiters);
		for (uint32_t k = 0; k < class->count; k++, index++) {
			struct rf_buf *buf = &pool->bufs[index];

			buf->mem = mem;
			buf->size = class->size;
			buf->index = index;
			buf->pool = pool;
			buf->class_index = i;
			rf_list_push(&class->free, &buf->link);
			mem += class->size;
		}
	}
}

static bool wants_poison(void)
{
	const char *value = getenv("RF_POOL_DEBUG");

	return value && strcmp(value, "1") == 0;
}

int rf_pool_create(const struct rf_pool_config *config, struct rf_pool **out)
{
	struct rf_pool *pool;
	uint32_t buf_count;
	size_t size = check_config(config, &buf_count);
	int err;

	pool = calloc(1, sizeof(*pool) + buf_count * sizeof(pool->bufs[0]));
	if (!pool)
		return -ENOMEM;
	snprintf(pool->name, sizeof(pool->name), "%s", config->name);
	err = open_arena(pool, size, config->wants_huge_pages);
	if (err) {
		free(pool);
		return err;
	}
	pool->class_count = config->class_count;
	pool->buf_count = buf_count;
	pool->is_poisoning = wants_poison();
	carve(pool, config);
	*out = pool;
	return 0;
}

void rf_pool_destroy(struct rf_pool *pool)
{
	RF_ASSERT(rf_pool_report_lent(pool) == 0);
	munmap(pool->base, pool->size);
	close(pool->memfd);
	free(pool);
}

int rf_pool_memfd(const struct rf_pool *pool)
{
	return pool->memfd;
}

void *rf_pool_base(const struct rf_pool *pool)
{
	return pool->base;
}

size_t rf_pool_size(const struct rf_pool *pool)
{
	return pool->size;
}

/* ---- registration ------------ */

/* What this process has pinned so far, in bytes; 0 if the kernel won't say. */
static uint64_t pinned_so_far(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	uint64_t kib = 0;
	char line[128];

	if (!status)
		return 0;
	while (fgets(line, sizeof(line), status))
		if (sscanf(line, "VmPin: %" SCNu64, &kib) == 1)
			break;
	fclose(status);
	return kib << 10;
}

/* Raise the limit as far as we may; what counts is whether pinning succeeds. */
static void raise_memlock(uint64_t need)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need)
		return;
	limit.rlim_cur = need;
	if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < need)
		limit.rlim_max = need;	/* only root may */
	if (setrlimit(RLIMIT_MEMLOCK, &limit) == 0)
		return;
	if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_MEMLOCK, &limit);
	}
}

static void explain_memlock(const struct rf_pool *pool, uint64_t need)
{
	struct rlimit limit = { 0 };
	uint64_t kib = need >> 10;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	rf_log(RF_LOG_ERROR, "%s: cannot pin %zu MiB of buffers: the limit on "
	       "locked memory is %" PRIu64 " KiB, %" PRIu64 " KiB are needed; "
	       "set \"memlock %" PRIu64 "\" in /etc/security/limits.conf and "
	       "log in again, or LimitMEMLOCK=%" PRIu64 "K in the systemd unit",
	       pool->name, pool->size >> 20, (uint64_t)limit.rlim_cur >> 10,
	       kib, kib, kib);
}

int rf_pool_register(struct rf_pool *pool, struct rf_pd *pd, unsigned int access,
		     struct rf_mr **out)
{
	bool pins = rf_fabric_pins_memory(rf_pd_fabric(pd));
	uint64_t need = 0;
	int err;

	if (pins) {
		need = pinned_so_far() + pool->size + PIN_EXTRA;
		raise_memlock(need);
	}
	err = rf_mr_register(pd, pool->base, pool->size, access, out);
	if (err == -ENOMEM && pins)
		explain_memlock(pool, need);
	else if (err)
		rf_log(RF_LOG_ERROR, "%s: cannot register %zu MiB of buffers: "
		       "%s", pool->name, pool->size >> 20, strerror(-err));
	return err;
}

/* ---- get and put ------------ */

static unsigned int find_class(const struct rf_pool *pool, uint32_t size)
{
	for (unsigned int i = 0; i < pool->class_count; i++)
		if (pool->classes[i].size >= size)
			return i;
	rf_bug(__FILE__, __LINE__, "no class of the pool is that large");
}

static struct rf_buf *lend(struct pool_class *class, const char *file, int line)
{
	struct rf_buf *buf = rf_container_of(rf_list_pop(&class->free),
					     struct rf_buf, link);

	buf->holder_file = file;
	buf->holder_line = line;
	class->gets++;
	if (--class->free_count < class->lowest_free)
		class->lowest_free = class->free_count;
	return buf;
}

struct rf_buf *rf_pool_get_at(struct rf_pool *pool, uint32_t size,
			      const char *file, int line)
{
	struct pool_class *class = &pool->classes[find_class(pool, size)];

	check_owner(pool);
	if (class->waiting > 0 || class->free_count == 0)
		return NULL;
	return lend(class, file, line);
}

static void serve_waiters(struct pool_class *class)
{
	if (class->is_serving)
		return;
	class->is_serving = true;
	while (class->waiting > 0 && class->free_count > 0) {
		struct rf_pool_waiter *waiter =
			rf_container_of(rf_list_pop(&class->waiters),
					struct rf_pool_waiter, link);

		class->waiting--;
		waiter->is_waiting = false;
		waiter->ready(waiter, lend(class, waiter->file, waiter->line));
	}
	class->is_serving = false;
}

void rf_pool_wait_at(struct rf_pool *pool, uint32_t size,
		     struct rf_pool_waiter *waiter, const char *file, int line)
{
	struct pool_class *class;

	check_owner(pool);
	RF_ASSERT(waiter->ready && !waiter->is_waiting);
	waiter->class_index = find_class(pool, size);
	waiter->file = file;
	waiter->line = line;
	waiter->is_waiting = true;
	class = &pool->classes[waiter->class_index];
	rf_list_push(&class->waiters, &waiter->link);
	class->waiting++;
	class->waits++;
}

void rf_pool_cancel(struct rf_pool *pool, struct rf_pool_waiter *waiter)
{
	check_owner(pool);
	if (!waiter->is_waiting)
		return;
	rf_list_remove(&waiter->link);
	waiter->is_waiting = false;
	pool->classes[waiter->class_index].waiting--;
}

void rf_pool_put(struct rf_buf *buf)
{
	struct rf_pool *pool = buf->pool;
	struct pool_class *class = &pool->classes[buf->class_index];
	struct rf_list *top = &class->free;

	check_owner(pool);
	RF_ASSERT(buf == &pool->bufs[buf->index] && buf->holder_file);
	if (pool->is_poisoning)
		memset(buf->mem, POISON, buf->size);
	buf->holder_file = NULL;
	/* At the head: the last in is the first out. */
	buf->link.prev = top;
	buf->link.next = top->next;
	top->next->prev = &buf->link;
	top->next = &buf->link;
	class->free_count++;
	serve_waiters(class);
}

/* ---- what it holds ------------ */

void rf_pool_stats(const struct rf_pool *pool, struct rf_pool_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->class_count = pool->class_count;
	out->has_huge_pages = pool->has_huge_pages;
	for (unsigned int i = 0; i < pool->class_count; i++) {
		const struct pool_class *class = &pool->classes[i];

		out->classes[i].size = class->size;
		out->classes[i].count = class->count;
		out->classes[i].free = class->free_count;
		out->classes[i].lowest_free = class->lowest_free;
		out->classes[i].waiting = class->waiting;
		out->classes[i].gets = class->gets;
		out->classes[i].waits = class->waits;
	}
}

unsigned int rf_pool_report_lent(const struct rf_pool *pool)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < pool->buf_count; i++) {
		const struct rf_buf *buf = &pool->bufs[i];

		if (!buf->holder_file)
			continue;
		rf_log(RF_LOG_WARN, "%s: buffer %" PRIu32 " of %" PRIu32
		       " bytes is lent to %s:%d", pool->name, buf->index,
		       buf->size, buf->holder_file, buf->holder_line);
		count++;
	}
	return count;
}
