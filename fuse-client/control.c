/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control.c - the daemon's end of what it and its supervisor say to each other
 *
 * Operation.  One byte says what it is, see supervisor.h.  To hand over is to
 * end as if killed, but at a good moment: nothing more is read from the kernel,
 * and what was read is answered first, as far as it is in time.
 *
 * When it fails.  Without a supervisor the mount goes on; it ends with us then.
 */
#include "fs.h"

#include "supervisor.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DRAIN_MS = 5000 };

static void leave(struct fs *fs)
{
	rf_log(RF_LOG_INFO, "handing the mount on %s over",
	       fs->options.mountpoint);
	_exit(EXIT_HANDED_OVER);
}

static bool is_drained(const struct fs *fs)
{
	/* Callers that wait for locks wait on, if the kernel tells of them. */
	if (fs->parked > 0 && !fs->keep->kernel_resends)
		return false;
	for (unsigned int i = 0; i < REQUESTS_MAX; i++)
		if (fs->requests[i].state != REQUEST_FREE)
			return false;
	return fs->backlog.count == 0;
}

static void end_of_turn(struct rf_hook *hook)
{
	struct fs *fs = rf_container_of(hook, struct fs, drain_hook);

	if (is_drained(fs))
		leave(fs);
}

static void stop_draining(struct fs *fs)
{
	rf_timer_stop(fs->reactor, &fs->drain_timer);
	if (fs->is_draining)
		rf_hook_remove(fs->reactor, &fs->drain_hook);
	fuse_io_pause(fs, false);
}

static void out_of_time(struct rf_timer *timer)
{
	struct fs *fs = rf_container_of(timer, struct fs, drain_timer);

	/* What is left is sent again. */
	if (fs->keep->kernel_resends)
		leave(fs);
	stop_draining(fs);
	supervisor_tell(fs->control_fd, SUPERVISOR_BUSY, -1);
}

static void drain(struct fs *fs)
{
	if (fs->is_draining)
		return;
	fuse_io_pause(fs, true);
	fs->drain_hook.run = end_of_turn;
	rf_hook_add(fs->reactor, &fs->drain_hook);
	fs->drain_timer.fire = out_of_time;
	rf_timer_start(fs->reactor, &fs->drain_timer, DRAIN_MS);
}

static void lose(struct fs *fs)
{
	rf_log(RF_LOG_WARN, "the supervisor of the mount on %s is gone: the "
	       "mount goes on, but ends with this process; unmount it and mount "
	       "it again to have one", fs->options.mountpoint);
	control_fini(fs);
	close(fs->control_fd);
	fs->control_fd = -1;
}

static void asked(struct rf_watch *watch, uint32_t events)
{
	struct fs *fs = rf_container_of(watch, struct fs, control_watch);
	char what;
	ssize_t got = recv(fs->control_fd, &what, 1, MSG_DONTWAIT);

	(void)events;
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		lose(fs);
	else if (what == SUPERVISOR_HAND_OVER)
		drain(fs);
}

int control_init(struct fs *fs)
{
	if (fs->control_fd < 0)
		return 0;
	fs->control_watch.ready = asked;
	return rf_watch_start(fs->reactor, &fs->control_watch, fs->control_fd,
			      EPOLLIN);
}

void control_fini(struct fs *fs)
{
	if (fs->control_watch.is_started)
		rf_watch_stop(fs->reactor, &fs->control_watch);
	if (fs->is_draining)
		stop_draining(fs);
}
