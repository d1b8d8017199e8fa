/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_perf.c - how fast a fabric is, beside plain TCP in the same run
 *
 *	fabric_perf [OPTIONS]			both ends, over loopback
 *	fabric_perf [OPTIONS] --listen HOST:PORT	the passive end
 *	fabric_perf [OPTIONS] HOST:PORT			the active end
 *
 * The passive end answers each Send with one of the same size and lends one
 * window for Reads and Writes.  Plain TCP runs on the next higher port: a
 * ping-pong, and a stream each way.  A Write counts when a Send behind it was
 * answered, so that its bytes are known to be in place.
 *
 * Everything is measured in turn, several times over, and the median taken, so
 * that a busy machine disturbs fabric and TCP alike.  --json FILE writes one
 * object a line: send_SIZE, read_SIZE_DEPTH, write_SIZE_DEPTH, tcp_ping_SIZE,
 * tcp_out_SIZE, tcp_in_SIZE.
 */
#include "libproto/base.h"
#include "libproto/fabric.h"

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
	SIZE_MAX_BYTES = 1 << 20,
	DEPTH_MAX = 16,
	BUFFER_SIZE = SIZE_MAX_BYTES * DEPTH_MAX,
	RECVS = 2,
	SEND_DEPTH = 64,
	SETUP_MS = 5000,
	ROWS_MAX = 128,
	ROUNDS_MAX = 9,
};

static const uint32_t sizes[] = { 64, 4096, 65536, SIZE_MAX_BYTES };
static const unsigned int depths[] = { 1, 4, DEPTH_MAX };

