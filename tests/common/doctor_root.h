/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_root.h - a folder that stands for /, with trees of /sys as drivers make
 * them
 */
#ifndef TESTS_DOCTOR_ROOT_H
#define TESTS_DOCTOR_ROOT_H

#include "libproto/doctor_impl.h"

extern char doctor_root[64];

void doctor_root_init(void);
void doctor_root_fini(void);

/* Write text to a file below the root, and make its folders. */
__attribute__((format(printf, 2, 3)))
void doctor_put(const char *text, const char *format, ...);
__attribute__((format(printf, 2, 3)))
void doctor_link(const char *target, const char *format, ...);
__attribute__((format(printf, 1, 2)))
void doctor_remove(const char *format, ...);

/* eth0 or the like, up, with this MTU and MAC. */
void doctor_put_netdev(const char *name, const char *mtu, const char *mac);
/* Modules, nodes and classes as they are on a host with RDMA. */
void doctor_put_host(void);
/* A device of each kind, on a netdev that was put. */
void doctor_put_rxe(const char *name, const char *netdev);
void doctor_put_siw(const char *name, const char *mac);
void doctor_put_mlx5(const char *name, const char *netdev);
void doctor_put_ib(const char *name);

/* Read all of it: a question and facts of their own, judged anew each time. */
struct doctor_report *doctor_examine(void);
/* The finding of this code, or NULL. */
const struct doctor_finding *doctor_finding(const char *code);

extern struct doctor_question doctor_asked;
extern struct doctor_facts doctor_known;

#endif /* TESTS_DOCTOR_ROOT_H */
