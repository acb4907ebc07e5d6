/*
 * residency.c
 *	  See residency.h.
 */
#include "residency.h"

int
residency_victim(const struct resident *models, uint32_t count)
{
	int			victim = -1;

	for (uint32_t i = 0; i < count; i++)
	{
		if (models[i].busy || models[i].bytes == 0)
			continue;
		if (victim < 0 || models[i].last_used < models[victim].last_used)
			victim = (int) i;
	}
	return victim;
}

uint64_t
residency_excess(uint64_t used, uint64_t wanted, uint64_t budget)
{
	if (budget == 0 || used + wanted <= budget)
		return 0;
	return used + wanted - budget;
}
