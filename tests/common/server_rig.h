/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_rig.h - a whole storage server and raw clients of it, on one reactor
 *
 * The clients speak rpc.h and nothing above it, so a test can send what no
 * mount would.  The fabric is "loop", which is as harsh as fabric.h allows,
 * "loop-session", the same without windows, "iwarp" over the loopback
 * interface, or "verbs": the device and the address that the conformance suite
 * is told (fabric_rig.h).  Waiting is srig_until(): turns of the reactor until a
 * condition holds, or the test fails.
 *
 * "loop-virtual" is "loop" with the world's time for all timers, and workers'
 * jobs done in the reactor: nothing waits for real, and equal seeds give equal
 * runs.  There the server can also be killed: srig_kill().
 */
#ifndef TESTS_SERVER_RIG_H
#define TESTS_SERVER_RIG_H

#include "libproto/rpc.h"
#include "storage-server/server.h"
#include "storage-server/session.h"

#include <criterion/criterion.h>

enum {
	SRIG_PATIENCE_S = 30,
	SRIG_DIR_SIZE = 64,
	SRIG_DATA_BUFS = 24,		/* of 1 MiB, of all clients */
};

struct srig {
	struct config config;
	struct rf_reactor *reactor;
	struct server *server;
	char dir[SRIG_DIR_SIZE];
	bool is_loop, has_no_windows, is_virtual;
	char uri[64];			/* of the clients' fabric */
	struct rf_loop_world *world;
	struct rf_fabric *fab;		/* the clients' */
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_pool *pool;
	struct rf_mr *mr;
	/* Runs at the end of a turn, before the server writes its log out. */
	struct rf_hook before_flush;
	bool (*dies_if)(struct srig *rig);
	bool is_dying;			/* its remains were taken there */
	char remains[SRIG_DIR_SIZE];
	unsigned int kills;
};

/* Is there a device for "verbs", whose rights are of this level? */
bool srig_has_device(enum rf_level level);
#define SKIP_WITHOUT_DEVICE(level)					\
	do {								\
		if (!srig_has_device(level))				\
			cr_skip("needs a verbs device of this level (make " \
				"test-rdma)");				\
	} while (0)

/* Fill rig->config, and change it as you like before srig_start(). */
void srig_init(struct srig *rig, const char *scheme);
/* Options as on the command line: srig_set(rig, "sessions", "2"). */
void srig_set(struct srig *rig, const char *key, const char *value);
void srig_start(struct srig *rig);
/* Both, with exports "data" (all of the store) and nothing else. */
void srig_open(struct srig *rig, const char *scheme);
/* The server drains; all memory must have come back.  The store stays. */
void srig_stop(struct srig *rig);
void srig_close(struct srig *rig);

/*
 * Kill the server as SIGKILL would: what it has in memory is lost, answers that
 * are on their way too, and what it has written(2) stays.  srig_start() starts
 * the next one on that.  With dies_if set, its remains are those of the moment,
 * at the end of a turn and before the log is written out, when that was true;
 * then is_dying is set and srig_kill() is due.  Virtual time only.
 */
void srig_kill(struct srig *rig);

