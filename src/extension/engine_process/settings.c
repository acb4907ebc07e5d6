/*
 * settings.c
 *	  What the engine is told: all settings on its command line and, changed, by the control pipe.
 *
 * Nouns
 *	control pipe	lines name=value to the engine; its end of file tells the engine that its
 *					supervisor is gone
 */
#include "postgres.h"

#include "internal.h"

typedef struct EngineSetting
{
	const char *name;
	const int  *number;
	char	  *const *text;			/* instead of number */
	bool		reloads;
	int			sent;				/* the number that the engine was told last */
	const bool *flag;				/* instead of number: 0 or 1 */
} EngineSetting;

static EngineSetting settings[] = {
	{"device", NULL, &infer_device, false},
	{"cpu_threads", &infer_cpu_threads, NULL, false},
	{"memory", &infer_memory, NULL, false},				/* MB */
	{"gpu_memory", &infer_gpu_memory, NULL, false},		/* MB */
	{"cache_size", &infer_cache_size, NULL, false},		/* MB */
	{"nice", &infer_nice, NULL, false},
	{"batch_rows", &infer_batch_rows, NULL, true},
	{"batch_tokens", &infer_batch_tokens, NULL, true},
	{"batch_delay", &infer_batch_delay, NULL, true},	/* usec */
	{"job_share", &infer_job_share, NULL, true},		/* percent */
	{"slice", &infer_slice, NULL, true},	/* usec */
	{"queue_limit", &infer_queue_limit, NULL, true},
	{"payload_limit", &infer_payload_limit, NULL, true},	/* kB */
	{"engine_timeout", &infer_engine_timeout, NULL, true},	/* ms */
	{"log_requests", NULL, NULL, true, .flag = &infer_log_requests},
};

static int
setting_number(const EngineSetting *setting)
{
	return setting->flag != NULL ? *setting->flag : *setting->number;
}

#define ENGINE_ARGUMENTS (18 + 2 * lengthof(settings))

static int	control_fd = -1;
static char control_line[128];		/* a line that is being written */
static int	control_used = 0;
static int	control_sent = 0;

void
settings_begin(int fd)
{
	control_fd = fd;
	control_used = control_sent = 0;
}

void
settings_end(void)
{
	close_fd(&control_fd);
}

char **
settings_arguments(char *path, char *library, const char *without_cuda)
{
	char	  **argv = palloc(sizeof(char *) * ENGINE_ARGUMENTS);
	int			n = 0;

	argv[n++] = path;
	argv[n++] = "--socket";
	argv[n++] = INFER_SOCKET;
	argv[n++] = "--lock";
	argv[n++] = INFER_LOCK;
	argv[n++] = "--cache";
	argv[n++] = INFER_CACHE;
	if (library != NULL)
	{
		argv[n++] = "--cuda";
		argv[n++] = library;
	}
	if (without_cuda != NULL)
	{
		argv[n++] = "--without-cuda";
		argv[n++] = pstrdup(without_cuda);
	}
	argv[n++] = "--status-fd";
	argv[n++] = psprintf("%d", ENGINE_FD_STATUS);
	argv[n++] = "--control-fd";
	argv[n++] = psprintf("%d", ENGINE_FD_CONTROL);
	for (int i = 0; i < lengthof(settings); i++)
	{
		EngineSetting *setting = &settings[i];

		argv[n++] = "--setting";
		if (setting->text != NULL)
			argv[n++] = psprintf("%s=%s", setting->name, *setting->text);
		else
			argv[n++] = psprintf("%s=%d", setting->name, setting->sent = setting_number(setting));
	}
	argv[n] = NULL;
	return argv;
}

/* The next setting to tell, as a line in control_line; false: the engine knows them all. */
static bool
control_next(void)
{
	for (int i = 0; i < lengthof(settings); i++)
	{
		EngineSetting *setting = &settings[i];

		if (setting->reloads && setting->sent != setting_number(setting))
		{
			setting->sent = setting_number(setting);
			control_used = snprintf(control_line, sizeof(control_line), "%s=%d\n",
									setting->name, setting->sent);
			control_sent = 0;
			return true;
		}
	}
	return false;
}

bool
engine_process_settings(void)
{
	ssize_t		sent;

	while (control_fd >= 0 && (control_sent < control_used || control_next()))
	{
		sent = write(control_fd, control_line + control_sent, control_used - control_sent);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return errno == EAGAIN;		/* EPIPE: the engine has gone, and a new one is told all */
		control_sent += sent;
	}
	return false;
}
