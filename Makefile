# SPDX-License-Identifier: Apache-2.0
#
# make                     build/rdmafs and build/rdmafsd
# make test                everything that proves them (installs nothing;
#                          scripts/install-deps --tests does)
# make try                 install what is missing, build, serve, mount, copy
# make test-rdma           verbs on rxe and siw, in a virtual machine
# make soak                everything at once with faults, for SOAK_MINUTES
# make bench               ratios beside TCP and a local directory
# make bench-rdma          ratios beside perftest, in the virtual machine
# make fuzz                run the fuzzers for FUZZ_SECONDS each
# make install             into DESTDIR and PREFIX
#
# Variables: BUILD=dir  CC=gcc|clang  SAN=address,undefined|thread  WERROR=1
#            VERBS=0 (leave libibverbs and librdmacm out)  V=1 (show commands)
#            T=words (make test: only the steps whose names hold one of them)

comma := ,
VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
VERBS ?= 1
FUZZ_SECONDS ?= 60
SOAK_MINUTES ?= 60
BASE := $(BUILD)
ifneq ($(SAN),)
override BUILD := $(BUILD)/san-$(subst $(comma),-,$(SAN))
endif

CC ?= gcc
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes \
	-Wmissing-prototypes -Wvla -Wformat=2 -Wcast-align -Wundef \
	-Wimplicit-fallthrough
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -DFUSE_USE_VERSION=314 \
	-DRDMAFS_VERSION='"$(VERSION)"' -pthread -I. \
	$(WARN) $(if $(filter 1,$(WERROR)),-Werror) $(CFLAGS) \
	-fno-omit-frame-pointer -MMD -MP $(SAN_FLAGS) $(PKG_CFLAGS)
ALL_LDFLAGS = -pthread $(LDFLAGS) $(SAN_FLAGS)
# A hundred test programs: gold takes a third of the time for each.
TEST_LDFLAGS = $(ALL_LDFLAGS) $(if $(wildcard /usr/bin/ld.gold),-fuse-ld=gold)
ifneq ($(SAN),)
SAN_FLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all
endif

# What each program links; README says what each library is for.
LIB_PKGS := libsodium libisal
SERVER_PKGS := rocksdb uuid inih
CLIENT_PKGS := fuse3 uuid
ifeq ($(VERBS),1)
LIB_PKGS += libibverbs librdmacm
endif
ALL_PKGS := $(LIB_PKGS) $(SERVER_PKGS) $(CLIENT_PKGS)
PKG_CFLAGS := $(shell pkg-config --cflags $(ALL_PKGS))
LIB_LIBS := $(shell pkg-config --libs $(LIB_PKGS))
SERVER_LIBS := $(shell pkg-config --libs $(SERVER_PKGS)) $(LIB_LIBS)
CLIENT_LIBS := $(shell pkg-config --libs $(CLIENT_PKGS)) $(LIB_LIBS)
TEST_LIBS := $(shell pkg-config --libs criterion) $(SERVER_LIBS) $(CLIENT_LIBS)

