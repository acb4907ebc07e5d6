/*
 * cores.c
 *	  How many cores this process may use: affinity and control groups.
 *
 * Version 2 (cgroups(7)): cpu.max is "QUOTA PERIOD" or "max PERIOD", in every group from
 * the process's own up to the root; the smallest counts.  Version 1: cpu.cfs_quota_us (−1:
 * none) and cpu.cfs_period_us, likewise.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

#define PATH_MAX_CORES	1024

static bool
read_line(const char *path, char *line, int size)
{
	FILE	   *file = fopen(path, "re");
	bool		found;

	if (file == NULL)
		return false;
	found = fgets(line, size, file) != NULL;
	fclose(file);
	return found;
}

/* The quota of one group; 0: none. */
static double
quota_v2(const char *directory)
{
	char		path[PATH_MAX_CORES + 32];
	char		line[128];
	double		quota;
	double		period;

	snprintf(path, sizeof(path), "%s/cpu.max", directory);
	if (!read_line(path, line, sizeof(line)) || sscanf(line, "%lf %lf", &quota, &period) != 2 ||
		period <= 0)
		return 0;
	return quota / period;
}

static double
quota_v1(const char *directory)
{
	char		path[PATH_MAX_CORES + 32];
	char		quota[64];
	char		period[64];

	snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", directory);
	if (!read_line(path, quota, sizeof(quota)) || atof(quota) <= 0)
		return 0;
	snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", directory);
	if (!read_line(path, period, sizeof(period)) || atof(period) <= 0)
		return 0;
	return atof(quota) / atof(period);
}

/* The smallest quota from a group up to the root of its hierarchy. */
static double
quota_upward(const char *root, const char *group, double (*quota) (const char *directory))
{
	char		path[PATH_MAX_CORES];
	size_t		root_length = strlen(root);
	double		least = 0;

	if ((size_t) snprintf(path, sizeof(path), "%s%s", root, group) >= sizeof(path))
		return 0;
	for (;;)
	{
		double		here;
		char	   *slash;

		while (strlen(path) > root_length && path[strlen(path) - 1] == '/')
			path[strlen(path) - 1] = '\0';
		here = quota(path);
		if (here > 0 && (least == 0 || here < least))
			least = here;
		slash = strrchr(path, '/');
		if (strlen(path) <= root_length || slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* Whether a comma-separated list holds a word. */
static bool
list_has(const char *list, const char *word)
{
	size_t		length = strlen(word);

	for (const char *at = list; at != NULL; at = strchr(at, ','))
	{
		at += *at == ',';
		if (strncmp(at, word, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return true;
	}
	return false;
}

double
pool_quota(const char *membership, const char *root)
{
	FILE	   *file = fopen(membership, "re");
	char		line[PATH_MAX_CORES];
	char		root_v1[PATH_MAX_CORES];
	double		least = 0;

	if (file == NULL)
		return 0;
	snprintf(root_v1, sizeof(root_v1), "%s/cpu", root);
	while (fgets(line, sizeof(line), file) != NULL)
	{
		/* hierarchy:controllers:group */
		char	   *controllers = strchr(line, ':');
		char	   *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
		double		here = 0;

		if (group == NULL)
			continue;
		*group++ = '\0';
		controllers++;
		group[strcspn(group, "\n")] = '\0';
		if (controllers[0] == '\0')
			here = quota_upward(root, group, quota_v2);
		else if (list_has(controllers, "cpu"))
			here = quota_upward(root_v1, group, quota_v1);
		if (here > 0 && (least == 0 || here < least))
			least = here;
	}
	fclose(file);
	return least;
}

int
pool_usable_cores(void)
{
	cpu_set_t	set;
	int			cores = 1;
	double		quota = pool_quota("/proc/self/cgroup", "/sys/fs/cgroup");

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cores = CPU_COUNT(&set);
	if (quota > 0 && quota < cores)
		cores = (int) quota;
	return cores < 1 ? 1 : cores;
}
