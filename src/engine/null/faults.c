/*
 * faults.c
 *	  The setting that names the null device's faults, and the faults themselves.
 */
#include "faults.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../protocol/protocol.h"

#define COUNT_MAX	16			/* of async and meet */

static const char *const fault_names[FAULT_KINDS] = {
	[FAULT_FAIL] = "fail", [FAULT_OOM] = "oom", [FAULT_LOST] = "lost", [FAULT_CRASH] = "crash",
	[FAULT_HANG] = "hang"
};

/* ---- the setting ---- */

static bool
fault_unknown(const char *fault, struct status *status)
{
	status_set(status, INFER_ERROR_UNSUPPORTED, "unknown fault \"%s\" of the null device", fault);
	status_hint(status, "Use delay=MS, async=N, meet=N, or fail, oom, lost, crash or hang with =N, =N+, _on=VALUE or _load=WIDTH.");
	return false;
}

static bool
fault_parse(struct faults *faults, const char *fault, struct status *status)
{
	const char *equals = strchr(fault, '=');
	size_t		length;
	char	   *end;

	if (equals == NULL || equals[1] == '\0')
		return fault_unknown(fault, status);
	length = (size_t) (equals - fault);
	if (length == 5 && strncmp(fault, "delay", 5) == 0)
	{
		faults->delay_msec = strtoull(equals + 1, &end, 10);
		return *end == '\0' ? true : fault_unknown(fault, status);
	}
	if ((length == 5 && strncmp(fault, "async", 5) == 0) || (length == 4 && strncmp(fault, "meet", 4) == 0))
	{
		unsigned long count = strtoul(equals + 1, &end, 10);

		*(length == 5 ? &faults->async : &faults->meet) = (uint32_t) count;
		return *end == '\0' && count > 0 && count <= COUNT_MAX ? true : fault_unknown(fault, status);
	}
	for (int kind = 0; kind < FAULT_KINDS; kind++)
	{
		size_t		name = strlen(fault_names[kind]);
		struct fault *f = &faults->of[kind];

		if (strncmp(fault, fault_names[kind], name) != 0)
			continue;
		if (length == name + 3 && strncmp(fault + name, "_on", 3) == 0)
		{
			f->on = true;
			f->value = strtof(equals + 1, &end);
			return *end == '\0' ? true : fault_unknown(fault, status);
		}
		if (length == name + 5 && strncmp(fault + name, "_load", 5) == 0)
		{
			f->load = strtoll(equals + 1, &end, 10);
			return *end == '\0' && f->load > 0 ? true : fault_unknown(fault, status);
		}
		if (length != name)
			continue;
		f->at = strtoull(equals + 1, &end, 10);
		f->sticky = *end == '+' || kind == FAULT_LOST;
		if (*end == '+')
			end++;
		return *end == '\0' && f->at > 0 ? true : fault_unknown(fault, status);
	}
	return fault_unknown(fault, status);
}

bool
faults_parse(struct faults *faults, const char *text, struct status *status)
{
	char		word[64];

	while (text != NULL && *text != '\0')
	{
		size_t		length = strcspn(text, ",");

		if (length >= sizeof(word))
			return fault_unknown(text, status);
		memcpy(word, text, length);
		word[length] = '\0';
		if (!fault_parse(faults, word, status))
			return false;
		text += length + (text[length] == ',');
	}
	return true;
}

/* ---- the faults ---- */

void
fault_sleep(uint64_t nsec)
{
	struct timespec left = {(time_t) (nsec / 1000000000u), (long) (nsec % 1000000000u)};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* As a wild pointer would end it, even in a thread that blocks signals. */
static _Noreturn void
crash(void)
{
	sigset_t	set;

	signal(SIGSEGV, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGSEGV);
	_exit(1);
}

void
fault_happens(enum fault_kind kind, struct status *status)
{
	switch (kind)
	{
		case FAULT_FAIL:
			status_set(status, INFER_ERROR_DEVICE, "the null device failed on demand");
			break;
		case FAULT_OOM:
			status_set(status, INFER_ERROR_MEMORY,
					   "the null device is out of memory on demand: 1 bytes wanted");
			break;
		case FAULT_LOST:
			status_set(status, INFER_ERROR_DEVICE_LOST, "the null device was lost on demand");
			break;
		case FAULT_CRASH:
			crash();
		case FAULT_HANG:
			for (;;)
				fault_sleep(1000000000u);
		case FAULT_KINDS:
			break;
	}
}