/* False if nothing is left to happen (in virtual time). */
bool srig_turn(struct srig *rig);
#define srig_until(rig, condition)					\
	do {								\
		uint64_t until_ns = rf_now_ns() +			\
				    SRIG_PATIENCE_S * UINT64_C(1000000000); \
		while (!(condition)) {					\
			srig_turn(rig);					\
			cr_assert(rf_now_ns() < until_ns,		\
				  "not within %d s: %s",		\
				  SRIG_PATIENCE_S, #condition);		\
		}							\
	} while (0)

/* Free buffers of the server's staging, in bytes; and how many there are. */
uint64_t srig_staging_free(const struct srig *rig);
uint64_t srig_staging_total(const struct srig *rig);

/* ---- clients ------------------------------------------------------------ */

struct sclient {
	struct srig *rig;
	struct rf_client *client;	/* NULL once closed */
	bool opened, closed;
	struct rf_hello_reply reply;
	rf_handle_t root;
	int err;
	char reason[RF_REASON_MAX + 1];
	struct rf_client_config config;
};

void sclient_init(struct srig *rig, struct sclient *client,
		  const char *export);
void sclient_connect(struct sclient *client);
/* The same, which may also fail at once: the error of rf_client_open(). */
int sclient_try(struct sclient *client);
/* All of it, and identity 1 is root, identity 2 user 1000 of group 1000. */
void sclient_open(struct srig *rig, struct sclient *client,
		  const char *export);
/* BYE, and wait. */
void sclient_bye(struct sclient *client);
/* Cut the connection, and wait until both sides have seen it: the session is
 * LOST.  Then also end it, as its lease would. */
bool sclient_is_lost(const struct sclient *client);
void sclient_lose(struct sclient *client);
void sclient_cut(struct sclient *client);
/* The server's end of it. */
struct session *sclient_session(const struct sclient *client);

/* ---- calls -------------------------------------------------------------- */

struct scall {
	struct rf_call call;
	struct sclient *client;
	struct rf_enc enc;
	bool done, queued;
	int err;
	uint8_t reply[40960];
	struct rf_results results[RF_OPS_MAX];
	unsigned int count;		/* results */
	struct rf_work works[RF_GRANTS_MAX];
	struct rf_sge sges[RF_GRANTS_MAX];
};

void scall_init(struct scall *call, struct sclient *client);
void scall_return(struct scall *call, uint32_t grant_id);
void scall_add(struct scall *call, const struct rf_args *args);
/* One-sided WRITE of data into a slot, in the batch of the message. */
void scall_fill(struct scall *call, const struct rf_grant *slot,
		struct rf_buf *data, uint32_t size);
void scall_submit(struct scall *call);
void scall_wait(struct scall *call);

/*
 * A message of USE handle and these operations, answered: the status of the
 * last result, RF_ST_OK only if all were done.
 */
unsigned int srun(struct sclient *client, struct scall *call, uint16_t identity,
		  const rf_handle_t *handle, const struct rf_args *args,
		  unsigned int count);
#define SRUN(client, call, identity, handle, ...)			\
	srun(client, call, identity, handle,				\
	     (const struct rf_args[]){ __VA_ARGS__ },			\
	     sizeof((const struct rf_args[]){ __VA_ARGS__ }) /		\
	     sizeof(struct rf_args))
/* The results of the operation number index after USE. */
#define SRES(call, index, lower) ((call)->results[(index) + 1].lower)

static inline rf_name_t sname(const char *text)
{
	return (rf_name_t){ text, (uint16_t)strlen(text) };
}

/* ---- whole moves -------------------------------------------------------- */

/* CREATE by root; the handle and the open. */
rf_handle_t smake(struct sclient *client, const char *name, uint32_t flags,
		  uint32_t *open);
/* READ, by whatever way the server chose; the data must be wanted.  Returns the
 * number of bytes. */
uint32_t sread(struct sclient *client, const rf_handle_t *handle,
	       uint32_t open, uint64_t offset, uint32_t size, void *out);
/* WRITE inside, or by slots of the session (asked for if needed). */
unsigned int swrite(struct sclient *client, const rf_handle_t *handle,
		    uint32_t open, uint64_t offset, const void *data,
		    uint32_t size);
/* One-sided READ of a grant into out; the fabric's status. */
int sfetch(struct sclient *client, const struct rf_grant *grant, void *out);
/* One-sided WRITE to an address; the fabric's status. */
int spoke(struct sclient *client, const struct rf_remote *remote);
/* Return a grant, also between turns. */
void sreturn(struct sclient *client, uint32_t grant_id);
/* Ask for slots; how many came. */
unsigned int sslots(struct sclient *client, unsigned int count, uint32_t size,
		    struct rf_grant *out);

/* Bytes that tell where they belong. */
void spattern(void *out, size_t size, uint64_t seed);

#endif /* TESTS_SERVER_RIG_H */
