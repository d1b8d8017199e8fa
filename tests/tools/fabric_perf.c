/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_perf.c - how fast a fabric is, beside plain TCP in the same run
 *
 *	fabric_perf [OPTIONS]			both ends, over loopback
 *	fabric_perf [OPTIONS] --listen HOST:PORT	the passive end
 *	fabric_perf [OPTIONS] HOST:PORT			the active end
 *
 * The two ends are those of rdmafs tune (tune_end.h).  Plain TCP runs on the next
 * higher port, unless --no-tcp: a ping-pong, and a stream each way.  --poll: both
 * ends spin and never sleep.  --size and --depth measure only these; --trips does so
 * many messages there and back, however long it takes.
 *
 * Everything is measured in turn, several times over, and the median taken, so
 * that a busy machine disturbs fabric and TCP alike; and all of them walk through
 * the same amount of memory, so that no cache favours one.  --plain: the fabric
 * moves one block again and again, and posts and signals each work alone, as
 * perftest does.  --json FILE writes one object a line: send_SIZE, read_SIZE_DEPTH,
 * write_SIZE_DEPTH, tcp_ping_SIZE, tcp_out_SIZE, tcp_in_SIZE.
 */
#include "fuse-client/tune_end.h"

#include "libproto/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SIZE_MAX_BYTES = TUNE_BLOCK_MAX,
	ROWS_MAX = 128,
	ROUNDS_MAX = 9,
	FOR_EVER_US = 1000000,	/* of spinning before a sleep */
	TRIPS_MAX = 65536,
};

static const uint32_t sizes[] = { 64, 4096, 65536, SIZE_MAX_BYTES };
static const unsigned int depths[] = { 1, 4, 16 };

static struct {
	const char *uri;
	double seconds;		/* of one measurement */
	unsigned int rounds;
	const char *json;	/* file, or NULL */
	bool is_quick;
	const char *only;	/* rows whose name begins so; NULL: all */
	bool polls, has_no_tcp, is_plain;
	uint32_t size;		/* 0: all */
	unsigned int depth;	/* 0: all */
	unsigned int trips;	/* of SEND; 0: for seconds */
} options = { .uri = "iwarp://", .seconds = 0.1, .rounds = 3 };

static void die(const char *what, int err)
{
	fprintf(stderr, "fabric_perf: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void check(int err, const char *what)
{
	if (err < 0)
		die(what, err);
}

/* ---- one end of a fabric connection ------------------------------------ */

static struct tune_end end;

static uint8_t *map_touched(size_t size)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		die("memory", -errno);
	memset(at, 0x5a, size);
	return at;
}

static void open_end(bool is_passive)
{
	check(tune_end_open(&end, options.uri, NULL, is_passive,
			    SIZE_MAX_BYTES), options.uri);
	end.poll_us = options.polls ? FOR_EVER_US : 0;
}

/* Until the one connection has come and gone. */
static void serve_one(void)
{
	while (end.connections == 0)
		if (options.polls)
			rf_poller_run(end.poller, 64);
		else
			rf_poller_wait(end.poller, 64, -1);
}

/* ---- plain TCP --------------------------------------------------------- */

enum tcp_mode {
	TCP_ECHO,	/* answer each message of the size */
	TCP_SINK,	/* swallow, and answer one byte at the end */
	TCP_SOURCE,	/* send until the peer closes */
};

struct tcp_order {
	uint32_t mode, size;
	uint64_t count;	/* TCP_SINK: messages */
};

static bool read_whole(int fd, uint8_t *at, size_t size)
{
	while (size) {
		ssize_t n = read(fd, at, size);

		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

static bool write_whole(int fd, const uint8_t *at, size_t size)
{
	while (size) {
		ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		at += n;
		size -= (size_t)n;
	}
	return true;
}

static void no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Where message N of a connection is: as one-sided operations do, wrap around. */
static uint8_t *message_at(uint8_t *data, uint64_t n, uint32_t size)
{
	return data + n * size % TUNE_SCRATCH;
}

static void serve_tcp_connection(int fd, uint8_t *data)
{
	struct tcp_order order;
	bool goes_on = true;
	uint64_t n = 0;
	uint8_t *at;

	no_delay(fd);
	if (!read_whole(fd, (uint8_t *)&order, sizeof(order)) ||
	    order.size == 0 || TUNE_SCRATCH % order.size)
		return;
	if (order.mode == TCP_SINK) {
		while (goes_on && n < order.count) {
			at = message_at(data, n++, order.size);
			goes_on = read_whole(fd, at, order.size);
		}
		write_whole(fd, data, 1);
		return;
	}
	while (goes_on) {
		at = message_at(data, n++, order.size);
		goes_on = (order.mode == TCP_SOURCE ||
			   read_whole(fd, at, order.size)) &&
			  write_whole(fd, at, order.size);
	}
}

static void *serve_tcp(void *arg)
{
	int listener = *(int *)arg;
	uint8_t *data = map_touched(TUNE_SCRATCH);
	int fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		serve_tcp_connection(fd, data);
		close(fd);
	}
	return NULL;
}

static int tcp_connect(const struct sockaddr_storage *addr, socklen_t addr_size)
{
	int fd = socket(addr->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)addr, addr_size) < 0)
		die("connect plain TCP", -errno);
	no_delay(fd);
	return fd;
}