static struct {
	const char *uri;
	double seconds;		/* of one measurement */
	unsigned int rounds;
	const char *json;	/* file, or NULL */
	bool is_quick;
	const char *only;	/* rows whose name begins so; NULL: all */
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

struct end {
	struct rf_fabric *fab;
	struct rf_pd *pd;
	struct rf_poller *poller;
	struct rf_listener *listener;
	struct rf_ep *ep;
	struct rf_window *window;
	uint8_t *data, *recv_data;	/* BUFFER_SIZE; RECVS messages */
	struct rf_mr *data_mr, *recv_mr;
	struct rf_op recv_ops[RECVS], send_op, ops[DEPTH_MAX];
	bool is_server, is_connected, is_closed, is_greeted;
	unsigned int recv_count;	/* messages that came */
	unsigned int busy;		/* ops under way */
	struct rf_remote remote;	/* the peer's window */
};

static struct end end;

static void count_done(struct rf_op *op, int status)
{
	(void)op;
	if (status && !end.is_closed)
		die("operation", status);
	end.busy--;
}

static void post_recv(unsigned int i);

static struct rf_sge make_sge(uint8_t *at, uint32_t size)
{
	return (struct rf_sge){ .addr = at, .size = size, .mr = end.data_mr };
}

static void send_message(uint32_t size)
{
	struct rf_sge sge = make_sge(end.data, size);
	struct rf_work work = { .code = RF_SEND, .op = &end.send_op,
				.sge = &sge, .sge_count = 1 };

	end.send_op.done = count_done;
	end.busy++;
	check(rf_ep_post(end.ep, &work, 1), "post a Send");
}

/* Bind the window over all of the buffer, and tell the peer its key. */
static void lend_window(void)
{
	struct rf_remote remote = rf_window_next(end.window, end.data_mr,
		end.data, BUFFER_SIZE, RF_REMOTE_READ | RF_REMOTE_WRITE);
	struct rf_work work = { .code = RF_BIND, .window = end.window };

	check(rf_ep_post(end.ep, &work, 1), "bind");
	memcpy(end.data, &remote, sizeof(remote));
	send_message(sizeof(remote));
}

static void recv_done(struct rf_op *op, int status)
{
	unsigned int i = (unsigned int)(op - end.recv_ops);
	uint8_t *message = end.recv_data + (size_t)i * SIZE_MAX_BYTES;
	uint32_t size = op->size;

	if (status)
		return;
	if (!end.is_server && !end.is_greeted)
		memcpy(&end.remote, message, sizeof(end.remote));
	post_recv(i);
	end.recv_count++;
	if (end.is_server && !end.is_greeted)
		lend_window();
	else if (end.is_server)
		send_message(size);
	end.is_greeted = true;
}

static void post_recv(unsigned int i)
{
	uint8_t *at = end.recv_data + (size_t)i * SIZE_MAX_BYTES;
	struct rf_recv recv = { &end.recv_ops[i],
				{ at, SIZE_MAX_BYTES, end.recv_mr } };

	end.recv_ops[i].done = recv_done;
	check(rf_ep_post_recv(end.ep, &recv), "post a Receive");
}

static void connected(struct rf_ep *ep, const void *hello, size_t size)
{
	(void)ep;
	(void)hello;
	(void)size;
	end.is_connected = true;
}

static void closed(struct rf_ep *ep, int reason)
{
	(void)ep;
	if (reason)
		fprintf(stderr, "fabric_perf: closed: %s\n", strerror(-reason));
	if (!end.is_connected)
		exit(1);
	end.is_closed = true;
}

static const struct rf_ep_events events = { .connected = connected,
					    .closed = closed };

static struct rf_ep_config make_config(void)
{
	return (struct rf_ep_config){
		.pd = end.pd, .send_depth = SEND_DEPTH, .recv_depth = RECVS,
		.reads_out = DEPTH_MAX, .reads_in = DEPTH_MAX,
		.setup_ms = SETUP_MS,
	};
}

static uint8_t *map_touched(size_t size)
{
	uint8_t *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		die("memory", -errno);
	memset(at, 0x5a, size);
	return at;
}

static void open_end(bool is_server)
{
	end.is_server = is_server;
	check(rf_fabric_open(options.uri, &end.fab), options.uri);
	check(rf_pd_create(end.fab, &end.pd), "protection domain");
	check(rf_poller_create(end.fab, SEND_DEPTH + RECVS, &end.poller),
	      "poller");
	end.data = map_touched(BUFFER_SIZE);
	end.recv_data = map_touched((size_t)RECVS * SIZE_MAX_BYTES);
	check(rf_mr_register(end.pd, end.data, BUFFER_SIZE, RF_LOCAL_WRITE |
			     RF_READ_SINK | RF_WINDOW_BIND, &end.data_mr),
	      "register");
	check(rf_mr_register(end.pd, end.recv_data,
			     (size_t)RECVS * SIZE_MAX_BYTES, RF_LOCAL_WRITE,
			     &end.recv_mr), "register");
	check(rf_window_create(end.pd, &end.window), "window");
}

static void close_end(void)
{
	if (!end.is_closed)
		rf_ep_close(end.ep);
	while (!end.is_closed)
		rf_poller_wait(end.poller, 64, -1);
	if (end.listener)
		rf_listener_close(end.listener);
	rf_window_destroy(end.window);
	rf_mr_deregister(end.data_mr);
	rf_mr_deregister(end.recv_mr);
	rf_poller_destroy(end.poller);
	rf_pd_destroy(end.pd);
	rf_fabric_close(end.fab);
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

static void serve_tcp_connection(int fd, uint8_t *data)
{
	struct tcp_order order;
	bool goes_on = true;

	no_delay(fd);
	if (!read_whole(fd, (uint8_t *)&order, sizeof(order)) ||
	    order.size > SIZE_MAX_BYTES)
		return;
	if (order.mode == TCP_SINK) {
		while (goes_on && order.count--)
			goes_on = read_whole(fd, data, order.size);
		write_whole(fd, data, 1);
		return;
	}
	while (goes_on)
		goes_on = (order.mode == TCP_SOURCE ||
			   read_whole(fd, data, order.size)) &&
			  write_whole(fd, data, order.size);
}

static void *serve_tcp(void *arg)
{
	int listener = *(int *)arg;
	uint8_t *data = map_touched(SIZE_MAX_BYTES);
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

static void on_request(void *context, struct rf_incoming *incoming,
		       const void *hello, size_t hello_size)
{
	struct rf_ep_config config = make_config();
	struct rf_recv recvs[RECVS];

	(void)context;
	(void)hello;
	(void)hello_size;
	if (end.ep) {
		rf_ep_reject(incoming, NULL, 0);
		return;
	}
	for (unsigned int i = 0; i < RECVS; i++) {
		end.recv_ops[i].done = recv_done;
		recvs[i] = (struct rf_recv){ &end.recv_ops[i], {
			end.recv_data + (size_t)i * SIZE_MAX_BYTES,
			SIZE_MAX_BYTES, end.recv_mr } };
	}
	check(rf_ep_accept(incoming, end.poller, NULL, 0, &config, &events,
			   NULL, recvs, RECVS, &end.ep), "accept");
}

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
	check(rf_listener_open(end.poller, (struct sockaddr *)&addr,
			       addr_size_of(&addr), on_request, NULL,
			       &end.listener), where);
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
	while (!end.is_closed)
		rf_poller_wait(end.poller, 64, -1);
	shutdown(tcp, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(tcp);
	close_end();
}

/* ---- measuring --------------------------------------------------------- */

struct sample {
	double us;		/* per operation */
	double cpu_us;		/* the same of this end's processor time */
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
		ns / (double)count / 1000, cpu_ns / (double)count / 1000,
	};
}

static bool is_wanted(const char *what)
{
	return !options.only ||
	       strncmp(what, options.only, strlen(options.only)) == 0;
}

static void wait_idle(void)
{
	while (end.busy && !end.is_closed)
		rf_poller_wait(end.poller, 64, -1);
}

/* One message there and one back. */
static void round_trip(uint32_t size)
{
	unsigned int before = end.recv_count;

	send_message(size);
	while ((end.recv_count == before || end.busy) && !end.is_closed)
		rf_poller_wait(end.poller, 64, -1);
	if (end.is_closed)
		die("lost the connection", -ECONNRESET);
}

static uint64_t duration_ns(void)
{
	return (uint64_t)(options.seconds * 1e9);
}

static void measure_send(uint32_t size)
{
	struct stopwatch watch;
	uint64_t count = 0;

	if (!is_wanted("SEND ping-pong"))
		return;
	round_trip(size);
	watch = stopwatch_start();
	while (stopwatch_ns(&watch) < duration_ns()) {
		round_trip(size);
		count++;
	}
	add_row("SEND ping-pong", size, 1, count, &watch);
}

static void post_one_sided(enum rf_opcode code, unsigned int i, uint32_t size)
{
	uint64_t offset = (uint64_t)i * SIZE_MAX_BYTES;
	struct rf_sge sge = make_sge(end.data + offset, size);
	struct rf_work work = {
		.code = code, .op = &end.ops[i], .sge = &sge, .sge_count = 1,
		.remote = { end.remote.addr + offset, end.remote.rkey, size },
	};

	end.ops[i].done = count_done;
	end.busy++;
	check(rf_ep_post(end.ep, &work, 1), "post");
}

static uint64_t run_one_sided(enum rf_opcode code, uint32_t size,
			      unsigned int depth, uint64_t for_ns)
{
	uint64_t begin = rf_now_ns(), count = 0;

	while (rf_now_ns() - begin < for_ns) {
		for (unsigned int i = 0; i < depth; i++) {
			if (end.ops[i].state)
				continue;
			post_one_sided(code, i, size);
			count++;
		}
		rf_poller_wait(end.poller, 64, -1);
	}
	return count;
}

static void measure_one_sided(enum rf_opcode code, const char *what,
			      uint32_t size, unsigned int depth)
{
	struct stopwatch watch;
	uint64_t count;

	if (!is_wanted(what))
		return;
	run_one_sided(code, size, depth, duration_ns() / 10);
	wait_idle();
	watch = stopwatch_start();
	count = run_one_sided(code, size, depth, duration_ns());
	wait_idle();
	if (code == RF_WRITE)
		round_trip(1);	/* all of them are in place */
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
	bool ok = true;
	int fd;

	if (!is_wanted(names[mode]))
		return;
	fd = tcp_connect(addr, addr_size_of(addr));
	if (mode == TCP_SINK)
		goal = order.count =
			1 + (uint64_t)(options.seconds * 2e9) / size;
	write_whole(fd, (uint8_t *)&order, sizeof(order));
	watch = stopwatch_start();
	while (ok && count < goal &&
	       (mode == TCP_SINK || stopwatch_ns(&watch) < duration_ns())) {
		if (mode != TCP_SOURCE)
			ok = write_whole(fd, end.data, size);
		if (ok && mode != TCP_SINK)
			ok = read_whole(fd, end.data, size);
		count++;
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
		fprintf(file, "\",\"us\":%.3f,\"cpu_us\":%.3f,\"gb_s\":%.4f,"
			"\"ratio\":%.4f}\n", row->median.us,
			row->median.cpu_us, row->gb_s, ratio_to_tcp(row));
	}
	if (fclose(file) != 0)
		die(options.json, -errno);
}

/* ---- the active end ---------------------------------------------------- */

static void connect_end(const struct sockaddr_storage *addr)
{
	struct rf_ep_config config;

	open_end(false);
	config = make_config();
	check(rf_ep_connect(end.poller, (const struct sockaddr *)addr,
			    addr_size_of(addr), NULL, 0, &config, &events,
			    NULL, &end.ep), "connect");
	for (unsigned int i = 0; i < RECVS; i++)
		post_recv(i);
	while (!end.is_connected)
		rf_poller_wait(end.poller, 64, -1);
	round_trip(1);		/* brings the key of the window */
}

static void measure(const struct sockaddr_storage *tcp_addr)
{
	size_t depth_count = options.is_quick ? 2 : RF_ARRAY_SIZE(depths);

	for (size_t i = 0; i < RF_ARRAY_SIZE(sizes); i++) {
		measure_tcp(TCP_ECHO, sizes[i], tcp_addr);
		measure_tcp(TCP_SINK, sizes[i], tcp_addr);
		measure_tcp(TCP_SOURCE, sizes[i], tcp_addr);
		measure_send(sizes[i]);
		for (size_t k = 0; k < depth_count; k++) {
			measure_one_sided(RF_READ, "READ", sizes[i], depths[k]);
			measure_one_sided(RF_WRITE, "WRITE", sizes[i],
					  depths[k]);
		}
	}
}

static void run_client(struct sockaddr_storage addr, uint16_t tcp_port)
{
	connect_end(&addr);
	set_port(&addr, tcp_port);
	for (unsigned int i = 0; i < options.rounds; i++)
		measure(&addr);
	close_end();
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
		"            [--only WHAT] [--json FILE]\n"
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
		else if (c == 'r')
			options.rounds = (unsigned int)atoi(optarg);
		else
			usage();
	}
	if (options.rounds < 1 || options.rounds > ROUNDS_MAX ||
	    options.seconds <= 0)
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