LIB_SRC := $(filter-out libproto/verbs%,$(wildcard libproto/*.c))
ifeq ($(VERBS),1)
VERBS_SRC := $(wildcard libproto/verbs*.c)
ifneq ($(VERBS_SRC),)
LIB_SRC += $(VERBS_SRC)
PKG_CFLAGS += -DRF_HAVE_VERBS
endif
endif
SERVER_SRC := $(filter-out storage-server/main.c,$(wildcard storage-server/*.c))
CLIENT_SRC := $(filter-out fuse-client/main.c,$(wildcard fuse-client/*.c))

obj = $(patsubst %.c,$(BUILD)/%.o,$(1))
LIB_A := $(BUILD)/libproto.a
SERVER_A := $(BUILD)/libserver.a
CLIENT_A := $(BUILD)/libclient.a

# tests/unit/NAME.c and tests/fabric/NAME.c are one Criterion program each;
# tests/common/*.c is linked into each of them; tests/bench/NAME.c and
# tests/tools/NAME.c are plain programs; tests/fuzz/NAME.c are libFuzzer targets.
UNIT_SRC := $(wildcard tests/unit/*.c tests/fabric/*.c)
UNIT := $(patsubst %.c,$(BUILD)/%,$(UNIT_SRC))
COMMON_OBJ := $(call obj,$(filter-out tests/common/kernel_rig.c,\
	$(wildcard tests/common/*.c)))
TOOLS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/tools/*.c tests/bench/*.c))
# The one that has the server's store in it.
FILL_STORE := $(BUILD)/tests/bench/fill_store
PRELOAD := $(patsubst %.c,$(BUILD)/%.so,$(wildcard tests/preload/*.c))
# Plain programs too, made of tests/posix/NAME.c and tests/posix/lib/*.c.
POSIX := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/posix/*.c))
POSIX_OBJ := $(call obj,$(wildcard tests/posix/lib/*.c))
FUZZERS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/*.c))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-4s %s\n' $(1) $@)

.PHONY: all test test-rdma soak try bench bench-rdma fuzz fuzzers unit tools install clean
.SECONDARY:

all: $(BUILD)/rdmafs $(BUILD)/rdmafsd

$(BUILD)/%.o: %.c
	$(call say,CC)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

$(LIB_A): $(call obj,$(LIB_SRC))
$(SERVER_A): $(call obj,$(SERVER_SRC))
$(CLIENT_A): $(call obj,$(CLIENT_SRC))
%.a:
	$(call say,AR)
	$(Q)rm -f $@ && ar rcs $@ $^

$(BUILD)/rdmafsd: $(BUILD)/storage-server/main.o $(SERVER_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$(BUILD)/rdmafs: $(BUILD)/fuse-client/main.o $(CLIENT_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(ALL_LDFLAGS) -o $@ $^ $(CLIENT_LIBS)

# Those that have a whole client in them, beside which no server fits.
WHOLE_CLIENT := $(patsubst %,$(BUILD)/tests/unit/%,client_crash client_once \
	client_killed client_states)
$(WHOLE_CLIENT): %: %.o $(call obj,$(patsubst %,tests/common/%.c,\
		sanitizers scratch kernel_rig)) $(CLIENT_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(TEST_LDFLAGS) -o $@ $^ $(TEST_LIBS)

$(filter-out $(WHOLE_CLIENT),$(UNIT)): $(BUILD)/%: $(BUILD)/%.o $(COMMON_OBJ) \
		$(SERVER_A) $(CLIENT_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(TEST_LDFLAGS) -o $@ $^ $(TEST_LIBS)

# What stands before libc: linked into a test, or loaded into a program.
$(BUILD)/tests/unit/server_disk: $(BUILD)/tests/preload/bad_disk.o
$(BUILD)/%.so: %.c
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -shared $(ALL_LDFLAGS) -o $@ $<

# Allocations of our own code fail there.
$(BUILD)/tests/unit/server_memory: \
	TEST_LDFLAGS += -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc

$(FILL_STORE): %: %.o $(SERVER_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(TEST_LDFLAGS) -o $@ $^ $(SERVER_LIBS)

$(filter-out $(FILL_STORE),$(TOOLS)): $(BUILD)/%: $(BUILD)/%.o $(CLIENT_A) $(LIB_A)
	$(call say,LD)
	$(Q)$(CC) $(TEST_LDFLAGS) -o $@ $^ $(CLIENT_LIBS)

$(POSIX): $(BUILD)/%: $(BUILD)/%.o $(POSIX_OBJ)
	$(call say,LD)
	$(Q)$(CC) $(TEST_LDFLAGS) -o $@ $^

# Fuzzers are built by clang, apart from the other objects.
FUZZ_FLAGS := -fno-sanitize-recover=all -fsanitize=address,undefined
fuzz_cc = clang -std=gnu11 -D_GNU_SOURCE -DRDMAFS_VERSION='"$(VERSION)"' -O1 -g \
	-pthread -I. -MMD -MP $(PKG_CFLAGS) $(FUZZ_FLAGS)
fuzz_obj = $(patsubst %.c,$(BUILD)/fuzzed/%.o,$(1))

$(BUILD)/fuzzed/%.o: %.c
	$(call say,FUZZ)
	@mkdir -p $(@D)
	$(Q)$(fuzz_cc) -fsanitize=fuzzer-no-link -c -o $@ $<

# One has a server in it.
FUZZ_SERVER := $(BUILD)/tests/fuzz/fuzz_session
$(FUZZ_SERVER): $(call fuzz_obj,$(SERVER_SRC) $(patsubst %,tests/common/%.c,\
	hostile raw_session scratch server_rig wire))
$(FUZZERS): $(BUILD)/%: $(BUILD)/fuzzed/%.o $(call fuzz_obj,$(LIB_SRC))
	$(call say,LD)
	@mkdir -p $(@D)
	$(Q)$(fuzz_cc) -fsanitize=fuzzer -o $@ $^ \
		$(if $(filter $@,$(FUZZ_SERVER)),$(TEST_LIBS),$(LIB_LIBS))

unit: $(UNIT)
tools: $(TOOLS) $(POSIX) $(PRELOAD)
fuzzers: $(FUZZERS)

fuzz: fuzzers
	$(Q)scripts/run-fuzzers $(BUILD) $(FUZZ_SECONDS)

# The script builds each flavour by itself, in folders below BUILD.
test:
	$(Q)BUILD='$(BASE)' SAN='$(SAN)' scripts/run-tests $(T)

ON_DEVICES := $(filter $(BUILD)/tests/fabric/conformance_% \
	$(BUILD)/tests/fabric/verbs_% $(BUILD)/tests/unit/server_rights \
	$(BUILD)/tests/unit/server_slices $(BUILD)/tests/unit/server_terms,$(UNIT))
test-rdma: all $(ON_DEVICES) $(BUILD)/tests/tools/rping_peer
	$(Q)BUILD='$(BUILD)' scripts/test-rdma $(T)

soak: all tools
	$(Q)BUILD='$(BUILD)' SOAK_SECONDS=$$((60 * $(SOAK_MINUTES))) \
		bash tests/shell/soak.sh

try:
	$(Q)BUILD='$(BUILD)' scripts/try

bench: all tools
	$(Q)scripts/bench $(BUILD)

bench-rdma: tools
	$(Q)BUILD='$(BUILD)' scripts/bench-rdma $(T)

install: all
	install -D -m 755 $(BUILD)/rdmafs $(DESTDIR)$(PREFIX)/bin/rdmafs
	install -D -m 755 $(BUILD)/rdmafsd $(DESTDIR)$(PREFIX)/sbin/rdmafsd
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@RDMAFSD@|$(PREFIX)/sbin/rdmafsd|' storage-server/rdmafsd.service.in \
		>$(DESTDIR)$(PREFIX)/lib/systemd/system/rdmafsd.service
	install -d $(DESTDIR)/sbin
	ln -sf $(PREFIX)/bin/rdmafs $(DESTDIR)/sbin/mount.rdmafs
	ln -sf $(PREFIX)/bin/rdmafs $(DESTDIR)/sbin/mount.fuse.rdmafs

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
