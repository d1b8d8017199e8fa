/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - rdmafsd: options, signals, the reactor
 *
 * Operation.  Signals come in through a descriptor that the reactor watches:
 * SIGTERM and SIGINT drain, a second one ends at once; SIGUSR1 and SIGHUP write
 * figures to the log.
 * Exit status.  0 after a drain, 1 when the server could not start, 2 when the
 * configuration is wrong.  With --doctor: 1 if it found a problem.
 */
#include "config.h"
#include "server.h"

#include "libproto/figures.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { EXIT_CONFIG = 2 };

struct program {
	struct rf_reactor *reactor;
	struct server *server;
	struct rf_watch signals;
	struct rf_figures figures;
	int signal_fd;
};

static void log_figures(void *context)
{
	server_log_figures(context);
}

static void stopped(struct server *server)
{
	rf_reactor_stop(server->reactor);
}

static void end_signal(struct program *program, uint32_t number)
{
	if (!program->server->is_draining) {
		server_stop(program->server, stopped);
		return;
	}
	rf_log(RF_LOG_WARN, "second signal %u: ending at once; the log is "
	       "replayed at the next start", number);
	_exit(EXIT_FAILURE);
}

static void on_signal(struct rf_watch *watch, uint32_t events)
{
	struct program *program = rf_container_of(watch, struct program,
						  signals);
	struct signalfd_siginfo info;

	(void)events;
	if (read(program->signal_fd, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
		end_signal(program, info.ssi_signo);
	else
		server_log_figures(program->server);
}

/* Before any thread is made, so that all inherit the mask. */
static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -errno;
	return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

/* Data files, connections and the engine's files need more than the usual
 * 1024 descriptors. */
static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		rf_log(RF_LOG_WARN, "the limit of open files stays low: %s",
		       strerror(errno));
}

/* Freed memory is kept: touching fresh pages is dear on some machines. */
static void tune_malloc(void)
{
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, -1);
}

static int serve(struct program *program, const struct config *config)
{
	int err;

	program->signal_fd = open_signals();
	if (program->signal_fd < 0)
		return -errno;
	err = rf_reactor_create(&program->reactor);
	if (err)
		return err;
	rf_reactor_set_poll_us(program->reactor, config->poll_us);
	err = server_create(config, program->reactor, &program->server);
	if (err)
		goto out;
	program->figures.log = log_figures;
	program->figures.context = program->server;
	/* The doctor must do without, if it can't be had. */
	if (rf_figures_open(&program->figures, program->reactor) < 0)
		rf_log(RF_LOG_WARN, "no socket to tell figures on");
	program->signals.ready = on_signal;
	err = rf_watch_start(program->reactor, &program->signals,
			     program->signal_fd, EPOLLIN);
	if (!err) {
		rf_reactor_run(program->reactor);
		rf_watch_stop(program->reactor, &program->signals);
	}
	rf_figures_close(&program->figures);
	server_destroy(program->server);
	if (!err)
		rf_log(RF_LOG_INFO, "stopped");
out:
	rf_reactor_destroy(program->reactor);
	close(program->signal_fd);
	return err;
}

int main(int argc, char **argv)
{
	struct program program = { .signal_fd = -1 };
	struct config config;
	int ret;

	rf_process_init();
	if (config_init(&config) < 0) {
		fputs("rdmafsd: no memory\n", stderr);
		return EXIT_FAILURE;
	}
	ret = config_parse(&config, argc, argv);
	if (ret == 0 && config.wants_doctor) {
		ret = server_doctor(&config);
	} else if (ret == 0) {
		rf_log_set_level(config.log_level);
		raise_file_limit();
		tune_malloc();
		ret = serve(&program, &config) ? EXIT_FAILURE : EXIT_SUCCESS;
	} else {
		ret = ret == CONFIG_SAID ? EXIT_SUCCESS : EXIT_CONFIG;
	}
	config_fini(&config);
	return ret;
}