/* ---- addresses --------------------------------------------------------- */

static socklen_t addr_size_of(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					   : sizeof(struct sockaddr_in);
}

static void set_port(struct sockaddr_storage *addr, uint16_t port)
{
	if (addr->ss_family == AF_INET6)
		((struct sockaddr_in6 *)addr)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)addr)->sin_port = htons(port);
}

static uint16_t get_port(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)addr)->sin6_port);
	return ntohs(((const struct sockaddr_in *)addr)->sin_port);
}

/* HOST:PORT or [HOST]:PORT, numbers only. */
static struct sockaddr_storage parse_address(const char *text)
{
	struct sockaddr_storage addr = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&addr;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&addr;
	const char *colon = strrchr(text, ':');
	bool is_v6 = text[0] == '[';
	char host[64];
	size_t size;
	int ok;

	if (!colon || (size_t)(colon - text) >= sizeof(host))
		die(text, -EINVAL);
	size = (size_t)(colon - text) - (is_v6 ? 2 : 0);
	memcpy(host, text + is_v6, size);
	host[size] = '\0';
	if (is_v6)
		addr.ss_family = AF_INET6;
	ok = is_v6 ? inet_pton(AF_INET6, host, &in6->sin6_addr)
		   : inet_pton(AF_INET, host, &in->sin_addr);
	if (ok != 1)
		die(text, -EINVAL);
	set_port(&addr, (uint16_t)atoi(colon + 1));
	return addr;
}

/* ---- the passive end --------------------------------------------------- */

