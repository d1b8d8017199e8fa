/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.c - a running program tells its figures to whoever may ask
 *
 * Operation.  One answer is one write of less than a socket takes by default, so
 * nobody is waited for: what can't be written at once is not written.
 */
#include "figures.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 8, ANSWERS_PER_TURN = 4 };

/* The abstract name; what bind() and connect() want as its size. */
static socklen_t name_of(int pid, struct sockaddr_un *out)
{
	int size;

	*out = (struct sockaddr_un){ .sun_family = AF_UNIX };
	size = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1,
			"rdmafs-figures.%d", pid);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)size);
}

static bool peer_of(int fd, struct ucred *out)
{
	socklen_t size = sizeof(*out);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, out, &size) == 0;
}

/* ---- telling ------------------------------------------------------------- */

static void answer(struct rf_figures *figures, int fd)
{
	char text[RF_FIGURES_MAX] = "";
	struct rf_log_capture capture = { .text = text,
					  .room = sizeof(text) };
	struct ucred peer;

	if (!peer_of(fd, &peer) || (peer.uid != 0 && peer.uid != geteuid()))
		return;
	rf_log_capture(&capture);
	figures->log(figures->context);
	rf_log_capture(NULL);
	if (send(fd, text, capture.size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		rf_log(RF_LOG_DEBUG, "figures could not be told: %s",
		       strerror(errno));
}

static void asked(struct rf_watch *watch, uint32_t events)
{
	struct rf_figures *figures = rf_container_of(watch, struct rf_figures,
						     watch);

	(void)events;
	for (int i = 0; i < ANSWERS_PER_TURN; i++) {
		int fd = accept4(figures->fd, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		answer(figures, fd);
		close(fd);
	}
}

int rf_figures_open(struct rf_figures *figures, struct rf_reactor *reactor)
{
	struct sockaddr_un name;
	socklen_t size = name_of(getpid(), &name);
	int err = 0;

	figures->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC |
			     SOCK_NONBLOCK, 0);
	if (figures->fd < 0)
		return -errno;
	figures->watch.ready = asked;
	figures->reactor = reactor;
	if (bind(figures->fd, (const struct sockaddr *)&name, size) < 0 ||
	    listen(figures->fd, BACKLOG) < 0)
		err = -errno;
	if (!err)
		err = rf_watch_start(reactor, &figures->watch, figures->fd,
				     EPOLLIN);
	if (err) {
		close(figures->fd);
		figures->reactor = NULL;
	}
	return err;
}

void rf_figures_close(struct rf_figures *figures)
{
	if (!figures->reactor)
		return;
	rf_watch_stop(figures->reactor, &figures->watch);
	close(figures->fd);
	figures->reactor = NULL;
}

void rf_figures_log_fabric(const char *word, const struct rf_fabric *fabric)
{
	struct rf_fabric_stats s;

	rf_fabric_stats(fabric, &s);
	/* Who makes one event of several completions: the device, by cq_count, or
	 * we, who look at what has gathered. */
	rf_log(RF_LOG_INFO, "%sfabric: name=%s level=%s registrations=%" PRIu64
	       " deregistrations=%" PRIu64 " binds=%" PRIu64 " invalidates=%"
	       PRIu64 " sends=%" PRIu64 " receives=%" PRIu64 " reads=%" PRIu64
	       " read_bytes=%" PRIu64 " writes=%" PRIu64 " write_bytes=%"
	       PRIu64 " reads_served=%" PRIu64 " read_bytes_served=%" PRIu64
	       " writes_landed=%" PRIu64 " write_bytes_landed=%" PRIu64
	       " rights_refused=%" PRIu64 " connects=%" PRIu64 " accepts=%"
	       PRIu64 " rejects=%" PRIu64 " closes=%" PRIu64
	       " retransmissions=%" PRIu64 " completions=%" PRIu64
	       " cq_events=%" PRIu64 " cq_overruns=%" PRIu64
	       " moderation=%s", word,
	       rf_fabric_scheme(fabric),
	       rf_fabric_level(fabric) == RF_LEVEL_WINDOW ? "window" :
							    "session",
	       s.registrations, s.deregistrations, s.binds, s.invalidates,
	       s.sends, s.recvs, s.reads, s.read_bytes, s.writes,
	       s.write_bytes, s.reads_served, s.read_bytes_served,
	       s.writes_landed, s.write_bytes_landed, s.rights_refused,
	       s.connects, s.accepts, s.rejects, s.closes, s.retransmissions,
	       s.completions, s.cq_events, s.cq_overruns,
	       rf_fabric_traits(fabric)->moderates_events ? "device" :
							    "polling");
}

/* ---- asking -------------------------------------------------------------- */

static int read_answer(int fd, unsigned int wait_ms, char out[RF_FIGURES_MAX])
{
	size_t size = 0;

	while (size < RF_FIGURES_MAX - 1) {
		struct pollfd waits = { .fd = fd, .events = POLLIN };
		ssize_t got;

		if (poll(&waits, 1, (int)wait_ms) <= 0)
			return -ETIMEDOUT;
		got = recv(fd, out + size, RF_FIGURES_MAX - 1 - size, 0);
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		size += (size_t)got;
	}
	out[size] = '\0';
	return size > 0 ? 0 : -EACCES;
}

int rf_figures_read(int pid, unsigned int wait_ms, char out[RF_FIGURES_MAX])
{
	struct sockaddr_un name;
	socklen_t size = name_of(pid, &name);
	struct ucred peer;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int err;

	out[0] = '\0';
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&name, size) < 0)
		err = errno == ECONNREFUSED ? -ENOENT : -errno;
	else if (!peer_of(fd, &peer) || peer.pid != pid)
		err = -EPERM;
	else
		err = read_answer(fd, wait_ms, out);
	close(fd);
	return err;
}
