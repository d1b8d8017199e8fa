/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_report.c - findings, and how they are printed
 */
#include "doctor_impl.h"

#include <stdio.h>

void doctor_subject(struct doctor_report *report, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(report->subject, sizeof(report->subject), format, args);
	va_end(args);
}

void doctor_find(struct doctor_report *report, enum doctor_severity severity,
		 const char *code, const char *format, ...)
{
	struct doctor_finding *finding;
	va_list args;

	if (report->count == DOCTOR_FINDINGS_MAX) {
		report->left_out++;
		return;
	}
	finding = &report->findings[report->count++];
	finding->severity = severity;
	finding->code = code;
	memcpy(finding->subject, report->subject, sizeof(finding->subject));
	finding->advice[0] = '\0';
	va_start(args, format);
	vsnprintf(finding->text, sizeof(finding->text), format, args);
	va_end(args);
}

void doctor_advise(struct doctor_report *report, const char *format, ...)
{
	struct doctor_finding *finding;
	va_list args;

	if (report->left_out > 0)
		return;
	RF_ASSERT(report->count > 0);
	finding = &report->findings[report->count - 1];
	va_start(args, format);
	vsnprintf(finding->advice, sizeof(finding->advice), format, args);
	va_end(args);
}

unsigned int doctor_count(const struct doctor_report *report,
			  enum doctor_severity severity)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < report->count; i++)
		count += report->findings[i].severity == severity;
	return count;
}

static void print_finding(const struct doctor_finding *finding)
{
	static const char *const words[] = { "ok", "note", "warning",
					     "PROBLEM" };

	printf("  %-8s %s [%s]\n", words[finding->severity], finding->text,
	       finding->code);
	if (finding->advice[0])
		printf("           -> %s\n", finding->advice);
}

void doctor_print(const struct doctor_report *report, bool is_quiet)
{
	const char *subject = "";

	for (unsigned int i = 0; i < report->count; i++) {
		const struct doctor_finding *finding = &report->findings[i];

		if (is_quiet && finding->severity < DOCTOR_WARNING)
			continue;
		if (strcmp(subject, finding->subject) != 0) {
			subject = finding->subject;
			printf("%s\n", subject);
		}
		print_finding(finding);
	}
	if (report->left_out > 0)
		printf("%u more findings have no room here\n",
		       report->left_out);
	printf("problems: %u, warnings: %u, notes: %u\n",
	       doctor_count(report, DOCTOR_PROBLEM),
	       doctor_count(report, DOCTOR_WARNING),
	       doctor_count(report, DOCTOR_NOTE));
}
