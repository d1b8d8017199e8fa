/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sanitizers.c - what the sanitizers are told for every test
 */

/* Criterion keeps some of its own memory to the end. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:libcriterion\n";
}
