/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool.h - the arena: memory registered once at start, lent in buffers
 *
 * One memfd, mapped, touched and registered once, cut into buffers of a few
 * size classes.  A buffer is got, used for I/O and put back; when none is free
 * a waiter queues, first come first served per class, instead of failing.
 * Nothing is mapped, registered or allocated per request.
 *
 * Threads.  A pool belongs to one reactor's thread [owner], but for creation
 * and statistics [any]; a program with several reactors gives each a pool, so
 * that a buffer never changes threads and no lock is taken.  Debug builds
 * (-DRF_DEBUG) check it.
 *
 * Ownership.  A buffer belongs to who got it until put, and remembers who that
 * is (file and line).  With RF_POOL_DEBUG=1 in the environment buffers that are
 * put are filled with 0xa5, so that who still reads them sees it.
 *
 * When it fails.  Create says in words what to set (memlock, huge pages are
 * only a wish).  Get never blocks.
 */
#ifndef RF_POOL_H
#define RF_POOL_H

#include "base.h"
#include "fabric.h"

struct rf_pool;

enum { RF_POOL_CLASSES_MAX = 8 };

struct rf_pool_class {
	uint32_t size;		/* of each buffer, a multiple of 4096 */
	uint32_t count;
};

struct rf_pool_config {
	const char *name;	/* for logs */
	struct rf_pool_class classes[RF_POOL_CLASSES_MAX];	/* by size */
	unsigned int class_count;
	bool wants_huge_pages;	/* taken if there are any, else said once */
};

struct rf_buf {
	uint8_t *mem;		/* 4096-aligned */
	uint32_t size;
	uint32_t index;		/* within the pool */
	struct rf_pool *pool;
	struct rf_list link;	/* while lent: the holder's to use */
	unsigned int class_index;	/* private from here on */
	const char *holder_file;	/* NULL: free */
	int holder_line;
};

struct rf_pool_waiter {
	/*
	 * Called once, with a buffer that is the waiter's, from a put; may get
	 * and put itself.
	 */
	void (*ready)(struct rf_pool_waiter *waiter, struct rf_buf *buf);
	struct rf_list link;	/* private from here on */
	unsigned int class_index;
	bool is_waiting;
	const char *file;
	int line;
};

/*
 * Map and touch the arena.  [blocks]
 *
 * -ENOMEM and so on.  Logged.
 */
int rf_pool_create(const struct rf_pool_config *config, struct rf_pool **out);

/* All buffers must be back and no region registered; regions are withdrawn with
 * rf_mr_deregister(). */
void rf_pool_destroy(struct rf_pool *pool);

/*
 * Register the whole arena in pd; once per fabric.  [any] [blocks]
 * Where the fabric pins memory, RLIMIT_MEMLOCK is checked first and raised if
 * we may; if pinning fails, the log says which value to set where.
 *
 * Errors as rf_mr_register(); logged.
 */
int rf_pool_register(struct rf_pool *pool, struct rf_pd *pd, unsigned int access,
		     struct rf_mr **out);

/* The arena: for a successor process, and for whoever registers a part. */
int rf_pool_memfd(const struct rf_pool *pool);
void *rf_pool_base(const struct rf_pool *pool);
size_t rf_pool_size(const struct rf_pool *pool);

/* A buffer of the smallest class that holds size, or NULL: none free there, or
 * others wait for that class.  size above the largest class aborts.  [owner] */
#define rf_pool_get(pool, size) \
	rf_pool_get_at((pool), (size), __FILE__, __LINE__)
struct rf_buf *rf_pool_get_at(struct rf_pool *pool, uint32_t size,
			      const char *file, int line);

/* Queue for one, when get gave NULL.  [owner] */
#define rf_pool_wait(pool, size, waiter) \
	rf_pool_wait_at((pool), (size), (waiter), __FILE__, __LINE__)
void rf_pool_wait_at(struct rf_pool *pool, uint32_t size,
		     struct rf_pool_waiter *waiter, const char *file, int line);
/* Leave the queue; harmless if not in it.  [owner] */
void rf_pool_cancel(struct rf_pool *pool, struct rf_pool_waiter *waiter);

/* Hands it to the first waiter of its class, if any.  [owner] */
void rf_pool_put(struct rf_buf *buf);

struct rf_pool_stats {
	unsigned int class_count;
	struct {
		uint32_t size, count, free, lowest_free, waiting;
		uint64_t gets, waits;
	} classes[RF_POOL_CLASSES_MAX];
	bool has_huge_pages;
};
void rf_pool_stats(const struct rf_pool *pool, struct rf_pool_stats *out);

/* Log each lent buffer with its holder, where known; returns how many.  [owner] */
unsigned int rf_pool_report_lent(const struct rf_pool *pool);

#endif /* RF_POOL_H */
