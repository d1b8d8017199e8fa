/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figures.c - a program tells its figures to its own user and to root, to nobody
 * else, and is not held up by who asks
 */
#include "libproto/figures.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
	struct rf_reactor *reactor;
	struct rf_figures figures;
	pthread_t thread;
	pthread_barrier_t is_open;
	unsigned int lines;		/* to log */
} program;

static void log_lines(void *context)
{
	(void)context;
	for (unsigned int i = 0; i < program.lines; i++)
		rf_log(RF_LOG_DEBUG, "figure: number=%u", i);
}

/* The reactor belongs to this thread, from its creation to its end. */
static void *run(void *unused)
{
	(void)unused;
	cr_assert_eq(rf_reactor_create(&program.reactor), 0);
	cr_assert_eq(rf_figures_open(&program.figures, program.reactor), 0);
	pthread_barrier_wait(&program.is_open);
	rf_reactor_run(program.reactor);
	rf_figures_close(&program.figures);
	rf_figures_close(&program.figures);
	rf_reactor_destroy(program.reactor);
	return NULL;
}

static void init(void)
{
	program.lines = 3;
	program.figures.log = log_lines;
	pthread_barrier_init(&program.is_open, NULL, 2);
	cr_assert_eq(pthread_create(&program.thread, NULL, run, NULL), 0);
	pthread_barrier_wait(&program.is_open);
}

static void fini(void)
{
	rf_reactor_stop(program.reactor);
	pthread_join(program.thread, NULL);
	pthread_barrier_destroy(&program.is_open);
}

TestSuite(figures, .init = init, .fini = fini, .timeout = 60);

Test(figures, who_asks_is_told_what_the_log_would_be)
{
	char text[RF_FIGURES_MAX];

	for (int i = 0; i < 3; i++) {
		cr_assert_eq(rf_figures_read(getpid(), 10000, text), 0);
		cr_expect_str_eq(text, "figure: number=0\nfigure: number=1\n"
				 "figure: number=2\n");
	}
}

Test(figures, what_has_no_room_is_left_out_by_whole_lines)
{
	char text[RF_FIGURES_MAX];
	size_t size;

	program.lines = 1000;
	cr_assert_eq(rf_figures_read(getpid(), 10000, text), 0);
	size = strlen(text);
	cr_expect_gt(size, RF_FIGURES_MAX - 40);
	cr_expect_eq(text[size - 1], '\n');
	cr_expect_null(strstr(text, "number=999"));
}

Test(figures, a_program_that_is_not_there_is_told_apart)
{
	char text[RF_FIGURES_MAX];

	cr_expect_eq(rf_figures_read(1 << 22, 100, text), -ENOENT);
	cr_expect_str_empty(text);
}

/* Its process is another than the one that is asked for. */
Test(figures, another_program_under_that_name_is_not_believed)
{
	char text[RF_FIGURES_MAX];
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	int size = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
			    "rdmafs-figures.%d", 1 << 22);

	cr_assert_eq(bind(fd, (const struct sockaddr *)&name,
			  (socklen_t)(sizeof(name.sun_family) + 1 +
				      (size_t)size)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_expect_eq(rf_figures_read(1 << 22, 100, text), -EPERM);
	close(fd);
}

Test(figures, a_stranger_is_told_nothing)
{
	char text[RF_FIGURES_MAX];
	pid_t parent = getpid(), child;
	int status;

	if (geteuid() != 0)
		cr_skip_test("needs root, to become somebody else");
	child = fork();
	if (child == 0)
		_exit(setuid(65534) == 0 &&
		      rf_figures_read(parent, 10000, text) == -EACCES ? 0 : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%d", status);
}

/* Who connects and does not read holds up neither the program nor the next. */
Test(figures, who_does_not_read_holds_nobody_up)
{
	char text[RF_FIGURES_MAX];
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fds[8];
	int size = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
			    "rdmafs-figures.%d", getpid());

	program.lines = 1000;
	for (size_t i = 0; i < RF_ARRAY_SIZE(fds); i++) {
		fds[i] = socket(AF_UNIX, SOCK_STREAM, 0);
		cr_assert_eq(connect(fds[i], (const struct sockaddr *)&name,
				     (socklen_t)(sizeof(name.sun_family) + 1 +
						 (size_t)size)), 0);
	}
	cr_expect_eq(rf_figures_read(getpid(), 10000, text), 0);
	for (size_t i = 0; i < RF_ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

/* Other threads' lines go to the log, not into the answer. */
Test(figures, capture_is_of_one_thread_and_ends)
{
	char text[64] = "";
	struct rf_log_capture capture = { .text = text, .room = sizeof(text) };

	rf_log_capture(&capture);
	rf_log(RF_LOG_DEBUG, "kept %d", 1);
	rf_log_capture(NULL);
	rf_log(RF_LOG_DEBUG, "not kept");
	cr_expect_str_eq(text, "kept 1\n");
	cr_expect_eq(capture.size, 7);
}
