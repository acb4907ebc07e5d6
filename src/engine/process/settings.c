/*
 * settings.c
 *	  See settings.h.  One table; everything else walks it.
 */
#include "settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../protocol/protocol.h"
#include "../status.h"

enum setting_unit
{
	UNIT_TEXT,
	UNIT_COUNT,						/* uint32_t */
	UNIT_BYTES,						/* uint64_t */
	UNIT_USEC						/* uint64_t */
};

struct setting
{
	const char *name;
	enum setting_unit unit;
	size_t		offset;
	bool		reloads;
	uint64_t	factor;				/* of a plain number */
	uint64_t	min;
	uint64_t	max;
	const char *value;				/* default */
	const char *meaning;
};

#define FIELD(name) offsetof(struct settings, name)
#define KB			(1ull << 10)
#define MB			(1ull << 20)
#define BYTES_MAX	(1ull << 52)
#define USEC_MAX	(86400ull * 1000000)

static const struct setting settings_table[] = {
	{"batch_delay", UNIT_USEC, FIELD(batch_delay), true, 1, 0, 1000000, "0", "longest wait to fill a batch"},
	{"batch_rows", UNIT_COUNT, FIELD(batch_rows), true, 1, 1, INFER_ROWS_MAX, "256", "rows of one batch"},
	{"batch_tokens", UNIT_COUNT, FIELD(batch_tokens), true, 1, 0, 1u << 30, "16384", "tokens of one batch, 0: no bound"},
	{"cache_size", UNIT_BYTES, FIELD(cache_size), true, MB, 0, BYTES_MAX, "10GB", "size of the model cache on disk, kept by whoever writes into it"},
	{"cpu_threads", UNIT_COUNT, FIELD(cpu_threads), false, 1, 0, 1024, "0", "compute threads, 0: one per usable core"},
	{"device", UNIT_TEXT, FIELD(device), false, 0, 0, 0, "auto", "auto, cpu, cuda, cuda:N, or null:FAULT,... for tests"},
	{"engine_timeout", UNIT_USEC, FIELD(engine_timeout), true, 1000, 0, USEC_MAX, "10s", "silence after which the supervisor replaces the engine"},
	{"gpu_memory", UNIT_BYTES, FIELD(gpu_memory), false, MB, 0, BYTES_MAX, "0", "bytes of each GPU, 0: what is free when the engine starts, but for a reserve"},
	{"job_share", UNIT_COUNT, FIELD(job_share), true, 1, 0, 50, "5", "percent of device time that statements and jobs get in any case"},
	{"log_requests", UNIT_COUNT, FIELD(log_requests), true, 1, 0, 1, "0", "1: a line of the log for each call, without its values"},
	{"memory", UNIT_BYTES, FIELD(memory), false, MB, 0, BYTES_MAX, "0", "bytes for loaded models, 0: no bound"},
	{"nice", UNIT_COUNT, FIELD(nice), false, 1, 0, 19, "0", "niceness of the process"},
	{"payload_limit", UNIT_BYTES, FIELD(payload_limit), true, KB, INFER_REGION_MIN, BYTES_MAX, "1GB", "bytes of all clients' payload regions"},
	{"queue_limit", UNIT_COUNT, FIELD(queue_limit), true, 1, 1, 1000000, "1000", "interactive requests over which more are refused"},
	{"slice", UNIT_USEC, FIELD(slice), true, 1, 0, 1000000, "0", "predicted time of a batch or segment, 0: 10ms on the CPU, 2ms on GPUs"},
};

#define SETTINGS_COUNT (sizeof(settings_table) / sizeof(settings_table[0]))

static const struct
{
	const char *text;
	enum setting_unit unit;
	uint64_t	factor;
}			suffixes[] = {
	{"B", UNIT_BYTES, 1},
	{"kB", UNIT_BYTES, KB},
	{"MB", UNIT_BYTES, MB},
	{"GB", UNIT_BYTES, 1ull << 30},
	{"TB", UNIT_BYTES, 1ull << 40},
	{"us", UNIT_USEC, 1},
	{"ms", UNIT_USEC, 1000},
	{"s", UNIT_USEC, 1000000},
	{"min", UNIT_USEC, 60000000},
};

static bool
parse_number(const char *text, const struct setting *s, uint64_t *value)
{
	char	   *end;
	unsigned long long number;

	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	number = strtoull(text, &end, 10);
	if (errno != 0)
		return false;
	while (*end == ' ')
		end++;
	if (*end == '\0')
		return !__builtin_mul_overflow((uint64_t) number, s->factor, value);
	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
	{
		if (suffixes[i].unit == s->unit && strcmp(suffixes[i].text, end) == 0)
			return !__builtin_mul_overflow((uint64_t) number, suffixes[i].factor, value);
	}
	return false;
}

static bool
set_value(struct settings *settings, const struct setting *s, const char *text, struct status *status)
{
	void	   *field = (char *) settings + s->offset;
	uint64_t	value;

	if (s->unit == UNIT_TEXT)
	{
		if (strlen(text) >= sizeof(settings->device) || text[0] == '\0')
			return status_set(status, INFER_ERROR_INPUT, "invalid value for setting \"%s\": \"%s\"", s->name, text);
		strcpy(field, text);
		return true;
	}
	if (!parse_number(text, s, &value))
		return status_set(status, INFER_ERROR_INPUT, "invalid value for setting \"%s\": \"%s\"", s->name, text);
	if (value < s->min || value > s->max)
	{
		status_set(status, INFER_ERROR_INPUT, "value %s is out of range for setting \"%s\"", text, s->name);
		status_detail(status, "It may be from %llu to %llu.", (unsigned long long) s->min, (unsigned long long) s->max);
		return false;
	}
	if (s->unit == UNIT_COUNT)
		__atomic_store_n((uint32_t *) field, (uint32_t) value, __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint64_t *) field, value, __ATOMIC_RELAXED);
	return true;
}

void
settings_default(struct settings *settings)
{
	struct status status;

	status_clear(&status);
	memset(settings, 0, sizeof(*settings));
	for (size_t i = 0; i < SETTINGS_COUNT; i++)
		set_value(settings, &settings_table[i], settings_table[i].value, &status);
}

bool
settings_set(struct settings *settings, const char *text, bool started, bool *ignored,
			 struct status *status)
{
	const char *equals = strchr(text, '=');
	size_t		length = equals != NULL ? (size_t) (equals - text) : strlen(text);

	*ignored = false;
	if (equals == NULL)
		return status_set(status, INFER_ERROR_INPUT, "setting \"%s\" has no value: name=value is expected", text);
	for (size_t i = 0; i < SETTINGS_COUNT; i++)
	{
		const struct setting *s = &settings_table[i];

		if (strlen(s->name) != length || memcmp(s->name, text, length) != 0)
			continue;
		if (started && !s->reloads)
		{
			*ignored = true;
			return true;
		}
		return set_value(settings, s, equals + 1, status);
	}
	return status_set(status, INFER_ERROR_INPUT, "unknown setting \"%.*s\"", (int) length, text);
}

void
settings_help(void)
{
	for (size_t i = 0; i < SETTINGS_COUNT; i++)
		printf("  %-15s %s (%s)\n", settings_table[i].name, settings_table[i].meaning, settings_table[i].value);
}