/* Tell the parent both ports, serve one connection, and go. */
static void serve(const char *where, int report_fd)
{
	struct sockaddr_storage addr = parse_address(where);
	int tcp = socket(addr.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	uint16_t ports[2] = { get_port(&addr), 0 };
	socklen_t size = sizeof(addr);
	pthread_t thread;
	int one = 1;

	open_end(true);
	check(tune_end_listen(&end, (struct sockaddr *)&addr,
			      addr_size_of(&addr)), where);
	setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	set_port(&addr, ports[0] ? (uint16_t)(ports[0] + 1) : 0);
	if (bind(tcp, (struct sockaddr *)&addr, addr_size_of(&addr)) < 0 ||
	    listen(tcp, 8) < 0)
		die("listen for plain TCP", -errno);
	getsockname(tcp, (struct sockaddr *)&addr, &size);
	ports[1] = get_port(&addr);
	check(rf_listener_address(end.listener, &addr), "address");
	ports[0] = get_port(&addr);
	if (report_fd >= 0 &&
	    write(report_fd, ports, sizeof(ports)) != sizeof(ports))
		exit(1);
	pthread_create(&thread, NULL, serve_tcp, &tcp);
	serve_one();
	shutdown(tcp, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(tcp);
	tune_end_close(&end);
}

/* ---- measuring --------------------------------------------------------- */

struct sample {
	double us;		/* per operation */
	double cpu_us;		/* the same of this end's processor time */
	double typical_us;	/* SEND: the median of the single ones */
};

static struct row {
	const char *what;
	uint32_t size;
	unsigned int depth;
	struct sample samples[ROUNDS_MAX];
	unsigned int sample_count;
	struct sample median;
	double gb_s;
} rows[ROWS_MAX];
static unsigned int row_count;
static uint64_t trips_ns[TRIPS_MAX];

static struct row *find_row(const char *what, uint32_t size, unsigned int depth)
{
	for (unsigned int i = 0; i < row_count; i++)
		if (strcmp(rows[i].what, what) == 0 && rows[i].size == size &&
		    rows[i].depth == depth)
			return &rows[i];
	return NULL;
}

static int compare_samples(const void *a, const void *b)
{
	double x = ((const struct sample *)a)->us;
	double y = ((const struct sample *)b)->us;

	return (x > y) - (x < y);
}

static void take_medians(void)
{
	for (unsigned int i = 0; i < row_count; i++) {
		struct row *row = &rows[i];

		qsort(row->samples, row->sample_count, sizeof(struct sample),
		      compare_samples);
		row->median = row->samples[row->sample_count / 2];
		row->gb_s = row->size / row->median.us / 1000;
	}
}

struct stopwatch {
	uint64_t begin_ns, begin_cpu_ns;
};

static uint64_t cpu_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct stopwatch stopwatch_start(void)
{
	return (struct stopwatch){ rf_now_ns(), cpu_now_ns() };
}

static uint64_t stopwatch_ns(const struct stopwatch *watch)
{
	return rf_now_ns() - watch->begin_ns;
}

static void add_row(const char *what, uint32_t size, unsigned int depth,
		    uint64_t count, const struct stopwatch *watch)
{
	double ns = (double)stopwatch_ns(watch);
	double cpu_ns = (double)(cpu_now_ns() - watch->begin_cpu_ns);

	struct row *row = find_row(what, size, depth);

	if (!row) {
		RF_ASSERT(row_count < ROWS_MAX);
		row = &rows[row_count++];
		*row = (struct row){ .what = what, .size = size,
				     .depth = depth };
	}
	RF_ASSERT(row->sample_count < ROUNDS_MAX);
	row->samples[row->sample_count++] = (struct sample){
		.us = ns / (double)count / 1000,
		.cpu_us = cpu_ns / (double)count / 1000,
	};
}

static bool is_wanted(const char *what)
{
	return !options.only ||
	       strncmp(what, options.only, strlen(options.only)) == 0;
}

static uint64_t duration_ns(void)
{
	return (uint64_t)(options.seconds * 1e9);
}

static int compare_trips(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Half of the trips take no longer; where others run, an average says little. */
static void note_typical(struct row *row, uint64_t count)
{
	count = rf_min_u64(count, TRIPS_MAX);
	qsort(trips_ns, count, sizeof(trips_ns[0]), compare_trips);
	row->samples[row->sample_count - 1].typical_us =
		(double)trips_ns[count / 2] / 1000;
}

static void measure_send(uint32_t size)
{
	struct stopwatch watch;
	uint64_t count = 0, begin_ns, now_ns;

	if (!is_wanted("SEND ping-pong"))
		return;
	check(tune_end_round_trip(&end, size), "message");
	watch = stopwatch_start();
	begin_ns = now_ns = watch.begin_ns;
	while (options.trips ? count < options.trips :
			       now_ns - watch.begin_ns < duration_ns()) {
		check(tune_end_round_trip(&end, size), "message");
		now_ns = rf_now_ns();
		if (count < TRIPS_MAX)
			trips_ns[count] = now_ns - begin_ns;
		begin_ns = now_ns;
		count++;
	}
	add_row("SEND ping-pong", size, 1, count, &watch);
	note_typical(find_row("SEND ping-pong", size, 1), count);
}

static void measure_one_sided(enum rf_opcode code, const char *what,
			      uint32_t size, unsigned int depth)
{
	struct stopwatch watch;
	uint64_t count;

	if (!is_wanted(what))
		return;
	end.span = options.is_plain ? size : TUNE_SCRATCH;
	end.chain = options.is_plain ? 1 : 0;
	check(tune_end_move(&end, code, size, depth, duration_ns() / 10,
			    &count), "move");
	watch = stopwatch_start();
	check(tune_end_move(&end, code, size, depth, duration_ns(), &count),
	      "move");
	add_row(what, size, depth, count, &watch);
}

static void measure_tcp(enum tcp_mode mode, uint32_t size,
			const struct sockaddr_storage *addr)
{
	static const char *const names[] = { "TCP ping-pong", "TCP stream out",
					     "TCP stream in" };
	struct tcp_order order = { mode, size, 0 };
	uint64_t count = 0, goal = UINT64_MAX;
	struct stopwatch watch;
	uint8_t *at;
	bool ok = true;
	int fd;

	if (!is_wanted(names[mode]) || options.has_no_tcp)
		return;
	fd = tcp_connect(addr, addr_size_of(addr));
	if (mode == TCP_SINK)
		goal = order.count =
			1 + (uint64_t)(options.seconds * 2e9) / size;
	write_whole(fd, (uint8_t *)&order, sizeof(order));
	watch = stopwatch_start();
	while (ok && count < goal &&
	       (mode == TCP_SINK || stopwatch_ns(&watch) < duration_ns())) {
		at = message_at(end.data, count++, size);
		if (mode != TCP_SOURCE)
			ok = write_whole(fd, at, size);
		if (ok && mode != TCP_SINK)
			ok = read_whole(fd, at, size);
	}
	if (mode == TCP_SINK)
		ok = ok && read_whole(fd, end.data, 1);
	if (!ok)
		die("plain TCP", -errno);
	add_row(names[mode], size, 1, count, &watch);
	close(fd);
}

/* Beside the TCP figure that means the same: time for time, rate for rate. */
static double ratio_to_tcp(const struct row *row)
{
	const struct row *tcp;

	if (strncmp(row->what, "TCP", 3) == 0)
		return 1;
	if (strcmp(row->what, "SEND ping-pong") == 0) {
		tcp = find_row("TCP ping-pong", row->size, 1);
		return tcp ? row->median.us / tcp->median.us : 0;
	}
	tcp = find_row(strcmp(row->what, "READ") == 0 ? "TCP stream in"
						      : "TCP stream out",
		       SIZE_MAX_BYTES, 1);
	return tcp ? row->gb_s / tcp->gb_s : 0;
}

static void print_table(void)
{
	printf("%s\n%-16s %9s %6s %12s %10s %10s %8s\n", options.uri, "what",
	       "bytes", "depth", "us each", "CPU us", "GB/s", "to TCP");
	for (unsigned int i = 0; i < row_count; i++)
		printf("%-16s %9u %6u %12.2f %10.2f %10.3f %8.2f\n",
		       rows[i].what, rows[i].size, rows[i].depth,
		       rows[i].median.us, rows[i].median.cpu_us, rows[i].gb_s,
		       ratio_to_tcp(&rows[i]));
	printf("\"to TCP\": time over time for ping-pong, rate over the rate "
	       "of a 1 MiB stream for READ and WRITE\n");
}

static void print_name(FILE *file, const struct row *row)
{
	static const char *const names[][2] = {
		{ "TCP ping-pong", "tcp_ping" }, { "TCP stream out", "tcp_out" },
		{ "TCP stream in", "tcp_in" }, { "SEND ping-pong", "send" },
		{ "READ", "read" }, { "WRITE", "write" },
	};

	for (size_t i = 0; i < RF_ARRAY_SIZE(names); i++)
		if (strcmp(names[i][0], row->what) == 0)
			fprintf(file, "{\"test\":\"%s_%u", names[i][1],
				row->size);
	if (strcmp(row->what, "READ") == 0 || strcmp(row->what, "WRITE") == 0)
		fprintf(file, "_%u", row->depth);
}

static void write_json(void)
{
	FILE *file = fopen(options.json, "w");

	if (!file)
		die(options.json, -errno);
	for (unsigned int i = 0; i < row_count; i++) {
		const struct row *row = &rows[i];

		print_name(file, row);
		fprintf(file, "\",\"us\":%.3f,\"typical_us\":%.3f,"
			"\"cpu_us\":%.3f,\"gb_s\":%.4f,"
			"\"ratio\":%.4f}\n", row->median.us,
			row->median.typical_us, row->median.cpu_us, row->gb_s, ratio_to_tcp(row));
	}
	if (fclose(file) != 0)
		die(options.json, -errno);
}

/* ---- the active end ---------------------------------------------------- */

static void measure_size(uint32_t size, const struct sockaddr_storage *tcp_addr)
{
	size_t depth_count = options.is_quick ? 2 : RF_ARRAY_SIZE(depths);

	measure_tcp(TCP_ECHO, size, tcp_addr);
	measure_tcp(TCP_SINK, size, tcp_addr);
	measure_tcp(TCP_SOURCE, size, tcp_addr);
	measure_send(size);
	if (options.depth) {
		measure_one_sided(RF_READ, "READ", size, options.depth);
		measure_one_sided(RF_WRITE, "WRITE", size, options.depth);
		return;
	}
	for (size_t k = 0; k < depth_count; k++) {
		measure_one_sided(RF_READ, "READ", size, depths[k]);
		measure_one_sided(RF_WRITE, "WRITE", size, depths[k]);
	}
}

static void measure(const struct sockaddr_storage *tcp_addr)
{
	if (options.size) {
		measure_size(options.size, tcp_addr);
		return;
	}
	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++)
		measure_size(sizes[i], tcp_addr);
}

static void run_client(struct sockaddr_storage addr, uint16_t tcp_port)
{
	open_end(false);
	check(tune_end_connect(&end, (const struct sockaddr *)&addr,
			       addr_size_of(&addr)), "connect");
	set_port(&addr, tcp_port);
	for (unsigned int i = 0; i < options.rounds; i++)
		measure(&addr);
	tune_end_close(&end);
	take_medians();
	print_table();
	if (options.json)
		write_json();
}

static int run_both_ends(void)
{
	struct sockaddr_storage addr = parse_address("127.0.0.1:0");
	uint16_t ports[2];
	int fds[2], status;
	pid_t child;

	check(pipe(fds) < 0 ? -errno : 0, "pipe");
	child = fork();
	check(child < 0 ? -errno : 0, "fork");
	if (child == 0) {
		close(fds[0]);
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		serve("127.0.0.1:0", fds[1]);
		exit(0);
	}
	close(fds[1]);
	if (read(fds[0], ports, sizeof(ports)) != sizeof(ports))
		die("start the passive end", -EPIPE);
	set_port(&addr, ports[0]);
	run_client(addr, ports[1]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void usage(void)
{
	fprintf(stderr,
		"fabric_perf [--fabric URI] [--seconds S] [--rounds N] [--quick]\n"
		"            [--only WHAT] [--size N] [--depth N] [--no-tcp]\n"
		"            [--poll] [--plain] [--trips N] [--json FILE]\n"
		"            [--listen HOST:PORT | HOST:PORT]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "fabric", required_argument, NULL, 'f' },
		{ "seconds", required_argument, NULL, 's' },
		{ "listen", required_argument, NULL, 'l' },
		{ "only", required_argument, NULL, 'o' },
		{ "quick", no_argument, NULL, 'q' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "json", required_argument, NULL, 'j' },
		{ "poll", no_argument, NULL, 'p' },
		{ "no-tcp", no_argument, NULL, 't' },
		{ "size", required_argument, NULL, 'z' },
		{ "depth", required_argument, NULL, 'd' },
		{ "plain", no_argument, NULL, 'i' },
		{ "trips", required_argument, NULL, 'n' },
		{ NULL, 0, NULL, 0 },
	};
	const char *where = NULL;
	struct sockaddr_storage addr;
	int c;

	while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (c == 'f')
			options.uri = optarg;
		else if (c == 's')
			options.seconds = atof(optarg);
		else if (c == 'l')
			where = optarg;
		else if (c == 'o')
			options.only = optarg;
		else if (c == 'q')
			options.is_quick = true;
		else if (c == 'j')
			options.json = optarg;
		else if (c == 'p')
			options.polls = true;
		else if (c == 't')
			options.has_no_tcp = true;
		else if (c == 'i')
			options.is_plain = true;
		else if (c == 'z')
			options.size = (uint32_t)atoi(optarg);
		else if (c == 'n')
			options.trips = (unsigned int)atoi(optarg);
		else if (c == 'd')
			options.depth = (unsigned int)atoi(optarg);
		else if (c == 'r')
			options.rounds = (unsigned int)atoi(optarg);
		else
			usage();
	}
	if (options.rounds < 1 || options.rounds > ROUNDS_MAX ||
	    options.seconds <= 0 || options.size > SIZE_MAX_BYTES ||
	    (options.size & (options.size - 1)) ||
	    options.depth > TUNE_DEPTH_MAX)
		usage();
	if (where) {
		serve(where, -1);
		return 0;
	}
	if (optind == argc)
		return run_both_ends();
	addr = parse_address(argv[optind]);
	run_client(addr, (uint16_t)(get_port(&addr) + 1));
	return 0;
}
